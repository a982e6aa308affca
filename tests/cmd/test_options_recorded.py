"""The options of every command are those written down: words, defaults, choices and what is said of them.

A change that is meant is taken over by `pytest tests/cmd --rewrite`, and read in the diff.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

import pytest

from glue.cmd.main import COMMANDS as COMMANDS_OF_GLUE

COMMANDS = (
    *(f"glue.cmd.{name}" for name in sorted(COMMANDS_OF_GLUE)),
    "spark.analyze.__main__",
    "spark.live.__main__",
    "spark.replay.__main__",
    "spark.convert",
)
RECORD = Path(__file__).parent / "options.txt"


def told(command: str) -> list[str]:
    """A line for each option; how argparse lays them out differs from Python to Python."""
    return told_of(import_module(command).parser())


def told_of(parser: argparse.ArgumentParser) -> list[str]:
    """The lines of a parser, and of those of its actions."""
    lines = ["", f"{parser.prog}: {parser.description}"]
    for action in parser._actions:
        facts = [type(action).__name__.strip("_"), f"default {action.default!r}"]
        facts += [f"{name} {value!r}" for name in ("nargs", "const") if (value := getattr(action, name)) is not None]
        facts += [f"choices {', '.join(map(str, action.choices))}"] if action.choices is not None else []
        facts += ["required"] if action.required else []
        names = ", ".join(action.option_strings) or action.dest
        words = (action.help or "") % {"default": action.default, "prog": parser.prog}
        lines.append(f"  {names} ({'; '.join(facts)}): {words}")
    lines += [f"  {'also' if parser.allow_abbrev else 'not'} abbreviated"]
    lines += [f"  | {line}".rstrip() for line in (parser.epilog or "").splitlines()]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines += [line for one in action.choices.values() for line in told_of(one)]
    return lines


def test_the_options_of_every_command(pytestconfig: pytest.Config) -> None:
    lines = [line for command in COMMANDS for line in told(command)]
    if pytestconfig.getoption("--rewrite"):
        RECORD.write_text("".join(f"{line}\n" for line in lines))
    assert lines == RECORD.read_text().splitlines()
