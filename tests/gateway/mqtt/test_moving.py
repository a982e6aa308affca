"""Sessions that move from door to door, with and without storage."""

from __future__ import annotations

from random import Random

import pytest

from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench, Device

HOUR = b"\x11\x00\x00\x0e\x10"


@pytest.fixture(params=["in memory", "stored"])
def doors(request: pytest.FixtureRequest) -> tuple[Bench, Bench]:
    """Two doors."""
    if request.param == "in memory":
        return Bench(), Bench()
    return Bench(directory=SimulatedDisk(Random(1))), Bench(directory=SimulatedDisk(Random(2)))


def move(old: Bench, new: Bench, client_id: str = "s") -> tuple[Device, list[mqtt.Sent]]:
    """Connect a client to another door, which finds its session; returns what the client gets."""
    new.broker.may_be_elsewhere = lambda: True
    device = new.link(5)
    device.send(mqtt.connect(client_id, 5, clean=False, raw=HOUR))
    assert device.read() == [], "the answer waits for the old door"
    (sought,) = new.broker.sought
    new.broker.sought.clear()
    new.broker.settle(new.now, sought, old.broker.taken(old.now, client_id, "new"))
    settle(new)
    return device, device.read()


def settle(bench: Bench) -> None:
    if bench.store is not None:
        bench.sync()


def test_a_session_moves_with_all_that_it_has(doors: tuple[Bench, Bench]) -> None:
    old, new = doors
    subscriber = old.subscriber(("t", 2), ("u/+", 1), client_id="s", version=5, clean=False, raw=HOUR)
    publisher = old.connect("p")
    for number in range(1, 4):
        publisher.send(mqtt.publish("t", b"%d" % number, 2, number))
    settle(old)
    first, second, third = subscriber.messages()
    subscriber.send(mqtt.acknowledge(5, first.number), mqtt.acknowledge(5, second.number))
    settle(old)
    subscriber.send(mqtt.acknowledge(7, first.number), mqtt.publish("x", b"mine", 2, 9, version=5))
    subscriber.leave()
    publisher.send(mqtt.publish("u/1", b"waits", 1, 4))
    settle(old)

    moved, sent = move(old, new)
    connack, release, *publications = sent
    assert connack.body[:2] == b"\x01\x00"
    assert (release.kind, release.body[:2]) == (6, second.number.to_bytes(2, "big"))
    found = [mqtt.publication(one, 5) for one in publications]
    assert [(one.payload, one.qos, one.dup) for one in found] == [(b"3", 2, True), (b"waits", 1, False)]
    assert found[0].number == third.number
    moved.send(mqtt.publish("x", b"mine", 2, 9, dup=True, version=5))
    settle(new)
    assert [one.kind for one in moved.read()] == [5]
    assert new.broker.statistics["messages received"] == 1
    assert not new.broker.published, "it was taken at the old door"
    assert "s" not in old.broker.sessions
    new.connect("q").send(mqtt.publish("u/2", b"new", 1, 1))
    settle(new)
    assert moved.payloads() == [b"new"]


def test_what_comes_while_a_session_moves_arrives_once(doors: tuple[Bench, Bench]) -> None:
    old, new = doors
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    moved, _ = move(old, new)
    publisher, other = old.connect("p"), new.connect("q")
    publisher.send(*(mqtt.publish("t", one, 1, 1) for one in (b"gap", b"same", b"both")))
    other.send(*(mqtt.publish("t", one, 1, 1) for one in (b"both", b"new")))  # as they come from the network
    settle(new)
    new.broker.give_rest(new.now, "s", old.broker.rest(old.now, "s"))
    settle(new)
    assert sorted(moved.payloads()) == [b"both", b"gap", b"new", b"same"]
    assert old.broker.subscriptions.count == 0
    assert old.broker.rest(old.now, "s") is None
    new.broker.give_rest(new.now, "s", [[3]])
    move(new, old)
    old.pass_time(5)
    new.pass_time(5)
    assert new.broker.subscriptions.count == 0, "a ghost ends by itself"


def test_a_session_that_moves_on_at_once_gets_what_came_at_both_former_doors() -> None:
    first, second, third = benches = Bench(), Bench(), Bench()
    first.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    move(first, second)
    first.connect("p").send(mqtt.publish("t", b"first", 1, 1), mqtt.publish("t", b"both", 1, 2))
    assert second.broker.awaits_rest("s")
    device, _ = move(second, third)
    assert not second.broker.awaits_rest("s"), "the next door asks for it"
    second.connect("p").send(mqtt.publish("t", b"both", 1, 1), mqtt.publish("t", b"second", 1, 2))
    third.connect("p").send(mqtt.publish("t", b"second", 1, 1), mqtt.publish("t", b"third", 1, 2))
    third.broker.give_rest(third.now, "s", *(one.broker.rest(one.now, "s") for one in benches))
    assert sorted(device.payloads()) == [b"both", b"first", b"second", b"third"]
    assert not third.broker.awaits_rest("s")


def test_a_client_that_is_still_connected_is_told_that_its_session_is_taken_over(doors: tuple[Bench, Bench]) -> None:
    old, new = doors
    former = old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR)
    move(old, new)
    (goodbye,) = former.read()
    assert (goodbye.kind, goodbye.body[0]) == (14, 0x8E)


@pytest.mark.parametrize("way", ["the client has gone", "the old door shuts down"])
def test_a_session_that_moves_without_its_client_is_kept_for_its_time(doors: tuple[Bench, Bench], way: str) -> None:
    old, new = doors
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    old.connect("p").send(mqtt.publish("t", b"1", 1, 1))
    settle(old)
    if way == "the client has gone":
        new.broker.may_be_elsewhere = lambda: True
        device = new.link(5)
        device.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
        device.leave()
        new.broker.settle(new.now, device.client, old.broker.taken(old.now, "s", "new"))
        new.broker.give_rest(new.now, "s", old.broker.rest(old.now, "s"))
    else:
        new.broker.give(new.now, old.broker.taken(old.now, "s", "new"))
    new.connect("q").send(mqtt.publish("t", b"2", 1, 1))
    settle(new)
    if new.store is not None:
        new.save()
        new = Bench(directory=new.store.directory, now=new.now)
    new.pass_time(3_599)
    back = new.link(5)
    back.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    settle(new)
    connack, *publications = back.read()
    assert connack.body[:2] == b"\x01\x00"
    assert [mqtt.publication(one, 5).payload for one in publications] == [b"1", b"2"]
    back.leave()
    new.pass_time(3_601)
    settle(new)
    assert "s" not in new.broker.sessions
    assert new.broker.subscriptions.count == 0


def test_a_session_that_moves_to_a_client_that_never_comes_back_ends_at_its_time(doors: tuple[Bench, Bench]) -> None:
    old, new = doors
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    new.broker.may_be_elsewhere = lambda: True
    device = new.link(5)
    device.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    device.leave()
    new.broker.settle(new.now, device.client, old.broker.taken(old.now, "s", "new"))
    assert [*new.broker.absent] == [new.broker.sessions["s"]], "it may have to give way to others"
    new.pass_time(3_601)
    assert "s" not in new.broker.sessions
    assert new.broker.subscriptions.count == 0


@pytest.mark.parametrize("is_back", [False, True])
def test_a_will_that_waits_moves_with_its_session_and_is_published_at_its_time(
    doors: tuple[Bench, Bench], is_back: bool
) -> None:
    old, new = doors
    will = {"will": ("gone", b"c", 1, False), "will_raw": b"\x18\0\0\0\x3c"}  # after a minute
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR, **will).leave()
    for bench in doors:
        bench.pass_time(20)
    new.broker.give(new.now, old.broker.taken(old.now, "s", "new"))
    old.pass_time(99)
    assert old.broker.published == []
    settle(new)
    if is_back:
        new.pass_time(30)
        device = new.link(5)
        device.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
        settle(new)
        assert [one.kind for one in device.read()] == [2]
    else:
        new.pass_time(39)
        assert new.broker.published == []
    new.pass_time(30)
    assert [(run.topic, run.payloads[0]) for run in new.broker.published] == ([] if is_back else [("gone", b"c")])


def test_a_will_that_moved_survives_a_power_cut_once() -> None:
    old, disk = Bench(), SimulatedDisk(Random(1))
    new = Bench(directory=disk)
    will = {"will": ("gone", b"c", 1, False), "will_raw": b"\x18\0\0\0\x3c"}
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR, **will).leave()
    new.broker.give(new.now, old.broker.taken(old.now, "s", "new"))
    new.sync()
    disk.crash()
    for expected in ([b"c"], []):
        again = Bench(directory=disk, now=new.now + 1)
        again.pass_time(99)
        again.sync()
        assert [run.payloads[0] for run in again.broker.published] == expected
        disk.crash()


def test_a_session_without_an_expiry_does_not_move() -> None:
    old, new = Bench(), Bench()
    old.subscriber(("t", 1), client_id="s", version=5)
    _, (connack,) = move(old, new)
    assert connack.body[:2] == b"\x00\x00"


def test_a_session_moves_there_and_back_without_messages_twice(doors: tuple[Bench, Bench]) -> None:
    old, new = doors
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    for one in (b"1", b"2"):
        old.connect("p").send(mqtt.publish("t", one, 1, 1))
        settle(old)
    device, sent = move(old, new)
    found = [mqtt.publication(one, 5) for one in sent[1:]]
    assert [one.payload for one in found] == [b"1", b"2"]
    device.send(mqtt.acknowledge(4, found[0].number))
    _, sent = move(new, old)
    assert [mqtt.publication(one, 5).payload for one in sent[1:]] == [b"2"]
    if old.store is not None:
        again = Bench(directory=old.store.directory, now=old.now)
        again.sync()
        session = again.broker.sessions["s"]
        assert len(session.shelved) == 1
        assert again.broker.highest_epoch == session.epoch > 1


def test_a_session_that_comes_and_goes_leaves_no_door_collecting_for_it(doors: tuple[Bench, Bench]) -> None:
    old, new = doors
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    for here, there in ((old, new), (new, old), (old, new)):
        move(here, there)
    for bench in doors:
        bench.pass_time(5)
    assert [bench.broker.subscriptions.count for bench in doors] == [0, 1]


def test_a_session_that_goes_again_soon_has_its_messages_collected_for_the_whole_time(
    doors: tuple[Bench, Bench],
) -> None:
    old, new = doors
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    for here, there in ((old, new), (new, old), (old, new)):
        for bench in doors:
            bench.pass_time(1)
        device, _ = move(here, there)
    old.pass_time(2.5)  # more than three seconds after it went for the first time
    old.connect("p").send(mqtt.publish("t", b"late", 1, 1))
    new.broker.give_rest(new.now, "s", old.broker.rest(old.now, "s"))
    settle(new)
    assert device.payloads() == [b"late"]


def test_retained_messages_are_taken_unless_there_are_newer_ones(doors: tuple[Bench, Bench]) -> None:
    old, new = doors
    old.broker.wall_clock = lambda: 10.0
    old.connect("p").send(*(mqtt.publish(topic, b"old", retain=True) for topic in ("a", "b")))
    for bench, at in ((new, 20.0), (new, 5.0)):
        bench.broker.wall_clock = lambda at=at: at  # type: ignore[misc]
        bench.connect("p").send(mqtt.publish("a" if at > 10 else "b", b"new", retain=True))
    new.broker.give_retained(new.now, [*old.broker.retained_values(old.now), ["a/#", "", 0, {}, None, 9], 3])
    settle(new)
    subscriber = new.connect("s")
    subscriber.send(mqtt.subscribe(1, ("#", 0)))
    assert sorted(mqtt.publication(one).payload for one in subscriber.read()[1:]) == [b"new", b"old"]
    assert new.broker.statistics["malformed retained messages of other doors"] == 2


@pytest.mark.parametrize(
    "value", [{}, {"client": 3}, {"client": "s", "epoch": 1, "expiry": 9, "subscriptions": [["#/a", 1]]}]
)
def test_a_malformed_session_of_another_door_is_left_out(value: object) -> None:
    new = Bench()
    new.broker.give(new.now, value)
    assert new.broker.sessions == {}
    assert new.broker.statistics["malformed sessions of other doors"] == 1


def test_a_door_that_ends_without_another_publishes_the_wills_that_wait() -> None:
    bench = Bench()
    for name in ("a", "b"):
        options = {"will": (name, b"gone", 0, False), "will_raw": b"\x18\x00\x00\x00\x1e"}
        bench.connect(name, 5, clean=False, raw=HOUR, **options).leave()
    bench.connect("b", 5, clean=False, raw=HOUR)
    bench.broker.publish_waiting_wills(bench.now)
    bench.broker.publish_waiting_wills(bench.now)
    assert [run.topic for run in bench.broker.published] == ["a"]


@pytest.mark.parametrize("is_fresh", [False, True])
def test_what_waited_at_a_door_that_was_dead_goes_to_the_new_session_of_its_client(is_fresh: bool) -> None:
    old, new = Bench(directory=SimulatedDisk(Random(1))), Bench(directory=SimulatedDisk(Random(2)))
    subscriber = old.subscriber(("t", 2), client_id="s", version=5, clean=False, raw=HOUR)
    publisher = old.connect("p")
    publisher.send(mqtt.publish("t", b"under way", 1, 1), mqtt.publish("t", b"perhaps there", 2, 2))
    settle(old)
    subscriber.leave()
    publisher.send(mqtt.publish("t", b"waits", 2, 3))
    settle(old)
    old = Bench(directory=old.store.directory, now=old.now)  # type: ignore[union-attr]
    device = new.link(5)
    device.send(mqtt.connect("s", 5, clean=is_fresh, raw=HOUR), mqtt.subscribe(1, ("t", 2), version=5))
    settle(new)
    device.read()
    for bench in (old, new):
        bench.connect("p").send(mqtt.publish("t", b"of both", 1, 1))
        settle(bench)
    left = old.broker.left_over(old.now, old.broker.sessions["s"])
    assert left is not None
    assert [one[0][2] for one in left] != []
    assert not new.broker.give_late(new.now, "unknown", left)
    assert not new.broker.give_late(new.now, "s", [[3]]) or is_fresh
    assert new.broker.give_late(new.now, "s", left)
    settle(new)
    assert device.payloads() == [b"of both", *([] if is_fresh else [b"under way", b"waits"])]
    old.connect("s", 5, clean=False, raw=HOUR)
    assert old.broker.left_over(old.now, old.broker.sessions["s"]) == [], "its client is here"


def test_a_session_that_was_taken_over_is_there_after_a_power_cut_with_all_that_it_has() -> None:
    disk = SimulatedDisk(Random(1))
    bench = Bench(directory=disk)
    parcels = [[[f"t/{number}", "eA==", 2, {}, None, 0.0], qos, False, []] for number, qos in enumerate((1, 2, 2, 1))]
    value = {
        "client": "s", "epoch": 7, "expiry": 3_600.0, "subscriptions": [["t/#", 2 | 4 | 21 << 4]],
        "inflight": [[9, parcels[0]], [4, parcels[1]]], "released": [11, 12], "received": [5, 65_535],
        "queue": parcels[2:],
    }  # fmt: skip
    bench.broker.give(bench.now, value)
    for _ in range(2):
        settle(bench)
        disk.crash()
        bench = Bench(directory=disk, now=bench.now + 10)
        session = bench.broker.sessions["s"]
        assert (session.expiry, session.epoch, session.received) == (3_600.0, 7, {5, 65_535})
        assert [*session.released] == [11, 12]
        (one,) = session.subscriptions.values()
        assert (one.filter, one.qos, one.no_local, one.identifier) == ("t/#", 2, True, 21)
    device = bench.link(5)
    device.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    settle(bench)
    connack, *sent = device.read()
    assert connack.body[:2] == b"\x01\x00", "the session is present"
    assert sorted(int.from_bytes(one.body[:2], "big") for one in sent if one.kind == 6) == [11, 12]
    found = [mqtt.publication(one, 5) for one in sent if one.kind == 3]
    assert sorted((one.topic, one.qos, one.dup) for one in found) == [
        ("t/0", 1, True), ("t/1", 2, True), ("t/2", 2, False), ("t/3", 1, False),
    ]  # fmt: skip
    assert [one.number for one in found[:2]] == [9, 4]
    device.send(mqtt.publish("x", b"again", 2, 5, version=5))
    settle(bench)
    assert bench.broker.published == [], "it was published before"
