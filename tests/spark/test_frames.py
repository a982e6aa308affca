"""What becomes of a captured frame: every golden datagram means what vectors.json says, over every kind of link."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glue.contract import Header, Outbound
from glue.contract.sealed import FORMATS, HEAD
from glue.serialization import Serialization
from tests.spark.captures import GOLDEN, GROUP, SOURCE, SOURCE_PORT, ethernet, frame, ipv4, ipv6, numbered, pcap, udp
from tests.spark.rows import Row, read_bytes

VECTORS = {v["name"]: v for v in json.loads((Path(__file__).parents[1] / "golden" / "vectors.json").read_text())}
DATAGRAM = numbered(GOLDEN["data"], 5)


def one(directory: Path, data: bytes, link: int = 1) -> Row:
    rows, _ = read_bytes(directory, pcap([data], link=link))
    assert len(rows) == 1
    return rows[0]


def given(row: Row, prefix: str, entry: dict[str, Any]) -> None:
    """The row says all that the entry of a vector says; data that acknowledges nothing says 0 there, the row null."""
    if entry.get("ack_channel") == 0:
        entry = {name: value for name, value in entry.items() if not name.startswith("ack_")}
    for name, value in entry.items():
        column = f"{prefix}{name}" if f"{prefix}{name}" in row else name
        if column in row:
            assert row[column] == value, column


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("copies", [1, 40], ids=["alone", "by template"])
def test_a_golden_datagram_means_what_its_vector_says(tmp_path: Path, name: str, copies: int) -> None:
    rows, tally = read_bytes(tmp_path, pcap([frame(GOLDEN[name])] * copies))
    assert tally.datagrams == copies
    row, vector = rows[-1], VECTORS[name]
    assert {**row, "offset": 0, "time_ns": 0} == {**rows[0], "offset": 0, "time_ns": 0}
    given(row, "", vector["glue"])
    transport = vector.get("transport", {})
    given(row, "ack_" if transport.get("kind") in ("ack", "mended") else "", transport)
    given(row, "fragment_", vector.get("fragment", {}))
    discovery = vector.get("discovery", {})
    assert row["kind"] == transport.get("kind", discovery.get("kind"))
    assert row["size"] == len(GOLDEN[name]) == row["header_size"] + row["body_size"]
    assert row["body_size"] == len(bytes.fromhex(vector["body"]))


def test_acknowledgements_are_absolute(tmp_path: Path) -> None:
    row = one(tmp_path, frame(GOLDEN["acknowledgement"]))
    assert (row["ack_channel"], row["ack_next"], row["ack_ranges"]) == (1, 3, [4, 5])
    row = one(tmp_path, frame(GOLDEN["data-with-acknowledgement"]))
    assert (row["ack_channel"], row["ack_next"], row["ack_held_us"], row["ack_window"]) == (1, 8, 499, 4096)
    assert one(tmp_path, frame(DATAGRAM))["ack_channel"] is None


def test_topics_of_a_bundle(tmp_path: Path) -> None:
    groups = one(tmp_path, frame(GOLDEN["bundle"]))["topics"]
    assert [(g["topic"], g["sequence"], g["count"], g["bytes"]) for g in groups] == [
        ("home/kitchen/temperature", 4, 3, 12),
        ("home/kitchen/lamp", 1, 3, 5),
    ]
    assert one(tmp_path, frame(GOLDEN["fragment-1"]))["topics"][0]["bytes"] == 600
    assert one(tmp_path, frame(GOLDEN["fragment-2"]))["topics"] is None


def bundle(topics: int, first: int = 1) -> bytes:
    """A bundle with a message of each topic, whose index alone is longer than a frame."""
    groups = [
        {"topic": f"hall/room-{n:03}/temperature", "sequence": first, "at": 1, "length": 2} for n in range(topics)
    ]
    return json.dumps({"groups": groups}).encode() + b"\n" + b"\n2" * topics


def fragments(message: bytes, counter: int, channel: int, sequence: int, kind: str = "data", size: int = 700) -> bytes:
    parts = [message[start : start + size] for start in range(0, len(message), size)]
    transport = ["best", 0, sequence] if kind == "best" else [kind, 0, 0, 0, 0, 0, channel, sequence]
    return run_of(parts, {"fragment": [counter % 97 * 2, size, len(message), 0], "transport": transport}, counter)


@pytest.mark.parametrize("kind", ["data", "group", "best"])
def test_topics_of_a_bundle_whose_index_takes_several_fragments(tmp_path: Path, kind: str) -> None:
    trains = [fragments(bundle(count), 100 * count, 1, 1000 * count, kind) for count in (3, 20, 45, 90)]
    rows, _ = read_bytes(tmp_path, pcap([frame(train) for train in trains]))
    told = [(row["fragment_index"], len(row["topics"]), row["topics"][-1]) for row in rows if row["topics"]]
    assert [(place, count) for place, count, _ in told] == [(0, 3), (2, 20), (4, 45), (9, 90)]
    assert told[-1][2]["topic"] == "hall/room-089/temperature"
    assert [row["topics"] for row in rows if row["fragment_index"] == 0][1:] == [None] * 3


def datagrams(train: bytes) -> list[bytes]:
    return [b'{"glue":' + part for part in train.split(b'{"glue":')[1:]]


def test_an_index_is_put_together_from_fragments_in_any_order_on_several_channels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (datagrams(fragments(bundle(60), 500, channel, 40)) for channel in (1, 2))
    first[1], first[3] = first[3], first[1]
    lost = datagrams(fragments(bundle(60), 900, 3, 80))
    del lost[2]
    mixed = [one for pair in zip(first, second, strict=True) for one in pair] + lost
    monkeypatch.setattr("spark.read.files.BLOCK", 1 << 12)  # so that they come in several blocks
    rows, tally = read_bytes(tmp_path, pcap([frame(one) for one in [*mixed, *second]]))
    told = [(row["channel"], len(row["topics"])) for row in rows if row["topics"]]
    assert told == [(1, 60), (2, 60), (2, 60)]
    assert tally.fault is None


def test_an_announcement(tmp_path: Path) -> None:
    row = one(tmp_path, frame(GOLDEN["announcement"]))
    assert (row["name"], row["interval_ms"], row["interest_version"]) == ("hall", 1000, 2)
    assert row["operations"] == ["+home/+/temperature", "+home/+/lamp"]


LINKS = {
    "ethernet": (1, ethernet(ipv4(udp(DATAGRAM)))),
    "a VLAN": (1, ethernet(ipv4(udp(DATAGRAM)), 0x8100)),
    "a VLAN in a VLAN": (1, ethernet(ipv4(udp(DATAGRAM)), 0x88A8, 0x8100)),
    "IP options": (1, ethernet(ipv4(udp(DATAGRAM), options=bytes.fromhex("94040000")))),
    "padded": (1, ethernet(ipv4(udp(DATAGRAM))) + bytes(20)),
    "loopback of BSD": (0, b"\2\0\0\0" + ipv4(udp(DATAGRAM))),
    "loopback of OpenBSD": (108, b"\0\0\0\2" + ipv4(udp(DATAGRAM))),
    "raw IP": (101, ipv4(udp(DATAGRAM))),
    "Linux, any": (113, bytes(14) + b"\x08\0" + ipv4(udp(DATAGRAM))),
    "Linux, any, version 2": (276, b"\x08\0" + bytes(18) + ipv4(udp(DATAGRAM))),
}


@pytest.mark.parametrize("name", LINKS)
def test_links(tmp_path: Path, name: str) -> None:
    link, data = LINKS[name]
    row = one(tmp_path, data, link)
    assert (row["source"], row["source_port"], row["destination"]) == (SOURCE, SOURCE_PORT, GROUP)
    assert row["multicast"]
    assert (row["counter"], row["body_size"], row["truncated"]) == (5, 100, False)


@pytest.mark.parametrize("link", [1, 108])
@pytest.mark.parametrize("extension", [b"", b"\x11\0" + bytes(6)], ids=["plain", "extended"])
def test_ipv6(tmp_path: Path, link: int, extension: bytes) -> None:
    packet = ipv6(extension + udp(DATAGRAM), 0 if extension else 17)
    row = one(tmp_path, ethernet(packet) if link == 1 else b"\0\0\0\x1e" + packet, link)
    assert (row["source"], row["destination"], row["multicast"]) == ("fe80::1", "ff02::7", True)
    assert row["body_size"] == 100


def test_other_programs_are_skipped_and_counted(tmp_path: Path) -> None:
    others = [
        ethernet(ipv4(udp(b"M-SEARCH * HTTP/1.1\r\n"))),
        ethernet(ipv4(udp(b'{"another": "program"}\n'))),
        ethernet(ipv4(udp(b'{"glue":[1,1,"nonsense",0,1]}\n'))),
        ethernet(ipv4(udp(b'{"glue":[2,1,"e36759dea8a54260",0,1]}\n'))),
        ethernet(ipv4(udp(b"{" * 1000))),
        ethernet(ipv4(udp(b""))),
        ethernet(ipv4(bytes(20), protocol=6)),
        ethernet(ipv4(udp(DATAGRAM), fragment=0x2000)),
        ethernet(ipv4(udp(DATAGRAM)))[:30],
        b"\xff" * 12 + b"\x08\x06" + bytes(28),
        b"\x01",
    ]
    rows, tally = read_bytes(tmp_path, pcap([*others, frame(DATAGRAM)]))
    assert len(rows) == 1
    assert tally.records == len(others) + 1
    assert +tally.skipped == {
        "other UDP": 4, "malformed header": 1, "other version": 1, "not UDP": 1, "IP fragment": 1, "cut short": 2,
        "not IP": 1,
    }  # fmt: skip


def test_sealed_datagrams_are_counted_apart_from_other_programs(tmp_path: Path) -> None:
    sealed = HEAD.pack(FORMATS.start, 1, 7, bytes(16), 5) + bytes(60)
    rows, tally = read_bytes(tmp_path, pcap([ethernet(ipv4(udp(sealed))), ethernet(ipv4(udp(sealed[:10])))]))
    assert (rows, +tally.skipped) == ([], {"sealed": 1, "other UDP": 1})


def test_an_unknown_link_is_counted(tmp_path: Path) -> None:
    rows, tally = read_bytes(tmp_path, pcap([b"\0" * 60], link=147))
    assert (rows, tally.skipped["link type 147"]) == ([], 1)


def test_a_snapshot_keeps_the_header(tmp_path: Path) -> None:
    rows, tally = read_bytes(tmp_path, pcap([frame(DATAGRAM)], snapshot=42 + 100))
    assert rows[0]["truncated"]
    assert (rows[0]["body_size"], rows[0]["topics"]) == (100, None)
    _, tally = read_bytes(tmp_path, pcap([frame(DATAGRAM)], snapshot=42 + 50))
    assert tally.skipped["cut short in the header"] == 1


@pytest.mark.parametrize("size", [200, 1280])
def test_a_train_is_cut_into_its_datagrams(tmp_path: Path, size: int) -> None:
    layer = Serialization(endpoint_id="e36759dea8a54260", incarnation=7, network_id=1, counter=98)
    bodies = [bytes([65 + index]) * size for index in range(7)] + [b"end"]
    header: Header = {"fragment": [0, size, 7 * size + 3, 0], "transport": ["data", 0, 0, 0, 0, 0, 1, 5]}
    (train,) = layer.send(0.0, [Outbound(("x",), bodies, header)])
    rows, tally = read_bytes(tmp_path, pcap([frame(bytes(train.data)), frame(DATAGRAM)]))
    assert [row["part"] for row in rows] == [*range(8), 0]
    assert [row["counter"] for row in rows] == [*range(98, 106), 5]
    assert [row["fragment_index"] for row in rows] == [*range(8), None]
    assert [row["body_size"] for row in rows] == [size] * 7 + [3, 100]
    assert (tally.records, tally.datagrams) == (2, 9)


def run_of(bodies: list[bytes], header: Header, counter: int = 8) -> bytes:
    """A run of frames as one captured frame holds it, whose counter takes one digit more on the way."""
    layer = Serialization(endpoint_id="e36759dea8a54260", incarnation=7, network_id=1, counter=counter)
    (train,) = layer.send(0.0, [Outbound(("x",), bodies, header)])
    return bytes(train.data)


@pytest.mark.parametrize(
    ("kind", "header"),
    [
        ("parity", {"transport": ["parity", 3, 4, 0, 16, 0]}),
        ("data", {"transport": ["data", 0, 0, 0, 0, 0, 1, 5]}),
        ("best", {"transport": ["best", 0, 5]}),
    ],
)
@pytest.mark.parametrize("copies", [1, 40], ids=["alone", "by template"])
def test_a_train_shorter_than_a_frame_is_cut_whatever_its_kind(
    tmp_path: Path, kind: str, header: Header, copies: int
) -> None:
    train = run_of([bytes([65 + index]) * 320 for index in range(3)], header)
    assert len(train) < 1472
    rows, tally = read_bytes(tmp_path, pcap([frame(train), frame(DATAGRAM)] * copies))
    assert [row["counter"] for row in rows] == [8, 9, 10, 5] * copies
    assert [row["part"] for row in rows] == [0, 1, 2, 0] * copies
    assert [row["kind"] for row in rows[:3]] == [kind] * 3
    assert {row["body_size"] for row in rows} == {320, 100}
    assert (tally.records, tally.datagrams) == (2 * copies, 4 * copies)


def test_a_datagram_whose_payload_is_another_datagram_is_not_cut(tmp_path: Path) -> None:
    outer = DATAGRAM + b"\n" + GOLDEN["data-with-acknowledgement"] + numbered(DATAGRAM, 4)
    even = DATAGRAM + DATAGRAM  # as long as each other, but with one counter
    rows, _ = read_bytes(tmp_path, pcap([frame(outer), frame(even)]))
    assert [(row["counter"], row["size"]) for row in rows] == [(5, len(outer)), (5, len(even))]


def test_only_the_columns_asked_for(tmp_path: Path) -> None:
    rows, _ = read_bytes(tmp_path, pcap([frame(DATAGRAM)]), ["datagram", "counter"])
    assert rows == [{"datagram": DATAGRAM, "counter": 5}]
    with pytest.raises(ValueError, match="frames has no column colour"):
        read_bytes(tmp_path, pcap([]), ["colour"])
