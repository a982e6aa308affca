"""Wills in virtual time: published once when their owner is lost, by whichever holders are there.

python -m tests.simulation.test_wills 0 2000    # hunt through these seeds
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from typing import Any

import pytest

import glue
from glue.simulation import Conditions, SimulatedEndpoint, World

LEASE = 10.0
"""Seconds after which a loss is noticed by all, and every rank has had its turn."""


def endpoints(world: World, *names: str) -> list[SimulatedEndpoint]:
    """Endpoints that know each other."""
    made = [world.endpoint(name) for name in names]
    assert world.run_until(lambda: all(len(one.peers) == len(made) - 1 for one in made), 5)
    return made


def seen(messages: list[glue.Message]) -> list[tuple[Any, ...]]:
    return [(message.payload, message.publisher, message.retained) for message in messages]


def wills_published(*holders: SimulatedEndpoint) -> int:
    return sum(holder.statistics["topics"]["wills published"] for holder in holders)


def test_a_will_comes_once_to_each_subscriber_in_the_name_of_the_lost() -> None:
    world = World()
    boiler, a, b, c = endpoints(world, "boiler", "a", "b", "c")
    heard = [one.subscribe("home/#") for one in (a, b)]
    twice = a.subscribe("home/boiler/state")
    boiler.will("home/boiler/state", "offline")
    boiler.publish("home/boiler/state", "online")
    world.run(0.5)
    boiler.crash()
    world.run(LEASE)
    for subscription in (*heard, twice):
        assert seen(subscription.received) == [("online", "boiler", False), ("offline", "boiler", False)]
        message = subscription.received[1]
        assert (message.topic, message.sequence, message.publisher_id) == ("home/boiler/state", 0, boiler.id)
    assert wills_published(a, b, c) == 1
    world.run(LEASE)
    assert all(not one._core.wills.holder for one in (a, b, c))


def test_a_goodbye_or_a_withdrawal_or_a_return_in_time_publishes_nothing() -> None:
    world = World()
    first, second, third, a = endpoints(world, "first", "second", "third", "a")
    heard = a.subscribe("#")
    for owner in (first, second, third):
        will = owner.will(f"lost/{owner.name}", owner.name, delay=5)
        other = owner.will("lost/withdrawn", "never")
        other.withdraw()
        other.withdraw()
        assert repr(will) == f"<LastWill 'lost/{owner.name}'>"
    world.run(0.5)
    first.close()
    second.crash()
    third.restart()
    world.run(4.0)
    second.restart()
    world.run(LEASE * 2)
    assert heard.received == []


def test_a_second_will_on_a_topic_replaces_the_first_and_a_delay_is_waited_for() -> None:
    world = World()
    owner, a = endpoints(world, "owner", "a")
    came: list[tuple[Any, float]] = []
    a.subscribe("#", lambda message: came.append((message.payload, world.time)))
    owner.will("t", "first")
    owner.will("t", b"second", delay=20)
    owner.will("u", {"state": "gone"})
    world.run(0.5)
    owner.crash()
    world.run(60)
    assert [payload for payload, _ in came] == [{"state": "gone"}, b"second"]
    assert came[1][1] - came[0][1] == pytest.approx(20, abs=0.1)


def test_a_retained_will_is_there_for_late_joiners_until_its_owner_is_back() -> None:
    world = World()
    boiler, a, b = endpoints(world, "boiler", "a", "b")
    early = a.subscribe("state")
    boiler.publish("state", "online", retain=True)
    boiler.will("state", "offline", retain=True)
    world.run(0.5)
    boiler.crash()
    world.run(LEASE)
    own = b.subscribe("state")
    late = world.endpoint("late")
    heard = late.subscribe("state")
    also = a.subscribe("state")
    world.run(1)
    assert seen(early.received)[-1] == ("offline", "boiler", False)
    for subscription in (own, heard, also):
        assert seen(subscription.received) == [("offline", "boiler", True)]
    boiler.restart()
    boiler.publish("state", "back", retain=True)
    world.run(1)
    assert seen(heard.received)[-1] == ("back", "boiler", False)
    later = world.endpoint("later").subscribe("state")
    world.run(1)
    assert seen(later.received) == [("back", "boiler", True)]


def test_a_will_comes_again_when_its_owner_returns_and_is_lost_again() -> None:
    world = World()
    boiler, a, b = endpoints(world, "boiler", "a", "b")
    heard = [endpoint.subscribe("state") for endpoint in (a, b)]
    boiler.will("state", "offline", retain=True)
    world.run(1)
    for times in (1, 2):
        world.network.partition([boiler.host], [a.host, b.host])
        world.run(LEASE)
        for subscription in heard:
            assert seen(subscription.received) == [("offline", "boiler", False)] * times
        world.network.heal()
        world.run(5)


def test_a_holder_that_comes_later_holds_it_too() -> None:
    world = World()
    owner, a = endpoints(world, "owner", "a")
    owner.will("t", "gone")
    world.run(1)
    b = world.endpoint("b")
    heard = b.subscribe("t")
    world.run(1)
    a.close()
    world.run(1)
    owner.crash()
    world.run(LEASE)
    assert seen(heard.received) == [("gone", "owner", False)]


def test_forged_and_malformed_wills_are_counted() -> None:
    world = World()
    owner, a = endpoints(world, "owner", "a")
    heard = a.subscribe("#")
    owner.will("t", "gone")
    world.run(0.5)
    order = owner._order_request
    for payload in (b"x", b"[]", b'{"wills":[{}]}', b'{"wills":[{"number":1,"topic":"#","delay":0,"payload":""}]}'):
        order(owner._core.requests.publication(f"$glue/wills/{owner.id}", [payload]))
    world.run(0.5)
    assert a.statistics["endpoint"]["malformed wills"] == 4
    owner.crash()
    world.run(LEASE)
    assert seen(heard.received) == [("gone", "owner", False)]


@pytest.mark.parametrize("delay", [-1, True, "1", 10**7])
def test_wrong_wills_are_refused(delay: Any) -> None:
    endpoint = World().endpoint()
    with pytest.raises(glue.ConfigurationError, match="delay="):
        endpoint.will("t", 1, delay=delay)
    with pytest.raises(glue.TopicError):
        endpoint.will("t/#", 1)
    with pytest.raises(glue.MessageTooLargeError, match="bytes in all wills"):
        endpoint.will("t", bytes(2 << 20))
    for number in range(64):
        endpoint.will(str(number), number)
    with pytest.raises(glue.ConfigurationError, match="65 wills"):
        endpoint.will("t", 1)


class Swarm:
    """Owners with wills and subscribers, which crash, while datagrams are lost."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.chance = self.world.random("swarm of wills")
        self.all = [self.world.endpoint(f"endpoint{number}") for number in range(6)]
        self.came: dict[str, Counter[str]] = defaultdict(Counter)  # by subscriber and its life: wills
        self.lives: Counter[str] = Counter()
        for endpoint in self.all:
            self.live(endpoint)

    def live(self, endpoint: SimulatedEndpoint) -> None:
        """Subscribe, and make a will, in a new life."""
        self.lives[endpoint.name] += 1
        life = f"{endpoint.name} {self.lives[endpoint.name]}"
        counts = self.came[life]
        endpoint.subscribe("will", lambda message: counts.update([message.payload]))
        endpoint.will("will", life, retain=self.chance.random() < 0.5, delay=self.chance.choice((0, 0, 2)))

    def run(self) -> None:
        self.world.run(3)
        lost: list[str] = []
        for _ in range(self.chance.randint(1, 3)):
            endpoint = self.chance.choice([one for one in self.all if one.is_running])
            lost.append(f"{endpoint.name} {self.lives[endpoint.name]}")
            endpoint.crash()
            if self.chance.random() < 0.5:
                self.world.network.set_conditions(Conditions(loss=self.chance.choice((0.0, 0.1, 0.3))))
            self.world.run(self.chance.choice((0.0, 0.5, 15.0)))
        self.world.network.set_conditions(Conditions())
        self.world.run(30)
        for endpoint in self.all:
            if endpoint.is_running:
                came = self.came[f"{endpoint.name} 1"]
                assert max(came.values(), default=0) <= 1, "a will came twice"
                assert {life for life in lost if life not in came} == set(), "a will did not come"


def hunt(seeds: range) -> None:
    for seed in seeds:
        try:
            Swarm(seed).run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_each_will_comes_exactly_once_whoever_dies() -> None:
    hunt(range(8))


if __name__ == "__main__":
    hunt(range(int(sys.argv[1]), int(sys.argv[2])))
