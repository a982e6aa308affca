"""A swarm for delayed messages: publishers and keepers that die, are cut off and pause, and bugs that it must find.

python -m tests.simulation.delayed_swarm 0 1000      # hunt through these seeds
python -m tests.simulation.delayed_swarm bugs 200    # tell how many seeds each planted bug takes

Each message comes once to each subscription, never early, and in the end to a reader of history if its receipt was
true. A reader that began before may have passed it over while its keeper was away. What was cancelled in time does not
come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import glue
from glue.delayed import store as module
from glue.delayed.store import DelayedStore
from glue.endpoint.delaying import DelayedRunner
from glue.endpoint.delays import Delayed, Delays
from glue.history.sequencer import Sequencer
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk
from glue.topics.copies import Copies
from tests.simulation.keeping_machine import Machine
from tests.support.planting import command, sum_of_seeds

Patch = pytest.MonkeyPatch

LATE = 40.0
"""Seconds from the beginning after which the calm has begun."""


class Sent:
    """One delayed message."""

    def __init__(self, delayed: Delayed, due: float, publisher: SimulatedEndpoint) -> None:
        self.delayed = delayed
        self.due = due
        self.life = publisher._core.identity.incarnation
        self.was_safe = self.is_cancelled = False


class Swarm:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        self.chance = chance = world.random("swarm of delayed messages")
        replicas = chance.choice((None, None, 2))
        self.machines = [
            Machine(world, number, "t/#", number == 0 or chance.random() < 0.7, replicas=replicas)
            for number in range(chance.choice((1, 2, 3)))
        ]
        self.publishers = [world.endpoint(f"publisher{number}") for number in range(chance.choice((1, 2)))]
        self.sent: list[Sent] = []
        self.came: dict[str, set[int]] = {}
        self.ear = world.endpoint("ear")
        self.listen("live", self.ear.subscribe)
        self.listen("history", world.endpoint("reader").subscribe, start="earliest")
        world.run(2.0)

    def listen(self, name: str, subscribe: Callable[..., Any], **options: Any) -> None:
        """Subscribe with a handler that looks at what comes."""
        came = self.came[name] = set()

        def handle(message: glue.Message) -> None:
            number = message.payload
            assert number not in came, f"message {number} came twice to {name}"
            assert self.world.time >= self.sent[number].due, f"message {number} came early to {name}"
            came.add(number)

        subscribe("t/#", handle, **options)

    def publish(self, publisher: SimulatedEndpoint, seconds: float, is_safe: bool) -> Sent:
        """Publish a message for later."""
        topic, acks = self.chance.choice(("t/a", "t/b")), "disk" if is_safe else None
        delayed = publisher.publish(topic, len(self.sent), delay=seconds, receipt=True, acks=acks)  # type: ignore[arg-type]
        self.sent.append(Sent(delayed, self.world.time + seconds, publisher))
        return self.sent[-1]

    def step(self) -> None:
        """Publish, cancel, or disturb."""
        chance, world, what = self.chance, self.world, self.chance.random()
        machine, publisher = chance.choice(self.machines), chance.choice(self.publishers)
        if what < 0.4:
            if publisher.is_running:
                self.publish(publisher, chance.choice((0.3, 1.0, 4.0, 10.0, LATE + 20.0)), chance.random() < 0.8)
        elif what < 0.5:
            if self.sent:
                sent = chance.choice(self.sent)
                sent.is_cancelled |= sent.delayed.cancel()
        elif what < 0.55:
            world.network.set_conditions(Conditions(loss=chance.choice((0.0, 0.2)), jitter=chance.choice((0.0, 0.01))))
        elif what < 0.7:
            if publisher.is_running:
                chance.choice((publisher.crash, publisher.close))()
            else:
                publisher.restart()
        elif what < 0.77:
            one = chance.choice([publisher, machine.endpoint])
            one.pause()
            world.after(chance.uniform(0.02, 8.0), one.resume)
        elif what < 0.87:
            world.network.partition([chance.choice([publisher, machine.endpoint]).host])
            world.after(chance.uniform(0.1, 9.0), world.network.heal)
        elif machine.endpoint.is_running:
            machine.crash()
        else:
            machine.restart()

    def run(self) -> None:
        """Disturb, calm down, and see what came."""
        for _ in range(50):
            self.world.run(self.chance.choice((0.01, 0.2, 1.5)))
            self.step()
            self.look()
        self.world.network.set_conditions(Conditions())
        self.world.network.heal()
        for machine in self.machines:
            if not machine.endpoint.is_running:
                machine.restart()
        self.world.run(12.0)
        calm, lives = self.world.time, {one._core.identity.incarnation for one in self.publishers if one.is_running}
        last = self.publishers[0]
        if not last.is_running:
            last.restart()
            self.world.run(3.0)
        lives.add(last._core.identity.incarnation)
        cancelled, *_ = [self.publish(last, 6.0, is_safe=True) for _ in range(3)]
        self.world.run(1.0)
        self.look()
        assert cancelled.was_safe
        cancelled.is_cancelled = cancelled.delayed.cancel()
        self.world.run(1.0)
        last.crash()
        self.world.run(LATE + 40.0)
        self.listen("later", self.ear.subscribe, start="earliest")
        self.world.run(10.0)
        for number, sent in enumerate(self.sent):
            if sent.is_cancelled:
                if sent.due > calm and sent.life in lives:  # it could tell all keepers
                    assert all(number not in came for came in self.came.values()), f"{number} was cancelled, and came"
            elif sent.was_safe:
                assert number in self.came["later"], f"message {number} was lost"
        for machine in self.machines:
            for keeping in machine.keeping():
                store = keeping.delayed.store
                assert not store.held, f"{machine.endpoint} still holds {[*store.held]}"
                assert store.size == 0

    def look(self) -> None:
        """Note which messages are safe."""
        for sent in self.sent:
            receipt = sent.delayed.receipt
            sent.was_safe |= receipt is not None and receipt.expectation is not None and bool(receipt)


def counted(seed: int) -> int:
    """Run a seed; returns how many messages came."""
    swarm = Swarm(seed)
    swarm.run()
    return len(swarm.came["history"])


def hunt(first: int, last: int) -> int:
    """Run these seeds; returns how many messages came."""
    return sum_of_seeds(counted, range(first, last))


# ------------------------------------------------------------------------------------------- planted bugs


def keepers_hand_on_no_delay(patch: Patch) -> None:
    """A keeper that hands a message to another one leaves out how long it has to wait."""
    patch.setattr(DelayedStore, "_again", lambda self, now, id: self.held[id].put._replace(wait=0))


def delays_begin_again_at_a_restart(patch: Patch) -> None:
    """A keeper that restarts takes every message for due."""
    patch.setattr(module, "_stored", lambda held: held.put._replace(wait=0))


def held_messages_are_not_synced(patch: Patch) -> None:
    """The journal is written, and acknowledged before it is synced."""

    good = SimulatedDisk.sync
    patch.setattr(SimulatedDisk, "sync", lambda self, name: None if name.startswith(module.NAME) else good(self, name))


def second_copies_are_handed_over(patch: Patch) -> None:
    """A live subscription gets what another keeper released, too."""
    patch.setattr(Copies, "wanted_by", lambda self, group, tokens: tokens)


def second_copies_are_read(patch: Patch) -> None:
    """A reader of history takes both copies."""
    good = Sequencer._push

    def wrong(self: Sequencer, delivery: Any) -> None:
        self._seen.clear()
        good(self, delivery)

    patch.setattr(Sequencer, "_push", wrong)


def former_lives_count_as_present(patch: Patch) -> None:
    """A publisher in a new life still answers for the messages of the old one."""
    patch.setattr(DelayedRunner, "is_present", lambda self, publisher, life: publisher in self._core.peers)


def returning_keepers_are_not_told(patch: Patch) -> None:
    """A publisher does not tell a keeper that was away what is over."""
    patch.setattr(Delays, "rung", lambda self, now: ())


def cancelled_here_only(patch: Patch) -> None:
    """Keepers are not told that a message was cancelled."""
    good = Delays.ended

    def wrong(self: Delays, delayed: Delayed, kind: str) -> Sequence[Any]:
        return [] if kind == "gone" else good(self, delayed, kind)

    patch.setattr(Delays, "ended", wrong)


def the_first_rank_is_waited_for(patch: Patch) -> None:
    """Only the keeper that is ranked first releases a message."""
    good = DelayedStore._rank
    patch.setattr(DelayedStore, "_rank", lambda self, id, keepers: 1e9 if good(self, id, keepers) else 0)


BUGS: dict[Callable[[Patch], None], int] = {
    keepers_hand_on_no_delay: 5, delays_begin_again_at_a_restart: 0, held_messages_are_not_synced: 0,
    second_copies_are_handed_over: 2, second_copies_are_read: 2, former_lives_count_as_present: 0,
    returning_keepers_are_not_told: 16, cancelled_here_only: 0, the_first_rank_is_waited_for: 8,
}  # fmt: skip
"""The bugs, each with a seed that finds it."""


def run(seed: int) -> None:
    """Run one seed of the swarm."""
    counted(seed)


if __name__ == "__main__":
    command(hunt, run, BUGS)
