"""Link, IP and UDP headers byte by byte, and the cutting of trains: each column of what is unwrapped, at its bounds."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from spark.read.link import Datagrams, cut_trains, unwrap
from spark.read.records import PADDING, Integers, Records
from tests.spark.captures import GOLDEN, GROUP, GROUP_PORT, SOURCE, SOURCE_PORT, ethernet, frame, ipv4, ipv6, pcap, udp
from tests.spark.rows import read_bytes

PAYLOAD = b"0123456789"
V4, V6 = ipv4(udp(PAYLOAD)), ipv6(udp(PAYLOAD))


def unwrapped(*frames: bytes, link: int = 1) -> tuple[Datagrams, Counter[str]]:
    """The datagrams of these frames, and what was skipped."""
    sizes = np.array([*map(len, frames)], np.int64)
    begin = np.cumsum(sizes) - sizes
    nothing = np.zeros(len(frames), np.int64)
    buffer = np.frombuffer(b"".join(frames) + bytes(PADDING), np.uint8)
    of = np.full(len(frames), link)
    skipped: Counter[str] = Counter()
    return unwrap(Records(buffer, begin, begin, sizes, nothing, of, nothing, nothing, [None]), skipped), +skipped


HEADERS = {
    (1, 4): bytes(12) + b"\x08\0", (1, 6): bytes(12) + b"\x86\xdd", (113, 4): bytes(14) + b"\x08\0",
    (113, 6): bytes(14) + b"\x86\xdd", (276, 4): b"\x08\0" + bytes(18), (276, 6): b"\x86\xdd" + bytes(18),
    **{(link, version): b"\2\0\0\0" for link in (0, 108) for version in (4, 6)},
    **{(link, version): b"" for link in (101, 12, 14, 228, 229) for version in (4, 6)},
}  # fmt: skip


@pytest.mark.parametrize(("link", "version"), HEADERS)
def test_every_link_leads_to_the_datagram(link: int, version: int) -> None:
    header, packet = HEADERS[link, version], V4 if version == 4 else V6
    found, skipped = unwrapped(header + packet, header + packet + b"padding", link=link)
    length = len(header + packet)
    size = len(PAYLOAD)
    assert {name: column.tolist() for name, column in vars(found).items()} == {
        "record": [0, 1], "part": [0, 0], "begin": [length - size, 2 * length - size], "size": [size] * 2,
        "captured": [size] * 2, "network": [len(header), length + len(header)], "overhead": [length - size] * 2,
        "source_port": [SOURCE_PORT] * 2, "destination_port": [GROUP_PORT] * 2, "version": [version] * 2,
    }  # fmt: skip
    assert skipped == {}
    unknown = b"\x70" + packet[1:] if link not in (1, 113, 276) else packet
    header = header.replace(b"\x08\0", b"\x08\6").replace(b"\x86\xdd", b"\x86\xde")
    assert unwrapped(header + unknown, link=link)[1] == {"not IP": 1}


def test_each_frame_that_is_left_out_is_counted_once() -> None:
    good = ethernet(V4)
    others = {
        "not IP": [bytes(60), bytes(34)],
        "cut short": [
            b"\1" * 3,
            bytes(33),
            good[:33],
            ethernet(V6)[:40],
            ethernet(V6)[:61],
            good[:12] + b"\x86\xdd" + V4,
            good[:12] + b"\x86\xdd\x50" + V6[1:],
            ethernet(ipv4(PAYLOAD[:7], fragment=8)),
            ethernet(ipv4(PAYLOAD[:7], protocol=6)),
        ],
        "not UDP": [ethernet(ipv4(PAYLOAD, protocol=6)), ethernet(ipv6(PAYLOAD, protocol=6))] * 2,
        "IP fragment": [
            ethernet(ipv4(udp(PAYLOAD), fragment=8)),
            ethernet(ipv6(udp(PAYLOAD), protocol=44)),
            ethernet(ipv4(PAYLOAD, protocol=6, fragment=8)),
        ]
        * 3,
    }
    found, skipped = unwrapped(good, *(one for some in others.values() for one in some), good)
    assert skipped == {cause: len(some) for cause, some in others.items()}
    assert found.record.tolist() == [0, 1 + sum(map(len, others.values()))]
    assert unwrapped(good, good, link=147)[1] == {"link type 147": 2}


@pytest.mark.parametrize("tags", [(0x8100,), (0x88A8, 0x8100), (0x9100, 0x9100)])
def test_headers_in_between_count_as_overhead(tags: tuple[int, ...]) -> None:
    found, _ = unwrapped(
        ethernet(V4, *tags), ethernet(V6, *tags), ethernet(ipv4(udp(PAYLOAD), options=bytes(8)), *tags)
    )
    more = 14 + 4 * len(tags)
    assert found.overhead.tolist() == [more + 28, more + 48, more + 36]
    assert found.network.tolist()[0] == more


@pytest.mark.parametrize("kind", [0, 43, 60])
@pytest.mark.parametrize("words", [0, 1, 3])
def test_extensions_of_ipv6_are_skipped_by_their_length(kind: int, words: int) -> None:
    extension = bytes([17, words]) + bytes(6 + 8 * words)
    found, skipped = unwrapped(ethernet(ipv6(extension + udp(PAYLOAD), kind)))
    assert (found.overhead.tolist(), found.size.tolist(), skipped) == ([70 + 8 * words], [len(PAYLOAD)], {})
    behind = ethernet(ipv6(bytes([17, 255]) + bytes(6) + udp(PAYLOAD), kind))
    assert unwrapped(behind)[1] == {"cut short": 1}, "it ends behind all that was captured"
    fragment = ethernet(ipv6(bytes([44, words]) + bytes(6 + 8 * words) + udp(PAYLOAD), kind))
    assert unwrapped(fragment)[1] == {"IP fragment": 1}


@pytest.mark.parametrize("told", [0, 7, 8, 9, 17, 18, 19, 4000])
@pytest.mark.parametrize("version", [4, 6])
def test_the_length_of_a_datagram_is_that_of_its_header_or_of_the_packet(told: int, version: int) -> None:
    datagram = struct.pack(">HHHH", 1, 2, told, 0) + PAYLOAD
    found, _ = unwrapped(ethernet(ipv4(datagram) if version == 4 else ipv6(datagram)))
    size = told - 8 if told >= 8 else len(PAYLOAD)
    assert (found.size.tolist(), found.captured.tolist()) == ([size], [min(size, len(PAYLOAD))])


@pytest.mark.parametrize(
    ("packed", "shown"), [(b"\0\0\0\0", None), (b"\0\0\0\1", "0.0.0.1"), (b"\xe0\0\0\1", "224.0.0.1")]
)
def test_an_address_that_is_unspecified_is_told_as_none(tmp_path: Path, packed: bytes, shown: str | None) -> None:
    datagram = frame(GOLDEN["data"])
    ends = [datagram[:26] + packed + datagram[30:], datagram[:30] + packed + datagram[34:], datagram]
    whole = ethernet(ipv6(udp(GOLDEN["data"])))
    rows, _ = read_bytes(tmp_path, pcap([*ends, whole[:38] + bytes(16) + whole[54:], whole]))
    assert [row["source"] for row in rows] == [shown, SOURCE, SOURCE, "fe80::1", "fe80::1"]
    assert [row["destination"] for row in rows] == [GROUP, shown, GROUP, None, "ff02::7"]
    is_multicast = None if shown is None else shown == "224.0.0.1"
    assert [row["multicast"] for row in rows] == [True, is_multicast, True, None, True]


# ------------------------------------------------------------------------------------------------- trains


def column(*values: int) -> Integers:
    return np.array(values, np.int64)


def test_a_train_is_cut_as_far_as_it_was_captured() -> None:
    rest = [column(7, 8, 9) for _ in range(5)]
    train = Datagrams(column(0, 1, 2), column(0, 0, 0), column(100, 200, 300), column(10, 3, 0), column(7, 3, 0), *rest)
    cut = cut_trains(train, column(4, 3, 1))
    assert [cut.record.tolist(), cut.part.tolist()] == [[0, 0, 0, 1, 2], [0, 1, 2, 0, 0]]
    assert cut.begin.tolist() == [100, 104, 107, 200, 300]
    assert (cut.size.tolist(), cut.captured.tolist()) == ([4, 4, 2, 3, 0], [4, 3, 0, 3, 0])
    assert cut.version.tolist() == [7, 7, 7, 8, 9]
    assert cut_trains(train, column(10, 3, 1)) is train, "nothing to cut"


def sent(counter: int, size: int = 100, life: int = 7, within: bytes = b"", space: bytes = b"") -> bytes:
    """A datagram of so many bytes."""
    words = [b'{"glue":[1', b"1", b'"e36759dea8a54260"', b"%d" % life, b"%d]}\n" % counter]
    return ((b"," + space).join(words) + within).ljust(size, b"x")


BEGINNING = len(sent(1, 0)) - len(b",1]}\n")
CUT = sent(1, 0)[: BEGINNING + 1]
"""A header up to the comma before its number."""


@pytest.mark.parametrize(
    ("train", "captured", "told"),
    [
        (sent(1) + sent(2) + sent(3, 50), 0, [(1, 100), (2, 100), (3, 50)]),
        (sent(9) + sent(10) + sent(12), 0, [(9, 100), (10, 100), (12, 100)]),
        (sent(1) + sent(1), 0, [(1, 200)]),
        (sent(2) + sent(1), 0, [(2, 200)]),
        (sent(1) + sent(2, life=8), 0, [(1, 200)]),
        (sent(1, 40) + sent(2, 40), 0, [(1, 40), (2, 40)]),
        (sent(1, space=b" ") + sent(2, space=b" "), 0, [(1, 100), (2, 100)]),
        (sent(5, within=sent(4, 0)) + sent(6), 0, [(5, 100), (6, 100)]),
        (sent(5, within=sent(4, 0) + sent(4, 0), size=200) + sent(6), 0, [(5, 200), (6, 100)]),
        (sent(1) + sent(2).replace(b",2]", b",z]"), 0, [(1, 200)]),
        (sent(0) + sent(1), 0, [(0, 100), (1, 100)]),
        (sent(1) + sent(2) + b"x" * BEGINNING, 0, [(1, 100), (2, 100)]),
        (sent(1) + sent(2) + b"x" * (BEGINNING + 1), 0, [(1, 201 + BEGINNING)]),
        (sent(1) + sent(2), 100 + BEGINNING + 2, [(1, 100)]),
        (sent(1) + sent(2), 100 + BEGINNING, [(1, 100)]),
        (sent(1) + sent(2), 100 + BEGINNING - 1, [(1, 200)]),
        (sent(1) + sent(2) + sent(3), 250, [(1, 100), (2, 100), (3, 100)]),
        (sent(1) + sent(2) + sent(3), 205, [(1, 100), (2, 100)]),
        (b"x" + sent(1) + sent(2), 0, []),
        (sent(1) + sent(2) + CUT + b" " * 30, 0, [(1, 100), (2, 100)]),  # what is no number yet may become one
        (sent(1) + sent(2) + CUT + b" " * 31, 0, [(1, 232 + BEGINNING)]),
        (sent(1) + sent(2) + CUT + b"3".rjust(30) + b"]}\n", 0, [(1, 100), (2, 100), (3, BEGINNING + 34)]),
        (sent(1) + sent(2) + CUT + b"3".rjust(31) + b"]}\n", 0, [(1, 235 + BEGINNING)]),
    ],
)
def test_a_train_is_known_by_equal_distances_and_rising_numbers_of_a_life(
    tmp_path: Path, train: bytes, captured: int, told: list[tuple[int, int]]
) -> None:
    data = pcap([frame(train), frame(sent(77))], snapshot=42 + (captured or 1000))
    rows, _ = read_bytes(tmp_path, data, ["counter", "size", "part"])
    assert [(row["counter"], row["size"]) for row in rows] == [*told, (77, 100)]
    assert [row["part"] for row in rows] == [*range(len(told)), 0]
