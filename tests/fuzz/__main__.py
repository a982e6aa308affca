"""Fuzzes decoders and doors, guided by coverage.

    python -m tests.fuzz list
    python -m tests.fuzz mqtt --seconds 60
    python -m tests.fuzz all --seconds 600 --corpus ~/glue-corpus --jobs 2

It needs atheris: `pip install atheris` (Linux and macOS). Each target runs in a process of its own, and in a new one
once that one's memory is full. It begins with its seeds, the inputs that are kept in `tests/fuzz/corpus`, and those of
an earlier run in DIR. Inputs that broke a promise lie in DIR/faults afterwards; put one into `tests/fuzz/corpus/TARGET`
as `fault-WHAT`, and the suite replays it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2s
from pathlib import Path
from typing import Any

from tests.fuzz.corpora import keep, kept
from tests.fuzz.targets import TARGETS

PROGRESS = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)/")
SLOWDOWN = 20
"""How much longer than its processor time a process may take, beside other programs."""
GRACE = 900.0
"""Seconds after that in which a process must have ended: imports on a busy machine, and the last input."""


def fuzz(name: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Fuzz one target in processes of its own, one after the other; returns what came of it."""
    corpus, result = folder / name, folder / f"{name}.json"
    corpus.mkdir(parents=True, exist_ok=True)
    for data in [*TARGETS[name].seeds(), *(data for _, data in kept(name))]:
        (corpus / blake2s(data, digest_size=10).hexdigest()).write_bytes(data)
    before = len(list(corpus.iterdir()))
    found: dict[str, Any] = {"executions": 0, "faults": {}, "seconds": 0.0}
    text, code = "", 0
    while found["seconds"] < seconds and not code:
        result.unlink(missing_ok=True)
        code, told = _child(name, seconds - found["seconds"], folder)
        text += told
        more: dict[str, Any] = {"executions": 0, "faults": {}, "seconds": seconds}
        if result.exists():
            more = json.loads(result.read_text())
        if code:
            more["faults"][f"the process ended with {code}"] = f"see {folder / name}.log\n{told[-2000:]}"
        found = _joined(found, more)
    progress = PROGRESS.findall(text)
    found["coverage"] = int(progress[-1][0]) if progress else 0
    found["first_coverage"] = int(progress[0][0]) if progress else 0
    found["inputs"] = len(list(corpus.iterdir())) - before
    return found


def _child(name: str, seconds: float, folder: Path) -> tuple[int, str]:
    """Fuzz in a process that may end before, once its memory is full; returns its exit code and its log."""
    corpus, result = folder / name, folder / f"{name}.json"
    command = [sys.executable, "-m", "tests.fuzz.child", name, str(seconds), str(corpus), str(result)]
    with tempfile.TemporaryDirectory() as place, open(folder / f"{name}.log", "w+b") as log:
        environment = {**os.environ, "TMPDIR": place, "PYTHONPATH": os.getcwd()}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            code = process.wait(SLOWDOWN * seconds + GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        log.seek(0)
        return code, log.read().decode(errors="replace")


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What came of two processes, one after the other."""
    slowest = max(one, other, key=lambda found: found.get("slowest", 0.0))
    return {
        **slowest,
        "executions": one["executions"] + other["executions"],
        "seconds": one["seconds"] + other["seconds"],
        "faults": {**one["faults"], **other["faults"]},
        "peak": max(one.get("peak", 0), other.get("peak", 0)),
    }


def row(name: str, seconds: float, found: dict[str, Any]) -> str:
    """One line of the table."""
    return (
        f"{name:20} {found['executions']:>11,} {seconds / 60:>7.1f} "
        f"{found['first_coverage']:>6} → {found['coverage']:<6} "
        f"{found['inputs']:>6} {len(found['faults']):>6} {found.get('slowest', 0) * 1000:>8.0f} ms "
        f"({found.get('slowest_bytes', 0)} B) {found.get('peak', 0) >> 20:>5} MB"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code: 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz decoders and doors.")
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="targets; all; list")
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time for each target (default 60)")
    parser.add_argument("--corpus", type=Path, help="a folder that keeps the inputs (default: a new one in /tmp)")
    parser.add_argument("--jobs", type=int, default=1, help="targets at once (default 1)")
    parser.add_argument("--keep", action="store_true", help="choose inputs of --corpus for the repository; no fuzzing")
    options = parser.parse_args(arguments)
    names = [*TARGETS] if options.targets == ["all"] else options.targets
    if options.targets == ["list"]:
        print(*TARGETS, sep="\n")
        return 0
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(TARGETS)}")
    if options.keep:
        if options.corpus is None:
            parser.error("--keep needs --corpus")
        for name in names:
            print(f"{name}: {keep(TARGETS[name], options.corpus / name)} inputs kept", flush=True)
        return 0
    if importlib.util.find_spec("atheris") is None:
        parser.error("this needs atheris: pip install atheris")
    folder = options.corpus or Path(tempfile.mkdtemp(prefix="glue-fuzz-"))
    print(f"inputs: {folder}")
    print(f"{'target':20} {'executions':>11} {'minutes':>7} {'coverage':>15} new    faults  slowest, peak")
    faults = 0

    def one(name: str) -> None:
        nonlocal faults
        found = fuzz(name, options.seconds, folder)
        faults += len(found["faults"])
        told = [f"--- {name}: {place}: {text}" for place, text in found["faults"].items()]
        print("\n".join([row(name, options.seconds, found), *told]), flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, names))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
