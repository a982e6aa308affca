"""Recorded transcripts of commands that need no network: keys and rights, simulations, completion, and mistakes.

Random bytes count up, and the clock stands still, so that files come out alike. Each file that a command writes stands
in the record with a hash.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing.process  # noqa: F401  # draws random bytes when it is imported
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from unittest import mock
from zlib import crc32

from glue.cmd.main import main

NOW = 1_700_000_000.0
RULES = """[
 {"who": "pump", "may": ["publish"], "topics": ["plant/+/speed"]},
 {"who": "pump", "may_not": ["publish"], "topics": ["plant/9/speed"]},
 {"who": "#", "may": ["subscribe"], "topics": ["plant/#"]},
 {"topics": ["plant/secret"], "private": true}
]"""
KEYS = (
    "key", "key new", "key new plant.key", "key new plant.key", "key show plant.key --json",
    "key show missing", "key show rules.json", "key authority plant.authority --key plant.key", "key show plant.key",
    "key show plant.authority", "key show plant.authority --json", "key identity pump", "key identity pump",
    "key identity valve other.identity --json", "key identity {long}", "key show pump.identity",
    "key show pump.identity --json", "key admit pump.identity --authority plant.authority --days 3 --publish a/# b/+",
    "key show pump.identity", "key admit other.identity --authority plant.authority --subscribe a/# --json",
    "key admit other.identity --authority plant.authority --subscribe a/#/b",
    "key admit pump.identity --authority pump.identity",
    "key admit other.identity --authority plant.authority --days -1", "key show other.identity",
    "key rules rules.json --authority plant.authority", "key rules rules.json --authority plant.authority --json",
    "key rules plant.key --authority plant.authority", "key rules rules.json --authority plant.key",
    "key rules rules.json --authority plant.authority --output plant.key",
    "key explain pump publish plant/1/speed --rules plant.rules",
    "key explain pump publish plant/9/speed --rules plant.rules",
    "key explain pump publish plant/1/flow --rules plant.rules --json",
    "key explain valve subscribe plant/# --rules rules.json",
    "key explain valve subscribe plant/secret --rules plant.rules",
    "key explain pump publish a/1 --identity pump.identity",
    "key explain pump publish c/1 --identity pump.identity", "key explain valve publish a/1 --identity pump.identity",
    "key explain pump fly a/1", "key explain pump publish a/+", "key explain pump publish a/1 --rules missing",
    "key rotate plant.key --leaked", "key rotate plant.key --leaked --authority plant.authority --without pump",
    "key show plant.key", "key rotate plant.key --leaked --authority plant.authority --overlap 1e9",
    "key rotate plant.key --without pump --leaked", "key rotate missing --leaked", "key new sub/dir/x.key",
    "key rotate free.key --leaked --overlap 30 --json", "key show free.key",
    "key open plant.key --key plant.key --output o", "key open plant.key --key plant.key --output plant.key",
)  # fmt: skip
OTHERS = (
    "", "--help", "help", "nonsense", "endpiont", "simulate --seeds 2 --storm 2",
    "simulate --seeds 1 --first 7 --storm 1 --json",
    "simulate --seeds 1 --first 3 --storm 1 --without crash,slow-disk --forged", "simulate --seeds 1 --without rain",
    "simulate --seeds 0", "simulate --layer topics", "simulate --seeds 1 --storm 0.3 --trace", "completion bash",
    "completion zsh", "completion fish", "completion tcsh", "completion",
    "http token new kitchen --tokens tokens --publish home/# --subscribe home/#",
    "http token new kitchen --tokens tokens --admin", "http token new other --tokens tokens --certificate",
    "http token new other --tokens tokens --publish a/#/b", "http token delete kitchen --tokens tokens",
    "http token delete kitchen --tokens tokens", "http token list --tokens tokens", "http token new", "http nonsense",
    "mqtt passwd passwords ann --delete", "mqtt passwd", "network --interface", "mqtt passwords",
)  # fmt: skip
LATER = re.compile(
    r"\(choose from [^)]*\)|\d+(\.\d+)? s\b|\"seconds\": ?[\d.]+"
    r"|seals with [A-Za-z0-9-]+|\"cipher\": ?\"[A-Za-z0-9-]+\""
)


@contextlib.contextmanager
def still() -> Iterator[Path]:
    """An empty folder, random bytes that count up, and a clock that stands still."""
    numbers = count(1)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for name in ("os.urandom", "random._urandom"):  # the latter is that of `secrets`
            stack.enter_context(mock.patch(name, lambda size: next(numbers).to_bytes(size, "big")))
        stack.enter_context(mock.patch.object(time, "time", return_value=NOW))
        stack.enter_context(mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}))
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def run(words: list[str]) -> str:
    """What a command prints, and its exit code."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code: object = main(words)
        except SystemExit as ended:
            code = ended.code
    told = [f"  {line}" for line in out.getvalue().splitlines()]
    told += [f"  ! {line}" for line in error.getvalue().splitlines()]
    if len(told) > 9:
        rest = "\n".join(told[6:])
        told[6:] = [f"  … {len(told) - 6} more lines, {crc32(LATER.sub('', rest).encode()):08x}"]
    return "\n".join([f"-> {code}", *(LATER.sub("…", line)[:200] for line in told)])


def transcript(commands: tuple[str, ...]) -> str:
    """What these commands print and write, one after the other."""
    lines = []
    with still() as folder:
        (folder / "rules.json").write_text(RULES)
        known: dict[str, int] = {}
        for command in commands:
            if command.startswith("key rotate free"):
                run(["key", "new", "free.key"])
            lines.append(f"$ glue {command} {run(command.format(long='n' * 300).split())}")
            now = {str(p.relative_to(folder)): crc32(p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()}
            for name, total in now.items():
                if known.get(name) != total:
                    lines.append(f"  {name}: {(folder / name).stat().st_mode & 0o777:o}, {total:08x}")
            known = now
        return "\n".join(lines).replace(str(folder), "…") + "\n"


COMMANDS: dict[str, Callable[[], str]] = {
    "commands-key": lambda: transcript(KEYS), "commands-others": lambda: transcript(OTHERS),
}  # fmt: skip
