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
from glue.network import Interface
from glue.observing import listening, machine, observer
from glue.observing.listening import Listener
from glue.observing.observer import Observer
from glue.observing.reports import endpoint_seen, with_paths

BARE = EndpointSeen(name="hall", id="b")
GROUP = "239.192.137.1:37320"


def plain(id: str, incarnation: int, name: str = "hall", network: int = 1, version: int = 1) -> bytes:
    return f'{{"glue":[{version},{network},"{id}",{incarnation},0]}}\n{{"name":"{name}"}}'.encode()


def test_every_datagram_of_a_sender_is_counted_with_where_it_came() -> None:
    listener = Listener(GROUP)
    for ttl, interface in ((1, "eth0"), (64, "")):
        listener.take(plain("b0", 7), ("fe80::2%eth0", 5), interface, ttl)
    listener.take(plain("b0", 8, ""), ("fe80::2", 5), "eth1", 3)
    listener.take(plain("c0", 1, "x" * 70, 9, 2), ("10.0.0.3", 6), "eth1", 1)
    listener.take(b"\xe1\x07\x00\x09" + bytes(60), ("10.0.0.4", 6), "eth2", None)
    listener.take(b"junk", ("10.0.0.5", 6), "eth1", 1)
    senders, heard, looped = listener.senders("c0")
    one, sealed, junk = senders
    assert (one.address, one.port, one.count, one.interface, one.ttl) == ("fe80::2", 5, 3, "eth1", 3)
    assert (one.network_id, one.version, one.id, one.name, one.lives) == (1, 1, "b0", "hall", 1)
    assert (sealed.sealed, sealed.network_id, sealed.version, sealed.key_id) == (True, 9, None, 7)
    assert (junk.version, junk.network_id, junk.id, junk.name, junk.count) == (None, None, None, "", 1)
    assert (heard, looped) == ({"eth1": 4, "eth2": 1}, True)
    assert listener.senders(None)[2] is False
    foreign = listener.senders(None)[0][1]
    assert (foreign.version, foreign.network_id, foreign.name) == (2, 9, "x" * 64)
    assert (listener.heard_from("10.0.0.5", 6), listener.heard_from("10.0.0.5", 7)) == (True, False)


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
    shown = Interface("eth0", 2, ipv4=("10.0.0.1",), mtu=1280, up=False, multicast=False, virtual=True)
    monkeypatch.setattr(machine, "list_interfaces", lambda: [shown])
    monkeypatch.setattr(machine, "_with_prefix", lambda name, addresses: addresses)
    (found,) = machine.interfaces({"eth0": 7}, {"eth0": 8})
    assert (found.name, found.heard, found.errors, found.mtu, found.ipv4) == ("eth0", 7, 8, 1280, ("10.0.0.1",))
    assert (found.up, found.multicast, found.loopback, found.virtual) == (False, False, False, True)
    assert found.carrier
    assert machine.interfaces({}, {})[0].errors == 0


def test_netmasks_become_lengths() -> None:
    masks = ("255.255.255.0", "ffff:ffff::", "ffff:ffff:ffff:ffff::/64", "/48", "", "x")
    assert [machine._prefix(mask) for mask in masks] == [24, 32, 64, 48, 0, 0]
    assert machine._with_prefix("lo", ("127.0.0.1", "10.9.9.9")) == ("127.0.0.1/8", "10.9.9.9")


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


# ---------------------------------------------------------------------------------------------- asking again


def links(round: int, sent: int, came: int = 8) -> dict[str, Any]:
    pings = {"multicast": [came, 8], "large_multicast": [2, 2], "unicast": [8, 8], "large_unicast": [2, 2]}
    peer = {"id": "d", "pinged": True, "heard": round, **pings}
    return {"round": round, "sent": sent, "peers": [peer]}


@pytest.mark.parametrize(("answers", "asked", "busy", "stale"), [
    ([{}], 0, False, set()),  # nobody else is there
    ([links(5, 10)], 0, False, set()),
    ([links(5, 9), links(5, 10)], 1, True, set()),  # late, and then done
    ([links(4, 10), links(4, 10), links(4, 10), links(4, 10)], 2, False, set()),  # the round never came there
    ([links(4, 0), links(5, 10)], 1, False, set()),
    ([links(4, 0), links(5, 9), links(5, 10)], 2, True, set()),  # it had heard of the round after all
    ([links(5, 10, 3), links(5, 10, 3)], 1, False, set()),  # something is missing, and stays so
    ([links(5, 10, 3), links(5, 10, 8)], 1, False, set()),
    ([links(5, 9)] * 30, 22, True, {"b"}),  # never done
])  # fmt: skip
def test_who_may_be_late_is_asked_again(
    answers: list[dict[str, Any]], asked: int, busy: bool, stale: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(observer, "time", SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 0.0))
    own = links(5, 10)
    own["peers"][0]["id"] = "b"
    monkeypatch.setattr(observer, "_own", lambda endpoint: {"links": own})
    left = iter(answers[1:])
    questions: list[Any] = []

    def ask(endpoint: Any, sections: Any, timeout: float) -> list[Any]:
        questions.append((sections, timeout))
        found = next(left, None)
        return [] if found is None else [SimpleNamespace(id="b", sections={"links": found})]

    def pause(seconds: float) -> None:
        assert seconds == 0.2
        clock.now += seconds

    monkeypatch.setattr(observer, "ask_all", ask)
    look = Observer({}, pause)
    endpoint: Any = SimpleNamespace(id="d")
    told: dict[str, Any] = {"b": {"links": answers[0]}} if answers[0] else {}
    look._complete(endpoint, 5, 10, told)
    assert len(questions) == asked
    assert set(map(str, questions)) <= {"(['links'], 0.4)"}
    assert look._is_busy == busy
    if stale:
        assert look._stale == stale


def test_a_round_is_late_until_all_its_pings_are_sent() -> None:
    told = [None, {}, {"round": 4, "sent": 10}, {"round": 5, "sent": 9}, {"round": 5, "sent": 10}]
    assert [observer._is_late(one, 5, 10) for one in told] == [False, True, True, True, False]
    assert [observer._has_begun(one, 5) for one in told] == [False, False, False, True, True]


# ---------------------------------------------------------------------------------------------- a whole look


class Heard:
    """A listener that has heard the doctor, and one more on eth0."""

    hears = True

    def __init__(self, address: str) -> None:
        self.group = Listener(address).group
        self.stopped = False

    def start(self) -> bool:
        return self.hears

    def stop(self) -> None:
        self.stopped = True

    def heard_from(self, host: str, port: int) -> bool:
        return host == "10.0.0.3"

    def senders(self, own: str | None) -> Any:
        assert own == "d0"
        return ("a sender",), {"eth0": 4}, True


@pytest.mark.parametrize(("peers", "pings"), [(2, 30), (8, 30), (9, 20), (25, 20), (26, 8)])
def test_a_look_joins_all_that_was_seen(peers: int, pings: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    did: list[Any] = []

    def pause(seconds: float) -> None:
        did.append(round(seconds, 3))
        clock.now += seconds

    def pinged(id: str) -> dict[str, Any]:
        large = pings // 5
        came = {"multicast": [pings - large] * 2, "large_multicast": [large] * 2}
        return {
            "round": 77,
            "sent": pings,
            "peers": [{"id": id, "pinged": False, "heard": 77, "verified": True, **came}],
        }

    class Endpoint:
        name, id = "doctor", "d0"
        peers: Any = ()

        def __init__(self, **settings: Any) -> None:
            did.append(settings)
            self.statistics = {"network": {"not sent: EPERM": 3, "not sent: queue full": 9, "datagrams sent": 7}}

        def start(self) -> None:
            self.peers = [
                SimpleNamespace(name=f"p{number}", id=f"p{number}", address=(f"10.0.0.{number}", 37319))
                for number in range(2, 2 + peers)
            ]  # fmt: skip

        def close(self, timeout: float) -> None:
            did.append(("close", timeout))

    def ask(endpoint: Any, sections: Any, timeout: float) -> list[Any]:
        did.append((sections, timeout))
        clock.now += 0.5
        told = {"links": pinged("d0"), "report": {"version": "1.2", "unix_time": clock.now + 899.75}}
        return [SimpleNamespace(id="p2", sections=told)]

    monkeypatch.setattr(observer, "time", SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now + 900.0))
    monkeypatch.setattr(observer.glue, "Endpoint", Endpoint)
    monkeypatch.setattr(observer, "Listener", Heard)
    monkeypatch.setattr(observer, "ask_all", ask)
    monkeypatch.setattr(observer, "begin_round", lambda endpoint, count: did.append(count) or 77)
    own = {"links": pinged("p2"), "report": {"version": "9"}, "paths": {"links": {"eth0": True}}}
    monkeypatch.setattr(observer, "_own", lambda endpoint: own)
    waits = iter([0.0, 0.4])
    counts = iter([{"eth0": 5}, {"eth0": 9, "new": 3}])
    monkeypatch.setattr(machine, "processor_waits", lambda: next(waits))
    monkeypatch.setattr(machine, "error_counters", lambda: next(counts))
    monkeypatch.setattr(machine, "interfaces", lambda heard, errors: (
        SimpleNamespace(ipv4=("10.0.0.9/24",), ipv6=(), heard=heard, errors=errors),
    ))  # fmt: skip
    monkeypatch.setattr(machine, "firewall", lambda ports: ((f"a rule about {ports}",), False))
    monkeypatch.setattr(machine, "facts", lambda chosen: {"host": "vm", "may_capture": chosen == "eth0"})
    chosen = SimpleNamespace(interface=SimpleNamespace(name="eth0"), reason="it is good")
    monkeypatch.setattr(observer, "choose_interface", lambda name, family: chosen)
    settings = {"peers": ["10.0.0.2", "10.0.0.7"], "multicast_address": "239.1.1.1:777", "network_id": 5}
    seen = Observer(settings, pause).look()
    assert did == [
        {"announce_interval": 0.25, **settings}, 1.0, pings, round(0.35 + pings * 0.035, 3),
        (("report", "links", "paths"), 1.0), ("close", 0.0),
    ]  # fmt: skip
    assert seen.seconds == pytest.approx(1.85 + pings * 0.035)
    assert (seen.network_id, seen.sealed, seen.senders, seen.busy) == (5, False, ("a sender",), False)
    assert seen.contacts == ("10.0.0.2", "10.0.0.7")
    assert seen.met == tuple(one for one in seen.contacts if int(one[-1]) < 2 + peers)
    here = seen.machine
    assert (here.port, here.group, here.chosen, here.reason, here.looped) == (
        777,
        "239.1.1.1",
        "eth0",
        "it is good",
        True,
    )
    assert (here.blocking, here.firewall_read) == (("a rule about (777, 37319)",), False)
    assert (here.unsent, here.may_capture, here.host, here.failure) == ({"not sent: EPERM": 3}, True, "vm", "")
    assert here.interfaces[0].errors == {"eth0": 4, "new": 0}
    assert here.interfaces[0].heard == {"eth0": 4}
    doctor, first, second = seen.endpoints[:3]
    assert (doctor.name, doctor.id, doctor.is_doctor, doctor.here, doctor.version) == ("doctor", "d0", True, True, "9")
    assert doctor.links == {"eth0": True}
    assert (first.name, first.version, first.answered, first.address, first.here) == (
        "p2",
        "1.2",
        True,
        "10.0.0.2",
        False,
    )
    assert first.clock_offset == 0.0, "within the time of asking"
    assert (second.answered, second.version, len(seen.endpoints)) == (False, "", 1 + peers)
    assert [one.here for one in seen.endpoints] == [True, *(number == 9 for number in range(2, 2 + peers))]
    assert {(way.source, way.target) for way in seen.ways} == {("d0", "p2"), ("p2", "d0")}
