"""`glue key`: make the key of a group, and show what a key file holds without its secrets."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import suppress

import glue
from glue.capture.opened import opened_copy
from glue.cmd import admitting, common
from glue.cmd.output import CommandOutput
from glue.endpoint.secrets import fastest_suite, read_key, read_secret, write_secret
from glue.errors import ConfigurationError
from glue.security import granted, new_key, rotated
from glue.security.identity import read_authority
from glue.security.key import LONGEST, OVERLAP, Key
from glue.security.suites import require

EPILOG = """\
examples:
  glue key new plant.key               make the key of a new group; copy the file to each endpoint
  GLUE_KEY=plant.key glue endpoint     use it, as Endpoint(key="plant.key") and --key plant.key do
  glue key rotate plant.key            begin another epoch; the running members take it, and write their files
  glue key show plant.key              show what it holds; its secret is never shown

Anyone with the file is a member. See docs/security.md for what that protects against, and what not.
"""


FILES = {
    "admit": "the identity file",
    "authority": "the authority's file",
    "open": "the capture",
    "rules": "the rules, as a JSON list",
}

TELLING = 5.0
"""Seconds that `rotate` passes the new epoch on, at most."""
ANNOUNCED = 1.2
"""Seconds after which all members have announced themselves, so that `rotate` knows how many there are."""


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
        if name == "identity":
            action.add_argument("name", metavar="NAME", help="the endpoint's name")
            action.add_argument("file", metavar="FILE", nargs="?", help="the identity file (default: NAME.identity)")
        elif name == "explain":
            admitting.add_question(action)
        else:
            action.add_argument("file", metavar="FILE", help=FILES.get(name, "the key file"))
        if name == "authority":
            action.add_argument("--key", metavar="FILE", help="the key whose members need identities from now on")
        if name == "rules":
            action.add_argument("--authority", metavar="FILE", required=True, help="the authority's file")
            action.add_argument("--output", metavar="FILE", default="plant.rules", help="default plant.rules")
        if name == "open":
            action.add_argument("--key", metavar="FILE", required=True, help="the key file")
            action.add_argument("--output", metavar="FILE", required=True, help="the copy, as pcapng; not sealed")
        if name == "admit":
            admitting.add_rights(action)
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
    admitting.create(arguments.file, key.to_text())
    text = f"{arguments.file}: {key.newest.described()}; copy it to each endpoint, and keep it secret"
    output.event("key", text, file=arguments.file, epoch=key.newest.number, id=f"{key.newest.id:02x}")
    return common.SUCCESS


def show(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Show what the file of a key, an identity or an authority holds, without secrets."""
    require()
    if admitting.show_member(arguments.file, output):
        return common.SUCCESS
    key = read_key(arguments.file)
    for epoch in key.epochs:
        output.event("epoch", epoch.described(), epoch=epoch.number, id=f"{epoch.id:02x}")
    if key.revoked:
        output.event("revoked", f"revoked: {', '.join(key.revoked)}", names=list(key.revoked))
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
    action.add_argument("--authority", metavar="FILE", help="the authority's file, where members have identities")
    action.add_argument("--without", metavar="NAME", nargs="+", default=[], help="identities that are members no more")
    action.add_argument("--identity", metavar="FILE", help="the identity to pass it on with")
    action.add_argument("--duration", type=common.positive_number, metavar="SECONDS", default=TELLING)
    action.add_argument("--interface", metavar="NAME")
    action.add_argument("--multicast-address", metavar="GROUP:PORT")
    action.add_argument("--network-id", type=int, metavar="NUMBER")


def rotate(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Begin another epoch of a key, and pass it on to the members."""
    require()
    key = rotated(read_key(arguments.file), os.urandom, arguments.overlap, not arguments.leaked, time.time())
    if arguments.authority is not None:
        secret = read_authority(read_secret(arguments.authority, "authority"), arguments.authority)
        key = granted(key, secret, arguments.without)
    elif key.authority is not None or arguments.without:
        raise ConfigurationError("members of this key have identities, so --authority has to sign the new epoch")
    if arguments.overlap > LONGEST:
        raise ConfigurationError(f"--overlap {arguments.overlap}: expected at most {LONGEST:.0f} seconds")
    if arguments.leaked:
        write(arguments, key, output)
        text = (
            f"copy {arguments.file} to each endpoint within {arguments.overlap:.0f} s; running endpoints read it anew"
        )
        output.event("copy", text, file=arguments.file, seconds=arguments.overlap)
        return common.SUCCESS
    settings = {name: getattr(arguments, name) for name in ("interface", "multicast_address", "network_id")}
    # it joins with the former key: if it cannot, the file stays as it is, as members take the next epoch alone
    with glue.Endpoint(key=arguments.file, identity=arguments.identity, **settings) as endpoint:
        write(arguments, key, output)
        driver, epoch = endpoint._running(), key.newest.number
        with common.until_ended(None):  # a signal ends the wait; the members are counted all the same
            common.pause(min(ANNOUNCED, arguments.duration))
            common.wait_for(
                lambda seconds: driver.wait_until(lambda: is_known(endpoint, epoch), seconds),
                arguments.duration - ANNOUNCED,
            )
        have, all_ = members(endpoint, epoch)
    output.event("members", f"{have} of {all_} members have it", members=all_, informed=have)
    return common.SUCCESS if have == all_ else common.FAILURE


def write(arguments: argparse.Namespace, key: Key, output: CommandOutput) -> None:
    """Write a key with a new epoch."""
    write_secret(arguments.file, key.to_text(), replaces=True)
    output.event("epoch", key.newest.described(), epoch=key.newest.number, id=f"{key.newest.id:02x}")


def members(endpoint: glue.Endpoint, epoch: int) -> tuple[int, int]:
    """Return how many members have an epoch, and how many there are."""
    lives = endpoint._core.security.lives.fresh
    return sum(life.newest >= epoch for life in lives), len(lives)


def is_known(endpoint: glue.Endpoint, epoch: int) -> bool:
    """Whether this endpoint has taken an epoch from its file, and all members, of which there is one, have it."""
    have, all_ = members(endpoint, epoch)
    return bool(endpoint._core.security.key.newest.number >= epoch) and 0 < have == all_


def open_capture(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Copy a capture with its sealed datagrams opened, for play, spark.analyze and Wireshark."""
    require()
    with suppress(FileNotFoundError):
        if os.path.samefile(arguments.file, arguments.output):
            raise ConfigurationError(f"--output {arguments.output}: this is the capture itself; name another file")
    with output.progress("copying") as progress:
        counted = opened_copy(
            arguments.file, arguments.output, read_key(arguments.key), lambda share: progress.tell("", share)
        )
    text = f"{arguments.output}: " + ", ".join(f"{count} frames {what}" for what, count in sorted(counted.items()))
    if not counted["opened"]:
        text += (
            f"; {arguments.key} opens none of those that are sealed" if counted["still sealed"] else "; none is sealed"
        )
    output.event("opened", text, file=arguments.output, frames=dict(counted))
    return common.SUCCESS if counted["opened"] else common.FAILURE


ACTIONS = (
    ("new", new, "make the key of a new group"),
    ("authority", admitting.authority, "make an authority, which admits members by name"),
    ("identity", admitting.identity, "make the identity of an endpoint"),
    ("admit", admitting.admit, "sign an identity with the authority, with its rights"),
    ("rules", admitting.rules, "sign the rules of the group with the authority"),
    ("explain", admitting.explain_decision, "tell whether a member may do something, and by which rule"),
    ("open", open_capture, "copy a capture with its sealed datagrams opened"),
    ("rotate", rotate, "begin another epoch of a key, and pass it on to the members"),
    ("show", show, "show what a key file holds, without its secrets"),
)
