"""Endpoints that multicast does not bring together: whom this one calls, and whom it asks for introductions.

A *contact* is an address that this endpoint was given; it calls it with every announcement, for ever, so that the
two find each other whichever starts first. Now and then it asks its contacts whom they know; they introduce it to
those. An address that it was introduced to, a *prospect*, it calls a few times: whoever is there answers, and then
both are peers, who need the introducer no longer.

Introductions are taken from contacts only, so that nobody else can make an endpoint call whom they like.
"""

from __future__ import annotations

import math
from collections import Counter

from glue.contract import Address

CONTACT_LIMIT = 1024  # addresses called for their own sake, and prospects; as many as there may be peers
PROSPECT_CALLS = 8
"""The first at once, the others with the next announcements. At 20 % loss a call and its answer get through with 64 %;
all fail for 0.36^8 = 3 in 10,000, who are introduced again."""
ASK_DELAY = 0.05  # seconds until contacts are asked again, which doubles up to
MAX_ASK_DELAY = 10.0  # who has lost sight of each other for want of multicast meets again in this time


class Rendezvous:
    """The addresses that this endpoint calls, and the timer for asking its contacts."""

    __slots__ = ("_ask_at", "_ask_delay", "_prospects", "_statistics", "contacts")

    def __init__(self, statistics: Counter[str]) -> None:
        self.contacts: dict[Address, None] = {}
        self._prospects: dict[Address, int] = {}  # with the calls that are left
        self._statistics = statistics
        self._ask_at = -math.inf
        self._ask_delay = ASK_DELAY

    def add(self, address: Address) -> bool:
        """Call this address from now on; False if that is so already, or there are too many."""
        if address in self.contacts:
            return False
        if len(self.contacts) >= CONTACT_LIMIT:
            self._statistics["contact refused"] += 1
            return False
        self.contacts[address] = None
        return True

    def meet(self, address: Address) -> bool:
        """There is somebody at this address, it is said; whether to call there now."""
        if address in self.contacts or address in self._prospects:
            return False
        if len(self._prospects) >= CONTACT_LIMIT:
            self._statistics["introduction refused"] += 1
            return False
        self._prospects[address] = PROSPECT_CALLS - 1
        return True

    def knows(self, address: Address) -> bool:
        """Whether it is a contact or a prospect."""
        return address in self.contacts or address in self._prospects

    def hurry(self) -> None:
        """Ask with the next announcement, and often at first: a contact is new."""
        self._ask_at = -math.inf
        self._ask_delay = ASK_DELAY

    def is_asking(self, now: float) -> bool:
        """Whether contacts are to be asked now; taken as done."""
        if now < self._ask_at or not self.contacts:
            return False
        self._ask_at = now + self._ask_delay
        self._ask_delay = min(2 * self._ask_delay, MAX_ASK_DELAY)
        return True

    def due(self) -> dict[Address, None]:
        """All whom an announcement is to call; prospects lose one of their calls."""
        called = {**self.contacts, **dict.fromkeys(self._prospects)}
        self._prospects = {address: left - 1 for address, left in self._prospects.items() if left > 1}
        return called
