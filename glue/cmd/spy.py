"""`glue spy`: all topics of the network, live, without any effect on the endpoints that publish and subscribe.

With the extra `tui`, in a terminal, it is a tree to walk through (`spy_app.py`). Otherwise it prints a line for each
topic that has changed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from glue.cmd import common
from glue.cmd.facts import percent
from glue.cmd.output import CommandOutput, printable
from glue.cmd.session import open_endpoint
from glue.cmd.watching import Watch, publishers_of, shown_value, some, topic_fields
from glue.spying.bus import Topic
from glue.spying.plot import number_text
from glue.spying.tree import fits
from glue.topics import check_pattern

LINES = 1000
"""Topics that are printed at once, unless `--lines` says so."""
MISSING = "glue spy shows lines; for the tree: pip install 'glue-lan[tui]'"
"""What is said in a terminal without textual."""

EXAMPLES = """examples:
  glue spy                            all topics as a tree (q ends)
  glue spy 'home/#' --plain           a line a second for each topic that changed
  glue spy --json --duration 5        the same for programs, for five seconds
"""


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser(
        "spy", "Show all topics, live: last value, type, rate, size, publishers, subscribers, loss.", EXAMPLES
    )
    made.add_argument("pattern", nargs="?", default="#", metavar="PATTERN", help="only these topics (default: #)")
    group = made.add_argument_group("showing")
    group.add_argument("--plain", action="store_true", help="print lines, also in a terminal")
    group.add_argument("--every", type=interval, default=1.0, metavar="SECONDS", help="between two samples (default 1)")
    group.add_argument(
        "--filter", default="", metavar="TEXT", help="show only topics with this text, or of this pattern"
    )
    group.add_argument(
        "--lines", type=common.count, default=LINES, metavar="N", help="most lines at once (default 1000)"
    )
    return made


def interval(text: str) -> float:
    """Parse seconds between two samples."""
    seconds = common.positive_number(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text}: expected 0.1 to 3600 seconds")
    return seconds


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Watch until the command ends."""
    check_pattern(arguments.pattern)
    has_textual = find_spec("textual") is not None
    is_terminal = output.interactive and sys.stdin.isatty() and sys.stderr.isatty()  # textual draws on stderr
    with open_endpoint(arguments, output, quiet=True) as endpoint:
        watch = Watch(endpoint, arguments.pattern, arguments.every)
        if is_terminal and has_textual and not arguments.plain:
            from glue.cmd.spy_app import SpyApp

            with common.until_ended(arguments.duration):
                SpyApp(watch, arguments.filter).run()
        else:
            if is_terminal and not has_textual and not arguments.plain:
                print(MISSING, file=sys.stderr)
            print_lines(watch, arguments, output)
    return common.SUCCESS


def print_lines(watch: Watch, arguments: argparse.Namespace, output: CommandOutput) -> None:
    """Print topics as they change, and sums at the end."""
    shows = fits(arguments.filter) if arguments.filter else None
    with common.until_ended(arguments.duration):
        for _ in common.paced(1 / arguments.every, None):
            watch.look()
            report(watch, arguments.lines, output, shows)
    report(watch, arguments.lines, output, shows)
    bus = watch.bus
    text = f"{len(bus.topics):,} topics in {bus.samples:,} samples"
    if bus.left_out:
        text += f"; {bus.left_out:,} samples of further topics are left out"
    output.event(
        "summary", output.style("dim", text), topics=len(bus.topics), samples=bus.samples, left_out=bus.left_out
    )


def report(watch: Watch, most: int, output: CommandOutput, shows: Callable[[str], bool] | None = None) -> None:
    """Print the topics that have changed since they were printed, `most` of them."""
    now = time.monotonic()
    with watch.lock:
        changed = watch.bus.take_changed(most)
        if shows is not None:
            changed = [topic for topic in changed if shows(topic.name)]
        if output.json:
            found = [topic_fields(topic, watch, now) for topic in changed]
        else:
            lines = [line_of(topic, watch, now) for topic in changed]
    if output.json:
        for one in found:
            output.event("topic", None, **one)
    elif lines:
        output.write("\n".join(lines) + "\n")


def line_of(topic: Topic, watch: Watch, now: float) -> str:
    """A topic for people."""
    rate = f"{number_text(topic.rate_at(now))}/s" if topic.is_rate_known else "-"
    kind = watch.roles.type_of(topic.name) or topic.type
    publishers, subscribers = publishers_of(topic, watch.roles), watch.roles.names(topic.name, "subscriber")
    loss = watch.losses.worst(publishers, subscribers)
    mark = "  (retained)" if topic.retained else ""
    if loss:
        mark += f"  ({percent(loss)} lost)"
    value = shown_value(topic, 60)
    names = printable(f"{some(publishers)} → {some(subscribers) or 'nobody'}")
    about = f"{rate:>8} {topic.size:>7,} B  {printable(kind, 16):8}"
    return f"{printable(topic.name):32} {about} {value}  {names}{mark}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
