"""Handlers that ask others: nested requests, their deadlines, and cycles."""

from __future__ import annotations

import time
from typing import Any

import pytest

import glue
from tests.support.lan import PATIENCE, Lan


def double(request: glue.Request) -> Any:
    return request.payload * 2


def test_a_handler_may_ask_another_endpoint(lan: Lan) -> None:
    a, b = lan.pair()
    b.respond("outer", lambda request: b.request("inner", request.payload) + 1)
    assert a.wait_for_responders("outer", 1, PATIENCE)
    lan.start("c").respond("inner", double)
    assert b.wait_for_responders("inner", 1, PATIENCE)
    assert a.request("outer", 20) == 41
    assert [reply.payload for reply in a.request_many("outer", range(20))] == [2 * number + 1 for number in range(20)]


def test_a_handler_may_ask_another_responder_of_its_caller(lan: Lan) -> None:
    a, b = lan.pair()
    b.respond("outer", lambda request: b.request("inner", request.payload) + 1)
    assert a.wait_for_responders("outer", 1, PATIENCE)
    a.respond("inner", double)
    assert b.wait_for_responders("inner", 1, PATIENCE)
    assert a.request("outer", 20) == 41


def test_a_nested_request_ends_with_the_deadline_of_the_outer(lan: Lan) -> None:
    took: list[float] = []

    def outer(request: glue.Request) -> Any:
        since = time.monotonic()
        try:
            return b.request("inner", 1, timeout=PATIENCE)
        finally:
            took.append(time.monotonic() - since)

    a, b = lan.pair()
    b.respond("outer", outer)
    assert a.wait_for_responders("outer", 1, PATIENCE)
    lan.start("c").respond("inner", lambda request: request.later())
    assert b.wait_for_responders("inner", 1, PATIENCE)
    with pytest.raises((glue.RequestTimeoutError, glue.RemoteError), match="in time"):  # both end in the same moment
        a.request("outer", 1, timeout=0.3)
    deadline = time.monotonic() + PATIENCE
    while not took and time.monotonic() < deadline:
        time.sleep(0.01)
    assert took[0] < PATIENCE / 4


def test_a_cycle_of_requests_is_named_instead_of_hanging(lan: Lan) -> None:
    a, b = lan.pair()
    a.respond("ping", lambda request: a.request("pong", request.payload, timeout=PATIENCE))
    b.respond("pong", lambda request: b.request("ping", request.payload, timeout=PATIENCE))
    assert a.wait_for_responders("pong", 1, PATIENCE)
    assert b.wait_for_responders("ping", 1, PATIENCE)
    since = time.monotonic()
    with pytest.raises(glue.RequestCycleError, match="a 'ping' → b 'pong' → a 'ping'"):
        a.request("ping", 1, timeout=PATIENCE)
    assert time.monotonic() - since < PATIENCE / 4


def test_a_handler_that_asks_itself_is_a_cycle(lan: Lan) -> None:
    a, b = lan.pair()
    b.respond("t", lambda request: b.request("t", 1))
    assert a.wait_for_responders("t", 1, PATIENCE)
    with pytest.raises(glue.RequestCycleError, match="b 't' → b 't'"):
        a.request("t", 1)
