"""`glue demo`: four endpoints in four processes share a topic, and one terminal shows live what each receives.

Each process is a `glue topics --send-messages --json`, and the demo reads its output. The processes use the loopback
interface, with a port and a network id of their own, so they disturb no other program. The demo succeeds only if each
endpoint received every message of every endpoint, including its own, once and in order.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from glue.cmd import common
from glue.cmd.output import CommandOutput, payload_text, printable, table
from glue.errors import InterfaceError
from glue.network import choose_interface, obstacle

NAMES = ("attic", "cellar", "garden", "kitchen")
TOPIC = "home/demo"
COUNT, RATE = 25, 5.0
"""Messages of each endpoint, and how many a second: five seconds in all."""
TIME_LIMIT = 20.0
"""Seconds after which the demo gives up. Its processes end `GRACE` later, even if the demo was killed."""
GRACE = 3.0
REDRAW_INTERVAL = 0.1
PORTS = range(20_000, 32_000)
"""Ports below those that Linux and macOS give out by themselves."""

OutputLine = dict[str, Any]


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.Parser(
        prog="glue demo", description="Four endpoints in four processes share a topic, shown live.", allow_abbrev=False
    )
    made.add_argument("--interface", metavar="NAME", help="network interface (default: loopback)")
    made.add_argument("--json", action="store_true", help="print one JSON object a line")
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Start the processes and show their messages until all have arrived."""
    interface = usable(arguments.interface or loopback())
    received = ReceptionTable()
    screen = Screen(output)
    lines: queue.SimpleQueue[tuple[str, OutputLine]] = queue.SimpleQueue()
    with common.until_ended(TIME_LIMIT), processes(interface, lines):
        while not received.complete and not received.over:
            common.check()
            for name, event in news(lines):
                received.add(name, event)
                output.event("line", process=name, line=event)
            screen.draw(received)
    screen.finish(received)
    return report(received, output)


def usable(name: str) -> str:
    """Return the name of the interface if it can be used now. Raises InterfaceError otherwise."""
    interface = choose_interface(name, socket.AF_INET).interface
    if trouble := obstacle(interface, socket.AF_INET):
        cure = f"switch it on (ip link set {name} up), or" if not interface.up else "switch it on, or"
        raise InterfaceError(f"interface={name!r}: it cannot be used: {trouble}; {cure} name another by --interface")
    return interface.name


def loopback() -> str:
    """Return the name of the loopback interface: lo, or lo0 on macOS."""
    return next(name for _, name in socket.if_nameindex() if name in ("lo", "lo0"))


@contextmanager
def processes(interface: str, lines: queue.SimpleQueue[tuple[str, OutputLine]]) -> Iterator[None]:
    """Run four processes with their output going to `lines`. They end with the block, also after a failure."""
    command = [sys.executable, "-m", "glue.cmd.topics", "--json", "--send-messages"]
    command += ["--interface", interface, "--multicast-address", f"239.192.137.1:{random.choice(PORTS)}"]
    command += ["--network-id", str(random.randrange(1, 65_536)), "--topic", TOPIC]
    command += ["--rate", str(RATE), "--count", str(COUNT), "--wait-for", str(len(NAMES) - 1)]
    command += ["--duration", str(TIME_LIMIT + GRACE)]
    running: list[subprocess.Popen[str]] = []
    try:
        for name in NAMES:
            # A process group of its own: Ctrl-C reaches only the demo, which then ends the process in good order.
            process = subprocess.Popen(
                [*command, "--endpoint-name", name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                process_group=0,
            )
            running.append(process)
            threading.Thread(target=read, args=(name, process, lines), daemon=True).start()
        yield
    finally:
        end(running)


def read(name: str, process: subprocess.Popen[str], lines: queue.SimpleQueue[tuple[str, OutputLine]]) -> None:
    """Put each line of a process into `lines`. A line that is not JSON becomes a complaint."""
    assert process.stdout is not None
    for line in process.stdout:
        try:
            event = json.loads(line)
        except ValueError:
            event = {"event": "complaint", "text": line.strip()}
        lines.put((name, event))
    lines.put((name, {"event": "ended"}))


def end(running: list[subprocess.Popen[str]]) -> None:
    """Let the processes say goodbye, and kill those that take too long."""
    for process in running:
        process.send_signal(signal.SIGINT)
    for process in running:
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def news(lines: queue.SimpleQueue[tuple[str, OutputLine]]) -> Iterator[tuple[str, OutputLine]]:
    """Yield the output that was not read yet; waits `REDRAW_INTERVAL` for it."""
    try:
        yield lines.get(timeout=REDRAW_INTERVAL)
        while True:
            yield lines.get_nowait()
    except queue.Empty:
        return


def report(received: ReceptionTable, output: CommandOutput) -> int:
    """Report the result; returns the exit code."""
    total = len(NAMES) ** 2 * COUNT
    if received.complete:
        text = f"each of {len(NAMES)} endpoints received all {len(NAMES) * COUNT} messages once, in order, without gaps"
    else:
        text = f"only {received.good} of {total} messages were received in order"
    style = "green" if received.complete else "red"
    output.event(
        "result", output.style(style, text), complete=received.complete, received=received.good, expected=total
    )
    return common.SUCCESS if received.complete else common.FAILURE


class ReceptionTable:
    """The messages that each endpoint received from each, and whether they came in order."""

    def __init__(self) -> None:
        self._counts = {(listener, publisher): 0 for listener in NAMES for publisher in NAMES}
        self._last = dict.fromkeys(NAMES, "")
        self._flawed: set[tuple[str, str]] = set()
        self.over = False
        """Whether a process has ended, so that no more messages will come."""

    def add(self, listener: str, event: OutputLine) -> None:
        """Take one line of a process."""
        if event.get("event") == "message" and (listener, event["publisher"]) in self._counts:
            pair = listener, event["publisher"]
            self._counts[pair] += 1
            self._last[listener] = payload_text(event["payload"])
            if event["sequence"] != self._counts[pair]:
                self._flawed.add(pair)
        elif event.get("event") == "complaint":
            self._last[listener] = printable(event["text"])
        elif event.get("event") == "ended":
            self.over = True

    @property
    def good(self) -> int:
        """Count the messages of pairs without a missing, repeated or misplaced message."""
        return sum(count for pair, count in self._counts.items() if pair not in self._flawed)

    @property
    def complete(self) -> bool:
        """Whether each endpoint received all messages of all, once and in order."""
        return not self._flawed and all(count == COUNT for count in self._counts.values())

    def rows(self) -> list[list[str]]:
        """Return a row for each listener: messages of each publisher, with "!" where the order is broken."""
        head = ["received by", *(f"from {name}" for name in NAMES), "last received"]
        return [head, *([name, *(self._cell(name, other) for other in NAMES), self._last[name]] for name in NAMES)]

    def _cell(self, listener: str, publisher: str) -> str:
        count = self._counts[listener, publisher]
        return f"{count} !" if (listener, publisher) in self._flawed else str(count)

    def total(self, listener: str) -> int:
        """Return the number of messages that a listener received."""
        return sum(count for (who, _), count in self._counts.items() if who == listener)


class Screen:
    """Shows the counts: on a terminal a table redrawn in place, elsewhere a line a second and a table at the end."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._start = time.monotonic()
        self._next = 0.0
        self._drawn = 0

    def draw(self, received: ReceptionTable) -> None:
        """Show the present counts, if it is time to."""
        elapsed = time.monotonic() - self._start
        if self._output.json or elapsed < self._next:
            return
        if self._output.interactive:
            self._next = elapsed + REDRAW_INTERVAL
            self._redraw(received)
        else:
            self._next = elapsed + 1.0
            totals = "  ".join(f"{name} {received.total(name)}" for name in NAMES)
            self._output.write(f"{elapsed:3.0f} s  messages received by  {totals}\n")

    def finish(self, received: ReceptionTable) -> None:
        """Show the last counts."""
        if not self._output.json:
            self._redraw(received)

    def _redraw(self, received: ReceptionTable) -> None:
        if not self._output.interactive:
            self._output.write("\n".join(["", *table(received.rows()), "", ""]))
            return
        width = shutil.get_terminal_size().columns
        head, *lines = [line[: width - 1] for line in table(received.rows())]
        upwards = f"\x1b[{self._drawn}A" if self._drawn else ""
        shown = [self._output.style("bold", head), *lines, ""]
        self._output.write(upwards + "".join(f"{line}\x1b[K\n" for line in shown))
        self._drawn = len(shown)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
