"""Streams line by line and by websocket: what is written, in which order, and how each ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import WSCloseCode, WSMsgType, web

from glue.errors import StorageError
from glue.gateway.http import sources, streaming
from glue.gateway.http.clients import Permit
from glue.gateway.http.limits import Limits
from glue.gateway.http.sources import HistorySource, TailSource, source_of
from glue.gateway.http.tokens import EVERYTHING, Rights
from glue.storage import MemoryLog
from tests.gateway.http.asked import Response, door, request
from tests.gateway.http.test_rings import message, opened


class Source:
    """A source that gives what it is told to, and then ends with an error."""

    position, is_lost = "ring.5", False

    def __init__(self, *given: Any, missed: dict[int, int] | None = None) -> None:
        self._given, self._missed, self.waited, self.is_closed = list(given), missed or {}, list[float](), False

    async def get(self, timeout: float) -> Any:
        self.waited.append(timeout)
        if not self._given:
            raise StorageError("the disk is gone")
        return self._given.pop(0)

    def take_missed(self) -> int:
        return self._missed.get(len(self.waited), 0)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A door whose answers are noted."""
    monkeypatch.setattr(web, "StreamResponse", Response)
    made = door(Limits(ping=7.0))
    yield made
    assert made.streams == 0


def streamed(made: Any, source: Source, monkeypatch: pytest.MonkeyPatch, accept: str) -> tuple[Any, Any]:
    asked = request(accept=accept)
    monkeypatch.setattr(streaming, "source_of", lambda *told: source)
    response: Any = asyncio.run(streaming.stream(made, EVERYTHING, asked, ["t/#"]))
    assert source.is_closed
    return response, asked


EVENTS = [("ring.6", b'{"topic":"t"}'), ("", b'{"topic":"u"}')]


def test_server_sent_events_have_ids_signs_of_life_and_what_was_missed(
    made: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(EVENTS, None, EVENTS[:1], missed={3: 4})
    source.is_lost = True
    response, asked = streamed(made, source, monkeypatch, "text/event-stream")
    assert b"".join(response.written).decode() == (
        "retry: 1000\n\nid: ring.5\nevent: ready\ndata: {}\n\n"
        'event: missed\ndata: {"messages":null,"reason":"the id is too old, or of another door or life of it"}\n\n'
        'id: ring.6\ndata: {"topic":"t"}\n\ndata: {"topic":"u"}\n\n'
        ": ping\n\n"
        'event: missed\ndata: {"messages":4,"reason":"read too slowly"}\n\n'
        'id: ring.6\ndata: {"topic":"t"}\n\n'
    )
    assert response.headers == {"cache-control": "no-store", "x-accel-buffering": "no", "x-glue-position": "ring.5"}
    assert (response.content_type, source.waited) == ("text/event-stream", [7.0] * 4)
    assert asked.transport.is_cut, "an answer that has begun cannot tell of an error"
    assert caplog.messages == ["a stream failed: the disk is gone"]


def test_lines_of_json_have_their_ids_within(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(EVENTS, None, EVENTS[1:], missed={3: 4})
    response, _ = streamed(made, source, monkeypatch, "application/x-ndjson")
    assert b"".join(response.written).decode() == (
        '{"id":"ring.6","topic":"t"}\n{"topic":"u"}\n\n'
        '{"event":"missed","messages":4,"reason":"read too slowly"}\n{"topic":"u"}\n'
    )
    assert response.content_type == "application/x-ndjson"


@pytest.mark.parametrize(("stuck", "count"), [(1, 1), (2, 2), (3, 3)])
def test_a_stream_ends_where_its_client_reads_nothing_more(
    made: Any, monkeypatch: pytest.MonkeyPatch, stuck: int, count: int
) -> None:
    monkeypatch.setattr(Response, "stuck", stuck)
    made.limits = Limits(send_time=0.001)
    source = Source(EVENTS, EVENTS, missed={1: 2})
    response, asked = streamed(made, source, monkeypatch, "text/event-stream")
    assert (len(response.written), asked.transport.is_cut) == (count, True)
    assert (len(source.waited), made.told) == (1 + (stuck > 2), ["127.0.0.1: streams cut: the client read nothing"])


def test_a_stream_ends_before_the_next_message_when_the_right_is_gone(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(EVENTS, EVENTS)
    plain = source.get

    async def get(timeout: float) -> Any:
        found = await plain(timeout)
        if len(source.waited) == 2:
            made.rights_revision, made.access.rights = 1, lambda *_: Rights("x", (), ("u",))
        return found

    monkeypatch.setattr(source, "get", get)
    response, asked = streamed(made, source, monkeypatch, "application/x-ndjson")
    *lines, last = b"".join(response.written).splitlines()
    assert len(lines) == 2
    reason = "client 'x' may no longer read 't/#': no subscribe pattern of its token covers it"
    assert (json.loads(last), asked.transport.is_cut) == ({"event": "refused", "reason": reason}, False)


class Socket:
    """A websocket: takes what the test says."""

    def __init__(self, *said: Any) -> None:
        self._said, self.sent, self.closed = list(said), list[Any](), False
        self.closes: list[tuple[int, bytes]] = []
        self.wire: Any = None

    def __aiter__(self) -> Socket:
        return self

    async def __anext__(self) -> Any:
        if not self._said:
            raise StopAsyncIteration
        for _ in range(3):
            await asyncio.sleep(0)
        data = self._said.pop(0)
        if isinstance(data, WSMsgType):
            return SimpleNamespace(type=data, data=b"")
        return SimpleNamespace(type=WSMsgType.TEXT, data=data if isinstance(data, str) else json.dumps(data))

    async def send_json(self, document: Any) -> None:
        self.sent.append(document)

    async def send_str(self, text: str) -> None:
        self.sent.append(json.loads(text))

    async def close(self, code: int, message: bytes) -> None:
        self.closes.append((code, message))
        self.closed = True


def spoken(made: Any, socket: Socket, source: Source, monkeypatch: pytest.MonkeyPatch, rights: Rights) -> list[Any]:
    options: list[Any] = []

    def prepared(**given: Any) -> Any:
        options.append(given)
        return socket

    async def prepare(asked: Any) -> None:
        return None

    socket.prepare = prepare  # type: ignore[attr-defined]
    monkeypatch.setattr(web, "WebSocketResponse", prepared)
    monkeypatch.setattr(streaming, "source_of", lambda *told: source)
    asked = request(upgrade="websocket")
    socket.wire = asked.transport
    asyncio.run(streaming.stream(made, rights, asked, ["t/#"]))
    assert options == [{"heartbeat": made.limits.ping, "max_msg_size": made.limits.body}]
    return socket.sent


def test_a_websocket_publishes_and_is_told_of_each_mistake(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Any] = []

    async def publish(*asked: Any) -> Any:
        published.append(asked)
        return 202, {"topic": asked[0], "acks": "sent"}

    made.publish = publish
    socket = Socket(
        {"publish": "a/b", "payload": 1, "acks": 2, "retain": 1, "ref": 0}, {"publish": "a/c"}, {"publish": "b"},
        {"publish": "a/#"}, {"subscribe": "x"}, {"other": 1}, [1], "{", WSMsgType.ERROR, {"publish": "a/late"},
    )  # fmt: skip
    source = Source()
    rights = Rights("x", ("a/#",), ("t/#",))
    made.access.rights = lambda *_: rights
    sent = spoken(made, socket, source, monkeypatch, rights)
    assert published == [("a/b", 1, 2, {"retain": True}), ("a/c", None, None, {"retain": False})]
    assert sent[0] == {"done": 0, "topic": "a/b", "acks": "sent"}
    words = [(one["status"], one["error"]) for one in sent[1:]]
    assert [status for status, _ in words] == [403, 400, 403, 400, 400, 400]
    assert [words[place][1] for place in (0, 2, 3, 4)] == [
        "client 'x' may not publish to 'b': no publish pattern of its token covers it",
        "client 'x' may not read 'x': no subscribe pattern of its token covers it",
        "expected a member publish or subscribe", "expected a JSON object",
    ]  # fmt: skip
    assert [line.partition(": ")[2] for line in made.told] == [words[0][1], words[2][1]], "refusals alone are logged"


def test_a_websocket_gets_messages_what_it_missed_and_its_own_patterns(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, further = Source(EVENTS, None, [], missed={2: 4}), list[Any]()
    source.is_lost = True

    def tail(*asked: Any) -> Source:
        further.append((asked[1:], Source([("", b'{"topic":"more %b"}' % asked[1][0].encode())])))
        found: Source = further[-1][1]
        return found

    monkeypatch.setattr(streaming, "TailSource", tail)
    monkeypatch.setattr(streaming, "PATTERNS", 2)
    wanted: list[Any] = [{"subscribe": "u", "retained": 1}, {"subscribe": "v"}, {"subscribe": "w"}, {"other": 1}]
    sent = spoken(made, Socket(*wanted), source, monkeypatch, EVERYTHING)
    assert [asked for asked, _ in further] == [(["u"], None, True), (["v"], None, False)]
    assert all(one.is_closed for _, one in further)
    lost = {"event": "missed", "messages": None, "reason": "the id is too old, or of another door or life of it"}
    assert sent[:4] == [
        lost, {"id": "ring.6", "topic": "t"}, {"topic": "u"}, {"event": "missed", "messages": 4},
    ]  # fmt: skip
    assert {"error": "a websocket has at most 2 further patterns", "status": 409} in sent
    assert [sent.count({"topic": f"more {pattern}"}) for pattern in "uvw"] == [1, 1, 0]


@pytest.mark.parametrize("by", ["a message for it", "a message of its own"])
def test_a_websocket_without_its_right_is_closed(made: Any, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    socket = Socket({"publish": "a"}, {"publish": "b"})
    source = Source(EVENTS, EVENTS) if by == "a message for it" else Source()
    made.rights_revision = 0
    made.access.rights = lambda *_: None

    plain = Permit.__init__

    def begin(self: Permit, *told: Any) -> None:
        plain(self, *told)
        made.rights_revision = 1

    monkeypatch.setattr(Permit, "__init__", begin)
    sent = spoken(made, socket, source, monkeypatch, EVERYTHING)
    assert sent[0] == {"event": "refused", "reason": "a token is needed: Authorization: Bearer …"}
    assert socket.closes[0] == (WSCloseCode.POLICY_VIOLATION, b"the right to read was taken away")
    assert not [one for one in sent if "topic" in one]


def test_a_websocket_that_takes_nothing_is_cut(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made.limits = Limits(send_time=0.0)
    socket = Socket(*[{"other": 1}] * 9)

    async def send(text: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(socket, "send_str", send)
    spoken(made, socket, Source(EVENTS), monkeypatch, EVERYTHING)
    assert made.statistics["streams cut: the client read nothing"] == 1
    assert socket.wire.is_cut


def test_a_websocket_is_cut_when_its_messages_cannot_be_read(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = Socket(*[{"other": 1}] * 9)
    spoken(made, socket, Source(EVENTS), monkeypatch, EVERYTHING)
    assert socket.wire.is_cut, "else its client would wait for ever"


# ---------------------------------------------------------------------------------------------------------- sources


def tail_door(keeps: bool = False) -> tuple[Any, Any]:
    network, feed = opened()
    log = MemoryLog("log")
    recent = SimpleNamespace(id="log", first=0, log=log)
    journal = SimpleNamespace(covers=lambda patterns: keeps, recent=recent, settled=77)
    return door(feed=feed, delivering=SimpleNamespace(journal=journal)), network


def test_a_stream_goes_on_at_its_place_in_the_ring() -> None:
    async def program() -> None:
        made, network = tail_door()
        first = TailSource(made, ["t"], None, False)
        assert (first.position, first.is_lost) == ("door.0", False)
        for number in range(3):
            network.publish("t", "t", number)
        found = await first.get(1.0) or []
        assert [(id, json.loads(text)["payload"]) for id, text in found] == [
            ("door.1", 0),
            ("door.2", 1),
            ("door.3", 2),
        ]
        assert await first.get(0.0) is None
        again = TailSource(made, ["t"], "door.1", True)
        assert (again.position, again.is_lost, len(await again.get(0.0) or [])) == ("door.1", False, 2)
        values = TailSource(made, ["t"], None, True)
        ((id, text),) = await values.get(0.0) or []
        assert (id, json.loads(text)["payload"], await values.get(0.0)) == ("", 2, None)
        for token in ("other.1", "nonsense", "door"):
            lost = TailSource(made, ["t"], token, False)
            assert (lost.is_lost, lost.position) == (True, "door.3")
        made.feed.tail._limit = 1
        network.publish("t", "t", 3)
        network.publish("t", "t", 4)
        assert len(await again.get(0.0) or []) == 1
        assert (again.take_missed(), again.take_missed()) == (1, 0)
        kept, network = tail_door(keeps=True)
        source = TailSource(kept, ["t"], None, False)
        network.publish("t", "t", 1)
        ((id, _),) = await source.get(0.0) or []
        assert (source.position, id.split(".")[:4]) == ("door.0.log.77..0", ["door", "1", "log", "77"])
        assert id.endswith(".1"), "the number of the message"

    asyncio.run(program())


def test_a_stream_waits_for_the_next_message_and_writes_no_more_than_some_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "TOGETHER", 2)

    async def program() -> None:
        made, network = tail_door()
        source = TailSource(made, ["t"], None, False)
        waiting = asyncio.create_task(source.get(10.0))
        for _ in range(3):
            await asyncio.sleep(0)
        network.publish("t", "t", 0)
        assert len(await waiting or []) == 1
        for number in range(3):
            network.publish("t", "t", number)
        assert [len(await source.get(0.0) or []) for _ in range(2)] == [2, 1]
        values = TailSource(made, ["t"], None, False)
        values._first = [("", b"{}")] * 3
        assert [len(await values.get(0.0) or []) for _ in range(2)] == [2, 1]

    asyncio.run(program())


def test_history_begins_at_its_time_and_its_place_moves_once_nothing_came_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def program() -> None:
        queues: dict[str, asyncio.Queue[Any]] = {}
        asked: list[Any] = []
        closed: list[str] = []

        def subscribe(pattern: str, start: Any) -> Any:
            queues[pattern] = asyncio.Queue()
            asked.append((pattern, start.timestamp()))
            return SimpleNamespace(get=queues[pattern].get, close=lambda: closed.append(pattern))

        made = door(endpoint=SimpleNamespace(subscribe=subscribe))
        source = HistorySource(made, ["t/#", "+/x"], 1e9)
        assert (source.position, source.is_lost, source.take_missed()) == ("t.1000000000.000000", False, 0)
        assert asked == [("t/#", 1e9), ("+/x", 1e9)]
        for pattern, topic in (("t/#", "t/x"), ("+/x", "t/x"), ("+/x", "u/x")):
            queues[pattern].put_nowait(message(topic, topic))
        found: list[Any] = []
        while len(found) < 2:
            found += await source.get(10.0) or []
        assert sorted((id, json.loads(text)["topic"]) for id, text in found) == [
            ("t.1000000000.000000", "t/x"), ("t.1000000000.000000", "u/x"),
        ], "of two patterns the first gives it"  # fmt: skip
        assert await source.get(0.0) is None
        source._latest = time.monotonic() - 20.0
        before = time.time()
        queues["+/x"].put_nowait(message("u/x", 1))
        ((id, _),) = await source.get(10.0) or []
        assert id == source.position
        assert before - 25.5 <= float(id.removeprefix("t.")) <= time.time() - 24.5, "five seconds before the last one"
        source.close()
        assert closed == ["t/#", "+/x"]
        late = HistorySource(made, ["t"], time.time() + 60)
        assert float(late.position.removeprefix("t.")) < time.time()
        late.close()

    asyncio.run(program())


def test_where_a_stream_begins_is_what_its_client_says(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sources, "TailSource", lambda made, *rest: told.append(("tail", *rest)))
    monkeypatch.setattr(sources, "HistorySource", lambda made, *rest: told.append(("history", *rest)))
    at = "1700000000"
    for asked in (
        request(), request(query=[("retained", "1")]), request(last_event_id="ring.1"),
        request(query=[("last-event-id", "ring.2"), ("since", at)]), request(query=[("since", at)]),
        request(last_event_id=f"t.{at}.5", query=[("since", "1h")]),
    ):  # fmt: skip
        source_of(door(), asked, ["t"])
    assert told == [
        ("tail", ["t"], None, False), ("tail", ["t"], None, True), ("tail", ["t"], "ring.1", False),
        ("tail", ["t"], "ring.2", False), ("history", ["t"], 1.7e9), ("history", ["t"], 1_700_000_000.5),
    ]  # fmt: skip
