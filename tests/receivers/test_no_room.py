"""Messages to a receiver that has no room for all of them."""

from __future__ import annotations

import pytest

from glue.endpoint import receiver_running
from tests.receivers.test_runtime import Host


def test_no_message_passes_one_that_was_handed_back_as_there_was_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    class Room:
        """What is compared with the messages that wait: another thread makes room after the second one."""

        left = iter([False, True, *[False] * 9])

        def __le__(self, waiting: int) -> bool:
            return next(self.left)

    host = Host(monkeypatch)
    monkeypatch.setattr(receiver_running, "ARRIVED", Room())
    host.deliver(host.batch(1, 1, "a", "b", "c"))
    host.world.run(0.3)
    host.deliver(host.batch(2, 2, "b", "c"))
    host.world.run(0.3)
    assert host.got == ["a", "b", "c"]
