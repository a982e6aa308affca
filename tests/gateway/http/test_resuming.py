"""Where a client goes on that tells what it has got: in the door's ring, in its log, or nowhere without a loss."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from glue.gateway.http.places import Token
from glue.gateway.http.sources import TailSource
from glue.storage import JSON, MemoryLog, Record
from tests.gateway.http.test_streaming import tail_door

NEWEST, OLDEST, HEARD_FROM, KEPT_FROM = 40, 10, 5, 100
STREAM = "0" * 16
RING, OTHER_RING, LOG, OTHER_LOG = "11111111-22222222", "33333333-44444444", "5" * 16, "6" * 16


def door(is_kept: bool) -> Any:
    """A door whose ring has what is numbered from OLDEST on, and whose log has the offsets from KEPT_FROM on."""
    tail = SimpleNamespace(
        id=RING, first=OLDEST,
        open=lambda patterns, cursor, wake: SimpleNamespace(cursor=NEWEST if cursor is None else cursor),
    )  # fmt: skip
    feed = SimpleNamespace(
        tail=tail, want=lambda patterns: None, listened=lambda patterns, number: number >= HEARD_FROM,
        last_values=lambda patterns: [b"value"],
    )  # fmt: skip
    recent = SimpleNamespace(id=LOG, first=KEPT_FROM, log=MemoryLog(LOG))
    journal = SimpleNamespace(covers=lambda patterns: is_kept, recent=recent, settled=150)
    return SimpleNamespace(feed=feed, delivering=SimpleNamespace(journal=journal))


def resumed(is_kept: bool, told: str | None) -> tuple[int, bool, bool]:
    """The place in the ring, whether the log comes first, and whether messages may be missing."""
    source = TailSource(door(is_kept), ["t/#"], told, with_values=True)
    assert source._first == ([("", b"value")] if source.is_lost or told is None else [])
    return source._place.cursor, source._part is not None, source.is_lost


@pytest.mark.parametrize(
    ("ring", "number", "log", "place", "is_kept", "expected"),
    [
        (RING, OLDEST, LOG, KEPT_FROM, True, (OLDEST, False, False)),  # the ring has the rest
        (RING, NEWEST, OTHER_LOG, 0, True, (NEWEST, False, False)),
        (RING, OLDEST - 1, LOG, KEPT_FROM, True, (OLDEST, True, False)),  # the log has more of it
        (RING, OLDEST - 1, LOG, KEPT_FROM - 1, True, (OLDEST - 1, False, False)),
        (RING, OLDEST - 1, LOG, KEPT_FROM, False, (OLDEST - 1, False, False)),
        (RING, HEARD_FROM - 1, LOG, KEPT_FROM, True, (OLDEST, True, False)),  # nobody listened for the ring
        (RING, HEARD_FROM - 1, OTHER_LOG, KEPT_FROM, True, (NEWEST, False, True)),
        (OTHER_RING, NEWEST, LOG, KEPT_FROM, True, (OLDEST, True, False)),  # another life of the door
        (OTHER_RING, NEWEST, LOG, KEPT_FROM - 1, True, (NEWEST, False, True)),
        (OTHER_RING, NEWEST, LOG, KEPT_FROM, False, (NEWEST, False, True)),
    ],
)
def test_a_client_goes_on_where_most_is_left(
    ring: str, number: int, log: str, place: int, is_kept: bool, expected: tuple[int, bool, bool]
) -> None:
    assert resumed(is_kept, Token(ring, number, log, place, STREAM, 1).text) == expected


def test_a_new_client_begins_with_what_comes_and_a_wrong_place_is_a_loss() -> None:
    assert resumed(True, None) == (NEWEST, False, False)
    assert resumed(True, "no place") == (NEWEST, False, True)
    assert TailSource(door(True), ["t/#"], None, with_values=False)._first == []
    assert TailSource(door(False), ["t/#"], None, True).position == Token(RING, NEWEST).text
    assert TailSource(door(True), ["t/#"], None, True).position == Token(RING, NEWEST, LOG, 150).text
    told = Token(OTHER_RING, NEWEST, LOG, KEPT_FROM, STREAM, 1).text
    assert TailSource(door(True), ["t/#"], told, True).position == told, "nothing of the log was sent yet"


def test_who_goes_on_from_the_log_has_missed_nothing_that_left_the_ring_meanwhile() -> None:
    async def program() -> None:
        made, network = tail_door(keeps=True)
        log = made.delivering.journal.recent.log
        source = TailSource(made, ["t"], Token("gone", 9, "log", 0, STREAM, 0).text, False)
        for number in range(1, 5):
            log.append([Record("a" * 16, "k", 1, "t", number, [b"%d" % number], 1e9, 0, JSON)])
        assert len(await source.get(1.0) or []) == 4, "as the log has them"
        made.feed.tail._limit = 1
        for number in range(5, 9):
            network.publish("t", "t", number, number)
        ((_, text),) = await source.get(1.0) or []
        assert (json.loads(text)["payload"], source.take_missed()) == (8, 0)

    asyncio.run(program())
