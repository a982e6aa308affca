"""How a door of a cluster gets a session, and how it loses one: claims that are refused, and what comes between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.cluster import broker as room
from glue.gateway.mqtt.cluster import delivering, joining, sweeping
from glue.gateway.mqtt.cluster.keys import mark
from glue.gateway.mqtt.cluster.shared import FULL, LARGEST
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.plugins import Plugin
from tests.gateway.mqtt.cluster_doors import EPOCH, Door
from tests.gateway.mqtt.test_cluster import HOUR, Cluster, messages
from tests.support import mqtt
from tests.support.mqtt import Device

LATER = b"\x18\x00\x00\x00\x05"
"""The property of a will: five seconds after the connection."""


def refuse(cluster: Cluster, door: Door) -> None:
    """The model refuses what a door proposes."""
    assert door.propose()
    operations, door.proposed = door.proposed, None
    assert operations is not None
    assert cluster.log.commit(operations) == [False]
    assert door.shared.refused(door.now)


def asks(door: Door, client_id: str = "s") -> Device:
    """A client that connects, and waits for the claim."""
    device = door.link(5)
    device.send(mqtt.connect(client_id, 5, clean=False, raw=HOUR))
    return device


def answer(device: Device) -> tuple[int, bytes]:
    """The reason code of a CONNACK, and its properties."""
    connack, *_ = device.read()
    assert connack.kind == 2
    return connack.body[1], connack.body[3:]


def pauses(door: Door, count: int) -> None:
    """Let so many pauses between two tries pass."""
    for _ in range(count):
        door.advance(door.now + 0.0500001)


def go_and_come(cluster: Cluster, door: Door) -> None:
    """A client connects, and leaves again."""
    cluster.connect(door).leave()
    cluster.settle()


def test_a_door_whose_view_stays_old_refuses_a_client_after_a_second() -> None:
    cluster = Cluster()
    first, second = cluster.doors
    cluster.kill(second)  # it lives, and sees nothing more
    cluster.connect(first)
    device = asks(second)
    refuse(cluster, second)
    pauses(second, 19)
    assert (device.read(), second.shared.is_pending) == ([], False), "it proposes nothing before it knows more"
    pauses(second, 1)
    code, words = answer(device)
    assert (code, b"the view of the cluster is old" in words) == (codes.SERVER_UNAVAILABLE, True)
    assert device.is_closed()


@pytest.mark.parametrize(
    ("before", "meanwhile", "code"),
    [
        ("nothing", "connects", codes.SERVER_BUSY),
        ("nothing", "nothing", codes.SERVER_UNAVAILABLE),
        ("connected", "leaves", 0),
        ("connected", "nothing", codes.SERVER_BUSY),
        ("connected", "leaves, comes and goes", codes.SERVER_BUSY),
        ("away", "comes and goes", codes.SERVER_BUSY),
    ],
)
def test_a_refused_claim_is_tried_again_only_if_the_former_connection_has_just_ended(
    before: str, meanwhile: str, code: int
) -> None:
    cluster = Cluster()
    first, second = cluster.doors
    device = cluster.connect(first) if before != "nothing" else None
    if device is not None and before == "away":
        device.leave()
        cluster.settle()
    cluster.kill(second)
    if device is not None and "leaves" in meanwhile:
        device.leave()
        cluster.settle()
    if "goes" in meanwhile:
        go_and_come(cluster, first)
    if meanwhile == "connects" or (before, meanwhile) == ("nothing", "nothing"):
        cluster.connect(first)
    elif (before, meanwhile) == ("connected", "nothing"):
        go_and_come(cluster, first)
    asked = asks(second)
    refuse(cluster, second)
    if meanwhile != "nothing":
        second.follow(100)
        pauses(second, 1)
    pauses(second, 20)
    if code:
        assert answer(asked)[0] == code
        assert not second.shared.is_pending
    cluster.doors.append(second)
    cluster.settle()
    if not code:
        assert asked.read()[0].body[:2] == b"\x01\x00", "its session is present"
        assert first.shared.replica.owners[mark("s")] == ("s", second.shared.name, 3)


@pytest.mark.parametrize("way", ["it has gone", "it is being closed"])
def test_a_claim_is_not_tried_again_for_a_client_that_has_gone(way: str) -> None:
    cluster = Cluster()
    first, second = cluster.doors
    cluster.kill(second)
    go_and_come(cluster, first)
    device = asks(second)
    refuse(cluster, second)
    if way == "it has gone":
        device.leave()
    else:
        second.broker.end(second.now, device.client, codes.SERVER_BUSY, "why")
    second.follow(100)
    pauses(second, 3)
    assert not second.shared.is_pending
    assert second.broker.statistics["connects refused, 0x88"] == second.broker.statistics["connects refused, 0x89"] == 0


def test_a_client_that_is_lost_before_its_claim_is_committed_had_its_will_and_its_session_stays() -> None:
    cluster = Cluster()
    door, other = cluster.doors
    watcher = cluster.subscriber(other, ("w", 1), client_id="watcher")
    device = door.link(5)
    device.send(mqtt.connect("s", 5, clean=False, raw=HOUR, will=("w", b"gone", 1, False)))
    device.leave()
    cluster.settle()
    assert door.shared.replica.owners[mark("s")] == ("s", door.shared.name, 1)
    assert "s" not in door.broker.sessions
    cluster.pass_time(0)
    assert door.shared.replica.owners[mark("s")] == ("s", "", 2)
    assert messages(watcher) == [b"gone"]


def test_a_client_whose_door_was_taken_for_dead_is_told_so_and_goes_on_there() -> None:
    cluster = Cluster()
    door, other = cluster.doors
    device = cluster.connect(door)
    device.read()
    for now in (cluster.now, cluster.now + 10.0):
        other.sweeping.sweep(now, [other.shared.name])
    cluster.settle()
    (goodbye,) = device.read()
    assert (goodbye.kind, goodbye.body[0]) == (14, codes.SERVER_BUSY)
    assert b"the other doors took this one for lost" in goodbye.body
    assert door.broker.statistics["connections taken over"] == 0
    assert (door.broker.sessions, door.shared.claims) == ({}, {})
    assert cluster.connect(door).read()[0].body[:2] == b"\x01\x00"


def test_a_client_whose_session_another_door_has_claimed_is_closed_by_the_first_change_that_is_refused() -> None:
    cluster = Cluster()
    door, other = cluster.doors
    device = cluster.connect(door)
    device.read()
    cluster.kill(door)
    cluster.connect(other)
    device.send(mqtt.subscribe(1, ("t", 1), version=5))
    refuse(cluster, door)
    (goodbye,) = device.read()
    assert (goodbye.kind, goodbye.body[0]) == (14, codes.SESSION_TAKEN_OVER), "and no SUBACK"
    assert b"its session is at another door" in goodbye.body
    assert door.broker.statistics["connections taken over"] == 1
    assert (door.broker.sessions, door.shared.claims, door.broker.subscriptions.count) == ({}, {}, 0)


@pytest.mark.parametrize(
    ("raw", "will_raw", "is_present", "number", "wills"),
    [(HOUR, b"", True, 3, 1), (HOUR, LATER, True, 3, 0), (b"", b"", False, 2, 1), (b"", LATER, False, 2, 1)],
)
def test_a_client_that_comes_back_before_its_end_is_committed_finds_what_will_be(
    raw: bytes, will_raw: bytes, is_present: bool, number: int, wills: int
) -> None:
    cluster = Cluster()
    door = cluster.doors[0]
    device = cluster.connect(door, raw=raw, will=("w", b"gone", 1, False), will_raw=will_raw)
    device.leave()
    back = asks(door)
    cluster.settle()
    assert back.read()[0].body[:2] == bytes((is_present, 0))
    assert door.shared.replica.owners == {mark("s"): ("s", door.shared.name, number)}
    assert door.broker.statistics["wills published"] == wills
    assert door.shared.replica.wills == {}
    assert door.broker._left == {}


def test_a_door_that_was_cut_off_before_a_goodbye_was_committed_finds_the_session_as_it_is_now() -> None:
    cluster = Cluster()
    first, second = cluster.doors
    cluster.connect(first).leave()
    cut_off(first)
    go_and_come(cluster, second)
    go_and_come(cluster, second)
    device = asks(first)
    cluster.settle()
    assert answer(device)[0] == codes.SUCCESS


def test_a_door_whose_goodbye_was_refused_finds_the_session_as_it_is_now() -> None:
    cluster = Cluster()
    first, second = cluster.doors
    cluster.connect(first).leave()
    asks(second)
    assert second.propose()
    operations, second.proposed = second.proposed, None
    assert operations is not None
    assert cluster.log.commit(operations) == [True]
    refuse(cluster, first)
    cluster.settle()
    device = asks(first)
    cluster.settle()
    assert answer(device)[0] == codes.SUCCESS


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({"clean": True}, False),
        ({"clean": False}, False),
        ({"raw": b"\x11\0\0\0\1"}, True),
        ({"will": ("w", b"", 0, False)}, True),
    ],
)
def test_only_a_client_that_leaves_something_behind_waits_for_the_cluster(
    options: dict[str, object], waits: bool
) -> None:
    door = Cluster(1).doors[0]
    device = door.link(5)
    device.send(mqtt.connect("s", 5, **options))  # type: ignore[arg-type]
    assert ([one.kind for one in device.read()], door.shared.is_pending) == ([] if waits else [2], waits)


@pytest.mark.parametrize(
    ("delay", "expiry", "due"), [(None, 60.0, None), (0, 60.0, 0.0), (5, 60.0, 5.0), (90, 60.0, 60.0), (5, 0.0, 0.0)]
)
@pytest.mark.parametrize("has_will", [True, False])
def test_a_will_is_due_after_its_delay_or_at_the_end_of_the_session(
    has_will: bool, delay: int | None, expiry: float, due: float | None
) -> None:
    cluster = Cluster()
    door = cluster.doors[0]
    raw = b"" if delay is None else b"\x18" + delay.to_bytes(4, "big")
    will = {"will": ("w", b"gone", 1, False), "will_raw": raw} if has_will else {}
    device = door.link(5)
    device.send(mqtt.connect("m", 5, raw=b"\x11" + int(expiry).to_bytes(4, "big"), **will))  # type: ignore[arg-type]
    cluster.settle()
    device.leave()
    cluster.settle()
    replica, unix = door.shared.replica, cluster.now + EPOCH
    waits = has_will and bool(due)
    assert {hash: one["due"] for hash, one in replica.wills.items()} == (
        {mark("m"): unix + (due or 0)} if waits else {}
    )
    assert door.broker.statistics["wills published"] == (has_will and not waits)
    assert replica.owners == ({mark("m"): ("m", "", 2)} if expiry else {})
    assert replica.terms == ({mark("m"): {"expiry": expiry, "away": unix}} if expiry else {})


def test_the_bounds_of_a_door_are_those_of_the_pages() -> None:
    assert (room.SHOWN, room.TRIES, room.PAUSE) == (10_000, 20, 0.05)
    assert (delivering.EARLY, LARGEST, FULL) == (1 << 20, 700_000, 8 << 20)
    assert (joining.CALL_TIMEOUT, joining.PATIENCE, joining.START_TIMEOUT) == (5.0, 3.0, 4.0)
    assert (joining.TRY_TIMEOUT, joining.LAZY, joining.SETTLE) == (2.0, 0.05, 3.0)
    assert (sweeping.INTERVAL, sweeping.GRACE) == (0.5, 1.5)


@pytest.mark.parametrize(
    ("is_ready", "has_joined", "waiting", "is_taken"),
    [
        (True, True, FULL, True),
        (True, True, FULL + 1, False),
        (True, False, 0, True),
        (False, True, 0, False),
        (False, False, (1 << 20) - 1, True),
        (False, False, 1 << 20, False),
    ],
)
def test_what_nobody_waits_for_is_kept_only_while_there_is_room_for_it(
    is_ready: bool, has_joined: bool, waiting: int, is_taken: bool
) -> None:
    door = Cluster(1).doors[0]
    lines: list[str] = []
    door.broker.log = lambda level, line: lines.append(line)
    door.shared.is_ready, door.broker.has_joined, door.shared.size = is_ready, has_joined, waiting
    door.broker.publish(door.now, Publish("t", [b"x"], 0, True), None)
    assert door.shared.is_pending == is_taken
    assert door.broker.statistics["retained messages refused"] == (not is_taken)
    told = "'t' is delivered and not retained: no majority of the doors is in reach"
    assert lines == [told] * (not is_taken)
    assert [run.topic for run in door.broker.published] == ["t"]


@pytest.mark.parametrize(
    ("size", "qos", "is_closed"), [(LARGEST, 1, False), (LARGEST + 1, 1, True), (LARGEST + 1, 0, False)]
)
def test_only_a_message_that_goes_into_the_log_must_fit_into_it(size: int, qos: int, is_closed: bool) -> None:
    cluster = Cluster(1)
    device = cluster.doors[0].link(5)
    device.send(mqtt.connect("p", 5), mqtt.publish("t", bytes(size), qos, 1, version=5))
    assert device.is_closed() == is_closed


def cut_off(door: Door) -> None:
    """Cut a door off, and let it be back at once."""
    door.cut_off()
    door.shared.is_ready = True


def seen_again(door: Door) -> None:
    """The dead door is seen for a moment."""
    door.sweeping.sweep(door.now + 1.0, [door.shared.name, "door1-2"])


def not_ready(door: Door) -> None:
    """The door has no majority for a moment."""
    door.shared.is_ready = False
    door.sweeping.sweep(door.now + 1.0, [door.shared.name])
    door.shared.is_ready = True


@pytest.mark.parametrize(
    ("meanwhile", "is_buried"), [(lambda door: None, True), (seen_again, False), (not_ready, False)]
)
def test_a_door_is_taken_for_dead_only_if_it_was_unknown_all_the_time(
    meanwhile: Callable[[Door], None], is_buried: bool
) -> None:
    cluster = Cluster()
    door, dead = cluster.doors
    cluster.connect(dead)
    cluster.kill(dead)
    door.sweeping.sweep(door.now, [door.shared.name])
    meanwhile(door)
    for after in (1.5, 2.9):
        door.sweeping.sweep(door.now + after, [door.shared.name])
    assert door.shared.is_pending == is_buried
    door.sweeping.sweep(door.now + 4.5, [door.shared.name])
    assert door.shared.is_pending


def test_what_a_sweep_had_proposed_before_a_door_was_cut_off_is_proposed_again() -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    go_and_come(cluster, door)
    publisher = door.link(5)
    publisher.send(mqtt.connect("p", 5), mqtt.publish("t", b"x", 1, 1, version=5))
    cluster.settle()
    door.broker.is_chosen = True
    later = cluster.now + 3_601.0
    door.advance(later)
    for _ in range(2):
        door.sweeping.sweep(later, [door.shared.name])
        assert door.shared.is_pending
        cut_off(door)
        assert not door.shared.is_pending
    door.sweeping.sweep(later, [door.shared.name])
    cluster.settle()
    assert (door.shared.replica.messages, mark("s") in door.shared.replica.owners) == (0, False)
    assert door.broker.statistics["sessions expired"] == 1
    publisher = door.link(5)
    publisher.send(mqtt.connect("q", 5), mqtt.publish("t", b"x", 1, 1, version=5))
    cluster.settle()
    door.sweeping.sweep(later, [door.shared.name])
    cluster.settle()
    assert door.shared.replica.messages == 0, "the next ones are removed, too"


def test_a_plug_in_sees_what_clients_of_a_cluster_publish_once_and_no_wills() -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    seen: list[tuple[str, str]] = []
    watcher = Plugin()
    watcher.on_publish = lambda client_id, run: seen.append((client_id, run.topic))  # type: ignore[method-assign]
    door.broker.watchers = [watcher]
    device = cluster.connect(door, will=("w", b"gone", 1, False))
    device.send(*(mqtt.publish(f"q{qos}", b"x", qos, 1 + qos, version=5) for qos in range(3)))
    cluster.settle()
    device.leave()
    cluster.settle()
    assert seen == [("s", "q0"), ("s", "q1"), ("s", "q2")]
