"""Requests and replies of blocking endpoints, over real sockets on loopback."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import glue
from tests.support.lan import PATIENCE, Lan


def served(lan: Lan, pattern: str, handler: Any, name: str = "b") -> tuple[glue.Endpoint, glue.Endpoint]:
    """A caller "a", and an endpoint that answers, of which the caller knows."""
    a, b = lan.start("a"), lan.start(name)
    b.respond(pattern, handler)
    assert a.wait_for_responders(pattern.replace("+", "x"), 1, PATIENCE)
    return a, b


def waiting(lan: Lan) -> tuple[glue.Endpoint, glue.Endpoint, threading.Thread, list[glue.GlueError]]:
    """A caller "a", whose request "b" has begun and never answers; the thread that asks, and what it raises."""
    began, errors = threading.Event(), list[glue.GlueError]()

    def handler(request: glue.Request) -> None:
        request.later()
        began.set()

    a, b = served(lan, "t", handler)

    def ask() -> None:
        try:
            a.request("t", 1, timeout=PATIENCE)
        except glue.GlueError as error:
            errors.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    assert began.wait(PATIENCE)
    return a, b, asker, errors


def answers(value: Any) -> Any:
    """A handler that returns this."""
    return lambda request: value


def double(request: glue.Request) -> Any:
    return request.payload * 2


@pytest.mark.parametrize("payload", [b"", b"x" * 100, b"y" * 200_000, "text", 7, [1, {"a": None}], 2.5])
def test_a_request_returns_what_the_handler_returns(lan: Lan, payload: Any) -> None:
    a, _ = served(lan, "echo/+", lambda request: request.payload)
    for _ in range(3):
        assert a.request("echo/x", payload) == payload


def test_a_handler_sees_topic_caller_and_payload(lan: Lan) -> None:
    seen: list[glue.Request] = []
    a, _ = served(lan, "light/+/set", seen.append)
    assert a.request("light/x/set", {"on": True}) is None
    (request,) = seen
    assert (request.topic, request.caller, request.payload) == ("light/x/set", "a", {"on": True})


def test_the_decorator_answers_and_gives_the_function_back(lan: Lan) -> None:
    a, b = lan.pair()

    @b.responder("twice")
    def twice(request: glue.Request) -> Any:
        return request.payload * 2

    assert callable(twice)
    assert a.wait_for_responders("twice", 1, PATIENCE)
    assert a.request("twice", 21) == 42
    assert a.responders("twice") == ["b"]


def test_each_question_and_answer_of_many_in_a_row_is_accounted_for_once(lan: Lan) -> None:
    a, _ = served(lan, "twice", double)
    assert [a.request("twice", number) for number in range(200)] == [2 * number for number in range(200)]
    assert (a.accounting.owed, a.accounting.arrived, a.accounting.received) == (200, 200, {"handled": 200})


def test_an_endpoint_may_ask_itself(lan: Lan) -> None:
    a = lan.start("a")
    a.respond("twice", double)
    assert a.request("twice", 4) == 8


def test_a_request_nobody_answers_fails_at_once(lan: Lan) -> None:
    a, _ = lan.pair()
    since = time.monotonic()
    with pytest.raises(glue.NoResponderError, match="'nobody'"):
        a.request("nobody", 1, timeout=PATIENCE)
    with pytest.raises(glue.NoResponderError):
        a.request_all("nobody", 1, timeout=PATIENCE)
    assert time.monotonic() - since < PATIENCE / 4


def test_what_a_handler_raises_is_told_without_paths(lan: Lan) -> None:
    def handler(request: glue.Request) -> Any:
        raise KeyError("no such lamp")

    a, _ = served(lan, "light", handler)
    with pytest.raises(glue.RemoteError) as caught:
        a.request("light", 1)
    error = caught.value
    assert (error.responder, error.kind, error.reason) == ("b", "KeyError", "'no such lamp'")
    assert str(error) == "b: KeyError: 'no such lamp'"


def test_an_answer_that_cannot_travel_is_an_error_at_the_caller(lan: Lan) -> None:
    a, _ = served(lan, "set", lambda request: {1, 2})
    with pytest.raises(glue.RemoteError, match="PayloadError"):
        a.request("set", 1)


def test_a_request_is_answered_later_by_another_thread(lan: Lan) -> None:
    threads: list[threading.Thread] = []

    def handler(request: glue.Request) -> None:
        request.later()
        threads.append(threading.Timer(0.02, request.reply, ["later"]))
        threads[-1].start()

    a, _ = served(lan, "slow", handler)
    assert a.request("slow", 1) == "later"
    assert a.request("slow", 2) == "later"
    for thread in threads:
        thread.join()


def test_a_request_is_answered_once(lan: Lan) -> None:
    seen: list[glue.Request] = []

    def handler(request: glue.Request) -> None:
        seen.append(request)
        request.later()
        request.fail("broken")

    a, _ = served(lan, "t", handler)
    with pytest.raises(glue.RemoteError, match="broken"):
        a.request("t", 1)
    with pytest.raises(glue.RequestError, match="answered already"):
        seen[0].reply(2)


def test_all_responders_answer_with_their_names(lan: Lan) -> None:
    a = lan.start("a")
    for name in ("b", "c", "d"):
        lan.start(name).respond("who", answers(name.upper()))
    assert a.wait_for_responders("who", 3, PATIENCE)
    replies = list(a.request_all("who", None))
    assert sorted((reply.responder, reply.payload) for reply in replies) == [("b", "B"), ("c", "C"), ("d", "D")]


def test_request_all_gives_the_error_of_one_and_the_answers_of_others(lan: Lan) -> None:
    a = lan.start("a")

    def fails(request: glue.Request) -> None:
        raise ValueError("no")

    lan.start("b").respond("who", fails)
    lan.start("c").respond("who", lambda request: request.later())
    lan.start("d").respond("who", double)
    assert a.wait_for_responders("who", 3, PATIENCE)
    found = {reply.responder: reply for reply in a.request_all("who", 2, timeout=0.3)}
    assert isinstance(found["b"].error, glue.RemoteError)
    assert isinstance(found["c"].error, glue.RequestTimeoutError)
    assert found["d"].payload == 4


def test_requests_go_to_responders_in_turns(lan: Lan) -> None:
    a = lan.start("a")
    for name in ("b", "c"):
        lan.start(name).respond("who", answers(name))
    assert a.wait_for_responders("who", 2, PATIENCE)
    assert {a.request("who", None) for _ in range(4)} == {"b", "c"}


def test_many_requests_are_answered_in_order(lan: Lan) -> None:
    a, _ = served(lan, "twice", double)
    replies = list(a.request_many("twice", range(1000), outstanding=64))
    assert [reply.payload for reply in replies] == [2 * number for number in range(1000)]


def test_a_request_that_is_not_answered_times_out_and_its_late_answer_is_dropped(lan: Lan) -> None:
    requests: list[glue.Request] = []

    def handler(request: glue.Request) -> Any:
        if request.payload:
            return "here"
        request.later()
        requests.append(request)
        return None

    a, b = served(lan, "t", handler)
    with pytest.raises(glue.RequestTimeoutError):
        a.request("t", 0, timeout=0.1)
    requests[0].reply("too late")  # the responder drops it, or the caller, whose time is over a little earlier
    assert a.request("t", 1) == "here"
    dropped = b.statistics["endpoint"]["answers too late"], a.statistics["endpoint"]["replies too late"]
    assert sum(dropped) == 1


def test_a_responder_that_closes_leaves_a_caller_that_is_told_at_once(lan: Lan) -> None:
    _, b, asker, errors = waiting(lan)
    since = time.monotonic()
    b.close()
    asker.join(PATIENCE)
    assert [type(error) for error in errors] == [glue.ResponderLostError]
    assert time.monotonic() - since < PATIENCE / 4


def test_a_retried_request_goes_to_another_responder(lan: Lan) -> None:
    a, b, c = lan.start("a"), lan.start("b"), lan.start("c")
    began = threading.Event()

    def never(request: glue.Request) -> None:
        request.later()
        began.set()

    b.respond("t", never)
    assert a.wait_for_responders("t", 1, PATIENCE)
    found: list[Any] = []
    asker = threading.Thread(target=lambda: found.append(a.request("t", 1, timeout=PATIENCE, retry=True)))
    asker.start()
    assert began.wait(PATIENCE)
    c.respond("t", lambda request: "c")
    b.close()
    asker.join(PATIENCE)
    assert found == ["c"]


def test_closing_the_caller_ends_its_requests(lan: Lan) -> None:
    a, _, asker, errors = waiting(lan)
    a.close()
    asker.join(PATIENCE)
    assert [type(error) for error in errors] == [glue.ClosedError]
    with pytest.raises(glue.ClosedError):
        a.request("t", 1)


def test_a_closed_responder_answers_no_more(lan: Lan) -> None:
    a, b = lan.pair()
    with b.respond("t", double):
        assert a.wait_for_responders("t", 1, PATIENCE)
        assert a.request("t", 1) == 2
    with pytest.raises(glue.NoResponderError):  # whether a heard of it or has to be refused
        a.request("t", 1)


def test_a_retried_request_acts_once(lan: Lan) -> None:
    acted: list[int] = []

    def handler(request: glue.Request) -> Any:
        acted.append(request.payload)
        time.sleep(1.5)  # it is repeated meanwhile
        return request.payload

    a, b = served(lan, "t", handler)
    assert a.request("t", 7, timeout=PATIENCE, retry=True) == 7
    assert acted == [7]
    assert a.request("t", 8, timeout=PATIENCE, retry=True) == 8
    assert acted == [7, 8]
    assert b.statistics["endpoint"]["requests received again"] >= 1


def test_forged_replies_and_requests_are_counted_and_dropped(lan: Lan) -> None:
    a, b = served(lan, "t", double)
    assert a.request("t", 1) == 2
    core_a, core_b = a._core, b._core
    requests = core_a.requests
    for payload in (b"", b"nonsense", b'{"id":12345}\nx', b'{"id":-1}\n', b"[]\n"):
        publication = core_b.requests.publication(
            f"$glue/reply/{requests.endpoint_id}/{requests.incarnation}", [payload]
        )
        b._running().publish((publication,), True)
        publication = requests.publication(f"$glue/request/{core_b.requests.endpoint_id}/t", [payload])
        a._running().publish((publication,), True)
    assert a.flush(PATIENCE)
    assert b.flush(PATIENCE)
    assert a.request("t", 2) == 4
    until = time.monotonic() + PATIENCE
    while a.statistics["endpoint"]["replies to unknown requests"] < 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert a.statistics["endpoint"]["malformed replies"] == 4
    assert b.statistics["endpoint"]["malformed requests"] == 5


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": "a/+"}, glue.TopicError),
        ({"topic": ""}, glue.TopicError),
        ({"topic": "$glue/x"}, glue.TopicError),
        ({"payload": {1, 2}}, glue.PayloadError),
        ({"payload": bytes(2000)}, glue.MessageTooLargeError),
        ({"timeout": 0}, glue.ConfigurationError),
        ({"timeout": -1.0}, glue.ConfigurationError),
        ({"timeout": float("nan")}, glue.ConfigurationError),
        ({"timeout": None}, glue.ConfigurationError),
        ({"timeout": 1e9}, glue.ConfigurationError),
    ],
)
def test_a_callers_mistake_raises(lan: Lan, arguments: dict[str, Any], error: type[Exception]) -> None:
    a = lan.start("a", message_limit=1000)
    a.respond("t", double)
    with pytest.raises(error):
        a.request(**{"topic": "t", "payload": 1, **arguments})
    with pytest.raises(error):
        a.request_all(**{"topic": "t", "payload": 1, **arguments})


def test_a_responders_mistake_raises(lan: Lan) -> None:
    a = lan.start("a")
    with pytest.raises(glue.TopicError):
        a.respond("a/#/b", double)
    with pytest.raises(glue.TopicError):
        a.respond("$glue/x", double)
    with pytest.raises(glue.ConfigurationError, match="handler"):
        a.respond("t", None)  # type: ignore[arg-type]

    async def handler(request: glue.Request) -> None: ...

    with pytest.raises(glue.ConfigurationError, match=r"glue\.aio"):
        a.respond("t", handler)
    with pytest.raises(glue.ConfigurationError, match="outstanding"):
        a.request_many("t", [], outstanding=0)


def test_an_endpoint_that_was_not_started_neither_asks_nor_answers(lan: Lan) -> None:
    a = lan.make("a")
    with pytest.raises(glue.ClosedError):
        a.respond("t", double)
    with pytest.raises(glue.ClosedError):
        a.request("t", 1)


def test_requests_from_many_threads_get_their_own_answers(lan: Lan) -> None:
    a, _ = served(lan, "twice", double)
    found: dict[int, list[int]] = {}

    def ask(start: int) -> None:
        found[start] = [a.request("twice", number, timeout=PATIENCE) for number in range(start, start + 100)]

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(0, 800, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {start: [2 * number for number in range(start, start + 100)] for start in range(0, 800, 100)}
