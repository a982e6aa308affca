"""How an endpoint may be examined, and its exam: made when it is first used, as few endpoints ask or are asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from glue.contract import Inbound
from glue.discovery.control import ControlSender
from glue.discovery.membership import Membership
from glue.discovery.wire import Envelope

if TYPE_CHECKING:
    from glue.discovery.exam import Exam


class Examined:
    """The exam of one endpoint. Before there is one, nothing is due."""

    __slots__ = (
        "_is_multicast", "_made", "_may_ask", "_members", "_random", "_sections", "_sender", "_size", "_statistics",
    )  # fmt: skip

    def __init__(
        self, members: Membership, sender: ControlSender, statistics: Counter[str], random: Random, is_multicast: bool
    ) -> None:
        self._members = members
        self._sender = sender
        self._statistics = statistics
        self._random = random
        self._is_multicast = is_multicast
        self._made: dict[str, Exam] = {}  # at most one
        self._may_ask = True
        self._sections: Callable[[str], Any] | None = None
        self._size = 0  # of the largest body; 0 before the network is known

    @property
    def exam(self) -> Exam:
        """The exam; the first use may be in any thread."""
        if not self._made:
            from glue.discovery.exam import Exam

            exam = Exam(self._members, self._sender, self._statistics, self._random)
            exam.is_multicast, exam.size = self._is_multicast, self._size
            exam.is_open, exam.sections = self._may_ask, self._sections
            self._made.setdefault("", exam)  # of two threads, one sets it
        return self._made[""]

    def let(self, may_ask: bool, sections: Callable[[str], Any]) -> None:
        """Say whether peers may ask, and what they are told."""
        self._may_ask, self._sections = may_ask, sections
        for exam in self._made.values():
            exam.is_open, exam.sections = may_ask, sections

    def fit(self, size: int) -> None:
        """No body may exceed `size` bytes."""
        self._size = size
        for exam in self._made.values():
            exam.size = size

    @property
    def is_asked(self) -> bool:
        """Whether the program has asked something that is to be sent at once."""
        return bool(self._made) and bool(self.exam.orders)

    @property
    def due(self) -> float:
        """When `advance` must be called, on the layer's clock."""
        return self.exam.due if self._made else inf

    def advance(self, now: float) -> None:
        """Send what is due."""
        if self._made and self.exam.is_due(now):
            self.exam.advance(now)

    def receive(self, now: float, item: Inbound, envelope: Envelope, body: bytes) -> None:
        """Take one `examine` frame."""
        self.exam.receive(now, item, envelope, body)

    def stop(self) -> None:
        """End all questions and rounds, because this endpoint leaves."""
        self._may_ask = False
        for exam in self._made.values():
            exam.stop()
