"""The format of requests for history and of answers: a JSON object, a line feed, for pages a bundle of topics.

A request asks for one of these things:

* `scan`: messages of a pattern in recorded order, from the place `after` on. `start` narrows the choice.
* `ranges`: messages of single topics by number. Each range is `[topic, first, last, newer, origin, life]`.
* `heads`: the last number of each topic that changed since `after`; of a keeper, perhaps of one `era` alone.
* `digest`: of a keeper, digests of its streams by era. `eras` are the earliest times of hot and of warm streams.

A page answers one request. `next` is the place to go on from, `head` the place of the next message to be recorded.
`known` 1 says that the server knows the reader's interest, and sends messages from `head` on live. The messages are a
bundle, as in `glue/topics/bundle.py`. `origins` names the publishers of the groups, if other than the server:
`[id, name, life, groups]` for each run of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from glue.contract.heads import MalformedError, integer, split
from glue.errors import TopicError
from glue.topics import check_pattern, check_topic
from glue.topics.bundle import INTEGER_LIMIT as INTEGER_LIMIT
from glue.topics.bundle import SEQUENCE_LIMIT, MalformedBundleError, MessageGroup, body_of, decode

HEAD_LIMIT: Final = 512 << 10
"""Bytes of the JSON object at most: a head with the longest topic, each character of which is escaped."""
HEAD_ROOM: Final = 128 << 10
"""Bytes of ranges or heads in the JSON object, a first one aside: RANGES ranges or HEADS heads with usual topics."""
RANGES: Final = 256
"""Ranges of one request at most."""
HEADS: Final = 1024
"""Heads of one page at most."""
ORIGINS: Final = 1024
"""Runs of groups of one publisher in a page at most."""
NAME_LIMIT: Final = 65_535
"""Characters of an endpoint's name."""

EARLIEST, LATEST, SINCE, FROM, LAST = "earliest", "latest", "since", "from", "last"
"""Kinds of `start`: all; nothing; from a time on (µs since 1970); from a number on; the last n of each topic."""
STARTS: Final = frozenset({EARLIEST, LATEST, SINCE, FROM, LAST})

Start = tuple[str, int]
"""A kind and its value, 0 where there is none."""

Range = tuple[str, int, int, int, str, int]
"""Topic, first and last number, the place from which on a message counts, and the publisher's id ("" for the server's
own) and life."""

Origin = tuple[str, str, int]
"""A publisher: id, name and life."""


def json_size(topic: str) -> int:
    """Bytes of a range or a head of a topic in JSON, at most."""
    return len(orjson.dumps(topic)) + 96


class Request:
    """A request for history; `pattern` is set for scans and heads, `ranges` for the third kind.

    `kept` asks a keeper for what others published; it answers heads and ranges.
    """

    __slots__ = ("after", "digest", "era", "eras", "heads", "id", "kept", "pattern", "ranges", "room", "start", "until")

    def __init__(
        self,
        id: int,
        pattern: str = "",
        start: Start = (EARLIEST, 0),
        after: int = 0,
        until: int = 0,
        room: int = 1 << 20,
        heads: bool = False,
        ranges: Sequence[Range] = (),
        kept: bool = False,
        digest: bool = False,
        eras: tuple[int, int] | None = None,
        era: int = -1,
    ) -> None:
        self.kept = kept
        self.digest = digest
        self.eras = eras
        self.era = era
        self.id = id
        self.pattern = pattern
        self.start = start
        self.after = after
        self.until = until
        self.room = room
        self.heads = heads
        self.ranges = ranges

    def encode(self) -> bytes:
        """The request as a payload."""
        head: dict[str, Any] = {"id": self.id}
        if self.ranges:
            head["ranges"] = self.ranges
        else:
            head["heads" if self.heads else "digest" if self.digest else "scan"] = self.pattern
            if self.eras is not None:
                head["eras"] = self.eras
            if self.era >= 0:
                head["era"] = self.era
            if self.start[0] != EARLIEST:
                head["start"] = self.start
            if self.after:
                head["after"] = self.after
            if self.until:
                head["until"] = self.until
        head["room"] = self.room
        if self.kept:
            head["kept"] = 1
        return orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)


def decode_request(payload: Any) -> Request:
    """A request, strictly checked. Raises MalformedError."""
    head, _ = split(payload, HEAD_LIMIT)
    id, room, kept = integer(head.get("id")), integer(head.get("room")), head.get("kept") == 1
    if "ranges" in head:
        ranges = head["ranges"]
        if not isinstance(ranges, list) or not 1 <= len(ranges) <= RANGES:
            raise MalformedError("ranges")
        return Request(id, room=room, ranges=[_range(one) for one in ranges], kept=kept)
    heads, digest = "heads" in head, "digest" in head
    pattern = head.get("heads" if heads else "digest" if digest else "scan")
    eras, era = head.get("eras"), head.get("era", -1)
    if eras is not None:
        if not isinstance(eras, list) or len(eras) != 2:
            raise MalformedError("eras")
        eras = integer(eras[0]), integer(eras[1])
    if integer(era, -1) > 2 or ((digest or era >= 0) and eras is None):
        raise MalformedError("era")
    try:
        check_pattern(pattern)  # type: ignore[arg-type]  # refuses what is not a string, too
    except TopicError:
        raise MalformedError("pattern") from None
    start = head.get("start", [EARLIEST, 0])
    if not isinstance(start, list) or len(start) != 2 or not isinstance(start[0], str) or start[0] not in STARTS:
        raise MalformedError("start")
    after, until = integer(head.get("after", 0)), integer(head.get("until", 0))
    begin = start[0], integer(start[1], -INTEGER_LIMIT)
    return Request(id, str(pattern), begin, after, until, room, heads, (), kept, digest, eras, era)


def _range(value: Any) -> Range:
    if not isinstance(value, list) or len(value) != 6:
        raise MalformedError("range")
    topic, first, last, newer, origin, life = value
    _check_topic(topic)
    if not isinstance(origin, str) or len(origin) > 16:
        raise MalformedError("range")
    first, last = integer(first, 1), integer(last, 1)
    if not first <= last <= SEQUENCE_LIMIT:
        raise MalformedError("range")
    return topic, first, last, integer(newer), origin, integer(life)


class Page:
    """An answer. `groups` are messages, with `origins` if a keeper answers.

    `answered` is how many ranges were answered as a whole. `heads` are topics with their last numbers, and publishers:
    `[topic, last, id, life, first]`, where an empty id stands for the server, and `first` is the number with which a
    reader of a keeper begins. `compared` is of how many other keepers of the pattern a keeper has everything.
    """

    __slots__ = (
        "answered",
        "compared",
        "digests",
        "groups",
        "head",
        "heads",
        "id",
        "known",
        "next",
        "origins",
        "until",
    )

    def __init__(
        self,
        id: int,
        next: int,
        head: int,
        known: bool,
        groups: Sequence[MessageGroup] = (),
        origins: Sequence[tuple[str, str, int, int]] = (),
        answered: int = 0,
        heads: Sequence[tuple[str, int, str, int, int]] = (),
        until: int = 0,
        digests: tuple[str, str, str] | None = None,
        compared: int = 0,
    ) -> None:
        self.digests = digests
        self.compared = compared
        self.id = id
        self.next = next
        self.head = head
        self.known = known
        self.groups = groups
        self.origins = origins
        self.answered = answered
        self.heads = heads
        self.until = until

    def encode(self) -> bytes:
        """The page as a payload."""
        head: dict[str, Any] = {"id": self.id, "next": self.next, "head": self.head}
        if self.known:
            head["known"] = 1
        if self.origins:
            head["origins"] = self.origins
        if self.answered:
            head["answered"] = self.answered
        if self.heads:
            head["heads"] = self.heads
        if self.until:
            head["until"] = self.until
        if self.digests is not None:
            head["digests"] = self.digests
        if self.compared:
            head["compared"] = self.compared
        body = body_of(self.groups) if self.groups else ()
        return b"".join([orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE), *body])


def decode_page(payload: Any) -> Page:
    """A page, strictly checked. Raises MalformedError."""
    head, body = split(payload, HEAD_LIMIT)
    try:
        groups = decode(body) if body else []
    except MalformedBundleError:
        raise MalformedError("bundle") from None
    origins = head.get("origins", [])
    if not isinstance(origins, list) or len(origins) > ORIGINS:
        raise MalformedError("origins")
    checked = [_origin(one) for one in origins]
    if checked and sum(one[3] for one in checked) != len(groups):
        raise MalformedError("origins")
    heads = head.get("heads", [])
    if not isinstance(heads, list) or len(heads) > HEADS:
        raise MalformedError("heads")
    return Page(
        integer(head.get("id")), integer(head.get("next")), integer(head.get("head")), head.get("known") == 1,
        groups, checked, integer(head.get("answered", 0)), [_head(one) for one in heads],
        integer(head.get("until", 0)), _digests(head.get("digests")), integer(head.get("compared", 0)),
    )  # fmt: skip


def _digests(value: Any) -> tuple[str, str, str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        raise MalformedError("digests")
    if any(not isinstance(one, str) or len(one) != 16 for one in value):
        raise MalformedError("digests")
    return value[0], value[1], value[2]


def _origin(value: Any) -> tuple[str, str, int, int]:
    if not isinstance(value, list) or len(value) != 4:
        raise MalformedError("origin")
    id, name, life, groups = value
    if not isinstance(id, str) or len(id) != 16 or not isinstance(name, str) or len(name) > NAME_LIMIT:
        raise MalformedError("origin")
    return id, name, integer(life), integer(groups, 1)


def _head(value: Any) -> tuple[str, int, str, int, int]:
    if not isinstance(value, list) or len(value) != 5:
        raise MalformedError("head")
    topic, last, origin, life, first = value
    _check_topic(topic)
    if not isinstance(origin, str) or len(origin) not in (0, 16):
        raise MalformedError("head")
    last = integer(last, 1)
    if last > SEQUENCE_LIMIT:
        raise MalformedError("head")
    return topic, last, origin, integer(life), integer(first)


def _check_topic(topic: Any) -> None:
    try:
        check_topic(topic)
    except TopicError:
        raise MalformedError("topic") from None
