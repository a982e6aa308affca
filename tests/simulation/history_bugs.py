"""Planted bugs of history: each is a mistake that the swarm has to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glue.contract import Delivery
from glue.history import PublishedMemory, Reader, Server, reader, sequencer, source, stream
from glue.history.source import LIVE, Source
from glue.history.stream import Stream, end_of
from glue.history.wire import Request

Patch = pytest.MonkeyPatch


def live_overtakes_history(patch: Patch) -> None:
    """Messages that come live while history is read are handed over at once."""

    def splice(self: Any, key: Any, one: Stream, source: Source, delivery: Delivery) -> None:
        one.next = one.want = max(one.next, end_of(delivery))
        self._push(delivery)

    patch.setattr(Reader, "_splice", splice)


def duplicates_pass(patch: Patch) -> None:
    """What history gives again is handed over again."""
    for module in (reader, sequencer):
        patch.setattr(module, "tail", lambda delivery, number: delivery)


def held_is_forgotten(patch: Patch) -> None:
    """What came live while history was read is dropped, and not asked for."""

    def hold(self: Any, one: Stream, delivery: Delivery) -> None:
        one.want = one.next

    patch.setattr(Reader, "_hold", hold)


def page_loses_its_last(patch: Patch) -> None:
    """The place to go on from is one too far."""
    scan = PublishedMemory.scan

    def wrong(self: Any, *arguments: Any) -> Any:
        found, next, until = scan(self, *arguments)
        if len(found) > 1:
            found.pop()
        return found, next, until

    patch.setattr(PublishedMemory, "scan", wrong)


def gaps_are_silent(patch: Patch) -> None:
    """What is gone for good is skipped without a word."""
    patch.setattr(Reader, "_miss", lambda *arguments: None)


def slow_reader_loses(patch: Patch) -> None:
    """What finds no room is dropped, as if it had been read."""

    def splice(self: Any, key: Any, one: Stream, source: Source, delivery: Delivery) -> None:
        if source.state == LIVE and not self._has_room():
            one.next = one.want = end_of(delivery)
        else:
            good(self, key, one, source, delivery)

    good = Reader._splice
    patch.setattr(Reader, "_splice", splice)


def nothing_is_checked(patch: Patch) -> None:
    """The last numbers are never asked for."""
    patch.setattr(reader, "CHECK", 1e9)
    patch.setattr(reader, "CHECK_SOON", 1e9)


def nothing_is_repeated(patch: Patch) -> None:
    """A request whose answer is lost stays unanswered."""
    for module in (reader, source):
        patch.setattr(module, "REPEAT", 1e9)


def gap_is_not_asked_for(patch: Patch) -> None:
    """What is missing before a live message is skipped."""
    missing = Stream.missing

    def wrong(self: Any) -> Any:
        if self.held and self.next:
            self.next = self.held[0].sequence
        return missing(self)

    patch.setattr(stream.Stream, "missing", wrong)


def ranges_end_early(patch: Patch) -> None:
    """A range of which a page held a part counts as answered."""
    page = Server._ranges

    def wrong(self: Any, now: float, request: Request, room: int) -> Any:
        found = page(self, now, request, room // 8)
        found.answered = len(request.ranges)
        return found

    patch.setattr(Server, "_ranges", wrong)


def last_counts_all_topics(patch: Patch) -> None:
    """The number of kept messages of a topic drops one too many."""
    record = PublishedMemory.record

    def wrong(self: Any, now: float, group: Any, expires: float) -> None:
        record(self, now, group, expires)
        known = self._topics[group.topic]
        if known.limits.last is None and known.count % 7 == 0 and known.count > 7:
            self._drop_payloads(known.runs.first, 1)

    patch.setattr(PublishedMemory, "record", wrong)


FOUND_BY = {"held_is_forgotten": (126,)}
"""Seeds that are tried first, to save time: what finds a bug that most seeds do not."""

BUGS: list[Callable[[Patch], None]] = [
    live_overtakes_history,
    duplicates_pass,
    held_is_forgotten,
    page_loses_its_last,
    gaps_are_silent,
    slow_reader_loses,
    nothing_is_checked,
    nothing_is_repeated,
    gap_is_not_asked_for,
    ranges_end_early,
    last_counts_all_topics,
]
