"""Surroundings of the receivers of one kind: time, timers, other receivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from glue.receivers.context import Timer

Decode = Callable[[Any], Any]


class Surroundings(Protocol):
    """Surroundings of the receivers of one kind."""

    kind: str
    factory: Callable[[], Any]
    types: dict[str, Decode]
    """What makes a value of a typed message, by the type's name."""

    def now(self) -> float:
        """The time, in monotonic seconds."""

    def unix_time(self) -> float:
        """The time, in Unix seconds."""

    def plain(self, payload: Any) -> Any:
        """A payload as a value that can be kept: bytes or JSON. Raises PayloadError."""

    def check_send(self, address: str, payload: Any) -> tuple[str, Any]:
        """Return what to send later. Raises ConfigurationError, PayloadError, WouldBlockError."""

    def send(self, address: str, payload: Any) -> None:
        """Send a message that was checked."""

    def request(self, address: str, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Ask another receiver; to be awaited at an asyncio endpoint."""

    def arm(self, timer: Timer) -> None:
        """Let a timer's message come to its activation when it is due."""

    def wake(self, id: str) -> None:
        """Bring a receiver into memory soon, so that it reads its durable timers."""

    def failed(self, activation: Any, payload: Any, error: BaseException, policy: str) -> None:
        """A handler raised."""
