"""Each target takes its seeds, and the inputs that fuzzing found, without a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.bounds import Watch
from tests.fuzz.corpora import KEPT, kept, smallest
from tests.fuzz.registry import Target, joined, split
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_kept_inputs_raise_only_what_is_documented(name: str) -> None:
    target = TARGETS[name]
    seeds = list(target.seeds())
    assert seeds
    for data in (*seeds, b"", b"\x00", *(data for _, data in kept(name))):
        target(data)


@pytest.mark.parametrize("name", TARGETS)
def test_each_beginning_of_a_seed_raises_only_what_is_documented(name: str) -> None:
    target = TARGETS[name]
    for data in list(target.seeds())[:8]:
        for size in range(0, len(data), max(1, len(data) // 8)):
            target(data[:size])


def test_every_kept_input_belongs_to_a_target() -> None:
    assert {path.name for path in KEPT.iterdir() if path.is_dir()} <= set(TARGETS)
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < 200_000


def test_parts_of_an_input_come_back() -> None:
    parts = [b"", b"abc", bytes(1000)]
    assert split(joined(parts)) == parts
    assert split(joined(parts)[:-1]) == [b"", b"abc", bytes(999)]


def test_a_fault_is_noted_once_for_each_place_with_its_input(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if data == b"documented":
            raise ValueError
        if data:
            raise TypeError(data)

    watch = Watch(Target("t", run, lambda: [b""], (ValueError,)), tmp_path)
    for data in (b"", b"documented", b"x", b"y"):
        watch(data)
    assert watch.executions == 4
    ((place, text),) = watch.faults.items()
    assert place.startswith("TypeError")
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == b"x"
    assert text.startswith(path.name)


def test_inputs_are_kept_that_reach_other_code_than_the_seeds() -> None:
    target = TARGETS["raft-message"]
    new = b'["vote","g","l",1,true,true]'
    assert smallest(target, [new, new + b" ", *target.seeds()]) in ([new], [])
