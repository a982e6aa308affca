"""What a broker answers and agrees on, packet by packet, where a client of today seldom looks."""

from __future__ import annotations

from typing import Any

import pytest

from glue.gateway.mqtt import codes, moving
from glue.gateway.mqtt.access import Everybody
from glue.gateway.mqtt.identity import Remote
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Connect, Publish
from tests.support import mqtt
from tests.support.mqtt import Bench

HOUR = b"\x11\x00\x00\x0e\x10"


def four(number: int) -> bytes:
    return number.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("limits", "options", "told"),
    [
        ({}, {}, b""),
        ({}, {"client_id": ""}, b"\x12" + mqtt.text("glue-91b7584a2265b1f5")),
        ({}, {"keep_alive": 65_535}, b""),
        ({"keep_alive": 60}, {"keep_alive": 60}, b""),
        ({"keep_alive": 60}, {"keep_alive": 61}, b"\x13\x00\x3c"),
        ({"session_expiry": 100.0}, {"raw": b"\x11" + four(100)}, b""),
        ({"session_expiry": 100.0}, {"raw": b"\x11" + four(101)}, b"\x11" + four(100)),
        ({"session_expiry": 100.0}, {"raw": b"\x11\xff\xff\xff\xff"}, b"\x11" + four(100)),
        ({"packet_size": codes.LARGEST_PACKET - 1}, {}, b"\x27" + four(codes.LARGEST_PACKET - 1)),
        ({}, {"raw": b"\x19\x01"}, b"\x1a" + mqtt.text("replies/c")),
        ({}, {"raw": b"\x19\x00"}, b""),
        ({"receive_maximum": 7, "topic_aliases": 3}, {}, None),
    ],
)
def test_a_client_is_told_what_it_may_and_nothing_that_it_knows(
    limits: dict[str, Any], options: dict[str, Any], told: bytes | None
) -> None:
    bench = Bench(limits=Limits(**limits))
    device = bench.link(5)
    device.send(mqtt.connect(**{"client_id": "c", "version": 5, **options}))
    (answer,) = device.read()
    assert answer.body[:2] == b"\x00\x00"
    always = b"\x21\x04\x00\x22\x01\x00" if told is not None else b"\x21\x00\x07\x22\x00\x03"
    found = answer.body[3:]
    assert len(found) == answer.body[2]
    assert sorted([found[:3], found[3:6]]) == sorted([always[:3], always[3:]])
    assert found[6:] == (told or b"")


def test_the_keep_alive_is_one_and_a_half_of_what_was_agreed() -> None:
    for version, asked, last in ((5, 90, 90.0), (4, 90, 135.0), (5, 40, 60.0), (4, 0, None)):
        bench = Bench(limits=Limits(keep_alive=60))
        device = bench.connect("c", version, keep_alive=asked)
        if last is None:
            bench.pass_time(1e6)
            assert not device.is_closed()
            continue
        bench.pass_time(10)
        device.send(mqtt.PING)
        bench.pass_time(last - 0.1)
        assert not device.is_closed()
        bench.pass_time(0.1)
        assert device.is_closed()
        assert bench.broker.statistics["keep-alive timeouts"] == 1


def test_a_receiver_that_refuses_qos_2_has_its_id_free_and_gets_what_waits() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 2), version=5, raw=b"\x21\x00\x01")
    bench.connect("p").send(*(mqtt.publish("t", b"%d" % number, 2, number) for number in (1, 2)))
    (first,) = subscriber.messages()
    subscriber.send(mqtt.packet(0x50, first.number.to_bytes(2, "big"), b"\x87\x00"))
    (second,) = subscriber.messages()
    assert (first.payload, second.payload) == (b"1", b"2")
    subscriber.send(mqtt.acknowledge(5, second.number))
    assert [(one.kind, one.body) for one in subscriber.read()] == [(6, second.number.to_bytes(2, "big"))]
    subscriber.send(mqtt.packet(0x50, second.number.to_bytes(2, "big"), b"\x87\x00"))
    assert (subscriber.read(), bench.broker.sessions["s"].under_way) == ([], 0)


def test_acknowledgements_of_what_nobody_knows_are_answered_and_counted() -> None:
    bench = Bench()
    device = bench.connect("c", 5)
    device.send(mqtt.acknowledge(4, 7) + mqtt.acknowledge(4, 8), mqtt.acknowledge(5, 9), mqtt.acknowledge(6, 10))
    device.send(mqtt.acknowledge(7, 11))
    missing = bytes((codes.PACKET_ID_NOT_FOUND,))
    assert [(one.kind, one.body[:3]) for one in device.read()] == [(6, b"\0\x09" + missing), (7, b"\0\x0a" + missing)]
    assert bench.broker.statistics["acknowledgements of unknown messages"] == 2


def test_of_a_repeated_run_of_qos_2_only_what_is_new_is_delivered() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 0))
    publisher = bench.connect("p")
    publisher.send(mqtt.publish("t", b"2", 2, 2))
    publisher.send(*(mqtt.publish("t", b"%d" % number, 2, number) for number in (1, 2, 3)))
    assert subscriber.payloads() == [b"2", b"1", b"3"]
    assert [(one.kind, one.body) for one in publisher.read()] == [(5, bytes((0, number))) for number in (2, 1, 2, 3)]


@pytest.mark.parametrize("waiting", [2, 3])
def test_as_many_messages_of_qos_2_may_wait_for_their_release_as_was_told(waiting: int) -> None:
    bench = Bench(limits=Limits(receive_maximum=2))
    publisher = bench.connect("p", 5)
    publisher.send(*(mqtt.publish("t", b"%d" % number, 2, number, version=5) for number in range(1, waiting + 1)))
    assert publisher.is_closed() == (waiting > 2)


def test_an_authentication_that_was_never_agreed_on_ends_the_connection() -> None:
    device = Bench().connect("c", 5)
    device.send(mqtt.packet(0xF0, b"\x18", mqtt.properties(b"\x15" + mqtt.text("method"))))
    (goodbye,) = device.read()
    assert (goodbye.kind, goodbye.body[0]) == (14, codes.PROTOCOL_ERROR)
    assert b"an AUTH without an authentication method in the CONNECT" in goodbye.body


def test_a_will_below_the_network_s_own_topics_is_refused() -> None:
    device = Bench().link(5)
    device.send(mqtt.connect("c", 5, will=("$SYS/x", b"", 0, False)))
    (answer,) = device.read()
    assert answer.body[1] == codes.NOT_AUTHORIZED
    assert b"no client may write topics below $" in answer.body


def test_a_client_whose_session_cannot_move_is_told_where_it_is() -> None:
    old, new = Bench(), Bench()
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    waiting = mqtt.publish("t", bytes(100), 1, 1)
    old.connect("p").send(waiting)
    limit, moving.MOVED_BYTES = moving.MOVED_BYTES, len(waiting) - 1
    try:
        value = old.broker.taken(old.now, "s", "new")
        assert (value, "s" in old.broker.sessions) == ("its queue is too long to move", True)
        moving.MOVED_BYTES = len(waiting)
        assert isinstance(old.broker.taken(old.now, "s", "new"), dict)
    finally:
        moving.MOVED_BYTES = limit
    new.broker.may_be_elsewhere = lambda: True
    device = new.link(5)
    device.send(mqtt.connect("s", 5, clean=False, raw=HOUR), mqtt.PING)
    new.broker.settle(new.now, new.broker.sought.pop(), value)
    (answer,) = device.read()
    assert (answer.kind, answer.body[1]) == (2, codes.USE_ANOTHER_SERVER)
    assert b"the session is at another door: its queue is too long to move" in answer.body
    assert device.is_closed()


def test_a_will_that_waits_is_published_when_its_session_ends_before() -> None:
    bench = Bench()
    watcher = bench.subscriber(("gone", 1), client_id="w")
    delayed = {"will": ("gone", b"c", 1, False), "will_raw": b"\x18" + four(60)}
    bench.connect("c", 5, clean=False, raw=HOUR, **delayed).leave()
    bench.pass_time(59)
    assert watcher.messages() == []
    bench.connect("c", 5).disconnect()
    assert watcher.payloads() == [b"c"], "a clean start ends the session"
    bench.connect("d", 5, clean=False, raw=b"\x11" + four(10), **delayed).leave()
    bench.pass_time(9.9)
    assert watcher.messages() == []
    bench.pass_time(0.1)
    assert watcher.payloads() == [b"c"], "its session ends before its delay"
    bench.pass_time(100)
    assert watcher.messages() == []
    assert bench.broker.statistics["wills published"] == 2


def test_the_rest_of_a_session_that_moved_is_taken_once_and_nothing_malformed() -> None:
    bench = Bench()
    bench.broker.may_be_elsewhere = lambda: True
    device = bench.link(5)
    device.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    value = {
        "client": "s", "epoch": 7, "expiry": 3_600.0, "subscriptions": [["t", 1 | 4 | 8 | 21 << 4]],
        "inflight": [], "released": [65_535], "received": [4], "queue": [],
    }  # fmt: skip
    bench.broker.settle(bench.now, bench.broker.sought.pop(), value)
    connack, release = device.read()
    assert (connack.body[:2], release.kind, release.body) == (b"\x01\x00", 6, b"\xff\xff")
    session = bench.broker.sessions["s"]
    assert (session.next_id, session.epoch, session.received, bench.broker.highest_epoch) == (1, 8, {4}, 8)
    (one,) = session.subscriptions.values()
    assert (one.qos, one.no_local, one.retain_as_published, one.identifier) == (1, True, True, 21)
    bench.broker.give_rest(bench.now, "s", [["no parcel"]])
    assert bench.broker.statistics["malformed sessions of other doors"] == 1
    assert session.arrivals is None
    parcel = [["t", "eA==", 1, {}, None, 0.0], 1, False, [21]]
    bench.broker.give_rest(bench.now, "s", [parcel])
    assert device.read() == [], "it was asked once"


@pytest.mark.parametrize(
    "wrong",
    [
        {"client": 3}, {"epoch": "x"}, {"subscriptions": [["t", 3]]}, {"subscriptions": [["a/#/b", 1]]},
        {"inflight": [[0, [["t", "eA==", 1, {}, None, 0.0], 1, False, []]]]}, {"released": [65_536]},
        {"received": ["1"]}, {"inflight": [[1, [["t", "eA==", 1, {}, None, 0.0], 0, False, []]]]},
        {"queue": [[["t", "eA==", 1, {}, None, 0.0], 3, False, []]]}, {"queue": [[["t"], 1, False, []]]},
    ],
)  # fmt: skip
def test_a_session_with_one_wrong_member_is_left_out_and_told(wrong: dict[str, Any]) -> None:
    bench = Bench()
    lines: list[str] = []
    bench.broker.log = lambda level, line: lines.append(line)
    right = {
        "client": "s", "epoch": 7, "expiry": 60.0, "subscriptions": [["t", 2]], "inflight": [], "released": [1],
        "received": [65_535], "queue": [],
    }  # fmt: skip
    bench.broker.give(bench.now, {**right, **wrong})
    assert (bench.broker.sessions, bench.broker.statistics["malformed sessions of other doors"]) == ({}, 1)
    assert lines[0].startswith("a session of another door is not understood: ")
    bench.broker.give(bench.now, right)
    assert bench.broker.statistics["sessions taken from other doors"] == 1
    assert lines[1:] == ["the session of 's' comes from another door, with 0 messages"]
    bench.pass_time(59.9)
    assert "s" in bench.broker.sessions
    bench.pass_time(0.1)
    assert "s" not in bench.broker.sessions


def test_a_ghost_collects_for_three_seconds_and_never_what_is_shared() -> None:
    bench = Bench()
    bench.subscriber(("t", 1), ("$share/g/s", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    assert isinstance(bench.broker.taken(bench.now, "s", "new"), dict)
    assert (bench.broker.subscriptions.count, bench.broker.statistics["sessions handed over"]) == (1, 1)
    bench.broker.deliver(bench.now, Publish("t", [b"x"], 1))
    bench.pass_time(2.9)
    assert [one[0][:3] for one in bench.broker.rest(bench.now, "s")] == [["t", "eA==", 1]]
    bench.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    bench.broker.taken(bench.now, "s", "new")
    bench.pass_time(3.0)
    assert (bench.broker.rest(bench.now, "s"), bench.broker.subscriptions.count) == (None, 0)
    for expiry in (b"", b"\x11" + four(0)):
        bench.connect("short", 5, raw=expiry)
        assert bench.broker.taken(bench.now, "short", "new") is None, "it ends with its connection"
    assert bench.broker.statistics["connections taken over"] == 2


@pytest.mark.parametrize(
    ("version", "code", "answers"),
    [
        (3, codes.SERVER_UNAVAILABLE, [b"\x00\x03"]), (4, codes.SERVER_UNAVAILABLE, [b"\x00\x03"]),
        (5, codes.SERVER_UNAVAILABLE, [b"\x00\x88"]), (4, codes.SERVER_SHUTTING_DOWN, []),
        (5, codes.SERVER_SHUTTING_DOWN, [b"\x00\x80"]),
    ],
)  # fmt: skip
def test_a_client_whose_password_is_being_checked_is_told_why_it_ends_as_its_version_can(
    version: int, code: int, answers: list[bytes]
) -> None:
    class Slow(Everybody):
        def authenticate(self, connect: Connect, remote: Remote) -> None:
            return None

    bench = Bench(Slow())
    device = bench.link(version)
    device.send(mqtt.connect("c", version, user="x", password=b"y"))
    bench.broker.end(bench.now, device.client, code, "why")
    assert [(sent.kind, sent.body[:2]) for sent in device.read()] == [(2, answer) for answer in answers]
    assert device.is_closed()
