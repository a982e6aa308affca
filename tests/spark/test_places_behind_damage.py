"""Where reading goes on behind damage, byte by byte: blocks of pcapng and records of pcap, at the rules' bounds."""

from __future__ import annotations

from struct import pack

import numpy as np
import pytest

from spark.read import resync
from spark.read.records import LARGEST_RECORD, MAXIMUM_SNAPSHOT, PADDING, Bytes
from spark.read.resync import NEAR, REACH, is_chain, is_record_chain, next_block, next_record

STATISTICS, PACKET, NAMES = 5, 6, 4


def buffer(data: bytes) -> Bytes:
    """A block of a file, as it is read."""
    return np.frombuffer(data + bytes(PADDING), np.uint8).copy()


def block(kind: int = PACKET, length: int = 16, order: str = "<", end: int | None = None) -> bytes:
    """A block of pcapng."""
    return pack(order + "II", kind, length) + bytes(length - 12) + pack(order + "I", length if end is None else end)


def section(order: str = "<") -> bytes:
    return pack(order + "III", 0x0A0D0D0A, 28, 0x1A2B3C4D) + bytes(12) + pack(order + "I", 28)


def found(data: bytes, order: str = "<", over: bool = True, only_section: bool = False) -> tuple[int, bool]:
    return next_block(buffer(data), len(data), order, over, only_section)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("shift", [1, 2, 3, 4, 5, 17])
def test_the_first_block_behind_damage_is_found_at_any_byte(order: str, shift: int) -> None:
    noise, one = b"\xff" * shift, block(order=order)
    assert found(noise + one + one, order) == (shift, True)
    assert found(noise + block(NAMES, order=order) + one, order) == (shift + 16, True), "no block to begin with"
    assert found(noise + section(order) + one, "<") == (shift, True), "a section tells its own order"
    assert found(noise + one + section(order) + one, order, only_section=True) == (shift + 16, True)
    assert found(noise + one, order, only_section=True) == (shift + 16, False)


def test_a_chain_that_ends_early_or_contradicts_itself_is_none() -> None:
    one = block()
    assert found(b"\xff" + one + b"\xff" * 20) == (37, False)
    assert found(b"\xff" + one + block(end=12)) == (33, False)
    assert found(b"\xff" + block(length=20, end=16) + one) == (21, True)
    assert found(b"\xff" + one + section()[:8] + b"\xff" * 20) == (45, False)


def test_while_bytes_follow_a_chain_without_an_end_waits_for_them() -> None:
    one = block()
    assert found(b"\xff" + one, over=False) == (0, False), "from here on more is needed"
    assert found(b"\xff" * 30, over=False) == (18, False)
    assert found(b"\xff" * 5, over=False) == (0, False)
    assert found(b"\xff" * 30) == (30, False)
    half = block()[:14]
    assert found(b"\xff" + half, over=False) == (0, False)
    assert found(b"\xff" + half) == (15, False)


@pytest.mark.parametrize(
    ("length", "is_sound"), [(8, False), (12, True), (14, False), (LARGEST_RECORD, True), (LARGEST_RECORD + 4, False)]
)
def test_a_block_has_a_length(length: int, is_sound: bool) -> None:
    data = block(length=length) if length >= 12 else pack("<II", PACKET, length) + bytes(4)
    assert (is_chain(memoryview(data), len(data), 0, "<", True) is True) == is_sound


@pytest.mark.parametrize("length", [12, LARGEST_RECORD])
def test_a_block_of_any_length_may_be_the_first_behind_damage(length: int) -> None:
    assert found(b"\xff" + block(length=length) + block()) == (1, True)


def test_the_first_byte_is_no_start_and_a_chain_is_measured_from_its_own() -> None:
    one, noise = block(), b"\xff" * (REACH - 20)
    assert found(one + one) == (16, True)
    assert found(noise + one + b"\xff" * 20) == (len(noise) + 36, False), "as far from the beginning as a chain is long"
    assert after(record() + record()) == (36, True)
    assert after(noise + record() + b"\xff" * 20) == (len(noise) + 56, False)
    assert after(b"\xff" * 10, over=False) == (0, False)


def test_behind_the_likeness_of_a_section_only_a_section_will_do() -> None:
    one, false = block(), section()[:12] + b"\xff" * 20
    assert found(b"\xff" + false + one + one) == (1 + len(false) + 32, False)
    assert found(b"\xff" + false + one + section() + one) == (1 + len(false) + 16, True)
    assert found(b"\xff" + one + section() + one) == (1, True), "a block before it is as good"


def test_a_chain_is_long_enough_at_its_reach() -> None:
    short = REACH // 4 * 4
    for length, is_sound in ((short, False), (short + 4, True)):
        data = block(length=length) + b"\xff" * 40
        assert (is_chain(memoryview(data), len(data), 0, "<", True) is True) == is_sound
    for kind in (1, 2, 3, 4, 5, 6, 9, 10, 0xBAD, 0x40000BAD):
        data = block(kind)
        assert is_chain(memoryview(data), 16, 0, "<", True)
    for kind in (0, 7, 8, 11):
        assert is_chain(memoryview(block(kind)), 16, 0, "<", True) is False


# ------------------------------------------------------------------------------------------------ records of pcap


def record(time: int = 1_000, fraction: int = 5, captured: int = 20, length: int | None = None) -> bytes:
    """A record of a pcap."""
    return pack("<IIII", time, fraction, captured, captured if length is None else length) + bytes(captured)


def after(data: bytes, over: bool = True, seconds: int | None = 1_000, link: int | None = None) -> tuple[int, bool]:
    return next_record(buffer(data), len(data), "<", 1_000_000, seconds, over, link)


@pytest.mark.parametrize("shift", [1, 2, 7])
def test_the_first_record_behind_damage_is_found_at_any_byte(shift: int) -> None:
    noise = b"\xff" * shift
    assert after(noise + record() + record()) == (shift, True)
    assert after(noise + record() + b"\xff" * 20) == (shift + 56, False)
    assert after(noise + record(), over=False) == (shift - 1, False)
    assert after(b"\xff" * 40, over=False) == (24, False)
    assert after(noise + record(captured=0) + record()) == (shift + 16, True), "none begins without a frame"
    assert after(noise + record() + record(captured=0)) == (shift, True), "but one may follow"


@pytest.mark.parametrize(
    ("fields", "is_sound"),
    [
        ({"time": 1_000 + NEAR}, True), ({"time": 1_001 + NEAR}, False), ({"fraction": 999_999}, True),
        ({"fraction": 1_000_000}, False), ({"length": 20}, True), ({"length": 19}, False),
        ({"length": LARGEST_RECORD}, True), ({"length": LARGEST_RECORD + 1}, False),
        ({"captured": MAXIMUM_SNAPSHOT}, True), ({"captured": MAXIMUM_SNAPSHOT + 1}, False),
    ],
)  # fmt: skip
def test_a_record_has_its_bounds(fields: dict[str, int], is_sound: bool) -> None:
    data = record(**fields)
    given = buffer(data)
    assert (is_record_chain(given, len(data), 0, "<", 1_000_000, 1_000, True) is True) == is_sound
    assert (after(b"\xff" + data) == (1, True)) == is_sound
    if "time" in fields:
        assert is_record_chain(given, len(data), 0, "<", 1_000_000, None, True) is True


def test_the_header_of_a_damaged_record_tells_where_the_next_one_starts() -> None:
    inner, end = record(captured=4) * 2, record() + record()
    size = 20 + len(inner)
    for header in (bytes((0x45, 0)) + size.to_bytes(2, "big"), bytes((0x60, 0, 0, 0)) + (size - 40).to_bytes(2, "big")):
        damaged = b"\xff" * 16 + bytes(14) + header.ljust(20, b"\0") + inner
        assert after(damaged + end, link=1) == (len(damaged), True)
        assert after(damaged + end) == (16 + 14 + 20, True), "else what is in the payload is taken"


LINK_HEADERS = {1: 14, 113: 16, 276: 20, 0: 4, 108: 4, 101: 0, 12: 0, 229: 0}


@pytest.mark.parametrize("link", [*LINK_HEADERS, 147])
def test_the_header_of_a_damaged_record_is_behind_that_of_its_link(link: int) -> None:
    inner = record(captured=4) * 2
    before = b"\xff" * 16 + bytes(LINK_HEADERS.get(link, 0))
    damaged = before + (bytes((0x45, 0)) + (20 + len(inner)).to_bytes(2, "big")).ljust(20, b"\0") + inner
    place = len(damaged) if link in LINK_HEADERS else len(before) + 20
    assert after(damaged + record() + record(), link=link) == (place, True)


@pytest.mark.parametrize(
    ("header", "followed", "over", "told"),
    [
        (b"\x45\0\0\x3c", record() + record(), True, (76, True)),
        (b"\x45\0\0\x3c", record() + record(), False, (75, False)),  # the chain is not long enough yet
        (b"\x45\0\0\x3c", record()[:16], False, (75, False)),  # its frame is yet to come
        (b"\x45\0\0\x3c", record()[:15], False, (35, False)),  # nothing is known of it yet
        (b"\x45\0\xff\xff", record() + record(), True, (36, True)),  # it would be behind all bytes
        (b"\x55\0\0\x3c", record() + record(), True, (36, True)),  # this is no header of IP
        (b"\x45\0\0\x3c", b"\xff" * 16 + record(), True, (92, True)),  # there is no record
        (b"\x45\0\0\x3c", record() + b"\xff" * 16, True, (128, False)),  # no other follows on it
    ],
)
def test_what_a_damaged_record_tells_counts_if_a_record_is_there(
    header: bytes, followed: bytes, over: bool, told: tuple[int, bool]
) -> None:
    damaged = b"\xff" * 16 + header.ljust(20, b"\xff") + record(captured=4) * 2
    assert after(damaged + followed, over, link=101) == told


@pytest.mark.parametrize("shift", [1, 7, 8, 9, 15, 16, 17, 25])
def test_a_record_is_found_in_whichever_window_it_starts(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "WINDOW", 8)
    assert after(b"\xff" * shift + record() + record()) == (shift, True)
    assert after(b"\xff" * shift + record(), over=False) == (shift - 1, False)
