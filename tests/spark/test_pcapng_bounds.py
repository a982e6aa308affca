"""Blocks of a pcapng file at the bounds of what one may be, and what is known of the file where reading ended."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from spark.read.pcapng import Pcapng
from spark.read.records import PADDING, Fault, Scan
from tests.spark.captures import GOLDEN, START_NS, block, frame, interface, option, packet, section
from tests.spark.rows import read_bytes

DATA = frame(GOLDEN["data"].ljust(len(GOLDEN["data"]) + -(42 + len(GOLDEN["data"])) % 4, b"."))
BEGUN = section() + interface()
SMALLEST = block("<", 7, b"")


def scanned(data: bytes, format: Pcapng | None = None, base: int = 1000) -> tuple[Scan, Pcapng]:
    """What a scan gives, and the format with what it has learned."""
    format = format or Pcapng(section()[:12])
    return format.scan(np.frombuffer(data + bytes(PADDING), np.uint8), len(data), base), format


def claiming(captured: int, *options: bytes, cut: int = 0) -> bytes:
    """A packet that claims to hold so many bytes of a frame."""
    head = struct.pack("<IIIII", 0, START_NS >> 32, START_NS & 0xFFFFFFFF, captured, len(DATA))
    body = head + DATA + b"".join(options)
    return block("<", 6, body[: len(body) - cut])


def drops(count: int) -> bytes:
    return block("<", 5, struct.pack("<III", 0, 0, 0) + option("<", 5, struct.pack("<Q", count)))


def test_a_packet_fills_its_block_at_most() -> None:
    assert len(DATA) % 4 == 0
    scan, _ = scanned(BEGUN + claiming(len(DATA)))
    assert (scan.records.captured.tolist(), scan.fault) == ([len(DATA)], None)
    scan, _ = scanned(BEGUN + claiming(len(DATA)) + claiming(len(DATA) + 1) + claiming(len(DATA)))
    place = len(BEGUN) + len(claiming(0))
    assert (scan.consumed, len(scan.records.offset)) == (place, 1)
    assert scan.fault == Fault("a packet block whose lengths contradict each other", 1000 + place)


def test_the_smallest_block_may_be_the_last_one() -> None:
    data = BEGUN + packet(DATA, START_NS) + SMALLEST
    scan, _ = scanned(data)
    assert (scan.consumed, scan.fault) == (len(data), None)
    scan, _ = scanned(data[:-1])
    assert (scan.consumed, scan.fault) == (len(data) - 12, None)


def test_an_interface_has_at_least_its_link_and_its_snapshot() -> None:
    for body, records in ((b"\1\0\0\0\0\0\0\0", 1), (b"\1\0\0\0", 0)):
        scan, _ = scanned(section() + block("<", 1, body) + packet(DATA, 5))
        assert len(scan.records.offset) == records
        assert (scan.fault is None) == (records == 1)


def test_a_simple_packet_has_all_that_its_block_holds(tmp_path: Path) -> None:
    def simple(original: int) -> bytes:
        return block("<", 3, struct.pack("<I", original) + DATA)

    for original in (len(DATA), 5000):
        scan, _ = scanned(BEGUN + simple(original))
        assert scan.records.captured.tolist() == [len(DATA)]
    rows, _ = read_bytes(tmp_path, BEGUN + simple(len(DATA) - 3))
    assert rows[0]["truncated"] is True


def test_a_direction_that_does_not_fit_into_its_block_is_none() -> None:
    out, comment = option("<", 2, b"\2\0\0\0"), option("<", 1, b"abcd")
    for options, cut, direction in (((out,), 0, 2), ((out,), 4, 0), ((comment, out), 0, 2), ((comment, out), 4, 0)):
        scan, _ = scanned(BEGUN + claiming(len(DATA), *options, cut=cut))
        assert (scan.records.direction.tolist(), scan.fault) == ([direction], None)


def test_nothing_is_learned_of_blocks_behind_a_fault() -> None:
    bad = claiming(len(DATA) + 1)
    scan, format = scanned(BEGUN + drops(3) + bad + drops(9) + interface() + packet(DATA, 5, interface=1))
    assert scan.consumed == len(BEGUN + drops(3))
    assert (format.dropped, scan.records.points, scan.records.offset.tolist()) == (3, [None], [])


def test_an_interface_behind_a_fault_may_be_of_another_section() -> None:
    one = packet(DATA, START_NS)
    _, format = scanned(BEGUN + one)
    rest = np.frombuffer(b"\xff" * 20 + one + bytes(PADDING), np.uint8)
    assert format.resume(rest, 20 + len(one), True) == (20, True)
    scan, _ = scanned(one + interface(description="other") + drops(4) + one, format)
    fault = Fault("an interface described behind a fault, maybe of another section", 1000 + len(one))
    assert (scan.consumed, scan.fault, len(scan.records.offset), format.dropped) == (len(one), fault, 1, None)
    later = interface() + one + BEGUN + one
    again = np.frombuffer(later + bytes(PADDING), np.uint8)
    assert format.resume(again, len(later), True) == (len(interface() + one), True), "only a section will do"
    scan, _ = scanned(BEGUN + interface() + one, format)
    assert (scan.consumed, scan.fault) == (len(BEGUN + interface() + one), None), "which is sure again"


@pytest.mark.parametrize("count", [1, 3])
def test_a_packet_of_an_unknown_interface_makes_the_rest_of_its_section_unreadable(count: int) -> None:
    one = packet(DATA, START_NS)
    _, format = scanned(BEGUN + one + packet(DATA, 5, interface=1) * count)
    rest = np.frombuffer(b"\xff" * 20 + one + BEGUN + one + bytes(PADDING), np.uint8)
    size = 20 + 2 * len(one) + len(BEGUN)
    assert format.resume(rest, size, True) == (20 + len(one), True)
