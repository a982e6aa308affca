"""Rights to keep, read and write, at both ends, and that each refusal is told at both ends."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

import glue
from glue.contract import Publication
from glue.endpoint.durability import acknowledgement_topic
from glue.model import Ask
from glue.model.questions import Committed, Ending, Refused, Write
from glue.model.state import Set
from glue.security.guard import Policy
from glue.simulation import SimulatedEndpoint
from glue.simulation.consensus import SimulatedDisk
from tests.security.test_identities import AUTHORITY
from tests.security.test_rules import Plant

RULES: list[dict[str, Any]] = [
    {"who": "#", "may": ["publish", "subscribe", "keep"], "topics": ["home/#"]},
    {"who": "#", "may": ["read"], "topics": ["plant"]},
    {"who": "boiler", "may": ["write"], "topics": ["plant/#"]},
    {"who": "hall", "may": ["write"], "topics": ["plant/lamp"]},
    {"who": "guest", "may_not": ["keep"], "topics": ["#"]},
    {"who": "stranger", "may_not": ["read"], "topics": ["#"]},
]


class Call:
    """A call to a model, and its ending."""

    def __init__(self) -> None:
        self.ending: Ending | None = None

    def answered(self, answer: Ending) -> None:
        self.ending = answer


def write(plant: Plant, endpoint: SimulatedEndpoint, key: str) -> Ending | None:
    call = Call()
    endpoint._order(Ask("plant", call, Write([Set(key, 1)]), 3.0, endpoint.host.unix_time))
    plant.world.run(4.0)
    return call.ending


def test_a_member_keeps_only_what_it_may(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant(RULES)
    kitchen, guest, hall = plant.start("kitchen"), plant.start("guest"), plant.start("hall")
    with pytest.raises(glue.ForbiddenError, match="guest may not keep 'home/#': guest may not keep #"):
        guest.keep("home/#", directory=SimulatedDisk(Random(1)))
    guest._core.guard = None  # its own software does not ask
    guest.keep("home/#", directory=SimulatedDisk(Random(1)))
    plant.world.run(3.0)
    assert "kitchen says that guest may not keep 'home/#'" in caplog.text
    assert not kitchen._core.durability.keepers("home/lamp")
    receipt = kitchen.publish("home/lamp", 1, acks=1, receipt=True)
    claim = {"durable": [["home/lamp", 1, 9]]}
    topic = acknowledgement_topic(kitchen.id, kitchen._core.identity.incarnation)
    guest._core.outbox.add(Publication(topic, [orjson.dumps(claim)], 0.0, True))
    plant.world.run(1.0)
    assert receipt.durable == []
    assert kitchen.statistics["delivery gate"]["refused: message"] > 0
    hall.keep("home/#", directory=SimulatedDisk(Random(2)))
    plant.world.run(3.0)
    assert [*kitchen._core.durability.keepers("home/lamp")] == [hall.id]


def test_a_model_is_read_and_written_only_by_those_who_may() -> None:
    plant = Plant(RULES)
    boiler, hall, kitchen = plant.start("boiler"), plant.start("hall"), plant.start("kitchen")
    stranger = plant.start("stranger")
    boiler.model("plant", voters=1)
    for name in (hall, kitchen):
        with pytest.raises(glue.ForbiddenError, match="may not write 'plant/#'"):
            name.model("plant", voters=1)
        name.model("plant", observer=True)
    with pytest.raises(glue.ForbiddenError, match="stranger may not read 'plant'"):
        stranger.model("plant", observer=True)
    plant.world.run(4.0)
    assert isinstance(write(plant, boiler, "valve"), Committed)
    assert isinstance(write(plant, hall, "lamp"), Committed)
    refused = write(plant, hall, "valve")
    assert isinstance(refused, Refused)
    assert refused.forbidden
    assert "hall may not write 'plant/valve'" in refused.reason


def test_a_leader_takes_no_writes_of_a_replica_that_may_not_write_whatever_its_software_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plant = Plant(RULES)
    boiler, kitchen = plant.start("boiler"), plant.start("kitchen")
    boiler.model("plant", voters=1)
    kitchen.model("plant", observer=True)
    plant.world.run(4.0)
    kitchen._core.stack.layers["model"].rights = None  # type: ignore[attr-defined]
    assert not isinstance(write(plant, kitchen, "valve"), Committed)
    assert boiler.statistics["model"]["refused: message of a model"] > 0
    assert boiler.statistics["model"]["refused: message of a model"] < 200
    assert "refused by the rules: kitchen may not write 'plant/valve'" in caplog.text
    assert "refused by the rules: boiler says that kitchen may not write 'plant/valve'" in caplog.text


def test_a_replica_that_may_only_read_leads_nobody() -> None:
    plant = Plant(RULES)
    boiler, kitchen = plant.start("boiler"), plant.start("kitchen")
    kitchen._core.guard = None
    kitchen._core.stack.layers["model"].rights = None  # type: ignore[attr-defined]
    boiler.model("plant", members=["boiler", "kitchen"])
    kitchen.model("plant", members=["boiler", "kitchen"])
    plant.world.run(6.0)
    assert boiler.statistics["model"]["refused: message of a model"] > 0
    status = boiler._core.stack.layers["model"].groups["plant"].status  # type: ignore[attr-defined]
    assert status.leader != kitchen.id


def test_mergeable_keys_are_written_by_those_who_may_write_their_prefix() -> None:
    rules = [*RULES, {"who": "hall", "may": ["write"], "topics": ["plant/stats/#"]}]
    plant = Plant(rules)
    boiler, hall, kitchen = plant.start("boiler"), plant.start("hall"), plant.start("kitchen")
    boiler.model("plant", voters=1, mergeable={"stats/": "register"})
    for name in (hall, kitchen):
        name.model("plant", observer=True, mergeable={"stats/": "register"})
    plant.world.run(4.0)
    assert isinstance(write(plant, hall, "stats/boots"), Committed)
    assert isinstance(write(plant, kitchen, "stats/boots"), Refused)
    kitchen._core.stack.layers["model"].rights = None  # type: ignore[attr-defined]
    assert isinstance(write(plant, kitchen, "stats/forged"), Committed)  # for itself alone
    keys = {change.key for change in boiler._core.stack.layers["model"].groups["plant"].local("#")}  # type: ignore[attr-defined]
    assert keys == {"stats/boots"}


def test_a_refusal_is_told_at_both_ends_once(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant([{"who": "#", "may": ["subscribe"], "topics": ["#"]}])
    kitchen, guest = plant.start("kitchen"), plant.start("guest")
    plant.hear(kitchen, "home/lamp")
    guest._core.guard = None
    plant.world.run(2.0)
    for number in range(5):
        guest.publish("home/lamp", number)
        plant.world.run(0.5)
    plant.world.run(2.0)
    assert plant.heard["kitchen"] == []
    rule = "guest may not publish 'home/lamp': no rule allows guest to publish home/lamp"
    told = [record.getMessage() for record in caplog.records if "guest may not" in record.getMessage()]
    assert told == [f"refused by the rules: {rule}", f"refused by the rules: kitchen says that {rule}"]


def test_a_member_is_told_when_the_rules_end_its_own_subscription(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant([{"who": "#", "may": ["publish", "subscribe"], "topics": ["#"]}])
    kitchen, hall = plant.start("kitchen"), plant.start("hall")
    plant.hear(hall, "home/lamp")
    hall.subscribe("home/former", print).close()
    plant.world.run(2.0)
    strict = Policy.make(AUTHORITY, 2, [{"who": "kitchen", "may": ["publish"], "topics": ["#"]}])
    plant.start("operator", policy=strict)
    plant.world.run(3.0)
    assert "hall may not subscribe 'home/lamp': no rule allows hall to subscribe home/lamp; what was" in caplog.text
    assert "home/former" not in caplog.text
    assert kitchen.subscribers("home/lamp") == []
