"""The wire format can be read without glue: a decoder in another language agrees on the golden vectors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.golden.make import DOCUMENT, FOLDER, VECTORS

DECODER = Path(__file__).with_name("decode.mjs")
ENTRIES = DOCUMENT.with_name("entries.json")


def test_a_decoder_in_another_language_reads_the_golden_datagrams() -> None:
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI") == "true":
            pytest.fail("node is missing: CI has to run the decoder in another language")
        pytest.skip("node is missing (on Debian: apt-get install nodejs)")
    done = subprocess.run([node, DECODER, FOLDER, ENTRIES], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(VECTORS.read_bytes())
