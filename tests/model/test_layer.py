"""The layer of models: what happens to the questions of a model that is closed in the same pass."""

from __future__ import annotations

from random import Random
from typing import Any

from glue.contract import Publication
from glue.model import Ask, CloseModel, OpenModel, Replicated
from glue.model.consensus import ConsensusSettings, Role
from glue.model.mergeable import Prefixes
from glue.model.questions import Refused, Write
from glue.model.requests import ModelOptions
from glue.model.state import Set
from glue.model.storage import MemoryStorage


def opening() -> OpenModel:
    storage = MemoryStorage(Random(1))
    options = ModelOptions(
        consensus=ConsensusSettings(voters=1), storage=storage, stored=storage.load(), mergeable=Prefixes({}),
        delta_file=None, deltas=[], names={},
    )  # fmt: skip
    return OpenModel("plant", options, 1e9)


def test_a_model_that_is_closed_right_after_a_write_sends_nothing_more_and_answers_once() -> None:
    layer = Replicated(endpoint_id="a" * 16, incarnation=1, network_id=1, random=Random(1))
    layer.send(100.0, [opening()])
    now = 100.0
    while layer.groups["plant"].status.role is not Role.LEADER:
        now = max(now, layer.deadline)
        layer.receive(now, [])
    token: Any = "the write"
    write = Ask("plant", token, Write([Set("a", 1)]), 10.0, 1e9)
    down = layer.send(now, [write, CloseModel("plant"), opening()])
    up: list[Any] = layer.receive(now, [])[0]
    assert [(one.token, one.answer) for one in up] == [(token, Refused("the model was closed", unreachable=True))]
    assert not any(isinstance(one, Publication) for one in down)
