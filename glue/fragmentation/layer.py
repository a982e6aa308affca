"""Messages of any size, cut into frames and joined again.

On the way down, a message that fits into one frame passes unchanged. A larger one becomes a run of frames of equal
size, of which the last may be shorter. Each has this layer's entry in its header (see `wire`).

On the way up, fragments come in order over reliable transport, and in any order, twice or never over best effort. A
message under assembly knows its missing fragments; the first fragment for a place wins. A peer that discovery lost and
found again in the same life continues in the middle of a message, as transport does: acknowledged data are not sent
again.
"""

from __future__ import annotations

import math
from typing import Any

from glue.contract import TAKEN, Downward, Inbound, Outbound, PeerRemoved, Upward
from glue.contract.borrowed import Lent
from glue.contract.counters import Counters
from glue.contract.pieces import Pieces, total
from glue.errors import MessageTooLargeError
from glue.fragmentation.assembly import MESSAGE_COST, Assembly, Shelf
from glue.fragmentation.wire import FRAGMENT, KEY, MESSAGE_NUMBERS

PEER_FACTOR = 2  # a peer may have this many times message_limit under assembly, bookkeeping included
TOTAL_FACTOR = 4  # and all peers together this many times
EXPIRY = 30.0  # seconds without a new fragment of a best-effort message: far more than any is under way
RELIABLE_EXPIRY = 600.0
"""Seconds without a new fragment of a reliable message.

Transport continues in the middle of a message once the sender, or the way from it, is back, and takes acknowledged data
as delivered. Therefore this is the longest interruption without loss.
"""
EXPIRIES = RELIABLE_EXPIRY, EXPIRY  # by message number modulo 2
FORMS = 4096  # recognized forms of headers: as many as serialization knows

_pack = FRAGMENT.packer("message", "size", "total")
_values = FRAGMENT.getter("message", "size", "total", "index")


class Fragmentation:
    """The fragmentation layer of one endpoint. `Layer[Upward, Upward, Downward, Downward]`."""

    backlog = 0

    def __init__(self, *, message_limit: int = 256 << 20) -> None:
        """`message_limit` is the largest message in bytes, sent or received."""
        self.statistics = Counters()
        self._limit = message_limit
        self._frame = 0
        self._messages = 0
        self._shelves: dict[str, Shelf] = {}
        self._held = 0
        self._check_at = math.inf
        self._known: set[bytes] = set()  # forms of headers with a well-formed entry

    def fit(self, size: int) -> int:
        """Return the message limit, whatever the frames below take."""
        self._frame = size
        return self._limit

    @property
    def deadline(self) -> float:
        """The time of the next check for messages that wait for fragments in vain."""
        return self._check_at

    # -------------------------------------------------------------------------------------------- down

    def send(self, now: float, items: list[Downward]) -> list[Downward]:
        """Cut messages that do not fit into a frame. Raises MessageTooLargeError for a message over the limit."""
        for item in items:
            if item.__class__ is Outbound and total(item.bodies) > self._frame:
                self._cut(item)
        return items

    def lower(self, now: float, item: Downward) -> Downward | None:
        """Cut a message that does not fit into a frame. Raises MessageTooLargeError for one over the limit."""
        if item.__class__ is not Outbound:
            return None
        if total(item.bodies) > self._frame:
            self._cut(item)
        return item

    def _cut(self, item: Outbound) -> None:
        bodies = item.bodies
        parts = bodies.parts if isinstance(bodies, Pieces) else bodies
        size, length = self._frame, total(bodies)
        if length > self._limit:
            raise MessageTooLargeError(f"message of {length} bytes; message_limit is {self._limit}")
        item.bodies = Pieces(parts, size, -(-length // size), shared=True)
        item.header[KEY] = _pack(self._messages + (not item.reliable), size, length)
        self._messages = (self._messages + 2) % MESSAGE_NUMBERS
        self.statistics["messages fragmented"] += 1
        self.statistics["fragments sent"] += len(item.bodies)

    def rally(self) -> int:
        """Return the largest body (bytes) that is not cut; see `glue.fastpath.parts`."""
        return self._frame

    # ---------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: list[Upward]) -> tuple[list[Upward], list[Downward]]:
        """Pass on complete messages and all other items; keep fragments."""
        up: list[Upward] = []
        for item in items:
            if item.__class__ is Inbound and KEY in item.header:
                self._on_fragments(now, item, up)
                continue
            if item.__class__ is PeerRemoved:
                self._on_removed(item)
            up.append(item)
        if now >= self._check_at:
            self._expire(now)
        return up, []

    def lift(self, now: float, item: Upward) -> Upward | tuple[()] | None:
        """Pass on a message that is whole, or complete now; keep other fragments. None for other items."""
        if item.__class__ is not Inbound:
            return None
        if KEY not in item.header:
            return item
        if now >= self._check_at:
            return None
        if self._is_whole(now, item):
            return item
        item.own()
        up: list[Upward] = []
        self._on_fragments(now, item, up)
        return up[0] if up else TAKEN

    def awaits(self, run: Inbound) -> bool:
        """Whether a run (its bodies are not read yet) consists of fragments of one message, by its last header."""
        return KEY in run.header and run.form in self._known

    def _is_whole(self, now: float, run: Inbound) -> bool:
        """Whether a run is a whole message that is not known yet; the run then becomes this message.

        This is only a quick check. False means that the fragments go the ordinary way.
        """
        shelf, bodies = self._shelves.get(run.peer), run.bodies
        if run.form not in self._known or shelf is None or shelf.incarnation != run.incarnation:
            return False
        message, size, whole, index = _values(run.header[KEY])
        if index or not isinstance(bodies, Pieces) or (bodies.size, bodies.length) != (size, whole):
            return False
        if not size < whole <= self._limit or len(bodies) != -(-whole // size):
            return False
        if message in shelf.row(message) or shelf.finished(message):
            return False
        if not self._held:
            self._check_at = math.inf  # as after any message, when no other is under assembly
        elif self._check_at > now + EXPIRIES[message % 2]:
            return False
        shelf.remember(message)
        shelf.absent = False
        self.statistics["fragments received"] += len(bodies)
        self.statistics["messages reassembled"] += 1
        run.bodies = bodies.whole() if bodies.__class__ is Lent else [b"".join(bodies.parts)]
        return True

    def _on_fragments(self, now: float, run: Inbound, up: list[Upward]) -> None:
        entry = run.header[KEY]
        if not self._plausible(entry, run):
            self.statistics["malformed fragments"] += 1
            return
        if run.form is not None and run.form not in self._known:
            if len(self._known) >= FORMS:
                self._known.clear()
            self._known.add(run.form)
        message, size, total, index = _values(entry)
        shelf = self._shelves.get(run.peer)
        if shelf is None or shelf.incarnation != run.incarnation:
            self._drop_peer(run.peer)
            shelf = self._shelves[run.peer] = Shelf(run.incarnation)
        shelf.absent = False
        if shelf.finished(message):
            self.statistics["late fragments"] += len(run.bodies)
            return
        row = shelf.row(message)
        assembly = row.get(message)
        is_other = assembly is not None and (assembly.size, assembly.total) != (size, total)
        if assembly is not None and index == 0 and ((run.reliable and is_other) or assembly.touched + EXPIRY <= now):
            # The number is used again. Fragment 0 of a reliable message comes first: an earlier one was forged.
            self._abandon(shelf, message, "messages given up by their sender")
            assembly = None
        if assembly is None:
            assembly = row[message] = Assembly(size, total)
            self._account(shelf, MESSAGE_COST)
            self._check_at = min(self._check_at, now + EXPIRIES[message % 2])
        elif is_other:
            self.statistics["fragments at odds with their message"] += len(run.bodies)
            return
        self._put(now, run, shelf, message, assembly, index, up)

    def _put(
        self, now: float, run: Inbound, shelf: Shelf, message: int, assembly: Assembly, index: int, up: list[Upward]
    ) -> None:
        before = assembly.held
        new = shelf.put(now, message, index, run.bodies, run.age)
        self._account(shelf, assembly.held - before)
        self.statistics["fragments received"] += new
        if new < len(run.bodies):
            self.statistics["duplicate fragments"] += len(run.bodies) - new
        if assembly.complete:
            self._account(shelf, -shelf.row(message).pop(message).held)
            shelf.remember(message)
            if self._held == 0:
                self._check_at = math.inf
            bodies, age = assembly.message(now)
            if total(bodies) == assembly.total:
                self.statistics["messages reassembled"] += 1
                up.append(Inbound(run.peer, run.incarnation, run.address, run.header, bodies, age, run.reliable))
            else:  # a fragment within a run was shorter than the first
                self.statistics["malformed fragments"] += 1
        while shelf.held > PEER_FACTOR * self._limit:
            self._give_up(shelf)
        while self._held > TOTAL_FACTOR * self._limit:
            self._give_up(max(self._shelves.values(), key=lambda s: s.held))

    def _plausible(self, entry: Any, run: Inbound) -> bool:
        """Whether the entry is well-formed, and the first and last body have the sizes that it gives."""
        if not FRAGMENT.fits(entry):
            return False
        _, size, total, index = _values(entry)
        bodies = run.bodies
        if not 0 < size < total or total > self._limit:
            return False
        stop = (index + len(bodies)) * size
        if stop - size >= total:
            return False  # beyond the end
        last = size if stop <= total else total - (stop - size)
        return len(bodies[-1]) == last and (len(bodies) == 1 or len(bodies[0]) == size)

    # ------------------------------------------------------------------------------------- giving up

    def _account(self, shelf: Shelf, change: int) -> None:
        shelf.held += change
        self._held += change

    def _give_up(self, shelf: Shelf) -> None:
        """Drop the message of this peer that has waited longest, because the budget is exceeded."""
        message = shelf.oldest()
        self._abandon(shelf, message, "messages dropped over budget")
        shelf.remember(message)

    def _abandon(self, shelf: Shelf, message: int, cause: str) -> None:
        self._account(shelf, -shelf.row(message).pop(message).held)
        self.statistics[cause] += 1

    def _expire(self, now: float) -> None:
        self._check_at = math.inf
        for peer, shelf in list(self._shelves.items()):
            for row, expiry in zip(shelf.rows, EXPIRIES, strict=True):
                while row:
                    message, assembly = next(iter(row.items()))
                    if assembly.touched + expiry > now:
                        self._check_at = min(self._check_at, assembly.touched + expiry)
                        break
                    self._abandon(shelf, message, "messages expired incomplete")
                    shelf.remember(message)
            if shelf.absent and not len(shelf):
                del self._shelves[peer]

    def _on_removed(self, item: PeerRemoved) -> None:
        """Drop the messages of a peer that is gone. If the same life may come back, keep them until they expire."""
        shelf = self._shelves.get(item.peer)
        if shelf is not None and item.reason == "expired" and len(shelf):
            shelf.absent = True
        else:
            self._drop_peer(item.peer)

    def _drop_peer(self, peer: str) -> None:
        shelf = self._shelves.pop(peer, None)
        if shelf is not None:
            self._held -= shelf.held
            self.statistics["messages dropped with their peer"] += len(shelf)
