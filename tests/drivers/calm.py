"""Networks on which nothing arrives, for tests of what wakes the threads of an endpoint."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from glue.contract import Address, Train
from tests.support.lan import PATIENCE

LONG = 60.0  # seconds
CALM = 5.0  # seconds: a leader that would sleep for longer has nothing to do


class EmptyNetwork:
    """A network on which nothing arrives, and nothing leaves. Subclasses say how `wait` ends."""

    datagram_size = 1472
    unicast_address: Address = ("10.0.0.1", 1)

    def __init__(self) -> None:
        self.statistics: Counter[str] = Counter()

    def filenos(self) -> Sequence[int]:
        return []

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        raise NotImplementedError

    def wake(self) -> None:
        raise NotImplementedError

    def receive(self) -> list[Train]:
        return []

    def send(self, trains: Sequence[Train]) -> None:
        pass

    def maintain(self, now: float) -> float:
        return math.inf

    def describe(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


class Calm(EmptyNetwork):
    """A network whose leader is `asleep` while it waits for a long time."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()
        self.woken = self.asleep = False

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        longest = LONG if timeout is None else min(timeout, LONG)
        with self.changed:
            self.asleep = longest > CALM
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.woken, longest)
            self.woken = self.asleep = False

    def wake(self) -> None:
        with self.changed:
            self.woken = True
            self.changed.notify_all()

    def until_asleep(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.asleep and not self.woken, PATIENCE)


def started(action: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def ends(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()
