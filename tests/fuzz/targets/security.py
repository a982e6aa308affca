"""What strangers, and members that lie, send to sealed endpoints."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson

from glue.capture.opened import FrameOpener, Opener
from glue.contract import Inbound, Train
from glue.errors import ConfigurationError
from glue.security import Key
from glue.security.granting import Grant
from glue.security.guard import Policy
from glue.security.hello import Hello, NewEpoch
from glue.security.identity import Certificate, MemberIdentity, read_authority
from glue.security.rules import Rules, read_policy
from tests.fuzz import seeds
from tests.fuzz.registry import joined, split, target
from tests.security.pair import KEY, Member
from tests.security.test_identities import AUTHORITY, identity

SOURCE = ("10.0.0.77", 7000)


def hellos() -> list[bytes]:
    """What two members send each other until they know each other, in several inputs."""
    one, other = Member("a"), Member("b")
    sent = one.send(b"payload")
    seen = list(sent)
    while sent:
        sent = other.receive(sent, one.address)
        seen += sent
        one, other = other, one
    one.layer.sealer.grant(other.address, 10**6)
    block = [data for _, data in one.send(*[b"payload"] * 8, to=other)]
    found = [joined([data for _, data in seen]), joined(seeds.sealed()), joined(block)]
    return found + [joined([data]) for _, data in seen]


@target("sealed", hellos)
def sealed(data: bytes) -> None:
    """Sealed datagrams at a member, from a stranger and in the name of another member; and in a capture."""
    victim, other = Member("b"), Member("a")
    opener, frames = Opener(KEY), FrameOpener(KEY, 101)
    parts = split(data)
    for number, part in enumerate(parts):
        victim.receive([((), part)], other.address if number % 2 else SOURCE, number * 0.1)
        opener.open(part)
        frames.open(_IP_AND_UDP + part)
    train = b"".join(parts)
    victim.layer.receive(9.0, [Train(other.address, train, max(1, len(parts[0]) if parts else 1))])
    opener.open(train)


_IP_AND_UDP = bytes.fromhex("45000000000000004011000000000000000000001b581b5800000000")
HELLO = Hello(True, bytes(8), bytes(8), 1, b"proof").encode()
EPOCH = NewEpoch(2, 60, bytes(32), ("a",), bytes(64)).encode()
GRANT = Grant(bytes(16), 4096).encode()


@target("hello", lambda: [HELLO, EPOCH, GRANT])
def hello(data: bytes) -> None:
    """The bodies of hellos, of new epochs and of grants, as they are after they were opened."""
    for parsed in (Hello.parse(data), NewEpoch.parse(data), Grant.parse(data)):
        if parsed is not None:
            parsed.encode()


def certificates() -> list[bytes]:
    """Documents of certificates, and identity files."""
    found = identity("kitchen")
    assert found.certificate is not None
    return [found.certificate.document, found.to_text().encode()]


@target("certificate", certificates, ConfigurationError)
def certificate(data: bytes) -> None:
    """A certificate whose signature is not yet checked, and files of identities and authorities."""
    Certificate.parse(data, bytes(64))
    with suppress(ConfigurationError):
        read_authority(data, "file")
    MemberIdentity.from_text(data, "file")


RULES: list[dict[str, Any]] = [
    {"who": "#", "may": ["publish", "subscribe"], "topics": ["home/#"]},
    {"who": "guest", "may_not": ["subscribe"], "topics": ["home/+/door"]},
    {"topics": ["home/door"], "signed": True, "private": True},
]


@target("policy", lambda: [orjson.dumps(RULES), Policy.make(AUTHORITY, 3, RULES).to_text().encode()], ValueError)
def policy(data: bytes) -> None:
    """A policy as an authority may have signed it, and the file."""
    from glue.security.signing import public_of

    Policy.from_text(data, public_of(AUTHORITY))
    rules, marks = read_policy(orjson.loads(data))
    made = Rules(rules, marks)
    subject = identity("kitchen").certificate
    assert subject is not None
    made.decide(subject, "publish", "home/a/door")
    made.decide(subject, "subscribe", "home/#")
    made.marks_of("home/door")


@target("key-file", lambda: [KEY.to_text().encode()], ConfigurationError)
def key_file(data: bytes) -> None:
    """A key file."""
    Key.from_text(data, "file")


class Group:
    """Two members with identities and a policy, and the first protected bundles of one for the other."""

    def __init__(self) -> None:
        from tests.security.test_protection import RULES as PROTECTED
        from tests.security.test_rules import Plant

        plant = Plant(PROTECTED)
        self.kitchen, self.hall = plant.start("kitchen"), plant.start("hall")
        plant.hear(self.hall, "home/#")
        plant.world.run(2.0)
        gate: Any = self.hall._core.stack.layers["interest gate"]
        self.protection = gate.protection
        self.bodies: list[bytes] = []
        opened = self.protection.opened

        def note(item: Inbound) -> list[Inbound]:
            self.bodies += map(bytes, item.bodies)
            found: list[Inbound] = opened(item)
            return found

        self.protection.opened = note
        for topic in ("home/door", "home/safe/1", "home/vault", "home/lamp"):
            self.kitchen.publish(topic, b"payload")
        plant.world.run(1.0)
        self.protection.opened = opened


_groups: list[Group] = []


def group() -> Group:
    """One group for all inputs: to make it takes a second. Windows and keys of the receiver are bounded."""
    if not _groups:
        _groups.append(Group())
    return _groups[0]


@target("protected", lambda: group().bodies)
def protected(data: bytes) -> None:
    """A protected bundle of a member."""
    found = group()
    kitchen = found.kitchen
    found.protection.opened(Inbound(kitchen.id, kitchen.incarnation, SOURCE, {"transport": ["data"]}, [data]))
