"""How many files a process may open, and how many connections a door takes with them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from glue.gateway.descriptors import allow_files, connections_of, open_files

FOREVER = -1


@pytest.fixture
def told() -> list[Any]:
    """What the system was told."""
    return []


def system(monkeypatch: pytest.MonkeyPatch, told: list[Any], soft: int, hard: int, error: Exception | None) -> None:
    """A system with these limits, which may refuse others."""

    def set_limit(what: int, limits: tuple[int, int]) -> None:
        told.append((what, limits))
        if error is not None:
            raise error

    made = SimpleNamespace(
        RLIM_INFINITY=FOREVER, RLIMIT_NOFILE=7, getrlimit=lambda what: (soft, hard) if what == 7 else (0, 0),
        setrlimit=set_limit,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "resource", made)


@pytest.mark.parametrize(("soft", "files"), [(1_024, 1_024), (FOREVER, 1 << 30), (0, 0)])
def test_a_process_may_open_what_the_system_allows_now(
    soft: int, files: int, monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    system(monkeypatch, told, soft, 4_096, None)
    assert open_files() == files


def test_a_system_without_such_limits_allows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert open_files() == 1 << 30
    allow_files(100)


@pytest.mark.parametrize(("files", "connections"), [(1_024, 896), (137, 9), (136, 8), (135, 8), (0, 8)])
def test_a_door_leaves_files_for_all_else_and_takes_a_few_connections_in_any_case(files: int, connections: int) -> None:
    assert connections_of(files) == connections


@pytest.mark.parametrize(
    ("soft", "hard", "becomes"),
    [
        (227, 4_096, (228, 4_096)),
        (228, 4_096, None),
        (64, 200, (200, 200)),
        (64, 228, (228, 228)),
        (200, 200, None),
        (64, FOREVER, (228, FOREVER)),
        (FOREVER, FOREVER, None),
    ],
)
@pytest.mark.parametrize("error", [None, ValueError("no"), OSError("no")])
def test_a_process_asks_for_as_many_files_as_its_connections_need_and_not_for_less(
    soft: int, hard: int, becomes: tuple[int, int] | None, error: Exception | None, monkeypatch: pytest.MonkeyPatch,
    told: list[Any],
) -> None:  # fmt: skip
    system(monkeypatch, told, soft, hard, error)
    allow_files(100)
    assert told == ([] if becomes is None else [(7, becomes)])
