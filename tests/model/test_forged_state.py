"""Forged messages at whole endpoints: stamps, snapshots, sessions and mergeable writes with numbers that cannot be."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from glue.contract import Delivery
from glue.endpoint.core import id_of
from glue.model.consensus import Role
from glue.model.consensus.messages import Append, Forward, InstallSnapshot, Message
from glue.model.consensus.wire import encode
from glue.model.group import ModelGroup
from glue.model.mergeable.clock import LATEST_MS, STAMP_LIMIT, HybridClock
from glue.model.mergeable.part import TOO_FAR
from glue.model.questions import Committed, Write
from glue.model.requests import PREFIX
from glue.model.state import AcquireLock, Command, OpenSession, Set, Update, encode_command, encode_entry
from glue.simulation import World
from glue.simulation.endpoint import SimulatedEndpoint
from glue.simulation.model import SimulatedModel

WAIT = 8.0
MERGEABLE = {"n/": "counter", "r/": "register"}
FAR = 1 << 52


class Plant:
    """Three voters, of whom one leads."""

    def __init__(self) -> None:
        self.world = World(8)
        self.endpoints = [self.world.endpoint(name) for name in "abc"]
        self.models: dict[SimulatedEndpoint, SimulatedModel] = {
            endpoint: endpoint.model("plant", voters=3, mergeable=MERGEABLE) for endpoint in self.endpoints
        }
        self.world.run(WAIT)
        leads = [endpoint for endpoint in self.endpoints if self.group(endpoint).status.role is Role.LEADER]
        (self.leader,) = leads
        self.follower, self.other = [endpoint for endpoint in self.endpoints if endpoint is not self.leader]

    def group(self, endpoint: SimulatedEndpoint) -> ModelGroup:
        return self.models[endpoint].group

    def write(self, endpoint: SimulatedEndpoint, *operations: Any) -> object:
        asked = self.models[endpoint].ask(Write(operations))
        self.world.run(WAIT)
        return asked.ending

    def reads(self, endpoint: SimulatedEndpoint, key: str) -> list[Any]:
        return [change.value for change in self.group(endpoint).local(key)]

    def forge(self, target: SimulatedEndpoint, name: SimulatedEndpoint, payload: bytes, below: str = "") -> None:
        """A message comes in that `name` never sent."""
        topic = f"{PREFIX}/plant/{below}"
        delivery = Delivery(topic, [payload], None, name.name, id_of(name.name), 1, 1, 0.0, False, ())
        self.group(target).receive(self.world.time, [delivery])

    def head(self, target: SimulatedEndpoint, name: SimulatedEndpoint) -> tuple[str, str, int]:
        replica = self.group(target).replica
        return replica._core.group, replica.configuration.voters[id_of(name.name)], replica.status.term

    def forge_command(self, command: bytes, stamp: int = 0) -> None:
        """A follower hands a command to the leader."""
        forward: Message = Forward(*self.head(self.leader, self.follower), (77,), (encode_entry(stamp, [command]),))
        self.forge(self.leader, self.follower, encode(forward))
        self.world.run(WAIT)


def test_a_time_stamped_by_another_one_than_the_leader_ends_no_lease() -> None:
    plant = Plant()
    assert isinstance(plant.write(plant.other, AcquireLock("door", "me", 80_000)), Committed)
    plant.forge_command(encode_command(Command(0, 0, 0, [Set("k", 1)])), stamp=(1 << 53) - 1)
    group = plant.group(plant.leader)
    assert group.state.locks.holder("door") is not None
    assert group.state.time_ms < 1e6
    assert group.statistics["times stamped by others than the leader"] == 1
    assert isinstance(plant.write(plant.leader, Set("k", 2)), Committed)


def test_a_session_whose_counters_were_used_up_is_followed_by_another_one() -> None:
    plant = Plant()
    assert isinstance(plant.write(plant.other, Set("k", 1)), Committed)
    session = plant.group(plant.other)._calls.session
    used_up = (1 << 53) - 1
    plant.forge_command(encode_command(Command(session, used_up, used_up - 1, [OpenSession("x")])))
    assert isinstance(plant.write(plant.other, Set("k", 2)), Committed)
    assert plant.reads(plant.leader, "k") == [2]


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format":1}', b'{"format":9}'])
def test_a_snapshot_of_no_state_raises_nothing_and_is_not_taken(data: bytes) -> None:
    plant = Plant()
    head = plant.head(plant.follower, plant.leader)
    index = plant.group(plant.follower).replica.status.commit_index
    value = plant.group(plant.follower).replica.configuration.encode()
    lacking = Append(*head, 1, index + 5, head[2], index + 5, ())
    piece = InstallSnapshot(*head, 1, index + 5, head[2], value, max(1, len(data)), 0, data or b"x")
    for message in (lacking, piece):
        plant.forge(plant.follower, plant.leader, encode(message))
    assert plant.group(plant.follower).replica.statistics["snapshots refused: no state that can be read"] == 1
    assert isinstance(plant.write(plant.follower, Set("k", 1)), Committed)


# ---------------------------------------------------------------------------------------------- mergeable keys


def delta(plant: Plant, context: dict[str, list[int]], events: dict[str, Any]) -> bytes:
    prefixes = plant.group(plant.leader).mergeable.store.prefixes  # type: ignore[union-attr]
    return orjson.dumps([prefixes.mark, "delta", [context, events, {}]])


def life_of(plant: Plant, endpoint: SimulatedEndpoint) -> str:
    part = plant.group(endpoint).mergeable
    assert part is not None
    return part.store.life


def test_writes_or_stamps_that_cannot_be_are_refused_and_merged_nowhere() -> None:
    plant = Plant()
    victim, stranger = life_of(plant, plant.other), f"{9:016x}"
    part = plant.group(plant.leader).mergeable
    assert part is not None
    before = part.store.context.copy()
    for context, events in (
        ({victim: [1, FAR]}, {}),
        ({stranger: [1, 2]}, {"r/k": [[stranger, 1, [STAMP_LIMIT, 0, "poison"]]]}),
        ({stranger: [1, 2]}, {"r/k": [[stranger, 1, [1, 1 << 20, "poison"]]]}),
    ):
        plant.forge(plant.leader, plant.follower, delta(plant, context, events), "merge")
    assert plant.group(plant.leader).statistics[TOO_FAR] == 3
    assert part.store.context == before


def test_the_latest_stamp_that_can_be_freezes_no_register() -> None:
    plant = Plant()
    stranger = f"{9:016x}"
    poison = delta(plant, {stranger: [1, 2]}, {"r/k": [[stranger, 1, [STAMP_LIMIT - 1, 7, "poison"]]]})
    plant.forge(plant.leader, plant.follower, poison, "merge")
    plant.world.run(WAIT)
    plant.write(plant.other, Set("r/k", "mended"))
    assert [plant.reads(endpoint, "r/k") for endpoint in plant.endpoints] == [["mended"]] * 3


def test_a_clock_beyond_all_stamps_still_stamps_what_others_take() -> None:
    clock = HybridClock()
    stamps = [clock.stamp(1 << 50) for _ in range(3)]
    assert stamps == sorted(stamps)
    assert stamps[0] == (LATEST_MS, 0)
    assert stamps[-1][0] < STAMP_LIMIT


def test_a_writer_whose_next_writes_were_said_to_be_made_and_gone_loses_none() -> None:
    plant = Plant()
    writer, former = plant.other, life_of(plant, plant.other)
    plant.write(writer, Update("n/k", 1))
    ahead = delta(plant, {former: [1, 1_000_000]}, {})  # and so the write that was made is taken for superseded
    for endpoint in (plant.leader, plant.follower):
        plant.forge(endpoint, plant.other, ahead, "merge")
    plant.write(writer, Update("n/k", 10))
    plant.world.run(30.0)
    plant.write(writer, Update("n/k", 100))
    assert [plant.reads(endpoint, "n/k") for endpoint in plant.endpoints] == [[111]] * 3
    assert life_of(plant, writer) != former
    assert plant.group(writer).statistics["writes of ours that we never made"] >= 1
    marks = {str(plant.group(endpoint).mergeable.store.context) for endpoint in plant.endpoints}  # type: ignore[union-attr]
    assert len(marks) == 1
