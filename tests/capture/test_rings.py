"""How frames come from a kernel's ring and from scapy's sockets: with both played by the test, without rights."""

from __future__ import annotations

import ctypes
import errno
import importlib
import mmap
import select
import socket
import struct
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import glue
from glue.capture import filter as filters
from glue.capture import ring as module
from glue.capture import sniffer
from glue.capture.filter import SNAPSHOT, assemble, passes
from glue.capture.pcapng import UNKNOWN
from glue.capture.ring import Ring, is_available, refusal
from glue.capture.sniffer import Sniffer
from glue.contract.sealed import FORMATS
from tests.capture.test_recording import executed
from tests.spark.captures import GOLDEN, ethernet, ipv4, ipv6

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="plays sockets of Linux")
BLOCK, BLOCKS = 4096, 3
DATAGRAM = GOLDEN["data"]


class Played:
    """A socket that notes its options, and tells of drops."""

    def __init__(self, *of: int) -> None:
        self.of = of
        self.options: list[tuple[int, int, Any]] = []
        self.bound: Any = None
        self.is_closed = False
        self.program = b""
        self.drops = [3, 4]
        self.errors: list[int] = []

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if option == module.SO_ATTACH_FILTER:
            count, at = struct.unpack("@HP", value)
            self.program = ctypes.string_at(at, 8 * count)
        self.options.append((level, option, value))

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes | int:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_ERROR):
            return self.errors.pop() if self.errors else 0
        assert (level, option) == (module.SOL_PACKET, module.PACKET_STATISTICS)
        return struct.pack("=III", 100, self.drops.pop(0), 0)[:size]

    def bind(self, to: Any) -> None:
        self.bound = to

    def close(self) -> None:
        self.is_closed = True

    def fileno(self) -> int:
        return 77


def ring(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, memoryview]:
    """A ring over memory of the test."""
    monkeypatch.setattr(module, "BLOCK", BLOCK)
    monkeypatch.setattr(module, "BLOCKS", BLOCKS)
    opened: Any = Ring.__new__(Ring)
    opened._socket, opened._current, opened.dropped = Played(), 0, 0
    opened._memory = SimpleNamespace(close=lambda: None)
    opened._view = memoryview(bytearray(BLOCK * BLOCKS))
    return opened, opened._view


def fill(view: memoryview, block: int, *frames: tuple[int, int, bytes, int, int]) -> None:
    """Write a block as the kernel does: seconds, nanoseconds, data, size on the wire, and packet type of each frame."""
    position = block * BLOCK + 64
    struct.pack_into("=IIIII", view, block * BLOCK, 1, 48, 1, len(frames), 64)
    for seconds, nanoseconds, data, size, kind in frames:
        header = seconds, nanoseconds, len(data), size, 1, 82, 96
        struct.pack_into("=IIIIIIHH", view, position, 512, *header)
        struct.pack_into("=HHiHB", view, position + 48, 17, 0x0800, 9, 1, kind)
        view[position + 82 : position + 82 + len(data)] = data
        position += 512


def test_frames_are_read_block_by_block_and_the_blocks_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, view = ring(monkeypatch)
    waits: list[float] = []
    monkeypatch.setattr(select, "select", lambda r, w, x, timeout: waits.append(timeout))
    found: list[tuple[int, bytes, int, int]] = []

    def write(at: int, data: memoryview, size: int, direction: int) -> None:
        found.append((at, bytes(data), size, direction))

    assert (opened.read(0.5, write), waits, found) == (0, [0.5], [])
    fill(view, 0, (1, 2, b"one", 3, 0), (3, 4, b"second", 600, 4))
    fill(view, 1, (5, 6, b"third", 5, 2))
    assert opened.read(0.5, write) == 3
    assert waits == [0.5]  # there was something
    assert found == [
        (1_000_000_002, b"one", 3, 1), (3_000_000_004, b"second", 600, 2), (5_000_000_006, b"third", 5, 1),
    ]  # fmt: skip
    assert [view[block * BLOCK + 8] for block in range(BLOCKS)] == [0, 0, 0]
    fill(view, 1, (5, 6, b"out of turn", 5, 2))
    assert opened.read(0.0, write) == 0
    for block in (0, 1, 2):
        fill(view, block, (block, 0, b"full", 4, 0))
    found.clear()

    def write_and_fill(*frame: Any) -> None:
        write(*frame)
        fill(view, 2, (9, 0, b"again", 5, 0))

    assert opened.read(0.0, write_and_fill) == 3
    assert [at // 1_000_000_000 for at, *_ in found] == [2, 0, 1]  # each block once in a call


def test_an_interface_that_goes_down_is_told_once_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened, _ = ring(monkeypatch)
    opened._name, opened._index = "eth7", 7
    monkeypatch.setattr(socket, "if_indextoname", {7: "eth7"}.__getitem__)
    opened._socket.errors.append(errno.ENETDOWN)
    ended_early: list[bool] = []
    monkeypatch.setattr(select, "select", lambda *_: ended_early.append(bool(opened._socket.errors)))
    for _ in range(3):
        assert opened.read(0.5, lambda *_: None) == 0
    assert ended_early == [True, False, False]
    assert caplog.messages == ["eth7: Network is down; the capture goes on when it is up again"]


def test_a_capture_ends_when_its_interface_is_gone_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(index: int) -> NoReturn:
        raise OSError(errno.ENXIO, f"no interface {index}")

    opened, _ = ring(monkeypatch)
    opened._name, opened._index = "eth7", 7
    opened._socket.errors.append(errno.ENETDOWN)
    monkeypatch.setattr(select, "select", lambda *_: None)
    monkeypatch.setattr(socket, "if_indextoname", absent)
    with pytest.raises(glue.InterfaceError, match="eth7: the interface is gone"):
        opened.read(0.5, lambda *_: None)


def test_drops_add_up_and_closing_releases_all(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, view = ring(monkeypatch)
    assert (opened.count_drops(), opened.count_drops(), opened.dropped) == (3, 7, 7)
    assert opened.fileno() == 77
    opened.close()
    assert opened._socket.is_closed
    with pytest.raises(ValueError, match="released"):
        view[0]


@pytest.mark.parametrize("kind", ["1", "772"])
@pytest.mark.parametrize("promiscuous", [False, True])
def test_a_ring_is_set_up_with_filter_size_and_interface(
    kind: str, promiscuous: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "eth7").mkdir()
    (tmp_path / "eth7" / "type").write_text(f"{kind}\n")
    monkeypatch.setattr(module, "TYPES", tmp_path)
    monkeypatch.setattr(socket, "if_nametoindex", lambda name: {"eth7": 7}[name])
    opened: Any = Ring.__new__(Ring)
    opened._socket = Played()
    opened._set_up("eth7", 37320, promiscuous)
    options = opened._socket.options
    assert [struct.unpack_from("=HBBI", opened._socket.program, 8 * line) for line in range(26)] == assemble(37320)
    assert len(opened._socket.program) == 8 * 26
    expected: list[tuple[int, int, Any]] = [
        (socket.SOL_SOCKET, 26, options[0][2]), (263, 10, 2),
        (263, 5, struct.pack("=7I", 1 << 20, 64, 2048, 32_768, 50, 0, 0)),
    ]  # fmt: skip
    if kind == "772":
        expected.append((263, 23, 1))
    if promiscuous:
        expected.append((263, 1, struct.pack("=iHH8s", 7, 1, 0, b"")))
    assert options == expected
    assert opened._socket.bound == ("eth7", 3)


def test_a_ring_is_opened_raw_and_mapped_whole_or_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def opened(*of: int) -> Played:
        found = Played(*of)
        made.append(found)
        return found

    def mapped(*of: int) -> bytearray:
        made.append(of)
        return bytearray(10)

    monkeypatch.setattr(socket, "socket", opened)
    monkeypatch.setattr(mmap, "mmap", mapped)
    monkeypatch.setattr(socket, "if_nametoindex", lambda name: 7)
    found = Ring("eth7", 37320)
    assert made[0].of == (socket.AF_PACKET, socket.SOCK_RAW, 0)
    assert made[1] == (77, 64 << 20, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    assert (found.dropped, made[0].bound, made[0].is_closed) == (0, ("eth7", 3), False)
    assert (module.PACKET_ADD_MEMBERSHIP in [option for _, option, _ in made[0].options]) is False

    def missing(name: str) -> int:
        raise OSError(19, "No such device")

    monkeypatch.setattr(socket, "if_nametoindex", missing)
    with pytest.raises(glue.InterfaceError, match="eth7: No such device"):
        Ring("eth7", 37320)
    assert made[2].is_closed


def test_a_ring_is_for_ethernet_on_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(module, "TYPES", tmp_path)
    for name, text in (("eth", "1"), ("lo", "772"), ("tun", "65534"), ("odd", "text")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "type").write_text(text)
    monkeypatch.setattr(sys, "platform", "linux")
    names = ("eth", "lo", "tun", "odd", "none")
    assert [is_available(name) for name in names] == [True, True, False, False, False]
    denied = refusal("eth", PermissionError(1, "Operation not permitted"))
    assert denied == (
        "cannot capture on eth: that needs more rights; run it as root (sudo); on Linux the capability CAP_NET_RAW is "
        "enough"
    )
    assert refusal("eth", OSError(19, "No such device")) == "cannot capture on eth: No such device"
    assert refusal("eth", ValueError("odd")) == "cannot capture on eth: odd"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not is_available("eth")
    assert refusal("eth", PermissionError()) == (
        "cannot capture on eth: that needs more rights; run it as root (sudo)"
    )  # fmt: skip


def test_both_filters_agree_at_the_bounds_of_what_is_sealed() -> None:
    def to(port: int, payload: bytes) -> bytes:
        return struct.pack(">HHHH", 5000, port, 8 + len(payload), 0) + payload

    first, last = FORMATS[0], FORMATS[-1]
    cases: dict[bytes, bool] = {DATAGRAM: True, b'{"gm' + bytes(60): False}
    for byte, is_ours in ((first - 1, False), (first, True), (last, True), (last + 1, False)):
        cases[bytes([byte]) + bytes(60)] = is_ours
    for payload, is_ours in cases.items():
        for port in (9, 37320):
            for packet in (ipv4(to(port, payload)), ipv4(to(port, payload), options=bytes(8)), ipv6(to(port, payload))):
                frame = ethernet(packet)
                wanted = is_ours or port == 37320
                assert executed(assemble(37320), frame) == (SNAPSHOT if wanted else 0), (payload[:4], port)
                assert passes(frame, 1, 37320) == wanted
    for fragment, wanted in ((0x2000, True), (0x4000, True), (0x0001, False), (0x1000, False)):
        frame = ethernet(ipv4(to(37320, DATAGRAM), fragment=fragment))
        assert bool(executed(assemble(37320), frame)) == passes(frame, 1, 37320) == wanted
    assert executed(assemble(37320), ethernet(ipv6(to(37320, DATAGRAM), protocol=6))) == 0
    assert filters.SNAPSHOT == 0xFFFF


class Scapy:
    """What a sniffer uses of scapy."""

    class Scapy_Exception(Exception):  # noqa: N801, N818
        pass

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[Any] = []
        self.error = error
        self.frames: list[tuple[Any, bytes | None, float | None]] = []
        self.ins = Played()
        self.ins.drops = [50, 3, 4]
        types = SimpleNamespace(layer2num={"ether": 1, "raw": 101})
        self.conf = SimpleNamespace(L2listen=self.listen, loopback_name="lo", l2types=types)

    def listen(self, iface: str, promisc: bool) -> Any:
        self.asked.append((iface, promisc))
        if self.error is not None:
            raise self.error
        return SimpleNamespace(
            ins=self.ins, LL="raw", recv_raw=lambda size: self.frames.pop(0), close=lambda: self.asked.append("close")
        )


def sniffing(monkeypatch: pytest.MonkeyPatch, scapy: Scapy, name: str = "eth7", **options: Any) -> Sniffer:
    def found(module: str) -> Scapy:
        assert module == "scapy.all"
        return scapy

    monkeypatch.setattr(sniffer, "import_module", found)
    return Sniffer(name, 37320, **options)


def test_a_sniffer_reads_glue_s_frames_and_no_more_than_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    scapy = Scapy()
    sniffing_ = sniffing(monkeypatch, scapy, promiscuous=True)
    assert (scapy.asked, sniffing_.link) == ([("eth7", True)], 101)
    waits: list[float] = []

    def wait(r: list[Any], w: list[Any], x: list[Any], timeout: float) -> tuple[list[Any], list[Any], list[Any]]:
        waits.append(timeout)
        return (r if scapy.frames else []), w, x

    monkeypatch.setattr(select, "select", wait)
    monkeypatch.setattr("time.time_ns", lambda: 77)
    ours = ipv4(struct.pack(">HHHH", 5000, 37320, 12, 0) + b"ours")
    other = ipv4(struct.pack(">HHHH", 5000, 9, 13, 0) + b"other")
    scapy.frames = [(None, ours, 1.5), (None, other, 2.5), (None, None, None), (None, ours, None)]
    found: list[tuple[int, bytes, int, int]] = []
    assert sniffing_.read(0.25, lambda *frame: found.append(frame)) == 2
    assert found == [(1_500_000_000, ours, len(ours), UNKNOWN), (77, ours, len(ours), UNKNOWN)]
    assert waits == [0.25, 0, 0, 0, 0]
    scapy.frames = [(None, ours, 1.5)] * 300
    assert sniffing_.read(0.25, lambda *frame: None) == 256
    assert len(scapy.frames) == 44
    sniffing_.close()
    assert scapy.asked[-1] == "close"


@pytest.mark.parametrize("name", ["lo", "eth7"])
def test_a_sniffer_has_a_large_buffer_and_counts_drops_from_its_start(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    scapy = Scapy()
    opened = sniffing(monkeypatch, scapy, name)
    assert scapy.asked == [(name, False)]
    buffer = (socket.SOL_SOCKET, 33, 32 << 20)
    assert scapy.ins.options == ([buffer, (263, 23, 1)] if name == "lo" else [buffer])
    assert (opened.count_drops(), opened.count_drops()) == (3, 7)
    monkeypatch.setattr(sys, "platform", "darwin")
    scapy = Scapy()
    opened = sniffing(monkeypatch, scapy, name)
    assert (scapy.ins.options, opened.count_drops()) == ([], None)


def test_what_a_sniffer_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, words in (
        (OSError(19, "No such device"), "cannot capture on eth7: No such device"),
        (Scapy.Scapy_Exception("odd"), "cannot capture on eth7: odd"),
    ):
        with pytest.raises(glue.InterfaceError) as caught:
            sniffing(monkeypatch, Scapy(error))
        assert str(caught.value) == words

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(sniffer, "import_module", missing)
    with pytest.raises(glue.MissingExtraError, match="scapy"):
        Sniffer("eth7", 37320)
    assert importlib.import_module is not missing
