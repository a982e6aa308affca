"""The fast path of fragmentation: a message that fits into a frame, and one that is a whole run of fragments."""

from __future__ import annotations

import math

from glue.contract import CONSUMED, Downward, Inbound, Outbound, Upward
from glue.contract.borrowed import Borrowed
from glue.contract.pieces import Pieces, total
from glue.fragmentation.assembly import EXPIRIES
from glue.fragmentation.layer import Fragmentation
from glue.fragmentation.wire import FRAGMENT, KEY

_values = FRAGMENT.getter("message", "size", "total", "index")


class FragmentationFastPath:
    """One message at a time; see `glue.contract.fastpath`."""

    __slots__ = ("_layer",)

    def __init__(self, layer: Fragmentation) -> None:
        self._layer = layer

    def session_part(self) -> FragmentationFastPath:
        """The part that this layer takes in a session."""
        return self

    def largest_body(self) -> int:
        """The largest body (bytes) that is not cut."""
        return self._layer.frame

    def send_one(self, now: float, item: Downward) -> Downward | None:
        """Cut a message that does not fit in a frame. Raises MessageTooLargeError for a message over the limit."""
        if item.__class__ is not Outbound:
            return None
        if total(item.bodies) > self._layer.frame:
            self._layer.cut(item)
        return item

    def receive_one(self, now: float, item: Upward) -> Upward | tuple[()] | None:
        """A whole message passes, and one that is whole now; other fragments are kept."""
        if item.__class__ is not Inbound:
            return None
        if KEY not in item.header:
            return item
        if now >= self._layer.check_at:
            return None
        if self._is_whole(now, item):
            return item
        item.to_owned()
        up: list[Upward] = []
        self._layer.assemble(now, item, up)
        return up[0] if up else CONSUMED

    def awaits(self, run: Inbound) -> bool:
        """Whether a run (without bodies yet) is of fragments, of one message, as its last header then tells."""
        return KEY in run.header and run.form in self._layer.known

    def _is_whole(self, now: float, run: Inbound) -> bool:
        """Whether the run is a whole message, of which nothing was known; then it becomes that message.

        What is not seen at a glance is found out when its fragments are put together.
        """
        layer = self._layer
        shelf, bodies = layer.shelves.get(run.peer), run.bodies
        if run.form not in layer.known or shelf is None or shelf.incarnation != run.incarnation:
            return False
        message, size, whole, index = _values(run.header[KEY])
        if index or not isinstance(bodies, Pieces) or (bodies.size, bodies.length) != (size, whole):
            return False
        if not size < whole <= layer.limit or len(bodies) != -(-whole // size):
            return False
        if message in shelf.row(message) or shelf.finished(message):
            return False
        if not layer.held:
            layer.check_at = math.inf  # as after any message that leaves nothing behind
        elif layer.check_at > now + EXPIRIES[message % 2]:
            return False
        shelf.remember(message)
        shelf.absent = False
        layer.statistics["fragments received"] += len(bodies)
        layer.statistics["messages reassembled"] += 1
        run.bodies = bodies.whole() if bodies.__class__ is Borrowed else [b"".join(bodies.parts)]
        return True
