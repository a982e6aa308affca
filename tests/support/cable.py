"""A cable with faults between two network namespaces, for kernels without netem.

The program `cable.c` does the work; it is compiled once per test run. Its faults have the names of the simulator's
`Conditions`, so a test in virtual time can be repeated on real sockets.
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
"""Seconds after which a cable counts as hanging; it ends in a few milliseconds."""

_directories: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


class CableError(RuntimeError):
    """The cable could not be compiled or made. The message has the output of the compiler or the cable."""


class Cable:
    """Joins `device_a` in `namespace_a` with `device_b` in `namespace_b` for the time of a `with` block.

    The cable makes both devices; they have no addresses and are down. `faults` are fields of `Conditions`, here with no
    delay by default, and hold both ways. `back`, if given, replaces them for what B sends. The outcome of the n-th
    frame of each direction follows from `seed`.

    The cable ends with the block, or with the thread that entered it. Then `counts` has the counters of "a" (what A
    sent) and "b" by name. They are those of `glue.simulation.Link`, for Ethernet frames, with "refused" and "in flight"
    in addition.

    Raises CableError without a compiler, without the right to make devices, or without these namespaces.
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
        """Return the present counts."""
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
        """Remove the cable and its devices; returns `counts`. A second call does nothing."""
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
    """Return the path of the compiled cable. Raises CableError if it cannot be compiled."""
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
