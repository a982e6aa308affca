"""A model at a simulated endpoint. Its questions are answered while virtual time passes.

Calls cannot wait inside a simulation. Therefore the interface consists of questions (`glue.model.Write` and others).
Methods with a `history` record what clients saw, for `linearizability.check`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glue.contract import Delivery
from glue.model import Ask, StackRequest
from glue.model.group import ModelGroup
from glue.model.questions import Committed, Ending, Found, Question, Read, Refused, Unknown, WatchPattern, Write
from glue.model.state import ABSENT, Change, Expect, Set
from glue.simulation.host import Host
from glue.simulation.hosts import Hosts
from glue.simulation.linearizability import COMPARE_AND_SET, READ, WRITE, Operation

TIMEOUT = 5.0


class SimulatedQuestion:
    """A pending question. `ending` is None until the answer, and stays None if the endpoint crashes before."""

    __slots__ = ("_then", "ending")

    def __init__(self, then: Callable[[Ending], object] | None = None) -> None:
        self.ending: Ending | None = None
        self._then = then

    def answered(self, answer: Ending) -> None:
        """Store the answer. For the endpoint."""
        self.ending = answer
        if self._then is not None:
            self._then(answer)


class SimulatedWatch:
    """Changes reported by a watch."""

    def __init__(self, handled: Callable[[Delivery], None]) -> None:
        self.changes: list[Change] = []
        self._handled = handled

    def _deliver(self, delivery: Delivery) -> None:
        """Store the changes of a delivery. For the endpoint."""
        self.changes += delivery.payloads
        self._handled(delivery)

    def close(self) -> None:
        """Do nothing. The endpoint calls this method when it crashes or is closed."""


class SimulatedModel:
    """A model at a simulated endpoint, made by `SimulatedEndpoint.model`."""

    def __init__(
        self,
        name: str,
        order: Callable[[StackRequest], None],
        handled: Callable[[Delivery], None],
        host: Host,
        world: Hosts,
        group: Callable[[], ModelGroup],
    ) -> None:
        """Internal. Call `SimulatedEndpoint.model` instead."""
        self.name = name
        self._order = order
        self._handled = handled
        self._host = host
        self._world = world
        self._group = group

    @property
    def group(self) -> ModelGroup:
        """The group with its replica and state, for tests to inspect."""
        return self._group()

    def ask(
        self, question: Question, timeout: float = TIMEOUT, then: Callable[[Ending], object] | None = None
    ) -> SimulatedQuestion:
        """Ask a question at this instant. `then` is called with the ending.

        `timeout` is in seconds of virtual time.
        """
        pending = SimulatedQuestion(then)
        self._order(Ask(self.name, pending, question, timeout, self._host.unix_time))
        return pending

    def watch(self, pattern: str) -> SimulatedWatch:
        """Watch all keys that match the pattern. The result lists their changes."""
        watch = SimulatedWatch(self._handled)
        self.ask(WatchPattern(watch, pattern))
        return watch

    # --------------------------------------------------------------- clients whose calls become a history

    def read(self, history: list[Operation], client: str, key: str) -> SimulatedQuestion:
        """Read a key. A read without an answer is left out of the history."""
        operation = Operation(client, key, READ, (), self._world.time)

        def finish(ending: Ending) -> None:
            if isinstance(ending, Found):
                operation.answer = ending.entries[0].value if ending.entries else None
                operation.returned = self._world.time
                history.append(operation)

        return self.ask(Read(key), then=finish)

    def write(self, history: list[Operation], client: str, key: str, value: Any) -> SimulatedQuestion:
        """Set a key."""
        operation = Operation(client, key, WRITE, (value,), self._world.time)
        return self._write(history, operation, Write([Set(key, value)]))

    def compare_and_set(
        self, history: list[Operation], client: str, key: str, expected: Any, value: Any
    ) -> SimulatedQuestion:
        """Set a key if it has the expected value. None means that the key is absent."""
        operation = Operation(client, key, COMPARE_AND_SET, (expected, value), self._world.time)
        condition = Expect(key, ABSENT if expected is None else expected)
        return self._write(history, operation, Write([condition, Set(key, value)]))

    def _write(self, history: list[Operation], operation: Operation, question: Write) -> SimulatedQuestion:
        """Ask, and add the operation to the history at once as unknown, because this endpoint may crash."""
        history.append(operation)

        def finish(ending: Ending) -> None:
            if isinstance(ending, Unknown):
                return
            if isinstance(ending, Refused) and ending.unreachable:
                history.remove(operation)
                return
            operation.answer = None if operation.kind == WRITE else isinstance(ending, Committed)
            operation.returned = self._world.time

        return self.ask(question, then=finish)
