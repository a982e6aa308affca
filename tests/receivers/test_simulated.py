"""Receivers in virtual time: requests to them, and where a host reads their state."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.endpoint.receiver_copy import Copy
from glue.endpoint.receiver_methods import BaseReceivers
from glue.endpoint.receiver_partitions import DRAINED
from glue.model.questions import Read, Write
from glue.receivers.store import FencedError
from glue.simulation import SimulatedEndpoint, World


class Sum(glue.Receiver):
    """Adds numbers."""

    idle = 0.0

    def receive(self, context: glue.Context, message: Any) -> Any:
        if message == "fail":
            raise ValueError("as asked")
        if message:
            context.state["sum"] = context.state.get("sum", 0) + message
        return context.state.get("sum", 0)


def served(world: World, name: str, subnet: str = "") -> tuple[SimulatedEndpoint, BaseReceivers]:
    """A host of "sum" that serves."""
    host = world.endpoint(name)
    kind = host.receivers("sum", Sum, host.model("plant", voters=1), partitions=4, subnet=subnet)
    assert world.run_until(lambda: kind.owned == 4, 10.0)
    return host, kind


def test_request_takes_the_address_of_a_receiver() -> None:
    world = World(1)
    served(world, "host", "cellar")
    caller = world.endpoint("caller")
    calls = [caller.request("cellar:sum/x", message, 5.0) for message in (3, 4, "fail")]
    assert world.run_until(lambda: all(call.is_over for call in calls), 10.0)
    assert [call.replies[0].payload for call in calls[:2]] == [3, 7]
    with pytest.raises(glue.RemoteError, match="cellar:sum/x: ValueError: as asked"):
        print(calls[2].replies[0].payload)
    late = caller.request(":nobody/x", 1, 0.5)
    world.run(1.0)
    assert isinstance(late.replies[0].error, glue.NoResponderError)
    assert "no host of kind 'nobody' was heard of" in str(late.replies[0].error)
    with pytest.raises(glue.ConfigurationError, match="address"):
        caller.request("a:b", 1)


def asked(world: World, host: SimulatedEndpoint, message: Any) -> Any:
    """The answer of receiver "x"."""
    call = host.request(":sum/x", message, 5.0)
    assert world.run_until(lambda: call.is_over, 10.0)
    return call.replies[0].payload


def questions_of(monkeypatch: pytest.MonkeyPatch, host: SimulatedEndpoint) -> list[Any]:
    """What the host asks the model from now on."""
    asked: list[Any] = []
    group = host._core.stack.layers["model"].groups["plant"]  # type: ignore[attr-defined]
    original = group.ask

    def ask(now: float, item: Any) -> Any:
        asked.append(item.question)
        return original(now, item)

    monkeypatch.setattr(group, "ask", ask)
    return asked


def test_a_receiver_comes_into_memory_without_a_question_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2)
    host, kind = served(world, "host")
    assert asked(world, host, 5) == 5
    assert world.run_until(lambda: kind.active == 0, 10.0)
    questions = questions_of(monkeypatch, host)
    assert asked(world, host, 0) == 5
    assert asked(world, host, 1) == 6
    assert [type(question) for question in questions] == [Write]


def test_after_an_unknown_outcome_the_model_is_asked_until_it_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(3)
    host, kind = served(world, "host")
    assert asked(world, host, 5) == 5
    copy: Copy = kind._kind._copy
    for partition in range(4):
        copy.doubt(partition)
    assert world.run_until(lambda: kind.active == 0, 10.0)
    questions = questions_of(monkeypatch, host)
    assert asked(world, host, 0) == 5
    assert world.run_until(lambda: kind.active == 0, 10.0)
    assert asked(world, host, 0) == 5
    assert [type(question) for question in questions] == [Read]


def test_a_later_doubt_outlives_the_answer_to_an_earlier_question() -> None:
    world = World(4)
    _, kind = served(world, "host")
    copy: Copy = kind._kind._copy
    copy.doubt(1)
    earlier = copy.question(1)
    copy.doubt(1)
    copy.answered(1, earlier)
    assert copy.document(1, "key") == (False, None)
    copy.answered(1, copy.question(1))
    assert copy.document(1, "key") == (True, None)


def test_the_copy_of_a_model_that_was_opened_again_is_not_read() -> None:
    world = World(5)
    host, kind = served(world, "host")
    copy: Copy = kind._kind._copy
    assert copy.document(1, "key") == (True, None)
    host._core.stack.layers["model"].groups.pop("plant")  # type: ignore[attr-defined]
    assert copy.document(1, "key") == (False, None)
    assert copy.revision("key") is None


class Old:
    """A store that knows epochs of a model that is gone."""

    def __init__(self) -> None:
        self.epochs = {(":sum", partition): 40 * partition for partition in range(4)}
        self.documents: dict[str, Any] = {"x": {"state": {"sum": 5}}}

    def claim(self, kind: str, partition: int, epoch: int) -> list[str]:
        if self.epochs[kind, partition] > epoch:
            raise FencedError.of(kind, partition, self.epochs[kind, partition])
        self.epochs[kind, partition] = epoch
        return []

    def load(self, kind: str, partition: int, id: str) -> Any:
        return self.documents.get(id)

    def save(self, kind: str, partition: int, id: str, epoch: int, document: Any, has_timers: bool) -> None:
        assert epoch >= self.epochs[kind, partition]
        self.documents[id] = document

    def close(self) -> None:
        """Nothing to do."""


def test_a_store_that_outlived_its_model_is_used_again() -> None:
    world, store = World(5), Old()
    host = world.endpoint("host")
    kind = host.receivers("sum", Sum, host.model("plant", voters=1), partitions=4, store=store)
    assert world.run_until(lambda: kind.owned == 4, 10.0)
    assert asked(world, host, 1) == 6
    assert all(epoch > 40 * partition for (_, partition), epoch in store.epochs.items())


def test_a_host_that_joins_gets_its_share_a_few_partitions_at_a_time() -> None:
    world = World(6)
    first, second = world.endpoint("first"), world.endpoint("second")
    models = [host.model("plant", voters=2) for host in (first, second)]
    old = first.receivers("sum", Sum, models[0], partitions=32)
    assert world.run_until(lambda: old.owned == 32, 10.0)
    for number in range(64):
        first.send(f"sum/{number}", 1)
    new = second.receivers("sum", Sum, models[1], partitions=32)
    most = 0
    until = world.time + 10.0
    while not (old._kind.is_settled and new._kind.is_settled and new.owned):
        assert world.time < until
        world.run(0.001)
        most = max(most, len(old._kind._draining))
    assert 0 < most <= DRAINED
    assert old.owned + new.owned == 32
    calls = [first.request(f":sum/{number}", 0, 5.0) for number in range(64)]
    assert world.run_until(lambda: all(call.is_over for call in calls), 10.0)
    assert [call.replies[0].payload for call in calls] == [1] * 64


def test_nothing_is_sent_again_while_its_host_waits_for_the_model() -> None:
    world = World(7)
    host, other, caller = (world.endpoint(name) for name in ("host", "other", "caller"))
    host.model_timeout = 60.0
    models = [voter.model("plant", voters=2) for voter in (host, other)]
    kind = host.receivers("sum", Sum, models[0], partitions=4)
    assert world.run_until(lambda: kind.owned == 4, 10.0)
    other.pause()
    answers = [caller.ask(f"sum/{id}", number, 30.0) for id, number in (("x", 2), ("y", 3), ("x", 4))]
    world.run(9.0)
    assert not any(answer.is_over for answer in answers)
    other.resume()
    assert world.run_until(lambda: all(answer.is_over for answer in answers), 20.0)
    assert [answer.payload for answer in answers] == [2, 3, 6]
    counts = {name: count for layer in caller.statistics.values() for name, count in layer.items()}
    assert counts.get("messages to receivers sent again", 0) == 0
