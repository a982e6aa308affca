"""Which tests reach which code, recorded once in an instrumented copy and kept in `.mutants/` until either changes.

A test file is recorded by itself. Its record holds as long as the file, the helpers of the tests and every source that
it reached are what they were; so a new test costs its own recording only.

With `older`, a record of older sources holds, too: a stretch is the one that has its function's name and its number
within the function. Stretches that a function did not have then count as reached if the function was.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants.copies import Copy, digest
from tests.mutants.forks import Forks, may_fork
from tests.mutants.operators import Mutant
from tests.mutants.probes import CAPACITY, MODULE, SOURCE, VARIABLE, Prober, Stretches
from tests.mutants.running import Outcome, run

LEFT_OUT = (
    "tests/repository/test_style.py", "tests/mutants/",  # these judge the sources' text, or the tool itself
    "tests/spark/test_cluster.py",  # this runs a wheel without glue's tests, where no probe can be
)  # fmt: skip
LONGEST = 900.0  # seconds that one test may take while its reach is recorded
NEAR = 0.05  # a test of the mutant's own area, or a recorded run, comes as if it took this share of its time
IMPORTING = """
import contextlib, importlib, sys
for name in sys.argv[1:]:
    with contextlib.suppress(BaseException):
        importlib.import_module(name)
"""
Place = tuple[str, int]  # a source and the number of a stretch within it


@dataclass
class Reach:
    """What each test reached: for each source a number whose bits are the stretches."""

    hits: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)  # what did not pass without a bug, and why

    def add(self, record: dict[str, Any]) -> None:
        """Take the record of one test file."""
        shared = {name: int(bits, 16) for name, bits in record["shared"].items()}
        if record["problem"]:
            self.failing[record["file"]] = record["problem"]
        for test in record["tests"]:
            if test["outcome"] == "passed":
                own = {name: int(bits, 16) for name, bits in test["hits"].items()}
                self.hits[test["test"]] = {n: own.get(n, 0) | shared.get(n, 0) for n in own.keys() | shared.keys()}
                self.seconds[test["test"]] = test["seconds"]
            elif test["outcome"] == "failed":
                self.failing[test["test"]] = test.get("why") or "failed"

    def tests_at(self, places: set[Place], area: str) -> list[str]:
        """Return the tests that reach any of these places: those of the area first, then the quick ones."""
        masks: dict[str, int] = defaultdict(int)
        for name, number in places:
            masks[name] |= 1 << number
        found = [t for t, hits in self.hits.items() if any(hits.get(n, 0) & mask for n, mask in masks.items())]
        near = f"tests/{area}", "tests/recorded/"
        return sorted(found, key=lambda t: (self.seconds[t] + 0.01) * (NEAR if t.startswith(near) else 1))


class Recorder:
    """Records what is not known yet, in as many copies as there are workers."""

    def __init__(self, files: list[str], sources: dict[str, str], cache: Path, older: bool = False) -> None:
        self._older = older
        self._prober = Prober()
        self._files = files
        self._cache = cache
        self._lock = threading.Lock()
        self.stretches: dict[str, Stretches] = {}
        self.instrumented: dict[str, str] = {}
        self._owners: list[Place] = []
        for name, source in sources.items():
            self.instrumented[name], self.stretches[name] = self._prober.instrument(source)
            self._owners += [(name, i) for i in range(len(self.stretches[name].numbers))]
        self._digests = {name: digest(source) for name, source in sources.items()}
        self._names = self._keep_names(cache.with_name("stretches.jsonl"))

    def _keep_names(self, cache: Path) -> dict[str, list[str]]:
        """The names of the stretches of each source that is or was, by its digest."""
        lines = cache.read_text().splitlines() if cache.exists() else []
        names = {key: value for line in lines for key, value in json.loads(line).items()}
        new = {self._digests[n]: s.names for n, s in self.stretches.items() if self._digests[n] not in names}
        if new:
            with cache.open("ab", buffering=0) as file:
                file.write(json.dumps(new).encode() + b"\n")
        return names | new

    def helpers(self, root: Path, name: str) -> str:
        """Return a digest of what a test file takes from other files of the tests, directly or not."""
        known = set(self._files)
        taken = {f"{parent}/conftest.py" for parent in Path(name).parents} & known
        todo = [name, *taken]
        while todo:
            for imported in ast.walk(ast.parse((root / todo.pop()).read_text())):
                for module in _modules(imported):
                    found = {f"{module.replace('.', '/')}.py"} & known - taken
                    taken |= found
                    todo += found
        return digest("".join(digest((root / n).read_bytes()) for n in sorted(taken)))

    def record(
        self, root: Path, copies: list[Copy], tests: list[str], work: Path, told: Callable[[str], None]
    ) -> Reach:
        """Return what these test files reach, recording what is new."""
        reach = Reach()
        known = self._known(root)
        todo: list[str] = []
        for name in tests:
            record = known.get(name)
            if record is not None and (not copies or self._holds(record, root / name)):
                reach.add(record)
            else:
                todo.append(name)
        if todo and copies:
            told(f"recording what {len(todo)} test files reach")
        threads = [
            threading.Thread(target=self._work, args=(root, c, todo[i :: len(copies)], work / f"reach{i}", reach, told))
            for i, c in enumerate(copies if todo else [])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return reach

    def _holds(self, record: dict[str, Any], path: Path) -> bool:
        """Whether a record need not be made anew: a test that failed may only have had too little time."""
        is_sound = all(test["outcome"] != "failed" for test in record["tests"])
        return is_sound and record["digest"] == digest(path.read_bytes())

    def _known(self, root: Path) -> dict[str, dict[str, Any]]:
        known: dict[str, dict[str, Any]] = {}
        if self._cache.exists():
            for line in self._cache.read_text().splitlines():
                record = json.loads(line)
                if self._older:
                    record = self._of_today(record)
                if all(self._digests.get(n) == d for n, d in record["of"].items()):
                    known[record["file"]] = record
        for name in [name for name in known if not (root / name).exists()]:
            del known[name]
        return {name: r for name, r in known.items() if self._older or r["helpers"] == self.helpers(root, name)}

    def _of_today(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record in numbers of the sources as they are now; what they no longer have is left out."""
        of = {n: d for n, d in record["of"].items() if n in self._digests and d in self._names}
        changed = {n: d for n, d in of.items() if d != self._digests[n]}
        if of.keys() == record["of"].keys() and not changed:
            return record

        def moved(hits: dict[str, str]) -> dict[str, str]:
            return {
                n: self._moved(n, changed[n], bits) if n in changed else bits for n, bits in hits.items() if n in of
            }

        tests = [{**test, "hits": moved(test["hits"])} for test in record["tests"]]
        return {**record, "of": {n: self._digests[n] for n in of}, "shared": moved(record["shared"]), "tests": tests}

    def _moved(self, name: str, before: str, bits: str) -> str:
        number = int(bits, 16)
        had = self._names[before]
        hit = {had[i] for i in range(len(had)) if number >> i & 1}
        known = set(had)
        now = self.stretches[name].names
        hits = [n in hit or (n not in known and f"{n.partition('#')[0]}#0" in hit) for n in now]
        return f"{sum(1 << i for i, is_hit in enumerate(hits) if is_hit):x}"

    def prepare(self, copy: Copy) -> None:
        """Put the probes into the sources of a copy."""
        for name, text in self.instrumented.items():
            copy.write(name, text)
        copy.write(f"{MODULE}.py", SOURCE)

    def imported(self, copy: Copy, work: Path) -> set[Place]:
        """Return the stretches that run when the sources are imported; a copy with probes is needed."""
        work.mkdir(parents=True, exist_ok=True)
        hits = work / "hits"
        hits.write_bytes(bytes(CAPACITY))
        modules = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in self.stretches]
        environment = {**os.environ, "PYTHONPATH": str(copy.home), VARIABLE: str(hits)}
        command = [sys.executable, "-c", IMPORTING, *modules]
        subprocess.run(command, cwd=copy.home, env=environment, capture_output=True, check=False)
        return {self._owners[i] for i, byte in enumerate(hits.read_bytes()) if byte}

    def _work(
        self, root: Path, copy: Copy, todo: list[str], work: Path, reach: Reach, told: Callable[[str], None]
    ) -> None:  # fmt: skip
        self.prepare(copy)
        hits = work / "hits"
        forked = [name for name in todo if may_fork(copy.home, name)]
        single = [name for name in todo if name not in forked]
        with suppress(KeyboardInterrupt):
            if forked:
                with Forks(copy, work / "forks", forked, hits) as forks:
                    for name in forked:
                        tests = [test for test in forks.tests if test.partition("::")[0] == name]
                        outcome = forks.run(tests, {}, stop=False, patience=LONGEST) if tests else None
                        if outcome is None:
                            single.append(name)
                        else:
                            outcome.shared = sorted({*outcome.shared, *forks.imported})
                            self._keep(root, name, outcome, reach, told)
            for name in single:
                outcome = run(copy, work, [name], stop=False, hits=hits, patience=LONGEST)
                self._keep(root, name, outcome, reach, told)

    def _keep(self, root: Path, name: str, outcome: Outcome, reach: Reach, told: Callable[[str], None]) -> None:
        record = self._record_of(name, outcome)
        record.update(helpers=self.helpers(root, name), digest=digest((root / name).read_bytes()))
        with self._lock:
            reach.add(record)
            if not record["problem"]:  # tried again next time
                with self._cache.open("ab", buffering=0) as file:  # in one piece: another run may write, too
                    file.write(json.dumps(record).encode() + b"\n")
            seconds = sum(t["seconds"] for t in record["tests"])
            told(f"  {name}: {len(record['tests'])} tests, {seconds:.1f} s{record['problem'] and ', ended early'}")

    def _record_of(self, name: str, outcome: Outcome) -> dict[str, Any]:
        shared = self._by_source(outcome.shared)
        tests = [{**t, "hits": self._by_source(t["hits"])} for t in outcome.tests]
        reached = {n for t in tests for n in t["hits"]} | set(shared)
        early = outcome.ended != "finished" or not outcome.collected
        problem = f"{outcome.ended}: {outcome.current}\n{outcome.output}" if early else ""
        return {
            "file": name,
            "of": {n: self._digests[n] for n in sorted(reached)},
            "shared": shared,
            "tests": tests,
            "problem": problem,
        }

    def _by_source(self, hits: list[int]) -> dict[str, str]:
        bits: dict[str, int] = defaultdict(int)
        for number in hits:
            if number < len(self._owners):
                name, within = self._owners[number]
                bits[name] |= 1 << within
        return {name: f"{value:x}" for name, value in bits.items()}


def _modules(node: ast.AST) -> list[str]:
    """The modules of the tests that an import may name."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
        return [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return (
        [alias.name for alias in node.names if alias.name.startswith("tests.")] if isinstance(node, ast.Import) else []
    )


class Places:
    """Where the code of a mutant runs: its own stretch, or for what stands outside of functions those that use it."""

    def __init__(self, sources: dict[str, str], stretches: dict[str, Stretches]) -> None:
        self._stretches = stretches
        self._trees = {name: ast.parse(source) for name, source in sources.items()}
        self._users: dict[str, set[Place]] = defaultdict(set)
        self._outside: dict[str, set[str]] = defaultdict(set)  # a name → names whose definition outside mentions it
        for name, tree in self._trees.items():
            for node in ast.walk(tree):
                mentioned = _name_in(node)
                if mentioned:
                    number = self._number(name, node.lineno)  # type: ignore[attr-defined]
                    if number is not None:
                        self._users[mentioned].add((name, number))
            for statement in _outside_of_functions(tree):
                for defined in _defined(statement):
                    for node in ast.walk(statement):
                        if _name_in(node) not in ("", defined):
                            self._outside[_name_in(node)].add(defined)

    def _number(self, name: str, line: int) -> int | None:
        number = self._stretches[name].of_line.get(line)
        return None if number is None else number - self._stretches[name].numbers[0]

    def within(self, mutant: Mutant) -> Place | None:
        """Return the stretch that the mutant is in; None outside of functions."""
        number = self._number(mutant.path, mutant.line)
        return None if number is None else (mutant.path, number)

    def names(self, mutant: Mutant) -> set[str]:
        """Return what a mutant outside of functions changes: the name it defines, and those defined by this one."""
        defined: set[str] = set()
        for statement in _outside_of_functions(self._trees[mutant.path]):
            if statement.lineno <= mutant.line <= (statement.end_lineno or 0):
                defined |= _defined(statement)
        return defined | {further for name in defined for further in self._outside[name]}

    def of(self, mutant: Mutant) -> set[Place]:
        """Return the stretches that a test must reach to notice this mutant."""
        number = self._number(mutant.path, mutant.line)
        if number is not None:
            return {(mutant.path, number)}
        users = {place for name in self.names(mutant) for place in self._users[name]}
        return users or {(mutant.path, i) for i in range(len(self._stretches[mutant.path].numbers))}


def _name_in(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.keyword(arg=str() as name):
            return name
    return ""


def _outside_of_functions(node: ast.AST) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.If | ast.Try | ast.With):
            found += _outside_of_functions(child)
        elif isinstance(child, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr):
            found.append(child)
    return found


def _defined(statement: ast.stmt) -> set[str]:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return {_name_in(n) for target in targets if target is not None for n in ast.walk(target)} - {""}
