"""Runs a target on one input after the other, and notes what breaks a promise: raised, too slow, too much memory.

A fault does not end the run. It is noted once for each place in the code, with its input.
"""

from __future__ import annotations

import resource
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2s
from pathlib import Path
from time import thread_time

from tests.fuzz.registry import Target

SLOW = 0.5
"""Seconds of processor time that one input may take. The instrumented code takes two to four times as long as usual."""
GROWTH, MULTIPLE = 64 << 20, 64
"""Bytes by which one input may raise the peak of the process's memory, and as many times its size."""
FAULTS = 50
"""Different faults noted at most."""


def peak() -> int:
    """The largest resident size that this process had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def place_of(error: BaseException) -> str:
    """The kind of an error, and the last place in glue's own code that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/glue/" in frame.filename or "/spark/" in frame.filename] or frames
    last = own[-1]
    return f"{type(error).__name__} at {last.filename.rpartition('/glue/')[2]}:{last.lineno}"


@dataclass
class Watch:
    """What was seen while a target ran; faults are saved in a folder."""

    target: Target
    folder: Path | None = None
    executions: int = 0
    slowest: float = 0.0
    slowest_input: bytes = b""
    faults: dict[str, str] = field(default_factory=dict)
    """Faults by place: the name of the input's file, and the last lines of the traceback."""

    def __call__(self, data: bytes) -> None:
        """Feed one input."""
        before, begun = peak(), thread_time()
        try:
            self.target(data)
        except Exception as error:  # what the target must not raise
            self._note(place_of(error), data, "".join(traceback.format_exception(error, limit=-6)))
        taken = thread_time() - begun
        self.executions += 1
        if taken > self.slowest:
            self.slowest, self.slowest_input = taken, data
            if taken > SLOW and self._again(data) > SLOW:
                self._note("slow", data, f"{taken:.2f} s for {len(data)} bytes")
        grown = peak() - before
        if self.executions > 1 and grown > GROWTH + MULTIPLE * len(data):
            self._note("memory", data, f"{grown >> 20} MB for {len(data)} bytes")

    def _again(self, data: bytes) -> float:
        """The processor time of an input the second time: a garbage collection or an import is no fault of its."""
        begun = thread_time()
        with suppress(Exception):  # noted by the first time
            self.target(data)
        return thread_time() - begun

    def _note(self, place: str, data: bytes, text: str) -> None:
        if place in self.faults or len(self.faults) >= FAULTS:
            return
        name = f"{self.target.name}-{blake2s(data, digest_size=6).hexdigest()}"
        self.faults[place] = f"{name}\n{text}"
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(data)
