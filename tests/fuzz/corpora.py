"""The inputs that are kept in the repository, and how a large corpus becomes a small one.

python -m tests.fuzz TARGET --keep --corpus DIR    # choose anew which inputs of DIR are kept
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2s
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.registry import Target

KEPT = Path(__file__).parent / "corpus"
BUDGET = 4 << 10
"""Bytes kept of each target's corpus."""
LARGEST = 1 << 10
"""Bytes of a kept input at most; one that showed a fault may be larger."""
FAULT = "fault-"
"""Prefix of an input that showed a fault: it is always kept."""

Line = tuple[int, int, int]


def kept(name: str) -> Iterator[tuple[str, bytes]]:
    """The kept inputs of a target, by the name of their file."""
    for path in sorted((KEPT / name).glob("*")):
        yield path.name, path.read_bytes()


def lines_of(target: Target, data: bytes) -> set[Line]:
    """The steps from line to line that an input takes through glue and spark."""
    found: set[Line] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if ("/glue/" not in path and "/spark/" not in path) or "/site-packages/" in path or "/tests/" in path:
            return None
        code, last = id(frame.f_code), 0

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                found.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    sys.settrace(trace)
    try:
        target(data)
    except Exception:  # a fault is told by the run, not here
        pass
    finally:
        sys.settrace(None)
    return found


def smallest(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """The inputs, small ones first, that take a step which none before did: seeds are there without being kept."""
    seen: set[Line] = set()
    for seed in target.seeds():
        seen |= lines_of(target, seed)
    chosen, size = list[bytes](), 0
    for data in sorted(inputs, key=len):
        if len(data) > LARGEST or size + len(data) > BUDGET:
            continue
        fresh = lines_of(target, data) - seen
        if fresh:
            seen |= fresh
            chosen.append(data)
            size += len(data)
    return chosen


def keep(target: Target, corpus: Path) -> int:
    """Keep the smallest inputs of a corpus in place of the former ones; returns how many. Those of faults stay."""
    folder = KEPT / target.name
    chosen = smallest(target, [path.read_bytes() for path in sorted(corpus.glob("*")) if path.is_file()])
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*"):
        if not path.name.startswith(FAULT):
            path.unlink()
    for data in chosen:
        (folder / blake2s(data, digest_size=6).hexdigest()).write_bytes(data)
    return len(chosen)
