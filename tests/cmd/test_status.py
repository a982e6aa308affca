"""What `glue model` tells of a replica's status."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest

from glue import ModelStatus
from glue.cmd.model import Terminal
from glue.cmd.output import CommandOutput


@pytest.mark.parametrize(
    ("leader", "failure", "told"),
    [
        ("hall", "", "follower in term 3, leader hall, commit index 7, 2 keys; voters: attic, hall\n"),
        (None, "full", "follower in term 3, leader none, commit index 7, 2 keys; voters: attic, hall; full\n"),
    ],
)
def test_the_status_names_leader_voters_and_failure(leader: str | None, failure: str, told: str) -> None:
    stream = io.StringIO()
    terminal = Terminal(cast(Any, None), CommandOutput(stream, json=False, unread=lambda: None), 1.0)
    terminal.show_status(ModelStatus("follower", 3, leader, 7, ("attic", "hall"), 0.5, 2, failure))
    assert stream.getvalue() == told
