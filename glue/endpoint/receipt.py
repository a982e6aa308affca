"""Receipts: the outcome of one publication at each peer. A publication without a receipt costs nothing here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from threading import Event
from typing import Any

from glue.contract import Addressed, Receipted
from glue.endpoint.durability import Expectation
from glue.endpoint.message import Peer

Condition = Callable[[], bool]


class Receipt:
    """The outcome of one message at each receiving peer, by the peers' names.

    Receiving peers are all peers with an interest known at the time of publication, or learned while the message was
    held at the start. A receipt is true once every receiving peer has the message, and there is at least
    one. Without a receiving peer, a receipt is `complete` and false.

    With `acks`, a receipt is about disks: it is true once as many keepers as were asked for have the message on disk.
    It is complete then, or once that is no longer possible; some keepers may have the message all the same.
    """

    __slots__ = ("_causes", "_had", "_names", "_waiting", "expectation")

    def __init__(self, expectation: Expectation | None = None) -> None:
        self.expectation = expectation
        self._names: dict[str, str] | None = None  # by id; None: it has not been sent yet
        self._waiting: dict[str, None] = {}
        self._had: list[str] = []
        self._causes: dict[str, str] = {}

    @property
    def delivered(self) -> list[str]:
        """The names of the peers that acknowledged the whole message, in the order of acknowledgement."""
        return [*self._had]

    @property
    def pending(self) -> list[str]:
        """The names of the peers that have neither acknowledged the message nor left."""
        return [(self._names or {})[peer] for peer in self._waiting.copy()]

    @property
    def lost(self) -> dict[str, str]:
        """The peers that will not get the message, with the cause: "peer removed", "expired" or "receiver too slow"."""
        return self._causes.copy()

    @property
    def complete(self) -> bool:
        """Whether the receiving peers are known and no outcome is pending."""
        if self.expectation is not None:
            return self.expectation.is_over
        return self._names is not None and not self._waiting

    @property
    def durable(self) -> list[str]:
        """With `acks`: the names of the keepers that have the message on their disk."""
        return [] if self.expectation is None else [*self.expectation.keepers.copy().values()]

    @property
    def messages(self) -> int:
        """The number of messages that it is about."""
        return 1 if self.expectation is None else self.expectation.count

    @property
    def failure(self) -> str:
        """With `acks`: why the message is not as durable as asked; "" while it may be."""
        return "" if self.expectation is None else self.expectation.reason

    def __bool__(self) -> bool:
        if self.expectation is not None:
            return self.expectation.is_durable
        return self.complete and bool(self._had) and not self._causes

    def note(self, event: Addressed | Receipted, peers: Mapping[str, Peer]) -> None:
        """Record an event of the layers; called by the endpoint."""
        if isinstance(event, Addressed):
            self._names = {peer: peers[peer].name if peer in peers else peer for peer in event.peers}
            self._waiting = dict.fromkeys(event.peers)
        elif self._names is not None and event.peer in self._waiting:
            del self._waiting[event.peer]
            name = self._names[event.peer]
            if event.cause:
                self._causes[name] = event.cause
            else:
                self._had.append(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} delivered {self.delivered}, pending {self.pending}, lost {self.lost}>"


class WaitingReceipt(Receipt):
    """The receipt of `glue.Endpoint`."""

    __slots__ = ("_event", "_until", "_wait_for")

    def __init__(
        self,
        until: Callable[[Condition, float | None], bool],
        expectation: Expectation | None = None,
        event: Event | None = None,
        wait_for: Callable[[Event, float | None], bool] | None = None,
    ) -> None:
        """With an expectation, `wait_for` waits for the event that tells of its end."""
        super().__init__(expectation)
        self._until = until
        self._event = event
        self._wait_for: Any = wait_for

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is complete, `timeout` seconds at most (None: for ever); whether it is true then."""
        if self._event is None:
            self._until(lambda: self.complete, timeout)
        elif not self.complete:
            self._wait_for(self._event, timeout)
        return bool(self)


class AwaitableReceipt(Receipt):
    """The receipt of `glue.aio.Endpoint`: to be awaited, for ever or with a timeout."""

    __slots__ = ("_until",)

    def __init__(
        self, until: Callable[[Condition, float | None], Awaitable[bool]], expectation: Expectation | None = None
    ) -> None:
        super().__init__(expectation)
        self._until = until

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is complete, `timeout` seconds at most (None: for ever); whether it is true then."""
        await self._until(lambda: self.complete, timeout)
        return bool(self)

    def __await__(self) -> Generator[Any, Any, bool]:
        return self.wait().__await__()
