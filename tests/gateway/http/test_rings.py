"""What a door holds for readers: recent records of its log, the ring of streams, last values, and the log before it."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import ForbiddenError
from glue.gateway.http import sources
from glue.gateway.http.feed import Feed, described
from glue.gateway.http.limits import Limits
from glue.gateway.http.places import Token, stream_key, token_of
from glue.gateway.http.recent import RECORD_COST, RecentLog
from glue.gateway.http.sources import LogPart
from glue.gateway.http.tail import ENTRY_COST, Entry, Tail
from glue.storage import JSON, MemoryLog, Record


def record(number: int, count: int = 1, size: int = 10, topic: str = "t/x") -> Record:
    """Messages of one publisher from a number on."""
    return Record("a" * 16, "kitchen", 1, topic, number, [b"%03d" % n + bytes(size - 3) for n in range(count)], 1e9)


class Counted(MemoryLog):
    """A log that counts how often it is read."""

    reads = 0

    def read(self, *given: Any, **named: Any) -> Any:
        self.reads += 1
        return super().read(*given, **named)


def stored(recent: RecentLog, *records: Record, is_synced: bool = True) -> Any:
    """Append records to a log and its memory; what a sync tells."""
    begin = recent.log.end
    end = recent.log.append(list(records))
    recent.add(begin, end, records)
    return recent.sync(end) if is_synced else None


def read(
    recent: RecentLog, offset: int, size: int = 1 << 20, topic: str = ""
) -> tuple[list[tuple[int, int, int]], int]:
    """Offset, number and count of each record from an offset on; and where to go on."""
    found = recent.read(lambda one: topic in one, offset, size)
    return [(at, one.sequence, len(one.payloads)) for at, one in found.records], found.next


def test_the_newest_records_are_read_from_memory_and_older_ones_from_the_log() -> None:
    log = Counted("log")
    recent = RecentLog(log, 2 * (30 + RECORD_COST))
    for number in (1, 4, 7):
        (told,) = stored(recent, record(number, 3))
        assert (told[0], told[1].sequence, recent.durable) == (number - 1, number, number + 2)
    assert read(recent, 3) == ([(3, 4, 3), (6, 7, 3)], 9)
    assert read(recent, 5) == ([(5, 6, 1), (6, 7, 3)], 9)
    assert read(recent, 3, 30) == ([(3, 4, 3)], 6)
    assert read(recent, 3, 31) == ([(3, 4, 3), (6, 7, 3)], 9)
    assert read(recent, 6, 1, "other") == ([], 9)
    assert read(recent, 9) == read(recent, 100) == ([], 9)
    assert log.reads == 0
    assert read(recent, 2) == ([(2, 3, 1)], 3)
    assert log.reads == 1
    assert recent.offset_at(1e9) == 0
    assert recent.offset_at(2e9) == 9
    recent.durable = 4
    assert recent.offset_at(2e9) == 4


def test_what_is_not_durable_is_not_read_and_what_came_another_way_is_left_to_the_log() -> None:
    log = Counted("log")
    recent = RecentLog(log)
    stored(recent, record(1, 2), record(3, 2), is_synced=False)
    assert read(recent, 0) == ([], 0)
    assert [at for at, _ in recent.sync(2) or ()] == [0]
    assert read(recent, 0) == ([(0, 1, 2)], 2)
    assert recent.sync(3) is None, "the log has a part of a record"
    assert read(recent, 0, 1)[0] == [(0, 1, 2)]
    assert log.reads == 1
    assert recent.sync(3) == []
    log.append([record(5)])  # told by nobody
    assert stored(recent, record(6)) is None
    assert (recent.durable, read(recent, 5)) == (6, ([(5, 6, 1)], 6))
    assert log.reads == 2
    assert [at for at, _ in stored(recent, record(7))] == [6]
    assert read(recent, 6) == ([(6, 7, 1)], 7)
    assert log.reads == 2
    recent.add(7, 9, [record(8)])  # one of the two was stored before
    assert recent.sync(9) is None


def test_a_ring_has_its_limit_and_keeps_one_message_whatever_its_size() -> None:
    tail = Tail("door", 2 * (ENTRY_COST + 10))
    for number in range(3):
        tail.append(Entry("t", b"%010d" % number))
    assert (tail.first, tail.end) == (1, 3)
    tail.append(Entry("t", bytes(1_000)))
    assert (tail.first, tail.end) == (3, 4)
    assert tail.open(["t"], None, lambda: None).cursor == 4
    assert [tail.open(["t"], at, lambda: None).cursor for at in (-5, 2, 9)] == [0, 2, 4]
    place = tail.open(["t"], 2, lambda: None)
    tail.skip(place)
    assert (place.cursor, place.missed) == (3, 0)
    late = tail.open(["t"], 1, lambda: None)
    assert [at for at, _ in tail.read(late, 5)] == [3]
    assert (late.missed, late.is_idle) == (2, False)
    assert tail.read(late, 5) == []
    assert late.is_idle


def test_a_place_in_the_past_has_what_came_before_it_read_anything() -> None:
    tail, woken = Tail("door", 1 << 20), list[str]()
    tail.append(Entry("t", b"1"))
    place = tail.open(["t"], 0, lambda: woken.append("woken"))
    tail.append(Entry("t", b"2"))
    assert [entry.text for _, entry in tail.read(place, 5)] == [b"1", b"2"]
    assert woken == [], "it waits for nothing yet"


def test_a_reader_that_waits_misses_nothing_of_what_it_does_not_want() -> None:
    tail, woken = Tail("door", 2 * (ENTRY_COST + 1)), list[str]()
    place = tail.open(["t"], None, lambda: woken.append("woken"))
    assert tail.read(place, 5) == []
    for topic in ("other", "other", "other", "t", "t"):
        tail.append(Entry(topic, b"1"))
    assert woken == ["woken"], "once, however much comes before it reads"
    assert ([at for at, _ in tail.read(place, 5)], place.missed) == ([3, 4], 0)


def test_a_place_that_is_closed_is_woken_no_more() -> None:
    tail, woken = Tail("door", 1 << 20), []
    place = tail.open(["a", "b"], None, lambda: woken.append("one"))
    other = tail.open(["a"], None, lambda: woken.append("two"))
    assert tail.read(place, 1) == tail.read(other, 1) == []
    tail.close(["a", "b"], place)
    tail.append(Entry("b", b"1"))
    tail.append(Entry("a", b"2"))
    assert woken == ["two"]
    assert (other.cursor, other.is_idle) == (1, False), "what is of no concern is passed over at once"


def numbered(events: list[tuple[str, bytes]]) -> list[tuple[int, int, int]]:
    """Place, number and what the message says, of events of a log."""
    found = []
    for id, text in events:
        token, message = token_of(id), json.loads(text)
        assert token is not None
        assert (token.ring, token.next, token.log) == ("log", 0, "log")
        assert token.stream == stream_key("a" * 16, 1, message["topic"])
        assert token.sequence == message["sequence"]
        assert message["offset"] == f"log.{token.place - 1}"
        found.append((token.place, token.sequence, message["payload"]))
    return found


def logged() -> MemoryLog:
    """A log with messages of several topics."""
    log = MemoryLog("log")
    for topic, number in (("t/x", 1), ("u", 1), ("t/y", 1), ("t/x", 4)):
        log.append([Record("a" * 16, "k", 1, topic, number, [b"%d" % n for n in range(3)], 1e9, 0, JSON)])
    return log


def test_a_client_goes_on_in_the_log_behind_its_last_message(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_key("a" * 16, 1, "t/x")
    part = LogPart(logged(), ["t/+"], Token("door", 9, "log", 0, stream, 2))
    found = numbered(part._read())
    assert found == [(3, 3, 2), (7, 1, 0), (8, 2, 1), (9, 3, 2), (10, 4, 0), (11, 5, 1), (12, 6, 2)]
    assert part._read() == []
    assert part.seen == {stream_key("a" * 16, 1, "t/y"): 4, stream: 7}
    assert [*part.seen] == [stream_key("a" * 16, 1, "t/y"), stream]
    monkeypatch.setattr(sources, "READ_SIZE", 1)
    monkeypatch.setattr(sources, "STREAMS", 1)
    part = LogPart(logged(), ["t/y", "u"], Token("door", 9, "log", 1, "", 0))
    assert [numbered(part._read()) for _ in range(3)] == [
        [(4, 1, 0), (5, 2, 1), (6, 3, 2)], [(7, 1, 0), (8, 2, 1), (9, 3, 2)], [],
    ]  # fmt: skip
    assert [*part.seen] == [stream_key("a" * 16, 1, "t/y")]
    assert LogPart(logged(), ["t/x"], Token("door", 9, "log", 9, stream, 99))._read() == [], "it has them all"


# --------------------------------------------------------------------------------------------- last values


class Network:
    """The endpoint of a feed: what it is subscribed to, and messages for that."""

    def __init__(self) -> None:
        self.open: dict[str, Any] = {}
        self.log: list[str] = []
        self.numbers: dict[str, int] = {}

    def subscribe(self, pattern: str, handler: Any) -> Any:
        self.open[pattern] = handler
        self.log.append(f"+{pattern}")

        def close() -> None:
            del self.open[pattern]
            self.log.append(f"-{pattern}")

        return SimpleNamespace(close=close)

    def publish(self, pattern: str, topic: str, payload: Any, number: int | None = None, life: int = 1) -> None:
        self.numbers[topic] = number = number or self.numbers.get(topic, 0) + 1
        self.open[pattern](message(topic, payload, number, incarnation=life))


def message(topic: str, payload: Any, number: int = 1, **more: Any) -> Any:
    given = {
        "publisher": "kitchen", "publisher_id": "a" * 16, "incarnation": 1, "published_at": 1e9, "encoded": None,
        "codec": None, "type": None, "retained": False, "properties": {}, **more,
    }  # fmt: skip
    return SimpleNamespace(topic=topic, payload=payload, sequence=number, **given)


def opened(limits: Limits | None = None) -> tuple[Network, Feed]:
    network: Any = Network()
    journal: Any = SimpleNamespace(settled=77)
    return network, Feed(network, limits or Limits(), "door", journal)


def test_a_feed_subscribes_to_what_no_other_pattern_covers() -> None:
    network, made = opened()
    made.want(["a/b"])
    made.want(["a/#", "c"])
    made.want(["a/b"])
    assert sorted(network.open) == ["a/#", "c"]
    assert network.log.index("-a/b") > network.log.index("+a/#"), "nothing is missed"
    assert made.covers("a/x")
    assert not made.covers("b")
    made.unwant(["a/#"])
    assert sorted(network.open) == ["a/b", "c"]
    made.unwant(["a/b"])
    assert sorted(network.open) == ["a/b", "c"], "another client wants it"
    made.unwant(["a/b", "c"])
    assert network.open == {}


def test_a_pattern_that_the_endpoint_refuses_holds_up_no_other_one() -> None:
    network, made = opened()
    subscribe = network.subscribe

    def guarded(pattern: str, handler: Any) -> Any:
        if pattern.startswith("$model/"):
            raise ForbiddenError(f"door may not subscribe to {pattern!r}")
        return subscribe(pattern, handler)

    network.subscribe = guarded  # type: ignore[method-assign]
    made.want(["a/b"])
    with pytest.raises(ForbiddenError, match="plant"):
        made.want(["c", "$model/plant/a"])
    assert sorted(network.open) == ["a/b"], "the client gets a refusal, and nothing else"
    made.want(["a/#"])
    assert sorted(network.open) == ["a/#"]
    made.unwant(["a/#"])
    made.unwant(["a/b"])
    assert network.open == {}


def test_a_pattern_has_been_listened_to_since_another_one_covers_it() -> None:
    network, made = opened()
    made.want(["a/#"])
    for _ in range(3):
        network.publish("a/#", "a/b", 1)
    made.want(["a/b", "c"])
    assert [made.listened(["a/b"], at) for at in (0, 3)] == [True, True]
    assert [made.listened(["c"], at) for at in (2, 3, 4)] == [False, True, True]
    assert not made.listened(["a/b", "c"], 0)
    assert not made.listened(["d"], 9)
    made.unwant(["c"])
    assert not made.listened(["c"], 9)


def test_a_message_counts_once_and_is_the_last_value_of_its_topic() -> None:
    network, made = opened(Limits(last_values=2))
    made.want(["#"])
    for topic, payload, number in (("a", 1, 1), ("a", 2, 2), ("a", 2, 2), ("a", 1, 1), ("b", 3, 1), ("c", 4, 1)):
        network.publish("#", topic, payload, number)
    assert made.statistics == {"messages": 4, "last values left out": 1}
    assert [json.loads(made.last(topic) or b"null") for topic in "ac"] == [
        {"topic": "a", "payload": 2, "publisher": "kitchen", "sequence": 2, "published_at": 1e9}, None,
    ]  # fmt: skip
    assert [json.loads(text)["payload"] for text in made.last_values(["b", "c"])] == [3]
    assert [(one.topic, one.sequence, one.place) for one in made.tail._entries] == [
        ("a", 1, 77), ("a", 2, 77), ("b", 1, 77), ("c", 1, 77),
    ]  # fmt: skip
    assert made.tail._entries[0].stream == stream_key("a" * 16, 1, "a")
    network.publish("#", "a", 5, 1, life=2)
    assert json.loads(made.last("a") or b"")["payload"] == 5
    for topic in "de":
        network.publish("#", topic, 0)
    assert len(made._seen) <= 2 * 2, "bounded"
    made.unwant(["#"])
    made.want(["a"])
    assert made.last("a") is None, "nobody has listened meanwhile"
    network.publish("a", "a", 5, 1, life=2)
    assert made.last("a") is not None


def test_last_values_that_nobody_wants_any_more_give_room_to_others() -> None:
    network, made = opened(Limits(last_values=3))
    for patterns in (["a/#"], ["a/x"], ["b"]):
        made.want(patterns)
    for topic in ("a/x", "a/y", "a/z"):
        network.publish("a/#", topic, 1)
    network.publish("b", "b", 1, 1)
    assert (made.last("b"), made.statistics["last values left out"]) == (None, 1)
    made.unwant(["a/#"])
    network.publish("b", "b", 2, 2)
    assert [made.last(topic) is not None for topic in ("b", "a/x", "a/y")] == [True, True, False]
    assert made.statistics["last values left out"] == 1
    assert sorted(made._values) == ["a/x", "b"]


def test_last_values_give_room_also_where_a_later_pattern_covers_them() -> None:
    network, made = opened(Limits(last_values=1))
    made.want(["a/#"])
    network.publish("a/#", "a/x", 1)
    made.want(["#"])
    made.unwant(["a/#"])
    network.publish("#", "b", 1)
    assert made.last("b") is not None, "nobody who listened when a/x came listens now"


def test_patterns_linger_for_a_minute_and_a_thousand_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[tuple[float, Any]] = []
    loop = SimpleNamespace(call_later=lambda after, call: timers.append((after, call)))
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    network, made = opened()
    for number in range(1_001):
        made.want(["a" if number else "b"])
        made.release(["a" if number else "b"])
    assert {after for after, _ in timers} == {60.0}
    assert (len(timers), sorted(network.open)) == (1_000, ["a", "b"])
    assert made._wanted == {"a": 999, "b": 1}
    for _, end in timers[:2]:
        end()
    assert sorted(network.open) == ["a"]
    for _ in range(3):
        made.release(["a"])
    assert len(timers) == 1_002, "as many as have ended"
    made.close()
    assert network.open == {}
    for _, end in timers[2:]:
        end()
    made.want(["c"])
    made.release(["c"])
    assert (len(timers), made._wanted["c"]) == (1_002, 0)


def test_a_message_is_shown_with_what_it_has() -> None:
    plain = {"topic": "t", "publisher": "kitchen", "sequence": 1, "published_at": 1e9}
    assert described(message("t", {"a": 1})) == {**plain, "payload": {"a": 1}}
    assert described(message("t", b"\0")) == {**plain, "payload_base64": "AA=="}
    packed = message("t", 5, encoded=b"\1", codec="pack", type="T", retained=True, properties={"a": "b"})
    assert described(packed) == {
        **plain, "payload_base64": "AQ==", "codec": "pack", "type": "T", "retained": True, "properties": {"a": "b"},
    }  # fmt: skip
