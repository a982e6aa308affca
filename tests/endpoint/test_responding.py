"""What a responder makes of each request, blocking and asyncio, without a network."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
from glue.aio import requests as aio_requests
from glue.aio.requests import Responder as AioResponder
from glue.contract import Delivery
from glue.endpoint.request import CURRENT, Request
from glue.endpoint.requests import Requests
from glue.requests.wire import GONE, decode_reply, encode_requests, extra_of, reply_topic, request_topic, tail_of
from glue.sync.responder import Responder

CALLER, ME = "c" * 16, "e" * 16
TOPIC = request_topic(ME, "t/1")


def request(id: int, payload: Any = None, within: float = 5.0, retry: bool = False, path: Any = ()) -> bytes:
    """A request as it travels."""
    body = tail_of(orjson.dumps(payload), True) if payload is not None else tail_of(b"x", False)
    (found,) = encode_requests(id, within, extra_of(retry, path), [body])
    return found


class Side:
    """A responder to "t/+" with what it publishes and counts."""

    kind: Any = Responder

    def __init__(self, handler: Callable[[Any], Any], limit: int = 1000) -> None:
        self.now = 100.0
        self.statistics: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()
        self.published: list[tuple[str, list[bytes]]] = []
        self.peers: dict[str, Any] = {CALLER: SimpleNamespace(name="caller", incarnation=1)}
        identity = SimpleNamespace(name="me", endpoint_id=ME, incarnation=7)
        self.requests = Requests(identity, self.peers, self.statistics)
        self.requests.use_clocks(lambda: self.now, lambda: 5000.0)
        owner: Any = SimpleNamespace(
            settled=lambda outcome, count: self.counted.update({outcome: count}),
            handled=lambda delivery: self.counted.update(done=1), keep=lambda delivery: self.counted.update(kept=1),
            failed=lambda: self.counted.update(failed=1),
        )  # fmt: skip
        driver: Any = SimpleNamespace(
            replier=0, publish=self.publish, expect_answer=lambda: None, order=lambda one: self.publish([one], True)
        )
        self.closed: list[Any] = []
        self.responder = self.kind("t/+", handler, self.requests, owner, limit, driver, self.closed.append)

    def publish(self, publications: Any, block: bool) -> None:
        for one in publications:
            self.published.append((one.topic, one.payloads))

    def ask(self, *payloads: Any, life: int = 1, tokens: Any = None, age: float = 0.0) -> None:
        found = Delivery(TOPIC, [*payloads], None, "caller", CALLER, life, 1, 0.0, False, tokens or (self.responder,))
        if age:
            found.age = age
        self.responder._deliver(found)

    def replies(self) -> list[tuple[int, Any]]:
        """Ids with answers, errors or refusals since the last look."""
        found: list[tuple[int, Any]] = []
        for topic, payloads in self.published:
            assert topic == reply_topic(CALLER, 1)
            for payload in payloads:
                head, body = decode_reply(payload)
                answer = orjson.loads(body) if head.is_json else body
                told = f"{head.error}: {head.message}" if head.error else head.refused or answer
                found.append((head.id, told))
        self.published.clear()
        return found


class AioSide(Side):
    kind = AioResponder


@pytest.fixture(params=[Side, AioSide])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], None]], None]:
    """Runs a test with one kind of side, where asyncio's has its loop."""

    def run(test: Callable[[Any], None]) -> None:
        async def main() -> None:
            test(request.param)

        asyncio.run(main())

    return run


Run = Callable[[Callable[[Any], None]], None]


def test_requests_of_a_delivery_are_answered_together(run: Run) -> None:
    def test(make: Any) -> None:
        got: list[Any] = []

        def handle(one: Request) -> Any:
            assert CURRENT.get() is one
            got.append((one.topic, one.payload, one.caller, one.caller_id, one.id, one.expires, one.is_repeatable))
            return one.payload

        side = make(handle)
        side.ask(request(1, {"a": 1}), request(2), request(3, [2], retry=True), age=2.0)
        assert side.published[0][0] == reply_topic(CALLER, 1)
        assert len(side.published) == 1
        assert side.replies() == [(1, {"a": 1}), (2, b"x"), (3, [2])]
        assert got == [
            ("t/1", {"a": 1}, "caller", CALLER, 1, 103.0, False), ("t/1", b"x", "caller", CALLER, 2, 103.0, False),
            ("t/1", [2], "caller", CALLER, 3, 103.0, True),
        ]  # fmt: skip
        assert CURRENT.get() is None
        assert side.counted["handled"] == 3
        assert side.counted["failed"] == 0

    run(test)


def test_what_is_malformed_late_or_for_another_is_not_handled(run: Run) -> None:
    def test(make: Any) -> None:
        got: list[Any] = []
        side = make(got.append)
        side.ask(b"nonsense", "text", request(1, within=1.0), request(2, 5), age=1.0)
        assert side.statistics == {"malformed requests": 2, "requests expired": 1}
        assert [one.id for one in got] == [2]
        assert side.replies() == [(2, None)]
        first, second = SimpleNamespace(is_closed=True), SimpleNamespace(is_closed=False)
        side.ask(request(3), tokens=(first, second, side.responder))
        assert (len(got), side.replies()) == (1, [])
        side.ask(request(4), tokens=(first, side.responder, second))
        assert [one.id for one in got] == [2, 4]
        side.responder.is_closed = True
        side.ask(request(5), tokens=(side.responder, first))
        side.ask(request(6), tokens=(first, side.responder))
        assert side.replies() == [(4, None), (5, GONE)]
        assert side.statistics["requests refused: no responder"] == 1
        side.ask(request(7))
        assert side.statistics["requests refused: no responder"] == 2
        assert side.replies() == [(7, GONE)]
        assert len(got) == 2

    run(test)


def test_a_repeated_request_is_handled_once(run: Run) -> None:
    def test(make: Any) -> None:
        got: list[Any] = []

        def handle(one: Any) -> Any:
            got.append(one)
            one.later()

        side = make(handle)
        side.ask(request(1, retry=True), request(1, retry=True))
        assert (len(got), side.replies()) == (1, [])
        got[0].reply("answer")
        assert side.replies() == [(1, "answer")]
        side.ask(request(1, retry=True))
        assert side.replies() == [(1, "answer")]
        assert len(got) == 1
        side.now = 200.0
        side.ask(request(2))
        side.now = 206.0
        got[1].reply("late")
        assert side.replies() == []
        assert side.statistics["answers too late"] == 1

    run(test)


def test_errors_and_answers_that_cannot_travel_are_told(run: Run) -> None:
    def test(make: Any) -> None:
        class MuteError(Exception):
            def __str__(self) -> str:
                raise ValueError

        def handle(one: Any) -> Any:
            match one.payload:
                case "raise":
                    raise KeyError("k")
                case "mute":
                    raise MuteError
                case "object":
                    return object()
                case "large":
                    return bytes(1001)
                case "fits":
                    return bytes(1000)
                case "reply":
                    one.reply("first")
                    return "second"
                case "fail":
                    one.later()
                    with pytest.raises(glue.PayloadError):
                        one.reply(object())
                    one.fail("as text")
                    with pytest.raises(glue.RequestError, match="is answered already; a request has one answer"):
                        one.fail(KeyError("again"))
            return None

        side = make(handle)
        for number, word in enumerate(("raise", "mute", "object", "large", "fits", "reply", "fail")):
            side.ask(request(number, word))
        found = dict(side.replies())
        assert (found[0], found[1]) == ("KeyError: 'k'", "MuteError: ")
        assert found[2].startswith("PayloadError: ")
        assert found[3] == "MessageTooLargeError: an answer of 1001 bytes; message_limit is 1000"
        assert (found[4], found[5], found[6]) == (bytes(1000), "first", "RequestError: as text")
        assert side.counted["failed"] == 4

    run(test)


def test_a_responder_is_closed_by_its_owner_and_drops_what_is_no_request(run: Run) -> None:
    def test(make: Any) -> None:
        side = make(lambda one: None)
        side.responder.close()
        assert side.closed == [side.responder]
        assert repr(side.responder) == "<Responder 't/+'>"
        side.responder.announcement._deliver(Delivery("x", [1, 2], None, "", CALLER, 1, 1, 0.0, False, ()))
        assert side.statistics == {"messages to responders that are no requests": 2}
        assert side.counted["unread"] == 2
        assert side.counted["done"] == (1 if make is AioSide else 0)

    run(test)


def test_the_path_of_a_request_grows_by_this_responder(run: Run) -> None:
    def test(make: Any) -> None:
        got: list[Any] = []
        side = make(lambda one: got.append(one.path))
        side.ask(request(1), request(2, path=((CALLER, "caller", "u"),)))
        me = (ME, "me", "t/+")
        assert [[tuple(hop) for hop in path] for path in got] == [[me], [(CALLER, "caller", "u"), me]]

    run(test)


# --------------------------------------------------------------------------------------------------------- threads


def test_requests_that_come_while_a_handler_is_at_work_wait_unless_their_caller_left() -> None:
    began, gate = threading.Event(), threading.Event()
    got: list[Any] = []

    def handle(one: Any) -> None:
        got.append(one.id)
        began.set()
        assert gate.wait(10.0)

    side = Side(handle)
    thread = threading.Thread(target=side.ask, args=(request(1),))
    thread.start()
    assert began.wait(10.0)
    side.ask(request(2))
    side.ask(request(3), life=2)
    assert (got, side.counted) == ([1], {"kept": 2})
    gate.set()
    thread.join(10.0)
    assert got == [1, 2]
    assert side.statistics == {"requests of callers that left": 1}
    assert side.counted == {"kept": 2, "handled": 2, "unread": 1, "done": 2}
    with side.responder as same:
        assert same is side.responder
    assert side.closed == [side.responder]


def test_answers_that_take_longer_leave_one_by_one() -> None:
    def handle(one: Any) -> int:
        side.now += 0.0004 if one.id < 4 else 0.002
        return one.id  # type: ignore[no-any-return]

    side = Side(handle)
    side.ask(*(request(number) for number in range(1, 6)))
    assert [len(payloads) for _, payloads in side.published] == [3, 1, 1]
    assert [answer for _, answer in side.replies()] == [1, 2, 3, 4, 5]


# ------------------------------------------------------------------------------------------------------------- loop


def test_so_many_coroutines_of_a_responder_are_at_work_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        assert aio_requests.SIDE_BY_SIDE == 64
        monkeypatch.setattr(aio_requests, "SIDE_BY_SIDE", 2)
        gate, got = asyncio.Event(), list[int]()

        async def handle(one: Any) -> Any:
            got.append(one.id)
            await gate.wait()
            if one.id == 2:
                raise KeyError("k")
            return one.id

        side = AioSide(handle)
        side.ask(request(1), request(2), request(3))
        side.ask(request(4))
        await asyncio.sleep(0)
        assert (got, side.counted["handled"]) == ([1, 2], 0)
        gate.set()
        for _ in range(10):
            await asyncio.sleep(0)
        assert got == [1, 2, 3, 4]
        assert sorted(side.replies(), key=str) == [(1, 1), (2, "KeyError: 'k'"), (3, 3), (4, 4)]
        assert (side.counted["handled"], side.counted["done"]) == (4, 2)

    asyncio.run(main())


def test_a_cancelled_coroutine_tells_its_caller_and_is_no_failure() -> None:
    async def main() -> None:
        async def handle(one: Any) -> None:
            await asyncio.sleep(100)

        side = AioSide(handle)
        side.ask(request(1), request(2))
        await asyncio.sleep(0)
        first, second = side.responder._tasks
        for task in (first, second):
            task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert first.cancelled()
        assert sorted(side.replies()) == [(1, "CancelledError: "), (2, "CancelledError: ")]
        assert side.counted["failed"] == 0

    asyncio.run(main())


def test_requests_that_come_while_a_function_of_the_loop_is_called_wait_for_their_turn() -> None:
    async def main() -> None:
        got: list[Any] = []

        def handle(one: Request) -> Any:
            got.append(one.payload)
            if one.payload == "a":
                side.ask(request(3, "c"))
            return one.payload

        side = AioSide(handle)
        side.ask(request(1, "a"), request(2, "b"))
        assert got == ["a", "b", "c"]
        assert (side.replies(), side.counted) == ([(1, "a"), (2, "b"), (3, "c")], {"handled": 3, "done": 2})

    asyncio.run(main())


def test_requests_of_a_caller_that_left_while_they_waited_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(aio_requests, "SIDE_BY_SIDE", 1)
        gate, got = asyncio.Event(), list[int]()

        async def handle(one: Any) -> None:
            got.append(one.id)
            await gate.wait()

        side = AioSide(handle)
        side.ask(request(1))
        side.ask(request(2))
        await asyncio.sleep(0)
        side.peers.clear()
        gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (got, side.counted["done"]) == ([1], 2)

    asyncio.run(main())


def test_an_answer_from_another_thread_is_sent_by_the_loop() -> None:
    async def main() -> None:
        got: list[Any] = []

        def handle(one: Any) -> None:
            one.later()
            got.append(one)

        side = AioSide(handle)
        side.ask(request(1), request(2))
        await asyncio.to_thread(got[0].reply, "from a thread")
        await asyncio.sleep(0)
        assert side.replies() == [(1, "from a thread")]
        async with side.responder:
            pass
        assert side.closed == [side.responder]

    asyncio.run(main())
