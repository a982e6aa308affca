"""The broker at its edges: what just counts and what just does not, and what it counts and says of it."""

from __future__ import annotations

from typing import Any

import pytest

from glue.gateway.mqtt import codes, encoder, routing
from glue.gateway.mqtt.cluster.shared import Shared
from glue.gateway.mqtt.codes import ProtocolError
from glue.gateway.mqtt.decoder import CONNECT_LIMIT, FILTERS_LIMIT, Decoder
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.properties import MOST_USER_PROPERTIES, read_properties
from glue.gateway.mqtt.retained import Retained
from glue.gateway.mqtt.runs import read_acknowledgements, read_publications
from glue.gateway.mqtt.session import LAST_ID, Parcel, Session
from glue.gateway.mqtt.stored import Kept
from glue.gateway.mqtt.timers import KEPT, Timers
from glue.gateway.refusals import Refusals
from glue.model.state import Set
from tests.support import mqtt
from tests.support.mqtt import Bench


def run(count: int, size: int = 1, topic: str = "t", qos: int = 1) -> Publish:
    return Publish(topic, [b"%03d" % number + bytes(max(0, size - 3)) for number in range(count)], qos)


# ------------------------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize(
    ("next_id", "count", "ids", "following"),
    [
        (LAST_ID - 1, 2, [65_534, 65_535], 1),
        (LAST_ID - 1, 3, [1, 2, 3], 4),
        (1, 2, [1, 2], 3),
        (LAST_ID, 1, [65_535], 1),
    ],
)
def test_packet_ids_are_given_out_in_a_row_up_to_the_last_one(
    next_id: int, count: int, ids: list[int], following: int
) -> None:
    session = Session("s", 10, 1_000)
    session.next_id = next_id
    assert list(session.number(Parcel(run(count), 1))) == ids
    assert (session.next_id, {n: place for n, (_, place) in session.inflight.items()}) == (
        following, dict(zip(ids, range(count), strict=True)),
    )  # fmt: skip


def test_ids_in_use_are_passed_over_and_the_search_goes_round() -> None:
    session = Session("s", 10, 1_000)
    session.next_id, session.released = LAST_ID, {LAST_ID: None, 2: None}
    assert list(session.number(Parcel(run(3), 1))) == [1, 3, 4]
    assert session.next_id == 5
    assert (session.acknowledge([1, 1, 9]), sorted(session.inflight)) == (2, [3, 4])


def test_a_queue_is_bounded_in_messages_and_bytes() -> None:
    for messages, size, lost in (
        (3, 1_000, 1),
        (4, 1_000, 0),
        (9, 40, 0),
        (9, 39, 1),
        (9, 10, 3),
        (9, 9, 4),
        (0, 99, 4),
    ):
        session = Session("s", messages, size)
        assert session.put(Parcel(run(4, 10), 1)) == lost, (messages, size)
        assert (session.queued, session.queued_bytes, session.dropped) == (4 - lost, 10 * (4 - lost), lost)
        assert session.put(Parcel(run(4, 10), 1), limit=session.queued) == 4
        assert session.dropped == lost, "they stay in the log"
    session = Session("s", 100, 1_000)
    for one in (run(3), run(4)):
        session.put(Parcel(one, 1))
    found = [(parcel.run.count, list(ids)) for parcel, ids in session.take(0.0, 5)]
    assert found == [(3, [1, 2, 3]), (2, [4, 5])]
    assert (session.queued, session.queued_bytes, session.next_id) == (2, 6, 6)
    session.queue[0].run.expires = 7.0
    assert [*session.take(7.0, 5)] == []
    assert (session.queued, session.queued_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("told", "kept"), [(None, 60), (0, 0), (5, 5), (100, 100), (101, 100), (0xFFFFFFFF, 100)]
)  # fmt: skip
def test_a_goodbye_says_how_long_a_session_stays(told: int | None, kept: int) -> None:
    bench = Bench(limits=Limits(session_expiry=100.0))
    device = bench.connect("s", 5, raw=b"\x11\0\0\0\x3c")
    raw = b"" if told is None else b"\0" + mqtt.properties(b"\x11" + told.to_bytes(4, "big"))
    device.send(mqtt.packet(0xE0, raw))
    device.leave()
    bench.pass_time(max(kept - 0.5, 0))
    assert ("s" in bench.broker.sessions) == (kept > 0)
    bench.pass_time(1)
    assert "s" not in bench.broker.sessions


def test_a_goodbye_does_not_bring_back_a_session_that_had_to_end() -> None:
    bench = Bench()
    device = bench.connect("s", 5)
    device.send(mqtt.packet(0xE0, b"\0" + mqtt.properties(b"\x11\0\0\0\x3c")))
    assert [(one.kind, one.body[0]) for one in device.read()] == [(14, codes.PROTOCOL_ERROR)]
    assert bench.broker.statistics["protocol errors, 0x82"] == 1


@pytest.mark.parametrize(("code", "is_published"), [(0, False), (4, True), (0x80, True)])
def test_a_goodbye_with_a_reason_publishes_the_will(code: int, is_published: bool) -> None:
    bench = Bench()
    subscriber = bench.subscriber(("w", 0))
    device = bench.connect("m", 5, will=("w", b"gone", 0, False))
    device.send(mqtt.packet(0xE0, bytes((code,))))
    device.leave()
    assert subscriber.payloads() == [b"gone"] * is_published
    assert bench.broker.statistics["wills published"] == is_published


def test_a_connection_that_is_closing_is_not_silent_as_well() -> None:
    bench = Bench()
    device = bench.connect("c", 5, keep_alive=10)
    bench.broker.end(bench.now, device.client, codes.SERVER_BUSY, "busy")
    late = bench.link(5)
    bench.broker.end(bench.now, late.client, codes.SERVER_BUSY, "busy")
    bench.pass_time(60)
    assert bench.broker.statistics["keep-alive timeouts"] == bench.broker.statistics["no CONNECT in time"] == 0
    assert device.client.reason == "busy"


def test_a_goodbye_that_is_larger_than_a_client_takes_has_no_words() -> None:
    for size, has_words in ((40, True), (20, False)):
        bench = Bench()
        device = bench.connect("c", 5, raw=b"\x27" + size.to_bytes(4, "big"))
        bench.broker.end(bench.now, device.client, codes.SERVER_BUSY, "x" * 20)
        (sent,) = device.read()
        assert (sent.body[0], b"xxx" in sent.body) == (codes.SERVER_BUSY, has_words)


# --------------------------------------------------------------------------------------------------- routing


def test_a_shared_run_is_cut_for_its_members_and_dropped_without_one() -> None:
    bench = Bench()
    members = [bench.subscriber(("$share/g/t", 1), client_id=name) for name in "abc"]
    bench.broker.deliver(bench.now, run(100))
    assert sorted(len(member.messages()) for member in members) == [32, 32, 36]
    bench.broker.deliver(bench.now, run(7))
    assert sorted(len(member.messages()) for member in members) == [2, 2, 3]
    for member in members:
        member.leave()
    bench.broker.deliver(bench.now, run(2))
    assert bench.broker.statistics["messages dropped"] == 0


def test_a_publisher_is_held_only_by_a_connection_that_is_not_stuck_yet() -> None:
    bench = Bench(limits=Limits(stuck_after=0.5))
    slow = bench.subscriber(("t", 0), client_id="slow")
    publisher = bench.connect("p")
    bench.broker.full(bench.now, slow.client)
    for _ in range(2):
        publisher.send(mqtt.publish("t", b"1"))
    assert (publisher.client.held, len(slow.client.holds)) == (1, 1)
    slow.send(mqtt.publish("t", b"own"))
    assert slow.client.held == 0, "nobody waits for itself"
    bench.broker.free(bench.now, slow.client)
    bench.broker.full(bench.now + 0.3, slow.client)
    bench.pass_time(0.6)
    assert bench.broker.statistics["connections stuck"] == 0, "it took bytes meanwhile"
    bench.pass_time(0.3)
    assert (slow.client.is_stuck, bench.broker.statistics["connections stuck"]) == (True, 1)
    bench.broker.deliver(bench.now, run(3, qos=0))
    assert (slow.client.dropped, bench.broker.statistics["messages dropped"]) == (3, 3)


def test_arrivals_of_a_session_that_moved_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert routing.ARRIVALS == 100_000
    monkeypatch.setattr(routing, "ARRIVALS", 2)
    bench = Bench()
    bench.subscriber(("t", 1), client_id="s")
    session = bench.broker.sessions["s"]
    session.arrivals = type(bench.broker.statistics)()  # type: ignore[assignment]
    for payload in (b"1", b"2", b"3"):
        bench.broker.deliver(bench.now, Publish("t", [payload], 1))
    assert session.arrivals == {("t", b"1"): 1, ("t", b"2"): 1}


# --------------------------------------------------------------------------------------------------- packets


def test_runs_of_packets_are_read_at_once_up_to_the_first_that_differs() -> None:
    for version, qos, size in ((4, 0, 5), (4, 1, 200), (5, 0, 200), (5, 1, 5), (4, 2, 100), (5, 2, 125)):
        first = [mqtt.publish("t/x", bytes((n,)) * size, qos, n + 1, version=version) for n in range(5)]
        data = b"".join(first) + mqtt.publish("t/y", bytes(size), qos, 9, version=version)
        found, end = read_publications(data, 0, len(data), version, 1 << 20)
        assert found is not None
        assert (found.count, end, list(found.ids)) == (5, sum(map(len, first)), [1, 2, 3, 4, 5] if qos else [])
        assert found.payloads == [bytes((n,)) * size for n in range(5)]
        length = len(first[0]) - (2 if size < 120 else 3)
        assert read_publications(data, 0, len(data), version, length)[0] is not None
        assert read_publications(data, 0, len(data), version, length - 1) == (None, 0)
        assert read_publications(data, 0, len(first[0]) - 1, version, 1 << 20) == (None, 0)
    acks = b"".join(mqtt.acknowledge(4, number) for number in (1, 300, 3)) + mqtt.acknowledge(5, 4)
    ack, end = read_acknowledgements(acks, 0, len(acks))
    assert ack is not None
    assert ([*ack.ids], end) == ([1, 300, 3], 12)
    assert read_acknowledgements(acks, 0, 3) == (None, 0)
    ack, end = read_acknowledgements(acks, 4, 8)
    assert ack is not None
    assert ([*ack.ids], end) == ([300], 8)


def test_packets_have_their_bounds() -> None:
    def feed(data: bytes, version: int = 5) -> int:
        made = Decoder()
        try:
            list(made.feed(mqtt.connect(version=version)))
            list(made.feed(data))
        except ProtocolError as error:
            return error.code
        return 0

    for count, code in ((FILTERS_LIMIT, 0), (FILTERS_LIMIT + 1, codes.PROTOCOL_ERROR)):
        assert feed(mqtt.subscribe(1, *[("t", 0)] * count), 4) == feed(mqtt.unsubscribe(1, *["t"] * count), 4) == code
    assert (FILTERS_LIMIT, MOST_USER_PROPERTIES, CONNECT_LIMIT) == (4_096, 256, 1 << 20)
    for count, code in ((256, 0), (257, codes.PROTOCOL_ERROR)):
        assert feed(mqtt.publish("t", b"", version=5, raw=b"\x26\0\1a\0\1b" * count)) == code
    for size, code in ((CONNECT_LIMIT, 0), (CONNECT_LIMIT + 1, codes.PACKET_TOO_LARGE)):
        made = Decoder()
        try:
            list(made.feed(b"\x10" + mqtt.length(size)))
            found = 0
        except ProtocolError as error:
            found = error.code
        assert found == code
    block = b"\x0b" * 2
    assert read_properties(bytes((len(block),)) + block, 0, 3, codes.PUBLISH)[0] == {"subscription_identifier": [11]}


def test_acknowledgements_of_many_are_written_as_those_of_one() -> None:
    for ids in ([1], [1, 300, 65_535], range(250, 260)):
        assert encoder.acknowledgements(5, ids) == b"".join(mqtt.acknowledge(5, number) for number in ids)


# ------------------------------------------------------------------------------------- tables, timers, refusals


def test_retained_messages_are_limited_counted_and_forgotten_with_their_levels() -> None:
    table = Retained(2)
    assert table.put(run(1, topic="a/b"))
    assert table.put(run(1, topic="a"))
    assert (table.put(run(1, topic="c")), len(table)) == (False, 2)
    assert table.put(run(1, topic="a/b")), "another one of its topic"
    empty = Publish("a/b", (b"",), 1)
    for topic in ("a/x", "a/b/c", "q"):
        empty.topic = topic
        assert table.put(empty)
    assert len(table) == 2
    empty.topic = "a/b"
    table.put(empty)
    assert (len(table), [one.topic for one in table], [*table._root.children["a"].children]) == (1, ["a"], [])
    empty.topic = "a"
    table.put(empty)
    assert (len(table), table._root.children, table.get("a")) == (0, {}, None)
    for topic in ("$SYS/x", "a/b"):
        table.put(run(1, topic=topic))
    found = {
        name: [one.topic for one in table.find(name)] for name in ("#", "+/x", "$SYS/#", "+/+", "a/+", "a/b/#", "a")
    }
    assert found == {
        "#": ["a/b"], "+/x": [], "$SYS/#": ["$SYS/x"], "+/+": ["a/b"], "a/+": ["a/b"], "a/b/#": ["a/b"], "a": [],
    }  # fmt: skip


def test_timers_run_in_order_and_those_that_are_called_off_go_when_there_are_many() -> None:
    timers, done = Timers(), list[Any]()
    for at in (3.0, 1.0, 2.0, 1.0):
        timers.at(at, lambda now, at=at: done.append((now, at)))  # type: ignore[misc]
    assert (timers.deadline, len(timers)) == (1.0, 4)
    timers.advance(2.0)
    assert (done, timers.deadline) == ([(2.0, 1.0), (2.0, 1.0), (2.0, 2.0)], 3.0)
    for number in range(KEPT):
        timers.at(9.0, done.append, "same")
        assert len(timers) == number + 2
    timers.call_off("unknown")
    assert timers._off == KEPT - 1
    timers.at(9.0, done.append, "same")
    assert len(timers) == KEPT + 2
    timers.call_off("same")
    assert (len(timers), timers._off) == (1, 0)
    timers.call_off("same")
    assert timers._off == 0


def test_refusals_are_told_once_again_if_they_last_and_never_too_many() -> None:
    told: list[str] = []
    refusals = Refusals(told.append)
    for now in (0.0, 1.0, 599.9, 600.0, 601.0):
        refusals.tell(now, f"10.0.0.1:{now:g}: no", "10.0.0.1: no")
    assert told == ["10.0.0.1:0: no", "10.0.0.1:600: no (3 times since the last line about it)"]
    told.clear()
    for number in range(40):
        refusals.tell(1_000.0, f"cause {number}")
    assert len(told) == 30
    refusals.tell(1_001.9, "too early")
    assert len(told) == 30
    refusals.tell(1_002.0, "next")
    assert told[30:] == ["next; 11 other refusals were not logged"]
    refusals.tell(1_004.0, "another")
    assert told[31:] == ["another"]


def test_what_only_one_client_gets_is_sent_through_the_log_to_it() -> None:
    shared = Shared("life", lambda: 1.0)
    shared.is_ready = True
    assert shared.add(0.0, Kept(run(1), "from", "only", identifiers=(7,))) == -1
    (value,) = [one.value for one in shared.begin() or () if isinstance(one, Set) and one.key.startswith("m/")]
    assert value[8:11] == ["from", "only", [7]]
