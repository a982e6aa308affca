"""How sessions end in a cluster: dead doors, what is swept and shown, short sessions, goodbyes before the claim."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.cluster import broker as room
from glue.gateway.mqtt.cluster import sweeping
from glue.gateway.mqtt.cluster.keys import mark
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from tests.gateway.mqtt.test_cluster import HOUR, Cluster, messages
from tests.gateway.mqtt.test_cluster_claims import answer, asks, go_and_come, pauses, refuse
from tests.support import mqtt


@pytest.mark.parametrize(
    ("place", "after", "is_registered", "is_buried"),
    [(0, 1.49, True, False), (0, 1.5, True, True), (1, 2.99, True, False), (1, 3.0, True, True), (0, 0.0, False, True),
     (1, 1.49, False, False), (1, 1.5, False, True)],
)  # fmt: skip
def test_the_sessions_of_a_dead_door_are_given_back_after_a_grace(
    place: int, after: float, is_registered: bool, is_buried: bool
) -> None:
    cluster = Cluster(3)
    dead = cluster.doors[2]
    cluster.connect(dead, "m", will=("w", b"gone", 1, False)).read()
    cluster.kill(dead)
    door, names = cluster.doors[place], [one.shared.name for one in cluster.doors]
    if not is_registered:
        del door.shared.replica.doors[dead.number]
    for now in (cluster.now, cluster.now + after):
        door.sweeping.sweep(now, names)
        door.sweeping.sweep(now, names)
    assert len(door.shared._units) == is_buried, "it is proposed once"
    cluster.settle()
    assert door.shared.replica.owners == {mark("m"): ("m", "", 2) if is_buried else ("m", dead.shared.name, 1)}
    assert door.broker.statistics["wills published"] == is_buried


def test_a_will_that_was_dropped_is_not_published_when_its_door_dies() -> None:
    cluster = Cluster(2)
    dead, door = cluster.doors
    cluster.connect(dead, "m", clean=False, raw=HOUR, will=("w", b"gone", 1, False)).read()
    dead.broker.drop_will(dead.broker.sessions["m"])
    cluster.settle()
    assert door.shared.replica.wills == {}
    cluster.kill(dead)
    for now in (cluster.now, cluster.now + 1.5):
        door.sweeping.sweep(now, [door.shared.name])
    cluster.settle()
    assert door.shared.replica.owners == {mark("m"): ("m", "", 2)}
    assert door.broker.statistics["wills published"] == 0


def test_a_retained_message_leaves_the_cluster_once_its_lifetime_is_over() -> None:
    cluster = Cluster(2)
    door, other = cluster.doors
    publisher = cluster.connect(door, "p")
    for number, (topic, lifetime) in enumerate((("short", 60), ("long", 3_000), ("renewed", 60)), 1):
        raw = b"\x02" + lifetime.to_bytes(4, "big")
        publisher.send(mqtt.publish(topic, b"kept", 1, number, retain=True, version=5, raw=raw))
    cluster.settle()
    publisher.send(mqtt.publish("renewed", b"new", 1, 4, retain=True, version=5))
    cluster.settle()
    cluster.pass_time(61.0)
    assert sorted(other.shared.replica.retained.values()) == ["long", "renewed"]
    assert sorted(run.topic for run in other.broker.retained) == ["long", "renewed"]
    door.sweeping.sweep(cluster.now, [one.shared.name for one in cluster.doors])
    assert not door.shared.is_pending, "the lifetime of what was renewed is of no concern any more"
    cluster.pass_time(3_001.0)
    assert sorted(cluster.open().shared.replica.retained.values()) == ["renewed"]


def test_a_retained_message_that_is_renewed_as_it_ends_stays() -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    publisher = cluster.connect(door, "p")
    publisher.send(mqtt.publish("t", b"old", 1, 1, retain=True, version=5, raw=b"\x02\0\0\0\x3c"))
    cluster.settle()
    cluster.now += 61.0
    door.advance(cluster.now)
    door.broker.is_chosen = True
    publisher.send(mqtt.publish("t", b"new", 1, 2, retain=True, version=5))
    door.sweeping.sweep(cluster.now, [door.shared.name])
    cluster.settle()
    assert [run.payloads[0] for run in door.broker.retained] == [b"new"]
    assert door.shared.replica.overdue == {}


def test_a_client_goes_from_door_to_door_and_back_with_its_session() -> None:
    cluster = Cluster(2)
    for step, place in enumerate((0, 1, 0, 0, 1, 1, 0)):
        device = cluster.connect(cluster.doors[place])
        assert [(one.kind, *one.body[:2]) for one in device.read()] == [(2, step > 0, codes.SUCCESS)]
        device.leave()
        cluster.settle()


def test_a_session_whose_end_was_refused_is_looked_at_again() -> None:
    cluster = Cluster(2)
    door, other = cluster.doors
    go_and_come(cluster, door)
    door.broker.is_chosen = True
    cluster.now += 3_601.0
    door.advance(cluster.now)
    door.sweeping.sweep(cluster.now, [door.shared.name])
    cluster.kill(door)  # it sees nothing of what comes
    cluster.connect(other)
    refuse(cluster, door)
    door.sweeping.sweep(cluster.now, [door.shared.name])
    assert door.shared.is_pending, "as its view is still the same"


def test_a_sweep_has_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (sweeping.TOGETHER, sweeping.CLEARED) == (200, 800)
    monkeypatch.setattr(sweeping, "TOGETHER", 2)
    monkeypatch.setattr(sweeping, "CLEARED", 3)
    cluster = Cluster(1)
    (door,) = cluster.doors
    for number in range(5):
        cluster.connect(door, f"s{number}").leave()
    publisher = cluster.connect(door, "p")
    for number in range(1, 6):
        publisher.send(mqtt.publish("t", b"x", 1, number, version=5))
        cluster.settle()
    door.broker.is_chosen = True
    cluster.now += 3_601.0
    door.advance(cluster.now)
    left = []
    for _ in range(4):
        door.sweeping.sweep(cluster.now, [door.shared.name])
        cluster.settle()
        left.append((len(door.shared.replica.owners), door.shared.replica.messages))
    assert left == [(4, 2), (2, 0), (1, 0), (1, 0)]
    assert door.broker.statistics["sessions expired"] == 5


@pytest.mark.parametrize(
    ("whose", "left"), [("a dead door", [5, 3, 1, 0]), ("itself, which has lost them", [5, 3, 3, 1])]
)
def test_a_sweep_gives_back_so_many_sessions_and_the_next_one_the_rest(
    whose: str, left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TOGETHER", 2)
    cluster = Cluster()
    door, other = cluster.doors
    former = other if whose == "a dead door" else door
    for number in range(5):
        cluster.connect(former, f"s{number}")
    if former is other:
        cluster.kill(other)
    else:
        door.broker.sessions.clear()
    found = []
    for after in (0.0, 1.5, 2.0, 2.5):
        door.sweeping.sweep(cluster.now + after, [door.shared.name])
        cluster.settle()
        found.append(sum(bool(owner[1]) for owner in door.shared.replica.owners.values()))
    assert found == left, "own ones are looked at twice"


def test_what_waits_is_shown_and_not_what_was_read() -> None:
    cluster = Cluster()
    device = cluster.subscriber(cluster.doors[1], ("t", 2))
    publisher = cluster.connect(cluster.doors[1], "p")
    for number in range(1, 4):
        publisher.send(mqtt.publish("t", b"x", 2, number, version=5))
    cluster.settle()
    one, two, *_ = device.messages()
    device.send(mqtt.acknowledge(5, one.number))
    cluster.settle()
    device.leave()
    publisher.send(mqtt.publish("t", b"x", 1, 9, version=5))
    cluster.settle()
    cluster.doors[0].broker.is_chosen = True
    (shown,) = cluster.doors[0].broker.others(cluster.now)
    assert shown == {
        "client": "s", "connected": False, "subscriptions": 1, "waiting": 1, "under_way": 3, "dropped": 0,
        "expires": 3_600.0,
    }  # fmt: skip
    assert two.number == one.number + 1
    back = cluster.connect(cluster.doors[0])
    _, *sent = back.read()
    assert [one.kind for one in sent] == [6, 3, 3, 3]
    back.send(mqtt.subscribe(2, ("u", 1), version=5))
    session = cluster.doors[0].broker.sessions["s"]
    assert session.next_id == max(*session.inflight, *session.released) + 1


@pytest.mark.parametrize("seconds", [0, 1, 2])
def test_a_session_of_a_second_stays_for_its_second(seconds: int) -> None:
    cluster = Cluster()
    raw = b"\x11" + seconds.to_bytes(4, "big")
    will = ("w", b"gone", 1, False)
    device = cluster.connect(cluster.doors[0], "m", raw=raw, will=will, will_raw=b"\x18\0\0\0\x05")
    device.send(mqtt.subscribe(1, ("t", 1), version=5))
    cluster.settle()
    device.leave()
    cluster.settle()
    replica = cluster.doors[1].shared.replica
    hash = mark("m")
    unix = cluster.now + 1e9
    if not seconds:
        assert (replica.owners, replica.terms, replica.wills) == ({}, {}, {})
        return
    assert replica.owners == {hash: ("m", "", 2)}
    assert replica.terms == {hash: {"expiry": seconds, "away": unix}}
    assert replica.wills[hash]["due"] == unix + seconds, "the session ends before the delay of the will"
    assert replica.progress(hash).next > 0


def test_a_goodbye_before_the_claim_is_committed_ends_the_session_in_peace() -> None:
    cluster = Cluster()
    door = cluster.doors[0]
    device = door.link(5)
    device.send(mqtt.connect("m", 5, clean=False, raw=HOUR, will=("w", b"gone", 1, False)), mqtt.DISCONNECT)
    device.leave()
    cluster.settle()
    replica = cluster.doors[1].shared.replica
    assert replica.owners == {mark("m"): ("m", "", 2)}
    assert replica.wills == {}
    assert replica.terms == {mark("m"): {"expiry": 3_600.0, "away": cluster.now + 1e9}}
    assert door.broker.statistics["wills published"] == 0


def test_a_session_that_moves_keeps_the_options_of_its_subscriptions() -> None:
    cluster = Cluster()
    wanted = {f"t/{options}": options for options in (0x00, 0x01, 0x05, 0x09, 0x0D, 0x02)}
    device = cluster.connect(cluster.doors[0])
    device.read()
    device.send(mqtt.subscribe(1, *wanted.items(), version=5, raw=b"\x0b\x07"))
    cluster.settle()
    cluster.connect(cluster.doors[1])
    session = cluster.doors[1].broker.sessions["s"]
    found = {name: one.options for name, one in session.subscriptions.items()}
    assert found == {name: options | 7 << 4 for name, options in wanted.items()}
    assert [(one.no_local, one.retain_as_published) for one in session.subscriptions.values()] == [
        (False, False), (False, False), (True, False), (False, True), (True, True), (False, False),
    ]  # fmt: skip


def test_what_a_client_leaves_behind_counts_as_waiting_until_it_is_committed() -> None:
    cluster = Cluster()
    door = cluster.doors[0]
    for number, raw in enumerate((HOUR, b"")):
        device = cluster.connect(door, f"m{number}", raw=raw, will=("w", bytes(1_000), 1, False))
        assert door.shared.size == 0
        device.leave()
        assert door.shared.size > 1_000, "its will waits"
        cluster.settle()
        assert (door.shared.size, door.shared.is_full) == (0, False)


@pytest.mark.parametrize(
    ("count", "size", "left"), [(4, 40, 4), (3, 40, 3), (4, 39, 3), (4, 30, 3), (4, 29, 2), (2, 99, 2), (1, 99, 1)]
)
def test_what_is_too_much_for_a_session_is_dropped_from_its_oldest_message_on_and_counted(
    count: int, size: int, left: int
) -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    lines: list[str] = []
    cluster.subscriber(door, ("t", 1)).leave()
    publisher = cluster.connect(door, "p")
    for number in range(1, 5):
        publisher.send(mqtt.publish("t", b"%010d" % number, 1, number, version=5))
        cluster.settle()
    door.broker.log = lambda level, line: lines.append(line)
    door.broker.limits, door.broker.is_chosen = Limits(queue_messages=count, queue_bytes=size), True
    for _ in range(2):
        door.sweeping.sweep(cluster.now, [door.shared.name])
        cluster.settle()
    told = "the oldest messages that wait for 's' are dropped: too many wait"
    assert (door.broker.statistics["messages dropped"], lines) == (4 - left, [told] * (left < 4))
    assert messages(cluster.connect(door)) == [b"%010d" % number for number in range(5 - left, 5)]


def test_of_a_run_that_is_half_read_only_the_rest_counts_as_dropped() -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    device = cluster.subscriber(door, ("t", 1), raw=HOUR + b"\x21\0\2")
    publisher = cluster.connect(door, "p")
    publisher.send(b"".join(mqtt.publish("t", b"%d" % number, 1, number, version=5) for number in range(1, 6)))
    publisher.send(mqtt.publish("t", b"last", 1, 6, version=5))
    cluster.settle()
    assert messages(device) == [b"1", b"2"]
    device.leave()
    cluster.settle()
    door.broker.limits, door.broker.is_chosen = Limits(queue_messages=3), True
    door.sweeping.sweep(cluster.now, [door.shared.name])
    cluster.settle()
    assert door.broker.statistics["messages dropped"] == 3


@pytest.mark.parametrize(
    ("away", "connected", "sweeps", "ended"), [(2, 0, 2, 0), (3, 0, 2, 1), (2, 2, 2, 0), (5, 0, 1, 2), (5, 0, 2, 3)]
)
def test_the_sessions_that_are_away_longest_end_when_there_are_too_many(
    away: int, connected: int, sweeps: int, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TOGETHER", 2)
    cluster = Cluster(1)
    (door,) = cluster.doors
    lines: list[str] = []
    for number in range(away):
        cluster.connect(door, f"s{number}", will=("w", b"%d" % number, 1, False), will_raw=b"\x18\0\0\1\0").leave()
        cluster.settle()
        cluster.now += 1.0
        door.advance(cluster.now)
    watcher = cluster.subscriber(door, ("w", 1), client_id="watcher")
    for number in range(1, connected):
        cluster.connect(door, f"c{number}")
    door.broker.log = lambda level, line: lines.append(line)
    door.broker.limits, door.broker.is_chosen = Limits(sessions=2), True
    for _ in range(sweeps):
        door.sweeping.sweep(cluster.now, [door.shared.name])
    cluster.settle()
    found = sorted(owner[0] for owner in door.shared.replica.owners.values() if not owner[1])
    assert found == [f"s{number}" for number in range(ended, away)]
    assert door.broker.statistics["sessions ended for room"] == ended
    assert lines == ["the session of s0 ends: 2 clients are away"] * (ended > 0)
    assert sorted(messages(watcher)) == [b"%d" % number for number in range(ended)], "their wills are published"


def test_a_table_shows_so_many_sessions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    for number in range(3):
        cluster.connect(door, f"s{number}").leave()
        cluster.settle()
    door.broker.is_chosen = True
    monkeypatch.setattr(room, "SHOWN", 2)
    assert [one["client"] for one in door.broker.others(cluster.now)] == ["s0", "s1"]


def test_a_door_outside_of_the_cluster_gets_no_session_of_it() -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    kept, guest = cluster.connect(door), door.link(5)
    guest.send(mqtt.connect("guest", 5))
    assert [door.broker.taken(cluster.now, name, "x") for name in ("s", "guest", "unknown")] == [None] * 3
    assert (kept.is_closed(), guest.is_closed()) == (False, True)


def test_what_the_cluster_retains_is_not_given_again_by_an_endpoint() -> None:
    cluster = Cluster(1)
    (door,) = cluster.doors
    device = cluster.subscriber(door, ("#", 1))
    cluster.connect(door, "p").send(mqtt.publish("known", b"x", 1, 1, retain=True, version=5))
    cluster.settle()
    assert messages(device) == [b"x"]
    (subscription,) = door.broker.sessions["s"].subscriptions.values()
    for topic in ("known", "other"):
        again = Publish(topic, [b"again"], 0, True)
        door.broker.replay_from_network(cluster.now, subscription, again, cluster.now + 2e9)
    assert [(one.topic, one.retain) for one in device.messages()] == [("other", True)]


def test_between_two_tries_a_door_waits_for_a_whole_pause() -> None:
    cluster = Cluster()
    first, second = cluster.doors
    cluster.kill(second)
    cluster.connect(first)
    device = asks(second)
    refuse(cluster, second)
    for _ in range(38):
        second.advance(second.now + 0.049)  # so every second look is a try
    assert device.read() == []
    pauses(second, 2)
    assert answer(device)[0] == codes.SERVER_UNAVAILABLE
