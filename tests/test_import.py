"""What `import glue` costs: no optional package, no asyncio, nothing of Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def imported(statement: str) -> set[str]:
    """The modules that are there after this statement in a fresh interpreter."""
    program = f"import sys; {statement}; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd="/", capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_glue_brings_no_extra_and_no_event_loop() -> None:
    optional = {"zeroconf", "scapy", "pyspark", "uvloop", "hypothesis", "pytest", "psutil"}
    unneeded = {
        "asyncio",
        "multiprocessing",
        "http",
        "email",
        "ssl",
        "argparse",
        "glue.aio",
        "glue.cmd",
        "glue.simulation",
    }
    assert imported("import glue") & (optional | unneeded) == set()


def test_asyncio_comes_with_its_own_endpoint() -> None:
    assert {"asyncio", "glue.aio"} <= imported("import glue.aio")
