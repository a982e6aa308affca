"""A session over parts that note what they are asked for: when it is open and due, what it takes and commits."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from glue.fastpath.session import PERIOD, FastSession

ANN, BOB = "a" * 16, "b" * 16


class Exchange:
    """The frames to and from one peer."""

    def __init__(self, waits_since: float = inf, counts: tuple[int, int] = (0, 0)) -> None:
        self.is_full, self.takes, self.waits_since, self._counts = False, True, waits_since, counts
        self.taken: list[Any] = []

    def take(self, now: float, numbers: tuple[Any, ...]) -> bool:
        self.taken.append((now, numbers))
        return self.takes

    def write(self, now: float, body: bytes) -> bytes:
        return b"frame at %d of " % now

    def commit(self) -> tuple[int, int]:
        return self._counts


class Lone:
    """A session with the peers ANN and BOB, and all its parts."""

    def __init__(self, **exchanges: Exchange) -> None:
        self.did: list[Any] = []
        self.exchanges = {ANN: Exchange(), BOB: Exchange(), **exchanges}
        self.bodies = {"fragmentation": 70, "model": 90}
        self.reads = True
        self.calm_until, self.transport_due = 300.0, 400.0
        self.session = FastSession({
            "serialization": SimpleNamespace(
                pattern=lambda entry: rb'("[ab]{16}",(?:\d+));' + entry, write=lambda entry, body: entry + body,
                commit=lambda received, sent: self.did.append(("datagrams", received, sent)),
            ),
            "discovery": SimpleNamespace(
                find=self.find,
                commit=lambda partner, at: self.did.append(("heard", partner.id, at)),
            ),
            "transport": SimpleNamespace(
                pattern=rb"(\d);", exchange=lambda partner: self.exchanges[partner.id], due=self.due
            ),
            "topics": SimpleNamespace(pattern=rb"(\w+);(\d):", receiver=self.receiver, sender=self.sender),
            **{name: SimpleNamespace(largest_body=lambda name=name: self.bodies[name]) for name in self.bodies},
        })  # fmt: skip
        self.refresh()

    def find(self, id: str) -> Any:
        return SimpleNamespace(incarnation=5, address=(id[0], 1), id=id) if id in self.exchanges else None

    def refresh(self) -> None:
        """Discovery's time, which is a property there."""
        self.session._discovery.calm_until = self.calm_until  # type: ignore[misc]

    def due(self, exchanges: Any) -> float:
        self.did.append(("due", *[exchange.waits_since for exchange in exchanges]))
        return self.transport_due

    def receiver(self, partner: Any, topic: bytes) -> Any:
        if topic == b"none":
            return None

        def read(numbers: Any, data: bytes, start: int) -> Any:
            return (numbers, data[start:]) if self.reads else None

        return SimpleNamespace(
            read=read, advance=lambda: self.did.append("advance"),
            commit=lambda now: self.did.append(("receiver", topic, now)),
        )  # fmt: skip

    def sender(self, topic: str, size: int) -> Any:
        assert size == 70, "the least of what the layers let pass"
        if topic == "none":
            return None
        peer = {"x": "c" * 16}.get(topic, BOB)
        return SimpleNamespace(
            peer=peer, largest=3, write=lambda at, payload, json: b"%d %b %d" % (at, payload, json),
            commit=lambda: self.did.append(("sender", topic)),
        )  # fmt: skip


def datagram(id: str = ANN, incarnation: int = 5, frame: int = 7, topic: str = "t", number: int = 1) -> bytes:
    return f'"{id}",{incarnation};{frame};{topic};{number}:payload'.encode()


def test_a_session_opens_if_all_layers_let_a_body_pass_and_is_open_until_it_is_committed() -> None:
    assert FastSession({}).open() == -inf
    for fragmentation, model, until in ((70, 90, 300.0), (90, 70, 300.0), (0, 90, -inf), (70, 0, -inf)):
        lone = Lone()
        lone.bodies = {"fragmentation": fragmentation, "model": model}
        assert (lone.session.open(), lone.session.is_open) == (until, until > 0)
    lone = Lone()
    assert (lone.session.receive(100.0, datagram()), lone.session.topic("t")) == (None, None), "not open yet"
    lone.session.open()
    lone.session.commit()
    assert (lone.session.is_open, lone.did) == (False, [])
    assert lone.session.receive(100.0, datagram()) is None


@pytest.mark.parametrize(("data", "source", "fields", "is_taken"), [
    (datagram(), None, {}, True), (datagram(), ("a", 1), {}, True), (datagram(), ("b", 1), {}, False),
    (datagram(incarnation=6), None, {}, False), (datagram(topic="none"), None, {}, False), (b"x", None, {}, False),
    (datagram(), None, {"reads": False}, False), (datagram(), None, {"takes": False}, False),
])  # fmt: skip
def test_a_message_passes_if_all_layers_take_it(
    data: bytes, source: Any, fields: dict[str, bool], is_taken: bool
) -> None:
    lone = Lone()
    lone.reads, lone.exchanges[ANN].takes = fields.get("reads", True), fields.get("takes", True)
    lone.session.open()
    for now in (100.0, 101.0):
        found: Any = lone.session.receive(now, data, source)
        assert found == (((b"1",), b"payload") if is_taken else None)
    assert lone.did == ["advance"] * (2 * is_taken)
    taken = [(now, (b"7",)) for now in (100.0, 101.0)]
    assert lone.exchanges[ANN].taken == (taken if is_taken or fields == {"takes": False} else [])


def test_a_message_leaves_if_its_topic_and_the_window_have_room() -> None:
    lone = Lone()
    lone.session.open()
    assert (lone.session.topic("none"), lone.session.topic("x")) == (None, None)
    way = lone.session.topic("t")
    assert way is not None
    assert lone.session.topic("t") is way
    for payload, is_full, expected in (
        (b"abc", False, (b"frame at 100 of 9 abc 1", ("b", 1))), (b"abcd", False, None), (b"abc", True, None),
    ):  # fmt: skip
        lone.exchanges[BOB].is_full = is_full
        assert lone.session.send(100.0, 9.0, way, payload, True) == expected


@pytest.mark.parametrize(("since", "calm", "transport", "due"), [
    ((inf, inf), 300.0, 400.0, 100.0 + PERIOD), ((99.999, inf), 300.0, 400.0, 99.999 + PERIOD),
    ((inf, 99.9985), 300.0, 400.0, 99.9985 + PERIOD), ((inf, inf), 100.001, 400.0, 100.001),
    ((inf, inf), 300.0, 100.0005, 100.0005), ((-inf, inf), 300.0, 400.0, -inf), ((100.5, inf), 300.0, 400.0, 100.002),
])  # fmt: skip
def test_a_session_is_due_when_a_peer_waits_or_a_layer_has_work(
    since: tuple[float, float], calm: float, transport: float, due: float
) -> None:
    lone = Lone(**{id: Exchange(one) for id, one in zip((ANN, BOB), since, strict=True)})
    lone.transport_due = transport
    lone.calm_until = calm
    lone.refresh()
    lone.session.open()
    for id in (ANN, BOB):
        lone.session.receive(100.0, datagram(id))
    lone.did.clear()
    assert lone.session.due(100.0) == pytest.approx(due)
    assert lone.did == [("due", *since)]


def test_all_that_passed_is_committed_once() -> None:
    lone = Lone(**{ANN: Exchange(counts=(2, 0)), BOB: Exchange(counts=(0, 3))})
    lone.session.open()
    for now, topic in ((100.0, "t"), (101.0, "u")):
        lone.session.receive(now, datagram(topic=topic))
    for topic in ("v", "w"):
        assert lone.session.topic(topic) is not None
    lone.did.clear()
    lone.session.commit()
    assert lone.did == [
        ("sender", "v"), ("sender", "w"), ("receiver", b"t", 101.0), ("receiver", b"u", 101.0), ("heard", ANN, 101.0),
        ("datagrams", 2, 3),
    ]  # fmt: skip
    lone.did.clear()
    lone.session.commit()
    assert lone.did == []
    lone.session.open()
    assert lone.session.receive(102.0, datagram()) is not None, "a peer is looked up anew"
    lone.session.commit()
    assert lone.did == ["advance", ("receiver", b"t", 102.0), ("heard", ANN, 102.0), ("datagrams", 2, 0)]
