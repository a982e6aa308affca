"""Topics by HTTP: what each route asks of the endpoint and the log, and what it answers."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from glue.errors import NoResponderError
from glue.gateway.http import feed, topics
from glue.gateway.http.limits import Limits
from glue.gateway.http.tokens import EVERYTHING, Rights
from glue.storage import JSON, MemoryLog, Record
from tests.gateway.http.asked import Response, called, door, request
from tests.gateway.http.test_rings import message
from tests.gateway.http.test_streaming import tail_door


class Endpoint:
    """An endpoint with what others remember, and a program that answers."""

    def __init__(self, *remembered: Any) -> None:
        self.asked: list[Any] = []
        self._remembered = remembered
        self.reply: Any = None

    async def publish_many(self, topic: str, payloads: list[Any]) -> None:
        self.asked.append((topic, payloads))

    async def request(self, topic: str, payload: Any, timeout: float) -> Any:
        self.asked.append((topic, payload, timeout))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def subscribe(self, pattern: str, **start: Any) -> Any:
        self.asked.append((pattern, start))
        left = iter(self._remembered)

        async def get() -> Any:
            found = next(left, None)
            if found is None:
                await asyncio.Event().wait()
            return found

        return SimpleNamespace(get=get, close=lambda: self.asked.append("closed"))


def log() -> MemoryLog:
    found = MemoryLog("log")
    for topic, number in (("t/x", 1), ("u", 1), ("t/y", 1)):
        found.append([Record("a" * 16, "k", 1, topic, number, [b"%d" % n for n in range(3)], 1e9 + number, 0, JSON)])
    return found


def made_door(endpoint: Endpoint | None = None, values: dict[str, bytes] | None = None, **limits: Any) -> Any:
    recent = SimpleNamespace(log=log(), id="log", offset_at=lambda at: 3 if at > 1e9 + 1.5 else 0)
    journal = SimpleNamespace(patterns=["t/+"], recent=recent, keeps=lambda topic: topic.startswith("t/"))
    feed = SimpleNamespace(last=(values or {}).get)
    return door(
        Limits(**limits), endpoint=endpoint or Endpoint(), feed=feed, delivering=SimpleNamespace(journal=journal)
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is quiet after a moment."""
    monkeypatch.setattr(topics, "QUIET", 0.001)


def test_a_batch_is_published_in_runs_of_one_topic_and_counted() -> None:
    endpoint = Endpoint()
    made = made_door(endpoint)
    lines = [("a", 1), ("a", None), ("b", {"x": 1}), ("a", "2")]
    body = b"\n".join(json.dumps({"topic": topic, "payload": value}).encode() for topic, value in lines)
    body += b'\n \n{"topic":"a","payload_base64":"/w=="}\n{"topic":"a","payload":3,"payload_base64":"/w=="}\n'
    answer = called(topics.publish_many, made, request(body=body))
    assert answer == (202, {"messages": 6, "acks": "sent"})
    assert endpoint.asked == [("a", [1, None]), ("b", [{"x": 1}]), ("a", ["2", b"\xff", 3])]
    assert made.statistics == {"messages published": 6}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 2: unexpected end of data: line 1 column 2 (char 1); nothing was published"),
        (b"[]", "line 2: expected an object; nothing was published"),
        (b'{"payload":1}', "line 2: 'topic' is missing; nothing was published"),
        (b'{"topic":"b"}', "line 2: 'payload' is missing; nothing was published"),
        (b'{"topic":"b","payload_base64":"Yg"}', "line 2: Incorrect padding; nothing was published"),
        (
            b'{"topic":"b","payload":%b}' % (b"[" * 300 + b"]" * 300),
            "line 2: cannot publish a list: Recursion limit reached; a payload is bytes-like or a JSON value; "
            "nothing was published",
        ),
    ],
)
def test_a_batch_with_a_wrong_line_is_refused_as_a_whole(line: bytes, words: str) -> None:
    endpoint = Endpoint()
    body = b'{"topic":"a","payload":1}\n' + line
    assert called(topics.publish_many, made_door(endpoint), request(body=body)) == (400, words)
    assert endpoint.asked == []


def test_a_batch_has_a_length_and_each_of_its_topics_needs_a_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "LINES", 2)
    line = b'{"topic":"a","payload":1}\n'
    assert called(topics.publish_many, made_door(), request(body=line * 2))[0] == 202
    assert called(topics.publish_many, made_door(), request(body=line * 3)) == (413, "a batch has at most 2 lines")
    body = line + b'{"topic":"b","payload":1}\n'
    found = called(topics.publish_many, made_door(), request(body=body), Rights("x", ("a",)))
    assert found == (403, "client 'x' may not publish to 'b': no publish pattern of its token covers it")


def test_the_last_value_is_that_of_the_door_or_the_newest_of_the_network() -> None:
    endpoint = Endpoint(message("a", 1, published_at=5.0), message("a", b"\xff", published_at=7.0), message("a", 3))
    made = made_door(endpoint, {"here": b'{"topic":"here","payload":{"on":1}}'})
    assert called(topics.read, made, request("topic=here")) == (200, {"topic": "here", "payload": {"on": 1}})
    assert called(topics.read, made, request("topic=here", query=[("raw", "1")])) == (200, {"on": 1})
    assert endpoint.asked == []
    status, found = called(topics.read, made, request("topic=a"))
    assert (status, found["payload"], endpoint.asked) == (200, 3, [("a", {"last": 1}), "closed"])
    endpoint = Endpoint(message("a", 1, published_at=5.0), message("a", b"\xff", published_at=7.0))
    raw = asyncio.run(topics.read(made_door(endpoint), EVERYTHING, request("topic=a", query=[("raw", "1")])))
    assert (raw.body, raw.content_type) == (b"\xff", "application/octet-stream")  # type: ignore[attr-defined]
    assert called(topics.read, made_door(), request("topic=a")) == (
        404, "no endpoint remembers a value of 'a'; publish it with ?retain=1",
    )  # fmt: skip
    assert called(topics.read, made_door(), request("topic=a/+")) == (
        400, "a pattern has no last value; ask for ?since=10m, ?last=1, or a stream",
    )  # fmt: skip
    assert called(topics.read, made_door(), request("topic=a", query=[("timeout", "10.1")]))[0] == 400


def payloads(found: tuple[int, Any]) -> list[Any]:
    assert found[0] == 200, found
    return [one["payload"] for one in found[1]["messages"]]


def test_history_of_what_the_door_keeps_comes_from_its_log_in_pieces() -> None:
    endpoint = Endpoint()
    made = made_door(endpoint, history=6)

    def ask(topic: str, *query: tuple[str, str]) -> tuple[list[Any], str]:
        found = called(topics.read, made, request(f"topic={topic}", query=query))
        return payloads(found), found[1]["next"]

    first, place = ask("t/+", ("since", "1000000000"), ("limit", "2"))
    assert (first, place) == ([0, 1], "log.2")
    assert ask("t/+", ("offset", place), ("limit", "2")) == ([2, 0], "log.7")
    assert ask("t/+", ("offset", "log.7")) == ([1, 2], "log.9")
    assert ask("t/+", ("offset", "log.9")) == ([], "log.9")
    assert ask("t/x", ("since", "1000000000")) == ([0, 1, 2], "log.9")
    assert ask("t/y", ("since", "1000000002")) == ([0, 1, 2], "log.9")
    assert endpoint.asked == []
    made.limits = Limits(body=2)
    assert ask("t/+", ("offset", "log.0")) == ([0, 1], "log.2"), "about as large as a body"
    for place in ("other.1", "log.x", "log.", "1", "log.\u0661", "log." + "1" * 19, "log.-1"):
        assert called(topics.read, made, request("topic=t/x", query=[("offset", place)]))[0] == 410, place
    assert called(topics.read, made, request("topic=u", query=[("offset", "log.1")]))[0] == 410
    assert called(topics.read, made, request("topic=t/#", query=[("offset", "log.1")]))[0] == 410
    assert len(ask("t/x", ("offset", "log." + "1" * 18))[0]) == 0


def test_history_of_all_else_comes_from_the_network_as_far_as_asked() -> None:
    endpoint = Endpoint(*(message("u", number) for number in range(8)))
    made = made_door(endpoint, history=5)
    assert payloads(called(topics.read, made, request("topic=u", query=[("since", "1000000000"), ("limit", "3")]))) == [
        0, 1, 2,
    ]  # fmt: skip
    pattern, start = endpoint.asked[0]
    assert (pattern, start["start"].timestamp(), start["start"].tzinfo is not None) == ("u", 1e9, True)
    endpoint.asked.clear()
    found = called(topics.read, made, request("topic=u", query=[("last", "5"), ("limit", "1")]))
    assert payloads(found) == [*range(8)], "n of each topic, so up to ten times the limit"
    assert endpoint.asked == [("u", {"last": 5}), "closed"]
    endpoint.asked.clear()
    assert payloads(called(topics.read, made, request("topic=t/#", query=[("since", "1m")]))) == [*range(5)]
    assert isinstance(endpoint.asked[0][1]["start"], datetime)
    made.limits = Limits(body=50)
    assert payloads(called(topics.read, made, request("topic=u", query=[("last", "5")]))) == [0]
    for query in ([("last", "0")], [("last", "1001")], [("since", "1h"), ("limit", "0")]):
        assert called(topics.read, made, request("topic=u", query=query))[0] == 400


def test_a_program_s_answer_is_the_answer() -> None:
    endpoint = Endpoint()
    made = made_door(endpoint)
    endpoint.reply = {"on": 1}
    asked = request("topic=q", {"a": 1}, [("timeout", "0.001")], "application/json")
    assert called(topics.ask, made, asked) == (200, {"on": 1})
    assert endpoint.asked == [("q", {"a": 1}, 0.001)]
    endpoint.reply = b"\xff"
    assert called(topics.ask, made, request("topic=q", b"x")) == (200, b"\xff")
    assert endpoint.asked[1] == ("q", b"x", 10.0)
    for seconds in ("0", "60.5"):
        assert called(topics.ask, made, request("topic=q", b"", [("timeout", seconds)]))[0] == 400
    assert called(topics.ask, made, request("topic=q", b""), Rights("x", ("t",)))[0] == 403
    endpoint.reply = NoResponderError("nobody")
    with pytest.raises(NoResponderError):
        called(topics.ask, made, request("topic=q", b""))


def test_a_message_is_published_once_for_its_key() -> None:
    told: list[Any] = []

    async def once(name: str, key: str | None, content: bytes, work: Any) -> Any:
        told.append((name, key, content))
        return await work()

    async def publish(*asked: Any) -> Any:
        told.append(asked)
        return 202, {"topic": asked[0]}

    made = door(idempotency=SimpleNamespace(once=once), publish=publish)
    asked = request("topic=a/b", b"on", [("acks", "3"), ("retain", "1")], "text/plain", idempotency_key="k")
    assert called(topics.publish, made, asked, Rights("x", ("a/#",))) == (202, {"topic": "a/b"})
    assert told == [("x", "k", b"a/b\non"), ("a/b", "on", 3, {"retain": True})]
    assert called(topics.publish, made, asked, Rights("x", ("b/#",), ("#",)))[0] == 403
    assert len(told) == 2


def test_several_patterns_are_streamed_if_each_may_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def stream(made: Any, rights: Any, request: Any, patterns: list[str]) -> Any:
        asked.append(patterns)
        return SimpleNamespace(status=200, body=b"{}")

    monkeypatch.setattr(topics, "stream", stream)
    made, some = made_door(), Rights("x", (), ("a/#", "b"))

    def ask(*patterns: str, handler: Any = topics.stream_of) -> tuple[int, Any]:
        return called(handler, made, request(query=[("topic", one) for one in patterns]), some)

    assert ask("a/+", "b") == (200, {})
    assert ask(*["b"] * 100) == (200, {})
    assert asked == [["a/+", "b"], ["b"] * 100]
    for wrong in ([], ["b"] * 101):
        assert ask(*wrong) == (400, "expected ?topic=PATTERN, once to a hundred times")
    assert ask("b", "c") == (403, "client 'x' may not read 'c': no subscribe pattern of its token covers it")
    assert called(topics.read, made, request("topic=a/+", accept="text/event-stream"), some) == (200, {})
    assert called(topics.read, made, request("topic=c", accept="text/event-stream"), some)[0] == 403
    assert asked[2:] == [["a/+"]]


def test_a_pattern_that_a_client_names_twice_is_streamed_once_and_given_up_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "StreamResponse", Response)
    monkeypatch.setattr(Response, "stuck", 3)
    monkeypatch.setattr(feed, "LINGER", 0.0)

    async def program() -> None:
        made, network = tail_door()
        made.limits = Limits(send_time=0.001)
        asked = request(query=[("topic", "t"), ("topic", "t")], accept="application/x-ndjson")
        streaming_it = asyncio.create_task(topics.stream_of(made, EVERYTHING, asked))
        for number in range(4):
            await asyncio.sleep(0)
            network.publish("t", "t", number)
        response: Any = await streaming_it
        assert [json.loads(line)["payload"] for line in response.written] == [0, 1, 2]
        await asyncio.sleep(0.001)
        assert network.open == {}

    asyncio.run(program())


@pytest.mark.parametrize("query", ["timeout=9", "last=1", "since=10m"])
def test_a_client_that_goes_while_it_waits_for_the_past_leaves_no_subscription(query: str) -> None:
    async def program() -> None:
        endpoint = Endpoint()
        asked = request("topic=x", query=[tuple(query.split("="))])
        reading = asyncio.create_task(topics.read(made_door(endpoint), EVERYTHING, asked))
        while not endpoint.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert endpoint.asked[1:] == ["closed"]

    asyncio.run(program())
