"""A lone datagram is recognized by the form of its header; it must be read as if none was ever seen before."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from glue.contract import Header, Train
from glue.serialization import Serialization
from glue.serialization.fastpath import SerializationFastPath
from glue.serialization.forms import Forms
from tests.serialization.frames import ADDRESS, reader, written

PEERS = ("e36759dea8a54260", "99636814c1679116", "e36759dea8a54261")
HEADERS: tuple[Header, ...] = (
    {},
    {"transport": ["data", 0, 0, 2, 457, 35, 1, 2]},
    {"fragment": [0, 256, 698, 1], "transport": ["group", 1, 12, 0, 0, 0, 7, 123456]},
    {"discovery": [1623077181, 0, None, None, PEERS[0], "probe"]},
    {"other": ["t3xt", 10**16, -5, 1.5, True, [1], "\\", "-"]},
)
SPLICES = (
    b"0",
    b"9",
    b"-",
    b".",
    b"e",
    b" ",
    b",",
    b'"',
    b"\\",
    b"\\u0031",
    b"[",
    b"]",
    b"{}",
    b"\n",
    b"true",
    b"\xff",
)


def seen(layer: Serialization, datagram: bytes) -> tuple[list[Any], Counter[str]]:
    """What a layer makes of a datagram that comes alone."""
    before = layer.statistics.copy()
    train = Train(ADDRESS, memoryview(bytearray(datagram)), len(datagram) or 1)
    run = SerializationFastPath(layer).receive_one(0.0, train)
    up = layer.receive(0.0, [train])[0] if run is None else [run] if run else []
    told = [(run.peer, run.incarnation, run.address, repr(run.header), run.bodies, run.age, run.reliable) for run in up]
    return told, layer.statistics - before


def changed(rng: Random, datagram: bytes) -> bytes:
    """The same datagram with one to three places in it exchanged for something else."""
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(datagram))
        part = rng.choice(SPLICES) if rng.random() < 0.5 else b"%d" % rng.randrange(10)
        datagram = datagram[:at] + part + datagram[at + rng.choice((0, 1, 1, 1, 2)) :]
    return datagram


def datagrams(rng: Random) -> bytes:
    """One of a peer's that is well-formed."""
    incarnation = rng.choice((7, 1740800000000000, (1 << 53) - 1))
    options = {"counter": rng.randrange(300), "endpoint_id": rng.choice(PEERS), "incarnation": incarnation}
    return written([b"body"], dict(rng.choice(HEADERS)), **options)[0]


@pytest.mark.parametrize("seed", range(10))
def test_a_datagram_is_read_alike_whatever_came_before_it(seed: int) -> None:
    rng, experienced = Random(seed), reader()
    for _ in range(100):
        seen(experienced, datagrams(rng))
    for _ in range(300):
        datagram = datagrams(rng)
        for tried in (datagram, changed(rng, datagram), changed(rng, datagram)):
            assert seen(experienced, tried) == seen(reader(), tried)


def form(head: bytes) -> bytes | None:
    """What the layer says of the form of this header, with a newline and a body behind it."""
    up, _ = reader().receive(0.0, [Train(ADDRESS, head + b"\nbody", len(head) + 5)])
    return up[0].form


def test_headers_that_differ_in_digits_alone_have_the_same_form() -> None:
    layer = reader()
    heads = [written([b""], {"transport": ["data", number]}, counter=10 + number)[0] for number in range(10)]
    forms = [layer.receive(0.0, [Train(ADDRESS, head, len(head))])[0][0].form for head in heads]
    assert forms[0] is not None
    assert all(other is forms[0] for other in forms)
    (longer,) = written([b""], {"transport": ["data", 10]}, counter=10)
    assert layer.receive(0.0, [Train(ADDRESS, longer, len(longer))])[0][0].form is not forms[0]


@pytest.mark.parametrize("entry", ['"\\u0031"', "-1", '"-"', "1.5", "true", "[1]", '{"1":1}', "1234567890123456"])
def test_of_headers_whose_digits_may_be_more_than_digits_the_form_is_not_told(entry: str) -> None:
    start = b'{"glue":[1,1,"aaaaaaaaaaaaaaaa",1740800000000000,5],"other":["x",%b]}'
    assert form(start % entry.encode()) is None
    assert form(start % b"1") is not None


def test_a_known_form_does_not_let_another_version_network_or_life_in() -> None:
    layer = reader()
    good = b'{"glue":[1,1,"aaaaaaaaaaaaaaaa",1740800000000000,5]}\n'
    twice = good.replace(b"]}", b'],"glue":[1,1,"aaaaaaaaaaaaaaaa",1740800000000000,1234567890123456]}')
    for head in (good, twice):
        assert SerializationFastPath(layer).receive_one(0.0, Train(ADDRESS, head, len(head))) is None
        assert seen(layer, head)[0]
        assert SerializationFastPath(layer).receive_one(0.0, Train(ADDRESS, head, len(head))) is not None
    for head, cause in (
        (twice.replace(b',"glue":[1,1', b',"glue":[1,2'), "other network"),
        (twice.replace(b"1234567890123456", b"9876543210123456"), "malformed header"),
        (good.replace(b"[1,1", b"[2,1"), "other version"),
        (good.replace(b"[1,1", b"[1,2"), "other network"),
        (good.replace(b"1740800000000000", b"9740800000000000"), "malformed header"),
        (good.replace(b"1740800000000000", b"0740800000000000"), "malformed header"),
    ):
        assert seen(layer, head) == ([], Counter({cause: 1}))


def test_forms_take_no_more_than_their_room() -> None:
    forms = Forms()
    for number in range(3 * Forms.LIMIT):
        forms.learn(b"{" + b" " * number, {}, "glue")
    assert len(forms._known) <= Forms.LIMIT
