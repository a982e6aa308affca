"""What each decoder and door makes of inputs that are a little wrong: a value out of its bounds, a cut, a changed byte.

The targets and the seeds are those of the fuzzer. For each target the record has a hash of what was answered, and how
often; answers are what the target's calls return, down to their members.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from zlib import crc32

import orjson

import glue

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 9, 1.5, 3000, 1 << 31, (1 << 53) - 1, 1 << 53, 10**13, 10**15, "", "x", "a/b", "a/+", "#",
    "$glue/x", "0" * 16, "0" * 17, "x" * 101, "x" * 256, [], [1], [[1, 2]], {},
)  # fmt: skip
BYTES = b'\x00\x01\x02\x7f\x80\xff019-"{}[],:/#+x\n'
MOST = {"wire": 1500, "settings": 900, "storage": 200, "models": 250, "security": 150, "codecs": 120, "captures": 110}
"""Inputs of each target, by the module of the target; the doors and endpoints have recorded runs of their own."""
LAYERS, MOST_OF_LAYERS = ("serialization", "transport", "fragmentation"), 250
"""Targets whose inputs take a whole layer each."""
PATH = re.compile(r"/(tmp|dev/shm)/\S*/")
OURS = tuple(f"{Path(glue.__file__).parents[1]}/{part}/" for part in ("glue", "spark"))
LEFT_OUT = ("arrow-table", "arrow")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a JSON value with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def changed_values(document: bytes) -> Iterator[bytes]:
    """A JSON document with each of its values replaced by others, left out, or given twice."""
    whole = orjson.loads(document)
    for number in range(sum(1 for _ in places(whole))):
        owner, key = next(pair for at, pair in enumerate(places(whole)) if at == number)
        before = owner[key]
        near: list[Any] = [before - 1, before + 1] if isinstance(before, int) and abs(before) < 1 << 53 else []
        near += [before + "x", before[:-1]] if isinstance(before, str) else []
        near += [before * 2, before[:-1]] if isinstance(before, list) else []
        for value in (*VALUES, *near):
            owner[key] = value
            yield orjson.dumps(whole)
        if isinstance(owner, dict):
            del owner[key]
            yield orjson.dumps(whole)
            owner.clear()
            owner.update(orjson.loads(document) if owner is whole else {key: before})
            whole = orjson.loads(document)
        else:
            owner[key] = before


def changed(seed: bytes, random: Random) -> Iterator[bytes]:
    """The seed, cut, longer, and with other bytes; if it begins with a JSON line, with other values."""
    yield seed
    line, feed, rest = seed.partition(b"\n")
    try:
        found = [*changed_values(line)]
    except orjson.JSONDecodeError:
        found = []
    random.shuffle(found)
    yield from (one + feed + rest for one in found)
    for _ in range(60):
        at = random.randrange(len(seed)) if seed else 0
        byte = bytes((random.choice(BYTES),))
        yield random.choice((seed[:at], seed[:at] + byte + seed[at + 1 :], seed[:at] + byte + seed[at:], seed + byte))


def facts(value: Any, depth: int = 4) -> str:
    """A value in words: its members, but no address of an object."""
    if value is None or isinstance(value, bool | int | float | str | bytes | bytearray | memoryview):
        return repr(bytes(value) if isinstance(value, bytearray | memoryview) else value)[:200]
    name = type(value).__name__
    if name == "RecordBatch":  # the columns of captures
        return repr(value.to_pydict())
    if depth == 0 or callable(value):
        return name
    if isinstance(value, dict):
        inner = [f"{facts(key, depth - 1)}: {facts(one, depth - 1)}" for key, one in value.items()]
    elif isinstance(value, list | tuple):
        inner = [facts(one, depth - 1) for one in value]
    elif isinstance(value, set | frozenset):
        inner = sorted(facts(one, depth - 1) for one in value)
    else:
        members = {one for kind in type(value).__mro__ for one in getattr(kind, "__slots__", ())}
        members |= set(_member(value, "__dict__") or ())
        inner = [f"{one}={facts(_member(value, one), depth - 1)}" for one in sorted(members)]
    return f"{name}({', '.join(inner)})"


def _member(value: Any, name: str) -> Any:
    """A member of an object; the name of its error if it cannot be read."""
    try:
        return getattr(value, name, None)
    except Exception as error:  # a lazy member of what is malformed
        return type(error).__name__


class Witness:
    """Notes what the calls of one function return while it runs."""

    def __init__(self, run: Callable[[bytes], object]) -> None:
        self._run = run
        self._file = run.__code__.co_filename
        self.told: list[str] = []

    def __call__(self, data: bytes) -> str:
        """Run it on one input; return all answers, and how it ended."""
        self.told.clear()
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            self._run(data)
            end = ""
        except Exception as error:
            end = type(error).__name__
            if error.__context__ is None and isinstance(error, glue.GlueError | ValueError):
                end += f" {PATH.sub('', str(error))}"  # the words of others change with their versions
        finally:
            sys.setprofile(before)
        self.told.append(end)
        return "\n".join(self.told)

    def _note(self, frame: FrameType, event: str, value: Any) -> None:
        if event != "return" or frame.f_back is None or frame.f_back.f_code.co_filename != self._file:
            return
        if frame.f_code.co_filename.startswith(OURS):
            sys.setprofile(None)
            self.told.append(f"{frame.f_code.co_name}: {PATH.sub('', facts(value))}")
            sys.setprofile(self._note)


def forms(module: str) -> str:
    """What the targets of one module make of changed seeds."""
    from tests.fuzz.targets import TARGETS

    lines = []
    for name, target in TARGETS.items():
        if target.run.__module__ != f"tests.fuzz.targets.{module}" or name in LEFT_OUT:
            continue
        random, ends, total = Random(name), Counter[str](), 0
        inputs = [one for seed in target.seeds() for one in changed(seed, random)]
        random.shuffle(inputs)
        witness = Witness(target.run)
        for data in inputs[: MOST_OF_LAYERS if name in LAYERS else MOST[module]]:
            told = witness(data)
            ends[witness.told[-1].partition(" ")[0] or "taken"] += 1
            total = crc32(told.encode("utf-8", "backslashreplace"), total)
        lines.append(f"{name}: {', '.join(f'{end} {n}' for end, n in sorted(ends.items()))}, {total:08x}")
    return "\n".join(lines) + "\n"


FORMS: dict[str, Callable[[], str]] = {f"forms-{module}": partial(forms, module) for module in MOST}
