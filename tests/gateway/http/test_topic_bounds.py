"""Topics by HTTP at their bounds: what is just taken, and how much of the network and the log an answer has."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from glue.errors import TopicError
from glue.gateway.http import topics
from glue.gateway.http.feed import described
from glue.gateway.http.limits import Limits
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.tokens import EVERYTHING, Rights
from glue.gateway.http.topics import acks_of, options_of, payload_of
from tests.gateway.http.asked import called, door, request
from tests.gateway.http.test_rings import message
from tests.gateway.http.test_topic_routes import Endpoint, made_door


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: options_of(request(query=[("property", "a")])), "property='a': expected NAME=VALUE"),
        (lambda: options_of(request(query=[("lifespan", "1.1e9")])),
         "lifespan='1.1e9': expected a number from 0.001 to 1e+09"),
        (lambda: acks_of(request(query=[("acks", "065")])),
         "acks='065': expected sent, disk, replicas or a number of keepers"),
        (lambda: payload_of(request(kind="text/plain"), b"\xff"), "the body is no text/plain: "),
    ],
)  # fmt: skip
def test_a_mistake_in_a_publication_is_the_client_s(wrong: Any, words: str) -> None:
    with pytest.raises(ProblemError) as caught:
        wrong()
    assert (caught.value.status, caught.value.detail[: len(words)]) == (400, words)


def test_a_lifespan_is_at_most_thirty_years_and_a_part_of_a_second() -> None:
    assert [options_of(request(query=[("lifespan", text)]))["lifespan"] for text in ("1e9", "0.001")] == [1e9, 0.001]
    for query in ([("timeout", "0.0009")], [("timeout", "60.1")]):
        assert called(topics.ask, made_door(), request("topic=q", b"", query))[0] == 400


def test_what_is_no_topic_or_no_pattern_is_refused_before_anything_is_done() -> None:
    endpoint = Endpoint()
    made = made_door(endpoint)
    for handler, asked in (
        (topics.publish, request("topic=a/#", b"1")), (topics.read, request("topic=a/#/b")),
        (topics.stream_of, request(query=[("topic", "a"), ("topic", "a/#/b")])),
    ):  # fmt: skip
        with pytest.raises(TopicError):
            called(handler, made, asked)
    body = b'{"topic":"a","payload":1}\n{"topic":"a/#","payload":1}'
    status, words = called(topics.publish_many, made, request(body=body))
    assert (status, words.startswith("line 2: "), words.endswith("; nothing was published")) == (400, True, True)
    body = b'{"topic":"a","payload_base64":"YQ=!="}'
    assert called(topics.publish_many, made, request(body=body))[0] == 400
    assert endpoint.asked == []


def test_streams_are_those_of_the_door_with_the_rights_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    async def stream(*asked: Any) -> Any:
        told.append(asked)
        return SimpleNamespace(status=200, body=b"{}")

    monkeypatch.setattr(topics, "stream", stream)
    made, some = made_door(), Rights("x", (), ("a",))
    several, one = request(query=[("topic", "a")]), request("topic=a", accept="text/event-stream")
    assert called(topics.stream_of, made, several, some) == (200, {})
    assert called(topics.read, made, one, some) == (200, {})
    assert told == [(made, some, several, ["a"]), (made, some, one, ["a"])]


class Asked:
    """What is asked of the network in place of `remembered`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[Any] = []

        async def remembered(made: Any, *told: Any) -> list[Any]:
            self.told.append(told)
            return [{"published_at": 1.0, "payload": 1}]

        monkeypatch.setattr(topics, "remembered", remembered)
        monkeypatch.setattr(topics, "time", SimpleNamespace(time=lambda: 2e9))


def test_the_network_is_asked_for_as_much_as_the_client_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, made = Asked(monkeypatch), made_door()

    def ask(**query: str) -> Any:
        status, _ = called(topics.read, made, request("topic=u", query=[*query.items()]))
        assert status == 200
        return asked.told.pop()

    assert ask() == ("u", {"last": 1}, 1_000, 0.3)
    assert ask(timeout="10") == ("u", {"last": 1}, 1_000, 10.0)
    assert ask(timeout="0") == ("u", {"last": 1}, 1_000, 0.0)
    assert ask(last="7") == ("u", {"last": 7}, 1_000, 0.3)
    assert ask(last="7", limit="3") == ("u", {"last": 7}, 30, 0.3)
    pattern, start, limit, quiet = ask(since="1000000000")
    assert (pattern, start["start"].timestamp(), limit, quiet) == ("u", 1e9, 100, 0.3)
    *_, limit, _ = ask(since="1000000000", limit="1000")
    assert limit == 1_000
    _, start, *_ = ask(since="3000000000")
    assert start["start"].timestamp() == pytest.approx(2e9 - 1e-3, abs=1e-5), "the future is now"
    made.limits = Limits(history=5)
    *_, limit, _ = ask(since="1000000000")
    assert limit == 5


@pytest.mark.parametrize(
    ("sizes", "body", "count"),
    [([50, 50, 50], 1, 1), ([50, 50, 50], 0, 0), ([10, 900, 10, 10], 1_000, 2), ([10, 10, 10, 10], 1 << 20, 3)],
)
def test_history_of_the_network_is_as_large_as_a_body_and_as_long_as_asked(
    sizes: list[int], body: int, count: int
) -> None:
    endpoint = Endpoint(*(message("u", "x" * size) for size in sizes))
    made = door(Limits(body=body), endpoint=endpoint)
    found = asyncio.run(topics.remembered(made, "u", {"last": 9}, 3, 0.001))
    assert len(found) == count
    assert endpoint.asked == [("u", {"last": 9}), "closed"]


def test_an_answer_as_large_as_a_body_is_enough() -> None:
    one = message("u", "x")
    size = len(orjson.dumps(described(one)))
    for body, count in ((size, 1), (size + 1, 2), (2 * size, 2), (2 * size + 1, 3)):
        made = door(Limits(body=body), endpoint=Endpoint(*[one] * 5))
        assert len(asyncio.run(topics.remembered(made, "u", {}, 9, 0.001))) == count


def test_messages_of_the_log_have_their_places() -> None:
    made = made_door()
    asked = request("topic=t/+", query=[("offset", "log.1")])
    found = called(topics.read, made, asked, EVERYTHING)[1]
    assert [one["offset"] for one in found["messages"]] == [f"log.{at}" for at in (1, 2, 6, 7, 8)]
    assert [one["sequence"] for one in found["messages"]] == [2, 3, 1, 2, 3]
    assert found["next"] == "log.9"
