"""The layer of models: questions of a model that is closed in the same pass, and messages that come back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from glue.contract import Delivery, Event, Missed, PeerAdded, Publication
from glue.model import Ask, CloseModel, OpenModel, Replicated
from glue.model.consensus import ConsensusSettings, Role
from glue.model.mergeable import Prefixes
from glue.model.mergeable.exchange import SHORTEST
from glue.model.questions import Refused, Synchronize, Write
from glue.model.requests import ModelOptions
from glue.model.state import Set
from glue.model.storage import MemoryStorage


def opening(mergeable: dict[str, str] | None = None) -> OpenModel:
    storage = MemoryStorage(Random(1))
    options = ModelOptions(
        consensus=ConsensusSettings(voters=1), storage=storage, stored=storage.load(),
        mergeable=Prefixes(mergeable or {}), delta_file=None, deltas=[], names={},
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


def test_a_replica_does_not_take_its_own_messages_for_those_of_another_one() -> None:
    layer = Replicated(endpoint_id="a" * 16, incarnation=1, network_id=1, random=Random(1))
    now, token = 100.0, "the question"
    asked: Any = token
    out = layer.send(now, [opening({"m/": "counter"}), Ask("plant", asked, Synchronize(), 2.0, 1e9)])
    answers: list[Any] = []
    while not answers:
        back = [
            Delivery(one.topic, one.payloads, None, "attic", "a" * 16, 1, 1, 0.0, False, ())
            for one in out if isinstance(one, Publication)
        ]  # fmt: skip
        up, out = layer.receive(now, [*back])
        answers += up
        now = max(now + 0.001, min(layer.deadline, now + 1.0))
    assert [(one.token, one.answer.reason) for one in answers] == [
        (token, "no other endpoint of the model is in reach")
    ]


def test_what_was_counted_stays_counted_when_a_model_is_closed() -> None:
    layer = Replicated(endpoint_id="a" * 16, incarnation=1, network_id=1, random=Random(1))
    layer.send(100.0, [opening()])
    strange = Delivery("$glue/model/plant/all", [b"?"], None, "attic", "b" * 16, 1, 1, 0.0, False, ())
    layer.receive(100.0, [strange])
    before = layer.statistics
    assert before["malformed messages of consensus"] == 1
    layer.send(100.1, [CloseModel("plant")])
    assert layer.statistics == before
    layer.send(100.2, [opening()])
    layer.receive(100.2, [strange])
    assert layer.statistics["malformed messages of consensus"] == 2


@pytest.mark.parametrize(
    ("news", "is_soon"),
    [
        ([Missed("$glue/model/plant/merge", "cellar", "b" * 16, 1, "lost", ())], True),
        ([PeerAdded("b" * 16, 1, "cellar", ("10.0.0.2", 7))], True),
        ([], False),
    ],
)
def test_digests_are_compared_soon_after_a_lost_message_or_when_a_peer_comes(news: list[Event], is_soon: bool) -> None:
    layer = Replicated(endpoint_id="a" * 16, incarnation=1, network_id=1, random=Random(1))
    layer.send(100.0, [opening({"m/": "counter"})])
    now = 100.0
    part = layer.groups["plant"].mergeable
    assert part is not None
    while now < 160.0:
        now = max(now, layer.deadline)
        layer.receive(now, [])
    while part.deadline - now <= SHORTEST:  # until a long interval has just begun
        now = layer.deadline
        layer.receive(now, [])
    layer.receive(now, news)
    assert (part.deadline - now <= SHORTEST) == is_soon
