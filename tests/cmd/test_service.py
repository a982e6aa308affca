"""Commands as services: systemd hears when one is ready, and the units in `extras/systemd` start commands there are."""

from __future__ import annotations

import importlib
import shlex
import signal
import socket
from pathlib import Path

import pytest

from glue.cmd import service
from tests.cmd.conftest import TIMEOUT, Start

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "extras" / "systemd").glob("*.service"))


def test_a_service_manager_hears_that_it_is_ready_and_that_it_ends(
    tmp_path: Path, environment: dict[str, str], start: Start
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(TIMEOUT)
        environment["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        keeper = start("keep", "t", "--data-dir", str(tmp_path / "log"))
        assert manager.recv(64) == b"READY=1"
        assert (tmp_path / "log").is_dir()
        keeper.process.send_signal(signal.SIGTERM)
        assert manager.recv(64) == b"STOPPING=1"
        assert keeper.finish() == 0, keeper.errors()


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/notify", "@nobody"])
def test_a_service_manager_that_is_not_there_is_ignored(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    service.tell(service.READY)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_with_options_that_it_has(unit: Path) -> None:
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    program, name, *arguments = shlex.split(line.partition("=")[2])
    assert program == "/opt/glue/bin/glue"
    importlib.import_module(f"glue.cmd.{name}").parser().parse_args(arguments)
    assert "Type=notify" in unit.read_text()


def test_there_are_units() -> None:
    assert len(UNITS) >= 2
