"""The bounds of the topics layer: each at its value and one beyond."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest

from glue.contract import FirstRoundOver, Options, PeerInterest, Subscribe
from glue.contract.metadata import DELAYED, Metadata
from glue.errors import ConfigurationError, TopicError
from glue.topics import streams as stream_module
from glue.topics.alarms import Alarms
from glue.topics.bundle import (
    KEEP,
    KEPT,
    LIVE,
    MalformedBundleError,
    MessageGroup,
    decode,
    encode,
    milliseconds,
)
from glue.topics.copies import Copies, is_new
from glue.topics.limits import Limits
from glue.topics.names import check_pattern, check_topic, check_type
from glue.topics.peers import Peers
from glue.topics.published import PublishedTopics
from glue.topics.retained import RetainedValue, RetainedValues
from glue.topics.samples import asked_of
from glue.topics.streams import Stream, Streams
from glue.topics.wrapped import interval_of, limited, sampled
from tests.topics.parties import WALL_CLOCK, added, deliveries, endpoint_id, groups, inbound, message, topics, wants


def test_names_have_65535_bytes_and_types_255() -> None:
    for check, size in ((check_topic, 65_535), (check_pattern, 65_535)):
        for text in ("a" * size, "ü" * (size // 2) + "a"):
            check(text)
            with pytest.raises(TopicError, match=f"{size + 1} bytes; expected 1 to 65535 bytes"):
                check(text + "a")
    check_type("ü" * 127 + "a")
    with pytest.raises(ConfigurationError, match="1 to 255 bytes"):
        check_type("ü" * 128)
    with pytest.raises(TopicError, match=r"topic 'a{77}'…: '#' at character 79"):
        check_topic("a" * 79 + "#a")
    with pytest.raises(TopicError, match=r"topic 'a{79}#': '#'"):
        check_topic("a" * 79 + "#")


def test_intervals_and_counts_of_wrapped_interests() -> None:
    assert interval_of(limited(10**9, "a")) == (10**9, "a")
    assert interval_of(limited(10**9 + 1, "a")) is None
    assert asked_of(sampled(10**9, 10_000, "a")) == ((10**9, 10_000), "a")
    assert asked_of(sampled(10**9 + 1, 1, "a")) is None
    assert asked_of(sampled(1, 10_001, "a")) is None


def group(**more: Any) -> bytes:
    """A bundle with one group, and other members of its entry."""
    entry = {"topic": "a", "sequence": 9, "at": 0, "length": 1, **more}
    return orjson.dumps({"groups": [{key: one for key, one in entry.items() if one is not None}]}) + b"\nx"


GREATEST = (1 << 53) - 1


@pytest.mark.parametrize(
    ("key", "good", "wrong"),
    [
        ("sequence", [1, 1 << 50], [0, (1 << 50) + 1, 1.0, True]),
        ("at", [-GREATEST, GREATEST], [GREATEST + 1, -GREATEST - 1]),
        ("length", [1], [0, 2, -1, True]), ("count", [1], [0, 2, True]),
        ("lengths", [[1], [0, 1], None], [[], [2], [0], [1.0]]),
        ("type", ["t", "t" * 255, None], ["", "t" * 256, 7]), ("json", [0, 1], [-1, 2, True]),
        ("retain", [LIVE, KEEP, KEPT], [-1, 3, True]), ("lifespan", [0, GREATEST, None], [-1, GREATEST + 1]),
        ("position", [1, 9, None], [0, 10, 1.0]), ("unordered", [0, 1], [-1, 2, True]),
        ("codec", ["c", None], ["", 1.5]), ("topic", ["a/b"], ["", "a/+", 7]),
    ],
)  # fmt: skip
def test_an_entry_of_a_bundle_is_read_within_its_limits(key: str, good: list[Any], wrong: list[Any]) -> None:
    for value in good:
        (found,) = decode(group(**{key: value}))
        assert b"".join(found.payloads) == b"x"
    for value in wrong:
        with pytest.raises(MalformedBundleError):
            decode(group(**{key: value}))


def test_a_bundle_has_16384_messages_in_all_its_groups() -> None:
    for lengths, is_good in (((16_384,), True), ((16_385,), False), ((16_383, 1), True), ((16_383, 2), False)):
        body = encode([MessageGroup("a", 1, 0, [b""] * count, 0) for count in lengths])
        if is_good:
            assert [len(one.payloads) for one in decode(body)] == [*lengths]
        else:
            with pytest.raises(MalformedBundleError, match="malformed lengths"):
                decode(body)
    several = encode([MessageGroup("a", 1, 0, [b"x", b"y"], 1, retain=KEEP)])
    assert decode(several)[0].retain == KEEP
    with pytest.raises(MalformedBundleError, match="malformed retain"):
        decode(encode([MessageGroup("a", 1, 0, [b"x", b"y"], 1, retain=KEPT)]))
    assert [milliseconds(seconds) for seconds in (0.0, 0.0001, 1.5, 1e30)] == [0, 1, 1500, GREATEST]


def test_65536_topics_and_64_megabytes_are_limited_in_rate() -> None:
    limits = Limits(counts := Counter[str]())
    limits.add(limited(1000, "#"))
    limits._paces = dict.fromkeys(range(65_534))  # type: ignore[assignment, arg-type]  # others
    found = [len([*limits.offer(0.0, message(topic, b"1"))]) for topic in ("a", "b", "c", "a", "b", "c")]
    assert found == [1, 1, 1, 0, 0, 1]
    assert counts["limited rates exceeded: too many topics"] == 2
    assert counts["messages for limited rates"] == 6
    limits._size += (64 << 20) - 12
    assert [*limits.offer(0.0, message("a", b"x" * 11))] == []
    assert [one.payloads for one in limits.offer(0.0, message("a", b"x" * 12))] == [[b"x" * 12]]
    assert limits.deadline == 1.0
    limits._paces = {key: pace for key, pace in limits._paces.items() if pace is not None}
    assert sorted((one.topic, one.payloads[0]) for one in limits.due(1.0)) == [
        (limited(1000, "a"), b"x" * 11), (limited(1000, "b"), b"1"),
    ]  # fmt: skip
    assert limits.deadline == 2.0
    assert [*limits.due(2.0)] == []
    assert limits.deadline > 1e9


def test_a_limited_value_has_the_rest_of_its_life() -> None:
    limits = Limits(Counter())
    limits.add(limited(1000, "a"))
    (first,) = limits.offer(0.0, message("a", b"1", b"2", lifespan=5.0))
    assert (first.payloads, first.length, first.options.lifespan) == ([b"2"], 1, 5.0)
    assert [*limits.offer(0.25, message("a", b"3", lifespan=2.0))] == []
    (second,) = limits.due(1.0)
    assert second.options.lifespan == 1.25
    assert [*limits.offer(1.5, message("a", b"4", lifespan=0.5))] == []
    assert [*limits.due(2.0)] == [], "it is over just then"
    assert [*limits.offer(2.5, message("a", b"5"))] == []
    assert [one.payloads for one in limits.due(3.0)] == [[b"5"]]


def value(topic: str, size: int, publisher: str = "p", at: int = 0) -> RetainedValue:
    """A kept value."""
    return RetainedValue(topic, bytes(size), publisher, publisher, 1, 1, at)


def test_65536_values_and_64_megabytes_are_retained() -> None:
    values = RetainedValues()
    values._count = 65_535
    assert values.put(value("a", 1))
    assert not values.put(value("b", 1))
    assert values.put(value("a", 2)), "in its own place"
    values._count = 1
    values._size += (64 << 20) - 3 - 11
    assert values.put(value("b", 10))
    assert not values.put(value("c", 0)), "its topic takes a byte"
    assert values.put_anyway(value("c", 0)) == 1, "the oldest goes"
    assert [one.topic for one in values] == ["b", "c"]
    huge = value("c", (64 << 20) - 1)
    assert RetainedValues().put(huge)
    assert values.put_anyway(value("c", 64 << 20)) == 1
    assert [one.topic for one in values] == ["b"]


@pytest.mark.parametrize(("ahead", "added"), [(0, 1), (1, 2), (60_000_000, 60_000_001), (60_000_001, 0), (-1, 0)])
def test_a_retained_value_is_later_than_others_that_are_a_minute_ahead_at_most(ahead: int, added: int) -> None:
    values = RetainedValues()
    now = int(WALL_CLOCK * 1e6)
    values.put(value("a", 1, "p", now - 5))
    values.put(value("a", 1, "q", now + ahead))
    assert values.later(message("a", b"x")) == now + added
    assert values.later(message("b", b"x")) == now


def test_interests_of_a_peer_have_8_megabytes_and_of_all_64() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann"), added("bob")])
    peers: Peers = layer.peers
    ann = peers.table[endpoint_id("ann")]
    for pattern, size in (("a", 513), ("a/b", 515), ("a/+", 512 * 2 + 3), ("#", 513), ("a/b/#", 512 * 3 + 5)):
        for short, taken in ((1, False), (0, True)):
            peers._size = 0
            ann.size = before = (8 << 20) - size + short
            assert peers.change(wants("ann", pattern)) == ([pattern] if taken else [])
            assert ann.size == before + (size if taken else 0)
        peers.change(PeerInterest(endpoint_id("ann"), [], [pattern]))
        ann.size = 0
        peers._size = (64 << 20) - size + 1
        assert peers.change(wants("bob", pattern)) == []
        peers._size -= 1
        assert peers.change(wants("bob", pattern)) == [pattern]
        assert peers.change(wants("bob", pattern)) == []
        peers.change(PeerInterest(endpoint_id("bob"), [], [pattern]))
    assert layer.statistics["interest refused: too many"] == 10
    peers.change(wants("eve", "a"))
    assert layer.statistics["interest of an unknown peer"] == 1
    assert peers.name("eve") == "eve"


def test_topics_are_forgotten_after_32768_others_and_their_flows_beyond_256() -> None:
    known = dict.fromkeys(str(number) for number in range(600))
    published = PublishedTopics(known, counts := Counter[str]())
    first = published.topic("first")
    first.number(7, True)
    for number in range(300):
        published.topic(f"flow {number}").number(1, True)
        published.follow(published.topic(f"flow {number}"), ((str(number),), 2))
    published.topic("gone").sent = ((("unknown",), 2),)
    made = 302
    while not counts["topics forgotten"]:
        published.topic(str(made))
        made += 1
    assert made == 2 * 32_768 + 1
    for number in range(made, 3 * 32_768):
        published.topic(str(number))
    assert published.known("flow 7") is None
    again = published.topic("flow 7")
    assert again.number(1, True)[0] == 8, "no number comes twice"
    assert len(again.sent) == 256
    assert again.sent[-1] == (("299",), 2)
    assert published.follow(again, (("299",), 3)) == ((("299",), 2),)


def test_16384_delayed_messages_are_told_from_their_copies() -> None:
    seen: Any = dict.fromkeys(range(16_383))
    copies = Copies(counts := Counter[str]())
    copies._seen.update(seen)

    def wanted(tag: str | None, retain: int = LIVE, *tokens: str) -> tuple[Any, ...]:
        metadata = Metadata({DELAYED: tag} if tag else {"x": "y"}, None)
        return copies.wanted_by(
            MessageGroup("a", 1, 0, [b"x"], 1, retain=retain, metadata=metadata), tokens or ("token",)
        )

    assert wanted("first") == ("token",)
    assert len(copies._seen) == 16_384
    assert wanted("second") == ("token",)
    assert len(copies._seen) == 16_384
    assert 0 not in copies._seen  # type: ignore[comparison-overlap]
    assert wanted("first") == ()
    assert wanted("first", KEPT) == ("token",)
    assert wanted(None) == ("token",)
    assert counts == {"copies of delayed messages dropped": 1}
    assert is_new(copies._seen, "third")
    assert not is_new(copies._seen, "third")


def test_alarms_that_are_moved_leave_64_entries_at_most() -> None:
    alarms = Alarms()
    for due in range(66):
        alarms.set("a", float(due))
    assert len(alarms.heap) == 66
    alarms.set("a", 66.0)
    assert len(alarms.heap) == 1
    alarms.set("b", 5.0)
    alarms.set("b", 70.0)
    assert alarms.deadline == 5.0
    assert [*alarms.due(65.9)] == []
    assert [*alarms.due(66.0)] == ["a"]
    alarms.set("b", float("inf"))
    assert [*alarms.due(1e9)] == []
    assert alarms.deadline == float("inf")


def stream(position: int, at: float = 0.0) -> Stream:
    """A stream whose next reliable message is the one of this number."""
    found = Stream(1)
    found.take(at, True, position - 1, position - 1, 1, 0)
    return found


@pytest.mark.parametrize(
    ("after", "sequence", "is_believed"),
    [(0.0, 10 + (1 << 20), True), (0.0, 11 + (1 << 20), False), (0.5, 10 + (1 << 20) + 5_000_000, True),
     (0.5, 11 + (1 << 20) + 5_000_000, False)],
)  # fmt: skip
def test_how_far_an_honest_publisher_can_have_come(after: float, sequence: int, is_believed: bool) -> None:
    for numbers in ((sequence, sequence), (sequence, 10), (10, sequence)):  # of messages, and of positions
        assert stream(10, 3.0).is_believable(3.0 + after, True, *numbers, 2) is is_believed
    found = stream(10, 3.0)
    assert found.is_believable(3.0 + after, True, sequence, sequence, 2) is is_believed
    if not is_believed:
        assert not found.is_believable(3.0 + after, True, sequence, sequence, 2)
        assert found.is_believable(3.0 + after, True, sequence + 2, sequence + 2, 2), "it goes on from there"


def test_a_stream_of_late_messages_alone_begins_anew_after_ten_seconds() -> None:
    found = stream(100, 0.0)
    assert not found.is_wrong(1.0, 5, 1)
    assert [found.is_wrong(1.0 + 2.5 * step, 5 + step, 1) for step in range(1, 6)] == [False, False, False, True, True]
    found = stream(100, 0.0)
    assert not any(found.is_wrong(1.0 + 100.0 * step, 5 + step, 1) for step in range(4)), "stops count 2.5 s at most"
    assert found.is_wrong(401.0, 9, 1)
    found = stream(100, 0.0)
    assert not any(found.is_wrong(1.0 + 2.5 * step, 5, 1) for step in range(9)), "the same again and again"
    found.begin_anew()
    assert (found.expected, found.last, found.plain, found.refused, found.doubt) == ([0, 0], [0, 0], 0, 0, 0.0)
    assert all(found.is_believable(401.0, kind, 1 << 40, 1 << 40, 1) for kind in (True, False)), "whatever comes first"


def test_16384_gaps_wait_a_second_for_what_was_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(Counter())

    def take(now: float, sequence: int) -> Any:
        return streams.receive(now, "p", 1, MessageGroup("t", sequence, 0, [b"x"], 1), False, 7)

    assert take(0.0, 1) == (0, None)
    assert take(0.0, 5) == (0, None)
    assert streams.deadline == 1.0
    assert take(0.5, 3) == (0, None)
    assert [*streams.overdue(0.99)] == []
    ((peer, topic, jump),) = streams.overdue(1.0)
    assert (peer, topic, jump.count, jump.cause, jump.mark) == ("p", "t", 2, "best effort", 7)
    take(1.0, 8)
    one = streams._overdue[0]
    streams._overdue.extend([one] * 16_382)
    assert take(1.0, 10) == (0, None)
    dropped, jump = take(1.0, 12)
    assert (dropped, jump.count, jump.cause) == (0, 1, "best effort")
    assert stream_module.STREAMS == streams._streams._limit == 32_768


def test_what_is_published_at_the_start_waits_for_the_first_round_and_for_late_answers() -> None:
    layer = topics()
    layer.expect_first_round()
    layer.receive(0.0, [added("ann")])
    sent: list[Any] = [message("a", b"1"), message("b", b"22", retain=True), message("c", b"333", reliable=False),
            message("d", b"4", lifespan=9.0), message("e", b"5", ordered=False)]  # fmt: skip
    assert groups(layer.send(0.0, sent)) == []
    assert layer.backlog == 1 + 2 + 3 + 1
    assert layer.deadline == float("inf")
    assert layer.statistics["messages to nobody"] == 1, "what is unordered does not wait"
    layer.receive(0.0, [wants("ann", "a")])
    assert layer.backlog == 7, "the round is not over"
    _, down = layer.receive(1.0, [FirstRoundOver(5.0)])
    assert [one.topic for one in groups(down)] == ["a"]
    assert (layer.backlog, layer.deadline) == (6, 5.0)
    _, down = layer.receive(2.0, [wants("ann", "b", "d")])
    assert [(one.topic, one.retain, one.lifespan_ms) for one in groups(down)] == [("b", KEEP, None), ("d", LIVE, 7000)]
    (again,) = groups(layer.send(2.0, [message("a", b"6")]))
    assert again.sequence == 2
    assert layer.backlog == 3
    layer.receive(4.99, [])
    assert layer.backlog == 3
    layer.receive(5.0, [])
    assert (layer.backlog, layer.deadline) == (0, float("inf"))
    assert layer.statistics["messages to nobody"] == 2
    assert layer.statistics["messages to nobody at the start"] == 0, "best effort alone"
    assert groups(layer.send(5.0, [message("x", b"7")])) == []
    assert layer.backlog == 0


@pytest.mark.parametrize(("age", "is_heard"), [(1.5, True), (1.501, False)])
def test_a_message_is_as_old_as_its_lifespan_at_most(age: float, is_heard: bool) -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe("token", "a")])
    body = encode([MessageGroup("a", 1, 0, [b"x"], 1, lifespan_ms=1500)])
    found = deliveries(layer.receive(10.0, [inbound("ann", body, age=age)])[0])
    assert [(one.expires, one.age) for one in found] == ([(10.0, 1.5)] if is_heard else [])
    assert layer.statistics["messages expired"] == (not is_heard)


@pytest.mark.parametrize("lifespan", [0.0, -1.0, float("inf"), float("nan")])
def test_a_lifespan_is_a_positive_number_of_seconds(lifespan: float) -> None:
    with pytest.raises(ConfigurationError, match="lifespan="):
        topics().send(0.0, [message("a", b"x", lifespan=lifespan)])
    assert Options().lifespan is None
