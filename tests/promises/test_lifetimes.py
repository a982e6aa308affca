"""What is promised of restarts, clocks, stops, links and names, in intervals of announcement, exactly as promised.

Whole stacks in virtual time; `docs/reliability.md` says which promise is proved where. The same with real processes
and interfaces stands in `tests/namespaces`, as bounds.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from glue import Peer
from glue.simulation import Conditions, SimulatedEndpoint, SimulatedSubscription, World

INTERVAL, LEASE = 1.0, 5.0  # seconds: the defaults
HOUR = 3600.0


class Pair:
    """Two endpoints that know each other; each publishes ten times a second what it counts, and hears the other."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.one, self.other = self.world.endpoint("one"), self.world.endpoint("other")
        self.news: list[str] = []
        self.one.on_peer_removed = lambda peer: self.news.append(peer.reason)
        self.one.on_peer_added = lambda peer: self.news.append("restarted" if peer.restarted else "added")
        self.heard_by_one = self.one.subscribe("from/other")
        self.heard_by_other = self.other.subscribe("from/one")
        self.numbers: Iterator[int] = iter(range(1_000_000))
        assert self.world.run_until(lambda: self.one.subscribers("from/one") and self.other.peers, 2)
        self.news.clear()
        self.talk()

    def talk(self) -> None:
        for endpoint in (self.one, self.other):
            if endpoint.is_running and not endpoint.host.is_paused:
                endpoint.publish(f"from/{endpoint.name}", next(self.numbers))
        self.world.after(0.1, self.talk)

    def traffic_resumes_within(self, seconds: float) -> bool:
        """Whether each hears what the other publishes from now on, in time."""
        begin = next(self.numbers)
        return self.world.run_until(
            lambda: hears_since(self.heard_by_one, begin) and hears_since(self.heard_by_other, begin), seconds
        )


def hears_since(subscription: SimulatedSubscription, begin: int) -> bool:
    return bool(subscription.received) and int(subscription.received[-1].payload) > begin


def in_order_and_once(subscription: SimulatedSubscription) -> bool:
    numbers = [message.payload for message in subscription.received]
    return numbers == sorted(set(numbers))


@pytest.mark.parametrize("seconds", [0.1, 1.0, 4.0, 6.0, 60.0])
def test_a_stopped_endpoint_expires_on_time_and_is_back_within_two_intervals(seconds: float) -> None:
    pair = Pair()
    stopped_at = pair.world.time
    pair.other.pause()
    if seconds > LEASE:
        assert pair.world.run_until(lambda: pair.news == ["expired"], seconds)
        assert LEASE - INTERVAL * 1.1 < pair.world.time - stopped_at <= LEASE
    pair.world.run(stopped_at + seconds - pair.world.time)
    pair.other.resume()
    assert pair.traffic_resumes_within(2 * INTERVAL)
    assert pair.news == (["expired", "added"] if seconds > LEASE else [])
    assert in_order_and_once(pair.heard_by_one)
    assert in_order_and_once(pair.heard_by_other)


@pytest.mark.parametrize("seconds", [1.0, 4.0, 10.0, 60.0])
@pytest.mark.parametrize("which", ["interface", "cut one way", "cut the other way"])
def test_after_a_link_was_down_traffic_resumes_within_three_intervals_in_the_same_life(
    seconds: float, which: str
) -> None:
    pair = Pair()
    lives = pair.one.incarnation, pair.other.incarnation
    if which == "interface":
        pair.other.host.take_down()
    else:
        ends = (pair.one.host, pair.other.host) if which == "cut one way" else (pair.other.host, pair.one.host)
        pair.world.network.block(*ends)
    pair.world.run(seconds)
    pair.other.host.bring_up()
    pair.world.network.heal()
    assert pair.traffic_resumes_within(3 * INTERVAL)
    assert (pair.one.incarnation, pair.other.incarnation) == lives
    assert "restarted" not in pair.news
    assert in_order_and_once(pair.heard_by_one)
    assert in_order_and_once(pair.heard_by_other)


@pytest.mark.parametrize("offset", [-HOUR, -1e-3, 0.0, HOUR, -10 * 365 * 24 * HOUR])
def test_a_restart_is_a_new_life_at_once_wherever_the_wall_clock_was_set_meanwhile(offset: float) -> None:
    pair = Pair()
    former = pair.other.incarnation
    pair.other.crash()
    pair.other.host.wall_offset = offset
    pair.other.restart()
    pair.world.run(0.01)
    assert pair.news == ["restarted", "restarted"]
    assert [peer.incarnation for peer in pair.one.peers] == [pair.other.incarnation]
    assert pair.other.incarnation != former
    pair.heard_by_other = pair.other.subscribe("from/one")
    pair.heard_by_one.received.clear()
    assert pair.traffic_resumes_within(INTERVAL)
    assert pair.heard_by_one.received[0].sequence == 1
    assert in_order_and_once(pair.heard_by_one)


@pytest.mark.parametrize("offset", [HOUR, -HOUR])
def test_a_wall_clock_that_jumps_has_no_effect(offset: float) -> None:
    pair = Pair()
    pair.one.host.wall_offset = offset
    pair.world.run(2 * LEASE)
    pair.one.host.wall_offset = 0.0
    pair.world.run(2 * LEASE)
    assert pair.news == []
    assert [message.payload for message in pair.heard_by_other.received][-1] > 380
    assert in_order_and_once(pair.heard_by_other)


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_a_duplicate_id_is_reported_at_both_within_three_intervals_and_no_data_is_mixed(loss: float) -> None:
    world = World(seed=3)
    world.network.set_conditions(Conditions(loss=loss))
    told: set[int] = set()
    witness = world.endpoint("witness")
    heard = witness.subscribe("t")
    world.run(1)
    twins: list[SimulatedEndpoint] = []

    def report(number: int, _: Peer) -> None:
        told.add(number)

    for number in range(2):
        twins.append(world.endpoint("twin"))
        twins[-1].on_name_clash = lambda peer, number=number: report(number, peer)
        world.run(0.5)
    assert world.run_until(lambda: told == {0, 1}, 3 * INTERVAL)
    before = len(heard.received)
    for turn in range(100):
        for number, twin in enumerate(twins):
            twin.publish("t", [number, turn])
        world.run(0.1)
    world.run(5)
    late = [tuple(message.payload) for message in heard.received[before:]]
    assert {number for number, _ in late} == {1}  # the later life; the first is refused as long as that is there
    assert late == [(1, turn) for turn in range(late[0][1], 100)]
