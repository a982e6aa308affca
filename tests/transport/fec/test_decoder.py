"""The FEC decoder: malformed, late and superfluous repair symbols are counted and dropped, and memory is bounded."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from glue.contract import Inbound, PeerAdded
from glue.transport import Transport
from glue.transport.fec import REPAIR_SYMBOLS, SOURCE_SYMBOLS
from glue.transport.fec.code import encode, symbol_of
from glue.transport.fec.decoder import BLOCKS, BUDGET, KEPT, UNUSED
from glue.transport.wire import KEY
from tests.transport.network import endpoint_id

HERE, THERE = endpoint_id(0), endpoint_id(1)


class Receiver:
    """A transport that knows one peer, and receives the frames that the test makes up."""

    def __init__(self) -> None:
        self.transport = Transport(endpoint_id=HERE)
        self.transport.receive(0.0, [PeerAdded(THERE, 1, "there", ("10.0.0.1", 1))])
        self.heard: list[bytes] = []

    def hear(self, entry: list[Any], *bodies: bytes, now: float = 1.0) -> None:
        up, _ = self.transport.receive(now, [Inbound(THERE, 1, None, {"glue": [1, 5], KEY: entry}, list(bodies))])
        self.heard += [body for item in up if isinstance(item, Inbound) for body in item.bodies]

    def data(self, *bodies: bytes, first: int = 0, channel: int = 1) -> None:
        self.hear(["data", 0, 0, 0, 0, 0, channel, first], *bodies)

    def parity(self, *blocks: bytes, first: int = 0, count: int = 4, row: int = 0, channel: int = 1) -> None:
        self.hear(["parity", 0, channel, first, count, row], *blocks)

    def __getitem__(self, cause: str) -> int:
        return self.transport.statistics[cause]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def parity_of(bodies: list[bytes], rows: int) -> list[bytes]:
    symbols = [symbol_of({}, body) for body in bodies]
    return encode([symbol for symbol in symbols if symbol is not None], rows)


@pytest.fixture
def receiver() -> Receiver:
    """A receiver that has a first block with repair symbols, and therefore keeps frames from now on."""
    made = Receiver()
    made.data(*numbered(4))
    made.parity(*parity_of(numbered(4), 1))
    made.heard.clear()
    return made


def test_frames_and_repair_symbols_may_arrive_in_any_order(receiver: Receiver) -> None:
    bodies = numbered(6)
    blocks = parity_of(bodies, 3)
    pieces: list[tuple[bool, int]] = [(False, place) for place in (0, 2, 5)] + [(True, row) for row in range(3)]
    Random(1).shuffle(pieces)
    for is_parity, number in pieces:
        if is_parity:
            receiver.parity(blocks[number], first=4, count=6, row=number)
        else:
            receiver.data(bodies[number], first=4 + number)
    assert receiver.heard == bodies
    assert receiver["frames recovered by FEC"] == 3


def test_any_rows_will_do(receiver: Receiver) -> None:
    bodies = numbered(5)
    receiver.data(*bodies[:3], first=4)
    receiver.parity(*parity_of(bodies, 9)[7:], first=4, count=5, row=7)
    assert receiver.heard == bodies


@pytest.mark.parametrize(
    ("entry", "bodies"),
    [
        (["parity", 0, 1, 0, 0, 0], [bytes(9)]),
        (["parity", 0, 1, 0, SOURCE_SYMBOLS + 1, 0], [bytes(9)]),
        (["parity", 0, 1, 4, 4, REPAIR_SYMBOLS], [bytes(9)]),
        (["parity", 0, 1, 4, 4, REPAIR_SYMBOLS - 1], [bytes(9), bytes(9)]),
        (["parity", 0, 1, 4, 4, 0], [b""]),
        (["parity", 0, 1, 4, 4, 0], [b"1234"]),
        (["parity", 0, 1, 4, 4, 0], [bytes(9), bytes(8)]),
    ],
)
def test_malformed_repair_symbols_are_counted(receiver: Receiver, entry: list[Any], bodies: list[bytes]) -> None:
    receiver.hear(entry, *bodies)
    assert receiver["malformed parity"] == len(bodies)


@pytest.mark.parametrize("entry", [["parity", 0, 1, 4, 4], ["parity", 0, 1, 4, -1, 0], ["mended", 1, 0, 4096, 1]])
def test_malformed_entries_are_counted(receiver: Receiver, entry: list[Any]) -> None:
    receiver.hear(entry, bytes(9))
    assert receiver["malformed entries"] == 1


def test_repair_symbols_for_complete_or_unknown_frames_are_dropped(receiver: Receiver) -> None:
    receiver.parity(bytes(9))
    receiver.parity(bytes(9), first=2**50)
    receiver.parity(bytes(9), channel=7)
    assert receiver["parity frames not needed"] == 3  # the first came with the fixture
    assert receiver["parity of channels not known"] == 1


def test_repair_symbols_that_do_not_fit_their_frames_give_nothing(receiver: Receiver) -> None:
    receiver.data(b"0", b"1", b"2", first=4)
    receiver.parity(b"\xff" * 9, first=4)  # says that the missing one is none
    receiver.parity(b"12345", first=4)  # shorter than a frame that came
    assert receiver["groups that FEC does not fit"] == 2
    receiver.data(b"3", first=7)
    assert receiver.heard == [b"0", b"1", b"2", b"3"]


def test_repair_symbols_of_another_length_or_row_known_add_nothing(receiver: Receiver) -> None:
    bodies = numbered(4)
    blocks = parity_of(bodies, 2)
    receiver.data(*bodies[:2], first=4)
    receiver.parity(blocks[0], first=4)
    receiver.parity(blocks[0], first=4)
    receiver.parity(blocks[1] + b"\0", first=4, row=1)
    assert receiver.heard == bodies[:2]
    receiver.parity(blocks[1], first=4, row=1)
    assert receiver.heard == bodies


def test_blocks_that_never_complete_are_given_up_for_newer_ones(receiver: Receiver) -> None:
    for number in range(100):
        receiver.parity(bytes(1000), first=4 + 4 * number)
    assert receiver["groups given up for newer ones"] == 100 - BLOCKS


def test_memory_for_decoding_is_bounded_whatever_is_sent() -> None:
    receiver = Receiver()
    body = bytes(60_000)
    for channel in range(1, 20):
        receiver.data(b"", channel=channel)
        receiver.parity(bytes(9), first=1, channel=channel)
        for number in range(1, 60):
            receiver.data(body, first=number, channel=channel)
            receiver.parity(body, body, first=100 * number, channel=channel)
    sources = receiver.transport.sources[THERE].channels.values()
    held = sum(incoming.decoder._held for incoming in sources if incoming.decoder is not None)
    assert held == receiver.transport.reception._decoder_memory.held <= BUDGET
    for incoming in sources:
        incoming.drop()
    assert receiver.transport.reception._decoder_memory.held == 0


def test_one_channel_alone_keeps_no_more_than_the_budget_of_all() -> None:
    receiver = Receiver()
    receiver.data(b"")
    receiver.parity(bytes(9), first=1)
    body = bytes(60_000)
    for number in range(1, KEPT):
        receiver.data(body, first=number)
    for row in range(REPAIR_SYMBOLS):
        receiver.parity(body, first=2000, count=SOURCE_SYMBOLS, row=row)
        receiver.parity(body, first=3000, count=SOURCE_SYMBOLS, row=row)
    receiver.data(body, first=KEPT)
    assert receiver["frames not kept for FEC"] > 0
    (incoming,) = receiver.transport.sources[THERE].channels.values()
    assert incoming.decoder is not None
    kept = sum(len(block.repair) for block in incoming.decoder._blocks.values())
    assert receiver["parity frames beyond the budget"] == 2 * REPAIR_SYMBOLS - kept > 0
    assert receiver.transport.reception._decoder_memory.held <= BUDGET


def test_silent_channels_give_their_memory_to_active_ones() -> None:
    receiver = Receiver()
    for channel in range(1, 100):
        receiver.data(b"", channel=channel)
        receiver.parity(bytes(9), first=1, channel=channel)
        for first in range(1, KEPT, 100):
            receiver.data(*[bytes(1000)] * 100, first=first, channel=channel)
    bodies = [bytes([number]) * 50_000 for number in range(4)]
    receiver.data(b"", channel=100)
    receiver.parity(*parity_of(bodies, 1), first=1, channel=100)
    receiver.heard.clear()
    receiver.data(*bodies[:3], first=1, channel=100)
    assert receiver.heard == bodies


def test_frames_are_kept_for_a_while_after_the_latest_repair_symbol(receiver: Receiver) -> None:
    incoming = receiver.transport.sources[THERE].channels[1]
    for first in range(4, 4 + UNUSED, 64):
        receiver.data(*numbered(64), first=first)
        assert incoming.decoder is not None
        assert incoming.decoder._frames <= KEPT
    receiver.data(*numbered(64), first=4 + UNUSED)
    assert incoming.decoder is None
    assert receiver.transport.reception._decoder_memory.held == 0


def test_the_age_of_a_decoded_frame_includes_the_wait_at_the_receiver() -> None:
    receiver = Receiver()
    ages: list[float] = []
    receiver.data(b"0")
    blocks = parity_of(numbered(3), 2)
    receiver.hear(["parity", 500, 1, 1, 3, 0], blocks[0], now=1.0)
    receiver.data(b"0", first=1)
    up, _ = receiver.transport.receive(1.25, [Inbound(THERE, 1, None, {KEY: ["parity", 500, 1, 1, 3, 1]}, [blocks[1]])])
    ages = [item.age for item in up if isinstance(item, Inbound)]
    assert ages == [0.75, 0.75]


def test_frames_are_kept_as_long_as_repair_symbols_come(receiver: Receiver) -> None:
    incoming = receiver.transport.sources[THERE].channels[1]
    decoder = incoming.decoder
    assert decoder is not None
    for first in range(4, 4 + 2 * UNUSED, UNUSED // 2):
        receiver.data(*numbered(UNUSED // 2), first=first)
        receiver.parity(*parity_of(numbered(4), 1), first=first)
    assert incoming.decoder is decoder
