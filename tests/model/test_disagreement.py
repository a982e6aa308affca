"""Who votes must be given alike: whoever differs is told so, by name, and nothing is acknowledged by fewer voters."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from glue.endpoint.core import id_of
from glue.errors import ConfigurationError
from glue.model.consensus import ConsensusSettings
from glue.model.questions import Committed, Refused, Write
from glue.model.state import Set
from glue.simulation import World
from glue.simulation.consensus import SimulatedDisk
from glue.simulation.endpoint import SimulatedEndpoint
from glue.simulation.model import SimulatedModel, SimulatedQuestion

WAIT = 8.0
"""Seconds in which a group is founded, or what hinders it is known."""


class Trio:
    """Three endpoints of one model, each with what it is given."""

    def __init__(self, *options: dict[str, Any]) -> None:
        self.world = World(3)
        self.endpoints = [self.world.endpoint(name) for name in "abc"[: len(options)]]
        self.models = [e.model("plant", **given) for e, given in zip(self.endpoints, options, strict=True)]
        self.world.run(WAIT)

    def failures(self) -> list[str]:
        return [model.group.failure(self.world.time) for model in self.models]

    def writes(self) -> list[SimulatedQuestion]:
        asked = [model.ask(Write([Set("k", number)])) for number, model in enumerate(self.models)]
        self.world.run(WAIT)
        return asked


def voters(*numbers: int) -> list[dict[str, Any]]:
    return [{"voters": number} for number in numbers]


def test_one_two_and_three_voters_of_one_model_are_told_who_differs_and_commit_nothing_for_each_other() -> None:
    trio = Trio(*voters(1, 2, 3))
    assert trio.failures() == [
        "who votes must be given alike at all endpoints, but here: voters=1; at b: 2 voters; at c: 3 voters",
        "who votes must be given alike at all endpoints, but here: voters=2; at a: a group founded with 1 voter; "
        "at c: 3 voters",
        "who votes must be given alike at all endpoints, but here: voters=3; at a: a group founded with 1 voter; "
        "at b: 2 voters",
    ]
    one, two, three = trio.writes()
    assert isinstance(one.ending, Committed), "it asked for no more than there are"
    for asked in (two, three):
        assert isinstance(asked.ending, Refused)
        assert "at a: a group founded with 1 voter" in asked.ending.reason
    assert trio.models[2].group.local("#") == []


def test_three_two_and_three_voters_are_told_why_nothing_is_founded() -> None:
    trio = Trio(*voters(3, 2, 3))
    assert [failure.partition("; ")[2] for failure in trio.failures()] == [
        "at b: 2 voters", "at a: 3 voters; at c: 3 voters", "at b: 2 voters"
    ]  # fmt: skip
    for asked in trio.writes():
        assert isinstance(asked.ending, Refused)
        assert "must be given alike" in asked.ending.reason


def test_members_that_differ_are_told_with_their_names() -> None:
    given = [{"members": ["a", "b"]}, {"members": ["a", "b"]}, {"members": ["a", "c"]}]
    trio = Trio(*given)
    first, _, last = trio.failures()
    assert first == (
        "who votes must be given alike at all endpoints, but here: members=['a', 'b']; "
        "at c: other members, with itself among them"
    )
    assert last.endswith("here: members=['a', 'c']; at a: a group founded with 2 voters; at b: a group founded "
                         "with 2 voters")  # fmt: skip
    assert [type(asked.ending) for asked in trio.writes()] == [Committed, Committed, Refused]


def test_what_is_missing_for_a_founding_is_told() -> None:
    trio = Trio({"members": ["a", "b", "z"]}, {"members": ["a", "b", "z"]})
    assert trio.failures() == ["", ""]
    for asked in trio.writes():
        assert isinstance(asked.ending, Refused)
        assert asked.ending.reason.endswith("too few of its voters are found; missing: z")


def test_once_those_who_differ_are_gone_there_is_no_failure_any_more() -> None:
    trio = Trio(*voters(1, 3))
    assert all(trio.failures())
    trio.endpoints[1].crash()
    trio.world.run(WAIT)
    assert trio.models[0].group.failure(trio.world.time) == ""


def test_an_observer_may_leave_open_who_votes_and_one_that_says_so_must_be_right() -> None:
    trio = Trio({"voters": 1}, {"observer": True}, {"observer": True, "voters": 3})
    assert [bool(failure) for failure in trio.failures()] == [False, False, True]
    assert [type(asked.ending) for asked in trio.writes()] == [Committed, Committed, Refused]
    assert ConsensusSettings(observer=True).seats == 0
    with pytest.raises(ConfigurationError, match="give either voters"):
        ConsensusSettings()


def test_a_data_dir_of_a_group_that_was_founded_with_others_is_refused_and_with_the_same_opened() -> None:
    disk = SimulatedDisk(Random(1))
    world = World(1)
    endpoint = world.endpoint("a")
    endpoint.model("plant", voters=1, directory=disk)
    world.run(WAIT)
    endpoint.crash()
    endpoint.restart()
    with pytest.raises(ConfigurationError, match="a group founded with 1 voter, but voters=3"):
        endpoint.model("plant", voters=3, directory=disk)
    model = endpoint.model("plant", members=["a"], directory=disk)
    world.run(WAIT)
    assert (model.group.is_voter, model.group.failure(world.time)) == (True, "")


def test_a_group_that_has_shrunk_is_the_one_that_was_founded() -> None:
    world = World(2)
    endpoints = [world.endpoint(name) for name in "abc"]
    models: dict[SimulatedEndpoint, SimulatedModel] = {e: e.model("plant", voters=3) for e in endpoints}
    world.run(WAIT)
    leader = next(e for e in endpoints if models[e].group.status.leader == id_of(e.name))
    other = next(e for e in endpoints if e is not leader)
    group = models[leader].group
    group.replica.remove(world.time, id_of(other.name))
    world.run(WAIT)
    assert len(group.replica.configuration.voters) == 2
    newcomer = world.endpoint("d").model("plant", voters=3)
    asked = newcomer.ask(Write([Set("k", 1)]))
    world.run(WAIT)
    assert isinstance(asked.ending, Committed)
    assert [newcomer.group.failure(world.time), group.failure(world.time)] == ["", ""]


def test_a_voter_that_has_gone_is_called_by_its_name_also_by_one_that_came_later() -> None:
    world = World(4)
    endpoints = [world.endpoint(name) for name in ("anne", "bert", "carl")]
    for endpoint in endpoints:
        endpoint.model("plant", voters=3)
    world.run(WAIT)
    endpoints[2].crash()
    world.run(20.0)
    late = world.endpoint("later").model("plant", observer=True)
    world.run(WAIT)
    group = late.group
    assert sorted(map(group.names.of, group.replica.configuration.voters)) == ["anne", "bert", "carl"]
