"""Fuzzes one target in a process of its own: `python -m tests.fuzz.child TARGET SECONDS CORPUS RESULT`.

The guide is libFuzzer, by way of atheris, which counts the branches of glue's Python code. The code of native
libraries, such as orjson, is not counted.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import warnings
from pathlib import Path
from time import monotonic, process_time

MEMORY = 4 << 30
"""Bytes of address space: beyond it an allocation fails, and the input is a finding."""
FULL = 2 << 30
"""Bytes of resident memory at which a process ends, for another one to go on: the instrumented code leaves some 20 kB
for each input that reads with pyarrow, which the code by itself does not."""
LARGEST = 64 << 10
"""Bytes of an input at most."""
HANGS = 3600
"""Seconds for one input after which libFuzzer gives up. It counts real time, in which the process may be stopped;
what an input may take of the processor is in `bounds`."""


def main(name: str, seconds: float, corpus: Path, result: Path) -> None:
    """Fuzz for some seconds of processor time; the result is a JSON file, written anew every two seconds."""
    import atheris  # imported here: only this command needs it

    with atheris.instrument_imports(include=["glue", "spark"]):
        from tests.fuzz.targets import TARGETS

        for seed in TARGETS[name].seeds():
            TARGETS[name](seed)  # what is imported when it is used has to be instrumented, too
    from tests.fuzz.bounds import Watch, peak

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    watch = Watch(TARGETS[name], result.parent / "faults")
    begun, next_report = process_time(), 0.0

    def report() -> None:
        found = {
            "executions": watch.executions, "slowest": watch.slowest, "slowest_bytes": len(watch.slowest_input),
            "peak": peak(), "faults": watch.faults, "seconds": process_time() - begun,
        }  # fmt: skip
        result.write_text(json.dumps(found))

    def one(data: bytes) -> None:
        nonlocal next_report
        watch(data)
        now = monotonic()
        if now >= next_report:
            next_report = now + 2
            report()
            if process_time() >= begun + seconds or peak() > FULL:
                sys.stderr.flush()
                os._exit(0)  # libFuzzer has no other end by time that runs Python code

    options = [
        f"-max_len={LARGEST}",
        f"-timeout={HANGS}",
        "-rss_limit_mb=3500",
        "-use_value_profile=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
