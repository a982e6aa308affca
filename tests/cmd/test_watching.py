"""What `glue spy` asks of the network while it watches: samples, types, losses, and who is there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from glue.cmd import watching
from glue.cmd.watching import Watch, sample_of, topic_fields
from glue.schema import PUBLISH, SUBSCRIBE
from glue.spying.bus import Sample
from glue.spying.roles import Roles
from glue.topics.samples import CODEC, SIZE
from tests.cmd.prepared import Time


class Network:
    """An endpoint with peers and announced types."""

    def __init__(self) -> None:
        self.peers: list[int] = []
        self.directory: list[Any] = []
        self.watched: list[Any] = []
        types = SimpleNamespace(directory=self.directory)
        self._core = SimpleNamespace(types=types, requests=SimpleNamespace(name_of="name of {}".format))

    def watch_presence(self, pattern: str, note: Any) -> None:
        self.watched.append(pattern)
        self.note = note


class Watching:
    """A watch at a network, and what it asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interval: float = 1.0) -> None:
        self.time, self.network = Time(), Network()
        self.samples: list[tuple[Any, ...]] = []
        self.closed: list[int] = []
        self.asked: list[tuple[Any, ...]] = []

        def sample(endpoint: Any, *told: Any) -> Any:
            self.samples.append((told[0], *told[2:]))
            self.take = told[1]
            number = len(self.samples)
            return SimpleNamespace(close=lambda: self.closed.append(number))

        def begin(endpoint: Any, *told: Any) -> Any:
            self.asked.append(told)
            return len(self.asked)

        monkeypatch.setattr(watching, "time", self.time)
        monkeypatch.setattr(watching, "sample", sample)
        monkeypatch.setattr(watching, "begin", begin)
        monkeypatch.setattr(watching, "answered", lambda inquiry: [f"answers to {inquiry}"])
        network: Any = self.network
        self.watch = Watch(network, "home/#", interval)


def test_samples_are_shared_by_the_publishers_and_asked_for_anew_when_many_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Watching(monkeypatch)
    counts = []
    for peers in (0, 1, 2, 3, 5, 9, 17, 33, 65, 200, 2):
        seen.network.peers = [0] * peers
        seen.watch._sample_again()
        counts.append(seen.samples[-1][-1])
    assert counts == [4_000, 4_000, 2_000, 1_000, 500, 250, 125, 62, 50, 50, 2_000]
    assert seen.samples[0] == ("home/#", 1.0, 4_000)
    assert len(seen.samples) == 9
    assert seen.closed == [*range(1, 9)], "the former ones end once the next ones have begun"
    assert seen.network.watched == ["#"]
    quick = Watching(monkeypatch, 0.1)
    assert quick.samples == [("home/#", 0.1, 400)]
    quick.network.peers = [0] * 5_000
    quick.watch._sample_again()
    assert quick.samples[-1][-1] == 5
    assert Watching(monkeypatch, 3_600.0).samples[0][-1] == 10_000
    network: Any = Network()
    assert Watch(network, "#").interval == 1.0


def test_losses_are_asked_for_every_two_seconds_and_taken_then(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watching(monkeypatch)
    taken: list[tuple[float, Any]] = []
    monkeypatch.setattr(seen.watch.losses, "take", lambda answers: taken.append((seen.time.now, answers)))
    for _ in range(5):
        seen.watch.look()
        seen.time.now += 1.0
    assert seen.asked == [(["activity"], 1.0)] * 3
    assert taken == [(1_002.0, ["answers to 1"]), (1_004.0, ["answers to 2"])]


def test_types_are_those_that_are_announced_now(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watching(monkeypatch)
    for way, pattern in ((PUBLISH, "a"), (SUBSCRIBE, "b")):
        seen.network.directory.append(("1", SimpleNamespace(pattern=pattern, way=way, label="T#1")))
    seen.watch.look()
    roles = seen.watch.roles
    assert [roles.names(*one) for one in (("a", "publisher"), ("b", "subscriber"), ("a", "subscriber"))] == [
        ["name of 1"], ["name of 1"], [],
    ]  # fmt: skip
    assert roles.type_of("a") == "T#1"
    del seen.network.directory[0]
    seen.watch.look()
    assert (roles.type_of("a"), roles.type_of("b")) == ("", "T#1")


def test_who_comes_and_goes_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watching(monkeypatch)

    def note(kind: str, present: bool, **more: str) -> None:
        given = {"pattern": "home/#", "name": "hall", "id": "k", **more}
        seen.network.note(SimpleNamespace(kind=kind, present=present, **given))

    seen.watch.bus.take(1.0, Sample("home/a", 1, 1, "json", "kitchen", "k", 1, 1, 1.0))
    note("subscriber", True)
    assert seen.watch.roles.names("home/a", "subscriber") == ["hall"]
    note("endpoint", True)
    assert [*seen.watch.bus.topics["home/a"].sources] == ["k"]
    note("endpoint", False)
    assert [*seen.watch.bus.topics["home/a"].sources] == []
    note("subscriber", False)
    assert seen.watch.roles.names("home/a", "subscriber") == []


def test_a_sample_is_what_its_message_says_and_when_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def message(payload: Any, **more: Any) -> Any:
        given: dict[str, Any] = {
            "encoded": None, "properties": {}, "codec": None, "type": None, "topic": "home/a", "publisher": "kitchen",
            "publisher_id": "k", "incarnation": 2, "sequence": 7, "published_at": 5.0, "retained": True,
        }  # fmt: skip
        return SimpleNamespace(payload=payload, **{**given, **more})

    whole = sample_of(message(1, encoded=b"1"))
    assert whole == Sample("home/a", 1, 1, "json", "kitchen", "k", 2, 7, 5.0, True, "")
    found = [
        sample_of(message(b"ab", **more))[2:4] + sample_of(message(b"ab", **more))[-1:]
        for more in (
            {}, {"encoded": b"abc"}, {"encoded": b"abc", "properties": {SIZE: "2"}}, {"properties": {SIZE: "9"}},
            {"type": "T"}, {"codec": "msgpack"}, {"codec": "msgpack", "properties": {SIZE: "9"}},
            {"properties": {SIZE: "9", CODEC: "1"}},
        )
    ]  # fmt: skip
    assert found == [
        (0, "bytes", ""), (3, "bytes", ""), (3, "bytes", ""), (9, "bytes", ""), (0, "T", ""), (0, "msgpack", "msgpack"),
        (9, "bytes", ""), (9, "msgpack", ""),
    ]  # fmt: skip
    seen = Watching(monkeypatch)
    seen.take(message(1, encoded=b"1"))
    assert (seen.watch.bus.topics["home/a"].received_at, seen.watch.bus.samples) == (1_000.0, 1)


def test_programs_get_a_topic_with_rounded_numbers() -> None:
    topic: Any = SimpleNamespace(
        name="t", payload=1, type="json", size=1, mean_size=10.04, count=2, sources={}, retained=False,
        published_at=1.0, rate_at=lambda now: now / 3,
    )  # fmt: skip
    watch: Any = SimpleNamespace(roles=Roles(), losses=SimpleNamespace(worst=lambda *_: 0.123456))
    found = topic_fields(topic, watch, 1.0)
    assert (found["rate"], found["bytes_rate"], found["loss"]) == (0.333, 3.3, 0.1235)
