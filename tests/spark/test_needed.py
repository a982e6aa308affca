"""Without the extra, a command says what to install, in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark.needed import ROOT, advice, missing

WITHOUT = """
import runpy, sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "numpy"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Without())
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("command", ["analyze", "live", "replay", "convert"])
def test_a_command_without_its_libraries_says_what_to_install(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, f"spark.{command}", "x", "--output", "y"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "numpy, py4j, pyspark" in line
    assert line.endswith("[spark]'")


def test_the_distribution_is_named_as_it_is_installed_and_else_by_its_sources() -> None:
    assert advice(["pyspark"], ["name"]).endswith("pip install 'name[spark]'")
    assert advice(["pyspark"], []).endswith(f"pip install '{ROOT}[spark]'")
    assert missing(lambda library: library != "pyarrow") == ["pyarrow"]
