"""A host of receivers without an endpoint: a test has the clock, answers the model, and sees all orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson

from glue.contract import Alarm, Delivery, Publication, Rung
from glue.endpoint.receiver_hosts import PENDING
from glue.endpoint.receiver_kind import Kind
from glue.endpoint.receiver_ops import Ask as AskStore
from glue.endpoint.receiver_ops import Work
from glue.endpoint.receiver_runtime import ReceiverRuntime
from glue.model import Ask
from glue.model.questions import Found
from glue.model.state import Change
from glue.receivers.context import FunctionReceiver
from glue.receivers.wire import decode

HOST, PEER = "a" * 16, "b" * 16


class Shelf:
    """A store that a test can let fail, and whose epochs it knows."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.documents: dict[str, Any] = {}
        self.error: Exception | None = None
        self.timed: list[str] = []

    def _do(self, *call: Any) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def claim(self, kind: str, partition: int, epoch: int) -> list[str]:
        self._do("claim", partition, epoch)
        return self.timed

    def load(self, kind: str, partition: int, id: str) -> Any:
        self._do("load", partition, id)
        return self.documents.get(id)

    def save(self, kind: str, partition: int, id: str, epoch: int, document: Any, has_timers: bool) -> None:
        self._do("save", partition, id, epoch)
        self.documents[id] = document

    def close(self) -> None:
        self.calls.append(("close",))


class Desk:
    """A runtime of receivers; what it gives to others is kept until a test looks."""

    counts: bool = True

    def __init__(self) -> None:
        self.time = 100.0
        self.asked: list[Any] = []
        self.soon_called: list[Callable[[], None]] = []
        self.looks = 0
        self.told: list[Any] = []
        self.got: list[Any] = []
        self.held: list[Callable[[Any, BaseException | None], None]] | None = None  # of stores, if they are slow
        self.statistics: Counter[str] = Counter()
        core: Any = SimpleNamespace(
            identity=SimpleNamespace(endpoint_id=HOST, incarnation=7),
            statistics=self.statistics,
            settings=SimpleNamespace(message_limit=100_000),
            requests=SimpleNamespace(clock=lambda: self.time, unix_time=lambda: self.time + 1000.0),
            failed=lambda: self.told.append("failed"),
        )
        owner: Any = SimpleNamespace(
            settled=lambda what, count: self.told.append((what, count)),
            handled=lambda delivery: self.told.append(delivery),
        )
        self.runtime = ReceiverRuntime(core, owner, self.asked.append, self)

    # what the runtime has of its surroundings

    def soon(self, function: Callable[[], None]) -> None:
        self.soon_called.append(function)

    def look(self) -> None:
        self.looks += 1

    def perform(self, operation: Any, resume: Callable[[Any, BaseException | None], None]) -> Any:
        if isinstance(operation, AskStore):
            self.asked.append(operation)
            return PENDING
        assert isinstance(operation, Work)
        try:
            result, error = operation.function(), None
        except Exception as raised:
            result, error = None, raised
        if self.held is not None:
            self.held.append(lambda _, __: resume(result, error))
            return PENDING
        return result, error

    def ask(self, address: Any, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        raise NotImplementedError

    # what a test does

    def host(self, store: Shelf | None, partitions: int = 2, idle: float = 1e9) -> Kind:
        """Host "sum", which keeps what it gets."""

        def receive(context: Any, message: Any) -> Any:
            self.got.append((context.id, message))
            if isinstance(message, dict):
                context.state["seen"] = message["keep"]

        kind = Kind(
            self.runtime, ":sum", lambda: FunctionReceiver(receive), partitions, "plant", store, idle, None, {}
        )  # fmt: skip
        self.runtime.add_kind(kind)
        return kind

    def run(self) -> None:
        """Do what is soon to be done, and what follows from that."""
        while self.soon_called:
            waiting, self.soon_called[:] = self.soon_called[:], []
            for function in waiting:
                function()

    def tick(self, seconds: float = 0.1) -> None:
        """Let the time come for which the runtime asked, or another one, and all that follows."""
        self.time = round(self.time + seconds, 6)
        self.runtime._deliver(Rung(self.runtime))
        self.run()

    def deliver(self, *payloads: bytes, life: int = 1, token: Any = None, topic: str = "") -> Delivery:
        delivery = Delivery(topic, payloads, None, "peer", PEER, life, 1, 0.0, False, ())
        (token or self.runtime)._deliver(delivery)
        return delivery

    def orders(self, kind: type) -> list[Any]:
        """The orders of this kind since the last look."""
        found = [order for order in self.asked if isinstance(order, kind)]
        self.asked[:] = [order for order in self.asked if not isinstance(order, kind)]
        return found

    def published(self) -> list[tuple[str, list[Any]]]:
        """The topics and heads of what was published since the last look."""
        return [(one.topic, [decode(payload)[0] for payload in one.payloads]) for one in self.orders(Publication)]

    def alarms(self) -> list[float]:
        """For when the runtime asked to be rung since the last look, from now."""
        return [round(one.due - self.time, 6) for one in self.orders(Alarm)]

    def questions(self) -> list[Any]:
        """What the model was asked since the last look; `answer` answers one."""
        return self.orders(Ask)

    def answer(self, question: Any, ending: Any = None, **values: Any) -> None:
        """Answer a question of the model, or let it find these values; underscores in a key are slashes."""
        if ending is None:
            found = [(f"receivers/%3Asum/{key.replace('_', '/')}", value) for key, value in values.items()]
            ending = Found([Change(key, orjson.dumps(value), 1) for key, value in found])
        question.token.answered(ending)
