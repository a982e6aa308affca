"""A directory on a real disk keeps no descriptor that it does not need, and writes to the file that has the name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glue.drivers.directory import FileDirectory
from glue.errors import StorageError

DESCRIPTORS = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"


def open_files() -> int:
    return len(os.listdir(DESCRIPTORS))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[FileDirectory]:
    made = FileDirectory(tmp_path)
    yield made
    made.close()


def written(directory: FileDirectory, name: str, data: bytes) -> None:
    directory.create(name)
    directory.append(name, data)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda one: one.create("b"), {"a": b"a", "b": b""}),
        (lambda one: one.rename("a", "b"), {"b": b"a"}),
        (lambda one: one.remove("b"), {"a": b"a"}),
    ],
)
def test_a_file_that_is_replaced_or_removed_stays_open_no_longer(
    directory: FileDirectory, change: Callable[[FileDirectory], None], left: dict[str, bytes]
) -> None:
    before = open_files()
    written(directory, "a", b"a")
    written(directory, "b", b"b")
    change(directory)
    assert open_files() == before + len(left)
    for name, data in left.items():
        directory.append(name, b"+")
        assert directory.read(name) == data + b"+", "what has the name now grows"


def test_a_closed_file_takes_the_place_of_an_open_one(directory: FileDirectory, tmp_path: Path) -> None:
    written(directory, "b", b"old")
    (tmp_path / "a").write_bytes(b"new")
    directory.rename("a", "b")
    directory.append("b", b"+")
    assert directory.read("b") == b"new+"


def test_a_directory_in_use_is_refused_without_a_trace(directory: FileDirectory, tmp_path: Path) -> None:
    before = open_files()
    with pytest.raises(StorageError, match="another process uses it"):
        FileDirectory(tmp_path)
    assert open_files() == before


def test_names_that_cannot_be_made_durable_leave_nothing_open(
    directory: FileDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    before = open_files()
    with pytest.raises(OSError, match="Input/output error"):
        directory.sync_names()
    assert open_files() == before
