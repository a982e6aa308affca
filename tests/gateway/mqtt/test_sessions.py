"""Connections and sessions in virtual time: wills, keep-alive, takeover, expiry, refusals."""

from __future__ import annotations

from random import Random
from typing import Any
from weakref import ref

import pytest

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.identity import Remote
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.properties import read_properties
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench, Device


def test_a_will_is_published_when_the_connection_breaks_but_not_after_a_goodbye() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("w", 1))
    bench.connect("a", will=("w", b"lost", 1, False)).leave()
    assert subscriber.payloads() == [b"lost"]
    bench.connect("b", will=("w", b"lost", 1, False)).disconnect()
    assert subscriber.read() == []


@pytest.mark.parametrize("is_retained", [False, True])
def test_a_will_is_retained_if_it_says_so(is_retained: bool) -> None:
    bench = Bench()
    bench.connect("a", will=("w", b"lost", 1, is_retained)).leave()
    subscriber = bench.connect("s")
    subscriber.send(mqtt.subscribe(1, ("w", 1)))
    found = [mqtt.publication(sent) for sent in subscriber.read()[1:]]
    assert [(one.payload, one.qos, one.retain) for one in found] == [(b"lost", 1, True)] * is_retained


def test_the_user_properties_of_a_will_keep_their_order() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("w", 0), version=5)
    raw = b"".join(b"\x26" + mqtt.text(name) + mqtt.text("v") for name in ("b", "a", "c", "a"))
    bench.connect("a", 5, will=("w", b"", 0, False), will_raw=raw).leave()
    assert [one.properties for one in subscriber.messages()] == [raw]


def test_a_will_comes_after_its_delay_unless_the_client_is_back() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("w", 0))
    options = {"will": ("w", b"lost", 0, False), "will_raw": b"\x18\x00\x00\x00\x05", "raw": b"\x11\x00\x00\x00\x3c"}
    bench.connect("a", 5, **options).leave()
    bench.pass_time(4)
    bench.connect("a", 5, clean=False, **options)
    bench.pass_time(10)
    assert subscriber.read() == []
    bench.broker.sessions["a"].client.is_closing = True  # type: ignore[union-attr]
    bench.broker.lost(bench.now, bench.broker.sessions["a"].client)  # type: ignore[arg-type]
    bench.pass_time(4)
    assert subscriber.read() == []
    bench.pass_time(2)
    assert subscriber.payloads() == [b"lost"]


def test_the_end_of_a_session_publishes_a_will_that_waits() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("w", 0))
    will = ("w", b"lost", 0, False)
    bench.connect("a", 5, will=will, will_raw=b"\x18\x00\x00\x00\x64", raw=b"\x11\x00\x00\x00\x05").leave()
    bench.pass_time(6)
    assert subscriber.payloads() == [b"lost"]


def test_a_silent_client_is_closed_after_one_and_a_half_keep_alives() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("w", 0))
    device = bench.connect("a", 5, keep_alive=10, will=("w", b"lost", 0, False))
    bench.pass_time(14)
    device.send(mqtt.PING)
    assert [sent.kind for sent in device.read()] == [13]
    bench.pass_time(14)
    assert not device.is_closed()
    bench.pass_time(2)
    assert device.is_closed()
    (goodbye,) = device.read()
    assert (goodbye.kind, goodbye.body[0]) == (14, codes.KEEP_ALIVE_TIMEOUT)
    device.leave()
    assert subscriber.payloads() == [b"lost"]


@pytest.mark.parametrize(
    ("version", "asked", "told", "until"),
    [(5, 30, None, 45), (5, 40, 30, 45), (5, 0, None, None), (4, 40, None, 60), (4, 0, None, None)],
)
def test_a_keep_alive_above_the_limit_is_shortened_if_the_client_can_be_told(
    version: int, asked: int, told: int | None, until: int | None
) -> None:
    bench = Bench(limits=Limits(keep_alive=30))
    device = bench.link(version)
    device.send(mqtt.connect("c", version, keep_alive=asked))
    (answer,) = device.read()
    found = read_properties(answer.body, 2, len(answer.body), codes.CONNACK)[0] if version == 5 else {}
    assert found.get("server_keep_alive") == told
    bench.pass_time(200_000 if until is None else until - 1)
    assert not device.is_closed()
    bench.pass_time(2)
    assert device.is_closed() == (until is not None)


# ------------------------------------------------------------------------------------------------ sessions


def test_a_client_id_that_connects_again_closes_the_first_connection() -> None:
    bench = Bench()
    first = bench.connect("c", 5)
    bench.connect("c", 4)
    (goodbye,) = first.read()
    assert first.is_closed()
    assert (goodbye.kind, goodbye.body[0]) == (14, codes.SESSION_TAKEN_OVER)


@pytest.mark.parametrize(("clean", "version"), [(True, 4), (False, 4), (True, 5), (False, 5)])
def test_the_will_of_a_connection_that_is_taken_over_is_published_once(clean: bool, version: int) -> None:
    bench = Bench()
    subscriber = bench.subscriber(("w", 0))
    expiry = b"\x11\0\0\0\x64" if version == 5 else b""
    bench.connect("c", version, clean=False, will=("w", b"first", 0, False), raw=expiry)
    second = bench.connect("c", version, clean=clean, will=("w", b"second", 0, False), raw=expiry)
    assert subscriber.payloads() == [b"first"]
    second.leave()
    bench.pass_time(200)
    assert subscriber.payloads() == [b"second"]


@pytest.mark.parametrize(("clean", "published"), [(True, [b"lost"]), (False, [])])
def test_a_will_that_waits_is_called_off_if_the_session_goes_on(clean: bool, published: list[bytes]) -> None:
    bench = Bench()
    subscriber = bench.subscriber(("w", 0))
    options: dict[str, Any] = {"will": ("w", b"lost", 0, False), "will_raw": b"\x18\0\0\0\x0a"}
    bench.connect("c", 5, clean=False, raw=b"\x11\0\0\0\x64", **options)
    bench.connect("c", 5, clean=clean, raw=b"\x11\0\0\0\x64")
    bench.pass_time(50)
    assert subscriber.payloads() == published


def test_a_session_ends_after_its_expiry_and_not_before() -> None:
    bench = Bench()
    device = bench.subscriber(("t", 1), version=5, raw=b"\x11\x00\x00\x00\x3c")
    bench.pass_time(600)
    assert "s" in bench.broker.sessions, "its time begins with the end of the connection"
    device.leave()
    bench.pass_time(59)
    assert "s" in bench.broker.sessions
    bench.pass_time(2)
    assert not bench.broker.sessions
    assert bench.broker.subscriptions.count == 0


def test_a_connection_that_has_ended_is_not_kept_for_its_keep_alive() -> None:
    class Link:
        """What the shell calls the connection: it lives as long as the broker keeps the connection."""

    bench, link = Bench(), Link()
    client = bench.broker.open(bench.now, link, Remote("10.0.0.1:1"))
    device = Device(bench, client, 5)
    device.send(mqtt.connect("c", 5, keep_alive=60_000))
    device.leave()
    bench.broker.changed.clear()
    kept = ref(link)
    del link, client, device
    assert kept() is None


def test_many_absent_sessions_are_bounded_and_the_oldest_ends() -> None:
    bench = Bench(limits=Limits(sessions=3))
    for number in range(5):
        bench.connect(f"c{number}", clean=False).leave()
    assert list(bench.broker.sessions) == ["c2", "c3", "c4"]


def test_no_connect_in_time_closes_the_connection() -> None:
    bench = Bench()
    device = bench.link()
    bench.pass_time(11)
    assert device.is_closed()


def test_a_client_without_an_id_gets_one() -> None:
    bench = Bench()
    device = bench.link(5)
    device.send(mqtt.connect("", 5))
    (answer,) = device.read()
    (name,) = bench.broker.sessions
    assert name.startswith("glue-")
    assert b"\x12" + mqtt.text(name) in answer.body


@pytest.mark.parametrize(
    ("version", "client_id", "clean", "code"), [(4, "", False, 2), (3, "", True, 2), (3, "c" * 24, True, 2)]
)
def test_a_client_id_that_cannot_be_is_refused(version: int, client_id: str, clean: bool, code: int) -> None:
    bench = Bench()
    device = bench.link(version)
    device.send(mqtt.connect(client_id, version, clean=clean))
    assert [sent.body for sent in device.read()] == [bytes((0, code))]
    assert device.is_closed()


def test_an_unknown_version_is_told_so() -> None:
    bench = Bench()
    device = bench.link()
    device.send(mqtt.packet(0x10, mqtt.text("MQTT"), b"\x06\x02\x00\x00", mqtt.text("c")))
    assert [sent.body for sent in device.read()] == [b"\x00\x01"]
    assert device.is_closed()


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_malformed_packet_closes_the_connection_and_only_version_5_is_told_why(version: int) -> None:
    bench = Bench()
    subscriber = bench.subscriber(("#", 0))
    device = bench.connect("c", version)
    device.send(b"\xc1\x00", mqtt.publish("t", b"x", version=version))
    assert [(sent.kind, sent.body[:1]) for sent in device.read()] == [(14, bytes((codes.MALFORMED_PACKET,)))] * (
        version == 5
    )
    assert device.is_closed()
    early = bench.link(version)
    early.send(mqtt.PING)
    assert early.read() == []
    assert early.is_closed()
    assert subscriber.read() == []


def test_enhanced_authentication_is_refused_with_its_reason() -> None:
    bench = Bench()
    device = bench.link(5)
    device.send(mqtt.connect("c", 5, raw=b"\x15" + mqtt.text("SCRAM")))
    (answer,) = device.read()
    assert (answer.kind, answer.body[1]) == (2, codes.BAD_AUTHENTICATION_METHOD)
    assert device.is_closed()


def test_a_reason_is_left_out_where_the_client_takes_no_packet_of_that_size() -> None:
    bench = Bench()
    smallest = b"\x27\x00\x00\x00\x10"
    device = bench.link(5)
    device.send(mqtt.connect("c", 5, raw=smallest + b"\x15" + mqtt.text("SCRAM")))
    assert [sent.body for sent in device.read()] == [bytes((0, codes.BAD_AUTHENTICATION_METHOD, 0))]
    device = bench.connect("c", 5, raw=smallest)
    bench.connect("c", 5)
    assert [sent.body for sent in device.read()] == [bytes((codes.SESSION_TAKEN_OVER, 0))]


AGREED = {"receive_maximum": 1024, "topic_alias_maximum": 256, "maximum_packet_size": 1 << 20}


@pytest.mark.parametrize(
    ("asked", "limits", "told"),
    [
        ({}, {}, {}),
        ({"keep_alive": 30}, {"keep_alive": 30}, {}),
        ({"keep_alive": 31}, {"keep_alive": 30}, {"server_keep_alive": 30}),
        ({"client_id": ""}, {}, {"assigned_client_identifier": "?"}),
        ({"raw": b"\x11\x00\x00\x00\x09"}, {"session_expiry": 9.0}, {}),
        ({"raw": b"\x11\x00\x00\x00\x0a"}, {"session_expiry": 9.0}, {"session_expiry_interval": 9}),
        ({"raw": b"\x19\x01"}, {}, {"response_information": "replies/c"}),
        ({"raw": b"\x19\x00"}, {}, {}),
        ({}, {"receive_maximum": 7, "topic_aliases": 8, "packet_size": 900},
         {"receive_maximum": 7, "topic_alias_maximum": 8, "maximum_packet_size": 900}),
    ],
)  # fmt: skip
def test_a_client_is_told_what_differs_from_what_it_asked_for(
    asked: dict[str, Any], limits: dict[str, Any], told: dict[str, Any]
) -> None:
    bench = Bench(limits=Limits(**{"packet_size": 1 << 20, **limits}))
    device = bench.link(5)
    device.send(mqtt.connect(**{"client_id": "c", "version": 5, **asked}))
    (answer,) = device.read()
    found, end = read_properties(answer.body, 2, len(answer.body), codes.CONNACK)
    assert (answer.kind, answer.body[:2], end) == (2, b"\0\0", len(answer.body))
    if "assigned_client_identifier" in told:
        found["assigned_client_identifier"] = found["assigned_client_identifier"] and "?"
    assert found == {**AGREED, **told}


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("is_kept", [False, True])
def test_messages_that_are_too_large_for_a_client_take_no_place_of_others(qos: int, is_kept: bool) -> None:
    bench = Bench(directory=SimulatedDisk(Random(1)) if is_kept else None)
    device = bench.link(5)
    expiry = b"\x11\x00\x00\x00\x3c" if is_kept else b""
    device.send(mqtt.connect("s", 5, raw=b"\x27\x00\x00\x00\x40\x21\x00\x02" + expiry))  # 64 bytes, two at a time
    device.send(mqtt.subscribe(1, ("t", qos), version=5))
    if is_kept:
        bench.sync()
    device.read()
    publisher = bench.connect("p")
    messages = (mqtt.publish("t", bytes(100), qos, number) for number in (1, 2, 3))
    publisher.send(*messages, mqtt.publish("t", b"x", qos, 4))
    if is_kept:
        bench.sync()
    assert [mqtt.publication(sent, 5).payload for sent in device.read()] == [b"x"]
    assert device.client.dropped == 3


def test_what_was_under_way_comes_again_without_anything_new() -> None:
    bench = Bench()
    bench.subscriber(("t", 1), clean=False).leave()
    publisher = bench.connect("p")
    publisher.send(mqtt.publish("t", b"1", 1, 1))
    again = bench.link()
    again.send(mqtt.connect("s", clean=False))
    assert [sent.kind for sent in again.read()] == [2, 3]
    again.leave()
    last = bench.link()
    last.send(mqtt.connect("s", clean=False))
    assert [sent.kind for sent in last.read()] == [2, 3]


def test_what_was_under_way_and_is_too_large_after_a_reconnect_is_dropped_and_counted() -> None:
    bench = Bench()
    first = bench.subscriber(("t", 1), version=5, clean=False, raw=b"\x11\x00\x00\x00\x3c")
    bench.connect("p").send(*(mqtt.publish("t", bytes(size), 1, size) for size in (90, 5, 80)))
    assert len(first.messages()) == 3
    first.leave()
    again = bench.link(5)
    again.send(mqtt.connect("s", 5, clean=False, raw=b"\x27\x00\x00\x00\x20"))
    assert [mqtt.publication(sent, 5).payload for sent in again.read()[1:]] == [bytes(5)]
    assert (bench.broker.statistics["messages dropped"], bench.broker.sessions["s"].under_way) == (2, 1)
