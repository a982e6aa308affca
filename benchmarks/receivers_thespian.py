"""The actor of `benchmarks.receivers` for thespian, which imports it in a process of its own."""

from __future__ import annotations

from typing import Any

from thespian.actors import Actor as Base


class Actor(Base):  # type: ignore[misc]
    """Counts messages."""

    handled = 0

    def receiveMessage(self, message: Any, sender: Any) -> None:  # noqa: N802  # thespian's name
        """Count, and answer a request."""
        if message is None:
            self.send(sender, self.handled)
        elif isinstance(message, dict):
            self.handled += 1
