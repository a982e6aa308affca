"""Shared subscriptions in virtual time: a swarm of members that come, crash, stop and go, while datagrams are lost.

python -m tests.simulation.test_shared 0 10000    # hunt through these seeds
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from itertools import chain
from typing import Any

import pytest

import glue
from glue.contract import Acknowledge
from glue.endpoint.shared import Acknowledger
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.topics.shared.dispatcher import Dispatcher
from glue.topics.shared.wire import topic_of

SECOND = 1.0
QUIET = 900 * SECOND


def endpoints(world: World, *names: str) -> list[SimulatedEndpoint]:
    """Endpoints that know each other."""
    made = [world.endpoint(name) for name in names]
    assert world.run_until(lambda: all(len(one.peers) == len(made) - 1 for one in made), 5 * SECOND)
    return made


def payloads(messages: list[glue.Message]) -> list[Any]:
    return [message.payload for message in messages]


def test_each_message_goes_to_one_member_and_plain_subscribers_get_all() -> None:
    world = World()
    a, b, c = endpoints(world, "a", "b", "c")
    members = [one.subscribe("jobs/#", group="workers") for one in (a, b, c)]
    other = b.subscribe("jobs/#", group="others")
    plain = c.subscribe("jobs/#")
    world.run(0.1)
    for number in range(100):
        a.publish(f"jobs/{number % 2}", number)
        world.run(0.001)
    world.run(SECOND)
    shares = [payloads(member.received) for member in members]
    assert sorted([*chain(*shares)]) == payloads(other.received) == payloads(plain.received) == list(range(100))
    assert all(len(share) > 20 for share in shares)
    assert {message.topic for message in members[1].received} == {"jobs/0", "jobs/1"}
    assert not any(message.redelivered for member in members for message in member.received)
    assert a.statistics["topics"]["messages to nobody"] == 0
    assert a.backlog == 0


def test_a_slow_member_gets_less() -> None:
    world = World()
    a, b, c = endpoints(world, "a", "b", "c")
    done: Counter[str] = Counter()
    b.subscribe("jobs", lambda _: done.update("b"), group="workers", handling_time=0.3)
    c.subscribe("jobs", lambda _: done.update("c"), group="workers", handling_time=0.01)
    world.run(0.1)
    for number in range(300):
        a.publish("jobs", number)
    assert world.run_until(lambda: done.total() == 300, 20 * SECOND)
    assert world.time < 5 * SECOND
    assert done["b"] < 20
    assert a._core.is_done or world.run_until(lambda: a._core.is_done, SECOND)


def test_what_a_dead_member_had_goes_to_others_and_is_marked() -> None:
    world = World()
    a, b, c = endpoints(world, "a", "b", "c")
    b.subscribe("jobs", lambda _: None, group="workers", handling_time=100.0)
    world.run(0.1)
    for number in range(3):
        a.publish("jobs", number)
    world.run(0.1)
    rescue = c.subscribe("jobs", group="workers")
    world.run(0.1)
    a.publish("jobs", 3)
    world.run(0.1)
    assert payloads(rescue.received) == [3]
    b.crash()
    world.run(10 * SECOND)
    assert [(message.payload, message.redelivered) for message in rescue.received] == [
        (3, False), (0, True), (1, True), (2, True),
    ]  # fmt: skip


def test_a_member_that_closes_leaves_its_work_to_others_at_once() -> None:
    world = World()
    a, b, c = endpoints(world, "a", "b", "c")
    done: list[Any] = []
    leaving = b.subscribe("jobs", done.append, group="workers", handling_time=0.5)
    world.run(0.1)
    for number in range(4):
        a.publish("jobs", number)
    world.run(0.7)
    rescue = c.subscribe("jobs", group="workers")
    world.run(0.1)
    leaving.close()
    world.run(0.3)
    assert len(done) == 1
    assert payloads(rescue.received) == [1, 2, 3]


def test_a_newcomer_gets_its_share_of_what_waits() -> None:
    world = World()
    a, b, c = endpoints(world, "a", "b", "c")
    done: Counter[str] = Counter()
    b.subscribe("jobs", lambda _: done.update("b"), group="workers", handling_time=0.02)
    world.run(0.1)
    for number in range(500):
        a.publish("jobs", number)
    world.run(2 * SECOND)
    c.subscribe("jobs", lambda _: done.update("c"), group="workers", handling_time=0.02)
    world.run(SECOND)
    assert done["c"] > 35
    assert world.run_until(lambda: done.total() == 500, 20 * SECOND)


def test_messages_of_a_key_stay_in_order_at_one_member() -> None:
    world = World()
    a, b, c, d = endpoints(world, "a", "b", "c", "d")
    seen: dict[str, list[tuple[str, int]]] = defaultdict(list)

    def work(one: SimulatedEndpoint) -> None:
        def handle(message: glue.Message) -> None:
            key, number = message.payload
            seen[key].append((one.name, number))

        one.subscribe("jobs", handle, group="workers", handling_time=0.001)

    work(b)
    work(c)
    world.run(0.1)
    for number in range(100):
        for key in "xyz":
            a.publish("jobs", [key, number], key=key)
        if number == 50:
            work(d)
        world.run(0.005)
    world.run(SECOND)
    for key in "xyz":
        assert [number for _, number in seen[key]] == list(range(100))
        assert len({name for name, _ in seen[key]}) == 1


def test_jobs_wait_for_a_member_to_come_back_but_not_for_ever() -> None:
    world = World()
    a, b = endpoints(world, "a", "b")
    lost: list[tuple[str, int]] = []
    a.on_lost = lambda cause, count: lost.append((cause, count))
    b.subscribe("jobs", group="workers")
    world.run(0.1)
    b.crash()
    world.run(10 * SECOND)
    a.publish("jobs", 1)
    world.run(5 * SECOND)
    b.restart()
    again = b.subscribe("jobs", group="workers")
    world.run(SECOND)
    assert payloads(again.received) == [1]
    again.close()
    world.run(SECOND)
    a.publish("jobs", 2)
    world.run(40 * SECOND)
    assert lost == [("no member of the group", 1)]
    assert a.backlog == 0


def test_wrong_groups_and_options_are_refused() -> None:
    endpoint = World().endpoint()
    for group in ("", "a/b", "+", "#", 7, "x" * 201):
        with pytest.raises(glue.ConfigurationError, match="group="):
            endpoint.subscribe("jobs", group=group)  # type: ignore[arg-type]
    with pytest.raises(glue.ConfigurationError, match="no max_rate, local"):
        endpoint.subscribe("jobs", group="g", max_rate=1)
    with pytest.raises(glue.ConfigurationError, match='the policy "block"'):
        endpoint.subscribe("jobs", group="g", policy="drop_oldest")
    with pytest.raises(glue.ConfigurationError, match="key=7"):
        endpoint.publish("jobs", 1, key=7)  # type: ignore[call-overload]


class Swarm:
    """Publishers and members; every message has to be handled, and twice only if it is marked."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.chance = self.world.random("swarm of members")
        self.publishers = [self.world.endpoint(f"publisher{number}") for number in range(2)]
        self.members = [self.world.endpoint(f"member{number}") for number in range(4)]
        self.published: set[int] = set()
        self.handled: Counter[int] = Counter()
        self.first: Counter[int] = Counter()  # deliveries that were not marked
        self.by_key: dict[tuple[str, str, int], list[int]] = defaultdict(list)  # by key, member and its life
        self.lives: Counter[str] = Counter()
        self.subscriptions: dict[str, Any] = {}
        for member in self.members:
            self.work(member)

    def work(self, member: SimulatedEndpoint) -> None:
        """Subscribe in a new life."""
        self.lives[member.name] += 1
        life = self.lives[member.name]

        def handle(message: glue.Message) -> None:
            number = message.payload
            self.handled[number] += 1
            if not message.redelivered:
                self.first[number] += 1
                self.by_key[message.topic, member.name, life].append(number)

        duration = self.chance.choice((0.0, 0.001, 0.03, 0.5))
        self.subscriptions[member.name] = member.subscribe("jobs/+", handle, group="workers", handling_time=duration)

    def publish(self) -> None:
        """Publish some messages; those of a topic have one key, or none."""
        publisher = self.chance.randrange(2)
        topic = f"jobs/{publisher}{self.chance.randrange(3)}"
        key = topic if topic.endswith("0") else None
        for _ in range(self.chance.choice((1, 1, 5, 40))):
            number = len(self.published)
            try:
                self.publishers[publisher].publish(topic, number, key=key)
            except glue.WouldBlockError:
                return
            self.published.add(number)

    def disturb(self) -> None:
        """Make the network worse or better, or let a member leave, die, stop or come back."""
        chance = self.chance
        if chance.random() < 0.4:
            self.world.network.set_conditions(
                Conditions(
                    loss=chance.choice((0.0, 0.1, 0.4)),
                    duplicate=chance.choice((0.0, 0.1)),
                    delay=chance.choice((0.0005, 0.05)),
                    jitter=chance.choice((0.0, 0.02)),
                )
            )
            return
        member = chance.choice(self.members)
        if not member.is_running:
            self.revive(member)
            return
        way = chance.choice(("crash", "close", "unsubscribe", "pause", "restart"))
        if way == "crash":
            member.crash()
        elif way == "close":
            member.close(timeout=0.1)
        elif way == "unsubscribe":
            self.subscriptions[member.name].close()
            self.work(member)
        elif way == "pause":
            member.pause()
            self.world.after(chance.choice((0.2, 8.0)), member.resume)
        else:
            self.revive(member)

    def revive(self, member: SimulatedEndpoint) -> None:
        member.resume()
        member.restart()
        self.work(member)

    def run(self) -> None:
        assert self.world.run_until(
            lambda: all(len(publisher.subscribers("jobs/0")) == 4 for publisher in self.publishers), 5 * SECOND
        )
        for _ in range(40):
            self.world.run(self.chance.uniform(0, 0.3))
            if self.chance.random() < 0.35:
                self.disturb()
            for _ in range(self.chance.randint(0, 3)):
                self.publish()
        self.world.network.set_conditions(Conditions())
        for member in self.members:
            if not member.is_running:
                self.revive(member)
        self.world.run(0.1)
        self.world.run_until(lambda: self.is_done(), QUIET)
        assert self.published == set(self.handled), "messages were lost"
        assert max(self.first.values(), default=0) <= 1, "a message came twice without a mark"
        assert self.is_done(), "the publisher waits for acknowledgements that do not come"
        for (topic, *_), numbers in self.by_key.items():
            if topic.endswith("0"):
                assert numbers == sorted(numbers), "messages of a key came out of order"

    def is_done(self) -> bool:
        return all(not publisher._core.stack.layers["topics"].unfinished for publisher in self.publishers)


def hunt(seed: int) -> Swarm:
    swarm = Swarm(seed)
    try:
        swarm.run()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return swarm


def hunt_through(seeds: range) -> int:
    """Hunt; returns how many messages were handled again."""
    return sum(sum(swarm.handled.values()) - sum(swarm.first.values()) for swarm in map(hunt, seeds))


def test_no_message_is_lost_whatever_members_do() -> None:
    assert hunt_through(range(6)) > 20


@pytest.mark.slow
def test_no_message_is_lost_in_many_swarms() -> None:
    assert hunt_through(range(6, 40)) > 100


def forget_the_dead(self: Dispatcher, member: str) -> None:
    self.members.pop(member, None)


def acknowledge_unread(self: Acknowledger, message: glue.Message) -> None:
    delivery = message.delivery
    last = delivery.sequence + len(delivery.payloads) - 1
    self._order(Acknowledge(delivery.wrapped, delivery.publisher_id, delivery.sequence, last))


def forget_the_mark(group: str, member: str, is_again: bool, topic: str) -> str:
    return topic_of(group, member, False, topic)


def choose_any_member(self: Dispatcher, key: str) -> str:
    self._order += 1
    return sorted(self.members)[self._order % len(self.members)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "bug"),
    [
        ("glue.topics.shared.dispatcher.Dispatcher.leave", forget_the_dead),
        ("glue.endpoint.shared.Acknowledger.done", acknowledge_unread),
        ("glue.topics.shared.sharing.topic_of", forget_the_mark),
        ("glue.topics.shared.dispatcher.Dispatcher._owner", choose_any_member),
    ],
)
def test_the_swarm_finds_planted_bugs(monkeypatch: pytest.MonkeyPatch, place: str, bug: Any) -> None:
    monkeypatch.setattr(place, bug)
    with pytest.raises(AssertionError):
        hunt_through(range(20))


if __name__ == "__main__":
    hunt_through(range(int(sys.argv[1]), int(sys.argv[2])))
