"""`glue`: all commands under one name, such as `glue topics`. Only the module of the command that runs is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from glue.cmd.common import SUCCESS, USAGE, prepare_streams
from glue.contract.near import SHORT, near

GROUPS = {
    "try it": ("demo", "topics", "endpoint"),
    "talk": ("request", "receivers", "model", "mqtt", "http"),
    "look at the network": ("doctor", "spy", "peers", "top"),
    "look at the layers": ("network", "discovery", "transport", "fragmentation"),
    "remember": ("keep", "history", "consumers"),
    "record and repeat": ("record", "play", "simulate"),
    "set up": ("key", "completion"),
}

COMMANDS = {
    "model": "share state that a majority of terminals keeps",
    "topics": "show the messages of a topic, and publish to it",
    "endpoint": "subscribe and publish from a shell",
    "request": "ask the endpoints that answer a topic",
    "receivers": "list receivers and their hosts, or ask one",
    "keep": "keep topics on a disk, also for others",
    "history": "show what is remembered of some topics",
    "consumers": "list durable consumers, or move one",
    "mqtt": "a door for MQTT clients",
    "http": "a door for HTTP: curl, browsers, webhooks, and a page",
    "spy": "show all topics live: last value, rate, who publishes and subscribes",
    "peers": "list the endpoints, and how well they hear each other",
    "top": "show who sends how much, and what is lost",
    "doctor": "find out why A does not hear B: one sentence and its cure",
    "discovery": "show the endpoints on the network as they come and go",
    "network": "list the interfaces and the choice; send and show bare datagrams",
    "transport": "deliver many small messages in order, and show what that took",
    "fragmentation": "deliver messages larger than a datagram, and check that they are whole",
    "record": "record what passes an interface, for the analysis with Spark",
    "play": "publish the messages of a recorded trace again, timed as they were",
    "key": "make the key that makes a group private",
    "simulate": "run a layer in virtual time under faults drawn from seeds",
    "demo": "four endpoints in four processes share a topic, shown live",
    "completion": "print what a shell needs to complete commands and options",
}

FIRST = """glue shares data by topic between programs on one LAN: no broker, no addresses, no ports.

Try this first:

  glue demo                                        four endpoints in four processes, live
  glue endpoint --subscribe 'home/#'               in one terminal, and in another one:
  glue endpoint --publish home/kitchen/lamp on
  glue network                                     the interfaces, the one that glue chooses, and why

glue --help lists all commands."""


def _group(title: str, names: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {name:14} {COMMANDS[name]}" for name in names), ""]


HELP = "\n".join(
    [
        "usage: glue COMMAND [OPTIONS]",
        "",
        "Share data by topic between programs on one LAN: no broker, no addresses, no ports.",
        "",
        *(line for group, names in GROUPS.items() for line in _group(group, names)),
        "examples:",
        "  glue topics --interface en0 --send-messages",
        "  glue endpoint --subscribe 'home/#' --json",
        "  glue request light/kitchen/set '{\"on\": true}'",
        "",
        "glue COMMAND --help tells more; glue --version names the version.",
    ]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names; returns its exit code."""
    prepare_streams()
    words = sys.argv[1:] if argv is None else argv
    if not words:
        print(FIRST)
        return SUCCESS
    name, *rest = words
    if name in COMMANDS:
        try:
            code: int = import_module(f"glue.cmd.{name}").main(rest)
        except KeyboardInterrupt:  # the command had not begun yet; from then on it handles signals itself
            code = SUCCESS
        return code
    if name in ("--help", "-h", "help"):
        print(HELP)
        return SUCCESS
    if name in ("--version", "-V"):
        print("glue", import_module("glue").__version__)
        return SUCCESS
    meant = near(name, COMMANDS, SHORT) or f"; there are {', '.join(COMMANDS)}"
    print(f"glue: no command {name!r}{meant}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
