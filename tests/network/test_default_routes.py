"""Default routes as the system tells them: the one with the least metric comes first, wherever it stands."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from glue.network.choice import ROUTES, default_route_interfaces

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT"


def ipv4(name: str, metric: int, destination: str = "00000000", mask: str = "00000000") -> str:
    return f"{name}\t{destination}\t010200C0\t0003\t7\t9\t{metric}\t{mask}\t0\t0\t0"


def ipv6(name: str, metric: int, destination: str = "0" * 32, length: str = "00") -> str:
    return f"{destination} {length} {'0' * 32} 00 {'f' * 32} {metric:08x} 00000001 00000002 00000003 {name:>8}"


def told(family: int, lines: list[str], path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setitem(ROUTES, family, path)
    return default_route_interfaces(family)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_least_metric_comes_first_wherever_it_stands(
    family: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ipv6 if family == socket.AF_INET6 else ipv4
    routes = [row("wlan0", 600), row("eth0", 1024), row("eth1", 100), row("eth0", 99), row("wlan0", 1000)]
    assert told(family, [HEAD, *routes], tmp_path / "routes", monkeypatch) == ["eth0", "eth1", "wlan0"]
    assert told(family, [HEAD, *reversed(routes)], tmp_path / "routes", monkeypatch) == ["eth0", "eth1", "wlan0"]


def test_metrics_are_numbers_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    routes = [ipv4("wlan0", 1000), ipv4("eth0", 200), ipv4("eth1", 30)]
    assert told(socket.AF_INET, routes, tmp_path / "routes", monkeypatch) == ["eth1", "eth0", "wlan0"]
    hexadecimal = [ipv6("wlan0", 0x1000), ipv6("eth0", 0xFF)]
    assert told(socket.AF_INET6, hexadecimal, tmp_path / "routes", monkeypatch) == ["eth0", "wlan0"]


def test_only_default_routes_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    routes = [ipv4("wg0", 0, mask="00000080"), ipv4("docker0", 0, "000011AC", "0000FFFF"), ipv4("eth0", 100)]
    assert told(socket.AF_INET, [HEAD, *routes], tmp_path / "routes", monkeypatch) == ["eth0"]
    routes = [ipv6("lo", 0), ipv6("wg0", 0, "2000" + "0" * 28, "03"), ipv6("wg0", 0, length="01"), ipv6("eth0", 1024)]
    assert told(socket.AF_INET6, routes, tmp_path / "routes", monkeypatch) == ["eth0"]


def test_where_the_system_does_not_tell_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROUTES, socket.AF_INET, tmp_path / "missing")
    assert default_route_interfaces(socket.AF_INET) == []
