"""What `import glue` costs: no optional package, no asyncio, nothing of Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import glue

ROOT = Path(__file__).parents[2]


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
        "logging",
        "signal",
        "glue.codecs",
        "glue.discovery.exam",
        "glue.endpoint.deadlines",
        "glue.endpoint.responder",
        "glue.endpoint.typed",
        "glue.endpoint.wills",
        "glue.history.reader",
        "glue.history.wire",
        "glue.schema.convert",
        "glue.security",
        "glue.topics.shared.dispatcher",
        "glue.transport.fec.code",
        "_hashlib",  # OpenSSL
        "netifaces",
        "glue.aio",
        "glue.cmd",
        "glue.simulation",
    }
    assert imported("import glue") & (optional | unneeded) == set()


def test_importing_glue_loads_few_of_its_modules() -> None:
    assert sum(name.startswith("glue") for name in imported("import glue")) <= 206


def test_asyncio_comes_with_its_own_endpoint() -> None:
    assert {"asyncio", "glue.aio"} <= imported("import glue.aio")


def test_consensus_is_loaded_with_the_first_model() -> None:
    of_the_model = {"consensus", "state", "storage", "mergeable", "group"}
    shared = (
        "glue.endpoint.model",
        "glue.sync.model",
        "glue.aio.model",
        *(f"glue.model.{part}" for part in of_the_model),
    )
    for statement in ("import glue", "import glue.aio", "import glue; glue.Endpoint('a'); 'Model' in dir(glue)"):
        assert not {name for name in imported(statement) if name.startswith(shared)}
    assert "glue.model.state" in imported("import glue; glue.Set('a', 1)")
    assert "glue.sync.model" in imported("from glue import *; Model")


def test_a_name_that_glue_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        glue.Nothing  # type: ignore[attr-defined]  # noqa: B018
    assert set(glue.__all__) <= set(dir(glue))
    assert all(getattr(glue, name) is not None for name in glue.__all__)
