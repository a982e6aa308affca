"""What can be fuzzed: a target is a function of bytes that may raise only the errors it documents.

A target makes all that it needs anew for each input, so one input always does the same. Its seeds are what glue itself
writes: golden vectors, recorded captures, encoded messages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

LENGTH = 2
"""Bytes of the length before each part of an input that has several."""

Run = Callable[[bytes], object]
Seeds = Callable[[], Iterable[bytes]]


class Target(NamedTuple):
    """One decoder or door; `errors` are what it may raise."""

    name: str
    run: Run
    seeds: Seeds
    errors: tuple[type[Exception], ...]

    def __call__(self, data: bytes) -> None:
        """Feed one input. Raises what the target must not raise."""
        with contextlib.suppress(*self.errors):
            self.run(data)


TARGETS: dict[str, Target] = {}
"""All targets by name."""


def target(name: str, seeds: Seeds, *errors: type[Exception]) -> Callable[[Run], Run]:
    """Make a function a target."""

    def register(run: Run) -> Run:
        assert name not in TARGETS, name
        TARGETS[name] = Target(name, run, seeds, errors)
        return run

    return register


def joined(parts: Sequence[bytes]) -> bytes:
    """Several parts as one input: each with its length."""
    return b"".join(len(part).to_bytes(LENGTH, "big") + part for part in parts)


def split(data: bytes, most: int = 64) -> list[bytes]:
    """The parts of an input. The last one may be cut short; what is behind the last of `most` is left out."""
    parts: list[bytes] = []
    place = 0
    while place + LENGTH <= len(data) and len(parts) < most:
        end = place + LENGTH + int.from_bytes(data[place : place + LENGTH], "big")
        parts.append(data[place + LENGTH : end])
        place = end
    return parts
