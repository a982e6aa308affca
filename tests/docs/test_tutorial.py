"""The pair of programs of the tutorial works as two processes and prints what the tutorial shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.loopback import loopback_environment

ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0
"""Seconds that the two programs may take together."""


def test_the_pair_of_programs_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    display, thermometer = re.findall(r"^```python pair\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    environment = {**loopback_environment(), "PYTHONPATH": str(ROOT)}
    programs = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", text],
            env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for text in (display, thermometer)
    ]  # fmt: skip
    try:
        ended = [program.communicate(timeout=TIMEOUT) for program in programs]
    finally:
        for program in programs:
            program.kill()
    assert ended == [(shown[0], ""), ("", "")]
    assert [program.returncode for program in programs] == [0, 0]
