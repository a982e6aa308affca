"""Calls on their way to an answer, against a state machine that does at once what they propose."""

from __future__ import annotations

from glue.model.calls import Calls, CommandCall, Settled
from glue.model.questions import Committed, Ending
from glue.model.requests import Pending
from glue.model.state import AcquireLock, Operation, ReleaseLock, State, encode_entry


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
