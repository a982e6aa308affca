"""Interface of simulated machines: anything with a deadline and turns, such as a whole stack."""

from __future__ import annotations

from typing import Protocol

from glue.contract import Event, Request, Train
from glue.errors import GlueError


class Machine(Protocol):
    """A state machine without clock or socket.

    The host calls `turn` when datagrams or requests are waiting, and when the host's clock has reached `deadline`.
    """

    @property
    def deadline(self) -> float:
        """When `turn` must be called even without input, in seconds of `now`. `inf` means never."""

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        """Handle arrived trains and requests. Return events for the application and trains to send.

        The data of `trains` is valid until the next turn with trains, and is overwritten then like a socket's receive
        buffer.
        """


class SimulationError(GlueError, RuntimeError):
    """A machine broke the rules of `Machine`, or the simulation cannot do what was asked. The message says which."""
