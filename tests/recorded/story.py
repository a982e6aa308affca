"""Writes down a run of the simulator: one line for each step, what the user saw, and the counters at the end.

A step tells only what changed since the one before: how many messages each subscription has had, and what is owed. The
end tells for each subscription when messages came on average, and a hash of them in their order. The last line is a
hash of each datagram and its time: what differs there alone is shown by `python -m tests.recorded.datagrams NAME`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any
from zlib import crc32

from glue import Gap, Message, Peer
from glue.endpoint.receipt import Receipt
from glue.simulation import SimulatedEndpoint, SimulatedSubscription, World


class Diary:
    """What the user of one subscription saw."""

    def __init__(self, story: Story, name: str) -> None:
        self.name = name
        self.count = 0
        self._story = story
        self._bytes = 0
        self._times = 0.0
        self._hash = 0

    def take(self, message: Message) -> None:
        """Note one message, and when it came."""
        payload = message.payload if isinstance(message.payload, bytes) else repr(message.payload).encode()
        self.count += 1
        self._bytes += len(payload)
        self._times += self._story.world.time
        facts = message.topic, message.sequence, message.type, message.retained
        self._hash = crc32(payload, crc32(repr(facts).encode(), self._hash))

    def __str__(self) -> str:
        mean = self._times / max(1, self.count)
        return f"{self.name}: {self.count} messages, {self._bytes} B, on average at {mean:.4f}, {self._hash:08x}"


class Story:
    """A world whose happenings are written down in `lines`."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.world = World(seed)
        self.random = self.world.random("story")
        self.lines: list[str] = []
        self.endpoints: dict[str, SimulatedEndpoint] = {}
        self.receipts: dict[str, Receipt] = {}
        self._settings = settings
        self._diaries: list[Diary] = []
        self._told: dict[str, int] = {}
        self._gaps: dict[str, list[int]] = {}

    def endpoint(self, name: str, **settings: Any) -> SimulatedEndpoint:
        """Start an endpoint and write down what it is told of others."""
        endpoint = self.world.endpoint(name, **{**self._settings, **settings})
        key = name if name not in self.endpoints else f"{name} again"
        self.endpoints[key] = endpoint
        endpoint.on_peer_added = partial(self._peer, key, "found")
        endpoint.on_peer_removed = partial(self._peer, key, "lost")
        endpoint.on_name_clash = partial(self._peer, key, "clashes with")
        endpoint.on_gap = partial(self._gap, key)
        endpoint.on_lost = lambda cause, count: self.say(f"{key} is told that {count} were lost: {cause}")
        return endpoint

    def say(self, text: str) -> None:
        """Write down something with its time."""
        self.lines.append(f"{self.world.time:8.4f} {text}")

    def _peer(self, name: str, what: str, peer: Peer) -> None:
        begin, found = (
            f"{self.world.time:8.4f} {name} {what} ",
            f"{peer.name}{f' ({peer.reason})' if peer.reason else ''}",
        )
        if self.lines and self.lines[-1].startswith(begin):
            self.lines[-1] += f", {found}"
        else:
            self.lines.append(begin + found)

    def _gap(self, name: str, gap: Gap) -> None:
        what = f"{name} misses of {gap.topic} for {gap.pattern}: {gap.cause}"
        self._gaps.setdefault(what, []).append(gap.count)

    def listen(self, endpoint: SimulatedEndpoint, pattern: str, **options: Any) -> SimulatedSubscription:
        """Subscribe, and note what comes."""
        diary = Diary(self, f"{endpoint.name} {pattern}")
        self._diaries.append(diary)
        return endpoint.subscribe(pattern, diary.take, **options)

    def ask(self, name: str, endpoint: SimulatedEndpoint, topic: str, payload: Any, **options: Any) -> None:
        """Publish with a receipt, which the next step tells."""
        self.receipts[name] = endpoint.publish(topic, payload, receipt=True, **options)

    def stream(
        self, endpoint: SimulatedEndpoint, topic: str, count: int, size: int, every: float, **options: Any
    ) -> None:
        """Publish so many messages from now on, one at a time; what is refused is counted."""
        refused: Counter[str] = Counter()

        def publish(number: int) -> None:
            if endpoint.is_running and not endpoint.host.is_paused:
                try:
                    endpoint.publish(topic, b"%06d" % number + bytes(max(0, size - 6)), **options)
                except BlockingIOError:
                    refused["refused"] += 1
            if number + 1 < count:
                self.world.after(every, lambda: publish(number + 1))
            elif refused:
                self.say(f"{endpoint.name} was refused {refused['refused']} of {count} on {topic}")

        publish(0)

    def step(self, seconds: float, times: int = 1) -> None:
        """Let time pass, and write down how things are."""
        for _ in range(times):
            self.world.run(seconds)
            for what, counts in self._gaps.items():
                self.say(f"{what}, {sum(counts)} in {len(counts)}")
            self._gaps.clear()
            now = {f"{number} {d.name}": d.count for number, d in enumerate(self._diaries)}
            now |= {f"owed by {name}": e.backlog for name, e in self.endpoints.items() if e.is_running}
            changed = [f"{name} {count}" for name, count in now.items() if count != self._told.get(name, 0)]
            self._told = now
            if changed:
                self.say("; ".join(changed))
            for name, receipt in list(self.receipts.items()):
                had, awaited = sorted(receipt.delivered), sorted(receipt.pending)
                self.say(f"receipt {name}: had by {had}, not yet by {awaited}, {receipt.lost}")
                if receipt.complete:
                    del self.receipts[name]

    def end(self) -> str:
        """Return all lines, with the counters of every endpoint and of the network."""
        self.lines += [str(diary) for diary in self._diaries if diary.count]
        for name, endpoint in self.endpoints.items():
            for layer, counts in endpoint.statistics.items():
                told = ", ".join(f"{what} {count}" for what, count in sorted(counts.items()) if count)
                if told:
                    self.lines.append(f"{name} {layer}: {told}")
        self.lines.append("network: " + ", ".join(f"{w} {n}" for w, n in sorted(self.world.network.totals().items())))
        self.lines.append(f"all datagrams and turns: {self.world.trace_hash[:8]}")
        return "\n".join(self.lines) + "\n"
