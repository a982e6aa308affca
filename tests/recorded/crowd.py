"""Recorded runs of the MQTT door with a crowd: clients of all versions do what comes to their minds, as a seed says."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from tests.recorded.clusters import mqtt_doors
from tests.recorded.damage import mqtt_damage
from tests.recorded.doors import DoorStory, mqtt_limits, mqtt_rights, run_words
from tests.recorded.moves import mqtt_moves
from tests.recorded.swarms import mqtt_cluster
from tests.support import mqtt


class Crowd:
    """Clients that do what comes to their minds."""

    TOPICS = ("a", "a/1", "a/2", "b/1/x", "a/long/" + "l" * 20)
    FILTERS = ("#", "a", "a/+", "a/#", "+/1/#", "b/1/x", "$share/s/a/#", "$share/s/+/1", "$share/t/#")

    def __init__(self, seed: int, disk: bool = False) -> None:
        limits = Limits(queue_messages=9, inflight=4, retained=4, session_expiry=40.0, stuck_after=0.3, topic_aliases=2)
        self.story = DoorStory(limits, disk, seed)
        self.random = self.story.random
        self._number = 0

    def run(self, steps: int, more: int = 0) -> str:
        """Let things happen: `steps` are written down, and of `more` only a hash of each hundred."""
        lines = self.story.lines
        self.go(steps)
        for number in range(steps, steps + more, 100):
            begin = len(lines)
            self.go(100)
            lines[begin:] = [
                f"{number} to {number + 100}: {len(lines) - begin} lines, {crc32(repr(lines[begin:]).encode()):08x}"
            ]
        return self.story.end()

    def go(self, steps: int) -> None:
        """Let so many things happen."""
        acts: dict[Callable[[str], None], int] = {
            self.connect: 3, self.subscribe: 4, self.publish: 12, self.acknowledge: 6, self.leave: 1, self.goodbye: 1,
            self.block: 1, self.unsubscribe: 1, self.receive: 2,
        }  # fmt: skip
        for _ in range(steps):
            name = self.random.choice("uvwxyz")
            act = self.random.choices(list(acts), list(acts.values()))[0]
            if name in self.story.devices:
                act(name)
            else:
                self.connect(name)
            if self.random.random() < 0.15:
                self.story.wait(self.random.choice((0.1, 0.4, 3.0, 20.0)))
            if self.story.disk is not None and self.random.random() < 0.03:
                self.story.bench.save()
                self.story.disk.crash()
                self.story.open(self.story.bench.now + 5)
                self.story.note("the door crashes and is there again")

    def connect(self, name: str) -> None:
        """Connect, also while connected."""
        version, choice = self.random.choice((3, 4, 5, 5)), self.random.choice
        raw = b"".join(
            choice((b"", one))
            for one in (b"\x11\x00\x00\x00\x14", b"\x21\x00\x02", b"\x22\x00\x01", b"\x27\x00\x00\x00\x40")
        )
        will = choice((None, ("a/1", b"will " + name.encode(), choice((0, 1, 2)), choice((True, False)))))
        self.story.connect(
            name, version, clean=self.random.random() < 0.4, keep_alive=choice((0, 9)), will=will,
            raw=raw if version == 5 else b"",
        )  # fmt: skip

    def subscribe(self, name: str) -> None:
        """Subscribe to one or two filters."""
        version = self.story.devices[name].version
        options = range(3) if version < 5 else (0, 1, 2, 4 + 1, 8 + 2, 16 + 1, 32 + 1, 2)
        filters = []
        for topic_filter in self.random.sample(self.FILTERS, self.random.choice((1, 2))):
            wanted = self.random.choice(options)
            filters.append((topic_filter, wanted & ~4 if topic_filter.startswith("$share") else wanted))
        raw = self.random.choice((b"", b"\x0b\x07")) if version == 5 else b""
        self.story.subscribe(name, self._next(), *filters, raw=raw)

    def unsubscribe(self, name: str) -> None:
        """Unsubscribe."""
        wanted = self.random.choice(self.FILTERS)
        packet = mqtt.unsubscribe(self._next(), wanted, version=self.story.devices[name].version)
        self.story.send(name, f"unsubscribes {wanted}", packet)

    def publish(self, name: str) -> None:
        """Publish one message, or three in one write."""
        device, choice = self.story.devices[name], self.random.choice
        topic, qos, retain = choice(self.TOPICS), choice((0, 1, 1, 2)), self.random.random() < 0.2
        raw = (
            choice((b"", b"", b"\x02\x00\x00\x00\x02", b"\x01\x01", b"\x26\x00\x01k\x00\x01v"))
            if device.version == 5
            else b""
        )
        numbers = [self._next() for _ in range(choice((1, 1, 3)))]
        payload = choice((b"", bytes(60))) if retain else b"%d" % numbers[0]
        packets = [mqtt.publish(topic, payload, qos, n, retain, version=device.version, raw=raw) for n in numbers]
        if qos == 2:
            packets += [mqtt.acknowledge(6, n) for n in numbers if self.random.random() < 0.8]
        what = f"publishes {topic} {payload[:9]!r} q{qos} #{numbers}{' retained' * retain}{f' {raw!r}' if raw else ''}"
        self.story.send(name, what, *packets)

    def acknowledge(self, name: str) -> None:
        """Acknowledge all that came."""
        packets = self.story.owed.pop(self.story.devices[name], [])
        if packets:
            self.story.send(name, f"acknowledges {len(packets)}", *packets)

    def leave(self, name: str) -> None:
        """Break off."""
        self.story.leave(name)

    def goodbye(self, name: str) -> None:
        """Say goodbye."""
        self.story.send(name, "says goodbye", mqtt.DISCONNECT)

    def block(self, name: str) -> None:
        """Take nothing, or take it again."""
        client, broker = self.story.devices[name].client, self.story.bench.broker
        (broker.free if client.is_full else broker.full)(self.story.bench.now, client)
        self.story.note(f"{name} {'takes nothing' if client.is_full else 'takes again'}")

    def receive(self, name: str) -> None:
        """Let the network publish."""
        run = Publish(
            self.random.choice(self.TOPICS),
            [b"n%d" % self._next()],
            self.random.choice((0, 1)),
            self.random.random() < 0.2,
        )
        self.story.bench.broker.deliver(self.story.bench.now, run)
        self.story.note(f"the network publishes {run_words(run)}")

    def _next(self) -> int:
        self._number += 1
        return self._number


DOORS: dict[str, Callable[[], str]] = {
    "mqtt-cluster": mqtt_cluster,
    "mqtt-damage": mqtt_damage,
    "mqtt-doors": mqtt_doors,
    "mqtt-limits": mqtt_limits,
    "mqtt-moves": mqtt_moves,
    "mqtt-rights": mqtt_rights,
    "mqtt-crowd": lambda: Crowd(1).run(50, 1500),
    "mqtt-durable": lambda: Crowd(2, disk=True).run(50, 1000),
}
