"""`glue doctor`: why does A not hear B? One sentence with its cure, in at most five seconds."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from glue.cmd import common
from glue.cmd.output import CommandOutput, printable
from glue.doctor import FAULT, NOTE, Diagnosis, MachineSeen, Seen, diagnose
from glue.errors import ConfigurationError
from glue.observing import Observer

LOOK = 4.0
"""Seconds that a look takes, for the progress that is shown meanwhile."""
WIDTH = 100

EXAMPLES = """examples:
  glue doctor                         look at this machine and all endpoints of the network
  glue doctor --peer 10.0.0.5         also at an endpoint that multicast does not reach
  glue doctor --json                  for programs
  glue doctor --save seen.json        keep what was seen, for a report of a problem
  glue doctor --judge seen.json       judge it again, anywhere

exit code: 0 nothing is wrong, 1 something is, 2 the command was called wrongly
"""


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser(
        "doctor", "Find out why endpoints do not hear each other: one sentence, its cure, and the details.", EXAMPLES
    )
    group = made.add_argument_group("diagnosis")
    group.add_argument("--save", metavar="FILE", help="write what was seen to a file, as JSON")
    group.add_argument("--judge", metavar="FILE", help="look at nothing, but judge what was saved")
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Look, judge and tell."""
    if arguments.judge is not None:
        seen = _read(arguments.judge)
    else:
        observer = Observer(common.settings_from(arguments), common.pause)
        try:
            with output.progress("looking", LOOK):
                seen = observer.look()
        except common.Ended:
            return common.ended_early("doctor")
    if arguments.save is not None:
        Path(arguments.save).write_text(json.dumps(seen.as_dict(), indent=1) + "\n")
    diagnosis = diagnose(seen)
    tell(output, seen, diagnosis)
    return common.SUCCESS if diagnosis.is_healthy else common.FAILURE


def _read(file: str) -> Seen:
    try:
        return Seen.from_dict(json.loads(Path(file).read_text()))
    except (ValueError, TypeError, AttributeError, KeyError):
        raise ConfigurationError(f"--judge {file}: this is no file that `glue doctor --save` wrote") from None


def tell(output: CommandOutput, seen: Seen, diagnosis: Diagnosis) -> None:
    """Print the verdict, its cure, and what else was found."""
    colour = "green" if diagnosis.is_healthy else "red" if diagnosis.findings[0].level == FAULT else "yellow"
    lines = [output.style(colour, _wrapped(printable(diagnosis.verdict, 1000)))]
    if diagnosis.cure:
        lines.append(_wrapped(f"Cure: {printable(diagnosis.cure, 1000)}"))
    output.event(
        "verdict",
        "\n".join(lines),
        rule="" if diagnosis.is_healthy else diagnosis.findings[0].rule,
        verdict=diagnosis.verdict,
        cure=diagnosis.cure,
        healthy=diagnosis.is_healthy,
        seconds=seen.seconds,
    )
    headed = False
    for finding in diagnosis.findings if diagnosis.is_healthy else diagnosis.findings[1:]:
        text = _wrapped(f"{finding.level + ':':8} {printable(finding.verdict, 1000)}", "         ")
        if finding.level != NOTE:
            text += "\n" + _wrapped(f"         cure: {printable(finding.cure, 1000)}", "         ")
        text = text if headed else f"\nalso found\n{text}"
        headed = True
        output.event("finding", output.style("dim", text), **asdict(finding))
    if not diagnosis.is_healthy:
        output.event("finding", None, **asdict(diagnosis.findings[0]))
    tell_details(output, seen)


def _why(machine: MachineSeen) -> str:
    """Return the reason for the choice of the interface, without the name and address with which it begins."""
    why = machine.reason.removeprefix(machine.chosen or "")
    return why.partition(")")[2] if why.startswith(" (") else why


def tell_details(output: CommandOutput, seen: Seen) -> None:
    """Print the machine, the endpoints, and the ways between them."""
    machine = seen.machine
    shown = machine.interface(machine.chosen)
    addresses = f" ({', '.join((*shown.ipv4, *shown.ipv6)[:2])})" if shown is not None else ""
    output.event(
        "machine",
        output.style("dim", f"\n{machine.host}: interface {machine.chosen or 'none'}{addresses}{_why(machine)}"),
        host=machine.host,
        interface=machine.chosen,
        reason=machine.reason,
    )
    for one in seen.others:
        told = f"glue {one.version}, {one.interface}, MTU {one.mtu}" if one.answered else "no answer"
        text = f"  {printable(one.name, 24):24} {one.address:16} {printable(told, 60)}"
        output.event(
            "endpoint",
            output.style("dim", text),
            name=one.name,
            id=one.id,
            address=one.address,
            answered=one.answered,
            version=one.version,
            interface=one.interface,
        )
    for one in seen.endpoints:
        for path in one.paths:
            state = "carries its data" if path.carries else "in reserve" if path.answers else "silent"
            text = f"  {printable(one.name, 24)} to {printable(path.peer, 24)} by {path.link}: {state}"
            text += f", {1000 * path.round_trip:.1f} ms, {path.loss:.0%} loss" if path.answers else ""
            output.event("path", output.style("dim", text), name=one.name, id=one.id, **asdict(path))
    for way in seen.ways:
        output.event("way", None, **asdict(way))


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
