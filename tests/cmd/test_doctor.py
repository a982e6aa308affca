"""`glue doctor` as a command: a healthy network on loopback, a fault, what was saved, and wrong use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glue
from glue.cmd import doctor

RECORDED = Path(__file__).parents[1] / "doctor" / "recorded"


def run(*options: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glue.cmd.doctor", *options],
        capture_output=True, text=True, env=environment, timeout=60, check=False,
    )  # fmt: skip


def test_a_healthy_network_and_its_form_for_programs(
    start: Callable[..., Any], environment: dict[str, str], tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "network_id": int(environment["GLUE_NETWORK_ID"]),
        "interface": environment["GLUE_INTERFACE"],
    }
    saved = tmp_path / "seen.json"
    with glue.Endpoint("kitchen", multicast_address=environment["GLUE_MULTICAST_ADDRESS"], **settings):
        command = start("doctor", "--save", str(saved))
        code = command.finish()
    events = command.events
    grave = [one for one in events if one["event"] == "finding" and one["level"] != "note"]
    assert grave == []
    assert (code, command.errors()) == (0, "")
    assert [one["name"] for one in events if one["event"] == "endpoint" and one["answered"]] == ["kitchen"]
    assert {one["event"] for one in events} >= {"verdict", "machine", "endpoint", "way"}
    assert events[0]["seconds"] > 0
    again = run("--judge", str(saved), environment=environment)
    assert again.returncode == 0
    assert again.stdout.startswith("All is well: 1 endpoint answered, all on this machine.")


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json"))[:3], ids=lambda file: file.stem)
def test_a_saved_fault_is_told_with_its_cure(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--judge", str(file)]) == 1
    told = capsys.readouterr().out
    assert "\nCure: " in told


def test_wrong_use_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in ("{", "[]", '{"machine": 3}'):
        wrong = tmp_path / "wrong.json"
        wrong.write_text(content)
        assert doctor.main(["--judge", str(wrong)]) == 2
    assert doctor.main(["--judge", str(tmp_path / "nothing.json")]) == 1
    assert "no file that" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        doctor.main(["--jugde", "x"])
    assert ended.value.code == 2


def test_the_json_of_a_saved_fault_has_the_finding_of_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    file = sorted(RECORDED.glob("*.json"))[0]
    assert doctor.main(["--json", "--judge", str(file)]) == 1
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[0]["rule"] in {one["rule"] for one in events if one["event"] == "finding"}
