"""The sealed golden vectors are what the security layer sends, and another program opens them with the key."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.golden.make import stored
from tests.golden.seal import FOLDER, KEY, SEALED, sealed

OPENER = Path(__file__).parents[1] / "node" / "open.mjs"


def test_the_files_are_what_is_sent() -> None:
    assert sealed() == {path.name: path.read_bytes() for path in FOLDER.iterdir()}


def test_a_program_in_another_language_opens_them_with_the_key() -> None:
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI") == "true":
            pytest.fail("node is missing: CI has to open the datagrams in another language")
        pytest.skip("node is missing (on Debian: apt-get install nodejs)")
    done = subprocess.run([node, OPENER, FOLDER, KEY], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    opened = {name: bytes.fromhex(content) for name, content in json.loads(done.stdout).items()}
    assert opened == {name: stored()[name] for name in SEALED}
