"""`glue key`: make the key of a group, and show what a key file holds without its secrets."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from glue.cmd import common
from glue.cmd.output import CommandOutput
from glue.endpoint.secrets import fastest_suite, read_key, write_secret
from glue.errors import ConfigurationError
from glue.security import new_key
from glue.security.suites import require

EPILOG = """\
examples:
  glue key new plant.key               make the key of a new group; copy the file to each endpoint
  GLUE_KEY=plant.key glue endpoint     use it, as Endpoint(key="plant.key") and --key plant.key do
  glue key show plant.key              show what it holds; its secret is never shown

Anyone with the file is a member. See docs/security.md for what that protects against, and what not.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = common.Parser(
        prog="glue key",
        description="Make and look after the key of a group.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, run, help in ACTIONS:
        action = actions.add_parser(name, help=help, description=help.capitalize() + ".")
        action.add_argument("file", metavar="FILE", help="the key file")
        action.add_argument("--json", action="store_true", help="print one JSON object a line")
        action.set_defaults(run=run)
    return common.execute(parser, lambda arguments, output: arguments.run(arguments, output), argv)


def new(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Make the key of a new group."""
    require()
    key = new_key(os.urandom)
    try:
        write_secret(arguments.file, key.to_text())
    except FileExistsError:
        raise ConfigurationError(f"{arguments.file} exists; a new key does not replace it") from None
    text = f"{arguments.file}: {key.newest.described()}; copy it to each endpoint, and keep it secret"
    output.event("key", text, file=arguments.file, epoch=key.newest.number, id=f"{key.newest.id:02x}")
    return common.SUCCESS


def show(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Show what a key file holds, without secrets."""
    require()
    key = read_key(arguments.file)
    for epoch in key.epochs:
        output.event("epoch", epoch.described(), epoch=epoch.number, id=f"{epoch.id:02x}")
    suite = fastest_suite().name
    output.event("cipher", f"this machine seals with {suite}, the faster one here", cipher=suite)
    return common.SUCCESS


ACTIONS = (
    ("new", new, "make the key of a new group"),
    ("show", show, "show what a key file holds, without its secrets"),
)
