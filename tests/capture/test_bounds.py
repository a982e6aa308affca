"""Frames at their bounds, recordings byte by byte, and the packets that a tap makes of datagrams."""

from __future__ import annotations

import struct
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.capture import Recording, pcapng, tap
from glue.capture.opened import _checksum, _with_payload, is_sealed
from glue.capture.packets import payload_of, segment_of, udp_at
from glue.capture.pcapng import INWARD, OUTWARD, RAW_IP
from glue.capture.reading import Capture
from glue.capture.tap import TappedNetwork
from glue.contract import Train
from glue.errors import ConfigurationError
from glue.settings import Settings
from tests.spark import captures as made
from tests.spark.captures import block, ethernet, ipv4, ipv6, option, section, udp
from tests.spark.test_link_headers import BEGINNING, sent

FOUR, SIX = ipv4(udp(b"0123456789")), ipv6(udp(b"0123456789"))
LINKED = {
    1: bytes(12) + b"\x08\0", 113: bytes(14) + b"\x08\0", 276: b"\x08\0" + bytes(18), 0: b"\2\0\0\0", 108: b"\2\0\0\0",
    101: b"", 12: b"",
}  # fmt: skip


@pytest.mark.parametrize("link", LINKED)
def test_a_datagram_begins_behind_every_link(link: int) -> None:
    for packet, at in ((FOUR, 20), (SIX, 40), (ipv4(udp(b"x" * 20), options=bytes(8)), 28)):
        head = LINKED[link].replace(b"\x08\0", b"\x86\xdd") if packet is SIX else LINKED[link]
        assert udp_at(head + packet, link) == len(head) + at
        for size, found in ((at + 8, len(head) + at), (at + 7, None)):
            assert udp_at(head + packet[:size], link) == found
    for other in (b"\x55" + FOUR[1:], b"\x10" + FOUR[1:], ipv4(udp(b""), protocol=16), ipv6(udp(b""), protocol=18)):
        assert udp_at(LINKED[link] + other, link) is None


def test_tags_and_fragments_of_a_frame() -> None:
    for tags in ((0x8100,), (0x88A8,), (0x9100, 0x8100), (0x8100, 0x8100, 0x8100)):
        assert udp_at(ethernet(FOUR, *tags), 1) == 34 + 4 * len(tags)
    for fragment, is_first in ((0x2000, True), (0x4000, True), (1, False), (0x1000, False), (0x2001, False)):
        assert (udp_at(ipv4(udp(b"x"), fragment=fragment), 101) == 20) == is_first


@pytest.mark.parametrize(
    ("told", "payload"),
    [
        (18, b"0123456789"),
        (12, b"0123"),
        (9, b"0"),
        (8, b""),
        (7, b"0123456789"),
        (0, b"0123456789"),
        (99, b"0123456789"),
    ],
)
def test_a_payload_is_as_long_as_its_header_tells(told: int, payload: bytes) -> None:
    packet = FOUR[:24] + told.to_bytes(2, "big") + FOUR[26:]
    assert payload_of(packet, 101) == payload
    assert payload_of(ethernet(packet), 1) == payload


@pytest.mark.parametrize(
    ("train", "segment"),
    [
        (sent(1) + sent(2) + sent(3, 50), 100), (sent(9) + sent(10) + sent(12), 100), (sent(1) + sent(1), 200),
        (sent(2) + sent(1), 200), (sent(1) + sent(2, life=8), 200),
        (sent(1, 40) + sent(2, 40), 40), (sent(1, space=b" ") + sent(2, space=b" "), 100),
        (sent(5, within=sent(4, 0)) + sent(6), 100), (sent(5, within=sent(4, 0) * 2, size=200) + sent(6), 200),
        (sent(1) + sent(2).replace(b",2]", b",z]"), 200), (sent(0) + sent(1), 100),
        (sent(1).replace(b",1]", b",z]") + sent(0), 100), (sent(1) + sent(2) + b"x" * BEGINNING, 100),
        (sent(1) + sent(2) + b"x" * (BEGINNING + 1), 201 + BEGINNING), (b"x" + sent(1) + sent(2), 201), (b"", 0),
    ],
)  # fmt: skip
def test_datagrams_of_a_train_are_at_equal_distances_with_rising_numbers(train: bytes, segment: int) -> None:
    assert segment_of(train) == segment


def test_a_frame_is_sealed_by_its_first_byte() -> None:
    for first, sealed in ((b"\xe1", True), (b"{", False)):
        assert is_sealed(ethernet(ipv4(udp(first + bytes(63)))), 1) == sealed
    assert not is_sealed(b"", 1)


@pytest.mark.parametrize("link", LINKED)
@pytest.mark.parametrize("payload", [b"", b"a", bytes(65_000)])
def test_an_opened_frame_has_its_own_lengths_behind_every_link(link: int, payload: bytes) -> None:
    found = _with_payload(LINKED[link] + FOUR, link, payload)
    start = len(LINKED[link])
    assert (found[:start], found[start + 28 :]) == (LINKED[link], payload)
    length = 28 + len(payload)
    assert found[start : start + 10] == FOUR[:2] + length.to_bytes(2, "big") + FOUR[4:10]
    assert found[start + 12 : start + 24] == FOUR[12:24]
    assert found[start + 24 : start + 28] == (length - 20).to_bytes(2, "big") + bytes(2)
    assert _checksum(found[start : start + 20]) == 0, "with its own checksum the sum of a header is nothing"


@pytest.mark.parametrize(
    ("header", "checksum"),
    [
        (b"\0\1\0\2", 0xFFFC),
        (b"\xff\xff\0\0", 0),
        (b"\xff\xff\0\1", 0xFFFE),
        (b"\x80\0" * 4, 0xFFFD),
        (b"\x12", 0xFFED),
        (b"\xff\xff\xff\xff\0\1", 0xFFFE),
    ],
)
def test_a_checksum_carries_what_is_beyond_16_bits(header: bytes, checksum: int) -> None:
    assert _checksum(header) == checksum


# ------------------------------------------------------------------------------------------------- recordings


def interface(point: str = "hall", link: int = 1) -> bytes:
    named = option("<", 3, f"glue capture point: {point}".encode())
    return block("<", 1, struct.pack("<HHI", link, 0, 0) + named + option("<", 9, b"\x09") + option("<", 0, b""))


def test_a_recording_is_written_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000_000_000_005
    monkeypatch.setattr(time, "time_ns", lambda: now)
    recording = Recording(tmp_path / "a.pcapng", "hall", RAW_IP)
    expected = section() + interface(link=101)
    for size, flags in ((5, None), (8, 1), (6, 2)):
        recording.write(now, bytes(size), size, flags or 0)
        expected += made.packet(bytes(size), now, flags=flags)
    recording.flush()
    assert (tmp_path / "a.pcapng").read_bytes() == expected
    assert (recording.frames, recording.bytes, recording.point) == (3, len(expected), "hall")
    recording.close(7)
    told = struct.pack("<III", 0, now >> 32, now & 0xFFFFFFFF) + option("<", 5, struct.pack("<Q", 7))
    expected += block("<", 5, told + option("<", 0, b""))
    assert (tmp_path / "a.pcapng").read_bytes() == expected
    assert (recording.bytes, recording.paths) == (len(expected), [tmp_path / "a.pcapng"])


def test_a_file_ends_with_the_frame_that_fills_it(tmp_path: Path) -> None:
    begun = len(section() + interface())
    frame = len(made.packet(bytes(60), 1))
    for limit, sizes in ((begun + 2 * frame, [2, 2, 1]), (begun + 2 * frame + 1, [3, 2]), (begun, [0, 1, 1, 1, 1, 1])):
        folder = tmp_path / str(limit)
        folder.mkdir()
        recording = Recording(folder / "a.pcapng", "hall", rotate_bytes=limit)
        for number in range(5):
            recording.write(number, bytes(60), 60)
        recording.close()
        names = [f"a-{number:05}.pcapng" for number in range(1, len(sizes) + 1)]
        assert [path.name for path in recording.paths] == names
        assert [(path.stat().st_size - begun) // frame for path in recording.paths] == sizes
        assert (recording.frames, recording.bytes) == (5, begun * len(sizes) + frame * 5)


def test_a_file_ends_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=50.0)
    monkeypatch.setattr(pcapng, "time", SimpleNamespace(monotonic=lambda: clock.now, time_ns=lambda: 0))
    recording = Recording(tmp_path / "a.pcapng", "hall", rotate_seconds=10.0, keep=2)
    files = []
    for now in (59.9, 60.0, 69.9, 70.0, 90.0):
        clock.now = now
        recording.write(0, b"frame", 5)
        files.append(recording.paths[-1].name[-8])
    assert files == ["1", "2", "2", "3", "4"]
    assert recording.paths == sorted(tmp_path.iterdir())
    assert [path.name for path in recording.paths] == ["a-00003.pcapng", "a-00004.pcapng"]
    recording.close()
    (tmp_path / "a-00003.pcapng").unlink()
    once = Recording(tmp_path / "b.pcapng", "hall", keep=1)
    clock.now = 1e9
    once.write(0, b"frame", 5)
    once.close()
    assert once.paths == [tmp_path / "b.pcapng"], "without a limit there is one file"


def test_a_file_that_is_gone_already_is_no_trouble(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.pcapng", "hall", rotate_bytes=1, keep=1)
    recording.paths[0].unlink()
    recording.write(0, b"frame", 5)
    recording.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a-00002.pcapng"]


def test_only_its_owner_may_read_a_secret_recording(tmp_path: Path) -> None:
    for is_secret, mode in ((True, 0o600), (False, 0o644)):
        Recording(tmp_path / f"{mode}.pcapng", "hall", is_secret=is_secret).close()
        assert (tmp_path / f"{mode}.pcapng").stat().st_mode & 0o077 == mode & 0o077
    rotating = Recording(tmp_path / "secret.pcapng", "hall", rotate_bytes=1, is_secret=True)
    for number in range(3):
        rotating.write(number, b"frame", 5)
    rotating.close()
    assert [path.stat().st_mode & 0o077 for path in rotating.paths] == [0] * 4, "each file of a series"


def test_a_name_of_a_point_has_1_to_255_bytes(tmp_path: Path) -> None:
    for name in ("a", "a" * 255, "ü" * 127):
        Recording(tmp_path / "a.pcapng", name).close()
        assert (tmp_path / "a.pcapng").read_bytes() == section() + interface(name)
    for name in ("", "a" * 256, "ü" * 128):
        with pytest.raises(ConfigurationError, match=r"expected 1 to 255 bytes of UTF-8$"):
            Recording(tmp_path / "b.pcapng", name)
        assert not (tmp_path / "b.pcapng").exists()


# ------------------------------------------------------------------------------------------------- taps


class Network:
    """A network of the test: what it gets and gives."""

    datagram_size = 1472
    filenos = wait = wake = maintain = lambda *_: None

    def __init__(self, own: tuple[str, int] = ("10.0.0.1", 5000)) -> None:
        self.unicast_address = own
        self.statistics = Counter[str]()
        self.did: list[Any] = []
        self.trains: list[Train] = []

    def receive(self) -> list[Train]:
        return self.trains

    def send(self, trains: list[Train]) -> None:
        self.did.append(list(trains))

    def describe(self) -> dict[str, Any]:
        return {"interface": "eth0"}

    def close(self) -> None:
        self.did.append("closed")


class Recorded:
    """A recording that keeps what it gets."""

    paths = (Path("a.pcapng"),)

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes, int, int]] = []
        self.closed: list[int | None] = []

    def write(self, *frame: Any) -> None:
        self.frames.append(frame)

    def close(self, dropped: int | None = None) -> None:
        self.closed.append(dropped)


def tapped(network: Network, recording: Recorded, group: tuple[str, int] = ("239.0.0.7", 37320)) -> TappedNetwork:
    given: Any = (network, recording, group)
    return TappedNetwork(*given)


def packet(source: str, destination: str, ports: tuple[int, int], data: bytes) -> bytes:
    """A packet of IPv4 as a tap writes it."""
    ends = b"".join(bytes(map(int, one.split("."))) for one in (source, destination))
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(data), 0, 0, 1, 17, 0) + ends
    return head + struct.pack("!HHHH", *ports, 8 + len(data), 0) + data


def test_a_tap_makes_a_packet_of_each_datagram(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 77)
    network, recording = Network(), Recorded()
    tap_ = tapped(network, recording)
    trains = [Train(None, b"0123456789", 4), Train(("10.0.0.9", 6000), b"abc", 3)]
    tap_.send(trains)
    network.trains = [Train(("10.0.0.9", 6000), b"back", 4), Train(None, b"own", 3)]
    assert [*tap_.receive()] == network.trains
    to_all = [packet("10.0.0.1", "239.0.0.7", (5000, 37320), data) for data in (b"0123", b"4567", b"89")]
    to_one = packet("10.0.0.1", "10.0.0.9", (5000, 6000), b"abc")
    back = packet("10.0.0.9", "0.0.0.0", (6000, 5000), b"back")
    expected = [*((one, OUTWARD) for one in (*to_all, to_one)), (back, INWARD)]
    assert recording.frames == [(77, data, len(data), way) for data, way in expected]
    assert network.did == [trains]


def test_a_tap_of_ipv6_has_headers_of_ipv6() -> None:
    network, recording = Network(("fe80::1%eth0", 5000)), Recorded()
    tap_ = tapped(network, recording, ("ff02::7", 37320))
    tap_.send([Train(None, b"data", 4)])
    network.trains = [Train(("fe80::2%eth0", 6000), b"back", 4)]
    assert len([*tap_.receive()]) == 1
    ends = [b"\xfe\x80" + bytes(13) + b"\1", b"\xff\2" + bytes(13) + b"\7", b"\xfe\x80" + bytes(13) + b"\2", bytes(16)]
    head = struct.pack("!IHBB", 6 << 28, 12, 17, 1)
    assert [data for _, data, *_ in recording.frames] == [
        head + ends[0] + ends[1] + struct.pack("!HHHH", 5000, 37320, 12, 0) + b"data",
        head + ends[2] + ends[3] + struct.pack("!HHHH", 6000, 5000, 12, 0) + b"back",
    ]
    with pytest.raises(ConfigurationError, match=r"^fe80::1%eth0 and 10\.0\.0\.1 are of different address families$"):
        tap_.send([Train(("10.0.0.1", 1), b"x", 1)])


def test_a_tap_tells_its_files_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    network, recording = Network(), Recorded()
    tap_ = tapped(network, recording)
    assert tap_.describe() == {"interface": "eth0", "tap": ["a.pcapng"]}
    assert (tap_.datagram_size, tap_.unicast_address) == (1472, ("10.0.0.1", 5000))
    assert tap_.statistics is network.statistics
    tap_.close()
    tap_.close()
    assert (recording.closed, network.did) == ([0], ["closed", "closed"])
    assert tap_.describe() == {"interface": "eth0", "tap": []}
    tap_.send([Train(None, b"late", 4)])
    assert recording.frames == []
    assert not hasattr(tap_, "follow_links")
    following: Any = Network()
    following.follow_links = "follow"
    assert tapped(following, recording).follow_links == "follow"


def test_a_tap_whose_disk_is_full_is_closed_once_and_goes_on() -> None:
    network, recording = Network(), Recorded()
    tap_ = tapped(network, recording)

    def refuse(*_: Any) -> None:
        recording.closed.append(None)
        raise OSError(28, "full")

    recording.write = recording.close = refuse  # type: ignore[method-assign, assignment]
    for _ in range(2):
        tap_.send([Train(None, b"data", 2)])
    assert (len(network.did), network.statistics) == (2, {"recording ended: full": 1})
    assert recording.closed == [None, None], "one frame, and the end"


def test_a_disk_that_is_full_at_the_end_does_not_keep_an_endpoint_from_closing() -> None:
    network, recording = Network(), Recorded()
    tap_ = tapped(network, recording)

    def refuse(*_: Any) -> None:
        raise OSError(28, "full")

    recording.close = refuse  # type: ignore[method-assign, assignment]
    tap_.close()
    tap_.close()
    assert (network.did, network.statistics) == (["closed", "closed"], {"recording ended: full": 1})


def test_a_recording_is_closed_though_its_end_does_not_fit(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.pcapng", "a")
    recording._file.close()
    recording._file = open("/dev/full", "wb", buffering=16)  # noqa: SIM115
    with pytest.raises(OSError, match="No space left"):
        recording.close(3)
    assert recording._file.closed


@pytest.mark.parametrize(
    ("point", "name", "told"), [("p", "hall", "p"), (None, "hall", "hall"), (None, None, "trace"), ("", None, "trace")]
)
def test_a_tap_is_named_after_its_endpoint_or_its_file(
    point: str | None, name: str | None, told: str, tmp_path: Path
) -> None:
    network: Any = Network()
    settings: Any = Settings(name=name, multicast_address="239.0.0.9:777")
    made_: Any = tap(tmp_path / "trace.pcapng", point, lambda _: network, rotate_bytes=10_000)(settings)
    made_.send([Train(None, b"data", 4)])
    made_.close()
    (frame,) = Capture(tmp_path / "trace-00001.pcapng")
    assert (frame.point, frame.link) == (told, 101)
    assert frame.data == packet("10.0.0.1", "239.0.0.9", (5000, 777), b"data")


def test_a_network_that_cannot_start_leaves_no_open_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []
    close = Recording.close
    monkeypatch.setattr(Recording, "close", lambda self, dropped=None: closed.append((dropped, close(self, dropped))))

    def refuse(settings: Settings) -> Any:
        raise ConfigurationError("no interface")

    with pytest.raises(ConfigurationError, match="no interface"):
        tap(tmp_path / "a.pcapng", "a", refuse)(Settings())
    assert closed == [(None, None)]
