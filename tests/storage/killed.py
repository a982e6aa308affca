"""A process that stores messages under load and tells what is durable, until it is killed.

By hand, so many kills: `python -m tests.storage.killed 200`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from glue.drivers.directory import FileDirectory
from glue.storage import FileLog
from glue.storage.log import every_topic
from tests.storage.records import messages

SEGMENT = 200_000
"""Bytes of a segment, so that kills also meet the end of one."""


def store(path: str, first: int) -> None:
    """Store messages for ever, and print the number of the last durable one after each sync."""
    log, luck = FileLog(FileDirectory(path), Random(), SEGMENT), Random()
    while True:
        count = luck.randint(1, 200)
        log.append([messages(first, count, size=luck.choice((20, 200)))])
        log.sync()
        first += count
        sys.stdout.buffer.write(b"%d\n" % (first - 1))
        sys.stdout.buffer.flush()


def found(path: str) -> list[int]:
    """The numbers of all messages in the log."""
    log = FileLog(FileDirectory(path), Random(), SEGMENT)
    at, numbers = 0, list[int]()
    while at < log.durable:
        reading = log.read(every_topic, at)
        for _, record in reading.records:
            numbers += range(record.sequence, record.stop)
        at = reading.next
    assert log.damaged == 0
    log.close()
    return numbers


def kill(path: str, seconds: float) -> int:
    """Run a process for a while and kill it; returns the last number of which it said that it is durable."""
    before = found(path)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.killed", "store", path, str(len(before) + 1)],
        stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert child.stdout is not None
    told = [child.stdout.readline()]  # it has begun
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    told += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    return int(next(line for line in reversed(told) if line.endswith(b"\n")))


def check(path: str, seconds: float) -> int:
    """Kill a process once; returns how many messages are stored. Each acknowledged one is there, once and in order."""
    durable = kill(path, seconds)
    numbers = found(path)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= durable
    return len(numbers)


if __name__ == "__main__":
    if sys.argv[1] == "store":
        store(sys.argv[2], int(sys.argv[3]))
    luck = Random(1)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(int(sys.argv[1])):
            where = Path(folder, str(number // 10))  # a log of ten kills, so that opening stays short
            print(number, check(str(where), luck.uniform(0, 0.2)), flush=True)
