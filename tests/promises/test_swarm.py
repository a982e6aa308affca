"""Whole stacks in virtual time: what is promised end to end, whatever the network and the hosts do.

First the swarm: seeds from each of which a small world and all its misfortunes are drawn (see
`tests/simulation/swarm.py`). A failing seed tells the one command that repeats it. Then single promises, each in
the smallest world that can break it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from glue import Message, Peer, WouldBlockError
from glue.simulation import Burst, Conditions, SimulatedEndpoint, SimulatedSubscription, World
from tests.simulation.swarm import Swarm

SEEDS = range(60)

BAD = Conditions(loss=0.2, duplicate=0.2, jitter=0.005, reorder=0.2)
BURSTS = Conditions(burst=Burst(enter=0.01, leave=0.1), delay=0.002)
TOO_SLOW = Conditions(rate=500_000, queue=0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_reliable_message_arrives_once_and_in_order_and_all_is_well_after_peace(
    seed: int, request: pytest.FixtureRequest
) -> None:
    swarm = Swarm(seed)
    try:
        swarm.run()
    except Exception as error:
        error.add_note(f"at virtual time {swarm.world.time}; repeat it with: pytest '{request.node.nodeid}'")
        raise


@pytest.mark.parametrize("seed", [5, 8])
def test_a_seed_always_tells_the_same_story(seed: int) -> None:
    assert Swarm(seed).run() == Swarm(seed).run()


# ------------------------------------------------------------------------------------------------- helpers


def meet(*endpoints: SimulatedEndpoint) -> None:
    """Let all of them get to know each other."""
    world = endpoints[0].world
    assert world.run_until(lambda: all(len(one.peers) == len(endpoints) - 1 for one in endpoints), 10)
    world.run(0.1)  # and what they want


def all_hear_all(endpoints: list[SimulatedEndpoint]) -> None:
    """Let each say fifty things on a topic of its own, which all must hear, in order and once."""
    world = endpoints[0].world
    subscriptions = [endpoint.subscribe("house/#") for endpoint in endpoints]
    meet(*endpoints)
    for number in range(50):
        for endpoint in endpoints:
            endpoint.publish(f"house/{endpoint.name}", number)
        world.run(0.01)
    assert world.run_until(lambda: all(len(s.received) == 50 * len(endpoints) for s in subscriptions), 30)
    for subscription in subscriptions:
        for endpoint in endpoints:
            heard = [message.payload for message in subscription.received if message.publisher == endpoint.name]
            assert heard == list(range(50))


def payloads(subscription: SimulatedSubscription) -> list[object]:
    return [message.payload for message in subscription.received]


def repeat(world: World, interval: float, until: float, action: Callable[[], object]) -> None:
    """Do something at regular intervals until that time."""
    action()
    if world.time + interval < until:
        world.after(interval, lambda: repeat(world, interval, until, action))


# ------------------------------------------------------------------------------------------------- traffic


@pytest.mark.parametrize("conditions", [Conditions(), BAD, BURSTS, TOO_SLOW], ids=["good", "bad", "bursts", "slow"])
def test_four_endpoints_hear_all_that_each_of_them_says(conditions: Conditions) -> None:
    world = World(seed=4)
    world.network.set_conditions(conditions)
    all_hear_all([world.endpoint(name) for name in ("attic", "cellar", "garden", "kitchen")])


def test_ten_megabytes_at_five_percent_loss_arrive_intact() -> None:
    world = World(seed=10)
    world.network.set_conditions(Conditions(loss=0.05))
    publisher, one, other = (world.endpoint(name) for name in ("publisher", "one", "other"))
    subscriptions = [endpoint.subscribe("big") for endpoint in (one, other)]
    meet(publisher, one, other)
    payload = world.random("payload").randbytes(10_000_000)
    publisher.publish("big", payload)
    assert world.run_until(lambda: all(s.received for s in subscriptions), 60)
    assert [payloads(s) for s in subscriptions] == [[payload], [payload]]
    assert world.run_until(lambda: publisher.backlog == 0, 5)


@pytest.mark.parametrize("misfortune", ["cut off one way", "paused", "clock jumps"])
def test_a_large_message_survives_a_minute_of_interruption_in_its_middle(misfortune: str) -> None:
    world = World(seed=60)
    world.network.set_conditions(Conditions(rate=1e6, queue=10))
    publisher, subscriber = world.endpoint("publisher"), world.endpoint("subscriber")
    subscription = subscriber.subscribe("#")
    meet(publisher, subscriber)
    publisher.publish("big", bytes(2_000_000))
    world.run(1)
    if misfortune == "cut off one way":
        world.network.block(publisher.host, subscriber.host)
    elif misfortune == "paused":
        publisher.pause()
    else:
        subscriber.host.adjust_clock(jump=60)
    world.run(60)
    publisher.resume()
    world.network.heal()
    publisher.publish("big", "after")
    assert world.run_until(lambda: len(subscription.received) == 2, 20)
    assert payloads(subscription) == [bytes(2_000_000), "after"]


def test_best_effort_is_never_doubled_and_arrives_where_nothing_is_lost() -> None:
    world = World(seed=2)
    publisher, near, far = (world.endpoint(name) for name in ("publisher", "near", "far"))
    world.network.set_conditions(Conditions(loss=0.3, duplicate=0.5, jitter=0.01), destination=far.host)
    heard = [endpoint.subscribe("sensor") for endpoint in (near, far)]
    meet(publisher, near, far)
    for number in range(300):
        publisher.publish("sensor", number, reliability="best-effort")
        world.run(0.001)
    world.run(1)
    assert payloads(heard[0]) == list(range(300))
    assert len(set(map(str, payloads(heard[1])))) == len(heard[1].received) < 300
    assert publisher.backlog == 0


def test_a_message_older_than_its_lifespan_is_not_delivered_whatever_the_clocks_say() -> None:
    world = World(seed=1)
    publisher, subscriber = world.endpoint("publisher"), world.endpoint("subscriber")
    subscription = subscriber.subscribe("t")
    subscriber.host.wall_offset = -1e9
    meet(publisher, subscriber)
    world.network.block(publisher.host, subscriber.host)
    publisher.publish("t", "stale", lifespan=1.0)
    publisher.publish("t", "lasting", lifespan=100.0)
    world.run(2)
    world.network.heal()
    world.run(2)
    publisher.publish("t", "fresh", lifespan=1.0)
    world.run(1)
    assert payloads(subscription) == ["lasting", "fresh"]


# ----------------------------------------------------------------------------------------- memory and speed


def test_a_slow_subscriber_gets_everything_while_nobody_holds_more_than_allowed() -> None:
    world = World(seed=1)
    publisher = world.endpoint("publisher", queue_limit=1 << 18)
    subscriber = world.endpoint("subscriber", receive_limit=1 << 18)
    heard: list[Message] = []
    subscriber.subscribe("t", heard.append, handling_time=0.005)
    meet(publisher, subscriber)
    published = refused = most = 0
    while world.time < 10:
        try:
            publisher.publish("t", bytes(10_000))
            published += 1
        except WouldBlockError:
            refused += 1
        most = max(most, publisher.backlog)
        world.run(0.001)
    assert refused > 1000
    assert most <= (1 << 18) + 2 * 10_000
    assert subscriber.statistics["endpoint"]["senders stopped"] > 0
    assert world.run_until(lambda: len(heard) == published, 60)
    assert [message.sequence for message in heard] == list(range(1, published + 1))
    assert world.run_until(lambda: publisher.backlog == 0, 5)


def test_idle_endpoints_send_announcements_and_nothing_else() -> None:
    world = World(seed=1)
    endpoints = [world.endpoint() for _ in range(3)]
    for endpoint in endpoints:
        endpoint.subscribe("#")
    meet(*endpoints)
    for endpoint in endpoints:
        endpoint.publish("t", bytes(100_000))
    world.run(5)
    before = world.network.totals()["sent"]
    world.run(100)
    announcements = (world.network.totals()["sent"] - before) / len(endpoints) ** 2
    assert 90 <= announcements <= 112


def test_undetected_bit_errors_are_survived() -> None:
    world = World(seed=6)
    endpoints = [world.endpoint(name) for name in ("one", "two", "three")]
    subscriptions = [endpoint.subscribe("#") for endpoint in endpoints]
    world.network.set_conditions(Conditions(corrupt=0.2, loss=0.05, duplicate=0.1, jitter=0.001))
    for endpoint in endpoints:
        repeat(world, 0.02, 5.0, partial(endpoint.publish, f"t/{endpoint.name}", bytes(150)))
    world.run(6)
    world.network.clear_conditions()
    world.run(20)
    for number in range(10):
        for endpoint in endpoints:
            endpoint.publish(f"after/{endpoint.name}", number)
        world.run(1)
    for subscription in subscriptions:
        last = {message.publisher: message.payload for message in subscription.received}
        assert last == {"one": 9, "two": 9, "three": 9}
    assert [endpoint.backlog for endpoint in endpoints] == [0, 0, 0]


# ------------------------------------------------------------------------------------------- coming and going


def test_a_late_joiner_is_told_the_last_retained_value_and_those_there_before_are_not() -> None:
    world = World(seed=1)
    world.network.set_conditions(BAD)
    publisher, early = world.endpoint("publisher"), world.endpoint("early")
    live = early.subscribe("state")
    meet(publisher, early)
    for value in ("first", "second"):
        publisher.publish("state", value, retain=True)
    world.run(2)
    late = world.endpoint("late").subscribe("#")
    assert world.run_until(lambda: late.received, 5)
    world.run(2)
    assert [(message.payload, message.retained) for message in live.received] == [("first", False), ("second", False)]
    assert [(message.payload, message.retained) for message in late.received] == [("second", True)]
    publisher.publish("state", b"", retain=True)
    world.run(2)
    assert payloads(late) == ["second", b""]
    later = world.endpoint("later").subscribe("#")
    world.run(5)
    assert payloads(later) == []


def test_an_endpoint_that_closes_delivers_what_it_published_and_says_goodbye() -> None:
    world = World(seed=9)
    world.network.set_conditions(Conditions(loss=0.2))
    leaving, staying = world.endpoint("leaving"), world.endpoint("staying")
    gone: list[Peer] = []
    staying.on_peer_removed = gone.append
    heard = staying.subscribe("t")
    meet(leaving, staying)
    leaving.publish_many("t", range(100))
    leaving.close()
    world.run(2)
    assert payloads(heard) == list(range(100))
    assert [(peer.name, peer.reason) for peer in gone] == [("leaving", "goodbye")]


def test_a_restart_is_seen_as_such_at_once_and_nothing_of_the_former_life_matters() -> None:
    world = World(seed=1)
    one, other = world.endpoint("one"), world.endpoint("other")
    added: list[Peer] = []
    removed: list[Peer] = []
    heard = other.subscribe("t")
    meet(one, other)
    other.on_peer_added, other.on_peer_removed = added.append, removed.append
    one.publish("t", "in the first life")
    world.run(0.1)
    former = one.incarnation
    one.restart()
    world.run(0.1)
    one.publish("t", "in the second life")
    world.run(0.1)
    assert [(peer.incarnation, peer.reason) for peer in removed] == [(former, "restarted")]
    assert [(peer.incarnation, peer.restarted) for peer in added] == [(one.incarnation, True)]
    assert [(m.payload, m.incarnation, m.sequence) for m in heard.received] == [
        ("in the first life", former, 1),
        ("in the second life", one.incarnation, 1),
    ]


@pytest.mark.parametrize("misfortune", ["partition", "interface down", "pause"])
def test_a_peer_that_expired_comes_back_as_it_was(misfortune: str) -> None:
    world = World(seed=1)
    one, other = world.endpoint("one"), world.endpoint("other")
    heard = other.subscribe("t")
    meet(one, other)
    lost: list[str] = []
    found: list[bool] = []
    one.on_peer_removed = lambda peer: lost.append(peer.reason)
    one.on_peer_added = lambda peer: found.append(peer.restarted)
    one.publish("t", "before")
    world.run(1)
    misfortunes: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "partition": (partial(world.network.partition, [one.host]), world.network.heal),
        "interface down": (other.host.take_down, other.host.bring_up),
        "pause": (other.pause, other.resume),
    }
    begin, end = misfortunes[misfortune]
    begin()
    world.run(10)
    assert lost == ["expired"]
    assert one.peers == []
    end()
    assert world.run_until(lambda: one.subscribers("t"), 2)
    one.publish("t", "after")
    world.run(1)
    assert found == [False]
    assert payloads(heard) == ["before", "after"]


def test_a_process_stopped_or_a_clock_that_jumps_loses_no_peer_of_its_own() -> None:
    world = World(seed=1)
    one, other = world.endpoint("one"), world.endpoint("other")
    meet(one, other)
    lost: list[str] = []
    one.on_peer_removed = lambda peer: lost.append(peer.name)
    one.host.adjust_clock(jump=3600, drift=0.01)
    one.host.wall_offset = -86_400
    world.run(20)
    one.pause()
    world.run(120)
    one.resume()
    world.run(20)
    assert lost == []
    assert [peer.name for peer in one.peers] == ["other"]


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_where_multicast_is_blocked_endpoints_that_know_one_address_hear_all_that_each_of_them_says(
    loss: float,
) -> None:
    world = World(seed=7)
    world.network.carries_multicast = False
    world.network.set_conditions(Conditions(loss=loss))
    introducer = world.endpoint("introducer")
    host, port = introducer.host.address
    endpoints = [introducer, *(world.endpoint(peers=[f"{host}:{port}"]) for _ in range(4))]
    all_hear_all(endpoints)


def test_two_endpoints_of_one_name_are_both_told() -> None:
    world = World(seed=1)
    told: set[tuple[int, str]] = set()

    def note(number: int, other: Peer) -> None:
        told.add((number, other.name))

    for number in range(2):
        twin = world.endpoint("twin")
        twin.on_name_clash = partial(note, number)
        world.run(1)
    assert told == {(0, "twin"), (1, "twin")}


@pytest.mark.parametrize("limits", [(1000, 1000), (1000, 1 << 20), (1 << 20, 1000)])
def test_a_small_message_limit_does_not_stop_a_stream_of_small_messages(limits: tuple[int, int]) -> None:
    world = World(3)
    publisher = world.endpoint("publisher", message_limit=limits[0])
    subscriber = world.endpoint("subscriber", message_limit=limits[1])
    subscription = subscriber.subscribe("t")
    meet(publisher, subscriber)
    for number in range(1000):  # more than fits into one bundle
        publisher.publish("t", b"%03d" % number + bytes(900))
    assert world.run_until(lambda: len(subscription.received) == 1000, 3)
    assert publisher.statistics["fragmentation"]["messages fragmented"] < 10


@pytest.mark.parametrize("character", ["\x01", '"', "é"])
def test_the_largest_message_passes_under_the_longest_of_topics_whatever_its_characters(character: str) -> None:
    world = World(seed=4)
    limit = 600_000  # more than a bundle, which would leave room
    publisher, subscriber = (world.endpoint(name, message_limit=limit) for name in ("publisher", "subscriber"))
    heard = subscriber.subscribe("#")
    assert world.run_until(lambda: publisher.subscribers("t"), 5)
    topic = character * (65_535 // len(character.encode()))
    publisher.publish(topic, bytes(limit), type="\x01" * 255, lifespan=1e9, retain=True)
    world.run(5)
    assert [(message.topic, len(message.payload)) for message in heard.received] == [(topic, limit)]
