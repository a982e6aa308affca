"""The swarm of keepers on faulty disks: no seed breaks a promise, and every planted bug is found.

By hand, with many seeds: `python -m tests.storage.test_swarm 0 100000`.
"""

from __future__ import annotations

import sys

import pytest

from tests.storage.planted_bugs import BUGS, planted
from tests.storage.swarm import first_violation

SEEDS = 40


def test_no_seed_breaks_a_promise() -> None:
    assert first_violation(range(SEEDS)) is None


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found(bug: str) -> None:
    with planted(bug):
        assert first_violation(range(BUGS[bug].near, 1000)) is not None, BUGS[bug].what


if __name__ == "__main__":
    print(first_violation(range(int(sys.argv[1]), int(sys.argv[2]))))
