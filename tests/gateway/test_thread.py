"""A door in a thread of its own, and the rights of its clients by the rules of the group."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from glue.gateway.rights import Rights, Visitor
from glue.gateway.thread import in_thread
from glue.security.rules import Decision


def threads() -> list[threading.Thread]:
    """The threads of doors."""
    return [one for one in threading.enumerate() if one.name == "glue door"]


def test_a_door_runs_in_a_thread_of_its_own_until_the_block_ends() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[str]:
        seen.append(threading.current_thread().name)
        yield "the door"
        seen.append("closed")

    with in_thread(opened) as door:
        assert (door, seen, len(threads())) == ("the door", ["glue door"], 1)
    assert (seen, threads()) == (["glue door", "closed"], [])


def test_what_opening_a_door_raises_is_raised_and_no_thread_stays() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def refused() -> AsyncIterator[None]:
        if not seen:
            raise OSError("the port is in use")
        yield

    with pytest.raises(OSError, match="the port is in use"), in_thread(refused):
        pytest.fail("there is no door")
    assert threads() == []


def test_without_rules_every_client_of_a_door_may_do_everything() -> None:
    rights = Rights("mqtt", None)
    assert rights.decide(rights.visitor("anna"), "publish", "t") == Decision(True, "there are no rules")
    assert (rights.revision, rights.changed()) == (0, False)


def test_the_group_decides_about_the_door_and_then_about_its_client() -> None:
    asked: list[Any] = []
    own, others = Decision(True, "the door"), Decision(False, "the client")

    def decide(visitor: Visitor, action: str, topic: str) -> Decision:
        asked.append((visitor, action, topic))
        return others

    guard = SimpleNamespace(changes=4, decide_own=lambda action, topic: own, decide=decide)
    rights = Rights("mqtt", guard)
    rule: Any = object()
    assert rights.decide(rights.visitor("anna", [rule]), "publish", "t") is others
    assert asked == [(Visitor("mqtt/anna", [rule]), "publish", "t")]
    own = Decision(False, "the door may not itself")
    assert rights.decide(rights.visitor(""), "subscribe", "t/#") is own
    assert len(asked) == 1, "nobody is asked about the client then"
    assert rights.visitor("") == Visitor("mqtt/", ())
    assert [rights.changed(), rights.revision] == [False, 4]
    guard.changes = 5
    assert [rights.changed(), rights.changed()] == [True, False]
