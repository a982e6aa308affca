"""What becomes of one publication: who has it, who is slow, who left. For those who ask; others pay nothing for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

from glue.contract import Addressed, Receipted
from glue.endpoint.message import Peer

Condition = Callable[[], bool]


class Receipt:
    """The outcome of one message at each peer that it went to, by the peers' names.

    It went to those whose interest was known when it was published, or became known while it was held at the start. A
    receipt is true once somebody has the message, and everybody that it went to. So that of a message to nobody is
    `complete`, as nothing more comes of it, and false.
    """

    __slots__ = ("_causes", "_had", "_names", "_waiting")

    def __init__(self) -> None:
        self._names: dict[str, str] | None = None  # by id; None: it has not been sent yet
        self._waiting: dict[str, None] = {}
        self._had: list[str] = []
        self._causes: dict[str, str] = {}

    @property
    def delivered(self) -> list[str]:
        """Who has acknowledged all of it, in this order."""
        return [*self._had]

    @property
    def pending(self) -> list[str]:
        """Who has neither acknowledged it yet nor left: the slow ones."""
        return [(self._names or {})[peer] for peer in self._waiting.copy()]

    @property
    def lost(self) -> dict[str, str]:
        """Who will not get it, and why: "peer removed", "expired" or "receiver too slow"."""
        return self._causes.copy()

    @property
    def complete(self) -> bool:
        """Whether it is known to whom it went, and nobody is pending any more."""
        return self._names is not None and not self._waiting

    def __bool__(self) -> bool:
        return self.complete and bool(self._had) and not self._causes

    def note(self, event: Addressed | Receipted, peers: Mapping[str, Peer]) -> None:
        """For the endpoint: what the layers say."""
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

    __slots__ = ("_until",)

    def __init__(self, until: Callable[[Condition, float | None], bool]) -> None:
        super().__init__()
        self._until = until

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is complete, `timeout` seconds at most (None: for ever); whether it is true then."""
        self._until(lambda: self.complete, timeout)
        return bool(self)


class AwaitableReceipt(Receipt):
    """The receipt of `glue.aio.Endpoint`: to be awaited, for ever or with a timeout."""

    __slots__ = ("_until",)

    def __init__(self, until: Callable[[Condition, float | None], Awaitable[bool]]) -> None:
        super().__init__()
        self._until = until

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is complete, `timeout` seconds at most (None: for ever); whether it is true then."""
        await self._until(lambda: self.complete, timeout)
        return bool(self)

    def __await__(self) -> Generator[Any, Any, bool]:
        return self.wait().__await__()
