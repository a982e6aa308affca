"""`glue key`: make the key of a group, and show what a key file holds without its secrets."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import glue
from glue.cmd import common
from glue.cmd.output import CommandOutput
from glue.endpoint.secrets import fastest_suite, read_key, write_secret
from glue.errors import ConfigurationError
from glue.security import new_key, rotated
from glue.security.key import LONGEST, OVERLAP
from glue.security.suites import require

EPILOG = """\
examples:
  glue key new plant.key               make the key of a new group; copy the file to each endpoint
  GLUE_KEY=plant.key glue endpoint     use it, as Endpoint(key="plant.key") and --key plant.key do
  glue key rotate plant.key            begin another epoch; the running members take it, and write their files
  glue key show plant.key              show what it holds; its secret is never shown

Anyone with the file is a member. See docs/security.md for what that protects against, and what not.
"""


TELLING = 5.0
"""Seconds that `rotate` passes the new epoch on, at most."""


def parser() -> common.Parser:
    """Return the parser."""
    made = common.Parser(
        prog="glue key",
        description="Make and look after the key of a group.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, run, help in ACTIONS:
        action = actions.add_parser(name, help=help, description=help.capitalize() + ".")
        action.add_argument("file", metavar="FILE", help="the key file")
        if name == "rotate":
            add_rotation(action)
        action.add_argument("--json", action="store_true", help="print one JSON object a line")
        action.set_defaults(run=run)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), lambda arguments, output: arguments.run(arguments, output), argv)


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


def add_rotation(action: argparse.ArgumentParser) -> None:
    """Add the options of `rotate`."""
    action.add_argument(
        "--leaked", action="store_true", help="do not pass it on by the network, as a thief would get it: copy the file"
    )
    action.add_argument(
        "--overlap",
        type=common.positive_number,
        metavar="SECONDS",
        default=OVERLAP,
        help="how long the epoch before stays valid (default 60)",
    )
    action.add_argument("--duration", type=common.positive_number, metavar="SECONDS", default=TELLING)
    action.add_argument("--interface", metavar="NAME")
    action.add_argument("--multicast-address", metavar="GROUP:PORT")
    action.add_argument("--network-id", type=int, metavar="NUMBER")


def rotate(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Begin another epoch of a key, and pass it on to the members."""
    require()
    key = rotated(read_key(arguments.file), os.urandom, arguments.overlap, not arguments.leaked)
    if arguments.overlap > LONGEST:
        raise ConfigurationError(f"--overlap {arguments.overlap}: expected at most {LONGEST:.0f} seconds")
    write_secret(arguments.file, key.to_text(), replace=True)
    output.event("epoch", key.newest.described(), epoch=key.newest.number, id=f"{key.newest.id:02x}")
    if arguments.leaked:
        text = (
            f"copy {arguments.file} to each endpoint within {arguments.overlap:.0f} s; running endpoints read it anew"
        )
        output.event("copy", text, file=arguments.file, seconds=arguments.overlap)
        return common.SUCCESS
    settings = {name: getattr(arguments, name) for name in ("interface", "multicast_address", "network_id")}
    with glue.Endpoint(key=arguments.file, **settings) as endpoint:
        driver = endpoint._running()
        common.wait_for(lambda seconds: driver.wait_until(lambda: is_known(endpoint), seconds), arguments.duration)
        have, all_ = members(endpoint)
    output.event("members", f"{have} of {all_} members have it", members=all_, informed=have)
    return common.SUCCESS if have == all_ else common.FAILURE


def members(endpoint: glue.Endpoint) -> tuple[int, int]:
    """Return how many members have the newest epoch, and how many there are."""
    security = endpoint._core.security
    lives = security.lives.fresh
    return sum(life.newest >= security.key.newest.number for life in lives), len(lives)


def is_known(endpoint: glue.Endpoint) -> bool:
    """Whether all members, of which there is one, have the newest epoch."""
    have, all_ = members(endpoint)
    return 0 < have == all_


ACTIONS = (
    ("new", new, "make the key of a new group"),
    ("rotate", rotate, "begin another epoch of a key, and pass it on to the members"),
    ("show", show, "show what a key file holds, without its secrets"),
)
