"""Recorded runs in which anything may happen, as a seed says: the first seconds as they were, then a hash of each ten.

Endpoints publish all kinds of messages, come and go, stop, sleep, ask, answer, keep, remember and share, while links
lose, delay and cut. The counters of all endpoints stand at the end. `python -m tests.recorded.wild NAME` shows the
whole run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

import glue
from glue.endpoint.core import PRIORITIES
from glue.security import new_key
from glue.simulation import Burst, Conditions, SimulatedEndpoint
from glue.simulation.segments import Segments
from tests.recorded.features import Feature

LINES = 40
"""Lines that stand in the record as they were."""
CONDITIONS = (
    Conditions(), Conditions(delay=0.01, jitter=0.015), Conditions(loss=0.03, delay=0.002), Conditions(loss=0.25),
    Conditions(rate=4e6, queue=0.05, delay=0.004), Conditions(burst=Burst(enter=0.02, leave=0.2), delay=0.02),
    Conditions(duplicate=0.2, reorder=0.3, reorder_delay=0.008, delay=0.001), Conditions(corrupt=0.05),
)  # fmt: skip
TOPICS = ("w/1", "w/2", "w/x/y", "v/1")
PATTERNS = ("#", "w/+", "w/#", "w/1", "+/1", "v/#")


class Wild(Feature):
    """A world in which a seed decides what happens next."""

    def __init__(self, seed: int, names: str, **settings: Any) -> None:
        super().__init__(seed, announce_interval=0.5, **settings)
        self.acts: dict[Callable[[SimulatedEndpoint], None], int] = {
            self.publish: 12, self.flood: 3, self.join: 4, self.quit: 2, self.change_link: 3, self.halt: 1,
            self.begin_again: 1, self.ask_others: 3, self.cut: 1, self.history: 2, self.promise: 2, self.many: 2,
        }  # fmt: skip
        self._held: list[tuple[SimulatedEndpoint, Any]] = []
        self._number = 0
        for name in names:
            self.begin(self.endpoint(name))

    def begin(self, endpoint: SimulatedEndpoint) -> None:
        """What each endpoint does as it starts."""
        endpoint.respond("w/ask", lambda request: request.payload)
        self.join(endpoint)

    def live(self, seconds: float) -> str:
        """Let so much time pass, with an act now and then; return the record."""
        begin = 0
        for second in range(int(seconds)):
            for _ in range(5):
                endpoint = self.random.choice(list(self.endpoints.values()))
                if endpoint.is_running and not endpoint.host.is_paused:
                    self.act(endpoint)
                self.step(0.2)
            if second % 10 == 9 and begin < len(self.lines):
                first = max(begin, LINES) if begin == 0 else begin
                text = repr(self.lines[first:]).encode()
                self.lines[first:] = [f"to {second + 1} s: {len(self.lines) - first} lines, {crc32(text):08x}"]
                begin = len(self.lines)
        return self.end()

    def act(self, endpoint: SimulatedEndpoint) -> None:
        """Let an endpoint do something; a refusal is written down."""
        try:
            self.random.choices(list(self.acts), list(self.acts.values()))[0](endpoint)
        except (glue.GlueError, BlockingIOError) as error:
            self.say(f"{endpoint.name} is refused: {self.words(error)}")

    def count_up(self) -> int:
        """The next number."""
        self._number += 1
        return self._number

    # --------------------------------------------------------------------------------------------------- acts

    def publish(self, endpoint: SimulatedEndpoint) -> None:
        """Publish one message of any kind, some with a receipt."""
        choice, number = self.random.choice, self.count_up()
        options: dict[str, Any] = {"priority": choice(list(PRIORITIES)), "retain": self.random.random() < 0.15}
        if self.random.random() < 0.3:
            options["lifespan"] = choice((0.05, 0.5, 3.0))
        if self.random.random() < 0.2:
            options |= {"type": "T", "properties": {"unit": "K"}}
        payload: Any = choice((number, b"%d" % number, bytes(choice((1, 1000, 1400, 9000, 70_000)))))
        if self.random.random() < 0.2:
            options["reliability"] = "best-effort"
        if self.random.random() < 0.3 and "reliability" not in options:
            self.ask(f"{number} of {endpoint.name}", endpoint, choice(TOPICS), payload, **options)
        else:
            endpoint.publish(choice(TOPICS), payload, **options)

    def flood(self, endpoint: SimulatedEndpoint) -> None:
        """Publish many messages, one after the other."""
        choice = self.random.choice
        self.stream(
            endpoint, choice(TOPICS), choice((20, 100)), choice((10, 900, 6000, 40_000)), choice((0.0005, 0.004)),
            reliability=choice(("reliable", "reliable", "best-effort")),
        )  # fmt: skip

    def many(self, endpoint: SimulatedEndpoint) -> None:
        """Publish many messages at once."""
        endpoint.publish_many(self.random.choice(TOPICS), [b"%d" % self.count_up() for _ in range(60)])

    def join(self, endpoint: SimulatedEndpoint) -> None:
        """Subscribe, in any way."""
        options: dict[str, Any] = self.random.choice((
            {}, {}, {"handling_time": 0.003}, {"max_rate": 8.0}, {"group": "g"}, {"local": False}, {"last": 2},
            {"start": "earliest"}, {"policy": "drop_oldest", "limit": 4, "handling_time": 0.02},
        ))  # fmt: skip
        if len(self._held) < 14:
            self._held.append((endpoint, self.listen(endpoint, self.random.choice(PATTERNS), **options)))

    def quit(self, endpoint: SimulatedEndpoint) -> None:
        """Take a subscription back."""
        for place, (owner, held) in enumerate(self._held):
            if owner is endpoint:
                del self._held[place]
                held.close()
                return

    def change_link(self, endpoint: SimulatedEndpoint) -> None:
        """Change how well an endpoint hears, or is heard."""
        way = self.random.choice(("source", "destination"))
        self.world.network.set_conditions(self.random.choice(CONDITIONS), **{way: endpoint.host})

    def halt(self, endpoint: SimulatedEndpoint) -> None:
        """Stop an endpoint for a while, as a machine that is busy."""
        endpoint.pause()
        self.world.after(self.random.choice((0.3, 2.5)), endpoint.resume)

    def begin_again(self, endpoint: SimulatedEndpoint) -> None:
        """End an endpoint in some way, and start it again."""
        getattr(endpoint, self.random.choice(("crash", "close")))()
        self._held = [pair for pair in self._held if pair[0] is not endpoint]

        def again() -> None:
            endpoint.restart()
            self.begin(endpoint)

        self.world.after(self.random.choice((0.2, 3.0)), again)

    def ask_others(self, endpoint: SimulatedEndpoint) -> None:
        """Ask a question."""
        number = self.count_up()

        def answered(reply: Any) -> None:
            try:
                told = f"{reply.payload} of {reply.responder}"
            except glue.GlueError as error:
                told = self.words(error)
            self.say(f"{endpoint.name} asked {number}: {told}")

        endpoint.request("w/ask", number, 1.0, retry=self.random.random() < 0.5, then=answered)

    def cut(self, endpoint: SimulatedEndpoint) -> None:
        """Cut an endpoint off for a while."""
        self.world.network.partition([endpoint.host])
        self.world.after(self.random.choice((0.2, 2.0)), self.world.network.heal)

    def history(self, endpoint: SimulatedEndpoint) -> None:
        """Remember, or forget."""
        if self.random.random() < 0.7:
            endpoint.remember(self.random.choice(PATTERNS), last=self.random.choice((3, 30)))
        else:
            endpoint.forget(self.random.choice(PATTERNS))

    def promise(self, endpoint: SimulatedEndpoint) -> None:
        """Leave a will, or a message for later."""
        if self.random.random() < 0.5:
            endpoint.will("w/will", f"will of {endpoint.name}", delay=self.random.choice((0.0, 1.0)))
        else:
            endpoint.publish("w/later", self.count_up(), delay=self.random.choice((0.1, 2.0)))


class TwoSegments(Wild):
    """Endpoints with two interfaces, whose links get better and worse on their own."""

    def __init__(self, seed: int, names: str) -> None:
        super().__init__(seed, "")
        self.segments = Segments(self.world, "eth0", "wlan0")
        self.acts = {act: weight for act, weight in self.acts.items() if act.__name__ not in ("change_link", "cut")}
        self.acts[self.change_segment] = 4
        for name in names:
            endpoint = self.segments.endpoint(name, announce_interval=0.5)
            self.endpoints[name] = endpoint
            endpoint.on_peer_added = partial(self._peer, name, "found")
            endpoint.on_peer_removed = partial(self._peer, name, "lost")
            endpoint.on_gap = partial(self._gap, name)
            self.begin(endpoint)

    def change_segment(self, endpoint: SimulatedEndpoint) -> None:
        """Change one of the segments."""
        self.segments[self.random.choice(("eth0", "wlan0"))].set_conditions(self.random.choice(CONDITIONS))


WILD: dict[str, Callable[[], str]] = {
    "wild-calm": lambda: Wild(41, "abc").live(30),
    "wild-crowd": lambda: Wild(42, "abcdef").live(14),
    "wild-tight": lambda: Wild(43, "abcd", queue_limit=100_000, receive_limit=60_000, parity=0.2).live(20),
    "wild-sealed": lambda: Wild(45, "abc", key=new_key(Random(45).randbytes)).live(16),
    "wild-segments": lambda: TwoSegments(44, "abc").live(20),
}

if __name__ == "__main__":
    LINES = sys.maxsize
    print(WILD[sys.argv[1]]())
