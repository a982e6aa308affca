"""What recording writes, byte for byte, and what playing reads of captures of every kind.

A change that is meant is taken over by `pytest tests/capture --rewrite`, and read in the diff.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import cast
from zlib import crc32

import pytest

from glue.capture.filter import START, assemble, passes
from glue.capture.messages import Messages, Published
from glue.capture.ordering import ordered
from glue.capture.packets import payload_of, segment_of
from glue.capture.pcapng import INWARD, OUTWARD, RAW_IP, Recording
from glue.capture.reading import Capture, DamagedError
from glue.capture.tap import TappedNetwork
from glue.contract import Address, Network, Train
from glue.contract.pieces import cut
from glue.contract.sealed import FORMATS
from glue.security.runs import OVERHEAD
from glue.security.sealer import SealedTrain
from tests.spark.captures import GOLDEN, ethernet, ipv4, ipv6, numbered, udp
from tests.spark.recordings import CAPTURES
from tests.spark.scenario import Scenario

RECORDED = Path(__file__).parent / "recorded"


def compare(lines: list[str], name: str, pytestconfig: pytest.Config) -> None:
    path = RECORDED / f"{name}.txt"
    if pytestconfig.getoption("--rewrite"):
        path.write_text("".join(f"{line}\n" for line in lines))
    assert lines == path.read_text().splitlines()


def dump(data: bytes) -> list[str]:
    return [f"{at:5} {data[at : at + 32].hex(' ', 4)}" for at in range(0, len(data), 32)]


def test_what_is_written(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    lines = []
    for link, point in ((1, "first"), (RAW_IP, "ä point of odd length")):
        recording = Recording(tmp_path / "trace.pcapng", point, link)
        for number, direction in enumerate((0, INWARD, OUTWARD, 0)):
            recording.write((1 << 60) + number * 1_000_000_007, bytes([65 + number]) * (59 + number), 70, direction)
        recording.close()
        data = (tmp_path / "trace.pcapng").read_bytes()
        assert (recording.frames, recording.bytes, recording.paths) == (4, len(data), [tmp_path / "trace.pcapng"])
        lines += dump(data)
    compare(lines, "written", pytestconfig)


def test_files_rotate_by_size_and_the_oldest_go(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "t.pcapng", "p", rotate_bytes=300, keep=2)
    for number in range(12):
        recording.write(number, bytes(60), 60)
    recording.close(dropped=7)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [path.name for path in recording.paths] == names
    assert names == ["t-00003.pcapng", "t-00004.pcapng"]
    sizes = [(tmp_path / name).stat().st_size for name in names]
    assert 300 <= sizes[0] < 300 + 92
    told = (tmp_path / names[1]).read_bytes()
    assert (7).to_bytes(8, "little") in told


@pytest.mark.parametrize("name", CAPTURES)
def test_what_is_read(name: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    path = tmp_path / "trace.pcap"
    path.write_bytes(CAPTURES[name]())
    lines = []
    capture = Capture(path)
    try:
        for frame in capture:
            payload = payload_of(frame.data, frame.link)
            shown = "no datagram" if payload is None else f"{len(payload)} bytes {crc32(payload):08x}"
            lines.append(f"{frame.time_ns} {len(frame.data)} of link {frame.link} at {frame.point!r}: {shown}")
    except DamagedError as error:
        lines.append(str(error))
    finally:
        capture.close()
    compare(lines, name, pytestconfig)


def test_the_messages_of_a_trace(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    lines = []
    for path in Scenario().taps.write(tmp_path, ["a", "c"]):
        messages = Messages(1, 1 << 20)
        found: list[Published] = []
        for frame in Capture(path):
            payload = payload_of(frame.data, frame.link)
            if payload is not None:
                found += messages.read(frame.time_ns, payload)
        lines.append(f"{path.stem}: {len(found)} messages, {dict(sorted(messages.counters().items()))}")
        lines += [" ".join(f"{part!r:.40}" for part in message) for message in list(ordered(found))[::40]]
        lines.append(f"in order: {crc32(repr(list(ordered(found))).encode()):08x}")
    compare(lines, "messages", pytestconfig)


def accepted(frame: bytes, port: int) -> int:
    """How much of a frame the program for the kernel keeps: classic BPF, as far as it is used."""
    program, line, a, x = assemble(port), 0, 0, 0
    loads = {0x30: (1, 0), 0x28: (2, 0), 0x20: (4, 0), 0x50: (1, 1), 0x48: (2, 1), 0x40: (4, 1)}
    while True:
        operation, true, false, operand = program[line]
        line += 1
        if operation in loads:
            size, relative = loads[operation]
            at = operand + relative * x
            if at + size > len(frame):
                return 0
            a = int.from_bytes(frame[at : at + size], "big")
        elif operation == 0xB1:
            x = (frame[operand] & 15) * 4
        elif operation in (0x15, 0x25, 0x35, 0x45):
            holds = {0x15: a == operand, 0x25: a > operand, 0x35: a >= operand, 0x45: bool(a & operand)}[operation]
            line += true if holds else false
        else:
            return operand


@pytest.mark.parametrize("wrap", [lambda data: ipv4(data), lambda data: ipv6(data)], ids=["IPv4", "IPv6"])
def test_the_filter_takes_the_port_and_the_beginning_of_datagrams(wrap: Callable[[bytes], bytes]) -> None:
    ours, other = START + b'ue":[1]}\n' + bytes(40), b"other" + bytes(40)
    for payload, port, taken in ((ours, 1, True), (other, 37320, True), (other, 1, False), (ours, 37320, True)):
        frame = ethernet(wrap(udp(payload)))
        assert passes(frame, 1, port) == taken, (payload, port)
        assert accepted(frame, port) == (0xFFFF if taken else 0), (payload, port)
    for frame in (ethernet(ipv4(b"x" * 40, protocol=6)), ethernet(ipv4(udp(ours), fragment=1)), b"\x08\x06" * 30):
        assert not passes(frame, 1, 37320)
        assert accepted(frame, 37320) == 0
    options = ethernet(ipv4(udp(other), options=bytes(12)))
    assert passes(options, 1, 37320)
    assert accepted(options, 37320) == 0xFFFF


@pytest.mark.parametrize("wrap", [
    ipv4, ipv6, lambda data: ipv4(data, options=bytes(12)),
], ids=["IPv4", "IPv6", "options"])  # fmt: skip
def test_the_filter_takes_what_begins_as_a_sealed_datagram(wrap: Callable[[bytes], bytes]) -> None:
    taken = [first for first in range(256) if passes(ethernet(wrap(udp(bytes([first]) + bytes(40)))), 1, 1)]
    assert taken == [*FORMATS]
    kept = [first for first in range(256) if accepted(ethernet(wrap(udp(bytes([first]) + bytes(40)))), 1)]
    assert kept == taken
    for changed in range(len(START)):
        payload = bytearray(START + bytes(40))
        payload[changed] ^= 1
        frame = ethernet(wrap(udp(bytes(payload))))
        assert (passes(frame, 1, 1), accepted(frame, 1)) == (False, 0)
    for port in (37319, 37321):
        assert not accepted(ethernet(wrap(udp(b"other" + bytes(40)))), port)


def test_the_filter_takes_nothing_else() -> None:
    ours = udp(START + bytes(40))
    others = [
        ethernet(ipv6(ours, protocol=6)), ethernet(ipv6(ours, protocol=44)), ethernet(ipv4(ours, protocol=6)),
        ethernet(ipv4(ours, fragment=1)), ethernet(ipv4(ours, fragment=0x1000)), ethernet(ipv4(ours, fragment=0x3001)),
    ]  # fmt: skip
    for frame in others:
        assert (passes(frame, 1, 37320), accepted(frame, 37320)) == (False, 0)
    for fragment in (0x2000, 0x4000):  # the first of several, and one that may not be cut
        frame = ethernet(ipv4(ours, fragment=fragment))
        assert (passes(frame, 1, 1), accepted(frame, 1)) == (True, 0xFFFF)
    foreign = ethernet(ipv4(ours))
    assert not accepted(foreign[:12] + b"\x08\x06" + foreign[14:], 37320), "neither IPv4 nor IPv6"


def test_a_train_is_cut_where_its_beginning_comes_back() -> None:
    one = numbered(GOLDEN["data"], 7)
    several = [numbered(one, counter) for counter in (7, 8, 9, 10)]
    train = b"".join(datagram.ljust(1400, b".") for datagram in several[:3]) + several[3]
    assert segment_of(train) == 1400
    assert segment_of(one) == len(one)
    assert segment_of(bytes(1472)) == 1472
    assert segment_of(bytes(1473)) == 1473
    assert segment_of(one.ljust(1472, b".") + several[1]) == 1472


class Wire:
    """A network below a tap, on which this has arrived."""

    datagram_size = 1472

    def __init__(self, own: Address, arrived: list[Train]) -> None:
        self.statistics: Counter[str] = Counter()
        self.unicast_address = own
        self.sent: list[Train] = []
        self._arrived = arrived
        self.filenos = self.wait = self.wake = self.maintain = self.close = lambda *_: None

    def receive(self) -> list[Train]:
        return self._arrived

    def send(self, trains: Sequence[Train]) -> None:
        self.sent += trains


def test_what_a_tap_writes(tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_456_789)
    lines = []
    for own, peer, group in (
        (("10.0.0.1", 5000), ("10.0.0.2", 5001), ("239.192.137.1", 37320)),
        (("fe80::1", 5000, 0, 2), ("fe80::2", 5001, 0, 2), ("ff15::1", 37320)),
    ):
        wire = Wire(own, [Train(peer, b"a" * 100 + b"b" * 70, 100), Train(None, b"noise", 5)])
        recording = Recording(tmp_path / "tap.pcapng", "point", RAW_IP)
        tapped = TappedNetwork(cast(Network, wire), recording, group)
        assert len(list(tapped.receive())) == 2
        trains = [Train(peer, b"answer", 6), Train(None, b"to all", 6)]
        tapped.send(trains)
        assert wire.sent == trains
        tapped.close()
        lines += dump((tmp_path / "tap.pcapng").read_bytes())
    compare(lines, "tapped", pytestconfig)


def test_a_tap_writes_the_sealed_datagrams_that_are_sent(tmp_path: Path) -> None:
    numbers = count()

    def seal(data: bytes | bytearray | memoryview, segment: int, address: Address | None) -> bytes:
        return b"".join(b"%08d" % next(numbers) + bytes(OVERHEAD - 8) + piece for piece in cut(bytes(data), segment))

    sent: list[bytes] = []
    peer = ("10.0.0.2", 5001)
    wire = Wire(("10.0.0.1", 5000), [])
    wire.send = lambda trains: sent.extend(  # type: ignore[method-assign]
        datagram for train in trains for chunk in train.chunks() for datagram in cut(bytes(chunk), train.segment)
    )
    path = tmp_path / "tap.pcapng"
    tapped = TappedNetwork(cast(Network, wire), Recording(path, "point", RAW_IP), ("239.192.137.1", 37320))
    tapped.send([SealedTrain(seal, Train(peer, bytes(300_000), 1000))])
    tapped.close()
    assert len(sent) == 300
    assert [payload_of(frame.data, frame.link) for frame in Capture(str(path))] == sent
