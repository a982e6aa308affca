"""What a door remembers of messages: since when it listens, which it had, and its newest records in memory."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from glue.gateway.http import recent
from glue.gateway.http.journal import Journal
from glue.gateway.http.limits import Limits
from glue.gateway.http.recent import RECORD_COST, RecentLog
from glue.storage import MemoryLog
from tests.gateway.http.test_rings import Counted, opened, read, record, stored


def test_a_pattern_is_listened_to_since_the_first_that_covers_it() -> None:
    network, made = opened()
    made.want(["a/b"])
    network.publish("a/b", "a/b", 1)
    made.want(["a/#"])
    network.publish("a/#", "a/b", 2)
    made.want(["#"])
    assert [made.listened(["a/b"], at) for at in (0, 1)] == [True, True]
    assert [made.listened(["a/#"], at) for at in (0, 1)] == [False, True], "a narrower one says nothing of it"
    assert [made.listened(["#"], at) for at in (1, 2)] == [False, True]
    made.want(["a/c"])
    made.unwant(["a/#"])
    assert [made.listened(["a/c"], at) for at in (0, 1)] == [False, True], "since the first of the two"


def test_messages_that_came_are_known_for_twice_as_many_topics_as_values() -> None:
    network, made = opened(Limits(last_values=2))
    made.want(["#"])
    for topic in "abcd":
        network.publish("#", topic, 1, 1)
    network.publish("#", "a", 1, 1)
    assert made.statistics["messages"] == 4, "it came before"
    network.publish("#", "e", 1, 1)
    network.publish("#", "a", 1, 1)
    assert made.statistics["messages"] == 6, "forgotten by then"
    network.publish("#", "a", 1, 1)
    assert made.statistics["messages"] == 6


def test_a_feed_that_nobody_wants_knows_nothing_when_it_begins_again() -> None:
    network, made = opened()
    made.want(["a"])
    network.publish("a", "a", 1, 5)
    made.unwant(["a"])
    made.want(["a"])
    assert (made.last("a"), [*made.last_values(["#"])]) == (None, [])
    network.publish("a", "a", 2, 5)
    assert made.last("a") is not None, "a retained value comes again, and is the last one"
    made.close()
    made.close()
    assert network.log == ["+a", "-a", "+a", "-a"]


def test_a_last_value_is_forgotten_once_its_topic_was_not_listened_to() -> None:
    network, made = opened()
    made.want(["t/#"])
    made.want(["u"])
    network.publish("t/#", "t/x", "old", 7)
    assert b"old" in (made.last("t/x") or b"")
    made.want(["t/x"])
    made.unwant(["t/#"])
    assert made.last("t/x") is not None, "another client has listened all the time"
    made.unwant(["t/x"])
    assert made.last("t/x") is None
    made.want(["t/#"])
    assert (made.last("t/x"), [*made.last_values(["#"])]) == (None, []), "there may have been a later one"
    for _ in range(2):
        network.publish("t/#", "t/x", "old", 7)
    assert made.statistics["messages"] == 2, "it is retained, so it comes again: once"
    assert [b"old" in text for text in (made.last("t/x") or b"", *made.last_values(["t/+"]))] == [True, True]
    network.publish("t/#", "t/x", "new", 8)
    assert b"new" in (made.last("t/x") or b"")


# ------------------------------------------------------------------------------------------------------- the log


def test_all_that_is_synced_together_is_told_together() -> None:
    held = RecentLog(MemoryLog("log"))
    stored(held, record(1, 3), record(4), is_synced=False)
    assert [(at, one.sequence) for at, one in held.sync(4) or ()] == [(0, 1), (3, 4)]
    stored(held, record(5), record(6, 3), is_synced=False)
    assert [(at, one.sequence) for at, one in held.sync(8) or ()] == [(4, 5), (5, 6)]


def test_one_record_is_held_whatever_its_size_and_a_second_only_if_it_fits() -> None:
    log = Counted("log")
    held = RecentLog(log, RECORD_COST + 20)
    stored(held, record(1, size=500))
    assert (read(held, 0), log.reads) == (([(0, 1, 1)], 1), 0)
    stored(held, record(2))
    assert (read(held, 1), log.reads) == (([(1, 2, 1)], 2), 0)
    stored(held, record(3))
    assert (read(held, 2), log.reads) == (([(2, 3, 1)], 3), 0)
    read(held, 1)
    assert log.reads == 1
    assert recent.RECENT_BYTES == 16 << 20


def test_after_a_gap_as_much_is_held_as_before_it() -> None:
    log = Counted("log")
    held = RecentLog(log, 2 * (20 + RECORD_COST))
    stored(held, record(1, 2), record(3, 2), is_synced=False)
    assert held.sync(3) is None, "the log is synced within a record"
    assert held.sync(4) is None
    for number in (5, 7):
        stored(held, record(number, 2))
    assert (read(held, 4), log.reads) == (([(4, 5, 2), (6, 7, 2)], 8), 0)
    log.append([record(9)])  # told by nobody
    assert stored(held, record(10)) is None
    for number in (11, 13):
        stored(held, record(number, 2))
    assert (read(held, 10), log.reads) == (([(10, 11, 2), (12, 13, 2)], 14), 0)


def test_a_journal_keeps_dead_letters_always_and_patterns_as_long_as_somebody_wants_them() -> None:
    closed: list[str] = []

    async def keep(pattern: str, **_: Any) -> Any:
        return SimpleNamespace(log=MemoryLog("log"), _watch=lambda watcher: None, close=lambda: closed.append(pattern))

    async def program() -> None:
        endpoint: Any = SimpleNamespace(keep=keep, _core=SimpleNamespace(guard=None))
        made = Journal(endpoint, None, lambda before, new: None)
        await made.open()
        assert (made.keeps("$dead/s"), made.covers(["$dead/s", "$dead/#"]), made.covers(["t"])) == (True, True, False)
        await made.want("$dead/#")
        await made.unwant("$dead/#")
        assert (made.patterns, closed) == (["$dead/#"], [])
        for pattern in ("t/x", "t/x", "u/#"):
            await made.want(pattern)
        assert made.patterns == ["$dead/#", "t/x", "u/#"]
        assert (made.covers(["t/x", "u/y", "u/#"]), made.covers(["t/#"]), made.covers(["#"])) == (True, False, False)
        await made.unwant("t/x")
        assert (made.keeps("t/x"), closed) == (True, [])
        await made.unwant("t/x")
        assert (made.keeps("t/x"), made.covers(["t/x"]), closed) == (False, False, ["t/x"])
        await made.want("t/x")
        assert made.keeps("t/x")

    asyncio.run(program())
