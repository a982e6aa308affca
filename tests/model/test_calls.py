"""Calls on their way to an answer, against a state machine that does at once what they propose."""

from __future__ import annotations

from functools import partial

import pytest

from glue.endpoint import model_options
from glue.model.calls import Calls, CommandCall, Settled
from glue.model.consensus import ConsensusSettings, Role
from glue.model.questions import Committed, Ending, Write
from glue.model.requests import Pending
from glue.model.state import AcquireLock, Operation, ReleaseLock, Set, State, encode_entry
from glue.simulation import Conditions, World


class Token(Pending):
    """Remembers the answer."""

    ending: Ending | None = None

    def answered(self, answer: Ending) -> None:
        self.ending = answer


class Client:
    """An endpoint's calls; what they propose is committed before the next moment."""

    def __init__(self) -> None:
        self.calls = Calls("a life")
        self.state = State()

    def ask(self, now: float, *operations: Operation) -> Token:
        token = Token()
        self.calls.add(CommandCall(token, operations, deadline=now + 60.0, patient=True))
        self.turn(now)
        return token

    def turn(self, now: float) -> None:
        while batches := self.calls.batches(now):
            for encoded, calls in batches:
                index = self.state.index + 1
                self.calls.proposed(index, calls)
                self._settle(self.calls.take(self.state.apply(index, encode_entry(0, encoded))))
                self.calls.committed(index)

    def _settle(self, settled: Settled) -> None:
        for token, ending in settled:
            token.answered(ending)


def test_the_lease_of_a_lock_counts_from_when_it_was_taken_however_long_that_was_waited_for() -> None:
    client = Client()
    assert client.ask(10.0, AcquireLock("door", "a", 2000)).ending == Committed(2, since=10.0)
    waiting = client.ask(20.0, AcquireLock("door", "b", 2000))
    client.turn(25.0)
    assert waiting.ending is None
    client.ask(30.0, ReleaseLock("door", "a"))
    client.turn(30.0)
    assert waiting.ending == Committed(client.state.index, since=30.0)


def test_a_command_tried_again_may_have_happened_at_its_first_try() -> None:
    client = Client()
    client.ask(10.0, ReleaseLock("door", "a"))  # opens the session
    token = Token()
    client.calls.add(CommandCall(token, [AcquireLock("door", "a", 2000)], deadline=60.0, patient=True))
    [(_, lost)] = client.calls.batches(20.0)
    client.calls.proposed(1000, lost)
    client.calls.settle(21.0, 1000, refused=False)
    client.turn(22.0)
    assert token.ending == Committed(client.state.index, since=20.0)


def test_a_call_that_was_committed_while_its_endpoint_was_cut_off_is_answered_by_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_options, "ConsensusSettings", partial(ConsensusSettings, compact_after=2000, trailing=0))
    world = World(4)
    endpoints = [world.endpoint(name) for name in "abc"]
    models = {endpoint: endpoint.model("plant", voters=3) for endpoint in endpoints}
    first = [model.ask(Write([Set("k", 0)])) for model in models.values() for _ in range(9)]
    assert world.run_until(lambda: all(isinstance(one.ending, Committed) for one in first), 10.0)
    cut = next(endpoint for endpoint, model in models.items() if model.group.status.role is not Role.LEADER)
    other = next(models[endpoint] for endpoint in endpoints if endpoint is not cut)
    world.network.set_conditions(Conditions(loss=1.0), destination=cut.host)
    call = models[cut].ask(Write([Set("mine", 1)]), timeout=60.0)
    for number in range(20):
        world.run(0.1)
        other.ask(Write([Set("k", f"{number:500}")]))
    assert (call.ending, [one.value for one in other.group.local("mine")]) == (None, [1])
    world.network.set_conditions(Conditions(), destination=cut.host)
    assert world.run_until(lambda: bool(models[cut].group.local("mine")), 5.0)
    assert isinstance(call.ending, Committed), "known with the state, before the command is tried again"
