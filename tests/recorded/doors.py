"""Recorded runs of the MQTT door in virtual time: what each client sends, and what the broker answers.

Each line is a moment: who did what, and then what was written to each client. Packets stand with the name of their
kind, messages with topic, payload and flags. Of the long runs only the beginning stands as it was.
"""

from __future__ import annotations

from random import Random
from typing import Any

from glue.gateway.mqtt.access import Everybody
from glue.gateway.mqtt.codes import NAMES
from glue.gateway.mqtt.identity import Identity, Refusal, Remote, Rule
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Connect, Publish
from glue.gateway.mqtt.plugins import Plugin
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench, Device, Sent


class Rules(Everybody):
    """User names with rules; one may not come in, and one is sent away later."""

    def __init__(self) -> None:
        self.users: dict[str, tuple[Rule, ...] | None] = {
            "": None,
            "reader": (Rule("read", "a/#"), Rule("write", "%c/%u")),
            "writer": (Rule("readwrite", "a/+"),),
        }

    def check(self, connect: Connect, remote: Remote) -> Any:
        """Let in who is known."""
        if connect.username == "nobody":
            return Refusal(reason="nobody is not let in")
        return Identity(connect.username or "", self.users.get(connect.username or ""))

    def authenticate(self, connect: Connect, remote: Remote) -> Any:
        """Users take time."""
        return None if connect.username else self.check(connect, remote)

    def knows(self, identity: Identity) -> bool:
        """Whether a user may stay."""
        return identity.user in self.users


class Curious(Plugin):
    """A plug-in that writes down what it sees, and fails at topics that end with "fail"."""

    def __init__(self, story: DoorStory) -> None:
        self._story = story

    def on_publish(self, client_id: str, run: Publish) -> None:
        """See a message."""
        if run.topic.endswith("fail"):
            raise ValueError(run.topic)

    def on_session(self, client_id: str, event: str) -> None:
        """See a session."""
        self._story.aside.append(f"session {client_id!r} {event}")
        if client_id == "fail":
            raise ValueError(client_id)


class DoorStory:
    """A broker and its clients, whose happenings are written down."""

    def __init__(self, limits: Limits | None = None, disk: bool = False, seed: int = 1) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(Random(seed)) if disk else None
        self.limits, self.access = limits, Rules()
        self.lines: list[str] = []
        self.aside: list[str] = []
        self.devices: dict[str, Device] = {}
        self.owed: dict[Device, list[bytes]] = {}
        """Acknowledgements that clients have not sent yet."""
        self.open(1_000.0)

    def open(self, now: float) -> None:
        """Start the broker, with what is on the disk."""
        self.bench = Bench(self.access, self.limits, self.disk, now)
        self.bench.broker.log = lambda level, text: self.aside.append(text)
        self.bench.broker.watchers = [Curious(self)]
        self.devices.clear()

    def link(self, name: str, version: int = 4) -> Device:
        """A connection that said nothing so far."""
        self.devices[name] = self.bench.link(version)
        return self.devices[name]

    def connect(self, name: str, version: int = 4, client_id: str | None = None, **options: Any) -> Device:
        """A client that sends its CONNECT."""
        device = self.link(name, version)
        device.send(mqtt.connect(name if client_id is None else client_id, version, **options))
        self.note(f"{name} connects, {version}, {options}")
        return device

    def send(self, name: str, what: str, *packets: bytes) -> None:
        """A client sends packets."""
        self.devices[name].send(*packets)
        self.note(f"{name} {what}")

    def publish(self, name: str, topic: str, payload: bytes = b"x", qos: int = 0, number: int = 0, **more: Any) -> None:
        """A client publishes."""
        packet = mqtt.publish(topic, payload, qos, number, version=self.devices[name].version, **more)
        self.send(name, f"publishes {topic} {payload[:9]!r} q{qos} #{number} {more or ''}".rstrip(), packet)

    def subscribe(self, name: str, number: int, *filters: tuple[str, int], raw: bytes = b"") -> None:
        """A client subscribes."""
        packet = mqtt.subscribe(number, *filters, version=self.devices[name].version, raw=raw)
        self.send(name, f"subscribes #{number} to {filters}{f' {raw!r}' if raw else ''}", packet)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.bench.pass_time(seconds)
        self.note(f"{seconds:g} s pass")

    def leave(self, name: str) -> None:
        """A connection breaks."""
        self.devices.pop(name).leave()
        self.note(f"{name} is lost")

    def settle(self) -> None:
        """Identify who waits for it, and make durable what is to be."""
        broker = self.bench.broker
        while broker.asked:
            client = broker.asked.pop()
            assert client.connect is not None
            broker.admit(self.bench.now, client, self.access.check(client.connect, client.remote))
        if self.bench.store is not None:
            self.bench.sync()

    def note(self, what: str) -> None:
        """Write down what was done and what came of it."""
        self.settle()
        broker = self.bench.broker
        told = [f"[{text}]" for text in self.aside]
        for name, device in list(self.devices.items()):
            packets = device.read()
            self.owed.setdefault(device, []).extend(filter(None, [answer_to(one) for one in packets]))
            said = [packet_words(one, device.version) for one in packets]
            if device.is_closed():
                said.append(f"closed: {device.client.reason}")
                if name in self.devices:
                    del self.devices[name]
                device.leave()
            if said:
                told.append(f"{name} < {', '.join(said)}")
        told += [f"network < {run_words(run)}" for run in broker.published]
        broker.published.clear()
        self.aside.clear()
        stored = f" [{self.bench.store.end}]" if self.bench.store is not None else ""
        self.lines.append(f"{self.bench.now:8.2f} {what}{stored}")
        self.lines += [f"{'':9}{line:.260}" for line in told]

    def end(self) -> str:
        """Return all lines, with the sessions and the counters of the broker."""
        broker = self.bench.broker
        for name, session in sorted(broker.sessions.items()):
            facts = sorted(session.subscriptions), session.queued, session.under_way, session.dropped, session.expiry
            self.lines.append(f"session {name}: {facts}")
        self.lines.append(f"retained: {[run_words(run) for run in broker.retained]}")
        self.lines.append(", ".join(f"{what} {count}" for what, count in sorted(broker.statistics.items())))
        return "\n".join(self.lines) + "\n"


def answer_to(sent: Sent) -> bytes:
    """What a client answers to a packet."""
    if sent.kind == 3:
        qos, at = sent.flags >> 1 & 3, 2 + int.from_bytes(sent.body[:2], "big")
        return mqtt.acknowledge(3 + qos, int.from_bytes(sent.body[at : at + 2], "big")) if qos else b""
    answers = {5: 6, 6: 7}
    return mqtt.acknowledge(answers[sent.kind], int.from_bytes(sent.body[:2], "big")) if sent.kind in answers else b""


def packet_words(sent: Sent, version: int) -> str:
    """A packet of a broker in words."""
    if sent.kind != 3:
        return f"{NAMES[sent.kind]} {sent.body[:40].hex()}".rstrip()
    found = mqtt.publication(sent, version)
    flags = f"{' retained' * found.retain}{' again' * found.dup}"
    topic, number = found.topic or "alias", f"q{found.qos} #{found.number}"
    return f"{topic} {found.payload[:9]!r} {number}{flags} {found.properties.hex()}".rstrip()


def run_words(run: Publish) -> str:
    """Messages of a broker in words."""
    payloads = [bytes(payload[:9]) for payload in run.payloads]
    return f"{run.topic} {payloads} q{run.qos}{' retained' * run.retain} {run.properties or ''}".rstrip()


def mqtt_limits() -> str:
    """Each limit of the door is met, and who meets it is told."""
    limits = Limits(
        packet_size=300, clients=6, inflight=2, receive_maximum=2, queue_messages=3, sessions=2, session_expiry=60.0,
        retained=2, topic_aliases=2, subscriptions=2, keep_alive=20, connect_timeout=5.0,
    )  # fmt: skip
    story = DoorStory(limits)
    story.link("silent")
    story.wait(4.9)
    story.wait(0.2)
    story.connect("three", 3, client_id="c" * 24)
    story.connect("three", 3, keep_alive=10)
    story.connect("five", 5, keep_alive=100, raw=b"\x11\x00\x00\x00\x78\x19\x01", client_id="")
    story.connect("five", 5, keep_alive=100, raw=b"\x11\x00\x00\x00\x78\x19\x01\x21\x00\x05\x22\x00\x01", clean=False)
    story.subscribe("five", 1, ("a/+", 2), ("a/#", 1), ("b", 1), ("+/+/" + "x" * 9, 0))
    story.subscribe("three", 1, ("a/1", 1), ("$share/g/a/1", 0), ("$SYS/x", 0))
    story.connect("pub", 5)
    story.publish("pub", "a/1", b"alias", raw=b"\x23\x00\x02")
    story.publish("pub", "", b"again", raw=b"\x23\x00\x02")
    story.publish("pub", "a/brief", b"brief", 1, 7, raw=b"\x02\x00\x00\x00\x05")
    for number in range(1, 7):
        story.publish("pub", "a/1", b"%d" % number, 1, number)
    story.send("five", "acknowledges 1 and 2", mqtt.acknowledge(4, 1), mqtt.acknowledge(4, 2))
    for number in range(3):
        story.publish("pub", f"r/{number}", b"kept", 1, 20 + number, retain=True)
    story.publish("pub", "r/1", b"", 0, retain=True)
    story.publish("pub", "r/3", b"kept", retain=True)
    story.publish("pub", "$SYS/mine", b"no", 2, 40)
    for number in (30, 31, 30, 32):
        story.publish("pub", "q/2", b"%d" % number, 2, number)
    story.connect("pub", 5)
    story.publish("pub", "", b"unknown", raw=b"\x23\x00\x02")
    story.connect("pub", 5)
    story.publish("pub", "a/1", b"alias", raw=b"\x23\x00\x03")
    story.connect("pub", 5)
    story.publish("pub", "a/1", bytes(300))
    for number in range(4):
        story.connect(f"more{number}", 4, clean=False)
    for number in range(3):
        story.leave(f"more{number}")
    _too_long_and_unwanted(story)
    return story.end()


def _too_long_and_unwanted(story: DoorStory) -> None:
    """Clients ask for longer sessions than there are, and for enhanced authentication; then all time limits pass."""
    story.send("five", "says goodbye for longer", mqtt.packet(0xE0, b"\x00", mqtt.properties(b"\x11\xff\xff\xff\xff")))
    story.connect("auth", 5, raw=b"\x15\x00\x01x")
    story.connect("auth", 5)
    story.send("auth", "says AUTH", mqtt.packet(0xF0, b"\x18\x00"))
    story.connect("auth", 5)
    story.send(
        "auth", "stays, though it had to end", mqtt.packet(0xE0, b"\x00", mqtt.properties(b"\x11\x00\x00\x00\x09"))
    )
    story.wait(12)
    story.wait(4)
    story.wait(50)


def mqtt_rights() -> str:
    """Users with rules, wills, plug-ins that fail, rights that are taken away, and clients that are taken over."""
    story = DoorStory()
    story.connect("nobody", 5, user="nobody")
    story.connect("will", 5, user="reader", will=("a/lost", b"", 0, False))
    story.connect(
        "r", 5, user="reader", will=("r/reader", b"lost", 1, True), will_raw=b"\x18\x00\x00\x00\x03\x02\x00\x00\x00\x09"
    )
    story.connect("w", 4, user="writer", will=("a/w", b"lost", 2, False), keep_alive=4)
    story.connect("all", 5)
    story.subscribe("all", 1, ("#", 2), ("$share/group/a/#", 1))
    story.subscribe("r", 1, ("a/#", 0), ("b/#", 1), ("+/x", 1), ("$share/group/a/x", 1))
    story.subscribe("w", 1, ("a/+", 1), ("a/b/c", 1))
    for topic in ("a/x", "a/x/y", "b", "r/reader", "a/fail"):
        for number, name in enumerate("rw", 1):
            if name in story.devices:
                story.publish(name, topic, topic.encode(), number, 5)
                story.send(name, "finishes", mqtt.acknowledge(6, 5))
    story.publish("all", "a/fail", b"fails", 0)
    story.subscribe("r", 2, ("$share//a", 0))
    story.connect("fail", 4)
    story.connect("other r", 5, client_id="r", user="reader")
    story.wait(2)
    story.wait(2)
    story.wait(3)
    del story.access.users["reader"]
    story.access.users["writer"] = (Rule("read", "a/1"),)
    story.connect("w", 5, user="writer", clean=False, raw=b"\x11\x00\x00\x00\x1e")
    story.subscribe("w", 1, ("a/1", 1), ("a/2", 1))
    story.access.users["writer"] = (Rule("read", "b/#"),)
    story.bench.broker.recheck(story.bench.now)
    story.note("rights are looked at again")
    run = Publish("a/1", [b"one", b"two"], 1, True)
    story.bench.broker.deliver(story.bench.now, run)
    story.note("the network publishes a/1")
    story.send("all", "ends with its will", mqtt.packet(0xE0, b"\x04"))
    story.wait(31)
    return story.end()
