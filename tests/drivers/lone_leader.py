"""A leader without threads and a network: the test's own thread leads, and the parts note what they are asked for."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

from glue.contract import Delivery
from glue.drivers.leader import ThreadDriver
from glue.endpoint.admission import OPEN


def delivery(sequence: int, *tokens: Any) -> Delivery:
    return Delivery("t", [b"x"], None, "you", "id-you", 1, sequence, 0.0, False, tokens)


class Receiver:
    """A subscription that notes what it is given, and does what the test says."""

    def __init__(self) -> None:
        self._busy = False
        self._mailbox: deque[Any] = deque()
        self.got: list[int] = []
        self.does: Any = lambda sequence: None

    def _deliver(self, event: Any) -> None:
        assert self._busy
        number = getattr(event, "sequence", 0)
        self.got.append(number)
        self.does(number)


class Lead(ThreadDriver):
    """A driver of which the test's own thread is the leader; it starts no thread, and counts what is handled."""

    def __init__(self) -> None:
        self._closed = False
        self._hand_out: Any = threading.RLock()
        self._leader: Any = threading.current_thread()
        self._events: Any = deque()
        self._news: Any = Receiver()
        self._handling_since = 0.0
        self._watching, self._watch = False, threading.Event()
        self._skips_left, self._asked_until = 0, 0.0
        self.replier = 0
        self.done: list[int] = []
        self.held: list[int] = []
        self.started: list[Any] = []
        self._core: Any = SimpleNamespace(hold=lambda delivery: self.held.append(delivery.sequence))
        self.is_exchange: bool = True
        self._send_policy: Any = SimpleNamespace(is_exchange=lambda now: self.is_exchange)

    def handled(self, delivery: Delivery) -> None:
        self.done.append(delivery.sequence)

    def _thread(self, target: Any, name: str) -> Any:
        assert target.__name__ in ("_lead", "_stand_by")
        return SimpleNamespace(start=lambda: self.started.append((target.__name__, name)))

    def hand_out(self, *events: Any) -> None:
        self._events += events
        self._hand_out_events(threading.current_thread())


class Turning(Lead):
    """A leader whose network, turns and sessions note what they are asked for."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.did: list[Any] = []
        self._woken, self._is_receiving, self._is_known = True, False, True
        self._waiters: Any = []
        self._sleeps_until = 0.0
        self._turn_lock: Any = threading.RLock()
        self._flushed_at, self._deadline, self._maintain_at = 0.0, 105.0, 130.0
        self._admission: Any = SimpleNamespace(closed_from=OPEN)
        self.streams = [False, False]
        self._network_seat: Any = SimpleNamespace(
            stand_aside=lambda streaming: self.did.append("aside"), wait=self.wait_at_network, glance=self.glance
        )
        self.arriving: list[Any] = []
        self.opened = [101.0]
        self._network_part: Any = SimpleNamespace(
            is_eager=True, source="source", take=lambda data: self.did.append(("take", data)),
            keep=lambda data: self.did.append(("keep", data)),
        )  # fmt: skip
        session = SimpleNamespace(is_open=False, receive=self.receive_lone)
        self._core.stack = SimpleNamespace(session=session)
        self._send_policy.arrived = lambda now: self.did.append(("arrived", now))
        self._received, self._skip_count, self._is_uncommitted = 0, 0, False
        for name, value in fields.items():
            setattr(self, name, value)

    def _streaming(self) -> bool:
        return self.streams.pop(0)

    def wait_at_network(self, seconds: float, is_due: Any, is_patient: bool) -> None:
        assert (is_due, self._woken, self._is_receiving) == (self._is_due, False, False)
        self.did.append(("wait", round(seconds, 6), round(self._sleeps_until, 6), is_patient))
        self._woken = True

    def _turn(self, now: float) -> None:
        assert (self._is_receiving, self._sleeps_until, self._woken) == (True, 0.0, False)
        self.did.append(("turn", now))

    def _update(self) -> None:
        self.did.append("update")

    def _maintain(self) -> None:
        self.did.append("maintain")

    def advance(self, longest: float = 60.0) -> list[Any]:
        self._advance(longest)
        return self.did

    # a session

    def _open_session(self, now: float) -> float:
        self.did.append("open")
        return self.opened.pop(0)

    def glance(self, network: Any, until: float, is_due: Any) -> Any:
        assert (network, is_due, self._woken, self._sleeps_until) == (
            self._network_part, self._is_due, False, float("inf"),
        )  # fmt: skip
        return self.arriving.pop(0) if self.arriving else None

    def receive_lone(self, now: float, data: Any, source: str) -> Any:
        assert (now, source) == (100.0, "source")
        if isinstance(data, BaseException):
            raise data
        return data if isinstance(data, Delivery) else None

    def run_session(self, *arriving: Any) -> bool:
        self.arriving = [*arriving]
        return self._run_session(threading.current_thread())
