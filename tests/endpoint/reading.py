"""Subscriptions without an endpoint: what they are given, and what they tell."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from glue.contract import Delivery, Missed
from glue.endpoint.queues import Kept, MessageBuffer

LOST = Missed("t", "you", "id-you", 2, "lost", ())


def delivery(sequence: int, count: int = 1, expires: float = float("inf")) -> Delivery:
    payloads = [f"p{number}" for number in range(sequence, sequence + count)]
    return Delivery("t", payloads, None, "you", "id-you", 1, sequence, 0.0, False, (), expires)


class LoneSubscription:
    """A subscription with what it tells to its endpoint: outcomes, gaps, and deliveries that wait or are done."""

    kind: Any  # the class of the subscription

    def __init__(self, handler: Any = None, policy: str = "block", limit: int = 2, payload_only: bool = False) -> None:
        self.counted: Counter[str] = Counter()
        self.gaps: list[tuple[str, int, str]] = []
        self.ended: list[Any] = []
        owner: Any = SimpleNamespace(
            settled=self.settled, handled=lambda delivery: self.counted.update(done=1),
            keep=lambda delivery: self.counted.update(kept=len(delivery.payloads)),
            failed=lambda: self.counted.update(failed=1), unsubscribe=self.ended.append,
            tell_gap=lambda gap: self.gaps.append((gap.cause, gap.count, gap.pattern)),
        )  # fmt: skip
        waiting: Any = Kept(owner, lambda: 0.0)
        if policy != "block":
            waiting = MessageBuffer(policy, limit, 1 << 20, owner, lambda: 0.0)
        self.subscription: Any = self.kind("t", handler, owner, waiting, payload_only)

    def settled(self, outcome: str, count: int) -> None:
        if count:
            self.counted[outcome] += count

    def put(self, *events: Any) -> None:
        for event in events:
            self.subscription._deliver(event)
