"""A thread that asks, without threads and a network: all its parts note what they are asked for."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace
from typing import Any

from glue.contract import NORMAL, PLAIN, Delivery, Options, Publication
from glue.drivers.asking import Asking
from tests.drivers.lone_turns import Lone

CLOCK = [100.0]
"""The time, in a list of one."""


class Noted:
    """What a signal handler waits for: the end of this block."""

    is_noted = False

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class Answers:
    """A receiver of answers, which notes them."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def _deliver(self, event: Any) -> None:
        self.got.append(event)


class Ask(Lone, Asking):
    """A thread that asks, whose parts note what they are asked for; its answer came just now."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(
            _exchanging=Noted(), _awaiting_answers=Noted(), _answered_at=100.0, _session_ends=100.5,
            _refrain=0, _refrained=0, _asker=threading.Lock(),
        )  # fmt: skip
        self.answers = Answers()
        self.is_free, self.arriving = True, list[Any]()
        self._network_seat.take = lambda timeout: self.note("take seat", timeout, self._asked_until) or self.is_free
        self._network_seat.leave = lambda: self.note("leave seat")
        self._network.wait = lambda seconds: self.note("wait", round(seconds, 6))
        self._network_part = SimpleNamespace(
            source="source", expect_answer=lambda: self.note("expect"), post=lambda *sent: self.note("post", *sent),
            glance=self.glance, take=lambda data: self.note("take", data), keep=lambda data: self.note("keep", data),
        )  # fmt: skip
        self._core.hold = lambda delivery: self.note("hold", delivery)
        self.sent: Any = ("data", "address")
        self.received: Any = None
        self._core.stack.session = SimpleNamespace(
            is_open=True, topic={"t": "way"}.get, send=self.send, receive=self.receive, open=lambda: math.inf
        )
        self._core.stack.session_until = lambda now: self.note("until", now) or 100.7
        self._sent: Any = None
        for name, value in fields.items():
            setattr(self, name, value)

    def glance(self, until: float) -> Any:
        self.note("glance", round(until - CLOCK[0], 6))
        return self.arriving.pop(0) if self.arriving else None

    def send(self, *what: Any) -> Any:
        assert self._turn_lock.depth == 1
        self.note("send", *what)
        return self.sent

    def receive(self, now: float, data: Any, source: str) -> Any:
        assert (self._turn_lock.depth, now, source) == (1, CLOCK[0], "source")
        if isinstance(data, BaseException):
            raise data
        return self.received if data == "answer" else None

    def ask_once(self, request: Publication | None = None) -> bool:
        """Ask in the way of a program, whose answer is over once it came."""
        return self.ask(request or plain(), self.answers, lambda: bool(self.answers.got))  # type: ignore[arg-type]


def plain(options: Options = PLAIN, priority: int = NORMAL, payloads: int = 1, topic: str = "t") -> Publication:
    return Publication(topic, [b"x"] * payloads, 7.0, False, 1, priority, options=options)


def reply(*tokens: Any) -> Delivery:
    return Delivery("r", [b"y"], None, "you", "id", 1, 1, 0.0, False, tokens)
