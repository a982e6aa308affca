"""Facts of this machine: interfaces, firewall, rights. What cannot be read is left as the healthy default."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glue.doctor.firewall import blocking
from glue.doctor.seen import InterfaceSeen
from glue.network.interfaces import SYSFS as SYSFS_NAME
from glue.network.interfaces import Interface, list_interfaces

SYSFS = Path(SYSFS_NAME)

SIOCGIWPOWER = 0x8B2D  # linux/wireless.h
CAP_NET_RAW = 13  # linux/capability.h
PATIENCE = 1.5  # seconds for a program that lists the rules of the firewall
LISTINGS = ("nft", "list", "ruleset"), ("iptables-save",), ("ip6tables-save",)
ERROR_COUNTERS = "rx_errors", "tx_errors", "rx_crc_errors", "rx_frame_errors"


def interfaces(heard: Mapping[str, int], errors: Mapping[str, int]) -> tuple[InterfaceSeen, ...]:
    """All interfaces; `heard` and `errors` are counts by name."""
    return tuple(_seen(one, heard.get(one.name, 0), errors.get(one.name, 0)) for one in list_interfaces())


def _seen(one: Interface, heard: int, errors: int) -> InterfaceSeen:
    return InterfaceSeen(
        name=one.name,
        up=one.up,
        carrier=_carrier(one.name),
        multicast=one.multicast,
        loopback=one.loopback,
        virtual=one.virtual,
        kind=_kind(one.name),
        mtu=one.mtu,
        ipv4=_with_prefix(one.name, one.ipv4),
        ipv6=_with_prefix(one.name, one.ipv6),
        power_saving=_power_saving(one.name),
        heard=heard,
        errors=errors,
    )


def _with_prefix(name: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
    """The addresses with the length of their subnet's prefix, as far as known."""
    import netifaces

    masks: dict[str, str] = {}
    for entries in netifaces.ifaddresses(name).values():
        for entry in entries:
            masks[entry.get("addr", "").partition("%")[0]] = entry.get("mask", "")
    lengths = {address: _prefix(masks.get(address, "")) for address in addresses}
    return tuple(f"{address}/{length}" if length else address for address, length in lengths.items())


def _prefix(mask: str) -> int:
    """The length that a netmask means; 0 if it is none."""
    head, _, length = mask.partition("/")
    if length.isdigit():
        return int(length)
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            return int.from_bytes(socket.inet_pton(family, head)).bit_count()
    return 0


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _carrier(name: str) -> bool | None:
    text = _read(SYSFS / name / "carrier")
    return None if text is None else text == "1"


def _kind(name: str) -> str:
    folder = SYSFS / name
    if (folder / "bridge").is_dir():
        return "bridge"
    if (folder / "wireless").is_dir() or (folder / "phy80211").exists():
        return "wireless"
    own, peer = _read(folder / "ifindex"), _read(folder / "iflink")
    return "veth" if peer is not None and own != peer else ""


def _power_saving(name: str) -> bool | None:
    """Whether a Wi-Fi card saves power (struct iwreq: the name, then iw_param with `disabled` at byte 4)."""
    if not (SYSFS / name / "phy80211").exists() and not (SYSFS / name / "wireless").is_dir():
        return None
    request = struct.pack("16s24x", name.encode()[:15])
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, SIOCGIWPOWER, request)
        return answer[20] == 0
    return None


def error_counters() -> dict[str, int]:
    """Damaged frames by interface, since it exists."""
    found = {}
    for one in socket.if_nameindex():
        texts = [_read(SYSFS / one[1] / "statistics" / counter) for counter in ERROR_COUNTERS]
        found[one[1]] = sum(int(text) for text in texts if text is not None and text.isdigit())
    return found


def firewall(ports: tuple[int, ...]) -> tuple[tuple[str, ...], bool]:
    """The rules that hurt, and whether the firewall could be read at all, or there is none."""
    found: list[str] = []
    programs = [command for command in LISTINGS if shutil.which(command[0], path=_search_path())]
    was_read = not programs
    for command in programs:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False,
                env={**os.environ, "PATH": _search_path()},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            was_read = True
            found += [line for line in blocking(done.stdout, ports) if line not in found]
    return tuple(found), was_read


def _search_path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def in_container() -> bool:
    """Whether this program runs in the network of a container, as far as Docker, Podman and Kubernetes tell."""
    if _is_inner_namespace():
        return False
    return any(Path(name).exists() for name in ("/.dockerenv", "/run/.containerenv")) or any(
        name in os.environ for name in ("KUBERNETES_SERVICE_HOST", "container")
    )


def _is_inner_namespace() -> bool:
    """Whether a process that started this one, or its ancestor, is in another network: then this is no container's."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        own, process = os.stat("/proc/self/ns/net").st_ino, os.getppid()
        while process > 0:
            if os.stat(f"/proc/{process}/ns/net").st_ino != own:
                return True
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def processor_waits() -> float:
    """Seconds for which the threads of this program were ready to run and did not; 0 where that is not told."""
    waited = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        numbers = (_read(task) or "").split()
        waited += int(numbers[1]) if len(numbers) > 1 else 0
    return waited / 1e9


def may_capture() -> bool:
    """Whether this program may open a packet socket."""
    status = _read(Path("/proc/self/status")) or ""
    _, has_line, rest = status.partition("CapEff:")
    return not has_line or bool(int(rest.split()[0], 16) >> CAP_NET_RAW & 1)


def is_reverse_path_strict(name: str | None) -> bool:
    """Whether the kernel drops what it would answer on another interface: the larger of two settings counts."""
    folder = Path("/proc/sys/net/ipv4/conf")
    values = [_read(folder / one / "rp_filter") for one in ("all", name or "all")]
    return max([int(text) for text in values if text is not None and text.isdigit()], default=0) == 1


def is_snooping_without_querier(name: str | None) -> bool:
    """Whether an interface is a bridge that looks into IGMP and has no querier of its own."""
    folder = SYSFS / (name or "") / "bridge"
    return _read(folder / "multicast_snooping") == "1" and _read(folder / "multicast_querier") == "0"


def facts(chosen: str | None) -> dict[str, Any]:
    """The facts that cost little, as keywords of `MachineSeen`."""
    return {
        "host": socket.gethostname(),
        "in_container": in_container(),
        "may_capture": may_capture(),
        "strict_reverse_path": is_reverse_path_strict(chosen),
        "snooping_without_querier": is_snooping_without_querier(chosen),
    }
