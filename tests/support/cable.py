"""A real cable with faults between two network namespaces, for kernels without netem.

The work is done by `cable.c`, which is compiled once per test run; the words for its faults are those of the
simulator's `Conditions`, so that what a test tries in virtual time can be tried on real sockets too.
"""

from __future__ import annotations

import functools
import json
import shutil
import signal
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from glue.simulation.conditions import Conditions

SOURCE = Path(__file__).with_name("cable.c")
PATIENCE = 30.0
"""Seconds after which a cable that does not end is taken to hang; it ends in a few milliseconds."""

_directories: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


class CableError(RuntimeError):
    """The cable could not be compiled or laid; the message holds what the compiler or the cable said."""


class Cable:
    """Joins `device_a` in `namespace_a` with `device_b` in `namespace_b`, both made by it, for a `with` block.

    `faults` are the fields of `Conditions`, here with no delay by default, and hold both ways; `back`, if
    given, holds for what B sends instead. The outcome of the n-th frame of each direction follows from `seed`.
    The devices have no addresses and are down. The cable ends with the block, or with the thread that entered
    it. Then `counts` holds the truth: for "a" (what A sent) and "b" the counts by name, as those of
    `glue.simulation.Link` but of Ethernet frames, and beside them "refused" and "in flight".

    Raises CableError if there is no compiler, no right to make devices, or no such namespace.
    """

    def __init__(
        self,
        namespace_a: str,
        device_a: str,
        namespace_b: str,
        device_b: str,
        *,
        seed: int = 1,
        back: Conditions | None = None,
        **faults: Any,
    ) -> None:
        forth = Conditions(**{"delay": 0.0, **faults})
        self._command = [namespace_a, device_a, namespace_b, device_b, f"seed={seed}"]
        self._command += _arguments("a", forth) + _arguments("b", back or forth)
        self._process: subprocess.Popen[str] | None = None
        self.counts: dict[str, dict[str, int]] = {}

    def __enter__(self) -> Cable:
        self._process = process = subprocess.Popen(
            [compiled(), *self._command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            _, complaint = process.communicate(timeout=PATIENCE)
            raise CableError(complaint.strip())
        return self

    def read_counts(self) -> dict[str, dict[str, int]]:
        """What has happened so far."""
        assert self._process is not None, "the cable has been stopped"
        assert self._process.stdout is not None
        self._process.send_signal(signal.SIGUSR1)
        self.counts = json.loads(self._process.stdout.readline())
        return self.counts

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> dict[str, dict[str, int]]:
        """Take the cable away, and its devices with it; returns `counts`. Once stopped it does nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                output, complaint = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise
            if process.returncode != 0:
                raise CableError(f"ended with {process.returncode}: {complaint.strip()}")
            self.counts = json.loads(output)
        return self.counts


@functools.cache
def compiled() -> str:
    """The path of the compiled cable. Raises CableError if that cannot be."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise CableError("there is no C compiler (cc) to build the test cable with")
    directory = tempfile.TemporaryDirectory(prefix="glue-cable-")
    _directories.append(directory)
    program = str(Path(directory.name) / "cable")
    options = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run([compiler, *options, "-o", program, str(SOURCE)], capture_output=True, text=True)
    if done.returncode:
        raise CableError(f"{SOURCE.name} does not compile: {done.stderr}")
    return program


def _arguments(direction: str, conditions: Conditions) -> list[str]:
    values = asdict(conditions)
    burst = values.pop("burst") or {}
    values |= {f"burst_{name}": value for name, value in burst.items()}
    return [f"{direction}.{name}={value!r}" for name, value in values.items() if value is not None]
