"""The home of a consumer moves where three keepers have its topics, and there are never two that act."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import glue
from glue.consumers.wire import encode
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk
from tests.simulation.moving_swarm import BUGS, run
from tests.support.planting import seeds_to_find


class Place:
    """Keepers with disks, a publisher, and members."""

    def __init__(self, keepers: int = 3) -> None:
        self.world = World()
        self.disks = [SimulatedDisk(self.world.random(f"disk {number}")) for number in range(keepers)]
        self.keepers = [self.world.endpoint(f"keeper{number}") for number in range(keepers)]
        for number in range(keepers):
            self.keep(number)
        self.publisher, self.member = self.world.endpoint("publisher"), self.world.endpoint("member")
        self.world.run(2)

    def keep(self, number: int) -> None:
        """Keep, in this life."""
        self.keepers[number].keep("orders/#", directory=self.disks[number])

    def publish(self, *numbers: int) -> None:
        """Publish orders."""
        for number in numbers:
            self.publisher.publish("orders/a", number)

    def homes(self) -> list[SimulatedEndpoint]:
        """The keepers whose home acts for the consumer."""
        return [
            keeper for keeper in self.keepers if keeper.is_running
            for writer in (keeper._writers or {}).values()
            for id in writer.keeping.consumers.home.consumers
            if writer.keeping.consumers.home._acts(self.world.time, id)
        ]  # fmt: skip

    def ask(self, what: str, **more: Any) -> None:
        """Ask all keepers something about the consumer, as `move_consumer` and `forget_consumer` do."""
        head = {"ask": what, "name": "billing", "pattern": "orders/#", "id": 1, **more}
        for keeper in self.keepers:
            for writer in (keeper._writers or {}).values():
                runner = writer.keeping.consumers
                writer.call(partial(runner.take_all, self.publisher.id, 1, [encode(head)]))


def payloads(subscription: Any) -> list[Any]:
    return [message.payload for message in subscription.received]


@pytest.mark.parametrize("end", ["crash", "close", "partition"])
def test_a_consumer_goes_on_at_another_keeper(end: str) -> None:
    place = Place()
    consumer = place.member.subscribe("orders/#", consumer="billing")
    place.publish(1, 2, 3)
    assert place.world.run_until(lambda: len(consumer.received) == 3, 2)
    (home,) = place.homes()
    place.world.run(1)
    if end == "partition":
        place.world.network.partition([home.host])
    else:
        getattr(home, end)()
    place.publish(4, 5)
    assert place.world.run_until(lambda: len(consumer.received) == 5, 10)
    assert payloads(consumer) == [1, 2, 3, 4, 5]
    (other,) = place.homes()
    assert other is not home
    place.world.network.heal()
    if end != "partition":
        home.restart()
        place.keep(place.keepers.index(home))
    place.world.run(10)
    place.publish(6)
    place.world.run(3)
    assert payloads(consumer) == [1, 2, 3, 4, 5, 6]
    assert place.homes() == [other]


def test_what_a_cut_off_home_accepts_is_not_committed() -> None:
    place = Place()
    held: list[glue.Message] = []
    place.member.subscribe("orders/#", held.append, consumer="billing", by_hand=True)
    place.publish(1)
    assert place.world.run_until(lambda: len(held) == 1, 2)
    (home,) = place.homes()
    place.world.network.partition([home.host, place.member.host])  # both are on the smaller side
    place.world.run(0.5)
    held[0].acknowledge()
    place.world.run(3)
    assert home not in place.homes()
    other = place.world.endpoint("other")
    place.world.network.heal()
    place.world.network.partition([home.host, place.member.host])
    again = other.subscribe("orders/#", consumer="billing")
    assert place.world.run_until(lambda: len(again.received) == 1, 15)
    assert again.received[0].redelivered
    place.world.network.heal()
    place.world.run(20)
    place.publish(2)
    place.world.run(3)
    assert sorted([*payloads(again), *(message.payload for message in held)]) == [1, 1, 2]


def test_no_consumer_begins_without_a_majority_of_the_known_keepers() -> None:
    place = Place()
    place.publish(1)
    place.world.run(1)
    place.world.network.partition([place.keepers[0].host, place.member.host])
    consumer = place.member.subscribe("orders/#", consumer="billing")
    place.world.run(3)
    assert place.homes() == []
    place.world.network.heal()
    assert place.world.run_until(lambda: payloads(consumer) == [1], 20)
    assert len(place.homes()) == 1


def test_a_new_consumer_begins_where_it_says_at_later_homes_too() -> None:
    place = Place()
    place.publish(1, 2, 3)
    place.world.run(1)
    consumer = place.member.subscribe("orders/#", consumer="billing", start="latest")
    place.world.run(3)
    (home,) = place.homes()
    home.crash()
    place.publish(4)
    assert place.world.run_until(lambda: payloads(consumer) == [4], 15)
    place.world.run(10)
    assert payloads(consumer) == [4]


def test_all_keepers_may_restart() -> None:
    place = Place()
    consumer = place.member.subscribe("orders/#", consumer="billing")
    place.publish(1, 2)
    assert place.world.run_until(lambda: len(consumer.received) == 2, 3)
    place.world.run(1)
    for number, keeper in enumerate(place.keepers):
        keeper.crash()
        place.disks[number].crash()
    place.world.run(1)
    for number, keeper in enumerate(place.keepers):
        keeper.restart()
        place.keep(number)
    place.world.run(1)
    place.publish(3)
    assert place.world.run_until(lambda: len(consumer.received) == 3, 20)
    assert payloads(consumer) == [1, 2, 3]


def test_a_consumer_is_moved_and_forgotten_with_all_of_its_voters() -> None:
    place = Place()
    consumer = place.member.subscribe("orders/#", consumer="billing")
    place.publish(1, 2)
    assert place.world.run_until(lambda: len(consumer.received) == 2, 3)
    place.world.run(1)
    place.ask("seek", start=["earliest", 0])
    assert place.world.run_until(lambda: payloads(consumer) == [1, 2, 1, 2], 10)
    place.world.run(1)
    (home,) = place.homes()
    home.crash()
    place.world.run(15)
    assert len(place.homes()) == 1
    consumer.close()
    place.ask("forget")
    place.world.run(5)
    assert place.homes() == []


def test_a_home_whose_disk_fails_acts_no_more() -> None:
    place = Place()
    consumer = place.member.subscribe("orders/#", consumer="billing")
    place.publish(1)
    assert place.world.run_until(lambda: len(consumer.received) == 1, 3)
    place.world.run(1)
    (home,) = place.homes()
    place.disks[place.keepers.index(home)].fails_to_sync = True
    place.publish(2)
    assert place.world.run_until(lambda: place.homes() not in ([], [home]), 20)
    place.world.run(5)
    assert payloads(consumer)[-1] == 2


def test_forged_votes_are_counted() -> None:
    place = Place()
    consumer = place.member.subscribe("orders/#", consumer="billing")
    place.publish(1)
    assert place.world.run_until(lambda: len(consumer.received) == 1, 3)
    (home,) = place.homes()
    intruder = place.world.endpoint("intruder")
    place.world.run(2)
    voters = b",".join(b'"%b"' % keeper.id.encode() for keeper in place.keepers)
    for head in (
        b'{"ask":"stand","name":"billing","pattern":"orders/#","epoch":99,"copied":[99,0],"voters":[%b]}\n' % voters,
        b'{"ask":"copy","name":"billing","pattern":"orders/#","epoch":99,"at":1,"to":1,"from":0,"done":[]}\n',
    ):
        for keeper in place.keepers:
            publication = intruder._core.publication("x", head, 0.0)
            publication.topic = f"$glue/consumer/ask/{keeper.id}"
            intruder._core.outbox.add(publication)
    intruder._wake()
    place.world.run(2)
    assert place.homes() == [home]
    counted = [
        keeper.statistics["endpoint"]["votes for homes of consumers that are no keeper's"] for keeper in place.keepers
    ]
    assert counted == [2, 2, 2]


@pytest.mark.parametrize("seed", range(1))
def test_seeds(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: Any) -> None:
    assert seeds_to_find(run, range(BUGS[bug], BUGS[bug] + 1), bug), bug.__doc__
