"""`glue top`: the rate of each endpoint and the loss of each pair, each second.

    glue top                     all endpoints, those that send most first, until Ctrl-C
    glue top --count 1           one table, then the end
    glue top --json              for programs, an event for each endpoint and each pair

Each endpoint is asked for its counters once an interval. Loss is the share of the latest reliable frames to that
receiver, as the sender's congestion control measures it. Endpoints with `doctor=False` do not answer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import glue
from glue.cmd import common
from glue.cmd.facts import MATRIX, NAME, matrix, percent
from glue.cmd.output import CommandOutput, printable, table
from glue.cmd.session import open_endpoint
from glue.endpoint.activity import COUNTERS
from glue.endpoint.facts import Path, number, paths_of
from glue.endpoint.inquiring import Answered
from glue.sync.examining import ask_all

FIND = 1.2
"""Seconds until all endpoints have been heard."""
CLEAR = "\x1b[H\x1b[2J"


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("top", "Show who sends how much, and what is lost.", epilog=__doc__.split("\n", 2)[2])
    made.add_argument(
        "--interval", type=common.positive_number, default=1.0, metavar="SECONDS",
        help="from one table to the next (default: %(default)g, the least)",
    )  # fmt: skip
    made.add_argument("--count", type=common.count, metavar="N", help="end after so many tables")
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Ask again and again."""
    interval, shown = max(1.0, arguments.interval), 0
    with open_endpoint(arguments, output, quiet=True) as endpoint, common.until_ended(arguments.duration):
        with output.progress("looking for endpoints", FIND):
            common.pause(FIND)
        at, before = time.monotonic(), look(endpoint)
        while arguments.count is None or shown < arguments.count:
            common.pause(interval)
            now, found = time.monotonic(), look(endpoint)
            show(output, before, found, now - at)
            at, before = now, found
            shown += 1
    return common.SUCCESS if shown else common.ended_early("top")


def look(endpoint: glue.Endpoint) -> dict[str, Answered]:
    """Return what the endpoints tell now, by id."""
    return {one.id: one for one in ask_all(endpoint, ["activity"], timeout=0.5)}


def show(output: CommandOutput, before: dict[str, Answered], found: dict[str, Answered], seconds: float) -> None:
    """Print the rates between two looks, and the matrix of losses."""
    rates = {
        id: rates_of(before[id].sections["activity"], one.sections["activity"], seconds)
        for id, one in found.items() if id in before
    }  # fmt: skip
    ids = sorted(rates, key=lambda id: (-rates[id]["sent_bytes"], found[id].name))
    rows = [["endpoint", "published/s", "sent/s", "kB/s", "heard/s", "received/s", "kB/s in", "lost/s", "waiting"]]
    for id in ids:
        rate, waiting = rates[id], int(number(found[id].sections["activity"], "waiting"))
        output.event(
            "activity", None, name=found[id].name, id=id, waiting=waiting,
            **{name: round(value, 1) for name, value in rate.items()},
        )  # fmt: skip
        rows.append([
            printable(found[id].name, NAME), *(f"{rate[name]:,.0f}" for name in ("published", "sent")),
            f"{rate['sent_bytes'] / 1e3:,.0f}", *(f"{rate[name]:,.0f}" for name in ("heard", "received")),
            f"{rate['received_bytes'] / 1e3:,.0f}", f"{rate['lost']:,.0f}", f"{waiting:,}",
        ])  # fmt: skip
    paths = {(id, path.receiver): path for id in ids for path in paths_of(id, found[id].sections["activity"])}
    for path in paths.values():
        output.event("path", None, **path._asdict())
    lines = table(rows) if ids else ["no endpoint answers; those with doctor=False never do"]
    if any(path.loss is not None for path in paths.values()):
        lines += ["", *losses(ids[:MATRIX], found, paths)]
    screen = (CLEAR if output.interactive else "") + "\n".join(lines) + "\n"
    output.event("summary", screen, endpoints=len(ids), seconds=round(seconds, 3))


def losses(ids: list[str], found: dict[str, Answered], paths: dict[tuple[str, str], Path]) -> list[str]:
    """Return the lines of the matrix of losses."""
    names = {id: found[id].name for id in ids}
    lines = matrix(names, lambda *pair: paths[pair].loss if pair in paths else None)
    worst = max(path.loss or 0.0 for path in paths.values())
    return [f"reliable frames lost lately, at worst {percent(worst)}", *lines]


def rates_of(before: Any, now: Any, seconds: float) -> dict[str, float]:
    """Return the growth of each counter, per second; 0.0 after a restart of the endpoint."""
    return {name: max(0.0, number(now, name) - number(before, name)) / seconds for name in COUNTERS}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
