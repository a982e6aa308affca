"""What is read of captures of every kind is what is written down: rows of `frames`, and what was counted or damaged.

A change that is meant is taken over by `pytest tests/spark --rewrite`, and read in the diff.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from glue.model.questions import Write
from glue.model.state import Set
from glue.simulation import World
from glue.simulation.clock import Clock
from spark.read import Tally
from tests.spark import captures
from tests.spark.captures import GOLDEN, block, ethernet, frame, interface, ipv4, ipv6, packet, section, udp
from tests.spark.page import digest
from tests.spark.rows import Row, read
from tests.spark.scenario import Scenario
from tests.spark.truth import Taps

RECORDED = Path(__file__).parent / "recorded"
DATAGRAMS = [GOLDEN[name] for name in sorted(GOLDEN)]
FRAMES = [frame(data) for data in DATAGRAMS]


def damaged(data: bytes, at: int, by: bytes) -> bytes:
    return data[:at] + by + data[at + len(by) :]


def cooked(packet: bytes) -> bytes:
    """Linux cooked capture, version 1."""
    return struct.pack(">HHHQH", 0, 1, 6, 0, 0x0800) + packet


CAPTURES: dict[str, Callable[[], bytes]] = {
    "pcap-nanoseconds": lambda: captures.pcap(FRAMES),
    "pcap-microseconds-big-endian": lambda: captures.pcap(FRAMES, ">", captures.MICROSECONDS),
    "pcap-cut-to-a-snapshot": lambda: captures.pcap(FRAMES, snapshot=200),
    "pcap-raw-ip": lambda: captures.pcap([ipv4(udp(d)) for d in DATAGRAMS] + [ipv6(udp(DATAGRAMS[0]))], link=101),
    "pcap-linux-cooked": lambda: captures.pcap([cooked(ipv4(udp(d))) for d in DATAGRAMS], link=113),
    "pcap-tags-options-and-others": lambda: captures.pcap(
        [
            *(ethernet(ipv4(udp(d), options=bytes(8)), 0x8100) for d in DATAGRAMS[:4]),
            *(ethernet(ipv6(udp(d)), 0x88A8, 0x8100) for d in DATAGRAMS[:4]),
            ethernet(ipv4(b"tcp" * 9, protocol=6)),
            ethernet(ipv4(udp(b"not glue's"))),
            ethernet(ipv4(udp(DATAGRAMS[0]), fragment=0x2000)),
            ethernet(ipv4(b"the rest of it", fragment=0x0010)),
            b"short",
            *FRAMES,
        ]
    ),
    "pcap-with-damage": lambda: damaged(captures.pcap(FRAMES), 900, b"\xff" * 40),
    "pcap-that-ends-early": lambda: captures.pcap(FRAMES)[:-37],
    "pcapng": lambda: captures.pcapng(FRAMES),
    "pcapng-big-endian": lambda: captures.pcapng(FRAMES, ">"),
    "pcapng-with-damage": lambda: damaged(captures.pcapng(FRAMES), 1200, b"\xff" * 60),
    "pcapng-that-ends-early": lambda: captures.pcapng(FRAMES)[:-50],
    "pcapng-of-several-interfaces": lambda: (
        section()
        + interface(resolution=6, description="first")
        + interface(link=101, resolution=None)
        + b"".join(packet(d, 1_700_000_000_000_000 + n * 7, flags=n % 3) for n, d in enumerate(FRAMES[:6]))
        + b"".join(packet(ipv4(udp(d)), 1_700_000_000_500_000 + n, interface=1) for n, d in enumerate(DATAGRAMS[:6]))
        + packet(FRAMES[0], 5, interface=7)
        + block("<", 5, struct.pack("<III", 0, 0, 0))
        + block("<", 0xBAD, b"unknown")
        + section(">")
        + interface(">", resolution=0x94)
        + b"".join(packet(d, 1 << 34 | n, ">") for n, d in enumerate(FRAMES[6:9]))
    ),
}


FRAMING = (
    *("capture_point", "offset", "part", "time_ns", "source", "source_port", "destination", "destination_port"),
    *("multicast", "size", "header_size", "body_size", "overhead", "truncated"),
)
"""What depends on how a datagram was captured; the other columns are those of the datagram."""


def told(tally: Tally, rows: list[Row], is_whole: bool = True) -> list[str]:
    """What was counted, what all rows share, and a line for each row: whole, or with a hash of the datagram."""
    counted = ", ".join(f"{name} {getattr(tally, name)!r}" for name in ("records", "datagrams", "bytes", "dropped"))
    lines = [f"{counted}; skipped {dict(sorted(tally.skipped.items()))}; {tally.fault}"]
    columns = [name for name in (rows[0] if rows else ()) if name != "file"]
    same = [name for name in columns if len({str(row[name]) for row in rows}) == 1]
    lines.append(_facts({name: rows[0][name] for name in same}))
    for row in rows:
        rest = {name: row[name] for name in columns if name not in same}
        shown = {name: value for name, value in rest.items() if is_whole or name in FRAMING}
        hidden = {name: value for name, value in rest.items() if name not in shown}
        lines.append(_facts(shown) + (f" [{digest(hidden)}]" if hidden else ""))
    return lines


def _facts(row: Row) -> str:
    return " ".join(f"{name}={_short(value)}" for name, value in row.items() if value is not None)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 40 else f"{text[:20]}…{crc32(text.encode()):08x}"


def compare(lines: list[str], name: str, pytestconfig: pytest.Config) -> None:
    path = RECORDED / f"{name}.txt"
    if pytestconfig.getoption("--rewrite"):
        path.write_text("".join(f"{line}\n" for line in lines))
    assert lines == path.read_text().splitlines()


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_is_read_as_it_is_written_down(name: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    path = tmp_path / "trace.pcap"
    path.write_bytes(CAPTURES[name]())
    rows, tally = read(path)
    compare(told(tally, rows, name == "pcapng"), name, pytestconfig)
    parts, _ = read(path, partition_bytes=900)
    if "damage" not in name:
        assert parts == rows


def test_a_real_trace_is_read_as_it_is_written_down(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    lines = []
    for path in Scenario().taps.write(tmp_path):
        rows, tally = read(path)
        few = [line.rpartition("=")[0] for line in told(tally, rows[::800])]
        columns = {name: crc32(repr([row[name] for row in rows]).encode()) for name in rows[0] if name != "file"}
        lines += [path.stem, *few, *(f"{name} {value:08x}" for name, value in columns.items())]
    compare(lines, "scenario", pytestconfig)


def test_the_consensus_of_a_model_is_read_as_it_is_written_down(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    world = World(41)
    endpoints = [world.endpoint(name) for name in "abc"]
    taps = Taps(world, {e.name: e.host for e in endpoints}, {e.name: Clock() for e in endpoints})
    models = [endpoint.model("plant", voters=3) for endpoint in endpoints]
    world.run(3.0)
    for number in range(12):
        models[number % 3].ask(Write([Set(f"k/{number}", number)]))
        endpoints[0].publish("other", b"x")
        world.run(0.05)
    endpoints[0].crash()
    world.run(6.0)
    lines = []
    for path in taps.write(tmp_path, ["a", "b"]):
        rows, _ = read(path, ["time_ns", "sender", "consensus"])
        said = [row for row in rows if row["consensus"] is not None]
        lines += [path.stem, *(f"{row['time_ns']} {row['sender']} {row['consensus']}" for row in said)]
    compare([*lines[:40], f"{len(lines)} lines, {crc32(repr(lines).encode()):08x}"], "consensus", pytestconfig)
