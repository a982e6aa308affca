"""The tool that plants bugs: where it plants them, that a seed gives a sample, and that a run leaves the tree alone."""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.docs import test_limits
from tests.mutants import trial
from tests.mutants.__main__ import Run, parse, sample
from tests.mutants.copies import ROOT, Copy, digest
from tests.mutants.exempt import EXEMPT
from tests.mutants.forks import may_fork
from tests.mutants.naming import Naming
from tests.mutants.operators import Mutant, is_a_program, mutants_of
from tests.mutants.planting import NotPlantedError, functions, plant
from tests.mutants.probes import MODULE, Prober
from tests.mutants.reach import Places, Reach, Recorder

SOURCE = '''"""What it is."""

from __future__ import annotations

__all__ = ["within"]


def within(value: int, most: int = 9) -> bool:
    """Whether 0 < value <= most."""
    log.debug("%d", value + 1)
    assert value != 3
    return 0 < value and value <= most


def added(values, one):
    total = 0
    for value in values:
        if value < 0:
            continue
        total += value
    one.note(total)
    return total
'''


def planted(source: str, seed: int) -> dict[int, str]:
    """What one line became, by its number."""
    mutants = mutants_of("x.py", source, Random(seed))
    return {mutant.line: mutant.apply(source).splitlines()[mutant.line - 1].strip() for mutant in mutants}


def test_bugs_are_planted_where_a_test_should_notice_and_nowhere_else() -> None:
    lines = {line for seed in range(20) for line in planted(SOURCE, seed)}
    assert lines == {8, 12, 16, 18, 19, 20, 21}


def test_every_kind_of_bug_of_a_place_comes_with_some_seed() -> None:
    became = {planted(SOURCE, seed).get(20) for seed in range(30)}
    assert became == {"pass", "total -= value"}
    source = "def f(a: int) -> int:\n    return g(a, 5)\n"
    mutants = [m for seed in range(30) for m in mutants_of("x.py", source, Random(seed))]
    assert {m.apply(source).splitlines()[1].strip() for m in mutants} == {
        "return g(5, a)",
        "return g(a, 4)",
        "return g(a, 6)",
    }


DECLARED = '''
class Base:
    @overload
    def one(self, a: int = 1) -> int: ...
    @overload
    def one(self, a: str, b: int = 2) -> str: ...
    def stub(self, a: int = 1) -> int: ...
    def needed(self, a: int = 1) -> int:
        """What it is."""
        raise NotImplementedError
    def refused(self, a: int = 1) -> int:
        self.done(a)
        raise NotImplementedError
'''


def test_no_bug_is_planted_in_what_never_runs() -> None:
    assert {line for seed in range(20) for line in planted(DECLARED, seed)} == {11, 12, 13}


ENDS = """
def f(self, values):
    for value in values:
        try:
            self.take(value)
        except KeyError:
            continue
    for value in values:
        if value:
            continue
        self.take(value)
    with self.lock:
        if self.a:
            return
        elif self.b:
            self.take(0)
            return
    self.take(1)
    if self.c:
        return
"""


def test_what_ends_where_the_end_is_anyway_is_no_place_for_a_bug() -> None:
    assert {line for seed in range(20) for line, text in planted(ENDS, seed).items() if text == "pass"} >= {10, 14, 17}
    assert not {7, 20} & {line for seed in range(20) for line in planted(ENDS, seed)}


@pytest.mark.parametrize(
    ("line", "became"),
    [
        ("if a > b: b = a", {"(a <= b)"}),
        ("if a > b: c = a", {"(a >= b)", "(a <= b)"}),
        ("if a > b: b = a\n  else: c = a", {"(a >= b)", "(a <= b)"}),
        ("return a if a < b else b", {"(a >= b)"}),
        ("return hmac.compare_digest(a, b)", set()),
        ("return min(a, b)", {"max"}),
        ("return zip(a, b, strict=True)", {"zip(b, a, strict=True)"}),
    ],
)
def test_a_bug_changes_what_a_program_means(line: str, became: set[str]) -> None:
    source = f"def f(a, b):\n  {line}\n"
    mutants = [m for seed in range(40) for m in mutants_of("x.py", source, Random(seed))]
    wanted = {
        m.replacement
        for m in mutants
        if m.operator in ("comparison", "other function", "swapped arguments", "constant")
    }
    assert wanted == became


def test_a_bug_is_one_replaced_span_and_shows_as_a_short_diff() -> None:
    mutant = next(m for m in mutants_of("x.py", SOURCE, Random(1)) if m.line == 20)
    assert is_a_program(mutant, SOURCE)
    assert [line[0] for line in mutant.diff(SOURCE).splitlines()] == [" ", "-", "+", " "]


def test_constants_that_are_left_alone_exist() -> None:
    for name, constants in EXEMPT.items():
        source = (ROOT / name).read_text()
        assigned = {
            n.id
            for s in ast.parse(source).body
            if isinstance(s, ast.Assign | ast.AnnAssign)
            for n in ast.walk(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        assert set(constants) <= assigned, name
        lines = {
            source.splitlines()[mutant.line - 1].partition(" = ")[0].partition(":")[0]
            for mutant in mutants_of(name, source, Random(1))
        }
        assert not lines & set(constants)


def test_letters_of_several_bytes_do_not_move_a_bug() -> None:
    source = 'def f(a: int) -> bool:\n    return "→ä" != a\n'
    (mutant,) = (m for m in mutants_of("x.py", source, Random(3)) if m.operator == "comparison")
    assert mutant.apply(source).splitlines()[1] == "    return ('→ä' == a)"


def test_the_same_seed_gives_the_same_sample() -> None:
    sources = {"glue/a.py": SOURCE, "spark/b.py": SOURCE.replace("total", "sum_")}
    first = sample(sources, ["glue", "spark"], "7", 6)
    assert first == sample(sources, ["glue", "spark"], "7", 6)
    assert len(set(first)) == 6
    assert first != sample(sources, ["glue", "spark"], "8", 6)
    assert {mutant.path for mutant in sample(sources, ["spark"], "7", 6)} == {"spark/b.py"}


def test_a_probe_notes_which_stretches_were_reached() -> None:
    text, stretches = Prober().instrument(SOURCE)
    hits = bytearray(64)
    space: dict[str, object] = {"log": SimpleNamespace(debug=print)}
    program = compile(text.replace(f"from {MODULE} import HITS as __mutants_hits__", ""), "x.py", "exec")
    exec(program, {**space, "__mutants_hits__": hits}, space)
    added = space["added"]
    assert callable(added)
    assert added([1, 2], SimpleNamespace(note=int)) == 3
    reached = {line for line, number in stretches.of_line.items() if hits[number]}
    assert {15, 16, 17, 18, 20, 21, 22} <= reached
    assert not reached & {8, 12, 19}
    assert stretches.names == ["within#0", *(f"added#{number}" for number in range(len(stretches.names) - 1))]


def test_what_older_sources_reached_is_found_by_the_names_of_functions(tree: Path) -> None:
    cache = tree / ".mutants" / "reach.jsonl"
    cache.parent.mkdir()
    record = {"file": "tests/test_x.py", "helpers": "", "digest": "", "shared": {}, "problem": ""}
    before = {"glue/x.py": "def a() -> int:\n    return 1\n\n\ndef b() -> int:\n    return 2\n"}
    Recorder(["tests/test_x.py"], before, cache)
    of, test = {"glue/x.py": digest(before["glue/x.py"])}, {"test": "t", "outcome": "passed", "seconds": 1.0}
    cache.write_text(json.dumps({**record, "of": of, "tests": [{**test, "hits": {"glue/x.py": "2"}}]}) + "\n")
    now = {"glue/x.py": "def c() -> int:\n    return 3\n\n\n" + before["glue/x.py"]}
    assert Recorder(["tests/test_x.py"], now, cache)._known(tree) == {}
    (known,) = Recorder(["tests/test_x.py"], now, cache, older=True)._known(tree).values()
    assert known["tests"][0]["hits"] == {"glue/x.py": "4"}


@pytest.mark.parametrize(("outcome", "holds"), [("passed", True), ("failed", False)])
def test_what_failed_while_it_was_recorded_is_recorded_again(tree: Path, outcome: str, holds: bool) -> None:
    path = tree / "tests" / "test_x.py"
    path.write_text("")
    recorder = Recorder(["tests/test_x.py"], {}, tree / "reach.jsonl")
    record = {"digest": digest(b""), "tests": [{"test": "t", "outcome": outcome}]}
    assert recorder._holds(record, path) == holds
    assert not recorder._holds({**record, "digest": "of another text"}, path)


def test_only_tests_that_start_no_program_and_leave_nothing_run_in_children(tmp_path: Path) -> None:
    (tmp_path / "tests" / "spark").mkdir(parents=True)
    for name, text in (
        ("plain", "import numpy"),
        ("java", "def test(spark: SparkSession)"),
        ("ends", "import subprocess"),
    ):
        (tmp_path / "tests" / "spark" / f"test_{name}.py").write_text(text)
    names = [f"tests/{name}.py" for name in ("topics/test_x", "docs/test_x", "spark/test_plain", "spark/test_java")]
    assert [may_fork(tmp_path, name) for name in (*names, "tests/spark/test_ends.py")] == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_a_bug_is_planted_in_functions_that_are_imported_already(tmp_path: Path) -> None:
    path = tmp_path / "planted_here.py"
    lines = [
        "import functools",
        "@functools.cache",
        "def f(a, b=1):",
        "    return [x for x in range(9) if x < a]",
        "C = 3",
    ]
    path.write_text("\n".join(lines))
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    bound = space["f"]
    plant(path.name, path.read_text(), path.read_text().replace("x < a", "x <= a"), 4, functions())
    assert bound(3) == [0, 1, 2, 3]
    for before, after in (("b=1", "b=2"), ("C = 3", "C = 4")):
        text = path.read_text()
        with pytest.raises(NotPlantedError):
            plant(path.name, text, text.replace(before, after), 3 if "b" in before else 5, functions())


def test_a_constant_outside_of_functions_is_first_compared_with_the_page_of_limits(tmp_path: Path) -> None:
    source = "LIMIT = 10\n\n\ndef within(a: int) -> bool:\n    return a < LIMIT + 1\n"
    places = Places({"glue/x.py": source}, {"glue/x.py": Prober().instrument(source)[1]})
    user, page, other = "tests/test_x.py::test_it", *map(trial.PAGE_TEST.format, ("glue/x.py", "glue/y.py"))
    reach = Reach({user: {"glue/x.py": 1}, page: {}, other: {}}, {user: 0.1, page: 0.2, other: 0.1})
    bench = trial.Bench(Copy(tmp_path / "copy", [], tmp_path), tmp_path, reach, places, set(), 9.0)
    assert bench._chosen(Mutant("glue/x.py", 1, 8, 10, "11", "constant")) == ([page, user], 0)
    assert bench._chosen(Mutant("glue/x.py", 5, 58, 59, "2", "constant")) == ([user], 0)


def test_a_constant_is_looked_at_by_the_tests_that_name_it_unless_all_do(tmp_path: Path) -> None:
    tests = tmp_path / "tests" / "test_x.py"
    tests.parent.mkdir()
    tests.write_text(
        "def test_named() -> None:\n    assert x.LIMIT == 10\n\n\n"
        "@pytest.mark.parametrize('name', ['LIMIT'])\ndef test_given(name: str) -> None:\n    assert name\n\n\n"
        "def test_another() -> None:\n    assert x.LIMITS\n\n\n"
        "TABLE = [x.LIMIT]\n\n\ndef test_listed() -> None:\n    assert TABLE\n"
    )
    naming = Naming(tmp_path)
    known = [f"tests/test_x.py::test_{name}" for name in ("named", "given[LIMIT]", "listed", "another")]
    assert naming.tests([*known, "tests/test_gone.py::test_named"], {"LIMIT"}) == known[:3]
    assert naming.tests([f"tests/test_x.py::test_named[{number}]" for number in range(51)], {"LIMIT"}) == []


def test_the_test_of_the_page_of_limits_has_a_case_for_a_module_with_constants() -> None:
    file, _, case = trial.PAGE_TEST.format("glue/topics/limits.py").partition("::")
    assert f"/{file}" in test_limits.__file__
    assert case in {f"{test_limits.test_limits.__name__}[{path}]" for path in test_limits.MODULES}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository with one function and one test, which does not look at the bound."""
    root = tmp_path / "tree"
    (root / "glue").mkdir(parents=True)
    (root / "glue" / "__init__.py").write_text('"""Nothing."""\n')
    (root / "glue" / "x.py").write_text("def within(a: int) -> bool:\n    return a < 10\n")
    shutil.copytree(ROOT / "tests" / "mutants", root / "tests" / "mutants", ignore=shutil.ignore_patterns("test_*"))
    test = "from glue.x import within\n\n\ndef test_it() -> None:\n    assert within(3) and not within(30)\n"
    (root / "tests" / "test_x.py").write_text(test)
    (root / ".gitignore").write_text(".mutants/\n")
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    return root


def test_a_bug_that_lets_no_test_be_imported_counts_as_found(tree: Path, tmp_path: Path) -> None:
    (tree / "glue" / "x.py").write_text("def made(a: int) -> int:\n    return 6 // (a - 2)\n\n\nTWO = made(3)\n")
    (tree / "tests" / "test_x.py").write_text("from glue.x import TWO\n\n\ndef test_it() -> None:\n    assert TWO\n")
    run = Run(arguments("--count", "9"), tree)
    run.mutants = [m for m in run.mutants if m.line == 5 and m.apply(run.sources[m.path]).endswith("made(2)\n")]
    run.mutants = run.mutants or [Mutant("glue/x.py", 5, 62, 63, "2", "constant")]
    assert run.mutants[0].apply(run.sources["glue/x.py"]).endswith("made(2)\n")
    run.go(tmp_path / "run")
    assert [(result.found, result.by) for result in run.results.values()] == [(True, "collection")]


def arguments(*words: str) -> argparse.Namespace:
    return parse(["--seed", "1", "--workers", "1", *words])


def test_a_run_tells_survivors_goes_on_later_and_leaves_the_tree_alone(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    first = Run(arguments("--count", "1"), tree)
    first.go(tmp_path / "first")
    assert len(first.results) == 1
    second = Run(arguments("--count", "2"), tree)
    assert set(second.results) == set(first.mutants)
    monkeypatch.setattr(trial, "run", None)  # all of it in children
    second.go(tmp_path / "second")
    assert {r.mutant.operator: r.found for r in second.results.values()} in (
        {"comparison": True, "constant": False},
        {"comparison": False, "constant": False},
        {"negation": True, "constant": False},
    )
    report = second.report()
    assert "glue/x.py:2: constant; 1 tests met it" in report
    assert "+    return a < " in report
    after = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file() and ".mutants" not in path.parts}
    assert after == before
