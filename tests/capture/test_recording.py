"""Recordings: what is written is what the reader reads; rotation, taps, and the filter that picks glue's frames."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

import glue
from glue.capture import Recording, tap
from glue.capture.filter import SNAPSHOT, assemble, passes
from glue.contract import Train
from glue.errors import ConfigurationError
from glue.settings import Settings
from tests.spark.captures import GOLDEN, GROUP_PORT, ethernet, frame, ipv4, ipv6, udp
from tests.spark.rows import read
from tests.support.loopback import loopback_environment

DATAGRAM = GOLDEN["data"]
FRAME = frame(DATAGRAM)


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "trace.pcapng", "hall")
    for index, direction in enumerate((0, 1, 2)):
        recording.write(1_700_000_000_000_000_001 + index, FRAME[: len(FRAME) - index], len(FRAME), direction)
    recording.close(dropped=7)
    rows, tally = read(tmp_path / "trace.pcapng")
    assert [row["time_ns"] for row in rows] == [1_700_000_000_000_000_001 + index for index in range(3)]
    assert [row["direction"] for row in rows] == [None, "in", "out"]
    assert [row["truncated"] for row in rows] == [False, True, True]
    assert {row["capture_point"] for row in rows} == {"hall"}
    assert (tally.dropped, tally.fault) == (7, None)
    assert recording.bytes == (tmp_path / "trace.pcapng").stat().st_size


def test_rotation_keeps_the_last_files(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "trace.pcapng", "hall", rotate_bytes=2000, keep=3)
    for index in range(100):
        recording.write(index, FRAME, len(FRAME))
    recording.close()
    files = sorted(tmp_path.iterdir())
    assert files == recording.paths
    assert len(files) == 3
    assert all(path.stat().st_size < 2300 for path in files)
    rows, tally = read(tmp_path)
    assert [row["time_ns"] for row in rows] == list(range(100 - len(rows), 100))
    assert tally.fault is None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "trace.pcapng", "hall")
    recording.write(1, FRAME, len(FRAME))
    if not (child := os.fork()):
        recording.flush()  # as at its end
        os._exit(0)
    os.waitpid(child, 0)
    recording.write(2, FRAME, len(FRAME))
    recording.close()
    rows, tally = read(tmp_path / "trace.pcapng")
    assert ([row["time_ns"] for row in rows], tally.fault) == ([1, 2], None)


def test_a_capture_point_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="expected 1 to 255 bytes"):
        Recording(tmp_path / "trace.pcapng", "")


# -------------------------------------------------------------------------------------------------- filter


def executed(program: list[tuple[int, int, int, int]], frame: bytes) -> int:
    """What the kernel makes of a frame: the operations of classic BPF that the filter uses."""
    accumulator = index = line = 0
    while True:
        operation, true, false, operand = program[line]
        line += 1
        size = {0x30: 1, 0x28: 2, 0x20: 4, 0x50: 1, 0x48: 2, 0x40: 4}.get(operation)
        if size:
            start = operand + (index if operation in (0x50, 0x48, 0x40) else 0)
            if start + size > len(frame):
                return 0
            accumulator = int.from_bytes(frame[start : start + size], "big")
        elif operation == 0xB1:
            index = (frame[operand] & 15) * 4
        elif operation == 0x15:
            line += true if accumulator == operand else false
        elif operation == 0x35:
            line += true if accumulator >= operand else false
        elif operation == 0x25:
            line += true if accumulator > operand else false
        elif operation == 0x45:
            line += true if accumulator & operand else false
        else:
            assert operation == 0x06
            return operand


def to_port(payload: bytes, port: int) -> bytes:
    return struct.pack(">HHHH", 5000, port, 8 + len(payload), 0) + payload


CASES = {
    "to the group": (ethernet(ipv4(udp(b"sealed"))), True),
    "unicast of glue": (ethernet(ipv4(to_port(DATAGRAM, 9))), True),
    "sealed unicast of glue": (ethernet(ipv4(to_port(b"\xe1\0\0\1" + bytes(60), 9))), True),
    "with IP options": (ethernet(ipv4(to_port(DATAGRAM, 9), options=bytes(8))), True),
    "over IPv6": (ethernet(ipv6(to_port(DATAGRAM, 9))), True),
    "to the group over IPv6": (ethernet(ipv6(udp(b"sealed"))), True),
    "of another program": (ethernet(ipv4(to_port(b'{"other"', 9))), False),
    "of another program over IPv6": (ethernet(ipv6(to_port(b"other text", 9))), False),
    "TCP": (ethernet(ipv4(udp(DATAGRAM), protocol=6)), False),
    "a later fragment": (ethernet(ipv4(udp(DATAGRAM), fragment=100)), False),
    "ARP": (bytes(12) + b"\x08\x06" + bytes(46), False),
    "too short": (bytes(20), False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_filter_picks_glue_s_frames(name: str) -> None:
    data, wanted = CASES[name]
    assert executed(assemble(GROUP_PORT), data) == (SNAPSHOT if wanted else 0)
    assert passes(data, 1, GROUP_PORT) == wanted


# ----------------------------------------------------------------------------------------------------- tap


def test_a_tap_records_both_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in loopback_environment().items():
        if name.startswith("GLUE_"):
            monkeypatch.setenv(name, value)
    path = tmp_path / "kitchen.pcapng"
    with glue.Endpoint("kitchen", network=tap(path)) as kitchen, glue.Endpoint("hall") as hall:
        lamps = hall.subscribe("lamp")
        assert kitchen.wait_for_subscribers("lamp", 1, timeout=20)
        kitchen.publish("lamp", b"x" * 10_000)
        assert next(lamps).payload == b"x" * 10_000
        assert kitchen.flush(20)
        sent = kitchen.statistics["network"]["datagrams sent"]
    rows, tally = read(path)
    out = [row for row in rows if row["direction"] == "out"]
    assert {row["sender"] for row in out} == {kitchen.id}
    assert len(out) >= sent
    assert sorted(row["counter"] for row in out) == list(range(len(out)))
    assert {row["sender"] for row in rows if row["direction"] == "in"} >= {hall.id}
    assert {row["kind"] for row in rows} >= {"announce", "data", "ack", "goodbye"}
    assert {row["capture_point"] for row in rows} == {"kitchen"}
    assert tally.fault is None


class NoNetwork:
    """A network that does nothing, to look at the tap alone."""

    def __init__(self) -> None:
        from collections import Counter

        self.statistics: Counter[str] = Counter()
        self.unicast_address = ("fe80::1%eth0", 5000, 0, 2)
        self.datagram_size = 1452
        self.trains = [Train(("fe80::2%eth0", 6000, 0, 2), DATAGRAM * 2, len(DATAGRAM))]
        self.filenos = self.wait = self.wake = self.maintain = self.close = lambda *_: None

    def receive(self) -> list[Train]:
        return self.trains

    def send(self, trains: list[Train]) -> None:
        pass


def test_a_tap_of_ipv6(tmp_path: Path) -> None:
    settings = Settings(multicast_address="[ff15::1]:37320")
    tapped = tap(tmp_path / "a.pcapng", "a", lambda _: NoNetwork())(settings)  # type: ignore[arg-type, return-value]
    tapped.send([Train(None, DATAGRAM, len(DATAGRAM))])
    list(tapped.receive())
    tapped.close()
    rows, _ = read(tmp_path / "a.pcapng")
    assert [(row["source"], row["source_port"], row["destination"]) for row in rows] == [
        ("fe80::1", 5000, "ff15::1"),
        ("fe80::2", 6000, None),
        ("fe80::2", 6000, None),
    ]
    assert [row["multicast"] for row in rows] == [True, None, None]


def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = NoNetwork()
    tapped = tap(tmp_path / "a.pcapng", "a", lambda _: network)(Settings(multicast_address="[ff15::1]:37320"))  # type: ignore[arg-type, return-value]

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Recording, "write", fail)
    assert len(list(tapped.receive())) == 1
    tapped.send([])
    tapped.close()
    assert network.statistics == {"recording ended: No space left on device": 1}


def test_a_recording_that_is_closed_twice_tells_its_drops_once(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.pcapng", "a")
    recording.close(3)
    before = (tmp_path / "a.pcapng").read_bytes()
    recording.close(4)
    recording.close()
    assert (tmp_path / "a.pcapng").read_bytes() == before
    assert recording.bytes == len(before)
