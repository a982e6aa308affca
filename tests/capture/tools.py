"""tshark, where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

with_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None and os.environ.get("CI") != "true",
    reason="needs the command `tshark` (Debian: tests/install-debian-packages)",
)


def tshark(trace: Path, script: Path, fields: list[str]) -> list[dict[str, str]]:
    """These fields of each datagram of a trace, as Wireshark's command tells them with this script."""
    command = ["tshark", "-n", "-X", f"lua_script:{script}", "-r", str(trace)]
    command += ["-T", "fields", *(word for field in fields for word in ("-e", f"glue.{field}"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [dict(zip(fields, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]
