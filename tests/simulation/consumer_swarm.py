"""A swarm for durable consumers: members and homes that die, are cut off, pause and fail, and bugs that it must find.

python -m tests.simulation.consumer_swarm 0 1000      # hunt through these seeds
python -m tests.simulation.consumer_swarm bugs 200    # tell how many seeds each planted bug takes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import glue
from glue.consumers.consumer import Consumer
from glue.consumers.home import Home
from glue.consumers.membership import Membership
from glue.consumers.position import Position
from glue.consumers.positions import NAME, Positions
from glue.contract.ranges import RangeSet
from glue.endpoint.consumer_room import ConsumerRoom
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk
from tests.simulation.keeping_machine import Machine
from tests.support.planting import command, sum_of_seeds

Patch = pytest.MonkeyPatch
Key = tuple[str, int, str, int]
"""A message: publisher, life, topic and number."""


def homes_of(machine: Machine) -> Iterator[Home]:
    """The home of a machine."""
    for keeping in machine.keeping():
        if keeping.consumers is not None:
            yield keeping.consumers.home


class Swarm:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        self.chance = chance = world.random("swarm of consumers")
        self.machines = self.machines_of()
        self.publisher = world.endpoint("publisher")
        self.members = [world.endpoint(f"member{number}") for number in range(chance.randint(1, 4))]
        self.handled: Counter[Key] = Counter()
        self.fresh: set[Key] = set()  # came without a mark
        self.published = 0
        self.ordered = chance.random() < 0.3
        self.by_hand = chance.random() < 0.5
        self.fails = chance.choice((0.0, 0.1)) if self.by_hand else 0.0
        world.run(1.0)
        self.join(self.members[0])
        world.run(1.0)
        for member in self.members[1:]:
            self.join(member)

    def machines_of(self) -> list[Machine]:
        """One keeper or two."""
        return [Machine(self.world, number, "log/#") for number in range(self.chance.choice((1, 1, 2)))]

    def join(self, member: SimulatedEndpoint) -> None:
        """Subscribe with a handler that fails now and then."""

        def handle(message: glue.Message) -> None:
            key = message.publisher_id, message.incarnation, message.topic, message.sequence
            if not message.redelivered:
                assert key not in self.fresh, f"{key} came twice without a mark"
                self.fresh.add(key)
            if self.chance.random() < self.fails:
                message.refuse()
                return
            self.handled[key] += 1
            if self.by_hand:
                message.acknowledge()

        member.subscribe(
            "log/#", handle, consumer="billing", ordered=self.ordered, by_hand=self.by_hand,
            handling_time=self.chance.choice((0.0, 0.002, 0.05)),
        )  # fmt: skip

    def step(self) -> None:
        """Publish, or disturb."""
        chance, world, what = self.chance, self.world, self.chance.random()
        machine, member = chance.choice(self.machines), chance.choice(self.members)
        if what < 0.5:
            for _ in range(chance.choice((1, 5, 40))):
                self.published += 1
                self.publisher.publish(chance.choice(("log/a", "log/b")), self.published)
        elif what < 0.6:
            world.network.set_conditions(Conditions(loss=chance.choice((0.0, 0.2)), jitter=chance.choice((0.0, 0.01))))
        elif what < 0.7:
            if member.is_running:
                chance.choice((member.crash, member.close))()
            else:
                member.restart()
                self.join(member)
        elif what < 0.8:
            one = chance.choice([member, machine.endpoint])
            one.pause()
            world.after(chance.uniform(0.02, 4.0), one.resume)
        elif what < 0.9:
            world.network.partition([chance.choice([member, machine.endpoint]).host])
            world.after(chance.uniform(0.1, 4.0), world.network.heal)
        elif machine.endpoint.is_running:
            machine.crash()
        else:
            machine.restart()

    def run(self) -> None:
        """Disturb, calm down, and compare with the log of the home."""
        for _ in range(40):
            self.world.run(self.chance.choice((0.001, 0.05, 0.5)))
            self.step()
            self.look()
        self.world.network.set_conditions(Conditions())
        self.world.network.heal()
        self.fails = 0.0
        for machine in self.machines:
            if not machine.endpoint.is_running:
                machine.restart()
        for member in self.members:
            if not member.is_running:
                member.restart()
                self.join(member)
        self.world.run(10.0)
        self.world.run_until(lambda: not any(one.is_behind for one in self.consumers()), 120.0)
        self.look()
        (consumer,) = self.consumers()
        offset, log = 0, consumer._log
        while offset < log.durable:
            records, offset = log.read(lambda topic: True, offset)
            for _, record in records:
                for number in range(record.sequence, record.stop):
                    key = record.origin, record.life, record.topic, number
                    assert self.handled[key], f"{key} was never handled"
        assert not consumer.is_behind

    def consumers(self) -> list[Consumer]:
        """The consumer at its home; one at most."""
        return [one for machine in self.machines for home in homes_of(machine) for one in home.consumers.values()]

    def look(self) -> None:
        """No two members have the same message."""
        for consumer in self.consumers():
            held = RangeSet()
            for member in consumer.members.values():
                for share in member.shares.values():
                    first = share.content.offset + share.next - 1
                    stop = share.content.offset + share.content.count
                    assert held.add(first, stop) == [(first, stop)], "two members can commit the same message"
                    assert not any(map(consumer.position.is_done, range(first, stop))), "a member has what is done"


def watch_commits(patch: Patch) -> None:
    """Fail if a message is committed again after its commit was durable."""
    durable: dict[int, RangeSet] = {}
    waiting: dict[int, list[tuple[int, int]]] = {}
    good_done, good_sync = Positions.done, Positions.sync

    def done(self: Positions, id: str, first: int, stop: int) -> int:
        mine = id_of(self)
        overlap = [*durable.setdefault(mine, RangeSet()).gaps(first, stop)]
        assert overlap == [(first, stop)], f"{first} to {stop} is committed twice"
        waiting.setdefault(mine, []).append((first, stop))
        return good_done(self, id, first, stop)

    def sync(self: Positions) -> None:
        good_sync(self)
        mine = id_of(self)
        for first, stop in waiting.pop(mine, []):
            durable.setdefault(mine, RangeSet()).add(first, stop)

    def id_of(positions: Positions) -> int:
        if not hasattr(positions._journal._directory, "mark"):
            positions._journal._directory.mark = next(marks)  # type: ignore[attr-defined]
            return positions._journal._directory.mark  # type: ignore[attr-defined,no-any-return]
        return positions._journal._directory.mark  # type: ignore[no-any-return]

    marks = iter(range(1 << 60))
    opened = Positions.__init__

    def open_again(self: Positions, directory: Any, log_id: str) -> None:
        opened(self, directory, log_id)
        waiting.pop(id_of(self), None)  # of the life before, which was not synced

    patch.setattr(Positions, "__init__", open_again)
    patch.setattr(Positions, "done", done)
    patch.setattr(Positions, "sync", sync)


def counted(seed: int) -> int:
    """Run a seed; returns how many messages were handled."""
    swarm = Swarm(seed)
    swarm.run()
    return sum(swarm.handled.values())


def hunt(first: int, last: int) -> int:
    """Run these seeds; returns how many messages were handled."""
    with Patch.context() as patch:
        watch_commits(patch)
        return sum_of_seeds(counted, range(first, last))


# ------------------------------------------------------------------------------------------- planted bugs


def removed_members_commit(patch: Patch) -> None:
    """A member that was removed may still acknowledge what others have now."""

    def leave(self: Consumer, member: str) -> None:
        self._dispatcher.leave(member)
        self._dispatcher.join(member)

    patch.setattr(Consumer, "leave", leave)


def position_moves_as_messages_are_sent(patch: Patch) -> None:
    """What was sent counts as done."""
    good = Consumer.assign

    def wrong(self: Consumer, now: float) -> Any:
        for member, number, content in good(self, now):
            self.position.done(content.offset, content.offset + content.count)
            yield member, number, content

    patch.setattr(Consumer, "assign", wrong)


def positions_are_not_synced(patch: Patch) -> None:
    """The journal is written, and not synced."""

    good = SimulatedDisk.sync
    patch.setattr(SimulatedDisk, "sync", lambda self, name: None if name == NAME else good(self, name))


def position_jumps_over_gaps(patch: Patch) -> None:
    """The position is after the latest message that is done."""
    good = Position.done

    def wrong(self: Position, first: int, stop: int) -> int:
        fresh = good(self, first, stop)
        self.skip_to(stop)
        return fresh

    patch.setattr(Position, "done", wrong)


def leaving_members_take_their_messages_along(patch: Patch) -> None:
    """What a removed member had is given to no one."""

    def wrong(self: Consumer, member: str) -> None:
        if self.members.pop(member, None) is not None:
            self._dispatcher.members.pop(member, None)

    patch.setattr(Consumer, "leave", wrong)


def acknowledged_on_arrival(patch: Patch) -> None:
    """A member acknowledges what arrives, before it is handled."""
    good = ConsumerRoom.push

    def wrong(self: ConsumerRoom, taken: Any, deliveries: Any) -> None:
        good(self, taken, deliveries)
        for place in range(1, len(taken.group.payloads) + 1):
            self.finished(taken, place, True)

    patch.setattr(ConsumerRoom, "push", wrong)


def failures_count_as_done(patch: Patch) -> None:
    """A message whose handler failed is not given again."""
    patch.setattr(Consumer, "failed", Consumer.done)


def nothing_is_marked_after_a_restart(patch: Patch) -> None:
    """What was given away in an earlier life of the keeper comes without a mark."""
    patch.setattr(Positions, "reach", lambda self, id, offset: setattr(self.stored[id], "reach", offset))


def lost_shares_are_not_noticed(patch: Patch) -> None:
    """A member that was sent something it never got keeps it."""
    good = Consumer.here

    def wrong(self: Consumer, member: str, got: int) -> bool:
        known = self.members.get(member)
        return good(self, member, known.total if known is not None else got)

    patch.setattr(Consumer, "here", wrong)


def silent_homes_are_believed_in(patch: Patch) -> None:
    """A member waits for ever for a home that lost it."""
    good = Membership._leave_home

    def wrong(self: Membership, now: float) -> None:
        if not self.is_joined:
            good(self, now)

    patch.setattr(Membership, "_leave_home", wrong)


BUGS: dict[Callable[[Patch], None], int] = {
    removed_members_commit: 0, position_moves_as_messages_are_sent: 0, positions_are_not_synced: 1,
    position_jumps_over_gaps: 0, leaving_members_take_their_messages_along: 3, acknowledged_on_arrival: 4,
    failures_count_as_done: 4, nothing_is_marked_after_a_restart: 2, silent_homes_are_believed_in: 2,
}  # fmt: skip
"""The bugs, each with a seed that finds it."""


def run(seed: int) -> None:
    """Run one seed of the swarm."""
    hunt(seed, seed + 1)


if __name__ == "__main__":
    command(hunt, run, BUGS)
