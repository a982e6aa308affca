"""The fast path of the model layer: where there never was a model, everything passes."""

from __future__ import annotations

import sys

from glue.contract import Event, Publication, Request
from glue.model.replicated import Replicated
from glue.model.requests import StackEvent, StackRequest


class ModelFastPath:
    """Messages that are for no model; see `glue.contract.fastpath`."""

    __slots__ = ("_layer",)

    def __init__(self, layer: Replicated) -> None:
        self._layer = layer

    def session_part(self) -> ModelFastPath:
        """The part that this layer takes in a session."""
        return self

    def largest_body(self) -> int:
        """A body of any size passes; none, once there was a model."""
        return 0 if self._layer.was_used else sys.maxsize

    def receive_one(self, now: float, item: Event) -> StackEvent | None:
        """Pass everything, where there never was a model."""
        return None if self._layer.was_used else item

    def send_one(self, now: float, item: StackRequest) -> Request | None:
        """Publications pass."""
        return item if isinstance(item, Publication) else None
