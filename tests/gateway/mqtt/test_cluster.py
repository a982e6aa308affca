"""What doors of a cluster promise their clients, event by event, without sockets."""

from __future__ import annotations

import pytest

from glue.errors import RefusedError
from glue.gateway.mqtt import codes
from glue.gateway.mqtt.cluster.joining import free_number
from glue.gateway.mqtt.cluster.keys import DOORS, mark
from glue.gateway.mqtt.cluster.shared import BATCH_OPERATIONS, LARGEST
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.model.state import Change, Set
from tests.gateway.mqtt.cluster_doors import Door, Log
from tests.support import mqtt
from tests.support.mqtt import Device

HOUR = b"\x11\x00\x00\x0e\x10"
"""The property: the session is kept for an hour."""


class Cluster:
    """Doors that live and see everything at once."""

    def __init__(self, count: int = 2) -> None:
        self.log = Log()
        self.now = 1_000.0
        self.doors: list[Door] = []
        for _ in range(count):
            self.open()
        self.settle()

    def open(self) -> Door:
        """Another door."""
        number = len(self.doors)
        door = Door(self.log, number, number + 1, self.now)
        self.log.commit([Set(f"d/{number}", door.shared.name)])
        self.doors.append(door)
        return door

    def kill(self, door: Door) -> None:
        """Kill a door."""
        self.doors.remove(door)

    def settle(self) -> None:
        """Commit everything."""
        is_busy = True
        while is_busy:
            is_busy = False
            for door in self.doors:
                if door.propose() and door.proposed is not None:
                    operations, door.proposed = door.proposed, None
                    if not self.log.commit(operations)[0]:
                        assert door.shared.refused(door.now)
                for one in self.doors:
                    is_busy |= one.follow(100)
                is_busy |= door.shared.is_pending

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with a sweep at its end and another one later."""
        for step in (seconds, 2.0, 0.5):
            self.now += step
            names = [door.shared.name for door in self.doors]
            for door in self.doors:
                door.advance(self.now)
                door.broker.is_chosen = door.shared.name == min(names)
                door.sweeping.sweep(self.now, names)
            self.settle()

    def connect(self, door: Door, client_id: str = "s", version: int = 5, **options: object) -> Device:
        """A client with a session that is kept."""
        device = door.link(version)
        more = {"clean": False, **({"raw": HOUR} if version == 5 else {}), **options}
        device.send(mqtt.connect(client_id, version, **more))  # type: ignore[arg-type]
        assert device.read() == [], "it waits for the claim"
        self.settle()
        return device

    def subscriber(self, door: Door, *filters: tuple[str, int], **options: object) -> Device:
        """A client with a session that is kept, and subscriptions."""
        device = self.connect(door, **options)  # type: ignore[arg-type]
        device.send(mqtt.subscribe(1, *filters, version=device.version))
        assert 9 not in [one.kind for one in device.read()], "SUBACK waits for the commit"
        self.settle()
        assert 9 in [one.kind for one in device.read()]
        return device


def messages(device: Device) -> list[bytes]:
    return [mqtt.publication(one, device.version).payload for one in device.read() if one.kind == 3]


def kinds(device: Device) -> list[int]:
    return [one.kind for one in device.read()]


def test_a_session_goes_on_at_another_door_when_its_own_is_killed() -> None:
    cluster = Cluster(3)
    first, second, third = cluster.doors
    subscriber = cluster.subscriber(first, ("t", 2))
    publisher = cluster.connect(third, "p")
    publisher.read()
    publisher.send(mqtt.publish("t", b"one", 2, 1, version=5))
    assert kinds(publisher) == [], "PUBREC waits for the commit"
    cluster.settle()
    assert kinds(publisher) == [5]
    (sent,) = subscriber.messages()
    cluster.kill(first)
    publisher.send(mqtt.publish("t", b"two", 1, 2, version=5))
    cluster.settle()
    again = cluster.connect(second)
    connack, *rest = again.read()
    assert connack.body[:2] == b"\x01\x00", "the session is present"
    found = [mqtt.publication(one, 5) for one in rest]
    assert [(one.payload, one.dup) for one in found] == [(b"one", True), (b"two", False)]
    assert found[0].number == sent.number


def test_a_connection_at_another_door_closes_the_first_one() -> None:
    cluster = Cluster()
    former = cluster.connect(cluster.doors[0])
    cluster.connect(cluster.doors[1])
    goodbye = former.read()[-1]
    assert (goodbye.kind, goodbye.body[0]) == (14, codes.SESSION_TAKEN_OVER)
    assert "s" not in cluster.doors[0].broker.sessions


def test_without_a_majority_a_door_refuses_what_it_cannot_promise() -> None:
    cluster = Cluster()
    door = cluster.doors[0]
    subscriber = cluster.subscriber(door, ("t", 1))
    guest = door.link(5)
    guest.send(mqtt.connect("guest", 5), mqtt.subscribe(1, ("t", 0), version=5))
    publisher = door.link(5)
    publisher.send(mqtt.connect("p", 5), mqtt.publish("t", b"not safe", 1, 1, version=5))
    late = door.link(5)
    late.send(mqtt.connect("late", 5, clean=False, raw=HOUR))
    guest.read(), publisher.read()
    door.cut_off()
    for device in (subscriber, publisher):
        assert [(one.kind, one.body[0]) for one in device.read()] == [(14, codes.SERVER_BUSY)]
    another = door.link(5)
    another.send(mqtt.connect("another", 5, clean=False, raw=HOUR))
    for device in (late, another):
        assert [(one.kind, one.body[1]) for one in device.read()] == [(2, codes.SERVER_UNAVAILABLE)]
    door.broker.receive(door.now, guest.client, mqtt.publish("t", b"at most once", 0, version=5))
    assert messages(guest) == [b"at most once"]
    guest.send(mqtt.publish("t", b"at least once", 1, 1, version=5))
    assert [(one.kind, one.body[0]) for one in guest.read()] == [(14, codes.SERVER_BUSY)]
    door.shared.is_ready = True
    assert cluster.connect(door).read()[0].body[:2] == b"\x01\x00"


@pytest.mark.parametrize("way", ["goodbye", "lost", "killed with its door", "taken over", "delayed", "back in time"])
def test_a_will_is_published_once_in_the_whole_cluster(way: str) -> None:
    cluster = Cluster(3)
    first, second, third = cluster.doors
    watchers = [cluster.subscriber(door, ("will", 2), client_id=f"w{door.number}") for door in (second, third)]
    delay = b"\x18\x00\x00\x00\x05" if way in ("delayed", "back in time") else b""
    mortal = cluster.connect(first, "m", will=("will", b"gone", 1, False), will_raw=delay)
    if way == "goodbye":
        mortal.disconnect()
    elif way == "killed with its door":
        cluster.kill(first)
    elif way == "taken over":
        cluster.connect(second, "m")
    else:
        mortal.leave()
    cluster.settle()
    if way == "back in time":
        cluster.connect(second, "m")
    elif way == "delayed":
        assert [messages(watcher) for watcher in watchers] == [[], []]
    cluster.pass_time(6)
    cluster.pass_time(6)
    expected = [] if way in ("goodbye", "back in time") else [b"gone"]
    assert [messages(watcher) for watcher in watchers] == [expected, expected]


def test_the_chosen_door_shows_the_sessions_of_clients_that_are_away() -> None:
    cluster = Cluster()
    cluster.subscriber(cluster.doors[1], ("t", 1)).leave()
    cluster.connect(cluster.doors[1], "p").send(mqtt.publish("t", b"waits", 1, 1, version=5))
    cluster.settle()
    cluster.pass_time(10)
    (shown,) = cluster.doors[0].broker.others(cluster.now)
    assert shown["client"] == "s"
    assert (shown["subscriptions"], shown["waiting"], shown["under_way"]) == (1, 1, 0)
    assert 3_580 < shown["expires"] < 3_600
    assert cluster.doors[1].broker.others(cluster.now) == []


def held(door: Door) -> dict[str, int]:
    """How much a door holds."""
    broker, shared = door.broker, door.shared
    return {
        "waiting": len(shared._units) + len(shared._actions) + len(shared._open), "bytes": shared.size,
        "sessions": len(broker.sessions), "clients": len(broker.clients), "claims": len(shared.claims),
        "filters": len([*broker.subscriptions.patterns]), "left": len(broker._left), "timers": len(broker._timers),
    }  # fmt: skip


def test_nothing_gathers_while_the_cluster_has_no_majority() -> None:
    cluster = Cluster(2)
    door = cluster.doors[0]
    cluster.connect(cluster.doors[1]).send(mqtt.subscribe(1, ("t", 1), version=5))
    cluster.settle()
    door.broker.is_chosen = True
    door.cut_off()
    device, seen = door.link(5), []
    device.send(mqtt.connect("c", 5), mqtt.subscribe(1, ("t", 0), version=5))
    for _ in range(2):
        for number in range(150):
            door.advance(door.now + 1.0)
            guest = door.link(5)
            guest.send(mqtt.connect(f"guest-{number}", 5, clean=False, raw=HOUR, will=("w", b"gone", 1, False)))
            guest.disconnect()
            device.send(mqtt.publish("t", b"kept", 0, 0, retain=True, version=5))
            door.broker.deliver(door.now, Publish("t", (b"of an endpoint",), 2))
            door.sweeping.sweep(door.now, [door.shared.name])
        seen.append(held(door))
    assert seen[0] == seen[1]
    assert seen[0]["waiting"] == seen[0]["bytes"] == 0
    assert door.broker.statistics["messages dropped"] == door.broker.statistics["retained messages refused"] == 300
    got = {mqtt.publication(sent, 5).payload for sent in device.read() if sent.kind == 3}
    assert got == {b"kept", b"of an endpoint"}, "they are delivered here"


def test_a_session_ends_when_its_time_is_over() -> None:
    cluster = Cluster()
    cluster.subscriber(cluster.doors[0], ("t", 1)).leave()
    cluster.settle()
    cluster.pass_time(3_000)
    assert cluster.doors[1].shared.replica.patterns == {"t": 1}
    cluster.pass_time(1_000)
    replica = cluster.doors[1].shared.replica
    assert [replica.owners, replica.terms, replica.patterns, replica.wills] == [{}, {}, {}, {}]
    assert cluster.connect(cluster.doors[1]).read()[0].body[:2] == b"\x00\x00"


def test_the_sessions_that_are_away_longest_make_room() -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    door.broker.limits = Limits(sessions=2)
    for number in range(4):
        cluster.connect(door, f"s{number}").leave()
        cluster.settle()
        cluster.pass_time(1)
    assert sorted(owner[0] for owner in door.shared.replica.owners.values()) == ["s2", "s3"]


def test_a_clean_start_ends_the_session_of_another_door() -> None:
    cluster = Cluster()
    cluster.subscriber(cluster.doors[0], ("t", 1))
    clean = cluster.connect(cluster.doors[1], clean=True, raw=b"")
    assert clean.read()[0].body[:2] == b"\x00\x00"
    cluster.settle()
    assert not cluster.doors[0].shared.replica.patterns
    clean.leave()
    cluster.settle()
    assert not cluster.doors[0].shared.replica.owners


def test_too_many_messages_push_out_the_oldest_ones() -> None:
    cluster = Cluster()
    for door in cluster.doors:
        door.broker.limits = Limits(queue_messages=3)
    cluster.subscriber(cluster.doors[0], ("t", 1)).leave()
    publisher = cluster.connect(cluster.doors[1], "p")
    for number in range(1, 7):
        publisher.send(mqtt.publish("t", b"%d" % number, 1, number, version=5))
        cluster.settle()
    cluster.pass_time(0)
    assert messages(cluster.connect(cluster.doors[1])) == [b"4", b"5", b"6"]
    assert cluster.doors[0].broker.statistics["messages dropped"]


def test_a_door_that_comes_knows_the_retained_messages() -> None:
    cluster = Cluster()
    publisher = cluster.connect(cluster.doors[0], "p")
    for number, (topic, qos) in enumerate((("a", 0), ("b", 1), ("c", 1)), 1):
        publisher.send(mqtt.publish(topic, b"kept", qos, number, retain=True, version=5))
    publisher.send(mqtt.publish("c", b"", 1, 9, retain=True, version=5))
    cluster.settle()
    door = cluster.open()
    assert sorted(run.topic for run in door.broker.retained) == ["a", "b"]
    cluster.settle()
    assert sorted(run.topic for run in cluster.doors[1].broker.retained) == ["a", "b"]
    subscriber = cluster.connect(door)
    subscriber.read()
    subscriber.send(mqtt.subscribe(1, ("b", 1), version=5))
    cluster.settle()
    assert messages(subscriber) == [b"kept"]


def test_messages_of_endpoints_wait_for_a_client_that_is_away() -> None:
    cluster = Cluster()
    cluster.subscriber(cluster.doors[0], ("t", 1)).leave()
    cluster.settle()
    cluster.pass_time(0)
    for door in cluster.doors:
        door.broker.deliver(door.now, Publish("t", (b"from an endpoint",), 2))
    cluster.settle()
    assert messages(cluster.connect(cluster.doors[1])) == [b"from an endpoint"]


def test_a_shared_subscription_gives_each_message_to_one_member() -> None:
    cluster = Cluster()
    members = [cluster.subscriber(cluster.doors[0], ("$share/g/t", 1), client_id=name) for name in "ab"]
    publisher = cluster.connect(cluster.doors[1], "p")
    for number in range(1, 5):
        publisher.send(mqtt.publish("t", b"%d" % number, 1, number, version=5))
        cluster.settle()
    found = [messages(member) for member in members]
    assert sorted(found[0] + found[1]) == [b"1", b"2", b"3", b"4"]
    assert all(found)


def test_a_message_that_the_log_cannot_hold_is_refused() -> None:
    cluster = Cluster(1)
    publisher = cluster.connect(cluster.doors[0], "p")
    publisher.read()
    publisher.send(mqtt.publish("t", bytes(LARGEST + 1), 1, 1, version=5))
    (goodbye,) = publisher.read()
    assert (goodbye.kind, goodbye.body[0]) == (14, codes.PACKET_TOO_LARGE)


def test_many_messages_take_several_batches_and_keep_their_order() -> None:
    cluster = Cluster(1)
    subscriber = cluster.subscriber(cluster.doors[0], ("t", 1))
    publisher = cluster.connect(cluster.doors[0], "p")
    for number in range(1, BATCH_OPERATIONS + 100):
        publisher.send(mqtt.publish("t", b"%05d" % number, 1, number, version=5))
    before = len(cluster.log.changes)
    cluster.settle()
    assert len(cluster.log.changes) > before + 1
    found = messages(subscriber)
    assert found == sorted(found)
    assert len(found) == BATCH_OPERATIONS + 99


def test_malformed_changes_are_counted_and_left_out() -> None:
    door = Cluster(1).doors[0]
    keys = ("m/0/x", "m/x/x", "b/x", "o/x", "a/x", "f/x", "w/x", f"d/{DOORS}x", "r/x", "z", "m/0/y")
    for number, key in enumerate(keys):
        for document in (b"7", b'"x"', b"[1,2]", b'{"t":[1]}', None):
            door.broker.apply(door.now, [Change(key, document, 1_000 + number)])
    replica = door.shared.replica
    assert door.broker.statistics["malformed changes of the cluster"] > 30
    assert [*replica] == []
    assert replica.progress("x").next == 0
    door.broker.apply(door.now, [Change(f"{kind}/{mark('s')}", b'{"next": "x"}', 2_000) for kind in "oafpw"])
    door.sweeping.sweep(door.now, [door.shared.name])
    assert replica.progress(mark("s")).next == 0


def test_a_client_that_came_before_the_cluster_gets_what_is_retained_there_once_it_is_found() -> None:
    cluster = Cluster()
    first, second = cluster.doors
    second.broker.has_joined = False
    early = second.link()
    early.send(mqtt.connect("early"), mqtt.subscribe(1, ("r/#", 1)), mqtt.subscribe(2, ("$share/g/r/#", 1)))
    assert [one.kind for one in early.read()] == [2, 9, 9]
    cluster.connect(first, "p").send(mqtt.publish("r/1", b"kept", 1, 1, retain=True, version=5))
    cluster.settle()
    assert [(one.payload, one.retain) for one in early.messages()] == [(b"kept", False), (b"kept", False)]
    second.broker.joined(cluster.now)
    assert [(one.payload, one.retain) for one in early.messages()] == [(b"kept", True)]
    second.broker.joined(cluster.now)
    assert early.messages() == []


def test_a_sweep_proposes_nothing_again_that_is_under_way() -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    for number in range(5):
        cluster.connect(door, f"s{number}").leave()
    cluster.settle()
    cluster.now += 3_601.0
    door.advance(cluster.now)
    door.broker.is_chosen = True
    for _ in range(100):  # while the model is slow
        door.sweeping.sweep(cluster.now, [door.shared.name])
    assert door.shared.size < 5 * 1_000
    cluster.settle()
    assert not door.shared.replica.owners
    assert door.broker.statistics["sessions expired"] == 5


def test_a_door_gets_its_former_number_or_a_free_one_or_that_of_a_dead_door() -> None:
    doors = {number: f"{number:016x}-life" for number in range(DOORS)}
    living = set(doors.values()) - {doors[200]}
    assert free_number(doors, living, f"{7:016x}") == 7
    assert free_number(doors, living, f"{DOORS:016x}") == 200
    with pytest.raises(RefusedError, match="256 doors"):
        free_number(doors, {*doors.values()}, f"{DOORS:016x}")
    del doors[3]
    assert free_number(doors, living, f"{DOORS:016x}") == 3
