"""Hosts of receivers under faults, and bugs that the swarm must find."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from glue.endpoint.receiver_copy import Copy
from glue.endpoint.receiver_kind import Kind
from glue.receivers.activation import Activation
from glue.receivers.context import Mail
from tests.receivers.swarm import Swarm, hunt


def without_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a former owner write."""
    original = Kind._operation

    def unfenced(self: Kind, activation: Activation, step: Any) -> Any:
        self._is_fenced = False
        return original(self, activation, step)

    monkeypatch.setattr(Kind, "_operation", unfenced)


def without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handle a repeated message as a new one."""
    monkeypatch.setattr(Activation, "_is_repeated", lambda self, mail: False)


def from_an_old_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a document as the copy had it when it was read first."""
    original = Copy.document

    def first(self: Copy, partition: int, key: str) -> tuple[bool, Any]:
        if key not in firsts.setdefault(self, {}):
            firsts[self][key] = original(self, partition, key)
        return firsts[self][key]

    firsts: dict[Copy, dict[str, tuple[bool, Any]]] = {}
    monkeypatch.setattr(Copy, "document", first)


class Told:
    """Takes what became of a message that was told already."""

    total = 0

    def __init__(self, sender: str) -> None:
        self.sender = sender

    def settled(self, mail: Mail, error: BaseException | None, answer: Any) -> None:
        """Do nothing."""


def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer before the state is written."""

    def early(self: Activation, mail: Any, answer: Any) -> Any:
        if isinstance(mail, Mail) and mail.batch is not None:
            mail.batch.settled(mail, None, answer)
            mail.batch = Told(mail.batch.sender)
        yield from write(self, mail, answer)

    write = Activation.write
    monkeypatch.setattr(Activation, "write", early)


def test_nothing_acknowledged_is_lost_and_nothing_is_handled_twice() -> None:
    assert hunt(0, 2) > 50


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], int, str]] = [
    (without_fence, 6, "lost"),
    (without_numbers, 1, "twice"),
    (without_waiting, 0, "lost"),
    (from_an_old_copy, 0, "lost"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "seed", "found"), PLANTED)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], seed: int, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=found):
        Swarm(seed).run()


if __name__ == "__main__":  # python -m tests.receivers.test_swarm NAME FIRST LAST: the seeds that find a planted bug
    globals()[sys.argv[1]](pytest.MonkeyPatch())
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        try:
            Swarm(number).run()
        except AssertionError as error:
            print(number, str(error)[:100], flush=True)
