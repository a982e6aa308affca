"""Captures read with the standard library alone: the same frames that the analysis reads, and the messages in them."""

from __future__ import annotations

import gzip
import json
import struct
from functools import partial
from pathlib import Path

import pytest

from glue.capture.messages import Messages, Published
from glue.capture.opened import _with_payload
from glue.capture.ordering import ordered
from glue.capture.packets import payload_of, segment_of
from glue.capture.reading import Capture
from glue.errors import ConfigurationError
from glue.simulation import Conditions, World
from glue.simulation.clock import Clock
from tests.spark.captures import (
    GOLDEN,
    MICROSECONDS,
    NANOSECONDS,
    block,
    ethernet,
    frame,
    interface,
    ipv4,
    ipv6,
    numbered,
    option,
    packet,
    pcap,
    pcapng,
    section,
    udp,
)
from tests.spark.rows import read
from tests.spark.truth import Taps

FRAMES = [frame(datagram) for datagram in GOLDEN.values()]
LATER = struct.pack("<q", 1_700_000_000)
FILES = {
    "pcap": pcap(FRAMES),
    "pcap, big-endian microseconds": pcap(FRAMES, ">", MICROSECONDS),
    "pcap, big-endian": pcap(FRAMES, ">", NANOSECONDS),
    "pcapng": pcapng(FRAMES),
    "pcapng, big-endian": pcapng(FRAMES, ">"),
    "pcapng, named, in microseconds": section()
    + interface(resolution=None, description="glue capture point: hall")
    + packet(FRAMES[0], 1_700_000_000_000_001),
    "pcapng, binary clock": section() + interface(resolution=0x80 | 30) + packet(FRAMES[0], 1_700_000_000 << 30),
    "pcapng, clocks that begin later": section()
    + b"".join(block("<", 1, struct.pack("<HHI", 1, 0, 0) + option("<", 14, zero)) for zero in (LATER, LATER[:4]))
    + packet(FRAMES[0], 5)
    + packet(FRAMES[0], 1_700_000_000_000_000, interface=1),
    "two sections": pcapng(FRAMES[:2]) + pcapng(FRAMES[2:], ">"),
    "two sections with their own interfaces": pcapng(FRAMES[:1])
    + section()
    + interface(resolution=6, description="glue capture point: attic")
    + packet(FRAMES[1], 1_700_000_000_000_000),
    "gzip": gzip.compress(pcap(FRAMES)),
}


@pytest.mark.parametrize("name", FILES)
def test_the_frames_are_those_that_the_analysis_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcap"
    path.write_bytes(FILES[name])
    capture = Capture(path)
    frames = list(capture)
    rows, _ = read(path, ("time_ns", "capture_point", "datagram"))
    assert [(f.time_ns, f.point, payload_of(f.data, f.link)) for f in frames] == [tuple(row.values()) for row in rows]
    assert (capture.fault, capture.position) == (None, capture.size)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_off_is_read_up_to_there(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcap"
    path.write_bytes(FILES[name])
    whole = list(Capture(path))
    path.write_bytes(FILES[name][:-5])
    capture = Capture(path)
    assert list(capture) == whole[: len(whole) - (name != "gzip")]
    assert capture.fault is not None


GARBLED = gzip.compress(b"")[:10] + b"\xff" * 20
"""Begins as gzip does, and goes on as no compressed data does."""


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"abc", b"not a capture at all", gzip.compress(b"nor this"), GARBLED):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ConfigurationError, match="neither pcap nor pcapng"):
            Capture(tmp_path / "x")


def test_a_capture_that_is_read_in_part_is_closed_with_its_iterator(tmp_path: Path) -> None:
    path = tmp_path / "trace.pcap"
    path.write_bytes(FILES["pcap"])
    capture = Capture(path)
    frames = iter(capture)
    next(frames)
    assert not capture._raw.closed
    frames.close()  # type: ignore[attr-defined]
    assert capture._raw.closed


def test_datagrams_are_found_behind_all_links() -> None:
    data = GOLDEN["data"]
    cases = [
        (ethernet(ipv4(udp(data)), 0x8100, 0x88A8), 1), (ipv4(udp(data), options=bytes(8)), 101), (ipv6(udp(data)), 12),
        (b"\2\0\0\0" + ipv4(udp(data)), 0), (bytes(14) + b"\x08\0" + ipv4(udp(data)), 113), (frame(data) + bytes(9), 1),
    ]  # fmt: skip
    assert [payload_of(packet, link) for packet, link in cases] == [data] * len(cases)
    others = [(ethernet(ipv4(udp(data), fragment=9)), 1), (ethernet(ipv4(udp(data), protocol=6)), 1), (bytes(30), 1)]
    assert [payload_of(packet, link) for packet, link in [*others, (b"", 1), (b"", 101)]] == [None] * 5


def test_a_train_is_cut_where_datagrams_begin() -> None:
    first = numbered(GOLDEN["data"], 5).ljust(900, b".")
    train = first + numbered(first, 6) + numbered(first, 7)[:500]
    assert segment_of(train) == 900
    assert segment_of(first) == 900
    assert segment_of(bytes(3000)) == 3000
    short = numbered(GOLDEN["data"], 5)
    assert segment_of(short + numbered(short, 6)) == len(short)
    assert segment_of(short + short) == 2 * len(short)  # the payload is a datagram, too


@pytest.fixture
def traced(tmp_path: Path) -> tuple[list[tuple[str, str, int, bytes]], list[Path]]:
    """What was published on a network that loses, doubles and reorders, and the captures at three places."""
    world = World(4)
    a, b, c = (world.endpoint(name) for name in "abc")
    taps = Taps(world, {one.name: one.host for one in (a, b, c)}, {name: Clock() for name in "abc"})
    world.network.set_conditions(Conditions(loss=0.1, duplicate=0.05, jitter=0.003))
    b.subscribe("t/#")
    c.subscribe("t/+")
    world.run(1.0)
    published = []
    for number in range(120):
        topic, payload = f"t/{number % 2}", b"%d" % number + bytes(40 * number)
        world.at(1.0 + number * 0.02, partial(a.publish, topic, payload))
        published.append(("a", topic, number // 2 + 1, payload))
    world.run(10.0)
    return published, taps.write(tmp_path)


def messages(paths: list[Path]) -> tuple[list[tuple[str, str, int, bytes]], Messages]:
    reader = Messages(1, 1 << 20)

    def found() -> list[Published]:
        frames = sorted(frame for path in paths for frame in Capture(path))
        return [one for it in frames for one in reader.read(it.time_ns, payload_of(it.data, it.link) or b"")]

    told = list(ordered(found()))
    assert [one.time_ns for one in told] == sorted(one.time_ns for one in told)
    return [(reader.names[one.publisher], one.topic, one.sequence, one.payload) for one in told], reader


def test_every_message_is_found_once_and_each_stream_in_order(
    traced: tuple[list[tuple[str, str, int, bytes]], list[Path]],
) -> None:
    published, paths = traced
    told, reader = messages(paths)
    assert sorted(told) == sorted(published)
    for topic in ("t/0", "t/1"):
        assert [one for one in told if one[1] == topic] == [one for one in published if one[1] == topic]
    assert reader.counters()["copies"] > 50


def test_a_receiver_s_capture_alone_has_them_all_though_the_first_copies_were_lost(
    traced: tuple[list[tuple[str, str, int, bytes]], list[Path]],
) -> None:
    published, paths = traced
    told, _ = messages([path for path in paths if path.stem == "b"])
    assert sorted(told) == sorted(published)
    for topic in ("t/0", "t/1"):
        assert [one for one in told if one[1] == topic] == [one for one in published if one[1] == topic]


def test_a_message_counts_once_in_each_life_of_its_publisher() -> None:
    reader = Messages(1, 1 << 20)
    life = json.loads(GOLDEN["data"].partition(b"\n")[0])["glue"][3]
    lives = [GOLDEN["data"].replace(b"%d" % life, b"%d" % (life + number)) for number in (0, 0, 1, 0, 1)]
    told = [(one.incarnation - life, one.sequence) for data in lives for one in reader.read(0, data)]
    count = len(told) // 2
    assert told == [(0, number) for _, number in told[:count]] + [(1, number) for _, number in told[:count]]
    assert reader.counters()["copies"] == 3 * count > 0


def test_a_message_is_as_reliable_as_it_was_sent() -> None:
    told = [one.reliable for kind in ("data", "best-effort") for one in Messages(1, 1 << 20).read(0, GOLDEN[kind])]
    assert told == [True, False]


def test_what_is_no_message_is_counted_and_dropped() -> None:
    reader = Messages(1, 1 << 20)
    for data in (
        b"{",
        b"{}\n",
        GOLDEN["data"].replace(b'"groups"', b'"grapes"'),
        GOLDEN["data"].replace(b"[1,1,", b"[1,2,"),
    ):
        assert list(reader.read(0, data)) == []
    counts = reader.counters()
    assert (counts["malformed header"], counts["malformed bundles: no groups"], counts["other network"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("length", "fault"), [(12, None), (16, None), (8, "a block of 8 bytes"), (14, "a block of 14 bytes")]
)
def test_a_block_is_at_least_its_own_head_and_end(tmp_path: Path, length: int, fault: str | None) -> None:
    path = tmp_path / "x.pcapng"
    made = (99).to_bytes(4, "little") + length.to_bytes(4, "little")
    made += bytes(max(0, length - 12)) + length.to_bytes(4, "little")
    path.write_bytes(section() + interface() + made)
    capture = Capture(path)
    assert list(capture) == []
    assert capture.fault == fault


@pytest.mark.parametrize(
    ("zero", "ticks", "fault"),
    [
        (0, 0, None), (-1, 1_000_000, None), (-1, 999_999, "a time -1 s after 1970"),
        (9_223_372_036, 854_775, None), (9_223_372_036, 854_776, "a time 9,223,372,036 s after 1970"),
    ],
)  # fmt: skip
def test_a_time_is_one_that_64_bits_can_hold(tmp_path: Path, zero: int, ticks: int, fault: str | None) -> None:
    path = tmp_path / "x.pcapng"
    clock = block("<", 1, struct.pack("<HHI", 1, 0, 0) + option("<", 14, struct.pack("<q", zero)))
    path.write_bytes(section() + clock + packet(b"frame", ticks))
    capture = Capture(path)
    assert [one.time_ns for one in capture] == ([] if fault else [zero * 10**9 + ticks * 1000])
    assert capture.fault == fault


@pytest.mark.parametrize("is_six", [False, True])
def test_an_opened_frame_has_the_lengths_of_its_payload(is_six: bool) -> None:
    for tags in (b"", b"\x81\x00\x00\x05"):
        whole = (ipv6 if is_six else ipv4)(b"sealed payload")
        data = bytes(12) + tags + (b"\x86\xdd" if is_six else b"\x08\x00") + whole
        opened = _with_payload(data, 1, b"plain")
        assert payload_of(opened, 1) == b"plain"
        at = 14 + len(tags)
        udp = at + (40 if is_six else 20)
        assert opened[udp + 4 : udp + 8] == b"\x00\x0d\x00\x00", "the length of the datagram, and no checksum"
        if is_six:
            assert opened[at + 4 : at + 6] == b"\x00\x0d"
        else:
            assert opened[at + 2 : at + 4] == b"\x00\x21"
            assert sum(int.from_bytes(opened[at + n : at + n + 2], "big") for n in range(0, 20, 2)) % 0xFFFF == 0


@pytest.mark.parametrize(("size", "fault"), [(1 << 20, None), ((1 << 20) + 1, "a record of 1,048,577 bytes")])
def test_a_record_has_at_most_a_megabyte_however_much_the_file_has(
    size: int, fault: str | None, tmp_path: Path
) -> None:
    head = b"\xd4\xc3\xb2\xa1" + struct.pack("<HHiIII", 2, 4, 0, 0, 65_535, 1)
    (tmp_path / "a.pcap").write_bytes(head + struct.pack("<IIII", 7, 0, size, size) + bytes(size))
    capture = Capture(tmp_path / "a.pcap")
    assert [len(frame.data) for frame in capture] == ([size] if fault is None else [])
    assert (capture.fault or "").startswith(fault or "")
    assert (capture.fault is None) == (fault is None)
    capture.close()
