"""Planted bugs of sleep: each is a mistake that the swarm has to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glue.discovery import peers
from glue.transport import waking
from glue.transport.channel import Channel
from glue.transport.channel_state import ChannelState
from glue.transport.sleepers import Sleeper, Sleepers

Patch = pytest.MonkeyPatch


def nothing_is_paused(patch: Patch) -> None:
    """Messages are sent, and sent again, while their receiver sleeps."""
    patch.setattr(Sleepers, "_pause", lambda *arguments: None)


def publishers_wait(patch: Patch) -> None:
    """What waits for a sleeper counts as the backlog of its publisher."""
    patch.setattr(ChannelState, "backlog", ChannelState.size)


def drops_are_silent(patch: Patch) -> None:
    """What finds no room is dropped, and neither counted nor told."""
    good = Sleepers._drop_oldest

    def wrong(self: Any, *arguments: Any) -> bool:
        outcomes, self._outcomes = self._outcomes, type("Silent", (), {"lost": lambda *_: None})()
        try:
            return good(self, *arguments)
        finally:
            self._outcomes = outcomes

    patch.setattr(Sleepers, "_drop_oldest", wrong)


def the_newest_leaves_first(patch: Patch) -> None:
    """Messages that wait overtake each other."""
    good = Channel.resume

    def wrong(self: Any, now: float) -> None:
        if len(self._queue) > 1 and not self._queue[0].offset:
            self._queue.reverse()
        good(self, now)

    patch.setattr(Channel, "resume", wrong)


def a_missed_announcement_ends_all(patch: Patch) -> None:
    """A sleeper that woke up without having announced its sleep is not served."""
    good = Sleepers.note

    def wrong(self: Any, now: float, peer: str, cycle: int) -> Any:
        known = self.table.get(peer)
        if known is not None and cycle > known.cycle + 1:
            return []
        return good(self, now, peer, cycle)

    patch.setattr(Sleepers, "note", wrong)


def reports_are_short(patch: Patch) -> None:
    """A sleeper is told that all has come before it has."""
    patch.setattr(waking.Report, "is_complete", lambda self, source: True)


def the_lease_does_not_follow(patch: Patch) -> None:
    """A sleeper is given up while it sleeps."""
    patch.setattr(peers, "RESTS", 0)


def what_was_on_its_way_is_forgotten(patch: Patch) -> None:
    """What was sent just before a receiver fell asleep counts as received."""
    good = Channel.resume

    def wrong(self: Any, now: float) -> None:
        for member in self.members.values():
            member.next = max(member.next, self.next)
        self.release()
        good(self, now)

    patch.setattr(Channel, "resume", wrong)


def a_dropped_message_takes_others_along(patch: Patch) -> None:
    """Everything is dropped once too much waits."""
    good = Sleepers.bound

    def wrong(self: Any, channel: Any) -> None:
        sleeper: Sleeper | None = self.table.get(channel.peers[0])
        good(self, channel)
        if sleeper is not None and sleeper.dropping:
            channel._queue.clear()
            channel._queued = 0

    patch.setattr(Sleepers, "bound", wrong)


BUGS: list[Callable[[Patch], None]] = [
    nothing_is_paused,
    publishers_wait,
    drops_are_silent,
    the_newest_leaves_first,
    a_missed_announcement_ends_all,
    reports_are_short,
    the_lease_does_not_follow,
    what_was_on_its_way_is_forgotten,
    a_dropped_message_takes_others_along,
]
