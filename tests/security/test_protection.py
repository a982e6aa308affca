"""Signed and private topics, against members that have the key of the group and software of their own."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from glue.capture.opened import Opener
from glue.contract import Inbound, Outbound
from glue.security import MemberIdentity
from glue.security.guard import Policy
from glue.security.protection import HEAD, Protection
from glue.security.rules import Mark, Rules, read_policy
from glue.security.window import ReplayWindow
from glue.security.wrapping import Wrapper
from glue.simulation import Crossing, SimulatedEndpoint
from glue.topics.bundle import MalformedBundleError, decode
from tests.security.test_identities import AUTHORITY, KEY
from tests.security.test_rules import Plant

ALL = {"who": "#", "may": ["publish", "subscribe", "respond"], "topics": ["#"]}
SIGNED = {"topics": ["home/door"], "signed": True}
PRIVATE = {"topics": ["home/safe/#"], "private": True}
BOTH = {"topics": ["home/vault"], "signed": True, "private": True}
NO_GUEST = {"who": "guest", "may_not": ["subscribe"], "topics": ["home/safe/#", "home/vault"]}
RULES: list[dict[str, Any]] = [ALL, SIGNED, PRIVATE, BOTH, NO_GUEST]


class Wire:
    """What passes on the network: multicasts, opened with the key of the group."""

    def __init__(self, plant: Plant) -> None:
        self._opener = Opener(KEY)
        self.opened: list[bytes] = []
        plant.world.network.observer = self.overhear

    def overhear(self, crossing: Crossing) -> None:
        if (opened := self._opener.open(crossing.data)) is not None:
            self.opened.append(opened)

    def has(self, text: bytes) -> bool:
        return any(text in datagram for datagram in self.opened)


def gate(endpoint: SimulatedEndpoint) -> Any:
    return endpoint._core.stack.layers["interest gate"]


def started(plant: Plant, *names: str) -> list[SimulatedEndpoint]:
    made = [plant.start(name) for name in names]
    plant.world.run(2.0)
    return made


def recorded(endpoint: SimulatedEndpoint) -> list[Inbound]:
    """What comes up to the gate of an endpoint from now on."""
    found: list[Inbound] = []
    protection: Protection = gate(endpoint).protection
    opened = protection.opened

    def overhear(item: Inbound) -> list[Inbound]:
        bodies = [bytes(body) for body in item.bodies]
        found.append(Inbound(item.peer, item.incarnation, item.address, item.header, bodies))
        return opened(item)

    protection.opened = overhear  # type: ignore[method-assign]
    return found


def test_marks_of_topics_are_read_and_wrong_ones_refused() -> None:
    rules, marks = read_policy(RULES)
    assert marks == (
        Mark(("home/door",), True, False), Mark(("home/safe/#",), False, True), Mark(("home/vault",), True, True)
    )  # fmt: skip
    assert Rules(rules, marks).marks_of("home/safe/1") == (False, True)
    assert Rules(rules, marks).marks_of("home/lamp") == (False, False)
    for wrong in ({"topics": [], "signed": True}, {"topics": ["a"], "signed": 1}, {"who": "a", "private": True}):
        with pytest.raises(ValueError, match="expected"):
            read_policy([wrong])


@pytest.mark.parametrize("reliability", ["reliable", "best-effort"])
def test_protected_topics_arrive_as_others_do(reliability: Any) -> None:
    plant = Plant(RULES)
    kitchen, *others = started(plant, "kitchen", "hall", "attic", "cellar")
    for endpoint in others:
        plant.hear(endpoint, "home/#")
    plant.world.run(2.0)
    sent = [(topic, number) for number in range(5) for topic in ("home/door", "home/safe/a", "home/vault", "home/lamp")]
    for topic, number in sent:
        kitchen.publish(topic, number, reliability=reliability)
    kitchen.publish("home/safe/large", bytes(300_000))
    plant.world.run(3.0)
    for endpoint in others:
        assert plant.heard[endpoint.name] == [*sent, ("home/safe/large", bytes(300_000))]
        assert gate(endpoint).statistics["bundles opened"] > 0
    assert gate(kitchen).statistics["bundles protected"] > 0


@pytest.mark.parametrize("options", [{"reliability": "best-effort"}, {"lifespan": 60.0}])
def test_the_key_of_a_private_topic_comes_with_more_than_one_bundle_that_may_be_lost(options: dict[str, Any]) -> None:
    plant = Plant(RULES)
    kitchen, hall = started(plant, "kitchen", "hall")
    plant.hear(hall, "home/safe/code")
    plant.world.run(2.0)
    opened, sizes = gate(hall).protection.opened, list[int]()

    def lossy(item: Inbound) -> list[Inbound]:
        protected = bytes(item.bodies[0][:1]) == b"\x12"
        if protected:
            sizes.append(len(item.bodies[0]))
        return [] if protected and len(sizes) == 1 else opened(item)

    gate(hall).protection.opened = lossy
    for number in range(20):
        kitchen.publish("home/safe/code", number, **options)
        plant.world.run(0.1)
    assert plant.heard["hall"] == [("home/safe/code", number) for number in range(1, 20)]
    assert sum(size > min(sizes) + 48 for size in sizes[10:]) <= 2, "then once a second is enough"


def test_a_private_topic_is_read_by_those_who_may_hear_it_alone() -> None:
    plant = Plant(RULES)
    kitchen, hall, attic, guest = started(plant, "kitchen", "hall", "attic", "guest")
    plant.hear(hall, "home/#")
    plant.hear(attic, "home/+/+")
    plant.hear(attic, "home/vault")
    guest._core.guard = None
    plant.hear(guest, "home/safe/code")
    plant.world.run(2.0)
    wire = Wire(plant)
    for topic, word in (("home/safe/code", "secret"), ("home/vault", "golden"), ("home/stairs/1", "open")):
        kitchen.publish(topic, f"{word} word")
        plant.world.run(0.5)
    for name in ("hall", "attic"):
        assert ("home/safe/code", "secret word") in plant.heard[name]
        assert ("home/vault", "golden word") in plant.heard[name]
    assert plant.heard["guest"] == []
    assert wire.has(b"open word")
    assert not wire.has(b"secret word")
    assert not wire.has(b"golden word")
    assert not wire.has(b'"home/safe/code"')


def test_taking_away_a_right_makes_another_key() -> None:
    plant = Plant(RULES)
    kitchen, hall, attic, cellar = started(plant, "kitchen", "hall", "attic", "cellar")
    for endpoint in (hall, attic, cellar):
        plant.hear(endpoint, "home/safe/code")
    plant.world.run(2.0)
    kitchen.publish("home/safe/code", 1)
    plant.world.run(1.0)
    keys = {flow.key for flow in gate(kitchen).protection._flows.values()}
    strict = Policy.make(AUTHORITY, 2, [*RULES, {"who": "hall", "may_not": ["subscribe"], "topics": ["home/safe/#"]}])
    kitchen._core.guard.take(strict.to_text().encode())
    plant.world.run(2.0)
    seen = recorded(attic)
    kitchen.publish("home/safe/code", 2)
    plant.world.run(1.0)
    assert [len(plant.heard[name]) for name in ("hall", "attic", "cellar")] == [1, 2, 2]
    assert keys.isdisjoint(flow.key for flow in gate(kitchen).protection._flows.values())
    protected = [item for item in seen if item.bodies[0][:1] == b"\x12"]
    assert protected
    assert [gate(hall).protection.opened(item) for item in protected] == [[] for _ in protected]
    assert gate(hall).statistics["refused: private"] == len(protected)


def test_a_receiver_that_restarts_gets_the_key_again() -> None:
    plant = Plant(RULES)
    kitchen, hall, attic = started(plant, "kitchen", "hall", "attic")
    for endpoint in (hall, attic):
        plant.hear(endpoint, "home/safe/code")
    plant.world.run(2.0)
    kitchen.publish("home/safe/code", 1)
    plant.world.run(1.0)
    hall.restart()
    plant.hear(hall, "home/safe/code")
    plant.world.run(2.0)
    kitchen.publish("home/safe/code", 2)
    plant.world.run(1.0)
    assert plant.heard["hall"] == [("home/safe/code", 1), ("home/safe/code", 2)]


def test_a_life_that_takes_another_key_goes_on() -> None:
    plant = Plant(RULES)
    kitchen, hall, attic = started(plant, "kitchen", "hall", "attic")
    for endpoint in (hall, attic):
        plant.hear(endpoint, "home/vault")
    plant.world.run(2.0)
    for number in range(4):
        kitchen.publish("home/vault", number)
        plant.world.run(1.0)
        (kitchen if number % 2 else hall)._core.security.renew()
    plant.world.run(2.0)
    for name in ("hall", "attic"):
        assert plant.heard[name] == [("home/vault", number) for number in range(4)]


def test_a_receiver_gets_private_topics_beside_and_after_a_second_endpoint_of_its_identity() -> None:
    plant = Plant(RULES)
    kitchen, hall = started(plant, "kitchen", "hall")
    plant.hear(hall, "home/safe/code")
    plant.world.run(2.0)
    who = MemberIdentity("hall", Random("hall").randbytes(32)).admitted(AUTHORITY, None, [])
    second = plant.world.endpoint("hall", key=KEY, identity=who, policy=plant.policy)
    plant.world.run(2.0)
    kitchen.publish("home/safe/code", "beside")
    plant.world.run(2.0)
    second.crash()
    plant.world.run(10.0)
    kitchen.publish("home/safe/code", "after")
    plant.world.run(2.0)
    assert plant.heard["hall"][-1] == ("home/safe/code", "after")
    refused = gate(hall).statistics["refused: private"]
    kitchen.publish("home/safe/code", "and on")
    plant.world.run(2.0)
    assert plant.heard["hall"][-1] == ("home/safe/code", "and on")
    assert gate(hall).statistics["refused: private"] == refused


def test_a_member_forges_replays_and_changes_no_signed_bundle() -> None:
    plant = Plant(RULES)
    kitchen, hall, guest = started(plant, "kitchen", "hall", "guest")
    for endpoint in (hall, guest):
        plant.hear(endpoint, "home/door")
    plant.world.run(2.0)
    seen = recorded(hall)
    kitchen.publish("home/door", "opened")
    plant.world.run(1.0)
    [item] = [item for item in seen if item.bodies[0][:1] == b"\x11"]
    [genuine] = item.bodies
    late = plant.start("attic")  # was not there when it was said
    plant.world.run(2.0)

    def taken(body: bytes, by: SimulatedEndpoint = hall, peer: SimulatedEndpoint = kitchen, later: int = 0) -> bool:
        life = peer._core.identity.incarnation + later
        found = Protection.opened(gate(by).protection, Inbound(peer.id, life, None, {}, [body]))
        try:
            return bool([decode(item.bodies[0]) for item in found])
        except MalformedBundleError:
            return False  # it does not come further

    assert not taken(genuine), "a replay"
    assert not taken(genuine, late), "a replay to one that came later"
    assert not taken(genuine[HEAD.size + 64 :]), "without a signature"
    assert not taken(genuine, later=1), "of another life"
    assert not taken(genuine, peer=guest), "of another publisher"
    forged = Outbound((hall.id,), [genuine[HEAD.size + 64 :]])
    gate(guest).protection.protect(0.0, forged)
    flow, number = HEAD.unpack(genuine[: HEAD.size])[1:]
    head = HEAD.pack(0x11, flow, number + 1)
    assert not taken(head + forged.bodies[0][HEAD.size :]), "signed by another member"
    fresh = head + genuine[HEAD.size :]
    for bit in range(0, 8 * len(fresh), 3):
        changed = bytearray(fresh)
        changed[bit // 8] ^= 1 << bit % 8
        assert not taken(bytes(changed)), bit
    for size in range(len(fresh)):
        assert not taken(fresh[:size])
    assert gate(hall).statistics["malformed protection"] == HEAD.size + 64 - 1  # what is shorter than its head
    assert plant.heard["hall"] == [("home/door", "opened")]


def test_a_member_with_other_software_is_not_heard_unsigned_on_a_signed_topic() -> None:
    plant = Plant(RULES)
    kitchen, hall, attic = started(plant, "kitchen", "hall", "attic")
    for endpoint in (hall, attic):
        plant.hear(endpoint, "home/#")
    plant.world.run(2.0)
    gate(kitchen).protection.protect = lambda now, item: None
    kitchen.publish("home/door", "forged")
    plant.world.run(0.5)
    kitchen.publish("home/lamp", "on")
    plant.world.run(1.0)
    assert gate(hall).statistics["refused: not signed"] == 1
    assert plant.heard["hall"] == [("home/lamp", "on")]


def _no_numbers(self: Protection, peer: str, incarnation: int, flow: int) -> ReplayWindow:
    """The mistake: a bundle is taken again and again."""
    return ReplayWindow(-1)


def _trusting(self: Wrapper, peer: str, signature: bytes, data: bytes) -> bool:
    """The mistake: a signature is not checked."""
    return True


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no window": lambda patch: patch.setattr(Protection, "_window", _no_numbers),
    "no check": lambda patch: patch.setattr(Wrapper, "is_signed", _trusting),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    with pytest.raises(AssertionError):
        test_a_member_forges_replays_and_changes_no_signed_bundle()
