"""How requests leave, wait and end, blocking and asyncio, with a driver that answers as the test says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import glue
import glue.aio
from glue.aio.requests import Gate as AioGate
from glue.contract import Delivery, Subscribe
from glue.endpoint.message import Peer
from glue.endpoint.owner import OwnerFunctions
from glue.requests.wire import decode_request, encode_reply, reply_topic, request_topic, tail_of
from glue.sync.requests import Gate, gathered

B, C = "b" * 16, "c" * 16


class Driver:
    """A driver that answers so many requests each time that the caller waits."""

    closed = False

    def __init__(self, endpoint: Any, is_aio: bool) -> None:
        self._endpoint = endpoint
        self._is_aio = is_aio
        self.sent: list[list[int]] = []
        self.open: list[tuple[str, int, Any]] = []
        self.most = 0
        self.at_once = 1
        self.fails: list[Exception] = []
        self.asked: list[Any] = []
        self.waits = 0

    def ask(self, publication: Any, replies: Any, is_over: Any) -> bool:
        return False

    def await_answers(self, replies: Any, is_over: Any) -> None:
        pass

    def answered(self) -> None:
        pass

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append(request)

    def wait_until(self, condition: Any, timeout: float | None) -> bool:
        self.waits += 1
        return True

    def publish(self, publications: Any, block: bool = True) -> Any:
        if self.fails:
            raise self.fails.pop(0)
        for one in publications:
            ids = []
            for payload in one.payloads:
                head, body = decode_request(payload)
                ids.append(head.id)
                responder = B if one.topic == request_topic(B, "t") else C
                self.open.append((responder, head.id, body))
            self.sent.append(ids)
        self.most = max(self.most, len(self.open))
        return self._done() if self._is_aio else None

    async def _done(self) -> None:
        pass

    def answer(self) -> None:
        """Answer the oldest open requests."""
        requests = self._endpoint._core.requests
        for responder, id, body in self.open[: self.at_once]:
            topic = reply_topic(requests.endpoint_id, requests.incarnation)
            reply = encode_reply(id, tail_of(body, False))
            requests.take(Delivery(topic, [reply], None, "b", responder, 1, 1, 0.0, False, ()))
        del self.open[: self.at_once]

    def wait_for(self, gate: Any, timeout: float) -> bool:
        self.answer()
        return bool(gate.wait(0.0))


@pytest.fixture(params=[glue.Endpoint, glue.aio.Endpoint])
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    is_aio = request.param is glue.aio.Endpoint
    made = request.param("a")
    made._driver, made._owner = Driver(made, is_aio), OwnerFunctions(*[lambda *_: None] * 6)
    for id, name in ((B, "b"), (C, "c")):
        made._core.peers[id] = Peer(name, id, 1, ("::1", 5))
    made._core.requests.directory.add(B, "t")
    if is_aio:
        from glue.aio.requests import Gate

        wait = Gate.wait

        async def answered(self: Any, timeout: float) -> bool:
            made._driver.answer()
            return await wait(self, timeout)

        monkeypatch.setattr(Gate, "wait", answered)
    return made


def do(call: Callable[[], Any]) -> Any:
    """The result of a call, or all items of an iterator, of either kind."""

    async def main() -> Any:
        found = call()
        if hasattr(found, "__anext__"):
            return [one async for one in found]
        if hasattr(found, "__next__"):
            return [*found]
        return await found if inspect.isawaitable(found) else found

    return asyncio.run(main())


def test_a_request_is_sent_and_its_answer_returned(endpoint: Any) -> None:
    driver = endpoint._driver
    assert do(lambda: endpoint.request("t", b"x")) == b"x"
    (asked,) = driver.asked
    assert isinstance(asked, Subscribe)
    assert do(lambda: endpoint.request("t", b"y")) == b"y"
    assert (len(driver.asked), len(driver.sent)) == (1, 2)
    with pytest.raises(glue.NoResponderError):
        do(lambda: endpoint.request("u", b"x"))


@pytest.mark.parametrize(("outstanding", "most", "sizes"), [
    (5, 4, [2, 2, 2, 1]), (4, 4, [2, 2, 2, 1]), (1, 1, [1] * 7), (2, 2, [1] * 7), (100, 7, [7]),
])  # fmt: skip
def test_many_requests_leave_in_halves_of_what_may_be_outstanding(
    endpoint: Any, outstanding: int, most: int, sizes: list[int]
) -> None:
    driver = endpoint._driver
    driver.at_once = 99
    payloads = [bytes([number]) for number in range(7)]
    replies = do(lambda: endpoint.request_many("t", iter(payloads), outstanding=outstanding))
    assert [reply.payload for reply in replies] == payloads
    assert [len(ids) for ids in driver.sent] == sizes
    assert driver.most == most
    assert driver.open == []


def test_who_stops_reading_waits_for_nothing_more(endpoint: Any) -> None:
    requests = endpoint._core.requests

    async def main() -> None:
        stream = endpoint.request_many("t", [b"1", b"2", b"3"], outstanding=2)
        if hasattr(stream, "__anext__"):
            assert (await anext(stream)).payload == b"1"
            await stream.aclose()
        else:
            assert next(stream).payload == b"1"
            stream.close()

    asyncio.run(main())
    before = requests.statistics.copy()
    endpoint._driver.answer()
    assert requests.statistics.total() == before.total() + 1  # its answer is to nothing that is known


def test_all_responders_are_asked_and_what_cannot_be_sent_is_dropped(endpoint: Any) -> None:
    driver, requests = endpoint._driver, endpoint._core.requests
    requests.directory.add(C, "t")
    replies = do(lambda: endpoint.request_all("t", b"x"))
    assert sorted(reply.responder_id for reply in replies) == [B, C]
    assert [reply.payload for reply in replies] == [b"x", b"x"]
    driver.fails = [ValueError("no")]
    for call in (lambda: endpoint.request_all("t", b"x"), lambda: endpoint.request("t", b"x")):
        driver.fails = [ValueError("no")]
        with pytest.raises(ValueError, match="no"):
            do(call)
    assert len(requests._requester) == 0


def test_a_request_waits_for_room_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint: Any = glue.Endpoint("a")
    driver = endpoint._driver = Driver(endpoint, False)
    endpoint._owner = OwnerFunctions(*[lambda *_: None] * 6)
    endpoint._core.requests.directory.add(B, "t")
    driver.fails = [glue.WouldBlockError("full")] * 2
    assert endpoint.request("t", b"x") == b"x"
    assert driver.waits == 2
    driver.fails = [glue.WouldBlockError("full")] * 1_000_000
    with pytest.raises(glue.RequestTimeoutError) as caught:
        endpoint.request("t", b"x", timeout=0.001)
    assert str(caught.value) == "the request was not sent in time: full"


@pytest.fixture
def threaded() -> Any:
    """A blocking endpoint that knows one responder of "t"."""
    made: Any = glue.Endpoint("a", queue_limit=100_001)
    made._driver, made._owner = Driver(made, False), OwnerFunctions(*[lambda *_: None] * 6)
    made._core.requests.directory.add(B, "t")
    return made


def test_a_full_queue_is_looked_at_twenty_times_a_second_until_half_of_it_is_free(
    threaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, now, waits = threaded._driver, [100.0], list[Any]()

    def wait_until(condition: Any, timeout: float) -> bool:
        rooms = []
        for backlog in (50_000, 50_001):
            monkeypatch.setattr(type(threaded._core), "backlog", backlog)
            rooms.append(condition())
        waits.append((round(timeout, 6), rooms))
        now[0] += timeout
        return True

    monkeypatch.setattr("glue.sync.requests.time.monotonic", lambda: now[0])
    driver.wait_until, driver.fails = wait_until, [glue.WouldBlockError("full")] * 9
    with pytest.raises(glue.RequestTimeoutError, match=r"^the request was not sent in time: full$"):
        threaded._send("publication", 100.12)
    assert waits == [(0.05, [True, False]), (0.05, [True, False]), (0.02, [True, False])]
    assert len(driver.fails) == 5


def test_with_asyncio_a_request_waits_for_room_until_its_time_is_over_too() -> None:
    endpoint: Any = glue.aio.Endpoint("a")
    driver = endpoint._driver = Driver(endpoint, True)
    endpoint._owner = OwnerFunctions(*[lambda *_: None] * 6)
    endpoint._core.requests.directory.add(B, "t")

    async def full(publications: Any) -> None:
        await asyncio.Event().wait()

    driver.publish = full  # type: ignore[method-assign,assignment]
    with pytest.raises(glue.RequestTimeoutError) as caught:
        do(lambda: endpoint.request("t", b"x", timeout=0.001))
    assert str(caught.value) == "the request was not sent in time: the queue is full"
    assert len(endpoint._core.requests._requester) == 0


def test_who_is_interrupted_as_it_waits_for_an_answer_waits_no_more(endpoint: Any, monkeypatch: Any) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    if isinstance(endpoint, glue.aio.Endpoint):
        monkeypatch.setattr("glue.aio.requests.Gate.wait", interrupted)
    else:
        endpoint._driver.wait_for = interrupted
    requests: list[Callable[[], Any]] = [
        lambda: endpoint.request("t", b"x"), lambda: endpoint.request_all("t", b"x"),
        lambda: endpoint.request_many("t", [b"x", b"y"]),
    ]  # fmt: skip
    for request in requests:
        with pytest.raises(KeyboardInterrupt):
            do(request)
        assert len(endpoint._core.requests._requester) == 0


def test_what_nobody_answers_in_time_is_told_at_its_time(endpoint: Any) -> None:
    endpoint._driver.at_once = 0
    with pytest.raises(glue.RequestTimeoutError):
        do(lambda: endpoint.request("t", b"x", timeout=0.001))
    (reply,) = do(lambda: endpoint.request_many("t", [b"x"], timeout=0.001))
    assert isinstance(reply.error, glue.RequestTimeoutError)


def test_an_address_is_asked_as_a_receiver(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask(self: Any, *given: Any) -> Any:
        asked.append(given)
        return endpoint._driver._done() if isinstance(self, glue.aio.Endpoint) else None

    monkeypatch.setattr(type(endpoint), "ask", ask)
    do(lambda: endpoint.request("s:sum/x", 5, 2.5))
    assert asked == [("s:sum/x", 5, 2.5)]


def test_a_slow_source_is_gathered_for_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("glue.sync.requests.time.monotonic", lambda: now[0])

    def source(*pauses: float) -> Any:
        for number, pause in enumerate(pauses):
            now[0] += pause
            yield number

    assert gathered(source(5.0, 0.0004, 0.0005, 0.0003, 0.0), 99) == [0, 1, 2, 3]  # all that a millisecond gives
    assert gathered(source(0.0, 0.0, 0.0, 0.0), 3) == [0, 1, 2]
    assert gathered(source(5.0), 1) == [0]
    assert gathered(source(), 9) == []


def test_a_gate_opens_for_one_wait_however_many_calls_have_ended() -> None:
    gate: Any = Gate()
    assert not gate.wait(0.0)
    gate.ended("call")
    gate.ended("call")
    assert gate.wait(float("inf"))
    assert not gate.wait(0.0)

    async def main() -> None:
        gate: Any = AioGate()
        assert await gate.wait(0.0) is False
        gate.ended("call")
        gate.ended("call")
        assert await gate.wait(9.0) is True
        assert await gate.wait(0.0) is False

    asyncio.run(main())
