"""Doors of a cluster in virtual time: a real log of the model, doors that see it late, and clients that keep the rules.

Doors are killed, paused and cut off. Connections break, and clients connect to any door. A transaction may stay without
an answer, and take effect later or never. Doors take others for dead that are not. In the end everything settles, and
what was promised is checked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from random import Random

from glue.gateway.mqtt.access import Everybody
from glue.gateway.mqtt.cluster.broker import ClusterBroker
from glue.gateway.mqtt.cluster.shared import Shared
from glue.gateway.mqtt.cluster.sweeping import Sweeping
from glue.gateway.mqtt.identity import Remote
from glue.gateway.mqtt.limits import Limits
from glue.model.state import OK, Change, Command, Operation, Set, State, encode_command, encode_entry
from tests.support import mqtt

EPOCH = 1e9
"""Unix time at the beginning of virtual time."""


class Log:
    """The committed log of the model: transactions of doors take effect here, one after the other or together."""

    def __init__(self) -> None:
        self.state = State()
        self.changes: list[list[Change]] = []

    def commit(self, *transactions: list[Operation]) -> list[bool]:
        """Commit transactions in one entry; returns which took effect."""
        commands = [encode_command(Command(0, 0, 0, operations)) for operations in transactions]
        applied = self.state.apply(self.state.index + 1, encode_entry(0, commands))
        self.changes.append(applied.changes)
        return [result.code == OK for result in applied.results]


class Door:
    """A life of a door, with the model's replica that it sees."""

    def __init__(self, log: Log, number: int, life: int, now: float) -> None:
        self.log = log
        self.now = now
        self.number = number
        self.shared = Shared(f"door{number}-{life}", lambda: self.now + EPOCH)
        self.broker = ClusterBroker(Everybody(), Random(life), self.shared, Limits(session_expiry=1e6))
        self.sweeping = Sweeping(self.broker)
        self.proposed: list[Operation] | None = None
        self.is_reachable = True
        self.is_paused = False
        self.seen = len(log.changes)
        self._links = 0
        everything = [Change(key, *log.state.get(key)) for key in sorted(log.state._values)]  # type: ignore[misc]
        self.broker.apply(now, [change.past for change in everything])
        self.shared.door = number
        self.shared.is_ready = True

    def link(self, version: int = 4) -> mqtt.Device:
        """A connection that has not said anything."""
        self._links += 1
        client = self.broker.open(self.now, self._links, Remote(f"10.0.0.{self.number}:{self._links}", "", True))
        return mqtt.Device(self, client, version)  # type: ignore[arg-type]

    def follow(self, entries: int) -> bool:
        """Take some committed entries; whether there were any."""
        found = self.log.changes[self.seen : self.seen + entries]
        self.seen += len(found)
        self.broker.apply(self.now, [change for changes in found for change in changes])
        return bool(found)

    def propose(self) -> bool:
        """Begin a batch if there is something to propose; whether one is under way."""
        if self.proposed is None and self.shared.batch is None:
            self.proposed = self.shared.begin()
        return self.proposed is not None

    def cut_off(self) -> None:
        """Learn that there is no majority."""
        self.proposed = None
        self.shared.is_ready = False
        self.broker.cut_off(self.now)

    def advance(self, now: float) -> None:
        """Let time pass."""
        self.now = now
        self.broker.advance(now)


class Connected:
    """What all clients have."""

    device: mqtt.Device | None = None
    door: Door | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.forgotten: list[mqtt.Device] = []  # connections that broke, which their doors may not know yet


class Client(Connected):
    """A client with a session that is kept, and its own side of it."""

    def __init__(self, name: str, qos: int) -> None:
        super().__init__(name)
        self.qos = qos
        self.waiting: dict[int, bytes] = {}  # PUBLISH was sent, PUBACK or PUBREC is awaited
        self.releasing: dict[int, bytes] = {}  # PUBREL was sent, PUBCOMP is awaited
        self.held: dict[int, None] = {}  # QoS 2: received, and not yet released
        self.got: Counter[bytes] = Counter()
        self.order: defaultdict[str, list[int]] = defaultdict(list)  # what came first, by publisher
        self.published: set[bytes] = set()
        self.is_subscribed = False
        self.made = 0

    def connect(self, door: Door, is_half_open: bool = False) -> None:
        """Connect, subscribe, and send again what is under way; the former door may not know that it broke."""
        if is_half_open and self.device is not None:
            self.forgotten.append(self.device)
        else:
            self.leave()
        self.door, self.device = door, door.link()
        self.device.send(mqtt.connect(self.name, clean=False))
        self.device.send(mqtt.subscribe(1, ("t/#", self.qos)))
        for number, payload in self.waiting.items():
            self.device.send(mqtt.publish("t/" + self.name, payload, self.qos, number, dup=True))
        for number in self.releasing:
            self.device.send(mqtt.acknowledge(6, number))

    def leave(self) -> None:
        """Break the connection."""
        if self.device is not None:
            self.device.leave()
        self.device = self.door = None

    def publish(self) -> None:
        """Publish a message."""
        number = next((n for n in range(1, 20) if n not in self.waiting and n not in self.releasing), None)
        if self.device is not None and number is not None:
            self.made += 1
            payload = f"{self.name} {self.made}".encode()
            self.waiting[number] = payload
            self.published.add(payload)
            self.device.send(mqtt.publish("t/" + self.name, payload, self.qos, number))

    def read(self) -> bool:
        """Take what the door sent, and answer; whether there was something."""
        if self.device is None or self.door is None or self.door.is_paused:
            return False
        sent = self.device.read()
        for one in sent:
            number = int.from_bytes(one.body[:2], "big")
            if one.kind == 3:
                self._take(mqtt.publication(one))
            elif one.kind == 4:
                self.waiting.pop(number, None)
            elif one.kind == 5:
                if number in self.waiting:
                    self.releasing[number] = self.waiting.pop(number)
                self.device.send(mqtt.acknowledge(6, number))
            elif one.kind == 6:
                self.held.pop(number, None)
                self.device.send(mqtt.acknowledge(7, number))
            elif one.kind == 7:
                self.releasing.pop(number, None)
            elif one.kind == 9:
                self.is_subscribed = True
        if self.device.is_closed():
            self.leave()
        return bool(sent)

    def _take(self, message: mqtt.Publication) -> None:
        assert self.device is not None
        is_new = message.payload not in self.got
        if message.qos == 1:
            self.got[message.payload] += 1
            self.device.send(mqtt.acknowledge(4, message.number))
        else:
            if message.number not in self.held:
                self.got[message.payload] += 1
            self.held[message.number] = None
            self.device.send(mqtt.acknowledge(5, message.number))
        if is_new:
            name, _, place = message.payload.decode().partition(" ")
            self.order[name].append(int(place))


class Mortal(Connected):
    """A client with a will, which lets each of its connections end in one way or another."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.life = 0
        self.is_admitted = False
        self.due: dict[bytes, tuple[int, int]] = {}  # how often each will may come, at least and at most

    @property
    def will(self) -> bytes:
        """The will of the present connection."""
        return f"{self.name} {self.life}".encode()

    def connect(self, door: Door, is_half_open: bool = False) -> None:
        """Connect, with a new will."""
        if is_half_open and self.device is not None:
            self.forgotten.append(self.device)
        else:
            self.break_off()
        self.life += 1
        self.door, self.device, self.is_admitted = door, door.link(), False
        self.due[self.will] = (0, 1)
        self.device.send(mqtt.connect(self.name, clean=self.life % 3 > 0, will=("t/will", self.will, 2, False)))

    def read(self) -> bool:
        """Take what the door sent."""
        if self.device is None or self.door is None or self.door.is_paused:
            return False
        sent = self.device.read()
        for one in sent:
            if one.kind == 2 and one.body[1] == 0:
                self.is_admitted = True
                self.due[self.will] = (1, 1)
        if self.device.is_closed():
            self.break_off()
        return bool(sent)

    def break_off(self) -> None:
        """End without a word: the will is to come if the client was let in."""
        if self.device is not None:
            self.device.leave()
        self.device = self.door = None

    def say_goodbye(self) -> None:
        """End in peace: the will must not come, if the door lives long enough to tell the others."""
        if self.device is not None and self.is_admitted:
            self.due[self.will] = (0, 1)
            self.device.disconnect()
            self.device = self.door = None


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
            assert not door.shared.replica.malformed


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
