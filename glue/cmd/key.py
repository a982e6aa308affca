"""`glue key`: make the key of a group, and show what a key file holds without its secrets."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import orjson

import glue
from glue.capture.opened import opened_copy
from glue.cmd import common
from glue.cmd.output import CommandOutput
from glue.endpoint.secrets import fastest_suite, read_key, read_open, read_secret, write_secret
from glue.errors import ConfigurationError
from glue.security import MemberIdentity, granted, new_key, rotated
from glue.security.guard import POLICY_SIZE, Policy, explain
from glue.security.identity import PUBLIC_SIZE, Certificate, authority_text, public_of, read_authority
from glue.security.key import LONGEST, OVERLAP, Key
from glue.security.rules import ACTIONS as ACTION_NAMES
from glue.security.rules import Mark, Rule, read_policy
from glue.security.suites import require
from glue.topics import check_pattern

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

NAME_SIZE = 255
"""Bytes of the name of an endpoint."""

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
        if name == "identity":
            action.add_argument("name", metavar="NAME", help="the endpoint's name")
            action.add_argument("file", metavar="FILE", nargs="?", help="the identity file (default: NAME.identity)")
        elif name == "explain":
            add_question(action)
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
            add_rights(action)
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
    create(arguments.file, key.to_text())
    text = f"{arguments.file}: {key.newest.described()}; copy it to each endpoint, and keep it secret"
    output.event("key", text, file=arguments.file, epoch=key.newest.number, id=f"{key.newest.id:02x}")
    return common.SUCCESS


def show(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Show what the file of a key, an identity or an authority holds, without secrets."""
    require()
    if show_member(arguments.file, output):
        return common.SUCCESS
    key = read_key(arguments.file)
    for epoch in key.epochs:
        output.event("epoch", epoch.described(), epoch=epoch.number, id=f"{epoch.id:02x}")
    if key.revoked:
        output.event("revoked", f"revoked: {', '.join(key.revoked)}", names=list(key.revoked))
    suite = fastest_suite().name
    output.event("cipher", f"this machine seals with {suite}, the faster one here", cipher=suite)
    return common.SUCCESS


def show_member(file: str, output: CommandOutput) -> bool:
    """Show the file of an identity or an authority; whether it is one."""
    content = read_secret(file)
    try:
        kinds = set(orjson.loads(content))
    except (ValueError, TypeError):
        return False
    if "glue authority" in kinds:
        public = public_of(read_authority(content, file)).hex()
        output.event("authority", f"an authority, public key {public[:16]}…", public=public)
        return True
    if "glue identity" not in kinds:
        return False
    found = MemberIdentity.from_text(content, file)
    public, until, rules = public_of(found.secret).hex(), None, []
    text = f"identity of {found.name}, public key {public[:16]}…; "
    if found.certificate is None:
        text += "not admitted yet: glue key admit"
    else:
        until, rules = found.certificate.until, orjson.loads(found.certificate.document)["rules"]
        end = "for good" if until is None else time.strftime("until %Y-%m-%d %H:%M", time.localtime(until))
        text += f"admitted {end}; rights: {rights_of(rules)}"
    output.event("identity", text, name=found.name, public=public, until=until, rules=rules)
    return True


def rights_of(rules: list[dict[str, Any]]) -> str:
    """The rights of a certificate, as text."""
    return "; ".join(f"{' '.join(rule['may'])} {' '.join(rule['topics'])}" for rule in rules) or "none of its own"


def add_rights(action: argparse.ArgumentParser) -> None:
    """Add the options of `admit`."""
    action.add_argument("--authority", metavar="FILE", required=True, help="the authority's file")
    action.add_argument("--days", type=common.positive_number, metavar="NUMBER", help="end after so many days")
    for name in ACTION_NAMES:
        action.add_argument(f"--{name}", metavar="PATTERN", nargs="+", default=[], help=f"topics that it may {name}")


def add_question(action: argparse.ArgumentParser) -> None:
    """Add the arguments of `explain`."""
    action.add_argument("name", metavar="NAME", help="the member's name")
    action.add_argument("what", choices=ACTION_NAMES, metavar="ACTION", help=", ".join(ACTION_NAMES))
    action.add_argument("topic", metavar="TOPIC", help="a topic; to subscribe, also a pattern; a model's name")
    action.add_argument("--rules", metavar="FILE", default=os.environ.get("GLUE_POLICY"), help="the rules")
    action.add_argument("--identity", metavar="FILE", help="the member's identity, for the rights in its certificate")


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
        common.wait_for(
            lambda seconds: driver.wait_until(lambda: is_known(endpoint, epoch), seconds), arguments.duration
        )
        have, all_ = members(endpoint)
    output.event("members", f"{have} of {all_} members have it", members=all_, informed=have)
    return common.SUCCESS if have == all_ else common.FAILURE


def write(arguments: argparse.Namespace, key: Key, output: CommandOutput) -> None:
    """Write a key with a new epoch."""
    write_secret(arguments.file, key.to_text(), replaces=True)
    output.event("epoch", key.newest.described(), epoch=key.newest.number, id=f"{key.newest.id:02x}")


def members(endpoint: glue.Endpoint) -> tuple[int, int]:
    """Return how many members have the newest epoch, and how many there are."""
    security = endpoint._core.security
    lives = security.lives.fresh
    return sum(life.newest >= security.key.newest.number for life in lives), len(lives)


def is_known(endpoint: glue.Endpoint, epoch: int) -> bool:
    """Whether this endpoint has taken an epoch from its file, and all members, of which there is one, have it."""
    have, all_ = members(endpoint)
    return bool(endpoint._core.security.key.newest.number >= epoch) and 0 < have == all_


def authority(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Make an authority, which admits members by name; with --key, the members of that key need identities."""
    require()
    secret = os.urandom(PUBLIC_SIZE)
    key = None if arguments.key is None else replace(read_key(arguments.key), authority=public_of(secret))
    create(arguments.file, authority_text(secret))
    text = f"{arguments.file}: keep it off the endpoints; whoever has it admits members"
    if key is not None:
        write_secret(arguments.key, key.to_text(), replaces=True)
        text += f". Members of {arguments.key} need identities from now on"
    output.event("authority", text, file=arguments.file, key=arguments.key, public=public_of(secret).hex())
    return common.SUCCESS


def identity(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Make the identity of an endpoint, for the authority to admit."""
    require()
    if not 0 < len(arguments.name.encode(errors="replace")) <= NAME_SIZE or not arguments.name.isprintable():
        raise ConfigurationError(f"name {arguments.name!r:.80}: expected 1 to {NAME_SIZE} printable bytes")
    made = MemberIdentity(arguments.name, os.urandom(PUBLIC_SIZE))
    file = arguments.file or f"{arguments.name}.identity"
    create(file, made.to_text())
    public = public_of(made.secret).hex()
    text = f"{file}: {made.name}, public key {public[:16]}…; now: glue key admit {file} --authority FILE"
    output.event("identity", text, file=file, name=made.name, public=public)
    return common.SUCCESS


def admit(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Sign an identity with the authority, with the rights that it is to have."""
    require()
    secret = read_authority(read_secret(arguments.authority, "authority"), arguments.authority)
    before = MemberIdentity.from_text(read_secret(arguments.file, "identity"), arguments.file)
    until = None if arguments.days is None else time.time() + arguments.days * 86400
    rules: list[dict[str, Any]] = [
        {"may": [action], "topics": getattr(arguments, action)} for action in ACTION_NAMES if getattr(arguments, action)
    ]
    made = before.admitted(secret, until, rules)
    assert made.certificate is not None
    check_patterns([made.certificate.rules])
    write_secret(arguments.file, made.to_text(), replaces=True)
    rights = rights_of(rules)
    duration = "for good" if until is None else f"for {arguments.days:g} days"
    output.event(
        "admitted", f"{made.name} is admitted {duration}; rights: {rights}", name=made.name, until=until, rules=rules
    )
    return common.SUCCESS


def rules(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Sign rules with the authority, as a newer version of those in the output file."""
    secret = read_authority(read_secret(arguments.authority, "authority"), arguments.authority)
    text = read_open(arguments.file, POLICY_SIZE)
    before = None
    if os.path.exists(arguments.output):
        before = Policy.from_text(read_open(arguments.output, POLICY_SIZE), public_of(secret))
        if before is None:
            raise ConfigurationError(
                f"{arguments.output}: no rules of this authority, so the next version is unknown; name another --output"
            )
    try:
        made = Policy.make(secret, 1 + (before.version if before else 0), orjson.loads(text))
        check_patterns((made.rules, made.marks))
    except ValueError as error:
        raise ConfigurationError(f"{arguments.file}: {error}") from None
    write_secret(arguments.output, made.to_text(), replaces=True)
    output.event(
        "rules",
        f"{arguments.output}: version {made.version}, {len(made.rules)} rules; an endpoint that starts with this file "
        "(policy=, GLUE_POLICY or --policy) tells all others",
        file=arguments.output,
        version=made.version,
        rules=len(made.rules),
    )
    return common.SUCCESS


def explain_decision(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Tell whether a member may do something, and by which rule."""
    check_pattern(arguments.topic)
    found: tuple[Rule, ...] = ()
    own = Certificate(arguments.name, b"", None, (), b"", b"")
    if arguments.identity is not None:
        who = MemberIdentity.from_text(read_secret(arguments.identity, "identity"), arguments.identity)
        if who.name != arguments.name:
            raise ConfigurationError(f"{arguments.identity} is the identity of {who.name!r}, not of {arguments.name!r}")
        if who.certificate is None:
            raise ConfigurationError(
                f"{arguments.identity}: not admitted yet, so it may do nothing; use glue key admit"
            )
        own = who.certificate
    if arguments.rules is not None:
        found = read_rules_file(arguments.rules)
    decision = explain(found, own, arguments.what, arguments.topic)
    answer = "yes" if decision.allowed else "no"
    output.event("decision", f"{answer}: {decision.rule}", allowed=decision.allowed, rule=decision.rule)
    return common.SUCCESS if decision.allowed else common.FAILURE


def read_rules_file(path: str) -> tuple[Rule, ...]:
    """Return the rules in a file, signed or not yet; no signature is checked. Raises ConfigurationError."""
    try:
        values = orjson.loads(read_open(path, POLICY_SIZE))
        if isinstance(values, dict):
            values = orjson.loads(values["document"])["rules"]
        found, _ = read_policy(values)
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(f"{path}: no rules: {error}") from None
    return found


def check_patterns(parts: Iterable[Iterable[Rule | Mark]]) -> None:
    """Raise TopicError for a pattern that could never match, such as `a/#/b`: its author means something else."""
    for part in chain(*parts):
        for pattern in (*part.topics, *([part.who] if isinstance(part, Rule) else ())):
            check_pattern(pattern)


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


def create(path: str, content: str) -> None:
    """Write a new secret file. Raises ConfigurationError if it exists."""
    try:
        write_secret(path, content)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists; it is not replaced") from None


ACTIONS = (
    ("new", new, "make the key of a new group"),
    ("authority", authority, "make an authority, which admits members by name"),
    ("identity", identity, "make the identity of an endpoint"),
    ("admit", admit, "sign an identity with the authority, with its rights"),
    ("rules", rules, "sign the rules of the group with the authority"),
    ("explain", explain_decision, "tell whether a member may do something, and by which rule"),
    ("open", open_capture, "copy a capture with its sealed datagrams opened"),
    ("rotate", rotate, "begin another epoch of a key, and pass it on to the members"),
    ("show", show, "show what a key file holds, without its secrets"),
)
