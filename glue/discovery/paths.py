"""The paths to one peer: how good each of them is, and which one the peer's data takes.

A path is an address of the peer, as one link of this endpoint reaches it. Each path is asked from time to time, and the
peer answers on the same path. So the answers tell of both directions: the round trip (RFC 6298) and the share of lost
questions. Data takes the *current* path. There are four reasons to leave it:

* The link of this endpoint is down: at once.
* The peer was sent something and is silent on the path, then leaves a question unanswered for a round-trip timeout, and
  another path carries something from it meanwhile. If no other path does, the peer itself is silent, and nothing
  changes. Two unanswered questions in a row are enough if the path is heard, as it may carry one direction only.
* The peer says that it uses another path. An endpoint obeys if its own path is silent, or if the peer has the lower id.
  So the two ends come to use the same path, and only one of them looks for a better one.
* Another path is twice as good, for as long as `hold` says. It doubles with each change, so that a link that comes and
  goes is not followed each time (as route flap damping, RFC 2439).

All is a pure state machine; `now` is in monotonic seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from glue.contract import Address, link_of

PATIENCE = 0.01  # seconds for which a peer that was sent something may be silent before it is asked
TIMEOUT, LONGEST_TIMEOUT = 0.01, 1.0  # seconds within which an answer comes, at least and at most
INITIAL = 0.01  # seconds: the round trip of a path that was never asked
ASK_INTERVAL = 1.0  # seconds between questions on each path, while the peer is sent something
IDLE_INTERVAL = 3.0  # and while it is not
ACTIVE = 2.0  # seconds without data to a peer after which it counts as idle
GAIN = 1 / 16  # of a question that was lost, or answered, in the share of loss
RESEND = 0.02  # seconds that a loss costs, in the measure of a path
BETTER, MARGIN = 2.0, 0.001  # another path must be so many times as good, and so many seconds beyond
STEADY = 3  # answers in a row after which a path may be changed to for being better
HOLD, LONGEST_HOLD = 1.0, 16.0  # seconds for which another path must be better
FLAPPING = 10.0  # seconds between two changes within which the hold doubles
ONE_WAY = 2  # questions in a row without an answer that tell of a path that is heard, but does not carry ours
STALE = 10.0  # seconds of silence after which a path is forgotten
LAST_MISSES = 5  # questions that a forgotten path has left unanswered, at least


class Path:
    """One path: its address, and what was measured on it."""

    __slots__ = (
        "address", "asked_at", "heard_at", "is_asked", "is_down", "link", "loss", "misses", "smoothed", "streak",
        "token", "variation",
    )  # fmt: skip

    def __init__(self, now: float, address: Address, is_down: bool = False) -> None:
        self.address = address
        self.link = link_of(address)
        self.is_down = is_down  # whether this endpoint's link is down
        self.heard_at = now
        self.asked_at = -math.inf
        self.token = 0  # of the latest question, until it is answered
        self.is_asked = False  # whether that may still be answered in time
        self.smoothed, self.variation = INITIAL, INITIAL / 2
        self.loss = 0.0
        self.misses = 0  # questions in a row without an answer in time
        self.streak = 0  # answers in a row

    @property
    def timeout(self) -> float:
        """Seconds in which an answer is due; twice as many after each question without one."""
        once = max(TIMEOUT, self.smoothed + 4 * self.variation)
        return min(once * (1 << min(self.misses, 10)), LONGEST_TIMEOUT)

    @property
    def cost(self) -> float:
        """The measure of a path in seconds: its round trip, and what losses add to it."""
        return self.smoothed + RESEND * self.loss / (1 - min(self.loss, 0.99))

    def ask(self, now: float, token: int) -> None:
        """Note a question that leaves now."""
        self.asked_at, self.token, self.is_asked = now, token, True

    def answer(self, now: float, token: int) -> bool:
        """Note an answer; False if it is to no question, or to an earlier one."""
        if not self.token or token != self.token:
            return False
        elapsed = now - self.asked_at
        if self.streak or self.smoothed != INITIAL:
            self.variation += (abs(self.smoothed - elapsed) - self.variation) / 4
            self.smoothed += (elapsed - self.smoothed) / 8
        else:
            self.smoothed, self.variation = elapsed, elapsed / 2
        if self.is_asked:
            self.loss -= self.loss * GAIN
        self.token, self.is_asked, self.misses = 0, False, 0
        self.streak += 1
        return True

    def miss(self) -> None:
        """Note that no answer came in time. A late one still counts as one."""
        self.is_asked = False
        self.misses += 1
        self.streak = 0
        self.loss += (1 - self.loss) * GAIN


class Paths:
    """All paths to one peer, of which `current` carries its data."""

    __slots__ = (
        "_better_since", "_hold", "_look_at", "_sent_at", "_suspected_at", "_switched_at", "_waiting_since", "current",
        "is_leading", "table",
    )  # fmt: skip

    def __init__(self, now: float, address: Address, is_leading: bool, look_at: float) -> None:
        """`is_leading`: whether this end looks for the better path. `look_at`: when all paths are first asked."""
        self.is_leading = is_leading
        self.current = Path(now, address)
        self.table = {address: self.current}
        self._look_at = look_at
        self._sent_at = -math.inf
        self._waiting_since = math.inf  # since when the peer was sent something and is silent on the current path
        self._suspected_at = math.inf  # since when the current path seems to be dead
        self._switched_at = -math.inf
        self._better_since = math.inf
        self._hold = HOLD

    def add(self, now: float, address: Address, is_down: bool) -> None:
        """Add a path, which was just proved to go both ways."""
        if address not in self.table:
            self.table[address] = Path(now, address, is_down)

    def sent(self, now: float) -> bool:
        """Note data to the peer; returns whether `due` may be earlier than before."""
        self._sent_at = now
        if self._waiting_since < math.inf:
            return False
        self._waiting_since = now
        return True

    def heard(self, now: float, address: Address) -> Path | None:
        """Note a datagram of the peer on a path; returns the path to change to, if any."""
        path = self.table.get(address)
        if path is None:
            return None
        path.heard_at = now
        if path is self.current:
            self._waiting_since = math.inf
            if path.misses < ONE_WAY:
                self._suspected_at = math.inf
            return None
        return path if self._suspected_at < math.inf and self._is_good(path) else None

    def answered(self, now: float, address: Address, token: int) -> Path | None:
        """Note an answer on a path; returns the path to change to, if any."""
        path = self.table.get(address)
        return self.heard(now, address) if path is not None and path.answer(now, token) else None

    def told(self, now: float, address: Address) -> Path | None:
        """The peer says that it uses this path; returns the path to change to, if any."""
        path = self.table.get(address)
        if path is None or path is self.current or path.is_down:
            return None
        is_silent = self._suspected_at < math.inf or now >= self.current.heard_at + PATIENCE
        return path if is_silent or not self.is_leading else None

    def set_down(self, now: float, link: str, is_down: bool) -> Path | None:
        """Note that the endpoint's link is down, or up again; returns the path to change to, if any."""
        for path in self.table.values():
            if path.link == link:
                path.is_down = is_down
        if not self.current.is_down:
            return None
        self._suspected_at = min(self._suspected_at, now)
        others = [path for path in self.table.values() if not path.is_down]
        return min(others, key=lambda path: (path.misses, -path.heard_at), default=None)

    def change(self, now: float, path: Path) -> None:
        """Let the data take this path from now on."""
        is_flapping = now < self._switched_at + FLAPPING
        self._hold = min(2 * self._hold, LONGEST_HOLD) if is_flapping else HOLD
        self.current, self._switched_at = path, now
        self._waiting_since = self._suspected_at = self._better_since = math.inf

    @property
    def due(self) -> float:
        """When `plan` must be called."""
        at = self._look_at
        for path in self.table.values():
            if path.is_asked:
                at = min(at, path.asked_at + path.timeout)
        return at if self.current.is_asked else min(at, self._waiting_since + PATIENCE)

    def plan(self, now: float) -> tuple[list[Path], Path | None]:
        """Return the paths to ask now, and the path to change to, if any."""
        missed = [path for path in self.table.values() if path.is_asked and now >= path.asked_at + path.timeout]
        current, better = self.current, None
        for path in missed:
            path.miss()
        if current in missed and (current.heard_at <= current.asked_at or current.misses >= ONE_WAY):
            self._suspected_at = min(self._suspected_at, now)
        asked: Iterator[Path] | Sequence[Path] = ()
        if now >= self._look_at:
            is_active = now < self._sent_at + ACTIVE
            self._look_at = now + (ASK_INTERVAL if is_active else IDLE_INTERVAL)
            better = self._compared(now)
            asked = iter(self.table.values())
        elif self._suspected_at < math.inf:
            asked = iter(missed) if missed != [current] else iter(self.table.values())
        elif current in missed or now >= self._waiting_since + PATIENCE:
            asked = (current,)
        if now >= self._waiting_since + PATIENCE:
            self._waiting_since = math.inf  # until more is sent
        return [path for path in asked if not (path.is_asked or path.is_down)], better

    def forget(self, now: float) -> list[Address]:
        """Remove paths that have been silent for long; returns their addresses."""
        gone = [
            path.address
            for path in self.table.values()
            if path is not self.current
            and now >= path.heard_at + STALE
            and (path.is_down or path.misses >= LAST_MISSES)
        ]
        for address in gone:
            del self.table[address]
        return gone

    def _is_good(self, path: Path) -> bool:
        return not path.is_down and not path.misses

    def _compared(self, now: float) -> Path | None:
        """Return a path that has been much better than the current one for long enough; only the leading end looks."""
        if not self.is_leading:
            return None
        others = [path for path in self.table.values() if self._is_good(path) and path.streak >= STEADY]
        best = min(others, key=lambda path: path.cost, default=self.current)
        if best is self.current or BETTER * best.cost + MARGIN >= self.current.cost:
            self._better_since = math.inf
            return None
        self._better_since = min(self._better_since, now)
        return best if now >= max(self._better_since, self._switched_at) + self._hold else None
