"""Loggers that import `logging` with their first line."""

from __future__ import annotations

import subprocess
import sys


def test_a_line_of_the_log_imports_logging() -> None:
    command = """
from glue.contract.logs import lazy_logger
import sys

logger = lazy_logger("glue")
logger.info("not asked for")
assert "logging" not in sys.modules
logger.warning("a warning of %s", "glue")
import logging

logging.basicConfig(level=logging.INFO, format="%(name)s %(funcName)s %(message)s")


def place():
    logger.info("a line")


place()
"""
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert found.stderr.splitlines() == ["a warning of glue", "glue place a line"]
