"""What goes on after something ended: connections that took nothing, room for a client, sessions, a lost majority."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt.access import Everybody
from glue.gateway.mqtt.cluster.keys import mark
from glue.gateway.mqtt.cluster.shared import Shared
from glue.gateway.mqtt.cluster.units import Unit
from glue.gateway.mqtt.identity import Identity, Remote
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Connect, Publish
from glue.model.state import Set, Update
from tests.gateway.mqtt.test_cluster import HOUR, Cluster, messages
from tests.gateway.mqtt.test_durable import Restarts, publish
from tests.gateway.mqtt.test_moving import move
from tests.support import mqtt
from tests.support.mqtt import Bench

ONE_AT_A_TIME = HOUR + b"\x21\x00\x01"
"""The properties: the session is kept, and one message may be under way."""


def test_a_connection_that_was_stuck_holds_its_publishers_again_and_lets_them_go_at_its_end() -> None:
    bench = Bench()
    slow, publisher = bench.subscriber(("t", 0)), bench.connect("p")
    bench.broker.full(bench.now, slow.client)
    publisher.send(mqtt.publish("t", b"1"))
    assert publisher.client.held == 1
    bench.pass_time(1.0)
    publisher.send(mqtt.publish("t", b"dropped"))
    assert publisher.client.held == 0
    bench.broker.free(bench.now, slow.client)
    bench.broker.full(bench.now, slow.client)
    publisher.send(mqtt.publish("t", b"2"))
    assert publisher.client.held == 1
    assert slow.payloads() == [b"1", b"2"]
    bench.broker.changed.clear()
    slow.leave()
    assert (publisher.client.held, publisher.client in bench.broker.changed) == (0, True)


@pytest.mark.parametrize("steps", ["PUBACK", "PUBREC PUBCOMP", "PUBREC with an error"])
def test_the_next_message_comes_once_the_last_one_is_done(steps: str) -> None:
    bench = Bench()
    device = bench.subscriber(("t", 1 if steps == "PUBACK" else 2), version=5, raw=b"\x21\x00\x01")
    for payload in (b"1", b"2"):
        bench.broker.deliver(bench.now, Publish("t", (payload,), 2))
    (first,) = device.messages()
    if steps == "PUBREC with an error":
        device.send(b"\x50\x03" + first.number.to_bytes(2, "big") + b"\x80")
    else:
        for name in steps.split():
            assert [sent for sent in device.read() if sent.kind == 3] == []
            device.send(mqtt.acknowledge({"PUBACK": 4, "PUBREC": 5, "PUBCOMP": 7}[name], first.number))
    assert device.payloads() == [b"2"]


def test_what_waited_in_memory_comes_once_after_a_reconnect() -> None:
    door = Restarts()
    publisher, device = door.connect("p"), door.bench.connect("s", 5, clean=False, raw=ONE_AT_A_TIME)
    device.send(mqtt.subscribe(1, ("t", 1), version=5))
    door.sync()
    device.read()
    for number in range(1, 4):
        publish(door, publisher, number, b"%d" % number)
    assert device.payloads() == [b"1"]
    device.leave()
    publish(door, publisher, 4, b"4")
    _, sent = door.resume("s")
    assert [mqtt.publication(one, 5).payload for one in sent] == [b"1", b"2", b"3", b"4"]


def test_a_client_that_subscribes_anew_loses_nothing_that_waits() -> None:
    door = Restarts()
    device = door.connect("s")
    device.send(mqtt.subscribe(1, ("t", 1), version=5))
    device.leave()
    publisher = door.connect("p")
    for number in (1, 2):
        publish(door, publisher, number, b"%d" % number)
    back = door.bench.link(5)
    back.send(mqtt.connect("s", 5, clean=False, raw=ONE_AT_A_TIME), mqtt.subscribe(1, ("t", 1), version=5))
    door.sync()
    first = next(mqtt.publication(sent, 5) for sent in back.read() if sent.kind == 3)
    back.send(mqtt.acknowledge(4, first.number))
    door.sync()
    assert (first.payload, back.payloads()) == (b"1", [b"2"])


def test_a_client_of_a_cluster_that_subscribes_anew_loses_nothing_that_waits() -> None:
    cluster = Cluster(1)
    door = cluster.doors[0]
    device = cluster.connect(door)
    device.send(mqtt.subscribe(1, ("t", 1), version=5))
    cluster.settle()
    device.leave()
    publisher = cluster.connect(door, "p")
    for number in (1, 2):
        publisher.send(mqtt.publish("t", b"%d" % number, 1, number, version=5))
        cluster.settle()
    back = cluster.connect(door, raw=ONE_AT_A_TIME)
    back.send(mqtt.subscribe(1, ("t", 1), version=5))
    cluster.settle()
    first = next(mqtt.publication(sent, 5) for sent in back.read() if sent.kind == 3)
    back.send(mqtt.acknowledge(4, first.number))
    cluster.settle()
    assert (first.payload, messages(back)) == (b"1", [b"2"])


def test_after_a_time_without_a_majority_a_door_acknowledges_again() -> None:
    cluster = Cluster(1)
    door = cluster.doors[0]
    former = cluster.connect(door)
    former.send(mqtt.subscribe(1, ("t", 1), version=5), mqtt.publish("u", b"x", 1, 1, version=5))
    door.cut_off()
    assert former.is_closed()
    door.shared.is_ready = True
    device = door.link(5)
    device.send(mqtt.connect("p", 5), mqtt.publish("t", b"x", 1, 2, version=5))
    cluster.settle()
    assert [sent.kind for sent in device.read()] == [2, 4]


def test_a_client_finds_its_way_back_to_a_door_that_lost_its_session_as_it_left() -> None:
    cluster = Cluster()
    first, second = cluster.doors
    device = cluster.connect(first)
    asking = second.link(5)
    asking.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    assert second.propose()  # the claim of the second door is on its way when the client leaves the first
    operations, second.proposed = second.proposed, None
    assert operations is not None
    device.leave()
    assert first.propose()
    assert cluster.log.commit(operations) == [True]
    cluster.settle()
    assert asking.read()[0].body[:2] == b"\x01\x00"
    asking.leave()
    cluster.settle()
    back = first.link(5)
    back.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    cluster.settle()
    assert back.read()[0].body[:2] == b"\x01\x00"


def test_a_topic_alias_stands_for_the_topic_that_it_was_given_last() -> None:
    bench = Bench()
    reader, writer = bench.subscriber(("#", 0)), bench.connect("w", 5)
    alias = b"\x23\x00\x01"
    for topic in ("a", "b", ""):
        writer.send(mqtt.publish(topic, b"x", version=5, raw=alias))
    assert [one.topic for one in reader.messages()] == ["a", "b", "b"]


def test_a_client_knows_an_alias_only_from_a_message_that_it_got() -> None:
    bench = Bench()
    device = bench.subscriber(("topic/#", 0), version=5, raw=b"\x22\x00\x05\x27\x00\x00\x00\x20")
    for payload in (bytes(100), b"1", b"2"):
        bench.broker.deliver(bench.now, Publish("topic/long", (payload,), 0))
    assert [(one.topic, one.payload) for one in device.messages()] == [("topic/long", b"1"), ("", b"2")]


def test_behind_a_message_that_is_too_large_the_next_one_comes() -> None:
    bench = Bench()
    device = bench.subscriber(("t", 1), version=5, raw=b"\x21\x00\x01\x27\x00\x00\x00\x20")
    bench.broker.deliver(bench.now, Publish("t", (bytes(100), b"small"), 1))
    assert device.payloads() == [b"small"]


def test_a_retained_message_that_is_cleared_gives_room_to_another() -> None:
    bench = Bench(limits=Limits(retained=1))
    for topic, payload in (("a", b"1"), ("b", b"no room"), ("a", b""), ("b", b"2")):
        bench.connect("p").send(mqtt.publish(topic, payload, retain=True))
    assert [(run.topic, run.payloads[0]) for run in bench.broker.retained] == [("b", b"2")]


def test_a_retained_message_whose_time_is_over_gives_room_to_another() -> None:
    bench = Bench(limits=Limits(retained=1))
    publisher = bench.connect("p", 5)
    soon, later = b"\x02\x00\x00\x00\x05", b"\x02\x00\x00\x00\x14"

    def retained(topic: str, payload: bytes, raw: bytes = b"") -> list[bytes]:
        publisher.send(mqtt.publish(topic, payload, retain=True, version=5, raw=raw))
        return [run.payloads[0] for run in bench.broker.retained]

    assert retained("a", b"1", soon) == [b"1"]
    assert retained("a", b"2", later) == [b"2"]
    bench.pass_time(10.0)
    assert retained("b", b"no room") == [b"2"], "a newer one has its own time"
    bench.pass_time(11.0)
    assert len(bench.broker.retained) == 0
    assert retained("b", b"3", soon) == [b"3"]
    assert retained("b", b"4") == [b"4"]
    bench.pass_time(10.0)
    assert retained("c", b"no room") == [b"4"], "without a time it stays"
    assert bench.broker.deadline == float("inf")


def test_a_shared_subscription_serves_again_after_all_its_members_had_gone() -> None:
    bench = Bench()
    for _ in range(2):
        device = bench.subscriber(("$share/g/t", 0))
        bench.broker.deliver(bench.now, Publish("t", (b"x",), 0))
        assert device.payloads() == [b"x"]
        device.disconnect()
    assert bench.broker.subscriptions.match("t") == ()


def test_a_member_of_a_group_that_is_away_gets_what_others_have_in_the_log_too() -> None:
    door = Restarts()
    for name, wanted in (("all", "t"), ("member", "$share/g/t")):
        device = door.connect(name)
        device.send(mqtt.subscribe(1, (wanted, 1), version=5))
        device.leave()
    publish(door, door.connect("p"), 1, b"x")
    for name in ("all", "member"):
        _, sent = door.resume(name)
        assert [mqtt.publication(one, 5).payload for one in sent] == [b"x"]


def test_a_session_whose_end_met_its_client_ends_when_it_is_due_again() -> None:
    cluster = Cluster()
    first, second = cluster.doors
    device = cluster.connect(second, raw=b"\x11\x00\x00\x00\x0a")
    device.leave()
    cluster.settle()
    for door in cluster.doors:
        door.advance(cluster.now + 20.0)
    first.broker.is_chosen = True
    first.sweeping.sweep(first.now, [door.shared.name for door in cluster.doors])
    back = second.link(5)
    back.send(mqtt.connect("s", 5, clean=False, raw=b"\x11\x00\x00\x00\x0a"))
    assert second.propose(), "its client comes back a moment earlier"
    operations, second.proposed = second.proposed, None
    assert operations is not None
    assert first.propose()
    assert cluster.log.commit(operations) == [True]
    cluster.settle()
    assert back.read()[0].body[:2] == b"\x01\x00"
    back.leave()
    cluster.now += 20.0
    cluster.settle()
    cluster.pass_time(30.0)
    assert cluster.log.state.get(f"o/{mark('s')}") is None


def test_what_happens_to_a_session_while_its_change_is_under_way_comes_with_the_next_one() -> None:
    store = Shared("life", lambda: 1_000.0)
    store.is_ready, store.claims = True, {"s": 1}
    store.note("sub", "s", "a", 1, 0)
    for number in range(5):
        store.propose(Unit([], [Set(f"x/{number}", "v" * (200 << 10))]))
    told: list[str] = []
    for name in "bc":
        for one in store.begin() or ():
            told += one.patch if isinstance(one, Update) and one.key.startswith("f/") else ()
        store.note("sub", "s", name, 1, 0)
        assert store.batch is not None
        store.committed(0.0, 0, store.batch.number)
    while (operations := store.begin()) is not None:
        for one in operations:
            told += one.patch if isinstance(one, Update) and one.key.startswith("f/") else ()
        assert store.batch is not None
        store.committed(0.0, 0, store.batch.number)
    assert told == ["a", "b", "c"]


def test_a_message_that_expired_under_way_keeps_nothing_in_the_log_of_a_cluster() -> None:
    cluster = Cluster()
    door = cluster.doors[0]
    device = cluster.connect(door)
    device.send(mqtt.subscribe(1, ("t", 1), version=5))
    cluster.settle()
    publisher = cluster.connect(door, "p")
    publisher.send(mqtt.publish("t", b"x", 1, 1, version=5, raw=b"\x02\x00\x00\x00\x05"))
    cluster.settle()
    assert messages(device) == [b"x"]
    device.leave()
    cluster.pass_time(60.0)
    cluster.connect(cluster.doors[1])
    cluster.settle()
    assert cluster.doors[1].shared.replica.progress(mark("s")).sent == {}


def test_a_client_that_goes_while_its_password_is_checked_leaves_nothing_behind() -> None:
    bench = Bench(Slowly())
    device = bench.link()
    device.send(mqtt.connect("c", clean=False), mqtt.publish("t", b"x"))
    device.leave()
    bench.broker.admit(bench.now, device.client, Identity())
    assert (bench.broker.sessions, bench.broker.clients, bench.broker.published) == ({}, {}, [])


class Slowly(Everybody):
    """Takes its time for each client."""

    def authenticate(self, connect: Connect, remote: Remote) -> None:
        return None


def test_a_message_of_qos_2_that_no_session_keeps_is_taken_once_over_a_power_cut() -> None:
    door = Restarts()
    guest, publisher = door.bench.subscriber(("t", 0)), door.connect("p")
    door.sync()
    publisher.send(mqtt.publish("t", b"x", 2, 7, version=5))
    assert (publisher.read(), guest.payloads()) == ([], [b"x"]), "it is not promised before it is on the disk"
    door.sync()
    assert [sent.kind for sent in publisher.read()] == [5]
    door.crash()
    guest, (back, _) = door.bench.subscriber(("t", 0)), door.resume("p")
    back.send(mqtt.publish("t", b"x", 2, 7, dup=True, version=5))
    door.sync()
    assert ([sent.kind for sent in back.read()], guest.payloads()) == ([5], [])


def test_no_snapshot_follows_another_before_the_log_has_grown() -> None:
    door = Restarts()
    device, publisher = door.connect("s"), door.connect("p")
    device.send(mqtt.subscribe(1, ("t", 1), version=5))
    for number in range(1, 9):
        publish(door, publisher, number, bytes(1_000))
    store = door.bench.store
    assert store is not None
    assert store.wants_snapshot
    door.bench.save()
    publish(door, publisher, 9, b"small")
    assert not store.wants_snapshot


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_a_session_that_moves_to_and_fro_leaves_nothing_behind_and_its_number_grows(hops: int) -> None:
    here, there = Bench(), Bench()
    for _ in range(5):
        here.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    numbers = [here.broker.sessions["s"].epoch]
    for _ in range(hops):
        move(here, there)
        here, there = there, here
        numbers.append(here.broker.sessions["s"].epoch)
    assert numbers == sorted({*numbers}), "the newest connection has the largest"
    for bench in (here, there):
        bench.pass_time(10.0)
    assert (there.broker.subscriptions.count, here.broker.subscriptions.count) == (0, 1)
