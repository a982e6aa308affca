"""What the doctor asks the kernel and other programs of this machine, and what it makes of /proc."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.observing import machine


def test_a_card_is_asked_by_its_name_whether_it_saves_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "wlan0123456789abcdef"
    monkeypatch.setattr(machine, "SYSFS", tmp_path)
    (tmp_path / name / "wireless").mkdir(parents=True)
    asked: list[tuple[socket.AddressFamily, int, bytes]] = []

    def ioctl(opened: socket.socket, number: int, request: bytes) -> bytes:
        asked.append((opened.family, number, request))
        return bytes(40)

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert machine._power_saving(name) is True
    assert asked == [(socket.AF_INET, 0x8B2D, name[:15].encode() + bytes(25))]


class Processes:
    """Files of /proc for a chain of processes, whose names have brackets and spaces."""

    def __init__(self, parents: dict[int, int | str]) -> None:
        self._parents = parents

    def __call__(self, path: str) -> Any:
        parent = self._parents[int(path.split("/")[2])]
        return SimpleNamespace(read_text=lambda: f"{path} (a) 1 (b) S {parent} 7 7")


@pytest.mark.parametrize(
    ("networks", "parents", "inner"),
    [
        ({30: 5, 20: 5, 10: 5}, {30: 20, 20: 10, 10: 0}, False),
        ({30: 5, 20: 5, 10: 6}, {30: 20, 20: 10, 10: 0}, True),
        ({30: 6}, {}, True),
        ({30: 5, 20: 5}, {30: 20, 20: 10}, False),  # another user's process cannot be looked at
        ({30: 5}, {30: "x"}, False),
        ({30: 5, 1: 5}, {30: 1, 1: 0}, False),
        ({30: 5, 1: 6}, {30: 1, 1: 0}, True),
    ],
)
def test_a_process_with_another_network_tells_of_a_namespace_within_the_container(
    networks: dict[int, int], parents: dict[int, int | str], inner: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stat(path: str) -> Any:
        process = path.split("/")[2]
        if process != "self" and int(process) not in networks:
            raise PermissionError
        return SimpleNamespace(st_ino=5 if process == "self" else networks[int(process)])

    monkeypatch.setattr(machine, "os", SimpleNamespace(stat=stat, getppid=lambda: 30))
    monkeypatch.setattr(machine, "Path", Processes(parents))
    assert machine._is_inner_namespace() == inner


def test_waits_for_the_processor_are_summed_over_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"a": "5 1500000000 7", "b": "5", "c": None, "d": "9 500000000"}
    monkeypatch.setattr(machine, "Path", lambda path: SimpleNamespace(glob=lambda pattern: [*texts]))
    monkeypatch.setattr(machine, "_read", texts.__getitem__)
    assert machine.processor_waits() == 2.0


def test_programs_of_the_firewall_are_run_without_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(command: tuple[str, ...], **options: Any) -> Any:
        asked.append((command, {name: value for name, value in options.items() if name != "env"}))
        return SimpleNamespace(returncode=0, stdout="")

    monkeypatch.setattr("shutil.which", lambda name, path: name)
    monkeypatch.setattr("subprocess.run", run)
    assert machine.firewall((1,)) == ((), True)
    options = {"capture_output": True, "text": True, "errors": "replace", "timeout": 1.5, "check": False}
    commands = [("nft", "list", "ruleset"), ("iptables-save",), ("ip6tables-save",)]
    assert asked == [(command, options) for command in commands]
