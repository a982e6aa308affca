"""What is read of captures of every kind is what is written down: rows of `frames`, and what was counted or damaged.

A change that is meant is taken over by `pytest tests/spark --rewrite`, and read in the diff.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from glue.model.questions import Write
from glue.model.state import Set
from glue.simulation import World
from glue.simulation.clock import Clock
from spark.read import Tally
from tests.spark.page import digest
from tests.spark.recordings import CAPTURES, compare
from tests.spark.rows import Row, read
from tests.spark.scenario import Scenario
from tests.spark.truth import Taps

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
