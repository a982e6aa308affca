"""Recorded runs of what endpoints do beside publishing: history, keepers, consumers, sleep, presence, wills, receivers.

Whatever a callback of the endpoint is told stands in the record, with its time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

import glue
from glue.simulation import Burst, Conditions, SimulatedEndpoint
from glue.simulation.disk import SimulatedDisk
from tests.recorded.story import Story

LONG = re.compile(r"\d+\.\d{4,}")
TOLD = ("heal", "wake", "conflict", "consumer_alert", "deadline", "qos_mismatch", "mismatch")


class Feature(Story):
    """A story whose endpoints tell everything that callbacks can tell, and whose hosts may have disks."""

    def __init__(self, seed: int, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.disks: dict[str, SimulatedDisk] = {}
        self.readers: dict[str, Any] = {}

    def endpoint(self, name: str, **settings: Any) -> SimulatedEndpoint:
        """Start an endpoint and write down whatever it is told."""
        endpoint = super().endpoint(name, **settings)
        for what in TOLD:
            setattr(endpoint, f"on_{what}", partial(self._callback, name, what))
        return endpoint

    def _callback(self, name: str, what: str, told: Any) -> None:
        self.say(f"{name}, {what}: {self.words(told)}")

    def words(self, what: object) -> str:
        """An object in words, without ids."""
        text = str(what) if isinstance(what, str) else repr(what)
        for name, endpoint in self.endpoints.items():
            text = text.replace(endpoint.id, name)
        return LONG.sub(lambda number: f"{float(number[0]):.3f}", text)[:240]

    def keep(self, endpoint: SimulatedEndpoint, pattern: str, **options: Any) -> Any:
        """Keep topics on the disk of the endpoint's host."""
        disk = self.disks.setdefault(endpoint.name, SimulatedDisk(Random(len(self.disks))))
        return endpoint.keep(pattern, directory=disk, **options)

    def read(self, name: str, endpoint: SimulatedEndpoint, pattern: str, **options: Any) -> None:
        """Subscribe with history; the numbers that come stand in the record at the end of each step."""
        numbers: list[str] = []
        self.readers[name] = numbers, 0
        endpoint.subscribe(pattern, lambda m: numbers.append(f"{m.payload}{'!' * m.redelivered}"), **options)
        self.say(f"{name} reads {pattern} at {endpoint.name} {options}")

    def step(self, seconds: float, times: int = 1) -> None:
        """Let time pass; tell what readers had."""
        for _ in range(times):
            super().step(seconds)
            for name, (numbers, told) in self.readers.items():
                if len(numbers) > told:
                    self.say(f"{name} had {_shortened(numbers[told:])}")
                    self.readers[name] = numbers, len(numbers)

    def count(self, endpoint: SimulatedEndpoint, topics: list[str], begin: int, end: int, every: float = 0.01) -> None:
        """Publish these numbers to topics in turn, beginning now."""

        def publish(number: int) -> None:
            if endpoint.is_running and not endpoint.host.is_paused:
                endpoint.publish(topics[number % len(topics)], number)
            if number + 1 < end:
                self.world.after(every, lambda: publish(number + 1))

        publish(begin)


def _shortened(numbers: list[str]) -> str:
    text = " ".join(numbers)
    return text if len(text) < 140 else f"{text[:90]}… {numbers[-1]}: {len(numbers)}, {crc32(text.encode()):08x}"


def remembered() -> str:
    """Publishers remember, readers come late, are too slow, are cut off, and ask for what is gone."""
    story = Feature(31, announce_interval=0.5)
    a, b, late, cut = (story.endpoint(name) for name in ("a", "b", "late", "cut"))
    a.remember("h/#", last=20)
    b.remember("h/x", age=1.5)
    b.remember("h/+", size=40_000)
    story.step(0.5)
    story.read("live", cut, "h/#", start="latest")
    story.count(a, ["h/x", "h/y"], 0, 100)
    story.count(b, ["h/x", "h/z"], 1000, 1100)
    story.step(0.8)
    story.world.network.set_conditions(Conditions(loss=0.1, delay=0.002), destination=late.host)
    story.read("earliest", late, "h/#", start="earliest")
    story.read("last", late, "h/+", last=3)
    story.read("seconds", late, "h/#", start="-0.5s")
    story.read("number", late, "h/x", start=25)
    story.step(0.4)
    story.world.network.partition([cut.host])
    story.step(2.0)
    story.count(a, ["h/x", "h/y"], 100, 130)
    story.step(1.0)
    story.world.network.heal()
    story.step(1.0, 4)
    b.crash()
    story.count(a, ["h/y"], 130, 140)
    story.read("after", late, "h/#", start="earliest", handling_time=0.02)
    story.step(2.0, 2)
    return story.end()


def kept() -> str:
    """Keepers with disks: receipts, retention, a crash, a split that heals, and readers when publishers are gone."""
    story = Feature(32, announce_interval=0.5)
    a, reader = story.endpoint("a"), story.endpoint("reader")
    keepers = [story.endpoint(f"k{number}") for number in range(3)]
    for keeper in keepers:
        story.keep(keeper, "k/#", count=400, replicas=2)
    story.step(1.0)
    story.count(a, ["k/1", "k/2", "k/3"], 0, 120)
    for name, acks in (("disk", "disk"), ("replicas", "replicas"), ("three", 3)):
        story.ask(name, a, "k/1", f"asked {name}", acks=acks)
    story.step(0.5, 3)
    story.read("early", reader, "k/#", start="earliest")
    story.world.network.set_conditions(Conditions(loss=0.05, delay=0.001))
    story.step(1.0)
    story.world.network.partition([keepers[0].host, a.host], [keepers[1].host, keepers[2].host, reader.host])
    story.count(a, ["k/1", "k/2", "k/3"], 120, 180)
    story.ask("cut", a, "k/1", "asked while cut", acks="replicas")
    story.step(2.0, 2)
    story.world.network.heal()
    story.step(2.0, 3)
    keepers[1].crash()
    story.disks["k1"].crash()
    story.count(a, ["k/1", "k/2", "k/3"], 180, 240)
    story.step(2.0)
    keepers[1].restart()
    story.keep(keepers[1], "k/#", count=400, replicas=2)
    story.step(2.0, 2)
    a.close()
    story.world.network.clear_conditions()
    late = story.endpoint("late")
    story.read("orphans", late, "k/2", start="earliest")
    story.read("last of each", late, "k/+", last=1)
    story.step(1.0, 3)
    return story.end()


def consumed() -> str:
    """Durable consumers: members share and leave, one acknowledges by hand, their home crashes and is elected anew."""
    story = Feature(33, announce_interval=0.5, consumer_alert=4.0)
    a = story.endpoint("a")
    keepers = [story.endpoint(f"k{number}") for number in range(3)]
    members = [story.endpoint(f"m{number}") for number in range(3)]
    for keeper in keepers:
        story.keep(keeper, "o/#")
    story.step(1.0)
    story.count(a, ["o/1", "o/2"], 0, 40)
    for member in members[:2]:
        story.read(f"work at {member.name}", member, "o/#", consumer="work", start="earliest")
    story.read("books", members[2], "o/1", consumer="books", by_hand=True)
    story.read("ordered", members[2], "o/#", consumer="ordered", ordered=True, handling_time=0.01)
    story.step(1.0)
    members[0].crash()
    story.count(a, ["o/1", "o/2"], 40, 60)
    story.step(1.0, 2)
    keepers[0].crash()
    story.count(a, ["o/1", "o/2"], 60, 90)
    story.step(2.0, 2)
    keepers[0].restart()
    story.keep(keepers[0], "o/#")
    story.world.network.partition([keepers[2].host, members[2].host])
    story.count(a, ["o/1", "o/2"], 90, 110)
    story.step(2.0, 2)
    story.world.network.heal()
    members[0].restart()
    story.read("work at m0 again", members[0], "o/#", consumer="work")
    story.step(2.0, 2)
    return story.end()


def asleep() -> str:
    """Endpoints that sleep: what waits for them, what cannot, publishers that end meanwhile, losses as they wake up."""
    story = Feature(34, announce_interval=0.5, lease_intervals=3.0)
    a, b, other = (story.endpoint(name) for name in ("a", "b", "other"))
    nodes = [story.endpoint(f"n{number}", sleep=6.0) for number in range(2)]
    for endpoint in (*nodes, other):
        story.listen(endpoint, "s/#")
    story.step(0.5)
    nodes[0].sleep()
    nodes[1].sleep(3.0, then=lambda woke: story.say(f"n1 is up: {woke}"))
    story.step(0.5)
    story.count(a, ["s/1", "s/2"], 0, 60)
    story.stream(b, "s/best", 20, 300, 0.02, reliability="best-effort")
    story.stream(b, "s/brief", 20, 300, 0.02, lifespan=1.0)
    story.stream(b, "s/large", 12, 400_000, 0.05)
    b.publish("s/kept", "retained", retain=True)
    story.step(2.0, 2)
    nodes[1].sleep()
    b.crash()
    story.world.network.set_conditions(Conditions(burst=Burst(enter=0.1, leave=0.3)))
    story.count(a, ["s/1"], 60, 80)
    story.step(2.0, 2)
    nodes[0].sleep(1.0)
    story.step(1.0, 3)
    story.world.network.clear_conditions()
    story.count(other, ["s/3"], 80, 90)
    nodes[0].crash()
    story.step(3.0, 3)
    return story.end()


def promised() -> str:
    """Presence, deadlines, wills, delayed messages, groups, rates, and qualities of service that do not fit."""
    story = Feature(35, announce_interval=0.5, lease_intervals=3.0)
    a, b, c, keeper = (story.endpoint(name) for name in ("a", "b", "c", "keeper"))
    story.keep(keeper, "p/#")
    c.watch_presence("p/#", lambda told: story.say(f"c sees {story.words(told)}"))
    story.listen(c, "p/#")
    story.read("slowly", c, "p/fast", max_rate=4.0)
    story.read("others", b, "p/own", local=False)
    for endpoint in (a, b, c):
        story.read(f"job at {endpoint.name}", endpoint, "p/jobs", group="workers", handling_time=0.05)
    story.step(0.5)
    c.subscribe("p/beat", deadline=1.0)
    beat = a.announce("p/beat", publish_every=0.5)
    a.will("p/lost", "a is lost", retain=True)
    a.will("p/later", "a is still lost", delay=2.0)
    b.will("p/withdrawn", "never").withdraw()
    b.topic("p/quality", qos=glue.STATE).publish("state")
    c.topic("p/quality", qos=glue.EVENT).subscribe(lambda message: None)
    story.count(a, ["p/beat"], 0, 3, 0.5)
    story.count(a, ["p/fast"], 100, 160, 0.02)
    story.count(b, ["p/own"], 200, 203)
    story.count(b, ["p/jobs"], 300, 330)
    story.step(0.5, 3)
    for name, delay in (("soon", 0.7), ("dead", 4.0), ("cancelled", 1.0)):
        delayed = a.publish(f"p/{name}", name, delay=delay, receipt=True, acks=1)
        if name == "cancelled":
            story.world.after(0.3, delayed.cancel)
    story.step(0.5, 4)
    beat.close()
    a.crash()
    story.step(1.0, 7)
    b.close()
    story.step(1.0, 2)
    return story.end()


class Counting(glue.Receiver):
    """Adds what it is sent, tells the sum, and wakes itself up."""

    idle = 1.0

    def receive(self, context: glue.Context, message: Any) -> Any:
        """Take one message."""
        state = context.state
        if message == "fail":
            raise ValueError("as asked")
        if message == "wait":
            context.after(0.5, 100)
            context.after(3.0, 1000, durable=True)
            return "waiting"
        state["sum"] = state.get("sum", 0) + message
        return state["sum"]


def received() -> str:
    """Receivers at three hosts: questions from everywhere, timers, a host that crashes, and one that is cut off."""
    story = Feature(36, announce_interval=0.5)
    hosts = [story.endpoint(f"h{number}") for number in range(3)]
    caller = story.endpoint("caller")
    kinds = [host.receivers("sum", Counting, host.model("plant", voters=3), partitions=6) for host in hosts]

    def ask(name: str, message: Any) -> None:
        def answered(error: BaseException | None, payload: Any) -> None:
            story.say(f"{name} answers {message}: {payload if error is None else story.words(error)}")

        caller.ask(f":sum/{name}", message, 3.0, answered)

    def round_of_questions(first: int) -> None:
        for number in range(4):
            ask(f"r{number}", first + number)
        caller.send(":sum/sent", first)

    def places() -> None:
        story.say(
            "partitions: " + ", ".join(f"{host.name} {kind.owned}" for host, kind in zip(hosts, kinds, strict=True))
        )

    story.step(2.0, 2)
    places()
    round_of_questions(1)
    ask("r0", "fail")
    ask("r1", "wait")
    story.step(1.0)
    hosts[0].crash()
    round_of_questions(10)
    story.step(2.0, 3)
    places()
    round_of_questions(100)
    story.step(1.0)
    hosts[0].restart()
    kinds[0] = hosts[0].receivers("sum", Counting, hosts[0].model("plant", voters=3), partitions=6)
    story.step(2.0, 2)
    places()
    story.world.network.partition([hosts[1].host])
    round_of_questions(1000)
    story.step(2.0, 3)
    story.world.network.heal()
    story.step(2.0, 2)
    ask("r1", 0)
    ask("sent", 0)
    story.step(1.0, 2)
    places()
    return story.end()


FEATURES: dict[str, Callable[[], str]] = {
    scene.__name__: scene for scene in (remembered, kept, consumed, asleep, promised, received)
}
