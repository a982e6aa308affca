"""Members by name, for `glue key`: authorities, identities, their rights, and the rules of a group."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Any

import orjson

from glue.cmd import common
from glue.cmd.output import CommandOutput
from glue.endpoint.secrets import read_key, read_open, read_secret, write_secret
from glue.errors import ConfigurationError
from glue.security import MemberIdentity
from glue.security.guard import POLICY_SIZE, Policy, explain
from glue.security.identity import PUBLIC_SIZE, Certificate, authority_text, public_of, read_authority
from glue.security.rules import ACTIONS, Mark, Rule, read_policy
from glue.security.suites import require
from glue.topics import check_pattern

NAME_SIZE = 255
"""Bytes of the name of an endpoint."""


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
        {"may": [action], "topics": getattr(arguments, action)} for action in ACTIONS if getattr(arguments, action)
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
        if own.end <= time.time():
            raise ConfigurationError(
                f"{arguments.identity}: admitted {_end(own.until)}, so it may do nothing now; use glue key admit"
            )
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
        text += f"admitted {_end(until)}; rights: {rights_of(rules)}"
    output.event("identity", text, name=found.name, public=public, until=until, rules=rules)
    return True


def _end(until: float | None) -> str:
    """The end of an admission (Unix seconds), as text."""
    return "for good" if until is None else time.strftime("until %Y-%m-%d %H:%M", time.localtime(until))


def rights_of(rules: list[dict[str, Any]]) -> str:
    """The rights of a certificate, as text."""
    return "; ".join(f"{' '.join(rule['may'])} {' '.join(rule['topics'])}" for rule in rules) or "none of its own"


def add_rights(action: argparse.ArgumentParser) -> None:
    """Add the options of `admit`."""
    action.add_argument("--authority", metavar="FILE", required=True, help="the authority's file")
    action.add_argument("--days", type=common.positive_number, metavar="NUMBER", help="end after so many days")
    for name in ACTIONS:
        action.add_argument(f"--{name}", metavar="PATTERN", nargs="+", default=[], help=f"topics that it may {name}")


def add_question(action: argparse.ArgumentParser) -> None:
    """Add the arguments of `explain`."""
    action.add_argument("name", metavar="NAME", help="the member's name")
    action.add_argument("what", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    action.add_argument("topic", metavar="TOPIC", help="a topic; to subscribe, also a pattern; a model's name")
    action.add_argument("--rules", metavar="FILE", default=os.environ.get("GLUE_POLICY"), help="the rules")
    action.add_argument("--identity", metavar="FILE", help="the member's identity, for the rights in its certificate")


def create(path: str, content: str) -> None:
    """Write a new secret file. Raises ConfigurationError if it exists."""
    try:
        write_secret(path, content)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists; it is not replaced") from None
