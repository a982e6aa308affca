"""The defaults of limits, of settings, and of the options of public calls: what programs rely on that name none."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

import glue
import glue.aio
from glue.contract import NORMAL, Delivery, Inbound, Outbound, PeerAdded, Publication, Receipted, Subscribe, Train
from glue.contract.requests import PLAIN
from glue.endpoint.model_calls import GRACE, TIMEOUT
from glue.gateway.http.limits import Limits as DoorLimits
from glue.history import Limits as MemoryLimits
from glue.history.memory import SIZE
from glue.model.consensus import ConsensusSettings
from glue.receivers.context import Receiver
from glue.receivers.outbox import GIVE_UP

ENDPOINTS = (glue.Endpoint, glue.aio.Endpoint)


def defaults(function: Any) -> dict[str, Any]:
    """The options of a function that have a default, but those that are None, False or empty."""
    found = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in found if one.default is not one.empty and one.default not in (None, False)}


def test_limits_of_an_http_door() -> None:
    assert dataclasses.asdict(DoorLimits()) == {
        "body": 16 << 20, "header": 16 << 10, "connections": 2000, "request_time": 30.0, "keep_alive": 75.0,
        "streams": 1000, "send_time": 30.0, "ping": 15.0, "recent_bytes": 64 << 20, "last_values": 100_000,
        "subscriptions": 10_000, "attempts": 2000, "doubtful": 200, "parallel": 64, "idempotency_keys": 200_000,
        "idempotency_time": 86_400.0, "request_timeout": 60.0, "history": 1000,
    }  # fmt: skip


def test_settings_of_consensus_and_what_cannot_work() -> None:
    assert dataclasses.asdict(ConsensusSettings(voters=3)) == {
        "voters": 3, "members": None, "observer": False, "election_timeout": 1.0, "heartbeat": 0.2,
        "ticket_timeout": 5.0, "compact_after": 16 << 20, "trailing": 1000, "pre_vote": True, "append_limit": 1 << 20,
        "in_flight_limit": 8 << 20, "uncommitted_limit": 16 << 20, "ticket_limit": 65_536, "snapshot_piece": 256 << 10,
    }  # fmt: skip
    assert ConsensusSettings(members=("a", "b")).seats == 2
    assert ConsensusSettings(voters=1, heartbeat=0.5).heartbeat == 0.5
    ConsensusSettings(observer=True)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "give either voters=3"), ({"voters": 1, "members": ("a",)}, "give either voters=3"),
        ({"voters": 0}, "voters=0: expected 1 or more"), ({"members": ()}, "voters=0: expected 1 or more"),
        ({"members": ("a", "a")}, "each name once"), ({"voters": 1, "heartbeat": 0.51}, "two heartbeats or more"),
        ({"voters": 1, "heartbeat": 0.0}, "two heartbeats or more"), ({"observer": True, "voters": 0}, "expected 1"),
    ]  # fmt: skip
    for options, words in wrong:
        with pytest.raises(glue.ConfigurationError, match=words):
            ConsensusSettings(**options)


def test_memory_of_publishers() -> None:
    limits = MemoryLimits("#")
    assert (limits.last, limits.age, limits.size, SIZE) == (None, float("inf"), 64 << 20, 64 << 20)


def test_publications_are_reliable_ordered_and_kept_for_nobody() -> None:
    assert (PLAIN.reliable, PLAIN.ordered, PLAIN.retain) == (True, True, False)
    assert (PLAIN.type, PLAIN.lifespan, PLAIN.receipt, PLAIN.key, PLAIN.metadata) == (None,) * 5


def test_items_between_layers_are_one_reliable_message_of_normal_class_unless_told_otherwise() -> None:
    out, inside = Outbound(("p",), [b"x"]), Inbound("p", 1, None, {}, [b"x"])
    assert (out.header, out.reliable, out.expires, out.after, out.address) == ({}, True, float("inf"), (), None)
    assert (out.messages, [*out.receipts], out.priority) == (1, [], NORMAL)
    assert (inside.age, inside.reliable, inside.form) == (0.0, True, None)
    asked = Publication("t", [b"x"], 5.0)
    assert (asked.json, asked.length, asked.priority, asked.options) == (False, None, NORMAL, PLAIN)
    wanted = Subscribe(1, "a")
    assert (wanted.patterns, wanted.local) == (("a",), True)
    assert (Receipted(1, "p").cause, PeerAdded("p", 1, "n", ("h", 1)).restarted) == ("", False)
    assert list(Train(None, b"abc", 2).chunks()) == [b"abc"]
    assert inspect.signature(Delivery).parameters["expires"].default == float("inf")


def test_times_that_calls_wait_for() -> None:
    assert (TIMEOUT, GRACE, GIVE_UP) == (10.0, 2.0, 60.0)
    assert (Receiver.idle, Receiver.on_error, Receiver.messages) == (300.0, "drop", ())


@pytest.mark.parametrize("kind", ENDPOINTS)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("publish", {"reliability": "reliable", "priority": "normal", "block": True}),
        ("publish_many", {"priority": "normal"}),
        ("subscribe", {"policy": "block"}),
        ("watch_presence", {"pattern": "#"}),
        ("request", {"timeout": 5.0}),
        ("request_all", {"timeout": 5.0}),
        ("request_many", {"timeout": 5.0, "outstanding": 64}),
        ("wait_for_peers", {"count": 1}),
        ("wait_for_subscribers", {"count": 1}),
        ("wait_for_responders", {"count": 1}),
        ("model", {"election_timeout": 1.0}),
        ("flush", {}),
    ],
)
def test_options_of_endpoints(kind: Any, name: str, expected: dict[str, Any]) -> None:
    assert defaults(getattr(kind, name)) == expected
