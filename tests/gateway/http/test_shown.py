"""What a door shows: messages of its log, dead letters, counters, paths, and the description of its routes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import ConfigurationError
from glue.gateway.http import models, overview, paths
from glue.gateway.http.dead_letters import properties_of, revived, shown
from glue.gateway.http.descriptions import ERRORS, MEMBERS, openapi_document
from glue.gateway.http.limits import Limits
from glue.gateway.http.paths import Paths
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.records import described_record
from glue.gateway.http.routes import Route
from glue.gateway.http.server import ROUTES
from glue.gateway.http.signing import Item
from glue.gateway.http.subscriptions import Subscription, changed
from glue.storage import JSON, Record
from tests.gateway.http.asked import called, door, request

LETTER = Record(
    "a" * 16, "kitchen", 5, "t/x", 7, [b"0", b"\xff"], 1e9, 77, 0, "kind", None, {"content-type": "text/x", "a": "b"}
)
PLAIN = Record("a" * 16, "kitchen", 5, "t/x", 7, [b"1"], 1e9, 0, JSON)


def dead(item: Item, topic: str = "$dead/s", **changes: str) -> Item:
    """The dead letter of a message, as the log has it."""
    properties = properties_of(item, "answer 500") | changes
    return Item(99, Record("d" * 16, "door", 1, topic, 3, [item.payload], 2e9, 5, 0, None, None, properties), 0)


def test_a_dead_letter_has_all_of_the_message_and_why_it_died() -> None:
    found = properties_of(Item(4, LETTER, 1), "x" * 501)
    assert found == {
        "glue-dead-topic": "t/x", "glue-dead-origin": "a" * 16, "glue-dead-name": "kitchen", "glue-dead-life": "5",
        "glue-dead-sequence": "8", "glue-dead-at": "1000000000.0", "glue-dead-flags": "0", "glue-dead-type": "kind",
        "glue-dead-reason": "x" * 500, "content-type": "text/x",
    }  # fmt: skip
    assert "content-type" not in properties_of(Item(4, PLAIN, 0), "")
    assert properties_of(Item(4, PLAIN, 0), "")["glue-dead-type"] == ""


def test_a_replay_sends_the_message_that_it_was() -> None:
    again = revived(dead(Item(4, LETTER, 1)))
    assert again == Item(99, Record(
        "a" * 16, "kitchen", 5, "t/x", 8, [b"\xff"], 1e9, 0, 0, "kind", None, {"content-type": "text/x"}
    ), 0)  # fmt: skip
    assert revived(dead(Item(4, PLAIN, 0))) == Item(99, PLAIN, 0)
    assert properties_of(dead(Item(4, LETTER, 1)), "once more")["glue-dead-topic"] == "t/x", "of a replay that failed"
    for other in (
        dead(Item(4, PLAIN, 0), "t"), Item(4, LETTER, 0), Item(4, Record("a", "b", 1, "$dead/s", 1, [b""]), 0),
        dead(Item(4, PLAIN, 0), **{"glue-dead-life": "x"}), dead(Item(4, PLAIN, 0), **{"glue-dead-at": "soon"}),
    ):  # fmt: skip
        assert revived(other) is other


def test_a_dead_letter_is_shown_as_the_message_with_its_reason() -> None:
    common = {"offset": 99, "topic": "t/x", "publisher": "kitchen", "published_at": 1e9, "reason": "answer 500"}
    assert shown(dead(Item(4, LETTER, 1))) == {**common, "sequence": 8, "bytes": 1, "is_json": False}
    assert shown(dead(Item(4, PLAIN, 0))) == {**common, "sequence": 7, "bytes": 1, "is_json": True}
    assert shown(Item(4, PLAIN, 0))["reason"] == ""


def test_a_message_of_the_log_is_shown_with_what_it_has() -> None:
    common = {"topic": "t/x", "publisher": "kitchen", "published_at": 1e9}
    assert described_record(Item(4, LETTER, 1), "0f") == {
        **common, "payload_base64": "/w==", "sequence": 8, "offset": "0f.4", "type": "kind",
        "properties": {"content-type": "text/x", "a": "b"},
    }  # fmt: skip
    assert described_record(Item(9, PLAIN, 0), "0f") == {**common, "payload": 1, "sequence": 7, "offset": "0f.9"}


def test_counters_are_given_to_prometheus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "exposition", lambda endpoint: f"glue_messages {endpoint}\n\n")
    machine = SimpleNamespace(statistics={"deliveries": 4})
    made = door(endpoint=5, delivering=SimpleNamespace(machine=machine))
    made.statistics["a"] = 2
    status, body = called(overview.metrics, made, request())
    assert (status, body.decode()) == (200, (
        "glue_messages 5\n"
        "# HELP glue_http_events_total Counters of the HTTP door.\n# TYPE glue_http_events_total counter\n"
        'glue_http_events_total{event="a"} 2\nglue_http_events_total{event="deliveries"} 4\n'
    ))  # fmt: skip


def test_endpoints_are_asked_for_their_paths_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def ask_all(*told: Any) -> Any:
        asked.append(told)
        await asyncio.sleep(0)
        return [SimpleNamespace(id="1", name="hall", sections={"activity": "of hall"})]

    monkeypatch.setattr(paths, "ask_all", ask_all)
    monkeypatch.setattr(paths, "paths", lambda core: f"of {core}")
    monkeypatch.setattr(paths, "paths_of", lambda id, section: [(id, section)])
    endpoint: Any = SimpleNamespace(id="0", name="door", _core="door")

    async def program() -> None:
        now = [1.0]
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
        made = Paths(endpoint)
        both = await asyncio.gather(made.get(), made.get())
        expected: Any = [("0", {"paths": "of door"}), ("1", "of hall")], {"0": "door", "1": "hall"}
        assert [*both] == [expected] * 2
        for at, count in ((1.99, 1), (2.0, 2), (2.5, 2)):
            now[0] = at
            assert await made.get() == expected
            assert asked == [(endpoint, ["activity"], 0.5)] * count

    asyncio.run(program())


# ---------------------------------------------------------------------------------------------------- descriptions

ANSWERS = {
    ("post", "/v1/topics/{topic}"): "202", ("put", "/v1/topics/{topic}"): "202", ("post", "/v1/publish"): "202",
    ("post", "/v1/subscriptions"): "201", ("delete", "/v1/subscriptions/{id}"): "204",
    ("post", "/v1/subscriptions/{id}/dead-letters/replay"): "202", ("delete", "/v1/models/{model}/keys/{key}"): "204",
}  # fmt: skip


def test_each_route_is_described_with_its_success_and_all_errors() -> None:
    found = openapi_document(ROUTES)["paths"]
    for path, operations in found.items():
        for method, operation in operations.items():
            assert {*operation["responses"]} - {*ERRORS} == {ANSWERS.get((method, path), "200")}, (method, path)
            assert {*ERRORS} <= {*operation["responses"]}
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    assert parameter["schema"] == {"type": "string", "minLength": 1}
    assert {(path, method) for path, one in found.items() for method in one if one[method].get("security") == []} == {
        ("/", "get"), ("/v1/health", "get"), ("/openapi.json", "get"),
    }  # fmt: skip


def test_an_error_with_a_meaning_of_its_own_is_described_by_it() -> None:
    found, meanings = openapi_document(ROUTES)["paths"], dict[tuple[str, str, str], str]()
    for path, operations in found.items():
        for method, operation in operations.items():
            for status in ERRORS:
                told = operation["responses"][status]
                assert [*told["content"]] == ["application/problem+json"]
                if told["description"] != "The reason, in words":
                    meanings[method, path, status] = told["description"]
    key, one = "/v1/models/{model}/keys/{key}", "/v1/subscriptions/{id}"
    assert meanings == {
        ("post", "/subscribe", "404"): "The topic was not created",
        ("post", "/publish", "404"): "The topic was not created",
        ("get", "/v1/topics/{topic}", "404"): "There is no value",
        ("post", "/v1/requests/{topic}", "404"): "There is none",
        ("post", "/v1/requests/{topic}", "502"): "The program failed",
        ("post", "/v1/requests/{topic}", "504"): "It did not answer in time",
        ("get", one, "404"): "There is none", ("patch", one, "404"): "There is none",
        ("get", key, "404"): "There is none", ("put", key, "412"): "The condition does not hold",
        ("post", key, "412"): "It has another value",
    }  # fmt: skip


def test_bodies_need_the_members_without_which_they_are_refused() -> None:
    needed = {
        path: schema["required"]
        for path, operations in openapi_document(ROUTES)["paths"].items()
        for content in operations.get("post", {}).get("requestBody", {}).get("content", {}).values()
        if (schema := content["schema"])
    }  # fmt: skip
    assert needed == {
        "/create": ["topic"], "/subscribe": ["topic", "addr"], "/publish": ["topic", "payload"],
        "/v1/subscriptions": ["topic", "url"], "/v1/models/{model}/keys/{key}": ["value"],
    }  # fmt: skip


def test_a_batch_is_described_as_ndjson_and_a_value_of_a_model_as_json() -> None:
    found = openapi_document(ROUTES)["paths"]
    bodies = {
        (method, path, kind)
        for path, operations in found.items()
        for method, operation in operations.items()
        for kind in operation.get("requestBody", {}).get("content", {})
    }
    key, topic = "/v1/models/{model}/keys/{key}", "/v1/topics/{topic}"
    assert {one for one in bodies if one[2] != "application/json"} == {
        ("post", "/v1/publish", "application/x-ndjson"), ("post", topic, "*/*"), ("put", topic, "*/*"),
        ("post", "/v1/requests/{topic}", "*/*"),
    }  # fmt: skip
    assert {("put", key, "application/json"), ("patch", key, "application/json")} < bodies


def test_a_route_that_names_an_error_still_has_a_success() -> None:
    async def handler(*_: Any) -> Any:
        """Never called."""

    for answers, success in (({}, "200"), ({404: "none"}, "200"), ({201: "made", 404: "none"}, "201")):
        route = Route("GET", "/a", handler, "Read", answers=answers)
        responses = openapi_document([route])["paths"]["/a"]["get"]["responses"]
        assert sorted({*responses} - {*ERRORS}) == [success]


def test_the_description_of_a_member_says_what_the_door_takes() -> None:
    known = Subscription("s", "t", "http://10.0.0.1/")

    def is_taken(**member: Any) -> bool:
        try:
            changed(known, member, Limits())
        except ConfigurationError:
            return False
        return True

    for name, step in (("parallel", 1), ("timeout", 0.01)):
        least, most = MEMBERS[name]["minimum"], MEMBERS[name]["maximum"]
        assert [is_taken(**{name: value}) for value in (least - step, least, most, most + step)] == [
            False, True, True, False,
        ]  # fmt: skip
    bound = MEMBERS["give_up_after"]["exclusiveMinimum"]
    assert [is_taken(give_up_after=value) for value in (bound, bound + 1e-6)] == [False, True]
    assert [is_taken(state=state) for state in MEMBERS["state"]["enum"]] == [True, True]
    assert MEMBERS["topic"]["minLength"] == 1


def test_a_wrong_revision_is_the_client_s_mistake() -> None:
    with pytest.raises(ProblemError) as caught:
        models.revision_of(request(if_match="x"))
    assert (caught.value.status, caught.value.detail) == (
        400, "If-Match: expected a revision in quotes, as ETag gives it",
    )  # fmt: skip
