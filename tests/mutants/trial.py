"""Tries one mutant: plants it, runs the tests that reach it, and makes sure that who found it found the bug.

A failure of a test with real time in it counts once it came again with the bug, and not without it: so a test that
fails now and then is no proof. A test that reaches pure code alone says the same each time.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.mutants.copies import Copy
from tests.mutants.forks import Forks
from tests.mutants.naming import Naming
from tests.mutants.operators import Mutant
from tests.mutants.reach import Place, Places, Reach
from tests.mutants.running import Outcome, run

FIRST = 12.0  # seconds of tests, by their recorded times, that run before the many files of the rest are imported
FIRST_FILES = 5
TIMED = ("glue/network/", "glue/drivers/", "glue/aio/", "glue/cmd/", "spark/session")  # no test of these is sure
QUICK = 1.0  # seconds that a test takes at most which runs because it names a constant
AT_LEAST = 3  # tests that run whatever the budget
PAGE_TEST = "tests/docs/test_limits.py::test_limits[{}]"  # compares the constants of a module with docs/limits.md
DOUBTS = 3  # failures that did not come again, until a mutant is given up as one that nobody can judge


@dataclass
class Result:
    """What became of one mutant."""

    mutant: Mutant
    digest: str
    found: bool
    by: str
    met: int
    left: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Result:
        return cls(**{**data, "mutant": Mutant(**data["mutant"])})


class Bench:
    """One worker's place: a copy of its own, and a pytest that waits in it."""

    def __init__(
        self, copy: Copy, work: Path, reach: Reach, places: Places, imported: set[Place], budget: float
    ) -> None:
        self._copy = copy
        self._work = work
        self._reach = reach
        self._places = places
        self._naming = Naming(copy.home)
        self._imported = imported
        self._budget = budget
        self._forks: Forks | None = None
        self._forked: set[str] = set()

    def wait_for(self, mutants: list[Mutant]) -> Forks:
        """Start a pytest with all the tests that these mutants need."""
        tests = {test for mutant in mutants if self._is_planted(mutant) for test in self._chosen(mutant)[0]}
        self._forks = Forks(self._copy, self._work / "forks", _files(sorted(tests)))
        self._forked = set(self._forks.tests)
        return self._forks

    def _is_planted(self, mutant: Mutant) -> bool:
        """Whether the code of this mutant runs only once the sources are imported."""
        place = self._places.within(mutant)
        return place is not None and place not in self._imported

    def _chosen(self, mutant: Mutant) -> tuple[list[str], int]:
        """The tests to run, and how many more reach the mutant."""
        parts = mutant.path.split("/")
        area = f"{parts[1]}/" if parts[0] == "glue" and len(parts) > 2 else "spark/" if parts[0] == "spark" else "test_"
        reaching = self._reach.tests_at(self._places.of(mutant), area)
        if self._places.within(mutant) is None:  # these need not reach any function of the source
            named = self._naming.tests(self._reach.hits, self._places.names(mutant))
            quick = [test for test in named if self._reach.seconds[test] < QUICK]
            page = [test for test in (PAGE_TEST.format(mutant.path),) if test in self._reach.hits]
            reaching = list(dict.fromkeys([*page, *quick, *reaching]))
        chosen = self._within_budget(reaching)
        return chosen, len(reaching) - len(chosen)

    def try_out(self, mutant: Mutant, source: str, digest: str) -> Result:
        """Return whether a test found this mutant; the copy is as before then."""
        began = time.monotonic()
        chosen, left = self._chosen(mutant)
        self._copy.write(mutant.path, mutant.apply(source))
        try:
            by = self._find(chosen, mutant, source)
        finally:
            self._copy.write(mutant.path, source)
        return Result(mutant, digest, by != "", by, len(chosen), left, round(time.monotonic() - began, 1))

    def _within_budget(self, tests: list[str]) -> list[str]:
        spent = 0.0
        for number, test in enumerate(tests):
            spent += self._reach.seconds[test]
            if spent > self._budget and number >= AT_LEAST:
                return tests[:number]
        return tests

    def _find(self, tests: list[str], mutant: Mutant, source: str) -> str:
        doubts = 0
        if self._forks is not None and self._is_planted(mutant):
            part = [test for test in tests if test in self._forked]
            while part and doubts < DOUBTS:
                outcome = self._forks.run(part, self._reach.seconds, (mutant, source))
                if outcome is None:  # it cannot be planted in what is imported
                    break
                by, part = self._judge(outcome, part, mutant, source, self._forks)
                if by:
                    return by
                doubts += bool(part)
            else:
                tests = [test for test in tests if test not in self._forked]
        first = self._first(tests)
        for part in (first, tests[len(first) :]):
            while part and doubts < DOUBTS:
                outcome = run(self._copy, self._work, _files(part), part, self._reach.seconds)
                by, part = self._judge(outcome, part, mutant, source, None)
                if by:
                    return by
                doubts += bool(part)
        return ""

    def _judge(
        self, outcome: Outcome, part: list[str], mutant: Mutant, source: str, forks: Forks | None
    ) -> tuple[str, list[str]]:
        """Return which test found the mutant, if one did, and the tests that did not run."""
        failed = outcome.failed
        if failed is None:
            return "", []
        is_pure = outcome.ended == "finished" and not self._is_timed(failed)
        if failed not in part or is_pure or self._is_sure(failed, mutant, source, forks):
            return (f"{failed} ({outcome.ended})" if outcome.ended != "finished" else failed), []
        ran = {t["test"] for t in outcome.tests}
        return "", [t for t in part if t not in ran and t != failed]

    def _first(self, tests: list[str]) -> list[str]:
        spent = 0.0
        files: set[str] = set()
        for number, test in enumerate(tests):
            spent += self._reach.seconds[test]
            files.add(test.partition("::")[0])
            if number and (spent > FIRST or len(files) > FIRST_FILES):
                return tests[:number]
        return tests

    def _is_timed(self, test: str) -> bool:
        return any(name.startswith(TIMED) for name in self._reach.hits.get(test, ()))

    def _is_sure(self, test: str, mutant: Mutant, source: str, forks: Forks | None) -> bool:
        if not self._fails(test, forks, (mutant, source)):
            return False
        self._copy.write(mutant.path, source)
        is_clean = not self._fails(test, forks, None)
        self._copy.write(mutant.path, mutant.apply(source))
        return is_clean

    def _fails(self, test: str, forks: Forks | None, bug: tuple[Mutant, str] | None) -> bool:
        seconds = self._reach.seconds
        outcome = forks.run([test], seconds, bug) if forks is not None else None
        if outcome is None:
            outcome = run(self._copy, self._work, _files([test]), [test], seconds)
        return outcome.failed is not None


def _files(tests: list[str]) -> list[str]:
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))
