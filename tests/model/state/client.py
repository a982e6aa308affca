"""A client of a state machine."""

from __future__ import annotations

import json
from typing import Any

from glue.model.state import (
    Applied,
    Command,
    OpenSession,
    Operation,
    State,
    encode_command,
    encode_entry,
)


class Client:
    """Applies commands to a state directly, as one client with a session of its own."""

    def __init__(self, state: State | None = None, session: bool = True) -> None:
        self.state = State() if state is None else state
        self.serial = 0
        self.session = self.run(OpenSession(f"client {self.state.index}")).results[0].index if session else 0

    session = 0

    def run(self, *operations: Operation, time_ms: int = 0, serial: int | None = None, answered: int = 0) -> Applied:
        if serial is None:
            self.serial = serial = self.serial + 1
        command = Command(self.session, serial, answered, list(operations))
        return self.state.apply(self.state.index + 1, encode_entry(time_ms, [encode_command(command)]))

    def code(self, *operations: Operation) -> str:
        return self.run(*operations).results[0].code

    def value(self, key: str) -> Any:
        found = self.state.get(key)
        return None if found is None else json.loads(found[0])
