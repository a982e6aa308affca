"""Recorded runs in which endpoints wish for anything: qualities, presence, types, consumers, receivers, models, sleep.

As in the other wild runs a seed decides. Some wishes are mistakes, whose words stand in the record, too. What an
endpoint tells of itself and of others is written down now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import glue
from glue.endpoint.model_calls import compare_and_set, read_entry, read_items, write
from glue.endpoint.qos import SENSOR
from glue.model.state import ABSENT, AcquireLock, Delete, ReleaseLock, Set, Update
from glue.simulation import SimulatedEndpoint
from tests.recorded.features import Counting
from tests.recorded.small import little
from tests.recorded.wild import Wild

TOPICS = ("v/1", "v/2", "w/1", "w/x/y", "", "v/+", "$glue/x", "v//1")
PATTERNS = ("v/+", "w/#", "v/1", "#", "", "v/#/x")
SECONDS = (0.5, None, 0.2, 1.0, 5.0, -1, "x", 0)


@dataclass
class Reading:
    """A value of a typed topic."""

    value: float
    unit: str = "K"


@dataclass
class OtherReading:
    """A type that does not fit."""

    value: str


class Wishing(Wild):
    """A wild world with the wider surface of endpoints."""

    def __init__(self, seed: int, names: str, **settings: Any) -> None:
        self.held: list[tuple[SimulatedEndpoint, Any]] = []
        self.models: dict[str, Any] = {}
        super().__init__(seed, names, lease_intervals=3.0, **settings)
        self.acts: dict[Callable[[SimulatedEndpoint], None], int] = {
            self.publish: 5, self.wish_to_publish: 10, self.wish_to_subscribe: 7, self.quality: 6, self.announce: 3,
            self.watch: 2, self.will: 2, self.typed: 4, self.end_something: 5, self.keep_some: 1, self.begin_again: 1,
            self.look: 2, self.request_all: 2, self.cut: 1, self.rest: 1, self.receive: 8, self.share: 6,
            self.read_some: 4,
        }  # fmt: skip

    def begin(self, endpoint: SimulatedEndpoint) -> None:
        """What each endpoint does as it starts."""
        super().begin(endpoint)
        self.held = [pair for pair in self.held if pair[0] is not endpoint]
        self.models.pop(endpoint.name, None)

    def told(self, name: str) -> Callable[[Any], None]:
        """A handler that writes down what it is told."""
        return lambda what: self.say(f"{name} is told {self.words(what)}")

    def choose(self, **choices: tuple[Any, ...]) -> dict[str, Any]:
        """Draw some of these options."""
        drawn = [(name, values[0], values) for name, values in choices.items() if self.random.random() < 0.2]
        return {
            name: first if self.random.random() < 0.6 else self.random.choice(values) for name, first, values in drawn
        }

    def one_of(self, values: tuple[Any, ...]) -> Any:
        """One of these topics or patterns, of which the first four are right."""
        return self.random.choice(values[:4] if self.random.random() < 0.93 else values)

    def hold(self, endpoint: SimulatedEndpoint, what: Any) -> None:
        """Remember what may be ended later."""
        self.held.append((endpoint, what))

    # ------------------------------------------------------------------------------------------------- acts

    def wish_to_publish(self, endpoint: SimulatedEndpoint) -> None:
        """Publish with any options."""
        choice = self.random.choice
        options = self.choose(
            retain=(True,), lifespan=(0.05, 2.0, -1), priority=("urgent", "bulk", "never"), key=("k", "l", 3),
            reliability=("best-effort", "none"), properties=({"a": "b"}, {"a": 1}, {}), type=("T", "", "x" * 300),
            acks=("disk", "replicas", 1, 2, 0, "none"), delay=(0.2, 1.5, -1, 1e12), receipt=(True,),
            codec=("json", "x"),
        )  # fmt: skip
        if options.keys() & {"acks"} and "delay" not in options:
            options["receipt"] = True
        payload: Any = choice((self.count_up(), b"%d" % self.count_up(), "text", None, {"n": 1}, bytes(3000), "more"))
        made = endpoint.publish(self.one_of(TOPICS), payload, **options)
        if made is not None:
            self.hold(endpoint, made)

    def wish_to_subscribe(self, endpoint: SimulatedEndpoint) -> None:
        """Subscribe with any options."""
        options = self.choose(
            local=(False,), max_rate=(2.0, 0, "x"), group=("g", "h", "g/h"), deadline=(0.5, 2.0, 0), last=(1, 5, 0),
            start=("earliest", "latest", "-2s", 3, "soon"), consumer=("c", "d", "c/d"), ordered=(True,),
            by_hand=(True,), policy=("drop_newest", "drop_oldest", "disconnect", "x"), limit=(1, 6, 0),
            handling_time=(0.01, 0.2),
        )  # fmt: skip
        pattern: Any = self.random.choice((self.one_of(PATTERNS), self.one_of(PATTERNS), ["v/1", "w/#"]))
        held = [pair for pair in self.held if hasattr(pair[1], "close")]
        if len(held) < 20:
            self.hold(endpoint, self.listen(endpoint, pattern, **options))

    def read_some(self, endpoint: SimulatedEndpoint) -> None:
        """Read history, or share a durable consumer."""
        if len(self.readers) < 25:
            options: dict[str, Any] = self.random.choice((
                {"start": "earliest"}, {"last": 3}, {"consumer": "c", "start": "earliest"}, {"consumer": "c"},
                {"consumer": "d", "ordered": True}, {"start": "-2s"}, {"start": 5},
            ))  # fmt: skip
            self.read(f"reader {self.count_up()}", endpoint, self.random.choice(("v/#", "v/1", "w/+")), **options)

    def quality(self, endpoint: SimulatedEndpoint) -> None:
        """Publish or subscribe with a quality of service."""
        choice = self.random.choice
        qos = choice((glue.EVENT, glue.STATE, SENSOR)) if self.random.random() < 0.5 else glue.QoS()
        changes = self.choose(
            reliability=("best-effort", "reliable"), history=(glue.keep_last(3), glue.keep_all),
            durability=("volatile", "transient_local", "transient", "persistent"), lifespan=SECONDS, deadline=SECONDS,
            liveliness=SECONDS, overflow=("drop_oldest", "block"), priority=("high", "low"), count=(2, 0),
            ownership=("exclusive", "shared"), strength=(1, 5), strict=(True,), age=("1m", 0.5), size=("1kB", 0),
        )  # fmt: skip
        topic = endpoint.topic(self.one_of(PATTERNS), qos=qos.replace(**changes))
        if self.random.random() < 0.6:
            topic.publish(self.count_up(), topic=choice((None, *TOPICS[:4])))
        else:
            self.hold(endpoint, topic.subscribe(self.told(f"{endpoint.name} {sorted(changes)}")))

    def announce(self, endpoint: SimulatedEndpoint) -> None:
        """Announce what is published."""
        self.hold(endpoint, endpoint.announce(self.one_of(PATTERNS), publish_every=self.one_of(SECONDS)))

    def watch(self, endpoint: SimulatedEndpoint) -> None:
        """Watch who is there."""
        watched = endpoint.watch_presence(self.one_of(PATTERNS), self.told(f"{endpoint.name} of presence"))
        self.hold(endpoint, watched)

    def will(self, endpoint: SimulatedEndpoint) -> None:
        """Leave a will."""
        delay, retain = self.random.choice((0.0, 0.0, 1.0, 1.0, 0.3, -1.0)), self.random.random() < 0.5
        self.hold(endpoint, endpoint.will(self.one_of(TOPICS), self.count_up(), retain=retain, delay=delay))

    def typed(self, endpoint: SimulatedEndpoint) -> None:
        """Publish or subscribe with a type, perhaps another one than the others have."""
        kind = self.random.choice((Reading, Reading, Reading, OtherReading))
        topic = endpoint.topic(self.random.choice(("t/1", "t/+", "t/#")), kind)
        if self.random.random() < 0.5:
            name, value = self.random.choice((None, "t/1", "t/2", "v/1")), self.random.choice((1.5, "one"))
            topic.publish(kind(value), topic=name)  # type: ignore[arg-type]  # wrong on purpose, now and then
        else:
            self.hold(endpoint, topic.subscribe(self.told(f"{endpoint.name} of {kind.__name__}")))

    def end_something(self, endpoint: SimulatedEndpoint) -> None:
        """End something that this endpoint began."""
        own = [pair for pair in self.held if pair[0] is endpoint]
        if own:
            pair = self.random.choice(own)
            self.held.remove(pair)
            for name in ("close", "withdraw", "cancel"):
                if hasattr(pair[1], name):
                    self.say(f"{endpoint.name} ends {type(pair[1]).__name__}: {getattr(pair[1], name)()}")

    def keep_some(self, endpoint: SimulatedEndpoint) -> None:
        """Keep topics."""
        options = self.choose(age=("10s", -1), size=("20kB", "x"), count=(5, 0), replicas=(1, 2, 0))
        if endpoint.name in "ab" and endpoint.name not in self.disks:
            self.keep(endpoint, self.random.choice(("v/#", "w/#")), **options)

    def look(self, endpoint: SimulatedEndpoint) -> None:
        """Write down what an endpoint knows."""
        topic = self.random.choice(TOPICS[:4])
        told = endpoint.subscribers(topic), endpoint.responders("w/ask"), endpoint.peers, endpoint.describe()
        self.say(f"{endpoint.name} knows {self.words(told[:3])} {len(told[3].splitlines())} lines")
        for line in told[3].splitlines()[-2:]:
            self.say(self.words(line))
        self.say(f"{endpoint.name} {self.words(endpoint.accounting)}")
        for owner, what in self.held[-4:]:
            if owner is endpoint:
                facts = [
                    f"{name} {getattr(what, name)}"
                    for name in ("complete", "delivered", "waiting")
                    if hasattr(what, name)
                ]
                self.say(self.words(f"{type(what).__name__} {facts}"))

    def request_all(self, endpoint: SimulatedEndpoint) -> None:
        """Ask all who answer."""
        timeout: Any = self.random.choice((0.3, 1.0, 0, "x"))
        endpoint.request_all(self.random.choice(("w/ask", "v/1", "")), self.count_up(), timeout, then=self.replied)

    def replied(self, reply: Any) -> None:
        """Write down a reply."""
        try:
            self.say(f"a reply: {self.words(reply.payload)} of {reply.responder}")
        except glue.GlueError as error:
            self.say(f"a reply: {self.words(error)}")

    def rest(self, endpoint: SimulatedEndpoint) -> None:
        """Sleep, which only some endpoints may."""
        endpoint.sleep(self.random.choice((None, 0.5, 2.0)), then=self.told(f"{endpoint.name} awake"))

    def share(self, endpoint: SimulatedEndpoint) -> None:
        """Write to a model, or take a lock in it."""
        model = self.models.get(endpoint.name)
        if model is None or self.random.random() < 0.1:
            self.models[endpoint.name] = endpoint.model("m", voters=self.random.choice((3, 3, 3, 2)))
            return
        key, choice = self.random.choice(("k/1", "k/2", "", "k/+")), self.random.choice
        call: Any = choice((
            lambda: write(Set(key, self.count_up())), lambda: write(Delete(key), Set("k/2", 1)),
            lambda: write(Update(key, {"a": self.count_up()}), patient=True), lambda: read_entry(key),
            lambda: read_items(key or "#"), lambda: compare_and_set(key, choice((ABSENT, 1)), self.count_up()),
            lambda: write(AcquireLock("door", endpoint.id, 900)), lambda: write(ReleaseLock("door", endpoint.id)),
        ))()  # fmt: skip

        def ended(ending: Any) -> None:
            try:
                self.say(f"{endpoint.name} of its model: {self.words(call.result(ending))}")
            except glue.GlueError as error:
                self.say(f"{endpoint.name} of its model: {self.words(error)}")

        model.ask(call.question, choice((0.5, 3.0)), ended)

    def receive(self, endpoint: SimulatedEndpoint) -> None:
        """Host receivers, or ask one."""
        if endpoint.name in self.models and self.random.random() < 0.4:
            endpoint.receivers("sum", Counting, self.models[endpoint.name], partitions=4, idle=2.0)
        else:
            address = self.random.choice((":sum/r1", ":sum/r2", ":sum/r3", ":sum/r4", "sum/r3", "sum", "other/x"))
            endpoint.ask(
                address,
                self.random.choice((1, 1, 5, "wait", "fail")),
                1.0,
                lambda error, payload: self.told("asked")((error, payload)),
            )


WISHES: dict[str, Callable[[], str]] = {
    "wild-wishes": lambda: Wishing(81, "abc").live(70),
    "wild-wishes-more": lambda: Wishing(82, "abcd").live(45),
    "little-wishes": little(lambda: Wishing(83, "abc").live(40)),
}
