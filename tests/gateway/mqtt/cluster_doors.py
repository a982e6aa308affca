"""Doors of a cluster in virtual time, and clients that keep the rules of MQTT on their side."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

from glue.gateway.mqtt.access import Everybody
from glue.gateway.mqtt.cluster.broker import ClusterBroker
from glue.gateway.mqtt.cluster.shared import Shared
from glue.gateway.mqtt.cluster.sweeping import Sweeping
from glue.gateway.mqtt.identity import Remote
from glue.gateway.mqtt.limits import Limits
from glue.model.state import OK, Change, Command, Operation, State, encode_command, encode_entry
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

    def __init__(self, log: Log, number: int, life: int, now: float, limits: Limits | None = None) -> None:
        self.log = log
        self.now = now
        self.number = number
        self.shared = Shared(f"door{number}-{life}", lambda: self.now + EPOCH)
        self.broker = ClusterBroker(Everybody(), Random(life), self.shared, limits or Limits(session_expiry=1e6))
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
        self.broker.joined(now)

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
