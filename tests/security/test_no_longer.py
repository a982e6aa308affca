"""What is no longer so: peers that are gone, interests that ended, members that were revoked, epochs that were left."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from glue.contract import PeerAdded, PeerInterest, PeerRemoved
from glue.security import new_key, rotated
from glue.security.gates import InterestGate
from glue.security.guard import Policy
from glue.security.key import Key
from glue.security.rotation import Rotation
from tests.security.test_guard import RULES, Door, text
from tests.security.test_identities import AUTHORITY
from tests.security.test_lives import met, passed
from tests.security.test_protection import RULES as MARKED
from tests.security.test_protection import gate, started
from tests.security.test_rules import Plant

HALL = "h" * 16
ADDRESS = ("10.0.0.1", 1)


class NoProtection:
    """Protection of a gate that has no marked topics."""

    def forget(self, peer: str | None = None) -> None:
        pass


def test_what_a_peer_wanted_before_it_left_is_not_wanted_by_its_next_life() -> None:
    door = Door(1)
    below = InterestGate(door.guard)
    below.protection = NoProtection()
    below.receive(0.0, [PeerAdded(HALL, 1, "hall", ADDRESS)])
    assert below.receive(0.0, [PeerInterest(HALL, ["home/x", "home/y"], [])]) == ([], [])
    below.receive(1.0, [PeerRemoved(HALL, 1, "hall", "goodbye"), PeerAdded(HALL, 2, "hall", ADDRESS)])
    assert below.receive(1.0, [PeerInterest(HALL, ["home/y"], [])]) == ([], [])
    hears: list[dict[str, Any]] = [*RULES, {"who": "hall", "may": ["subscribe"], "topics": ["home/#"]}]
    assert door.guard.take(text(2, hears))
    (news,) = below.receive(2.0, [])[0]
    assert (news.peer, [*news.added], [*news.removed]) == (HALL, ["home/y"], [])


def test_the_end_of_a_right_is_not_told_of_what_was_unsubscribed_before(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant([{"who": "#", "may": ["publish", "subscribe"], "topics": ["#"]}])
    hall = plant.start("hall")
    hall.subscribe("home/lamp", lambda message: None).close()
    plant.hear(hall, "home/door")
    plant.world.run(2.0)
    plant.start(
        "operator", policy=Policy.make(AUTHORITY, 2, [{"who": "operator", "may": ["publish"], "topics": ["#"]}])
    )
    plant.world.run(3.0)
    assert "hall may not subscribe 'home/door'" in caplog.text
    assert "hall may not subscribe 'home/lamp'" not in caplog.text


def test_one_that_restarts_reads_a_private_topic_from_the_first_message_on_in_a_stream() -> None:
    plant = Plant(MARKED)
    kitchen, hall, attic = started(plant, "kitchen", "hall", "attic")
    for endpoint in (hall, attic):
        plant.hear(endpoint, "home/safe/code")
    plant.world.run(2.0)
    for number in range(400):
        kitchen.publish("home/safe/code", number)
        plant.world.run(0.01)
        if number == 150:
            hall.restart()
            plant.hear(hall, "home/safe/code")
    plant.world.run(1.0)
    assert gate(hall).statistics["refused: private"] == 0
    assert len(plant.heard["attic"]) == 400


def test_nothing_is_sealed_for_a_member_alone_after_it_was_revoked() -> None:
    hall, kitchen = met()
    assert passed(hall, kitchen, b"for it alone") == [b"for it alone"]
    assert kitchen.address in hall.layer.sealer.partners
    hall.layer.set_key(replace(hall.layer.rotation.key, revoked=("kitchen",)))
    assert hall.layer.sealer.partners == {}
    assert list(hall.layer.lives) == []


def test_a_member_that_seals_with_the_newest_epoch_keeps_to_it_when_the_key_changes_otherwise() -> None:
    key = new_key(Random(1).randbytes)
    two = rotated(key, Random(2).randbytes, overlap=20)
    rotation = Rotation(key)
    rotation.take(two)
    assert rotation.sealing.number == key.newest.number
    assert rotation.met(1.0, two.newest.id)
    rotation.take(replace(two, revoked=("guest",)))
    assert rotation.sealing.number == two.newest.number


def test_the_key_without_the_former_epoch_is_kept_once_that_is_over() -> None:
    key, kept = new_key(Random(1).randbytes), list[Key]()
    rotation = Rotation(rotated(key, Random(2).randbytes, overlap=10), kept.append)
    rotation.advance(100.0, [])
    assert rotation.advance(110.0, [])
    assert kept == [], "both are in use"
    assert rotation.advance(120.0, [])
    assert [[epoch.number for epoch in one.epochs] for one in kept] == [[2]]
    assert kept[0].retired == (key.newest.id,)
