"""What the simulator runs: anything with a deadline that takes turns, such as a whole stack."""

from __future__ import annotations

from typing import Protocol

from glue.contract import Event, Request, Train
from glue.errors import GlueError


class Machine(Protocol):
    """A state machine without clock or socket.

    It is called when datagrams or requests are there for it, and once its clock has reached `deadline`.
    """

    @property
    def deadline(self) -> float:
        """When `turn` must be called even with nothing to hand over (seconds of `now`; `inf`: never)."""

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        """Take what arrived and what the application asks for; return what to tell it and what to send.

        The data of `trains` is valid until the next turn that brings some: it is overwritten then, as a
        socket's receive buffer is.
        """


class SimulationError(GlueError, RuntimeError):
    """A machine broke its promise, or the simulation was asked for what cannot be; the message says which."""
