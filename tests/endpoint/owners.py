"""What receivers and rooms tell to their endpoint, counted without an endpoint."""

from __future__ import annotations

from collections import Counter

from glue.contract import Delivery


class Owner:
    """The part of an endpoint that receivers and rooms know."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def settled(self, outcome: str, count: int) -> None:
        self.counted[outcome] += count

    def handled(self, delivery: Delivery) -> None:
        self.counted["done"] += 1
