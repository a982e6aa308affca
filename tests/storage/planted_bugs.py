"""Known mistakes of logs and keepers, each planted by a small patch; the swarm must find every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from glue.contract.ranges import RangeSet
from glue.endpoint.keeping import Keeping
from glue.simulation.consensus import SimulatedDisk
from glue.storage import Record, file_log, opening, segments
from glue.storage.file_log import FileLog, Ticket
from glue.storage.replacing import replace_file
from glue.storage.salvage import Salvage
from glue.storage.segments import Segment
from glue.storage.streams import Streams

Patch = tuple[Any, str, Any]


class Bug(NamedTuple):
    """A mistake, and how it is made."""

    what: str
    patches: list[Patch]
    near: int = 0
    """A seed shortly before the first one that finds it: the suite begins here, and all seeds are tried by hand."""


def calls_it_durable(self: FileLog, ticket: Ticket) -> None:
    return


store_records = Keeping.store_records


def acknowledges_at_once(self: Keeping, now: float, records: Sequence[Record]) -> None:
    store_records(self, now, records)
    if self._stored:
        self._tell("durable", self._stored)


complete = FileLog.complete


def tries_the_sync_again(self: FileLog, ticket: Ticket) -> None:
    try:
        complete(self, ticket)
    except OSError:
        self.failure = ""
        complete(self, ticket)


sync = Keeping.sync


def acknowledges_after_a_failed_sync(self: Keeping, now: float) -> None:
    stored = self._stored
    sync(self, now)
    if self.failure and stored:
        self._tell("durable", stored)


def begins_without_syncing_names(directory: Any, base: int) -> Segment:
    with patch.object(type(directory), "sync_names", lambda directory: None):
        return begin_segment(directory, base)


begin_segment = opening.begin_segment


def without_sync(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, while nothing is synced."""

    def call(*arguments: Any) -> Any:
        with patch.object(SimulatedDisk, "sync", lambda disk, name: None):
            return method(*arguments)

    return call


def trusts_what_it_finds(directory: Any, segment: Segment) -> None:
    return


def keeps_the_torn_end(self: SimulatedDisk, name: str, size: int) -> None:
    return


def saves_what_is_not_durable(directory: Any, id: str, end: int, streams: Streams) -> None:
    for _, state in streams.of(lambda _: True):
        state.durable.replace([*state.held])
    save_streams(directory, id, end, streams)


save_streams = opening.save_streams


def keeps_the_notes(self: Streams, fresh: int) -> None:
    del self._fresh[fresh:]


append = FileLog.append


def shows_at_once(self: FileLog, records: Sequence[Record]) -> int:
    self.durable = append(self, records)
    return self.durable


iterate = Salvage.__iter__


def ends_at_damage(self: Salvage) -> Iterator[tuple[int, memoryview]]:
    for position, payload in iterate(self):
        if self.damaged:
            return
        yield position, payload


def loses_nothing(self: Streams, stream: Any, start: int, stop: int) -> None:
    return


def writes_in_place(directory: Any, name: str, data: bytes) -> None:
    if not name.endswith(".log"):
        replace_file(directory, name, data)
        return
    directory.create(name)
    directory.append(name, data)
    directory.sync(name)
    directory.sync_names()


def removes_one_more(self: FileLog, retentions: Sequence[Any], now: float) -> int:
    return retain(self, [type(one)(one.topics, one.age, one.size, one.count - 1) for one in retentions], now)


retain = FileLog.retain


def holds_all_below(self: RangeSet, start: int, stop: int) -> list[tuple[int, int]]:
    return add(self, 1, stop) if self else add(self, start, stop)


add = RangeSet.add


def stores_twice(self: Streams, record: Record) -> list[Record]:
    return [record]


BUGS: dict[str, Bug] = {
    "no-sync": Bug("a sync is dropped", [(FileLog, "complete", calls_it_durable)]),
    "early": Bug("messages are acknowledged when they are written", [(Keeping, "store_records", acknowledges_at_once)]),
    "sync-again": Bug("a failed sync is tried again", [(FileLog, "complete", tries_the_sync_again)]),
    "failed-sync": Bug("a failed sync is acknowledged", [(Keeping, "sync", acknowledges_after_a_failed_sync)]),
    "names": Bug(
        "the name of a new segment is not synced",
        [(file_log, "begin_segment", begins_without_syncing_names)],
    ),
    "roll": Bug("a finished segment is not synced", [(FileLog, "roll", without_sync(FileLog.roll))]),
    "opened": Bug("what is found at the opening is not synced", [(opening, "_make_durable", trusts_what_it_finds)]),
    "torn": Bug("a torn end is not cut off", [(SimulatedDisk, "truncate", keeps_the_torn_end)]),
    "saved": Bug(
        "saved streams have what is not durable", [(file_log, "save_streams", saves_what_is_not_durable)], 208
    ),
    "refused": Bug("what a full disk refused counts as held", [(Streams, "undo", keeps_the_notes)], 215),
    "ahead": Bug("what is not durable can be read", [(FileLog, "append", shows_at_once)]),
    "damage": Bug("reading ends at damage", [(Salvage, "__iter__", ends_at_damage)], 30),
    "held": Bug("what is damaged counts as held", [(Streams, "lose", loses_nothing)], 30),
    "in-place": Bug("a segment is written anew in place", [(segments, "replace_file", writes_in_place)], 140),
    "one-more": Bug("retention removes one message more", [(FileLog, "retain", removes_one_more)], 40),
    "gaps": Bug("a later message stands for those before it", [(RangeSet, "add", holds_all_below)]),
    "twice": Bug("a message is stored whenever it comes", [(Streams, "missing", stores_twice)]),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Make a mistake real for a while."""
    with ExitStack() as stack:
        for target, attribute, replacement in BUGS[name].patches:
            stack.enter_context(patch.object(target, attribute, replacement))
        yield
