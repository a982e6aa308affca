"""Rendezvous without multicast: the addresses that this endpoint calls and asks for introductions.

A *contact* is a configured address. The endpoint calls each contact with every announcement, so that the order of
starts does not matter. From time to time, the endpoint asks contacts for introductions to the peers they know. An
introduced address, a *prospect*, is called a few times. An endpoint that answers becomes a peer, and the introducer is
no longer needed. The first calls to new addresses follow each other quickly, so that a loss does not cost an interval.

Introductions are accepted from contacts only. Otherwise any host could make an endpoint call arbitrary addresses.
"""

from __future__ import annotations

import math
from collections import Counter

from glue.contract import Address, without_link

CONTACT_LIMIT = 1024  # addresses called for their own sake, and prospects; as many as there may be peers
PROSPECT_CALLS = 16
"""The first at once, the others as contacts are called. At 30 % loss a call and its answer get through with 49 %; all
fail for 0.51^16 = 2 in 100,000, who are introduced again."""
CALLS_BETWEEN = 8
CALL_SPACING = 0.2
"""Calls between announcements to those who have yet to be met, and seconds from one to the next: at 30 % loss a call
and its answer get through with 49 %; all fail for 0.51^8 = 0.5 %."""
ASK_DELAY = 0.05  # seconds until contacts are asked again, which doubles up to
MAX_ASK_DELAY = 10.0  # seconds; separated endpoints without multicast find each other again in this time


class Rendezvous:
    """The addresses that this endpoint calls, and the timer for asking its contacts."""

    __slots__ = ("_ask_at", "_ask_delay", "_calls_between", "_prospects", "_statistics", "call_at", "contacts")

    def __init__(self, statistics: Counter[str]) -> None:
        self.contacts: dict[Address, None] = {}
        self._prospects: dict[Address, int] = {}  # with the calls that are left
        self._statistics = statistics
        self._ask_at = -math.inf
        self._ask_delay = ASK_DELAY
        self._calls_between = CALLS_BETWEEN
        self.call_at = math.inf  # when to call before the next announcement

    def add(self, address: Address) -> bool:
        """Call this address from now on; False if that is so already, or there are too many."""
        if address in self.contacts:
            return False
        if len(self.contacts) >= CONTACT_LIMIT:
            self._statistics["contact refused"] += 1
            return False
        self.contacts[address] = None
        self._start_anew()
        return True

    def meet(self, now: float, address: Address) -> bool:
        """Add an introduced address as a prospect; returns whether to call it now."""
        if address in self.contacts or address in self._prospects:
            return False
        if len(self._prospects) >= CONTACT_LIMIT:
            self._statistics["introduction refused"] += 1
            return False
        self._prospects[address] = PROSPECT_CALLS - 1
        self._calls_between = CALLS_BETWEEN
        self.call_at = min(self.call_at, now + CALL_SPACING)
        return True

    def knows(self, address: Address) -> bool:
        """Whether it is a contact or a prospect."""
        return self.is_contact(address) or address in self._prospects or without_link(address) in self._prospects

    def is_contact(self, address: Address) -> bool:
        """Whether it is a contact, whatever the link."""
        return address in self.contacts or without_link(address) in self.contacts

    def hurry(self, now: float) -> None:
        """A contact is new: call soon, and ask often at first."""
        self._start_anew()
        self.call_at = min(self.call_at, now + CALL_SPACING)

    def _start_anew(self) -> None:
        self._calls_between = CALLS_BETWEEN
        self._ask_at = -math.inf
        self._ask_delay = ASK_DELAY

    def is_asking(self, now: float) -> bool:
        """Whether contacts are to be asked now; taken as done."""
        if now < self._ask_at or not self.contacts:
            return False
        self._ask_at = now + self._ask_delay
        self._ask_delay = min(2 * self._ask_delay, MAX_ASK_DELAY)
        return True

    def due(self, now: float) -> dict[Address, None]:
        """Return all addresses to call now, and count one call off each prospect."""
        self.call_at = math.inf
        if self._calls_between and (self.contacts or self._prospects):
            self._calls_between -= 1
            self.call_at = now + CALL_SPACING
        called = {**self.contacts, **dict.fromkeys(self._prospects)}
        self._prospects = {address: left - 1 for address, left in self._prospects.items() if left > 1}
        return called
