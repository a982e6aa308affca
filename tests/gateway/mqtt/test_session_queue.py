"""The queue of a session, bounded by messages and bytes."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.session import LAST_ID, Parcel, Session
from tests.support import mqtt
from tests.support.mqtt import Bench


@pytest.mark.parametrize(
    ("messages", "size", "taken"), [(100, 1000, 3), (2, 1000, 2), (100, 25, 2), (100, 9, 0), (0, 1000, 0)]
)
def test_what_finds_no_room_is_dropped_and_counted_the_newest_first(messages: int, size: int, taken: int) -> None:
    session = Session("client", messages, size)
    run = Publish("t", (b"a" * 10, b"b" * 10, b"c" * 10), 1)
    assert session.put(Parcel(run, 1)) == 3 - taken
    assert (session.dropped, session.queued, session.queued_bytes) == (3 - taken, taken, 10 * taken)
    assert [payload[:1] for parcel in session.queue for payload in parcel.run.payloads] == [b"a", b"b", b"c"][:taken]


def test_packet_ids_start_again_at_one_behind_the_last_and_leave_out_those_in_flight() -> None:
    session = Session("client", 100, 1000)
    one, two = (Parcel(Publish("t", (b"x",) * count, 1), 1) for count in (1, 2))
    assert [*session.number(two)] == [1, 2]
    session.acknowledge([2])
    session.next_id = LAST_ID
    assert [[*session.number(parcel)] for parcel in (one, two, one)] == [[LAST_ID], [2, 3], [4]]


def test_each_cause_of_a_drop_is_told_also_behind_many_of_another_cause() -> None:
    bench = Bench(limits=Limits(queue_messages=1, retained=1))
    lines: list[str] = []
    bench.broker.log = lambda level, line: lines.append(line)
    for name in ("a", "b"):
        bench.subscriber((f"{name}/t", 1), client_id=name, version=5, clean=False, raw=b"\x11\0\0\x0e\x10").disconnect()
    publisher = bench.connect("p", 5)
    for number in range(1, 101):
        publisher.send(mqtt.publish("a/t", b"x", 1, number, retain=True, version=5))
    for number in (101, 102):
        publisher.send(mqtt.publish("b/t", b"x", 1, number, retain=True, version=5))
    assert bench.broker.statistics["messages dropped"] == 100
    assert [line for line in lines if "connect" not in line] == [
        "1 messages dropped: the queue of a is full",
        "no room to retain 'b/t': 1 topics are retained",
        "1 messages dropped: the queue of b is full",
    ]


def test_what_waits_for_a_session_that_ends_is_told_as_dropped() -> None:
    bench = Bench()
    lines: list[str] = []
    bench.broker.log = lambda level, line: lines.append(line)
    bench.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=b"\x11\0\0\x0e\x10").leave()
    publisher = bench.connect("p", 5)
    publisher.send(*(mqtt.publish("t", b"x", 1, number, version=5) for number in (1, 2)))
    bench.pass_time(3_601.0)
    assert bench.broker.statistics["messages dropped"] == 2
    assert "2 messages dropped: the session of s ended" in lines


def test_a_message_of_qos_2_that_a_client_has_to_the_end_makes_room_for_the_next_one() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 2), version=5, raw=b"\x21\0\1")  # one at a time
    publisher = bench.connect("p", 5)
    publisher.send(*(mqtt.publish("t", b"%d" % number, 2, number, version=5) for number in (1, 2)))
    for payload in (b"1", b"2"):
        (found,) = subscriber.messages()
        assert found.payload == payload
        subscriber.send(mqtt.acknowledge(5, found.number))
        assert [one.kind for one in subscriber.read()] == [6], "it is not done yet"
        subscriber.send(mqtt.acknowledge(7, found.number))
    assert subscriber.read() == []


def test_a_client_gets_no_more_at_a_time_than_the_door_allows_whatever_it_takes() -> None:
    bench = Bench(limits=Limits(inflight=2))
    for asked, count in ((100, 2), (1, 1)):
        raw = b"\x21" + asked.to_bytes(2, "big")
        subscriber = bench.subscriber(("t", 1), client_id=f"s{asked}", version=5, raw=raw)
        publisher = bench.connect("p", 5)
        publisher.send(*(mqtt.publish("t", b"x", 1, number, version=5) for number in (1, 2, 3)))
        assert len(subscriber.messages()) == count
