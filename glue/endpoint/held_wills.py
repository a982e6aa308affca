"""The wills of peers, as an endpoint holds them; `wills.py` is imported with the first peer that has some."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from glue.contract import Delivery, PeerAdded, PeerInterest, PeerRemoved
from glue.endpoint.reserved import WILL_OF

if TYPE_CHECKING:
    from glue.endpoint.wills import Holder


class HeldWills:
    """Makes a `Holder` when it is needed."""

    __slots__ = ("_make", "handled", "holder")

    def __init__(self, make: Callable[[type[Holder]], Holder]) -> None:
        """`make` calls the class with the parts of the endpoint."""
        self.handled: Callable[[Delivery], None] | None = None  # tells what the holder handled, if not the driver
        self.holder: Holder | None = None
        self._make = make

    def note(self, now: float, event: PeerAdded | PeerInterest | PeerRemoved) -> None:
        """Take news of peers."""
        if self.holder is None:
            if not isinstance(event, PeerInterest) or WILL_OF + event.peer not in event.added:
                return
            from glue.endpoint.wills import Holder

            self.holder = self._make(Holder)
            self.holder.handled = self.handled
        self.holder.note(now, event)
