"""A swarm for consumers whose home moves: three keepers or more that die, are cut off and pause.

python -m tests.simulation.moving_swarm 0 1000      # hunt through these seeds
python -m tests.simulation.moving_swarm bugs 200    # tell how many seeds each planted bug takes

There are never two homes that act. What a majority has on disk is never committed again, and what the keepers have is
handled in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glue.consumers import voting
from glue.consumers.consumer import Consumer
from glue.consumers.moving import NAME, MovingHome
from glue.consumers.voting import HOME, Ballot, Peer
from glue.contract.ranges import RangeSet
from glue.simulation import Conditions
from glue.simulation.disk import SimulatedDisk
from glue.storage import Stream
from tests.simulation.consumer_swarm import Swarm, homes_of
from tests.simulation.keeping_machine import Machine
from tests.support.planting import command, sum_of_seeds

Patch = pytest.MonkeyPatch


class MovingSwarm(Swarm):
    """One seed."""

    def machines_of(self) -> list[Machine]:
        """Three keepers or more."""
        return [Machine(self.world, number, "log/#") for number in range(self.chance.choice((3, 3, 5)))]

    def homes(self) -> list[MovingHome]:
        """The homes at running keepers."""
        found = [home for machine in self.machines if machine.endpoint.is_running for home in homes_of(machine)]
        return [home for home in found if isinstance(home, MovingHome)]

    def consumers(self) -> list[Consumer]:
        """The consumer where it acts."""
        now = self.world.time
        return [one for home in self.homes() for id, one in home.consumers.items() if home._acts(now, id)]

    def look(self) -> None:
        """There is one home that acts at most."""
        assert len(self.consumers()) <= 1, "two homes act"
        super().look()

    def watch(self) -> None:
        """Look again and again."""
        assert len(self.consumers()) <= 1, "two homes act"
        self.world.after(0.1, self.watch)

    def run(self) -> None:
        """Disturb, calm down, and compare with what all keepers have."""
        self.watch()
        for _ in range(40):
            self.world.run(self.chance.choice((0.001, 0.05, 0.5, 2.0)))
            self.step()
            self.look()
        self.world.network.set_conditions(Conditions())
        self.world.network.heal()
        self.fails = 0.0
        down = [machine for machine in self.machines if not machine.endpoint.is_running]
        for machine in down[: len(down) - (len(self.machines) - 1) // 2] if self.chance.random() < 0.5 else down:
            machine.endpoint.restart()
            machine.begin()
        for member in self.members:
            if not member.is_running:
                member.restart()
                self.join(member)
        self.world.run(30.0)
        self.world.run_until(lambda: len(self.consumers()) == 1 and not self.consumers()[0].is_behind, 120.0)
        self.look()
        (consumer,) = self.consumers()
        assert not consumer.is_behind
        offset, log = 0, consumer._log
        while offset < log.durable:
            records, offset = log.read(lambda topic: True, offset)
            for _, record in records:
                for number in range(record.sequence, record.stop):
                    key = record.origin, record.life, record.topic, number
                    assert self.handled[key], f"{key} was never handled"


def watch_commits(patch: Patch) -> None:
    """Fail if a message is committed again after a majority had that on disk."""
    committed: dict[Stream, RangeSet] = {}
    good_add, good_acknowledged = Ballot.add, Ballot._acknowledged

    def add(self: Ballot, stream: Stream, first: int, stop: int) -> None:
        free = [*committed.get(stream, RangeSet()).gaps(first, stop)]
        assert free == [(first, stop)], f"{first} to {stop} of {stream} are committed twice"
        good_add(self, stream, first, stop)

    def acknowledged(self: Ballot, now: float, peer: str, epoch: int, head: dict[str, Any]) -> None:
        good_acknowledged(self, now, peer, epoch, head)
        if self.role == HOME and self.committed == self._count:
            for stream, ranges in self.done.items():
                for first, stop in ranges:
                    committed.setdefault(stream, RangeSet()).add(first, stop)

    patch.setattr(Ballot, "add", add)
    patch.setattr(Ballot, "_acknowledged", acknowledged)


def counted(seed: int) -> int:
    """Run a seed; returns how many messages were handled."""
    with Patch.context() as patch:
        watch_commits(patch)
        swarm = MovingSwarm(seed)
        swarm.run()
        return sum(swarm.handled.values())


def hunt(first: int, last: int) -> int:
    """Run these seeds; returns how many messages were handled."""
    return sum_of_seeds(counted, range(first, last))


# ------------------------------------------------------------------------------------------- planted bugs


def votes_are_not_synced(patch: Patch) -> None:
    """A keeper tells what it promised and copied before that is on disk."""

    good = SimulatedDisk.sync
    patch.setattr(SimulatedDisk, "sync", lambda self, name: None if name.startswith(NAME) else good(self, name))


def homes_act_without_a_majority(patch: Patch) -> None:
    """A home that is cut off goes on."""
    patch.setattr(Ballot, "acts", lambda self, now: self.role == HOME)


def voters_are_impatient(patch: Patch) -> None:
    """A voter grants another home although it has just heard from one."""
    patch.setattr(voting, "PATIENCE", 0.0)


def leases_never_end(patch: Patch) -> None:
    """A home counts a voter for ever that has answered once."""
    patch.setattr(voting, "LEASE", 1e9)


def changes_count_as_copied_when_sent(patch: Patch) -> None:
    """What was sent to a voter counts as acknowledged."""
    good = Ballot._send

    def wrong(self: Ballot, now: float, voter: str, peer: Peer) -> None:
        good(self, now, voter, peer)
        peer.acknowledged = peer.sent = max(peer.sent, self._count)

    patch.setattr(Ballot, "_send", wrong)


def everything_is_read_again(patch: Patch) -> None:
    """A new home does not look at what is done."""
    patch.setattr(Ballot, "left", lambda self, stream, first, stop: iter([(first, stop)]))


BUGS: dict[Callable[[Patch], None], int] = {
    votes_are_not_synced: 1, homes_act_without_a_majority: 0, voters_are_impatient: 11, leases_never_end: 0,
    changes_count_as_copied_when_sent: 13, everything_is_read_again: 0,
}  # fmt: skip
"""The bugs, each with a seed that finds it."""


def run(seed: int) -> None:
    """Run one seed of the swarm."""
    counted(seed)


if __name__ == "__main__":
    command(hunt, run, BUGS)
