"""A recorded run of doors of a cluster: what clients do at any of them, what goes into the log, and what comes of it.

Doors see the log late, are killed, paused and cut off; sessions are short, wills are delayed, and few of anything may
be there. The beginning stands as it was, of the rest only hashes, and in the end what each door knows.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

from glue.gateway.mqtt.cluster.keys import mark
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.model.state import ABSENT, Delete, Operation, Set
from tests.gateway.mqtt.cluster_doors import Door, Log
from tests.recorded.doors import answer_to, packet_words, run_words
from tests.support import mqtt
from tests.support.mqtt import Device

LIMITS = Limits(queue_messages=8, inflight=4, retained=3, sessions=4, session_expiry=60.0, subscriptions=4)
TOPICS = ("a", "a/1", "a/2", "b/1")
FILTERS = ("#", "a", "a/+", "+/1", "$share/s/a/#", "$share/t/+/1")
NAMES = "uvwxyz"
SYMBOLS = {mark(text): text for text in (*NAMES, *TOPICS, "w")}
"""What the hashes in keys stand for."""


def four(number: int) -> bytes:
    """Four bytes of a property."""
    return number.to_bytes(4, "big")


def operation_words(operation: Operation) -> str:
    """An operation of a transaction in words."""
    kind, key = type(operation).__name__[0], getattr(operation, "key", "")
    for hash, text in SYMBOLS.items():
        key = key.replace(hash, text)
    value = getattr(operation, "value", getattr(operation, "patch", None))
    told = "" if isinstance(operation, Delete) else "=none" if value is ABSENT else f"={value}"
    return f"{kind} {key}{told}"


class ClusterCrowd:
    """Three doors, and clients that do what comes to their minds."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log = Log()
        self.now = 1_000.0
        self.lines: list[str] = []
        self.aside: list[str] = []
        self.lives = 0
        self.doors = [self._door(number) for number in range(3)]
        self.devices: dict[str, tuple[Device, Door]] = {}
        self.owed: dict[Device, list[bytes]] = {}
        self._number = 0

    def _door(self, number: int) -> Door:
        """A new life of a door."""
        self.lives += 1
        door = Door(self.log, number, self.lives, self.now, LIMITS)
        door.broker.log = lambda level, text: self.aside.append(f"[{door.shared.name}: {text}]")
        self.log.commit([Set(f"d/{number}", door.shared.name)])
        return door

    # ---------------------------------------------------------------------------------------- what is written

    def run(self, steps: int, more: int) -> str:
        """Let things happen: `steps` are written down, and of `more` only a hash of each hundred."""
        self.go(steps)
        for number in range(0, more, 100):
            begin = len(self.lines)
            self.go(100)
            text = repr(self.lines[begin:]).encode()
            self.lines[begin:] = [f"{number} to {number + 100}: {len(self.lines) - begin} lines, {crc32(text):08x}"]
        return "\n".join(f"{line:.320}" for line in [*self.lines, *self._ends()]) + "\n"

    def note(self, what: str) -> None:
        """Write down what was done and what came of it."""
        told, self.aside = self.aside, []
        for name, (device, door) in list(self.devices.items()):
            packets = device.read()
            self.owed.setdefault(device, []).extend(filter(None, map(answer_to, packets)))
            said = [packet_words(one, device.version) for one in packets]
            if device.is_closed():
                said.append(f"closed: {device.client.reason}")
                del self.devices[name]
                device.leave()
            if said:
                told.append(f"{name} at {door.number} < {', '.join(said)}")
        for door in self.doors:
            told += [f"network < {run_words(run)} {run.offset >= 0}" for run in door.broker.published]
            door.broker.published.clear()
        if what or told:
            self.lines.append(f"{self.now:8.2f} {what or 'later'}")
        self.lines += [f"{'':9}{line}" for line in told]

    def _ends(self) -> list[str]:
        """What each door knows, and has counted."""
        found: list[str] = []
        for door in self.doors:
            replica, broker, shared = door.shared.replica, door.broker, door.shared
            facts: dict[str, Any] = {
                "owners": replica.owners.values(), "terms": replica.terms.values(), "wills": replica.wills.values(),
                "filters": map(replica.filters, replica.owners), "patterns": replica.patterns, "doors": replica.doors,
                "batches": replica.batches, "retained": [run_words(run) for run in broker.retained],
                "log": (replica.messages, replica.bytes, replica.end, [one.key for one in replica]),
                "progress": map(replica.progress, replica.owners), "others": broker.others(self.now),
                "store": (shared.size, shared.drops, shared.is_pending, sorted(shared.claims.items())),
                "sessions": sorted((name, one.claim, one.under_way) for name, one in broker.sessions.items()),
            }  # fmt: skip
            found.append(f"{shared.name}: " + ", ".join(f"{n} {c}" for n, c in sorted(broker.statistics.items())))
            for what, value in facts.items():
                text = str(list(value) if not isinstance(value, dict | tuple) else value)
                found.append(f"  {what}: {text:.200} {crc32(text.encode()):08x}")
        return found

    # ------------------------------------------------------------------------------------------ what happens

    def go(self, steps: int) -> None:
        """Let so many things happen."""
        of_clients: dict[Callable[[str], None], int] = {
            self.connect: 2, self.subscribe: 5, self.publish: 10, self.acknowledge: 6, self.leave: 2, self.goodbye: 2,
            self.unsubscribe: 1,
        }  # fmt: skip
        of_others = {self.receive: 3, self.wait: 6, self.disturb: 2, self.retain: 1}
        for _ in range(steps):
            name, acts = self.random.choice(NAMES), of_clients if self.random.random() < 0.75 else of_others
            act = self.random.choices(list(acts), list(acts.values()))[0]
            (act if name in self.devices or acts is of_others else self.connect)(name)
            if self.random.random() < 0.6:
                self.settle()
            else:
                self.commit(self.random.choice(self.doors))
                self.random.choice(self.doors).follow(self.random.choice((1, 2, 9)))
            self.note("")

    def commit(self, door: Door) -> bool:
        """Let what a door proposes take effect, if it takes part; write it down."""
        if door.is_paused or not door.propose() or door.proposed is None:
            return False
        operations, door.proposed = door.proposed, None
        (is_done,) = self.log.commit(operations)
        words = "; ".join(operation_words(one) for one in operations)
        self.aside.append(f"{door.shared.name} {'has' if is_done else 'has not'} {crc32(words.encode()):08x}: {words}")
        if not is_done and not door.shared.refused(door.now):
            self.aside.append("the model is full")
        return True

    def settle(self) -> None:
        """Let everything take effect that doors propose."""
        is_busy = True
        while is_busy:
            is_busy = sum(self.commit(door) for door in self.doors) > 0
            for door in self.doors:
                is_busy |= not door.is_paused and door.follow(100)

    def connect(self, name: str) -> None:
        """Connect to any door, also while connected; sometimes the former connection is forgotten."""
        choice, chance = self.random.choice, self.random.random
        door, version, is_clean = choice(self.doors), choice((4, 5, 5, 5)), chance() < 0.4
        if name in self.devices and chance() < 0.3:
            self.devices.pop(name)[0].leave()
        raw = choice((b"", b"\x11" + four(20), b"\x11" + four(2), b"\x11\xff\xff\xff\xff")) + choice((b"", b"\x21\0\2"))
        will = choice((None, ("w", b"of " + name.encode(), choice((0, 1, 2)), chance() < 0.2)))
        will_raw = choice((b"", b"\x18" + four(1), b"\x18" + four(30))) + choice((b"", b"\x02" + four(9)))
        more = {"raw": raw, "will_raw": will_raw} if version == 5 else {}
        device = door.link(version)
        self.devices[name] = device, door
        device.send(mqtt.connect(name, version, clean=is_clean, will=will, **more))  # type: ignore[arg-type]
        self.note(f"{name} connects at {door.number}, {version}, {is_clean}, {will}, {more}")
        if chance() < 0.2 and name in self.devices:
            self.publish(name)

    def send(self, name: str, what: str, *packets: bytes) -> None:
        """Send packets."""
        self.devices[name][0].send(*packets)
        self.note(f"{name} {what}")

    def _version(self, name: str) -> int:
        return self.devices[name][0].version

    def subscribe(self, name: str) -> None:
        """Subscribe to one or two filters."""
        version, wanted = self._version(name), []
        for topic_filter in self.random.sample(FILTERS, self.random.choice((1, 2))):
            options = self.random.choice((0, 1, 2, 1) if version < 5 else (0, 1, 2, 5, 10, 17, 33, 2))
            wanted.append((topic_filter, options & ~4 if topic_filter.startswith("$share") else options))
        raw = self.random.choice((b"", b"\x0b\x07")) if version == 5 else b""
        packet = mqtt.subscribe(self._next(), *wanted, version=version, raw=raw)
        self.send(name, f"subscribes to {wanted} {raw!r}", packet)

    def unsubscribe(self, name: str) -> None:
        """Unsubscribe."""
        wanted = self.random.choice(FILTERS)
        self.send(name, f"unsubscribes {wanted}", mqtt.unsubscribe(self._next(), wanted, version=self._version(name)))

    def publish(self, name: str) -> None:
        """Publish one message, or three in one write."""
        version, choice = self._version(name), self.random.choice
        topic, qos, retain = choice(TOPICS), choice((0, 1, 1, 2)), self.random.random() < 0.2
        raw = choice((b"", b"", b"\x02" + four(2), b"\x26\0\1k\0\1v\x09\0\1c")) if version == 5 else b""
        numbers = [self._next() for _ in range(choice((1, 1, 3)))]
        payload = choice((b"", b"kept")) if retain else b"%d" % numbers[0]
        packets = [mqtt.publish(topic, payload, qos, n, retain, version=version, raw=raw) for n in numbers]
        if qos == 2:
            packets += [mqtt.acknowledge(6, n) for n in numbers if self.random.random() < 0.8]
        self.send(name, f"publishes {topic} {payload!r} q{qos} #{numbers} {retain} {raw!r}", *packets)

    def acknowledge(self, name: str) -> None:
        """Acknowledge all that came."""
        packets = self.owed.pop(self.devices[name][0], [])
        self.send(name, f"acknowledges {len(packets)}", *packets)

    def leave(self, name: str) -> None:
        """Break off."""
        self.devices.pop(name)[0].leave()
        self.note(f"{name} is lost")

    def goodbye(self, name: str) -> None:
        """Say goodbye, with a reason or another time to stay."""
        options = (b"", b"\x04", b"\0" + mqtt.properties(b"\x11" + four(5))) if self._version(name) == 5 else (b"",)
        self.send(name, "says goodbye", mqtt.packet(0xE0, self.random.choice(options)))

    def receive(self, name: str) -> None:
        """Let an endpoint publish: all doors get it."""
        topic, qos, retain = self.random.choice(TOPICS), self.random.choice((0, 1, 2)), self.random.random() < 0.2
        payload = b"n%d" % self._next()
        for door in self.doors:
            if not door.is_paused:
                door.broker.deliver(door.now, Publish(topic, [payload], qos, retain))
        self.note(f"an endpoint publishes {topic} {payload!r} q{qos} {retain}")

    def retain(self, name: str) -> None:
        """Let an endpoint answer new subscriptions with what it retains."""
        for door in self.doors:
            for subscription in door.broker.fresh:
                at = self.now + 1e9 - self.random.choice((0.0, 50.0))
                door.broker.replay_from_network(door.now, subscription, Publish("a/1", [b"of old"], 2, True), at)
            door.broker.fresh.clear()
        self.note("an endpoint answers with what it retains")

    def wait(self, name: str) -> None:
        """Let time pass, and doors sweep that take part."""
        seconds = self.random.choice((0.05, 0.5, 0.5, 2.0, 2.0, 20.0))
        self.now += seconds
        names = [door.shared.name for door in self.doors if not door.is_paused]
        for door in self.doors:
            if not door.is_paused:
                door.advance(self.now)
                door.broker.is_chosen = door.shared.name == min(names)
                door.sweeping.sweep(self.now, names)
        self.note(f"{seconds:g} s pass")

    def disturb(self, name: str) -> None:
        """Pause a door, cut it off, kill it, or end that."""
        disturbed = [door for door in self.doors if door.is_paused or not door.shared.is_ready]
        door, luck = self.random.choice(disturbed or self.doors), self.random.random()
        if disturbed:
            door.is_paused, door.shared.is_ready, what = False, True, "goes on"
        elif luck < 0.4:
            door.is_paused, what = True, "is paused"
        elif luck < 0.7:
            door.cut_off()
            what = "is cut off"
        else:
            self.devices = {name: one for name, one in self.devices.items() if one[1] is not door}
            self.doors[door.number] = self._door(door.number)
            what = "is killed"
        self.note(f"{door.shared.name} {what}")

    def _next(self) -> int:
        """A packet id."""
        self._number += 1
        return self._number


def mqtt_doors() -> str:
    """Return the record."""
    return ClusterCrowd(7).run(40, 800)
