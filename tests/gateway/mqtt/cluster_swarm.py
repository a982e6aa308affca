"""Doors of a cluster in virtual time: a real log of the model, doors that see it late, and clients that keep the rules.

Doors are killed, paused and cut off. Connections break, and clients connect to any door. A transaction may stay without
an answer, and take effect later or never. Doors take others for dead that are not. In the end everything settles, and
what was promised is checked.
"""

from __future__ import annotations

from functools import partial
from random import Random

from glue.model.state import Operation, Set
from tests.gateway.mqtt.cluster_doors import Client, Connected, Door, Log, Mortal


class Swarm:
    """Three doors, clients, and what befalls them, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log = Log()
        self.now = 1000.0
        self.lives = 0
        self.doors = [self._door(number) for number in range(3)]
        self.limbo: list[list[Operation]] = []
        self.clients = [Client("a", 1), Client("b", 1), Client("c", 2), Client("d", 2)]
        self.mortals = [Mortal("m"), Mortal("n")]

    @property
    def everybody(self) -> list[Connected]:
        """All clients."""
        return [*self.clients, *self.mortals]

    def _door(self, number: int) -> Door:
        self.lives += 1
        found = Door(self.log, number, self.lives, self.now)
        self.log.commit([Set(f"d/{number}", found.shared.name)])
        return found

    def run(self, steps: int) -> None:
        """Let things happen, then heal everything, and check."""
        for client in self.clients:
            client.connect(self.doors[0])
        self.settle(lambda: all(client.is_subscribed for client in self.clients))
        for _ in range(steps):
            self.step()
        self.heal()
        self.check()

    # ----------------------------------------------------------------------------------------- what happens

    def step(self) -> None:
        """Let one thing happen."""
        random, luck = self.random, self.random.random()
        client, door = random.choice(self.clients), random.choice(self.doors)
        if luck < 0.15:
            client.publish()
        elif luck < 0.32:
            client.read()
            random.choice(self.mortals).read()
        elif luck < 0.60:
            self._follow(door, random.choice((1, 2, 3, 20)))
        elif luck < 0.80:
            self._commit(random.sample(self.doors, random.choice((1, 1, 2))))
        elif luck < 0.83:
            client.leave()
        elif luck < 0.89:
            client.connect(door, is_half_open=random.random() < 0.5)
        elif luck < 0.93:
            self._let_die(random.choice(self.mortals), door)
        elif luck < 0.96:
            self._sweep()
        elif luck < 0.975:
            self._disturb(door)
        elif luck < 0.985:
            self._kill(door)
        else:
            self.pass_time(random.choice((0.05, 0.5, 3.0)))

    def _let_die(self, mortal: Mortal, door: Door) -> None:
        if mortal.device is None:
            mortal.connect(door)
        else:
            again = partial(mortal.connect, door, is_half_open=True)
            self.random.choice((mortal.break_off, mortal.say_goodbye, again))()

    def _follow(self, door: Door, entries: int) -> bool:
        return door.is_reachable and not door.is_paused and door.follow(entries)

    def _commit(self, doors: list[Door]) -> bool:
        """Let what doors propose take effect; some of it without an answer, now or later."""
        ready = [door for door in doors if not door.is_paused and door.propose()]
        lost = [door for door in ready if not door.is_reachable or self.random.random() < 0.02]
        for door in lost:
            assert door.proposed is not None
            if self.random.random() < 0.5:
                self.limbo.append(door.proposed)
            door.cut_off()
        if self.limbo and self.random.random() < 0.3:
            self.log.commit(self.limbo.pop())
        answered = [door for door in ready if door.proposed is not None]
        for door, is_done in zip(answered, self.log.commit(*map(_proposed, answered)) if answered else (), strict=True):
            door.proposed = None
            if not is_done:
                door.shared.refused(door.now)
        return bool(answered)

    def _sweep(self) -> None:
        """Let all doors sweep; a door that is paused or cut off is taken for dead, or sometimes one that is not."""
        for door in self.doors:
            if not door.is_paused:
                known = [one for one in self.doors if one is door or self._seems_alive(one)]
                names = {one.shared.name for one in known}
                door.broker.is_chosen = self.random.random() < 0.1 or door.shared.name == min(names)
                door.sweeping.sweep(door.now, names)

    def _seems_alive(self, door: Door) -> bool:
        return door.is_reachable and not door.is_paused and self.random.random() > 0.05

    def _disturb(self, door: Door) -> None:
        """Pause a door, or cut it off; or end that."""
        if door.is_paused or not door.is_reachable:
            door.is_paused, door.is_reachable = False, True
            door.shared.is_ready = True
        elif self.random.random() < 0.5:
            door.is_paused = True
        else:
            door.is_reachable = False

    def _kill(self, door: Door) -> None:
        """Kill a door, and start it again; all of its connections break."""
        if door.proposed is not None and self.random.random() < 0.5:
            self.limbo.append(door.proposed)
        for one in self.everybody:
            if one.door is door:
                one.device = one.door = None
        self.doors[door.number] = self._door(door.number)

    def pass_time(self, seconds: float) -> None:
        """Let time pass at all doors."""
        self.now += seconds
        for door in self.doors:
            if not door.is_paused:
                door.advance(self.now)

    # ------------------------------------------------------------------------------------------------- the end

    def heal(self) -> None:
        """End all disturbances, and let everything settle."""
        for operations in self.limbo:
            self.log.commit(operations)
        self.limbo.clear()
        for door in self.doors:
            door.is_paused, door.is_reachable, door.shared.is_ready = False, True, True
        for mortal in self.mortals:
            mortal.read()
            mortal.break_off()
        self.settle(self._is_quiet)
        self.check_uniqueness()
        for one in self.everybody:
            for device in one.forgotten:
                device.leave()
        self.settle(self._is_quiet)

    def _is_quiet(self) -> bool:
        return not any(one.waiting or one.releasing or one.held for one in self.clients) and not any(
            value.get("due", 0) for value in self.doors[0].shared.replica.wills.values()
        )

    def settle(self, is_done: object) -> None:
        """Let everything go on without disturbance until nothing changes any more."""
        random, quiet = self.random, 0
        self.random = Random(1)
        self.random.random = lambda: 0.5  # type: ignore[method-assign]
        for _ in range(400):
            for client in self.clients:
                if client.device is None:
                    client.connect(random.choice(self.doors))
            busy = [client.read() for client in self.clients] + [mortal.read() for mortal in self.mortals]
            for door in self.doors:
                busy.append(self._commit([door]))
                busy += [self._follow(one, 100) for one in self.doors]
            self.pass_time(0.25)
            self._sweep()
            quiet = 0 if any(busy) else quiet + 1
            if quiet > 20:
                break
        self.random = random
        assert quiet > 20, "the cluster does not come to rest"

    def check_uniqueness(self) -> None:
        """Every client is connected at one door alone."""
        for client in self.clients:
            places = [door for door in self.doors if client.name in door.broker.sessions]
            assert places == [client.door], (client.name, "is at", [door.shared.name for door in places])

    def check(self) -> None:
        """Every promise was kept."""
        for client in self.clients:
            assert not client.waiting, (client.name, "is not acknowledged")
            for other in self.clients:
                for payload in other.published:
                    assert client.got[payload] > 0, (client.name, "lost", payload)
                    if client.qos == other.qos == 2:
                        assert client.got[payload] == 1, (client.name, "has twice", payload)
                if client.qos == other.qos == 2:
                    assert client.order[other.name] == sorted(client.order[other.name]), (client.name, other.name)
            for mortal in self.mortals:
                for will, (least, most) in mortal.due.items():
                    count = client.got[will] if client.qos == 2 else min(client.got[will], 1)
                    assert least <= count <= most, (client.name, will, client.got[will], least, most)
        for door in self.doors:
            assert not [*door.shared.replica], "messages stay in the log"
            assert not door.broker.statistics["malformed changes of the cluster"]


def _proposed(door: Door) -> list[Operation]:
    assert door.proposed is not None
    return door.proposed


def swarm(seed: int, steps: int = 400) -> None:
    """Run one seed."""
    Swarm(seed).run(steps)


if __name__ == "__main__":
    import sys

    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            swarm(seed)
        except Exception as error:
            print("seed", seed, repr(error)[:300])
