"""What clients of a door are answered: errors, descriptions, receipts, rights that change, and what is remembered."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from multidict import CIMultiDict, MultiDict

from glue import errors
from glue.gateway import hosts
from glue.gateway.http import idempotency, publishing
from glue.gateway.http.clients import Permit, rights_of
from glue.gateway.http.descriptions import body_schema, openapi_document
from glue.gateway.http.idempotency import Idempotency
from glue.gateway.http.limits import MOUNTED
from glue.gateway.http.models import revision_of
from glue.gateway.http.problems import ProblemError, problem_of
from glue.gateway.http.publishing import Publisher
from glue.gateway.http.routes import Route
from glue.gateway.http.server import check_origin, origins
from glue.gateway.http.streaming import kind_of, told
from glue.gateway.http.tokens import Rights
from glue.gateway.refusals import Refusals


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NoResponderError("why"), 404), (errors.RequestTimeoutError("why"), 504),
        (errors.MinorityError("why"), 503), (errors.UnknownOutcomeError("why"), 504), (errors.RefusedError("why"), 409),
        (errors.ForbiddenError("why"), 403), (errors.WouldBlockError("why"), 503), (errors.ClosedError("why"), 503),
        (errors.TopicError("why"), 400), (errors.ConfigurationError("why"), 400), (ValueError("why"), 400),
        (TypeError("why"), 400), (errors.StorageError("why"), 503), (ConnectionError("why"), 503),
    ],
)  # fmt: skip
def test_an_error_has_its_status_and_its_words(error: Exception, status: int) -> None:
    found = problem_of(error)
    assert (found.status, found.detail, found.headers, found.more) == (status, "why", {}, {})


def test_a_route_is_described_with_its_parameters_body_and_answers() -> None:
    async def handler(*_: Any) -> Any:
        """Never called."""

    routes = [
        Route("GET", "/a/{key:.+}/{id}", handler, "Read", {"q": "why"}, answers={404: "none"}, is_open=True),
        Route("POST", "/a/{key:.+}/{id}", handler, "W", body='{"url", "other"}', answers={201: "made"}, needs=["url"]),
        Route("PUT", "/b", handler, "Set", body="NDJSON: x"), Route("PATCH", "/b", handler, "Set", body="The payload"),
    ]  # fmt: skip
    found = openapi_document(routes)
    assert sorted(found["paths"]) == ["/a/{key}/{id}", "/b"]
    read, write = found["paths"]["/a/{key}/{id}"]["get"], found["paths"]["/a/{key}/{id}"]["post"]
    assert [(one["name"], one["in"], one.get("required")) for one in read["parameters"]] == [
        ("key", "path", True), ("id", "path", True), ("q", "query", None),
    ]  # fmt: skip
    assert (read["summary"], read["security"], read["operationId"]) == ("Read", [], "test_answers_handler_get")
    assert (read["responses"]["200"], "description" in read["responses"]["404"]) == ({"description": "Done"}, True)
    assert "application/problem+json" in read["responses"]["404"]["content"]
    assert "requestBody" not in read
    assert (write["responses"]["201"], "200" in write["responses"], "security" in write) == (
        {"description": "made"}, False, False,
    )  # fmt: skip
    body = write["requestBody"]
    assert (body["required"], body["content"]["application/json"]["schema"]) == (True, body_schema(routes[1]))
    assert body_schema(routes[1])["required"] == ["url"]
    assert body_schema(routes[1])["properties"]["other"] == {}
    assert found["paths"]["/b"]["put"]["requestBody"]["content"] == {"application/x-ndjson": {"schema": {}}}
    assert found["paths"]["/b"]["patch"]["requestBody"]["content"] == {"*/*": {"schema": {}}}


def request(remote: str | None = "127.0.0.1", query: Any = (), certificate: Any = None, **headers: str) -> Any:
    """A request as aiohttp gives it."""
    given = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    transport = SimpleNamespace(get_extra_info={"peercert": certificate}.get)
    return SimpleNamespace(
        headers=given,
        query=MultiDict(query),
        remote=remote,
        host=given.get("host", "localhost:80"),
        transport=transport,
    )


class Asked:
    """The tokens of a door: notes what it is asked."""

    def __init__(self, rights: Rights | None) -> None:
        self.answer, self.asked, self.revision = rights, list[Any](), 0

    def rights(self, token: str | None, certificate: str, is_local: bool) -> Rights | None:
        self.asked.append((token, certificate, is_local))
        return self.answer


def door(rights: Rights | None = None, **more: Any) -> Any:
    access = Asked(rights)
    told: list[str] = []
    made = SimpleNamespace(
        access=access, statistics=Counter(), rules=None, refusals=Refusals(told.append), told=told, **more
    )
    made.rights_revision = 0
    return made


def test_a_client_is_known_by_its_token_its_certificate_or_its_address() -> None:
    made = door(Rights("a"))
    certificate = {"subject": ((("countryName", "x"),), (("commonName", "panel"),))}
    for one in (
        request(), request("::1", host="[::1]:80"), request("10.0.0.5"), request(None), request(host="evil.example"),
        request(host="127.0.0.1"), request(**{MOUNTED: "1"}), request(authorization="bearer  glue_x "),
        request("10.0.0.5", certificate=certificate), request(certificate={}),
    ):  # fmt: skip
        assert rights_of(made, one) == Rights("a")
    assert made.access.asked == [
        (None, "", True), (None, "", True), (None, "", False), (None, "", False), (None, "", False), (None, "", True),
        (None, "", False), ("glue_x", "", True), (None, "panel", False), (None, "", True),
    ]  # fmt: skip
    for wrong in ("Basic x", "Bearer", "Bearer  "):
        with pytest.raises(ProblemError, match="expected Bearer and a token"):
            rights_of(made, request(authorization=wrong))
    assert not made.statistics
    made.access.answer = None
    for headers, words in (({"authorization": "Bearer x"}, "not known"), ({}, "a token is needed")):
        with pytest.raises(ProblemError, match=words) as caught:
            rights_of(made, request(**headers))
        assert (caught.value.status, [*caught.value.headers]) == (401, ["www-authenticate"])
    assert made.statistics == {"requests refused: no token, or a wrong one": 2}


@pytest.mark.parametrize(
    ("remote", "host", "is_local"),
    [
        ("127.0.0.9", "localhost", True), ("127.0.0.9", "10.0.0.1:80", True), ("127.0.0.9", "door.lan", False),
        ("127.0.0.9", "127.0.0.1.evil.example", False), ("127.0.0.9", "127.evil.example:80", False),
        ("127.0.0.9", "", False), ("127.0.0.9", ":80", False), ("127.0.0.9", "[", False),
        ("127.0.0.9", "[x]", False), ("::1", "[fd00::1]", True),
        ("10.0.0.7", "10.0.0.1", False),
        ("", "localhost", False), ("unix", "localhost", False), (None, "127.0.0.1", False),
    ],
)  # fmt: skip
def test_a_client_of_this_machine_comes_from_it_and_asks_for_an_address(
    remote: str | None, host: str, is_local: bool
) -> None:
    made = door(Rights("a"))
    for known in (hosts.is_address, hosts.is_loopback):
        known.cache_clear()
    rights_of(made, request(remote, host=host))
    assert made.access.asked == [(None, "", is_local)]


def test_a_permit_is_asked_again_only_after_a_change_and_stays_refused() -> None:
    made = door(Rights("a", (), ("t/#",)))
    permit = Permit(made, Rights("a", (), ("#",)), request(), ["t/x"])
    assert (permit.refusal(), made.access.asked) == ("", [])
    made.rights_revision = 1
    assert (permit.refusal(), permit.refusal(), len(made.access.asked), made.told) == ("", "", 1, [])
    assert not made.statistics
    assert permit.rights == made.access.answer
    permit.add("u")
    assert permit.refusal() == ""
    made.rights_revision = 2
    refusal = "client 'a' may no longer read 'u': no subscribe pattern of its token covers it"
    assert permit.refusal() == refusal
    made.access.answer, made.rights_revision = Rights("a", (), ("#",)), 3
    assert (permit.refusal(), len(made.access.asked)) == (refusal, 2)
    assert made.statistics == {"streams ended: the right to read was taken away": 1}
    assert made.told == [f"127.0.0.1: {refusal}"]
    made.access.answer = None
    permit = Permit(made, Rights("a"), request(), ["t/x"])
    made.rights_revision = 4
    assert permit.refusal() == "a token is needed: Authorization: Bearer …"


def test_a_stream_is_asked_for_by_its_headers_or_its_query() -> None:
    asked = [
        request(upgrade="WebSocket"), request(accept="text/event-stream, */*"), request(accept="application/x-ndjson"),
        request(query=[("stream", "1")]), request(query=[("stream", "ndjson")]), request(query=[("stream", "0")]),
        request(),
    ]  # fmt: skip
    json = "application/x-ndjson"
    assert [kind_of(one) for one in asked] == ["websocket", "text/event-stream", json, json, json, "", ""]
    assert told(True, "missed", {"a": 1}) == b'event: missed\ndata: {"a":1}\n\n'
    assert told(False, "missed", {"a": 1}) == b'{"event":"missed","a":1}\n'


def test_a_revision_is_a_number_in_quotes() -> None:
    right = {"5": 5, '"5"': 5, ' W/"12" ': 12, "9" * 18: int("9" * 18)}
    assert {text: revision_of(request(if_match=text)) for text in right} == right
    assert revision_of(request()) is None
    for wrong in ("9" * 19, "", "-1", "*", "\u0665"):
        with pytest.raises(ProblemError, match="If-Match"):
            revision_of(request(if_match=wrong))


def test_pages_of_named_origins_and_the_own_one_may_call() -> None:
    allowed = origins(["http://Panel.lan", "https://b:8443"])
    assert allowed == {"http://panel.lan", "https://b:8443"}
    for origin in (None, "http://panel.lan", "http://LOCALHOST:80"):
        check_origin(request(**({} if origin is None else {"origin": origin})), allowed)
    for origin in ("http://localhost", "https://b", "null", "", "http://[", "http:localhost:80"):
        with pytest.raises(ProblemError, match="may not call this door"):
            check_origin(request(origin=origin), allowed)
    for wrong in ("http://a:0", "ftp://a", "http://a/", "http://a@b", "http://ä", "http://[", "a"):
        with pytest.raises(errors.ConfigurationError):
            origins([wrong])


# ---------------------------------------------------------------------------------------------------- publications


class Receipt:
    """What an endpoint tells of some messages."""

    def __init__(self, messages: int, outcome: bool | Exception | None, keepers: list[str]) -> None:
        self.messages, self.outcome, self.durable, self.failure = messages, outcome, keepers, "0 of 1"

    def __await__(self) -> Any:
        async def wait() -> bool:
            if self.outcome is None:
                await asyncio.Event().wait()
            if isinstance(self.outcome, Exception):
                raise self.outcome
            return bool(self.outcome)

        return wait().__await__()


def test_publications_that_come_together_share_a_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    receipts = [Receipt(2, True, ["a"]), Receipt(1, True, ["b"])]

    class Endpoint:
        async def publish_many(self, topic: str, payloads: list[Any]) -> None:
            sent.append((topic, payloads))
            if topic == "wrong":
                raise ValueError("why")

        def _with_receipts(self, topic: str, payloads: list[Any], acks: Any, priority: str) -> Any:
            sent.append((topic, payloads, acks, priority))
            while sum(receipt.messages for receipt in found) < len(payloads):
                found.append(receipts.pop(0))
            return [(found.pop(0), "frames") for _ in range(len(found))]

        def _running(self) -> Any:
            async def publish(publications: Any) -> None:
                assert publications == ("frames",)

            return SimpleNamespace(publish=publish)

    found: list[Receipt] = []

    async def program() -> None:
        endpoint: Any = Endpoint()
        made = Publisher(endpoint)
        asked = [
            ("t", 1, "disk"),
            ("t", 2, "disk"),
            ("t", 3, "disk"),
            ("t", 4, None),
            ("t", 5, None),
            ("wrong", 6, None),
        ]
        answers = await asyncio.gather(*(made.publish(*one) for one in asked), return_exceptions=True)  # type: ignore[arg-type]
        assert answers[:5] == [["a"], ["a"], ["b"], [], []]
        assert str(answers[5]) == "why"
        assert sent == [("t", [1, 2, 3], "disk", "normal"), ("t", [4, 5]), ("wrong", [6])]
        deep: Any = []
        for _ in range(300):
            deep = [deep]
        together = [made.publish("t", payload, None) for payload in (7, deep, 8)]
        first, second, third = await asyncio.gather(*together, return_exceptions=True)
        assert (first, third, sent[-1]) == ([], [], ("t", [7, 8]))
        assert "Recursion limit reached" in str(second), "one client's mistake is not the others'"
        receipts.extend([Receipt(1, False, []), Receipt(1, KeyError("x"), []), Receipt(1, None, [])])
        with pytest.raises(ProblemError, match="not as durable as asked: 0 of 1") as caught:
            await made.publish("t", 8, "disk")
        assert (caught.value.status, caught.value.headers) == (503, {"retry-after": "1"})
        with pytest.raises(KeyError):
            await made.publish("t", 9, "disk")
        monkeypatch.setattr(publishing, "ACKS_TIME", 0.0)
        with pytest.raises(ProblemError, match="no acknowledgement within 0 s") as caught:
            await made.publish("t", 10, "disk")
        assert caught.value.status == 504
        await asyncio.sleep(0)
        assert made._settling == set()

    asyncio.run(program())


def test_a_client_that_has_gone_before_its_publication_failed_holds_up_no_other() -> None:
    async def program() -> None:
        gate, sent = asyncio.Event(), list[str]()

        async def publish_many(topic: str, payloads: list[Any]) -> None:
            await gate.wait()
            if topic == "wrong":
                raise ValueError("why")
            sent.append(topic)

        endpoint: Any = SimpleNamespace(publish_many=publish_many)
        made = Publisher(endpoint)
        gone = asyncio.create_task(made.publish("wrong", 1, None))
        for _ in range(3):
            await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        gate.set()
        assert await asyncio.wait_for(made.publish("t", 2, None), 5.0) == []
        assert sent == ["t"]

    asyncio.run(program())


def test_keys_are_written_anew_once_most_lines_are_old_and_have_a_length(tmp_path: Path) -> None:
    path, now, worked = tmp_path / "keys", [1_000.0], list[int]()

    async def work() -> Any:
        worked.append(1)
        return 202, {}

    async def program() -> None:
        keys = Idempotency(2, 100.0, path, lambda: now[0])
        for number in range(1_004):
            await keys.once("a", f"k{number}", b"", work)
        assert path.read_bytes().count(b"\n") == 1_004
        await keys.once("a", "next", b"", work)
        assert path.read_bytes().count(b"\n") == 2
        await keys.once("a", "more", b"", work)
        assert path.read_bytes().count(b"\n") == 3
        calls = len(worked)
        for key, is_known in (("more", True), ("next", True), ("k1003", False), ("next", False)):
            await keys.once("a", key, b"", work)
            calls += not is_known
            assert len(worked) == calls, "the oldest key is forgotten first"
        worked.clear()
        now[0] = 1_100.0
        assert len(keys._known) == 2
        keys._forget_old()
        assert len(keys._known) == 2, "exactly as old as allowed"
        now[0] = 1_100.5
        keys._forget_old()
        assert len(keys._known) == 0
        for key, is_right in (("", False), ("k", True), ("k" * idempotency.KEY_LIMIT, True), ("k" * 256, False)):
            if is_right:
                await keys.once("a", key, b"", work)
                continue
            with pytest.raises(ProblemError, match="1 to 255"):
                await keys.once("a", key, b"", work)
        keys.close()

    asyncio.run(program())
