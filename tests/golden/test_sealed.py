"""The sealed golden vectors are what the security layer sends, and another program opens them with the key.

So are the proof of an identity, and signed and private bundles.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.golden import protect
from tests.golden.make import stored
from tests.golden.seal import BLOCK, FOLDER, KEY, SEALED, sealed

NODE = Path(__file__).parents[1] / "node"


def run_node(program: str, *arguments: Path) -> Any:
    """What a program for Node prints, as JSON."""
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI") == "true":
            pytest.fail("node is missing: CI has to open the datagrams in another language")
        pytest.skip("node is missing (on Debian: apt-get install nodejs)")
    done = subprocess.run([node, NODE / program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_files_are_what_is_sent() -> None:
    assert sealed() == {path.name: path.read_bytes() for path in FOLDER.iterdir()}


def test_a_program_in_another_language_opens_them_with_the_key() -> None:
    opened = {name: bytes.fromhex(content) for name, content in run_node("open.mjs", FOLDER, KEY).items()}
    assert opened == {name: stored()[name] for name in SEALED} | {"block": stored()["data"] * BLOCK}


def test_the_files_of_identities_are_what_is_sent() -> None:
    assert protect.protected() == {path.name: path.read_bytes() for path in protect.FOLDER.iterdir()}


def test_a_program_in_another_language_checks_the_proof_and_opens_the_bundles() -> None:
    found = run_node("members.mjs", protect.FOLDER)
    assert found["name"] == "kitchen"
    opened = {name: bytes.fromhex(content) for name, content in found["bundles"].items()}
    assert opened == protect.BUNDLES


@pytest.mark.parametrize("name", ["kitchen.proof", *(f"{topic}.bundle" for topic in protect.BUNDLES)])
def test_a_flipped_bit_is_noticed_in_another_language(name: str, tmp_path: Path) -> None:
    for path in protect.FOLDER.iterdir():
        content = bytearray(path.read_bytes())
        content[-20] ^= path.name == name
        (tmp_path / path.name).write_bytes(content)
    with pytest.raises(AssertionError, match=r"wrong signature|authenticate"):
        run_node("members.mjs", tmp_path)
