"""Of a run that transport waits for, what its headers have in common is read in the first and in the last of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from glue.contract import Inbound
from glue.discovery import Discovery
from glue.fastpath.stack import FastStack
from glue.fragmentation import Fragmentation
from glue.fragmentation.fastpath import FragmentationFastPath
from glue.serialization import Serialization
from glue.serialization.fastpath import SerializationFastPath
from glue.settings import Settings
from glue.stack import LAYERS, Factory, Identity
from glue.transport import Transport
from tests.serialization.frames import ADDRESS, reader, train
from tests.serialization.runs import BODIES, HEADER, arriving, received

MIDDLE = 5


def test_a_run_is_the_same_whether_it_is_awaited_or_not() -> None:
    asked: list[Inbound] = []
    assert received(arriving(), True, asked) == received(arriving(), False) == BODIES
    assert [(run.address, run.header["transport"]) for run in asked] == [(ADDRESS, HEADER["transport"])]


def test_damage_that_the_kernel_did_not_find_harms_no_frame_in_the_middle_that_is_awaited() -> None:
    datagrams = arriving()
    datagrams[MIDDLE] = datagrams[MIDDLE].replace(b"group", b"grouq")
    assert received(datagrams) == BODIES
    assert received(datagrams, is_awaited=False) is None


@pytest.mark.parametrize("is_awaited", [False, True])
@pytest.mark.parametrize(
    "happens",
    [
        lambda parts: parts.pop(MIDDLE),
        lambda parts: parts.insert(MIDDLE, parts[MIDDLE]),
        lambda parts: parts.insert(MIDDLE, parts.pop(MIDDLE + 1)),
        lambda parts: parts.__setitem__(MIDDLE, parts[MIDDLE].replace(b" 9999]", b" 8999]", 1)),
        lambda parts: parts.__setitem__(MIDDLE, parts[MIDDLE].replace(b" 9999]", b" 99990", 1)),
    ],
    ids=["lost", "doubled", "overtaken", "another", "longer"],
)
def test_a_train_in_which_a_datagram_is_not_the_next_is_no_run(
    happens: Callable[[list[bytes]], object], is_awaited: bool
) -> None:
    datagrams = arriving()
    happens(datagrams)
    assert received(datagrams, is_awaited) is None


@pytest.mark.parametrize(("counter", "other"), [(5_100, b"4105"), (5_100, b"5005"), (1_234_500, b"1134505")])
def test_a_datagram_of_long_ago_is_not_the_next_however_many_digits_are_the_same(counter: int, other: bytes) -> None:
    datagrams = arriving(counter=counter)
    assert received(datagrams, counter=counter) == BODIES
    next_one = b"%d]" % (counter + MIDDLE)
    assert next_one in datagrams[MIDDLE]
    datagrams[MIDDLE] = datagrams[MIDDLE].replace(next_one, other + b"]", 1)
    assert received(datagrams, counter=counter) is None


def test_the_last_header_is_read_in_full() -> None:
    datagrams = arriving()
    end = datagrams[-1].index(b"\n")
    for place in range(end + 1):
        spoiled = bytearray(datagrams[-1])
        spoiled[place] ^= 1
        assert received([*datagrams[:-1], bytes(spoiled)]) is None


def test_where_another_counter_comes_first_all_headers_are_read_in_full() -> None:
    datagrams = [
        b'{"transport":["group",0,0,0,0,0,1,%d],"glue":[1,1,"%b",77,%d]}\n%b'
        % (100 + index, b"a" * 16, 500 + index, body)
        for index, body in enumerate(BODIES)
    ]
    layer = reader()
    layer.receive(0.0, [train(datagrams)])
    path = SerializationFastPath(layer)
    path.awaited_by = [lambda run: True]
    run = path.receive_one(0.0, train(datagrams))
    assert isinstance(run, Inbound)
    assert [*run.bodies] == BODIES
    datagrams[MIDDLE] = datagrams[MIDDLE].replace(b"group", b"grouq")
    assert path.receive_one(0.0, train(datagrams)) is None


def test_lone_frames_are_read_in_full_as_they_may_differ_in_size_and_age() -> None:
    layer = Fragmentation()
    path = FragmentationFastPath(layer)
    bodies = [bytes(20)] * 2
    fragments = Inbound("peer", 1, None, {"fragment": [0, 20, 100, 0]}, bodies, form=b"fragments")
    assert not path.awaits(fragments)  # nothing is known of this form of header
    layer.receive(0.0, [fragments])
    assert path.awaits(fragments)
    assert not path.awaits(Inbound("peer", 1, None, {"transport": ["data"]}, bodies, form=b"fragments"))


def deriving(kind: Any) -> Any:
    """A layer that alters what comes up."""

    class Altered(kind):  # type: ignore[misc]
        def receive(self, now: float, items: Any) -> Any:
            return super().receive(now, items)

    return Altered


@pytest.mark.parametrize("name", ["nothing", "serialization", "discovery", "transport", "fragmentation"])
def test_where_a_layer_that_makes_frames_is_replaced_all_headers_are_read_in_full(name: str) -> None:
    kinds: dict[str, Any] = {
        "serialization": Serialization, "discovery": Discovery, "transport": Transport, "fragmentation": Fragmentation,
    }  # fmt: skip

    def made(who: Identity) -> Any:
        layer = LAYERS[name](who)
        layer.__class__ = deriving(kinds[name])
        return layer

    replaced: dict[str, Factory] = {name: made} if name in kinds else {}
    stack = FastStack.build(Identity("ann", "a" * 16, 1, Settings(name="ann"), Random(1)), replaced)
    path = stack.paths.get("serialization")
    if name == "serialization":
        assert path is None
    else:
        assert isinstance(path, SerializationFastPath)
        assert len(path.awaited_by) == (2 if name == "nothing" else 0)
