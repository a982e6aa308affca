"""Limits of the reader, each at its value and one beyond: options, blocks, links, headers, bodies, what it keeps."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark.read import frames, indexes, templates
from spark.read.bodies import Bodies
from spark.read.frames import Tally
from spark.read.header import MalformedHeaderError, interpret
from spark.read.indexes import Indexes
from spark.read.pcap import Pcap
from spark.read.pcapng import Pcapng
from spark.read.records import Fault
from spark.read.resync import is_chain
from tests.spark.captures import (
    GOLDEN,
    START_NS,
    block,
    ethernet,
    frame,
    interface,
    ipv4,
    ipv6,
    numbered,
    option,
    pcap,
    pcapng,
    section,
    udp,
)
from tests.spark.rows import Row, read_bytes
from tests.spark.test_headers import IDS, decode

DATA = frame(GOLDEN["data"])
END = option("<", 0, b"")
COMMENT = option("<", 1, b"abc")
OUT, IN = option("<", 2, struct.pack("<I", 0xFF02)), option("<", 2, struct.pack("<I", 1))


def packet(*options: bytes, cut: int = 0) -> bytes:
    head = struct.pack("<IIIII", 0, START_NS >> 32, START_NS & 0xFFFFFFFF, len(DATA), len(DATA))
    body = head + DATA.ljust(len(DATA) + -len(DATA) % 4, b"\0") + b"".join(options)
    return block("<", 6, body[: len(body) - cut])


def test_the_direction_is_among_the_first_options_of_a_packet(tmp_path: Path) -> None:
    cases = {
        (): None, (OUT,): "out", (IN, END): "in", (END, OUT): None, (COMMENT, OUT, END): "out",
        (COMMENT,) * 3 + (IN,): "in", (COMMENT,) * 4 + (IN,): None, (OUT, IN): "out",
        (option("<", 2, b"\2\0"), IN): "in", (option("<", 2, struct.pack("<I", 3)),): None,
        (option("<", 1, bytes(8)), OUT): "out", (option("<", 1, b""), OUT): "out",
    }  # fmt: skip
    data = section() + interface() + b"".join(packet(*options) for options in cases)
    rows, tally = read_bytes(tmp_path, data + packet(OUT, cut=4))
    assert [row["direction"] for row in rows] == [*cases.values(), None]
    assert tally.fault is None


def statistics(interface: int, *options: bytes) -> bytes:
    return block("<", 5, struct.pack("<III", interface, 0, 0) + b"".join(options))


def drops(code: int, count: int) -> bytes:
    return option("<", code, struct.pack("<Q", count))


def test_drops_are_summed_over_interfaces_and_sections_and_the_latest_number_of_each_counts(tmp_path: Path) -> None:
    def dropped(*blocks: bytes) -> int | None:
        return read_bytes(tmp_path, pcapng([DATA]) + interface() + b"".join(blocks))[1].dropped

    assert dropped() is None
    assert dropped(statistics(0)) is None
    assert dropped(statistics(0, drops(4, 9), drops(6, 9))) is None
    assert dropped(statistics(0, drops(5, 3), drops(7, 4))) == 7
    assert dropped(statistics(0, option("<", 5, b"\1\0\0\0"), drops(7, 4))) == 4
    assert dropped(statistics(0, drops(5, 3)), statistics(1, drops(5, 10)), statistics(0, drops(5, 5))) == 15
    assert dropped(statistics(0, drops(5, 3)), section(), interface(), statistics(0, drops(5, 5))) == 8
    assert dropped(statistics(0, END, drops(5, 3))) is None
    assert dropped(statistics(0, option("<", 1, b"abc"), drops(5, 0))) == 0
    assert dropped(block("<", 5, bytes(8))) is None
    cut = struct.pack("<III", 0, 0, 0) + drops(5, 7)[:-4]
    assert dropped(block("<", 5, cut)) is None, "the closing length is no part of an option"


def simple(size: int, held: int) -> bytes:
    return block("<", 3, struct.pack("<I", size) + DATA[:held])


def test_packets_of_old_kinds_have_to_fit_their_block_and_their_interface(tmp_path: Path) -> None:
    def old(captured: int, number: int = 0) -> bytes:
        head = struct.pack("<HHIIII", number, 0, START_NS >> 32, START_NS & 0xFFFFFFFF, captured, captured)
        return block("<", 2, head + DATA.ljust(len(DATA) + -len(DATA) % 4, b"\0"))

    room = len(DATA) + -len(DATA) % 4
    for one, count in (
        (old(len(DATA)), 1), (old(room), 1), (old(room + 1), 0), (old(len(DATA), 1), 0), (old(len(DATA), 65535), 0),
        (simple(len(DATA), len(DATA)), 1), (simple(5000, len(DATA)), 1),
    ):  # fmt: skip
        rows, tally = read_bytes(tmp_path, section() + interface() + one)
        assert (len(rows), tally.records, tally.fault) == (count, count, None)
    rows, _ = read_bytes(tmp_path, section() + simple(len(DATA), len(DATA)))
    assert rows == []
    rows, _ = read_bytes(tmp_path, section() + interface() + simple(5000, len(DATA)))
    assert rows[0]["truncated"] is False


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), ("trace", 1)),
        ((option("<", 3, b"glue capture point: pi"),), ("pi", 1)),
        ((option("<", 3, b"the glue capture point: pi"),), ("trace", 1)),
        ((option("<", 9, b""),), ("trace", 1)),
        ((option("<", 9, b"\3"), option("<", 14, struct.pack("<q", 5))), ("trace", 5 + 10**9)),
        ((option("<", 14, b"\5\0\0\0"),), ("trace", 1)),
        ((END, option("<", 3, b"glue capture point: pi")), ("trace", 1)),
    ],
)
def test_an_interface_tells_its_point_its_clock_and_its_zero(
    tmp_path: Path, options: tuple[bytes, ...], told: tuple[str, int]
) -> None:
    described = block("<", 1, struct.pack("<HHI", 1, 0, 0) + b"".join(options))
    ticks = 10**12 if told[1] > 10**6 else 10**6
    head = struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(DATA), len(DATA))
    body = head + DATA.ljust(len(DATA) + -len(DATA) % 4, b"\0")
    (row,), _ = read_bytes(tmp_path, section() + described + block("<", 6, body))
    assert (row["capture_point"], row["time_ns"]) == (told[0], told[1] * 10**9)


@pytest.mark.parametrize("header", [b"", b"\x0a\x0d\x0d\x0a", section()[:11], b"\x0a\x0d\x0d\x0b" + section()[4:12]])
def test_what_begins_like_no_section_is_no_pcapng(header: bytes) -> None:
    with pytest.raises(ValueError, match="not a pcapng file"):
        Pcapng(header)


@pytest.mark.parametrize(("snapshot", "limit"), [(0, 262_144), (1, 1), (262_143, 262_143), (262_145, 262_144)])
def test_a_pcap_has_a_snapshot_of_its_own_or_the_largest(snapshot: int, limit: int) -> None:
    assert Pcap(pcap([], snapshot=snapshot)[:24]).snapshot == limit
    for wrong in (pcap([])[:23], b"\0" + pcap([])[1:]):
        with pytest.raises(ValueError, match="not a pcap file"):
            Pcap(wrong)
    assert Pcap(pcap([], link=0xF000_0065)[:24]).link == 101


def sized(length: int) -> bytes:
    """The beginning of a block that is so long."""
    return struct.pack("<II", 5, length) + bytes(16)


@pytest.mark.parametrize(
    ("behind", "cause"),
    [
        (b"", None), (b"\0" * 11, None), (sized(8), "a block of 8 bytes"), (sized(14), "a block of 14 bytes"),
        (sized(1 << 20), None), (sized((1 << 20) + 4), "a block of 1,048,580 bytes"), (section(), None),
        (block("<", 7, b"")[:-4] + b"\x10\0\0\0", "a block whose lengths contradict each other"),
        (packet()[:-4] + b"\x10\0\0\0", "a packet block whose lengths contradict each other"),
    ],
)  # fmt: skip
def test_a_block_is_read_or_a_fault_at_its_place(behind: bytes, cause: str | None) -> None:
    begun = section() + interface() + packet()
    data = begun + behind
    scan = Pcapng(data[:12]).scan(np.frombuffer(data + bytes(512), np.uint8), len(data), 1000)
    assert (scan.consumed, scan.fault) == (len(begun), cause and Fault(cause, 1000 + len(begun)))
    assert scan.records.offset.tolist() == [1000 + len(section() + interface())]
    lost = b"\x0a\x0d\x0d\x0a" + bytes(24)
    scan = Pcapng(data[:12]).scan(np.frombuffer(lost + bytes(512), np.uint8), len(lost), 7)
    assert (scan.consumed, scan.fault) == (0, Fault("a section without a byte order", 7))


def chain(*blocks: bytes) -> tuple[memoryview, int]:
    data = b"".join(blocks)
    return memoryview(data + bytes(64)), len(data)


def test_a_chain_of_blocks_is_sound_unsound_or_not_known_yet() -> None:
    one = packet()
    for blocks, over, told in (
        ((one,), True, True), ((one,), False, None), ((one, b"\0" * 11), True, False), ((one, b"\0" * 11), False, None),
        ((one[:-4],), True, False), ((one[:-4],), False, None), ((one[:-1] + b"\7",), False, False),
        ((one, section(), interface(">")), True, False), ((section(">"), interface(">")), True, True),
        ((block("<", 7, b""),), False, False), ((block("<", 0xBAD, b""),), True, True),
        ((one, b"\x0a\x0d\x0d\x0a" + bytes(40)), True, False),
    ):  # fmt: skip
        assert is_chain(*chain(*blocks), 0, "<", over) is told, (blocks, over)


def vlan(tags: int) -> bytes:
    return ethernet(ipv4(udp(GOLDEN["data"])), *[0x8100] * tags)


def extended(count: int) -> bytes:
    header = b"".join(bytes([60 if number + 1 < count else 17, 0]) + bytes(6) for number in range(count))
    return ethernet(ipv6(header + udp(GOLDEN["data"]), protocol=60 if count else 17))


def short_ip(size: int) -> bytes:
    return ethernet(ipv4(udp(GOLDEN["data"])))[: 14 + size]


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (vlan(2), None), (vlan(3), "not IP"), (extended(4), None), (extended(5), "not UDP"),
        (ethernet(ipv4(udp(GOLDEN["data"]), fragment=0x4000)), None),
        (ethernet(ipv4(udp(GOLDEN["data"]), fragment=0x2000)), "IP fragment"),
        (ethernet(ipv4(udp(GOLDEN["data"]), fragment=1)), "IP fragment"),
        (short_ip(19), "cut short"), (short_ip(27), "cut short"), (short_ip(28), "other UDP"),
        (ethernet(b"\x55" + ipv4(udp(GOLDEN["data"]))[1:]), "cut short"),
        (ethernet(ipv4(udp(b"")))[:12] + b"\x86\xdd" + ipv4(udp(GOLDEN["data"])), "cut short"),
        (ethernet(ipv4(b"x" * 8, protocol=6)), "not UDP"),
    ],
)  # fmt: skip
def test_a_frame_is_unwrapped_as_far_as_headers_go(tmp_path: Path, made: bytes, cause: str | None) -> None:
    rows, tally = read_bytes(tmp_path, pcap([made, DATA]))
    assert len(rows) == 1 + (cause is None)
    assert +tally.skipped == ({} if cause is None else {cause: 1})
    assert (tally.records, tally.datagrams) == (2, len(rows))


def glue(**changed: Any) -> dict[str, Any]:
    return {"glue": [1, 65535, IDS[0], 2**53 - 1, 0], **changed}


@pytest.mark.parametrize(
    ("header", "cause"),
    [
        (glue(), None), ([], "other UDP"), ({}, "other UDP"), ({"glue": {}}, "other UDP"),
        ({"glue": [1]}, "malformed header"), ({"glue": [True, 1, IDS[0], 1, 1]}, "malformed header"),
        ({"glue": ["1", 1]}, "malformed header"), ({"glue": [2, 1]}, "other version"),
        ({"glue": [1, 65536, IDS[0], 1, 1]}, "malformed header"), ({"glue": [1, 1, IDS[0], 1]}, "malformed header"),
        ({"glue": [1, 1, IDS[0][:-1], 1, 1]}, "malformed header"), ({"glue": [1, 1, 7, 1, 1]}, "malformed header"),
        ({"glue": [1, 1, IDS[0].upper(), 1, 1]}, "malformed header"),
        ({"glue": [1, 1, IDS[0], 2**53, 1]}, "malformed header"), ({"glue": [1, 1, IDS[0], -1, 1]}, "malformed header"),
        ({"glue": [1, 1, IDS[0], 1, True]}, "malformed header"), (glue(other=7), "malformed header"),
        (glue(transport=[]), "malformed header"), (glue(transport=[7]), "malformed header"),
        (glue(transport=["unknown", None]), None), (glue(transport=["data", 1]), "malformed header"),
        (glue(discovery=[0, 0, None, "probe"]), "malformed header"),
        (glue(discovery=[0, 0, None, None, None, 7]), "malformed header"),
        (glue(fragment=[1, 2, 3]), "malformed header"), (glue(fragment=[1, 2, 3, 4]), None),
    ],
)  # fmt: skip
def test_a_header_is_read_or_refused_by_its_cause(header: Any, cause: str | None) -> None:
    if cause is None:
        assert interpret(header)["sender"] == IDS[0]
        return
    with pytest.raises(MalformedHeaderError) as refused:
        interpret(header)
    assert str(refused.value) == cause


def test_templates_are_forgotten_at_once_and_read_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_TEMPLATES", 3)
    cleared = list[int]()

    class Kept(dict[int, Any]):
        def clear(self) -> None:
            cleared.append(len(self))
            super().clear()

    made: Callable[..., None] = templates.Decoder.__init__

    def watched(self: templates.Decoder) -> None:
        made(self)
        self._templates = Kept()

    monkeypatch.setattr(templates.Decoder, "__init__", watched)
    texts = [b'{"glue":[1,1,"%s",1,1],"%s":[]}\n' % (IDS[0].encode(), b"x" * n) for n in range(1, 6)]
    for kinds, forgotten in ((3, []), (4, [3])):
        cleared.clear()
        rows, skipped = decode(texts[:kinds] * templates.FEW)
        assert all(row is not None and row["counter"] == 1 for row in rows)
        assert (+skipped, cleared) == ({}, forgotten)
    cleared.clear()
    assert all(decode(texts[:4] * (templates.FEW - 1))[0])
    assert cleared == [], "few headers are no template"


def test_only_so_many_indexes_are_open_and_of_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MOST_OPEN", 2)
    monkeypatch.setattr(indexes, "MOST_BYTES", 10)
    kept, keys = Indexes(), [(number, 1, 1, "a") for number in range(4)]
    for key in keys[:3]:
        assert kept.add(key, 0, b"abc") is None
    assert (kept.firsts(), len(kept), keys[0] in kept, keys[1] in kept) == ([1, 2], 2, False, True)
    assert kept.add(keys[1], 1, b"defg") is None  # ten bytes, and the latest now
    assert kept.firsts() == [2, 1]
    assert kept.add(keys[1], 1, b"again, and no more bytes") is None
    assert kept.firsts() == [2, 1]
    assert kept.add(keys[1], 2, b"\nrest") == b"abcdefg\n"
    assert kept.firsts() == [2]
    assert kept.add(keys[2], 2, b"\nsecond") is None
    assert kept.add(keys[2], 3, b"\n") is None  # eleven bytes
    assert kept.firsts() == []
    assert kept.add(keys[3], 1, b"cd\nx\n") is None
    assert kept.add(keys[3], 0, b"ab") == b"abcd\n"


def group(topic: Any = "t", **changed: Any) -> dict[str, Any]:
    return {"topic": topic, "sequence": 1, "count": 2, "length": 3, "at": -5, **changed}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (group(), (2, 6, -5, None, False, 0, None)), (group(lengths=[1, 2, 4]), (3, 7, -5, None, False, 0, None)),
        ({name: value for name, value in group().items() if name != "count"}, (1, 3, -5, None, False, 0, None)),
        (group(json=1, type="x", retain=2, lifespan=9), (2, 6, -5, "x", True, 2, 9)),
        (group(json=True), (2, 6, -5, None, True, 0, None)), (group(json=2), (2, 6, -5, None, False, 0, None)),
        (group(at=-(2**53)), None), (group(at=2**53), None), (group(at=1.0), None), (group(at=True), None),
        (group(sequence=2**53), None), (group(sequence=-1), None), (group(count=True), None), (group(topic=7), None),
        (group(type=7), None), (group(length="3"), None), (group(lengths=7), None), (group(lifespan=-1), None),
        (group(retain=0.5), None), ([], None), (7, None),
    ],
)  # fmt: skip
def test_a_group_of_a_bundle_is_read_or_leaves_none(entry: Any, told: tuple[Any, ...] | None) -> None:
    body = json.dumps({"groups": [entry]}).encode() + b"\npayload"
    buffer = np.frombuffer(body, np.uint8)
    held = Bodies(buffer, np.array([0]), np.array([len(body)]))
    (found,) = held.topics([0], 1, {}).to_pylist()
    names = ("count", "bytes", "at_us", "type", "json", "retain", "lifespan_ms")
    assert (found and tuple(found[0][name] for name in names)) == told


def consensus(*messages: Any, topic: str = "$glue/model/m/all", **changed: Any) -> list[Row] | None:
    texts = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
    index = {"groups": [group("other", lengths=[5]), group(topic, lengths=[len(text) for text in texts], **changed)]}
    body = json.dumps(index).encode() + b"\nother" + b"".join(texts)
    held = Bodies(np.frombuffer(body, np.uint8), np.array([0]), np.array([len(body)]))
    found: list[Row] | None = held.column("consensus", [0], 1, np.array([0])).to_pylist()[0]
    return found


VOTE: list[Any] = ["vote?", "g", "c", 4, False, True, 3, 2]
APPEND: list[Any] = ["append", "g", "c", 4, 9, 3, 2, 5, [[4, 4], [1, 2], ["x", "y"]]]


def test_appends_and_votes_of_a_model_are_read_in_their_order() -> None:
    vote = {"model": "m", "group": "g", "kind": "vote?", "term": 4, "pre": False, "previous_index": None,
            "entries": None, "commit_index": None}  # fmt: skip
    append = {**vote, "kind": "append", "pre": None, "previous_index": 3, "entries": 2, "commit_index": 5}
    assert consensus(APPEND, VOTE) == [append, vote]
    assert consensus(VOTE, json.dumps(APPEND).encode() + b"\nvalues") == [vote, append]
    assert consensus([*APPEND[:-1], []]) == [{**append, "entries": 0}]
    assert consensus([*APPEND[:-1], [[], [], 7]]) == [{**append, "entries": 0}]
    assert consensus(VOTE, b"cut short") == [vote]
    for wrong in (
        [*VOTE[:3], -1, *VOTE[4:]], [*VOTE[:4], 1, *VOTE[5:]], VOTE[:-1], ["vote", *VOTE[1:]],
        [*APPEND[:5], -1, *APPEND[6:]], [*APPEND[:7], 2**53, []], ["other", *APPEND[1:]], [*APPEND[:-1], 7], 7,
    ):  # fmt: skip
        assert consensus(wrong) is None
    assert consensus(VOTE, topic="$glue/models/m") is None
    assert consensus(VOTE, topic="x/$glue/model/m/all") is None
    assert consensus(VOTE, sequence=-1) is None
    held = Bodies(np.frombuffer(b'{"$glue/model/": 7}', np.uint8), np.array([0]), np.array([19]))
    assert held.column("consensus", [0], 1, np.array([0])).to_pylist() == [None]


@pytest.mark.parametrize(
    ("body", "ranges"),
    [(b"[]", []), (b"[1,3]", [101, 103]), (b"[1,3,5]", None), (b"[1,-3]", None), (b"{}", None), (b"[1", None)],
)
def test_ranges_begin_where_the_acknowledgement_ends(body: bytes, ranges: list[int] | None) -> None:
    held = Bodies(np.frombuffer(body, np.uint8), np.array([0]), np.array([len(body)]))
    assert held.column("ack_ranges", [0], 2, np.array([100, 0])).to_pylist() == [ranges, None]


def test_faults_and_what_is_unread_between_them_are_counted() -> None:
    tally = Tally()
    tally.progress(0, 100, None)
    assert (tally.bytes, tally.faults, tally.stopped) == (100, 0, None)
    tally.progress(100, 50, Fault("first", 150))
    tally.progress(170, 10, Fault("second", 180))
    assert (tally.fault, tally.faults, tally.unread, tally.stopped) == (Fault("first", 150), 2, 20, 180)
    tally.progress(181, 19, None)
    assert (tally.bytes, tally.unread, tally.stopped, tally.faults) == (179, 21, None, 2)


def test_rows_come_in_batches_of_a_few_and_keep_the_first_and_last_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "BATCH", 4)
    rows, _ = read_bytes(tmp_path, pcap([frame(numbered(GOLDEN["data"], number)) for number in range(9)]))
    assert [row["counter"] for row in rows] == list(range(9))
    tally = Tally()
    for spans in ((5, 9), (3, 4), (7, 11)):
        times = np.array(spans)
        tally.count(type("Records", (), {"offset": times, "time_ns": times})(), 1)
    tally.count(type("Records", (), {"offset": times[:0], "time_ns": times[:0]})(), 0)
    assert (tally.records, tally.datagrams, tally.first_ns, tally.last_ns) == (6, 3, 3, 11)
