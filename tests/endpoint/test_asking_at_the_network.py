"""Requests in quick succession, whose caller waits for the answers at the network itself (`glue.drivers.asking`)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import glue
from tests.support.lan import PATIENCE, Lan


@pytest.fixture
def pair(lan: Lan) -> tuple[glue.Endpoint, glue.Endpoint]:
    """A caller, and a responder of "echo"."""
    a, b = lan.pair()
    b.respond("echo", lambda request: request.payload)
    assert a.wait_for_responders("echo", 1, PATIENCE)
    return a, b


Pair = tuple[glue.Endpoint, glue.Endpoint]


def test_each_request_of_a_quick_row_gets_its_own_answer(pair: Pair) -> None:
    a, b = pair
    small = [b"%d" % number for number in range(300)]
    assert [a.request("echo", payload) for payload in small] == small
    values: list[Any] = [{"a": 1}, b"x" * 50_000, None, "", b"", [1, 2.5], b"y" * 2_000]
    assert [a.request("echo", value) for value in values * 5] == values * 5
    assert not {"malformed requests", "malformed replies"} & {*a.statistics, *b.statistics}


def test_other_messages_arrive_between_the_requests(pair: Pair) -> None:
    a, b = pair
    seen: list[int] = []
    a.subscribe("news", lambda message: seen.append(message.payload))
    assert b.wait_for_subscribers("news", 1, PATIENCE)

    def echo(request: glue.Request) -> Any:
        b.publish("news", request.payload)
        return request.payload

    b.respond("loud", echo)
    assert a.wait_for_responders("loud", 1, PATIENCE)
    assert [a.request("loud", number) for number in range(200)] == list(range(200))
    assert b.flush(PATIENCE)
    assert a._running().wait_until(lambda: len(seen) == 200, PATIENCE)
    assert seen == list(range(200))


def test_threads_that_ask_at_once_get_their_answers(pair: Pair) -> None:
    a, _ = pair
    found: dict[int, list[int]] = {}

    def ask(begin: int) -> None:
        found[begin] = [a.request("echo", number) for number in range(begin, begin + 100)]

    threads = [threading.Thread(target=ask, args=(begin,)) for begin in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == {begin: list(range(begin, begin + 100)) for begin in (0, 1000, 2000)}


def test_an_error_in_a_row_of_many_stands_in_its_place(lan: Lan) -> None:
    a, b = lan.pair()

    def half(request: glue.Request) -> Any:
        if request.payload % 7 == 3:
            raise ValueError(f"not {request.payload}")
        return request.payload // 2

    b.respond("half", half)
    assert a.wait_for_responders("half", 1, PATIENCE)
    replies = list(a.request_many("half", range(500)))
    assert [number for number, reply in enumerate(replies) if reply.error] == list(range(3, 500, 7))
    assert [reply.payload for reply in replies if not reply.error] == [n // 2 for n in range(500) if n % 7 != 3]


def test_ctrl_c_ends_a_request_of_a_quick_row(pair: Pair) -> None:
    a, b = pair
    asked: list[int] = []

    def interrupt(request: glue.Request) -> None:
        asked.append(request.payload)
        request.later()
        os.kill(os.getpid(), signal.SIGINT)

    b.respond("interrupt", interrupt)
    assert a.wait_for_responders("interrupt", 1, PATIENCE)

    def quick() -> Iterator[Any]:
        for number in range(50):
            yield a.request("echo", number)

    assert list(quick()) == list(range(50))
    with pytest.raises(KeyboardInterrupt):
        a.request("interrupt", 1)
    assert asked == [1]
    assert list(quick()) == list(range(50))


def test_the_leader_of_an_endpoint_whose_handler_waits_at_another_endpoint_is_replaced(lan: Lan) -> None:
    a, b = lan.pair()
    c = lan.start("c")
    leaders: list[bool] = []

    def outer(request: glue.Request) -> Any:
        me = b._running()._leader
        answer = c.request("inner", request.payload)
        leaders.append(b._running()._leader is me)
        return answer

    a.respond("inner", lambda request: request.payload)
    b.respond("outer", outer)
    assert a.wait_for_responders("outer", 1, PATIENCE)
    assert c.wait_for_responders("inner", 1, PATIENCE)
    assert a.request("outer", 5) == 5
    assert leaders == [False]
