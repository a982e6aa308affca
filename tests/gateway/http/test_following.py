"""Streams that go on: from the log into the ring, by websocket, from a time on; and what is left when they end."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from glue.errors import ForbiddenError
from glue.gateway.http import sources, streaming
from glue.gateway.http.limits import Limits
from glue.gateway.http.places import Token, stream_key
from glue.gateway.http.sources import SETTLED, HistorySource, LogPart, TailSource
from glue.gateway.http.tail import Entry, Tail
from glue.gateway.http.tokens import EVERYTHING, Rights
from glue.storage import JSON, MemoryLog, Record
from tests.gateway.http.asked import Response, called, door, request
from tests.gateway.http.test_rings import message, opened
from tests.gateway.http.test_streaming import EVENTS, Socket, Source

KEY = stream_key("a" * 16, 1, "t")


def kept_door(*numbers: int) -> tuple[Any, Any, MemoryLog]:
    """A door that keeps `t`; its log has these messages."""
    network, feed = opened()
    log = MemoryLog("log")
    for number in numbers:
        log.append([Record("a" * 16, "kitchen", 1, "t", number, [b"%d" % number], 1e9, 0, JSON)])
    recent = SimpleNamespace(id="log", first=0, log=log)
    journal = SimpleNamespace(covers=lambda patterns: True, recent=recent, settled=0)
    return door(feed=feed, delivering=SimpleNamespace(journal=journal)), network, log


def told(events: Any) -> list[int]:
    return [json.loads(text)["payload"] for _, text in events or ()]


def test_a_client_gets_the_log_first_and_then_what_came_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        made, network, _ = kept_door(1, 2, 3)
        now = [1_000.0]
        monkeypatch.setattr(sources, "time", SimpleNamespace(monotonic=lambda: now[0]))
        made.feed.want(["t"])
        for number in (2, 3):
            network.publish("t", "t", number, number)
        source = TailSource(made, ["t"], Token("other", 9, "log", 0, KEY, 1).text, True)
        assert (source.is_lost, source._first) == (False, []), "no last values: it goes on"
        assert told(await source.get(0.0)) == [2, 3]
        network.publish("t", "t", 4, 4)
        assert told(await source.get(0.0)) == [4], "what the log had does not come again"
        assert await source.get(0.0) is None
        now[0] += SETTLED
        network.publish("t", "t", 3, 4, life=1)
        network.publish("t", "t", 5, 5)
        assert told(await source.get(0.0)) == [5]
        now[0] += 0.1
        network.publish("t", "t", 6, 6)
        assert told(await source.get(0.0)) == [6]
        assert source._seen == {}, "from here on nothing can come twice"
        assert await source.get(0.0) is None

    asyncio.run(program())


def test_what_the_log_had_is_passed_over_in_the_ring_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "TOGETHER", 1)

    async def program() -> None:
        made, network, _ = kept_door(1, 2, 3)
        made.feed.want(["t", "u"])
        for number in (1, 2, 3, 4):
            network.publish("t", "t", number, number)
            network.publish("u", "u", -number, number)
        source = TailSource(made, ["t", "u"], Token("other", 9, "log", 0).text, False)
        assert told(await source.get(0.0)) == [1, 2, 3]
        assert [told(await source.get(0.0)) for _ in range(5)] == [[-1], [-2], [-3], [4], [-4]]
        assert [await source.get(0.0) for _ in range(2)] == [None, None]

    asyncio.run(program())


def test_what_left_the_ring_while_the_log_was_read_was_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        made, network, log = kept_door(1)
        made.feed.want(["t"])
        source = TailSource(made, ["t"], Token("other", 9, "log", 0).text, False)
        assert told(await source.get(0.0)) == [1]
        made.feed.tail._limit = 1
        for number in (2, 3):
            log.append([Record("a" * 16, "kitchen", 1, "t", number, [b"%d" % number], 1e9, 0, JSON)])
            network.publish("t", "t", number, number)
        assert told(await source.get(0.0)) == [2, 3], "both are in the log"
        network.publish("t", "t", 4, 4)
        assert (told(await source.get(0.0)), source.take_missed()) == ([4], 0)

    asyncio.run(program())


def test_each_message_of_the_log_comes_once_however_little_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "READ_SIZE", 1)
    _, _, log = kept_door(*range(1, 6))
    part = LogPart(log, ["t"], Token("other", 9, "log", 0))
    assert [told(part._read()) for _ in range(6)] == [[1], [2], [3], [4], [5], []]
    monkeypatch.setattr(sources, "STREAMS", 2)
    other = MemoryLog("log")
    for topic in "abc":
        other.append([Record("a" * 16, "kitchen", 1, topic, 1, [b"1"], 1e9, 0, JSON)])
    part = LogPart(other, ["+"], Token("other", 9, "log", 0))
    lengths = []
    while part._read():
        lengths.append(len(part.seen))
    assert lengths == [2, 2, 2]
    assert [*part.seen] == [stream_key("a" * 16, 1, topic) for topic in "bc"]


def test_a_stream_that_ends_is_woken_no_more_and_its_patterns_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        made, network, _ = kept_door()
        released: list[list[str]] = []
        source = TailSource(made, ["t"], None, False)
        assert await source.get(0.0) is None
        monkeypatch.setattr(made.feed, "release", released.append)
        source.close()
        network.publish("t", "t", 1)
        assert not source._event.is_set()
        assert released == [["t"]]

    asyncio.run(program())


def test_a_reader_of_several_patterns_gets_what_any_of_them_matches() -> None:
    tail = Tail("door", 1 << 20)
    place = tail.open(["a", "b/#"], None, lambda: None)
    for topic in ("a", "c", "b/c"):
        tail.append(Entry(topic, b"{}"))
    assert [entry.topic for _, entry in tail.read(place, 9)] == ["a", "b/c"]
    assert Entry("a", b"") == Entry("a", b"", "", 0, 0)


def test_history_has_its_time_and_leaves_nothing_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        asked: list[float] = []

        def subscribe(pattern: str, start: Any) -> Any:
            asked.append(start.timestamp())
            return SimpleNamespace(get=queue.get, close=lambda: None)

        now = [1_000.0]
        clock = SimpleNamespace(time=lambda: 2e9 + now[0], monotonic=lambda: now[0])
        monkeypatch.setattr(sources, "time", clock)
        made = door(endpoint=SimpleNamespace(subscribe=subscribe))
        source = HistorySource(made, ["t"], 3e9)
        assert asked == [pytest.approx(2e9 + 1_000 - 1e-3, abs=1e-5)], "the future is now"
        ids = []
        for after, seconds in ((0.0, 1e-9), (SETTLED, 0.5), (SETTLED + 1.0, 0.5), (0.0, 0.5)):
            now[0] += after
            queue.put_nowait(message("t", 1))
            ((id, _),) = await source.get(seconds) or []
            ids.append(float(id.removeprefix("t.")))
        begin = 2e9 + 1_000 - 1e-3
        assert ids == pytest.approx([begin, begin, 2e9 + 1_000, 2e9 + 1_000], abs=1e-5)
        waiting = asyncio.create_task(source.get(10.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        source.close()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(program())


def test_history_of_which_a_part_is_refused_leaves_no_subscription_that_nobody_reads() -> None:
    opened: list[str] = []

    def subscribe(pattern: str, start: Any) -> Any:
        if pattern.startswith("$model/"):
            raise ForbiddenError(f"door may not subscribe to {pattern!r}")
        opened.append(pattern)
        return SimpleNamespace(close=lambda: opened.remove(pattern))

    made = door(endpoint=SimpleNamespace(subscribe=subscribe))
    with pytest.raises(ForbiddenError, match="plant"):
        HistorySource(made, ["a", "b", "$model/plant/a"], 1e9)
    assert opened == [], "publishers would wait for its reader"


# ------------------------------------------------------------------------------------------------------ websockets


class Patient(Socket):
    """A websocket whose client says something, and then waits until it is closed or has got enough."""

    def __init__(self, *said: Any, enough: int = 99) -> None:
        super().__init__(*said)
        self._enough = enough
        self.prepared: list[Any] = []

    async def prepare(self, asked: Any) -> None:
        self.prepared.append(asked)

    async def __anext__(self) -> Any:
        if self._said:
            return await super().__anext__()
        while not self.closed and len(self.sent) < self._enough:
            await asyncio.sleep(0)
        raise StopAsyncIteration


class Endless(Source):
    """A source that has no more to give."""

    async def get(self, timeout: float) -> Any:
        if not self._given:
            await asyncio.Event().wait()
        return await super().get(timeout)


def spoken(monkeypatch: pytest.MonkeyPatch, made: Any, socket: Patient, source: Source, rights: Rights) -> list[Any]:
    """What a client is sent; nothing runs on after it."""
    monkeypatch.setattr(web, "WebSocketResponse", lambda **options: socket)
    asked, given = request(upgrade="websocket"), list[Any]()

    def source_of(*more: Any) -> Source:
        given.append(more)
        return source

    monkeypatch.setattr(streaming, "source_of", source_of)

    async def program() -> None:
        async with asyncio.timeout(20.0):
            response: Any = await streaming.stream(made, rights, asked, ["t/#"])
        assert response is socket
        assert asyncio.all_tasks() == {asyncio.current_task()}, "no writer is left"

    asyncio.run(program())
    assert given == [(made, asked, ["t/#"])]
    assert (socket.prepared, source.is_closed, made.streams) == ([asked], True, 0)
    return socket.sent


def test_a_websocket_goes_on_through_quiet_times(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Endless(None, EVENTS, None, EVENTS[1:])
    sent = spoken(monkeypatch, door(), Patient(enough=3), source, EVERYTHING)
    assert sent == [{"id": "ring.6", "topic": "t"}, {"topic": "u"}, {"topic": "u"}]


def test_a_websocket_is_refused_patterns_that_are_none_and_told_when_one_is_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = door()
    opened: list[Any] = []
    more: list[Source] = []

    class More(Endless):
        async def get(self, timeout: float) -> Any:
            made.rights_revision, made.access.rights = 1, lambda *_: Rights("x", (), ("t/#", "v"))
            return []

    def tail(*asked: Any) -> Source:
        opened.append(asked[1:])
        more.append(More())
        return more[-1]

    monkeypatch.setattr(streaming, "TailSource", tail)
    socket = Patient({"subscribe": "a/#/b"}, {"subscribe": "u"})
    sent = spoken(monkeypatch, made, socket, Endless(), EVERYTHING)
    assert (sent[0]["status"], opened) == (400, [(["u"], None, False)])
    assert sent[1:] == [{"event": "refused", "reason": (
        "client 'x' may no longer read 'u': no subscribe pattern of its token covers it"
    )}]  # fmt: skip
    assert [code for code, _ in socket.closes] == [1008]
    assert [one.is_closed for one in more] == [True]


def test_a_stream_too_many_is_refused_and_an_answer_is_prepared_for_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = door(Limits(streams=2))
    full.streams = 2
    monkeypatch.setattr(streaming, "source_of", lambda *told: Source(None))
    asked = request(accept="application/x-ndjson")

    async def stream(made: Any, rights: Rights, asked: Any) -> Any:
        return await streaming.stream(made, rights, asked, ["t"])

    assert called(stream, full, asked) == (503, "there are 2 streams already")
    assert full.streams == 2
    full.streams = 1
    monkeypatch.setattr(web, "StreamResponse", Response)
    response = asyncio.run(stream(full, EVERYTHING, asked))
    assert (response.asked, response.written, full.streams) == (asked, [b"\n"], 1)


def test_a_stream_that_cannot_begin_where_it_is_asked_to_takes_no_place_of_others() -> None:
    made = door(Limits(streams=1))

    async def stream(made: Any, rights: Rights, asked: Any) -> Any:
        return await streaming.stream(made, rights, asked, ["t"])

    for _ in range(2):
        status, words = called(stream, made, request(accept="application/x-ndjson", query=[("since", "never")]))
        assert (status, words) == (400, "since='never': expected such as 10m, 2h, or a time as ISO 8601")
    assert made.streams == 0
