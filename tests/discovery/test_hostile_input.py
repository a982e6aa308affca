"""Whatever arrives, discovery counts it and goes on."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.contract import Inbound, Interest, PeerAdded, PeerInterest
from glue.discovery import Discovery
from tests.discovery.lan import FRAME, endpoint_id

OWN, OTHER = endpoint_id(1), endpoint_id(2)
ADDRESS = ("10.0.0.2", 2)
GOOD: dict[str, Any] = {
    "name": "other",
    "interval_ms": 1000,
    "epoch": 0,
    "version": 2,
    "previous": 0,
    "base": 0,
    "operations": ["+a", "+b"],
}
KINDS = ["announce", "answer", "probe", "want", "operations", "goodbye"]


def layer() -> Discovery:
    made = Discovery(endpoint_id=OWN, incarnation=1, name="own", random=Random(0))
    made.fit(FRAME)
    made.send(0.0, [Interest(["a", "b"], [])])
    return made


def frame(fields: Any, body: bytes, peer: str = OTHER, incarnation: int = 1) -> Inbound:
    return Inbound(peer, incarnation, ADDRESS, {"discovery": fields}, [body])


def announcement(**changes: Any) -> bytes:
    return orjson.dumps({key: value for key, value in (GOOD | changes).items() if value is not ...})


def fields(kind: str = "announce") -> list[Any]:
    return [0, 0, None, None, kind]


def test_the_announcement_that_the_bad_ones_are_made_from_is_good() -> None:
    discovery = layer()
    up, down = discovery.receive(0.0, [frame(fields(), announcement(later_version="may add keys"))])
    assert [type(item) for item in up] == [PeerAdded]
    token = next(item.header["discovery"][0] for item in down if item.address == ADDRESS)
    up, _ = discovery.receive(0.0, [frame([0, token, None, None, "want"], b"")])
    assert [(item.peer, item.added) for item in up if isinstance(item, PeerInterest)] == [(OTHER, ["a", "b"])]


@pytest.mark.parametrize(
    "bad",
    [
        None, "announce", 7, {}, [], ["announce"], [0, 0, None, "announce"],
        [-1, 0, None, None, "announce"], [0, 1 << 60, None, None, "announce"], [0, True, None, None, "announce"],
        [0, 0.0, None, None, "announce"], [0, 0, 1, None, "announce"], [0, 0, None, 1, "announce"],
        [0, 0, -1, 0, "announce"], [0, 0, "0", 0, "announce"], [0, 0, None, None, ["announce"]], [0, 0, None, None, 1],
    ],
)  # fmt: skip
def test_a_malformed_header_is_counted(bad: Any) -> None:
    discovery = layer()
    assert discovery.receive(0.0, [frame(bad, announcement())])[0] == []
    assert discovery.statistics == {"malformed header": 1}


def test_a_kind_of_a_later_version_is_counted() -> None:
    discovery = layer()
    discovery.receive(0.0, [frame(fields("shout"), b"")])
    assert discovery.statistics == {"unknown kind": 1}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"name": NaN}', b'{"name": "\\ud800"}', b"1" * 10_000,
        announcement(name=...), announcement(name=1), announcement(name=""), announcement(name="x" * 256),
        announcement(interval_ms=...), announcement(interval_ms=-1), announcement(interval_ms=1.5),
        announcement(interval_ms=None), announcement(interval_ms=1 << 60), announcement(epoch="0"),
        announcement(epoch=True), announcement(version=1), announcement(version=[]), announcement(base=3),
        announcement(previous={}), announcement(operations={}), announcement(operations=None),
        announcement(operations=["+a", 1]), announcement(operations=["+"]), announcement(operations=["a"]),
        announcement(operations=["*a"]), announcement(operations=["+" + "x" * 513]),
    ],
)  # fmt: skip
def test_a_malformed_announcement_is_counted_and_adds_nobody(body: bytes) -> None:
    discovery = layer()
    assert discovery.receive(0.0, [frame(fields(), body)])[0] == []
    assert discovery.statistics == {"malformed body": 1}
    assert discovery.peers == {}


@pytest.mark.parametrize(("interval_ms", "lease"), [(0, 0.05), (1, 0.05), (2000, 10), (1 << 53, 10)])
def test_a_peer_that_announces_any_interval_and_proves_nothing_has_a_short_lease(
    interval_ms: int, lease: float
) -> None:
    discovery = layer()
    discovery.receive(0.0, [frame(fields(), announcement(interval_ms=interval_ms))])
    while discovery.deadline < 0.99 * lease:
        discovery.receive(discovery.deadline, [])
    assert OTHER in discovery.peers
    while discovery.deadline < 1.01 * lease:
        discovery.receive(discovery.deadline, [])
    assert OTHER not in discovery.peers


def test_an_owner_that_announces_more_than_it_gives_is_not_asked_more_often_than_it_sends() -> None:
    discovery = layer()
    asked = 0
    for second in range(100):
        _, down = discovery.receive(second, [frame(fields(), announcement(version=1000))])
        asked += sum(item.address == ADDRESS for item in down)
        while discovery.deadline < second + 1:
            _, down = discovery.receive(discovery.deadline, [])
            asked += sum(item.address == ADDRESS for item in down)
    assert asked <= 100


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([*KINDS, 0, 1, 2]),
    lambda children: st.lists(children, max_size=6) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=10,
)
COUNTS = st.none() | st.integers(-1, 5) | st.sampled_from([1 << 31, (1 << 53) - 1, 1 << 53, 1 << 64])
FIELDS = VALUES | st.tuples(
    COUNTS, COUNTS, COUNTS, COUNTS, st.sampled_from([OWN, OTHER, 1]), st.sampled_from(KINDS)
).map(list)
OPERATIONS = st.lists(st.sampled_from(["+a", "+b", "-a", "-b", "+#", "+", "x", "-never there", 1]), max_size=6)
BODIES = st.binary(max_size=50) | st.builds(
    lambda changes: orjson.dumps(GOOD | {"first": 0, "last": True} | changes),
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(
                ["interval_ms", "epoch", "version", "previous", "base", "first"], st.integers(0, 5) | st.just(1 << 53)
            ),
            "last": st.booleans(),
            "operations": OPERATIONS,
            "name": st.text(max_size=3),
        },
    ),
)
FRAMES = st.builds(
    lambda fields, bodies, peer, incarnation, address: Inbound(peer, incarnation, address, fields, bodies),
    st.just({}) | FIELDS.map(lambda value: {"discovery": value}),
    st.lists(BODIES, max_size=3),
    st.sampled_from([OWN, OTHER, endpoint_id(3)]),
    st.integers(1, 3),
    st.sampled_from([None, ADDRESS, ("10.0.0.3", 3)]),
)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(0, 2), st.lists(FRAMES, max_size=4)), max_size=20), st.booleans())
def test_nothing_that_arrives_raises_or_stops_the_clock(
    turns: list[tuple[float, list[Inbound]]], multicast: bool
) -> None:
    discovery = Discovery(endpoint_id=OWN, incarnation=1, name="own", random=Random(0), multicast=multicast)
    discovery.fit(FRAME)
    discovery.send(0.0, [Interest([f"topic/{number}" for number in range(100)], [])])
    now = 0.0
    for pause, items in turns:
        now += pause
        discovery.receive(now, items)
        if discovery.deadline <= now:  # after a pause, times are rounded: an instant later it is done
            now += 1e-9
            discovery.receive(now, [])
        assert discovery.deadline > now
        for known in discovery.peers.values():
            assert known.address in (ADDRESS, ("10.0.0.3", 3))
            assert known.interests <= 4
    assert OWN not in discovery.peers
