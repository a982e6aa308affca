"""What survives the end of the process of a door: sessions, messages, retained messages, wills, the state of QoS 2."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.errors import StorageError, StorageFullError
from glue.gateway.mqtt.recovery import recover
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench, Device

HOUR = b"\x11\x00\x00\x0e\x10"
"""The property: the session is kept for an hour."""


class Restarts:
    """A door on a simulated disk, whose power can be cut."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(3))
        self.bench = Bench(directory=self.disk)

    def sync(self) -> None:
        """Sync."""
        self.bench.sync()

    def crash(self) -> None:
        """Cut the power, and start again ten seconds later."""
        self.disk.crash()
        self.bench = Bench(directory=self.disk, now=self.bench.now + 10)

    def connect(self, client_id: str, clean: bool = False, version: int = 5) -> Device:
        """A client with a session that is kept."""
        return self.bench.connect(client_id, version, clean=clean, **({"raw": HOUR} if version == 5 else {}))

    def resume(self, client_id: str) -> tuple[Device, list[mqtt.Sent]]:
        """A client that connects again, and everything that it gets."""
        device = self.bench.link(5)
        device.send(mqtt.connect(client_id, 5, clean=False, raw=HOUR))
        self.sync()
        connack, *rest = device.read()
        assert connack.body[:2] == b"\x01\x00", "the session is there"
        return device, rest


def messages(sent: list[mqtt.Sent]) -> list[bytes]:
    return [mqtt.publication(one, 5).payload for one in sent if one.kind == 3]


@pytest.fixture
def door() -> Restarts:
    return Restarts()


def publish(door: Restarts, device: Device, number: int, payload: bytes, qos: int = 1, retain: bool = False) -> bool:
    """Publish, and sync; returns whether it was acknowledged before the sync."""
    device.send(mqtt.publish("t", payload, qos, number, retain, version=5))
    before = bool(device.read())
    door.sync()
    kinds = [sent.kind for sent in device.read()]
    assert before or kinds == [{1: 4, 2: 5}[qos]]
    return before


def subscribed(door: Restarts, qos: int = 1) -> Device:
    device = door.connect("s")
    device.send(mqtt.subscribe(1, ("t", qos), version=5))
    door.sync()
    device.read()
    return device


def test_what_was_acknowledged_comes_after_a_power_cut(door: Restarts) -> None:
    subscribed(door).leave()
    publisher = door.connect("p")
    assert not publish(door, publisher, 1, b"one"), "it is acknowledged once it is durable"
    assert not publish(door, publisher, 2, b"two")
    door.crash()
    _, sent = door.resume("s")
    assert messages(sent) == [b"one", b"two"]


def test_on_a_full_disk_the_acknowledgement_waits_until_there_is_room(door: Restarts) -> None:
    subscribed(door).leave()
    publisher, store = door.connect("p"), door.bench.store
    assert store is not None
    door.sync()
    door.disk.is_full = True
    publisher.send(mqtt.publish("t", b"one", 1, 1, version=5))
    with pytest.raises(StorageFullError):
        store.write(door.bench.now)
    store.sync(door.bench.now)
    assert publisher.read() == []
    door.disk.is_full = False
    door.bench.now += 2
    door.sync()
    assert [sent.kind for sent in publisher.read()] == [4]
    door.crash()
    assert messages(door.resume("s")[1]) == [b"one"]


def test_a_message_that_no_session_keeps_is_acknowledged_at_once(door: Restarts) -> None:
    assert publish(door, door.connect("p"), 1, b"one")


def test_messages_in_flight_come_again_with_their_packet_ids(door: Restarts) -> None:
    subscriber = subscribed(door)
    publisher = door.connect("p")
    for number in range(1, 5):
        publish(door, publisher, number, b"%d" % number)
    first, second, third, fourth = [mqtt.publication(sent, 5) for sent in subscriber.read()]
    subscriber.send(mqtt.acknowledge(4, first.number), mqtt.acknowledge(4, third.number))
    door.sync()
    door.crash()
    _, sent = door.resume("s")
    again = [mqtt.publication(one, 5) for one in sent]
    assert [(one.payload, one.number, one.dup) for one in again] == [
        (b"2", second.number, True),
        (b"4", fourth.number, True),
    ]


def test_messages_in_flight_are_not_lost_while_the_log_cannot_be_read(
    door: Restarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriber, publisher = subscribed(door), door.connect("p")
    publish(door, publisher, 1, b"1")
    subscriber.leave()
    door.sync()

    def fails(*told: Any) -> Any:
        raise StorageError("the log cannot be read")

    device = door.bench.link(5)
    with monkeypatch.context() as patch:
        patch.setattr(door.bench.store, "read", fails)
        with pytest.raises(StorageError):
            device.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    device.leave()
    _, rest = door.resume("s")
    assert messages(rest) == [b"1"]


def test_the_state_of_qos_2_survives_at_both_sides(door: Restarts) -> None:
    subscribed(door, 2)
    publisher = door.connect("p")
    assert not publish(door, publisher, 7, b"once", 2)
    door.crash()
    publisher, _ = door.resume("p")
    publish(door, publisher, 7, b"once", 2)  # the client did not get the PUBREC
    publisher.send(mqtt.acknowledge(6, 7))
    assert publisher.read() == [], "PUBCOMP comes once it is durable that the id is free"
    door.sync()
    assert [sent.kind for sent in publisher.read()] == [7]
    subscriber, sent = door.resume("s")
    (one,) = [mqtt.publication(one, 5) for one in sent]
    assert one.payload == b"once"
    subscriber.send(mqtt.acknowledge(5, one.number))
    assert subscriber.read() == [], "PUBREL comes once the PUBREC is durable"
    door.sync()
    assert [sent.kind for sent in subscriber.read()] == [6]
    door.crash()
    subscriber, sent = door.resume("s")
    assert [(one.kind, one.body[:2]) for one in sent] == [(6, one.number.to_bytes(2, "big"))]
    subscriber.send(mqtt.acknowledge(7, one.number))
    door.sync()
    door.crash()
    assert door.resume("s")[1] == []


def test_retained_messages_and_their_removal_survive(door: Restarts) -> None:
    publisher = door.connect("p")
    publisher.send(mqtt.publish("a", b"1", retain=True, version=5), mqtt.publish("b", b"2", retain=True, version=5))
    publisher.send(mqtt.publish("a", b"", retain=True, version=5))
    door.sync()
    door.bench.save()
    publisher.send(mqtt.publish("c", b"3", retain=True, version=5))
    door.sync()
    door.crash()
    subscriber = door.connect("s")
    subscriber.send(mqtt.subscribe(1, ("#", 1), version=5))
    door.sync()
    assert sorted(messages(subscriber.read())) == [b"2", b"3"]


def test_retained_messages_for_a_session_that_is_kept_are_not_lost_before_they_are_acknowledged(door: Restarts) -> None:
    publish(door, door.connect("p"), 1, b"value", retain=True)
    subscriber = door.connect("s")
    subscriber.send(mqtt.subscribe(1, ("t", 1), version=5))
    door.sync()
    door.crash()
    assert messages(door.resume("s")[1]) == [b"value"]


def test_a_subscription_gets_nothing_from_before_it_and_nothing_after_its_end(door: Restarts) -> None:
    subscribed(door).leave()
    publisher = door.connect("p")
    publish(door, publisher, 1, b"before")
    other = door.connect("o")
    other.send(mqtt.subscribe(1, ("+", 1), version=5))
    publish(door, publisher, 2, b"between")
    other.read()
    other.send(mqtt.unsubscribe(2, "+", version=5))
    publish(door, publisher, 3, b"after")
    door.crash()
    assert messages(door.resume("o")[1]) == [b"between"]
    assert messages(door.resume("s")[1]) == [b"before", b"between", b"after"]


def test_a_member_of_a_shared_subscription_gets_its_part_after_a_power_cut(door: Restarts) -> None:
    for name in ("a", "b"):
        device = door.connect(name)
        device.send(mqtt.subscribe(1, ("$share/g/t", 1), version=5))
        device.leave()
    publisher = door.connect("p")
    for number in range(1, 7):
        publish(door, publisher, number, b"%d" % number)
    door.crash()
    found = [*messages(door.resume("a")[1]), *messages(door.resume("b")[1])]
    assert sorted(found) == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_the_will_of_a_client_is_published_once_when_the_door_dies(door: Restarts) -> None:
    subscribed(door).leave()
    door.bench.connect("c", 5, will=("t", b"lost", 1, False))
    door.sync()
    door.crash()
    door.sync()
    door.crash()
    assert messages(door.resume("s")[1]) == [b"lost"]


def test_a_session_ends_at_its_time_also_while_the_door_is_away(door: Restarts) -> None:
    subscribed(door).leave()
    door.sync()
    door.bench.now += 3_500
    door.crash()
    assert "s" in door.bench.broker.sessions
    door.bench.now += 3_500
    door.crash()
    door.bench.pass_time(1)
    assert "s" not in door.bench.broker.sessions


def test_a_session_whose_client_was_back_has_its_whole_time_again(door: Restarts) -> None:
    subscribed(door).leave()
    door.sync()
    door.bench.pass_time(3_000)
    door.resume("s")
    door.bench.pass_time(500)
    door.crash()
    door.bench.pass_time(3_599)
    assert "s" in door.bench.broker.sessions
    door.bench.pass_time(1)
    assert "s" not in door.bench.broker.sessions


def test_a_will_that_waited_is_not_published_after_its_client_was_back_without_one(door: Restarts) -> None:
    subscribed(door).leave()
    door.bench.connect("c", 5, clean=False, raw=HOUR, will=("t", b"w", 1, False), will_raw=b"\x18\0\0\0\x3c").leave()
    door.sync()
    door.resume("c")
    door.crash()
    door.bench.pass_time(100)
    assert messages(door.resume("s")[1]) == []


def test_what_has_ended_before_a_power_cut_is_not_there_again(door: Restarts) -> None:
    subscriber, publisher = subscribed(door), door.connect("p")
    subscriber.send(mqtt.subscribe(2, ("u", 1), version=5), mqtt.unsubscribe(3, "t", version=5))
    farewell = door.bench.connect("c", 5, clean=False, raw=HOUR, will=("u", b"will", 1, False))
    farewell.disconnect()
    subscriber.leave()
    door.sync()
    door.crash()
    assert messages(door.resume("s")[1]) == [], "a goodbye takes the will back"
    publisher = door.connect("p")
    publish(door, publisher, 1, b"not wanted any more")
    publisher.send(mqtt.publish("u", b"wanted", 1, 2, version=5))
    door.sync()
    door.crash()
    again, sent = door.resume("s")
    assert messages(sent) == [b"wanted"]
    again.leave()
    door.connect("s", clean=True).leave()
    door.sync()
    door.crash()
    (session,) = [one for one in door.bench.broker.sessions.values() if one.client_id == "s"]
    assert (session.subscriptions, session.under_way, session.next_id) == ({}, 0, 1), "a clean start ends it"


def test_new_messages_get_other_packet_ids_than_those_that_come_again(door: Restarts) -> None:
    subscribed(door).leave()
    publisher = door.connect("p")
    publish(door, publisher, 1, b"one")
    door.resume("s")
    door.sync()
    door.crash()
    subscriber, sent = door.resume("s")
    (first,) = [mqtt.publication(one, 5) for one in sent]
    publish(door, door.connect("p"), 1, b"two")
    (second,) = [mqtt.publication(one, 5) for one in subscriber.read()]
    assert (first.payload, first.number, second.payload, second.number) == (b"one", 1, b"two", 2)


def test_a_long_queue_is_a_position_in_the_log(door: Restarts) -> None:
    subscriber = subscribed(door)
    subscriber.leave()
    publisher = door.connect("p", version=4)
    for first in range(0, 20_000, 1_000):
        ids = range(1, 1_001)
        publisher.send(*(mqtt.publish("t", b"%05d" % (first + number), 1, number) for number in ids))
        door.sync()
        publisher.read()
    assert door.bench.broker.sessions["s"].queued == 0, "nothing is in memory"
    door.bench.save()
    door.crash()
    subscriber, sent = door.resume("s")
    found = messages(sent)
    while sent:
        last = [mqtt.publication(one, 5) for one in sent]
        subscriber.send(*(mqtt.acknowledge(4, one.number) for one in last))
        door.bench.pass_time(0)
        door.sync()
        sent = subscriber.read()
        found += messages(sent)
    assert found == [b"%05d" % number for number in range(1, 20_001)]
    assert len(door.bench.store.log.segments) > 10  # type: ignore[union-attr]
    door.bench.save()
    assert len(door.bench.store.log.segments) < 3, "what nobody needs is removed"  # type: ignore[union-attr]


def test_a_client_that_falls_behind_reads_from_the_log_and_catches_up(door: Restarts) -> None:
    subscriber = subscribed(door)
    publisher = door.connect("p", version=4)
    found: list[bytes] = []
    for first in range(0, 30_000, 1_000):
        publisher.send(*(mqtt.publish("t", b"%05d" % (first + number), 1, number + 1) for number in range(1_000)))
        if first >= 15_000:
            acknowledge_all(subscriber, found)
    while acknowledge_all(subscriber, found):
        door.sync()
        door.bench.pass_time(0)
    assert found == [b"%05d" % number for number in range(30_000)]
    session = door.bench.broker.sessions["s"]
    assert session.read_at is None, "it has caught up"


def acknowledge_all(subscriber: Device, found: list[bytes]) -> bool:
    got = [mqtt.publication(one, 5) for one in subscriber.read()]
    found += [one.payload for one in got]
    subscriber.send(*(mqtt.acknowledge(4, one.number) for one in got))
    return bool(got)


@pytest.mark.parametrize(
    "event", [["sent", "d", 1, [[1, 0, 1 << 60, 1]]], ["ack", "d", [[5, 1 << 60]]], ["ack", "d", [[0, 1]]]]
)
def test_a_record_with_packet_ids_that_do_not_exist_is_refused_at_once(event: list[Any]) -> None:
    store = SimpleNamespace(wall_clock=lambda: 0.0, replay=lambda now: [[["open", "d", 60.0, 1], event]])
    with pytest.raises(StorageError, match="packet identifiers from"):
        recover(0.0, Bench().broker, cast(Any, store))


@pytest.mark.parametrize("as_published", [False, True])
def test_whether_a_message_was_retained_is_known_after_a_power_cut(door: Restarts, as_published: bool) -> None:
    subscriber = door.connect("s")
    subscriber.send(mqtt.subscribe(1, ("t", 1 + 8 * as_published), version=5))
    door.sync()
    subscriber.read()
    publish(door, door.connect("p"), 1, b"one", retain=True)
    assert [message.retain for message in subscriber.messages()] == [as_published]
    door.crash()
    _, sent = door.resume("s")
    (again,) = [mqtt.publication(one, 5) for one in sent]
    assert (again.payload, again.retain, again.dup) == (b"one", as_published, True)


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_what_is_under_way_goes_to_the_connection_that_is_there_after_the_sync(
    door: Restarts, is_taken_over: bool
) -> None:
    subscriber = subscribed(door)
    publish(door, door.connect("p"), 1, b"one")
    subscriber.leave()
    early = door.bench.link(5)
    early.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    if is_taken_over:
        _, sent = door.resume("s")
        assert messages(sent) == [b"one"]
    else:
        early.leave()
        door.sync()
    assert [one.kind for one in early.read()] == [2, 14][: 1 + is_taken_over]
