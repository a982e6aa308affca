"""How the doctor looks: what it reads of a machine, of datagrams and of reports, and how often it asks."""

from __future__ import annotations

import socket
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.doctor import EndpointSeen
from glue.endpoint.paths import PATHS, PEERS
from glue.network import Interface
from glue.observing import listening, machine
from glue.observing.listening import Listener
from glue.observing.reports import endpoint_seen, with_paths
from glue.settings import LINKS

BARE = EndpointSeen(name="hall", id="b")
GROUP = "239.192.137.1:37320"


def plain(id: str, incarnation: int, name: str = "hall", network: int = 1, version: int = 1) -> bytes:
    return f'{{"glue":[{version},{network},"{id}",{incarnation},0]}}\n{{"name":"{name}"}}'.encode()


def test_every_datagram_of_a_sender_is_counted_with_where_it_came() -> None:
    listener = Listener(GROUP)
    for ttl, interface in ((1, "eth0"), (64, "")):
        listener.take(plain("b0", 7), ("fe80::2%eth0", 5), interface, ttl)
    for interface in ("eth1", ""):  # the second one does not tell
        listener.take(plain("b0", 8, ""), ("fe80::2", 5), interface, 3)
    listener.take(plain("c0", 1, "x" * 70, 9, 2), ("10.0.0.3", 6), "eth1", 1)
    listener.take(b"\xe1\x07\x00\x09" + bytes(60), ("10.0.0.4", 6), "eth2", None)
    listener.take(b"junk", ("10.0.0.5", 6), "eth1", 1)
    senders, heard, looped = listener.senders("c0")
    one, sealed, junk = senders
    assert (one.address, one.port, one.count, one.interface, one.ttl) == ("fe80::2", 5, 4, "eth1", 3)
    assert (one.network_id, one.version, one.id, one.name, one.lives) == (1, 1, "b0", "hall", 1)
    assert (sealed.sealed, sealed.network_id, sealed.version, sealed.key_id) == (True, 9, None, 7)
    assert (junk.version, junk.network_id, junk.id, junk.name, junk.count) == (None, None, None, "", 1)
    assert (heard, looped) == ({"eth1": 5, "eth2": 1}, True)
    assert listener.senders(None)[2] is False
    foreign = listener.senders(None)[0][1]
    assert (foreign.version, foreign.network_id, foreign.name) == (2, 9, "x" * 64)
    assert (listener.heard_from("10.0.0.5", 6), listener.heard_from("10.0.0.5", 7)) == (True, False)


def test_senders_may_come_while_those_so_far_are_told() -> None:
    listener = Listener(GROUP)
    listener.take(plain("b0", 7), ("10.0.0.2", 5), "eth0", 1)

    class Lives(dict[str, int]):
        def get(self, *_: Any) -> Any:
            listener.take(plain("c0", 7), ("10.0.0.3", 5), "eth0", 1)  # by the thread that listens
            return 0

    listener._lives = Lives()
    assert [one.id for one in listener.senders(None)[0]] == ["b0"]
    assert listener.heard_from("10.0.0.3", 5)


def test_only_so_many_senders_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listening.SENDERS == 512
    monkeypatch.setattr(listening, "SENDERS", 2)
    listener = Listener(GROUP)
    for port in (1, 2, 3, 1):
        listener.take(plain("b0", 7), ("10.0.0.2", port), "eth0", 1)
    assert [(one.port, one.count) for one in listener.senders(None)[0]] == [(1, 2), (2, 1)]


@pytest.mark.parametrize("junk", [
    b'{"glue":[1]}\n', b'{"glue":[1,"x"]}\n', b'{"glue":{}}\n', b'{"x":[1,1]}\n', b"7\n", b'{"glue":["1",1]}\n',
])  # fmt: skip
def test_what_is_not_glue_has_no_version(junk: bytes) -> None:
    listener = Listener(GROUP)
    listener.take(junk, ("10.0.0.2", 1), "eth0", 1)
    assert listener.senders(None)[0][0].version is None


def test_a_header_without_an_id_or_a_name_is_glue() -> None:
    listener = Listener(GROUP)
    for port, data in enumerate((
        b'{"glue":[1,2]}\n', b'{"glue":[1,2,"a",4]}\n{}', b'{"glue":[1,2,"a",4]}\n[', b'{"glue":[1,2,3,4]}\n',
        b'{"glue":[1,2,"a",4]}\n{"name":7}',
    )):  # fmt: skip
        listener.take(data, ("10.0.0.2", port), "eth0", 1)
    assert [(one.version, one.network_id, one.id, one.name) for one in listener.senders(None)[0]] == [
        (1, 2, None, ""), (1, 2, "a", ""), (1, 2, "a", ""), (1, 2, None, ""), (1, 2, "a", ""),
    ]  # fmt: skip


def test_the_kernel_tells_the_interface_and_the_ttl() -> None:
    four, six = Listener(GROUP), Listener("[ff15::8901]:37320")
    four._indexes = six._indexes = {3: "eth0"}
    info4, info6 = struct.pack("@iII", 3, 0, 0), bytes(16) + struct.pack("@I", 3)
    ttl = struct.pack("@i", 5)
    level = socket.IPPROTO_IP
    assert four._where([(level, listening.IP_PKTINFO, info4), (level, listening.IP_TTL, ttl)]) == ("eth0", 5)
    assert six._where([(41, listening.IPV6_PKTINFO, info6), (41, listening.IPV6_HOPLIMIT, ttl)]) == ("eth0", 5)
    assert four._where([(41, listening.IPV6_PKTINFO, info6), (level, listening.IP_TTL, b"abc")]) == ("", None)
    assert six._where([(level, listening.IP_PKTINFO, info4)]) == ("", None)
    assert four._options() == [(socket.IPPROTO_IP, 8), (socket.IPPROTO_IP, 12)]
    assert six._options() == [(socket.IPPROTO_IPV6, 49), (socket.IPPROTO_IPV6, 51)]


@pytest.mark.parametrize(("refusing", "can_hear"), [((), True), (("eth0",), True), (("eth0", "lo"), False)])
def test_the_group_is_joined_on_each_interface_that_can_have_it(
    refusing: tuple[str, ...], can_hear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[str] = []

    def join(opened: Any, group: Any, one: Interface) -> None:
        joined.append(one.name)
        if one.name in refusing:
            raise OSError

    opened, options = SimpleNamespace(), list[tuple[int, int, int]]()
    opened.setsockopt, opened.settimeout = lambda *option: options.append(option), lambda seconds: None
    opened.close = lambda: joined.append("closed")
    interfaces = [
        Interface("eth0", 2), Interface("tun", 3, multicast=False), Interface("lo", 1, multicast=False, loopback=True),
    ]  # fmt: skip
    monkeypatch.setattr(listening, "open_multicast_socket", lambda group: opened)
    monkeypatch.setattr(listening, "list_interfaces", lambda: interfaces)
    monkeypatch.setattr(listening, "join", join)
    monkeypatch.setattr(Listener, "_listen", lambda self: joined.append("listens"))
    listener = Listener(GROUP)
    assert listener.start() == can_hear
    listener.stop()
    assert joined == ["eth0", "lo", "listens", "closed"]
    assert options == [(socket.IPPROTO_IP, 8, 1), (socket.IPPROTO_IP, 12, 1)]
    assert listener._where([(0, listening.IP_PKTINFO, struct.pack("@iII", 3, 0, 0))]) == ("tun", None)


def test_a_group_that_cannot_be_heard_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: Any) -> None:
        raise OSError

    monkeypatch.setattr(listening, "open_multicast_socket", refuse)
    listener = Listener(GROUP)
    assert not listener.start()
    listener.stop()
    assert listener.senders("a") == ((), {}, False)


# ---------------------------------------------------------------------------------------------- the machine


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "SYSFS", tmp_path)
    return tmp_path


def written(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def test_the_state_of_interfaces_is_read(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(sysfs / "eth0", carrier="1", ifindex="2", iflink="2")
    written(sysfs / "veth", carrier="0", ifindex="3", iflink="9")
    written(sysfs / "br0" / "bridge", multicast_snooping="1", multicast_querier="0")
    written(sysfs / "br1" / "bridge", multicast_snooping="1", multicast_querier="1")
    written(sysfs / "br2" / "bridge", multicast_snooping="0", multicast_querier="0")
    written(sysfs / "wlan0" / "wireless")
    written(sysfs / "wlan1" / "phy80211")
    names = ("eth0", "veth", "br0", "wlan0", "wlan1", "none")
    assert [machine._carrier(name) for name in names] == [True, False, None, None, None, None]
    assert [machine._kind(name) for name in names] == ["", "veth", "bridge", "wireless", "wireless", ""]
    snooping = [machine.is_snooping_without_querier(name) for name in ("br0", "br1", "br2", "eth0", None)]
    assert snooping == [True, False, False, False, False]
    for saves, byte in ((True, 0), (False, 1)):
        monkeypatch.setattr("fcntl.ioctl", lambda *_, byte=byte: bytes(20) + bytes([byte]) + bytes(19))
        assert [machine._power_saving(name) for name in ("wlan0", "wlan1", "eth0")] == [saves, saves, None]

    def refuse(*_: object) -> bytes:
        raise OSError

    monkeypatch.setattr("fcntl.ioctl", refuse)
    assert machine._power_saving("wlan0") is None
    written(sysfs / "eth0" / "statistics", rx_errors="5", tx_errors="1", rx_crc_errors="x")
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(2, "eth0"), (3, "none")])
    assert machine.error_counters() == {"eth0": 6, "none": 0}
    shown = Interface(
        "eth0", 2, ipv4=("10.0.0.1",), ipv6=("fe80::1",), mtu=1280, up=False, multicast=False, virtual=True
    )
    monkeypatch.setattr(machine, "list_interfaces", lambda: [shown])
    monkeypatch.setattr(machine, "_with_prefix", lambda name, addresses: addresses)
    (found,) = machine.interfaces({"eth0": 7}, {"eth0": 8})
    assert (found.name, found.heard, found.errors, found.mtu, found.ipv4) == ("eth0", 7, 8, 1280, ("10.0.0.1",))
    assert (found.up, found.multicast, found.loopback, found.virtual) == (False, False, False, True)
    assert (found.carrier, found.kind, found.ipv6, found.power_saving) == (True, "", ("fe80::1",), None)
    assert machine.interfaces({}, {})[0].errors == 0


def test_netmasks_become_lengths() -> None:
    masks = ("255.255.255.0", "ffff:ffff::", "ffff:ffff:ffff:ffff::/64", "/48", "", "x")
    assert [machine._prefix(mask) for mask in masks] == [24, 32, 64, 48, 0, 0]
    assert machine._with_prefix("lo", ("127.0.0.1", "10.9.9.9")) == ("127.0.0.1/8", "10.9.9.9")
    assert machine._with_prefix("gone-since", ("10.9.9.9",)) == ("10.9.9.9",)


@pytest.mark.parametrize(("results", "found", "was_read"), [
    ({}, (), True), ({"nft": None}, (), False), ({"nft": (1, "")}, (), False), ({"nft": (0, "")}, (), True),
    ({"nft": (1, ""), "iptables-save": (0, "-A INPUT -p udp -j DROP")}, ("-A INPUT -p udp -j DROP",), True),
    ({"iptables-save": (0, "-A INPUT -p udp -j DROP"),
      "ip6tables-save": (0, "-A INPUT -p udp -j DROP\n-A OUTPUT -j DROP")},
     ("-A INPUT -p udp -j DROP", "-A OUTPUT -j DROP"), True),
])  # fmt: skip
def test_the_firewall_is_read_by_the_programs_that_are_there(
    results: dict[str, Any], found: tuple[str, ...], was_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: tuple[str, ...], **options: Any) -> Any:
        assert options["env"]["PATH"].endswith(":/usr/sbin:/sbin")
        assert options["timeout"] == 1.5
        if results[command[0]] is None:
            raise subprocess.TimeoutExpired(command, 1.5)
        code, text = results[command[0]]
        return SimpleNamespace(returncode=code, stdout=text)

    monkeypatch.setattr("shutil.which", lambda name, path: name if name in results else None)
    monkeypatch.setattr("subprocess.run", run)
    assert machine.firewall((37320, 37319)) == (found, was_read)


def test_rights_and_settings_of_the_kernel_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str] = {}
    monkeypatch.setattr(machine, "_read", lambda path: files.get(str(path)))
    assert machine.may_capture()
    for text, may in (("Cap: 1\nCapEff:\t0000000000002000\nx", True), ("CapEff:\t0000000000001fff\n", False),
                      ("CapEff:\t0000000000004000\n", False)):  # fmt: skip
        files["/proc/self/status"] = text
        assert machine.may_capture() == may
    folder = "/proc/sys/net/ipv4/conf"
    settings = ("0", "1", True), ("1", "0", True), ("2", "1", False), ("0", "0", False), ("x", "1", True)
    for all_, own, strict in settings:
        files[f"{folder}/all/rp_filter"], files[f"{folder}/eth0/rp_filter"] = all_, own
        assert machine.is_reverse_path_strict("eth0") == strict
    assert not machine.is_reverse_path_strict(None)
    assert machine.processor_waits() == 0.0
    monkeypatch.setattr(machine, "_read", lambda path: "5 2000000000 7")
    assert machine.processor_waits() >= 2.0


@pytest.mark.parametrize(("inner", "files", "variables", "contained"), [
    (False, (), {}, False), (False, ("/.dockerenv",), {}, True), (False, ("/run/.containerenv",), {}, True),
    (False, (), {"container": "lxc"}, True), (False, (), {"KUBERNETES_SERVICE_HOST": "x"}, True),
    (True, ("/.dockerenv",), {}, False),
])  # fmt: skip
def test_a_container_is_known_by_its_files(
    inner: bool, files: tuple[str, ...], variables: dict[str, str], contained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_is_inner_namespace", lambda: inner)
    monkeypatch.setattr(machine, "Path", lambda name: SimpleNamespace(exists=lambda: name in files))
    monkeypatch.setattr("os.environ", variables)
    assert machine.in_container() == contained


# ---------------------------------------------------------------------------------------------- reports


def test_a_report_fills_in_what_it_tells() -> None:
    report = {
        "network_id": 2, "epoch": 3, "waiting": 4, "receive_limit": 5, "announce_interval": 2, "clock_moved": 1.5,
        "load": 0.5, "version": "v" * 130, "unix_time": 1000.6,
        "network": {
            "interface": "i" * 500, "reason": "r" * 500, "mtu": 9000, "receive_buffer": {"asked": 7, "granted": 6},
        },
        "counters": {"n" * 130: {"c" * 130: 1, "x": True, "y": 2}, "z": 3},
    }  # fmt: skip
    found = endpoint_seen(BARE, report, 1000.0, 0.5)
    assert found == replace(
        BARE, network_id=2, epoch=3, waiting=4, receive_limit=5, announce_interval=2.0, clock_moved=1.5, load=0.5,
        version="v" * 120, sealed=False, clock_offset=0.6, interface="i" * 480, reason="r" * 480, mtu=9000,
        buffer_asked=7, buffer_granted=6, counters={"n" * 120: {"c" * 120: 1, "y": 2}},
    )  # fmt: skip
    assert endpoint_seen(BARE, {"unix_time": 1000.5}, 1000.0, 0.5).clock_offset == 0.0
    assert endpoint_seen(BARE, {"unix_time": 999.4}, 1000.0, 0.5).clock_offset == -0.6
    assert endpoint_seen(replace(BARE, clock_offset=None), {"unix_time": 9.0}, None, 0.5).clock_offset is None
    assert endpoint_seen(BARE, {"sealed": 1, "load": True, "mtu": 5}, None, 0.5) == BARE


def test_paths_need_their_names_and_are_bounded() -> None:
    good = {"link": "eth0", "answers": 1, "round_trip": 0.5, "loss": 7}
    told = {"links": {"eth0": True, "wlan0": 1}, "peers": [
        {"name": "a", "link": "eth1", "paths": [good, {"answers": True}]}, {"link": "x", "paths": [good]},
    ]}  # fmt: skip
    found = with_paths(BARE, told)
    assert found.links == {"eth0": True, "wlan0": False}
    (one,) = found.paths
    assert (one.peer, one.link, one.carries, one.answers, one.round_trip, one.loss) == (
        "a", "eth0", False, False, 0.5, 0.0,
    )  # fmt: skip


def test_a_peer_cannot_tell_of_paths_and_links_without_end() -> None:
    names = [f"{number}" for number in range(2 * PEERS)]
    paths = [{"link": name} for name in names]
    told = {"links": dict.fromkeys(names, True), "peers": [{"name": name, "paths": paths} for name in names]}
    found = with_paths(BARE, told)
    assert [*found.links] == names[:LINKS]
    assert [(one.peer, one.link) for one in found.paths] == [
        (peer, link) for peer in names[: PEERS] for link in names[: PATHS]
    ]  # fmt: skip


@pytest.mark.parametrize("told", [None, 7, [], {"links": 7}, {"links": None}])
def test_an_endpoint_that_tells_no_paths_has_none(told: Any) -> None:
    assert with_paths(BARE, told) is BARE


def test_a_path_carries_data_if_it_is_the_one_in_use_and_has_its_loss() -> None:
    path = {"link": "eth0", "answers": True, "round_trip": 0.5, "loss": 0.25}
    peer = {"name": "a", "link": "eth0", "paths": [path, {**path, "link": "wlan0"}]}
    found = with_paths(BARE, {"links": {}, "peers": [peer]}).paths
    assert [(one.link, one.carries, one.answers, one.loss) for one in found] == [
        ("eth0", True, True, 0.25), ("wlan0", False, True, 0.25),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "report", [None, 7, {}, {"unix_time": "now"}, {"network": 7, "counters": 7}, {"network": {"receive_buffer": 7}}]
)
def test_what_a_report_does_not_tell_stays_unknown(report: Any) -> None:
    assert endpoint_seen(BARE, report, 1000.0, 0.5) == BARE


def test_a_datagram_with_half_an_identity_has_none() -> None:
    listener = Listener(GROUP)
    for port, entry in enumerate(('1,1,"a"', '1,1,"a","4"', "1,1,7,4")):
        listener.take(f'{{"glue":[{entry}]}}\n{{"name":"x"}}'.encode(), ("10.0.0.2", port), "eth0", 1)
    assert [(one.version, one.id, one.name) for one in listener.senders(None)[0]] == [(1, None, "")] * 3
    for incarnation in (1, 2, 2, 3):
        listener.take(plain("b0", incarnation), ("10.0.0.3", 1), "eth0", 1)
    assert listener.senders(None)[0][-1].lives == 2


def test_a_listener_takes_what_comes_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(GROUP)
    listener._indexes = {3: "eth0"}
    pktinfo = (socket.IPPROTO_IP, listening.IP_PKTINFO, struct.pack("@iII", 3, 0, 0))
    answers: list[Any] = [(plain("b0", 1), [pktinfo], 0, ("10.0.0.2", 5)), OSError(), (b"junk", [], 0, ("10.0.0.3", 6))]
    readable, waited = [True, False, True, True], list[float]()

    def received(size: int, room: int) -> Any:
        assert (size, room) == (65_536, 256)
        answer = answers.pop(0)
        if not answers:
            listener.stop()
        if isinstance(answer, OSError):
            raise answer
        return answer

    opened: Any = SimpleNamespace(recvmsg=received, close=lambda: None)
    listener._socket = opened

    def select(read: list[Any], write: list[Any], broken: list[Any], timeout: float) -> tuple[list[Any], ...]:
        assert (read, write, broken) == ([opened], [], [])
        waited.append(timeout)
        return (read if readable.pop(0) else [], [], [])

    monkeypatch.setattr("select.select", select)
    monkeypatch.setattr(listening, "time", SimpleNamespace(sleep=waited.append))
    listener._listen()
    assert waited == [0.1, 0.1, 0.1, 0.01, 0.1]
    assert [(one.address, one.interface) for one in listener.senders(None)[0]] == [
        ("10.0.0.2", "eth0"),
        ("10.0.0.3", ""),
    ]
