"""Keys of models by HTTP: what each route asks of its model, and what it answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.gateway.http import models, streaming
from glue.gateway.http.clients import Permit
from glue.gateway.http.limits import Limits
from glue.gateway.http.tokens import EVERYTHING, Rights
from tests.gateway.http.asked import Response, called, door, request


class Model:
    """A model that notes what it is asked."""

    status = SimpleNamespace(
        leader="hall", role="follower", term=3, keys=7, voters=("hall", "door"), failure="", more="unused"
    )

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.entries: dict[str, Any] = {"a/b": SimpleNamespace(value={"on": True}, revision=12)}
        self.problem: Exception | None = None

    def _note(self, name: str, *what: Any) -> int:
        self.asked.append((name, *what))
        if self.problem is not None:
            raise self.problem
        return 40 + len(self.asked)

    async def items(self, pattern: str, stale: bool) -> dict[str, int]:
        self._note("items", pattern, stale)
        return {"a": 1}

    async def entry(self, key: str, stale: bool) -> Any:
        self._note("entry", key, stale)
        return self.entries.get(key)

    async def set(self, key: str, value: Any) -> int:
        return self._note("set", key, value)

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> int:
        return self._note("compare", key, expected, value)

    async def transaction(self, *steps: Any) -> int:
        return self._note("transaction", *steps)

    async def update(self, key: str, patch: Any) -> int:
        return self._note("update", key, patch)

    async def delete(self, key: str) -> None:
        self._note("delete", key)


KEY = "model=plant key=a/b"


@pytest.mark.parametrize(
    ("handler", "asked", "call", "answer"),
    [
        (models.get, request(KEY), ("entry", "a/b", False), (200, {"on": True}, '"12"')),
        (models.get, request(KEY, query=[("stale", "1")]), ("entry", "a/b", True), (200, {"on": True}, '"12"')),
        (models.items, request("model=plant"), ("items", "#", False), (200, {"items": {"a": 1}}, None)),
        (models.items, request("model=plant", query=[("pattern", "a/+"), ("stale", "yes")]),
         ("items", "a/+", True), (200, {"items": {"a": 1}}, None)),
        (models.put, request(KEY, 5), ("set", "a/b", 5), (200, {"revision": 41}, '"41"')),
        (models.put, request(KEY, 5, if_none_match="*"), ("compare", "a/b", glue.ABSENT, 5),
         (200, {"revision": 41}, '"41"')),
        (models.put, request(KEY, 5, if_none_match='"3"'), ("set", "a/b", 5), (200, {"revision": 41}, '"41"')),
        (models.put, request(KEY, 5, if_match='"0"', if_none_match="*"),
         ("transaction", glue.ExpectRevision("a/b", 0), glue.Set("a/b", 5)), (200, {"revision": 41}, '"41"')),
        (models.compare, request(KEY, {"value": 5}), ("compare", "a/b", glue.ABSENT, 5), (200, {"revision": 41}, None)),
        (models.compare, request(KEY, {"value": 5, "expected": None}), ("compare", "a/b", None, 5),
         (200, {"revision": 41}, None)),
        (models.patch, request(KEY, {"on": None}), ("update", "a/b", {"on": None}), (200, {"revision": 41}, None)),
        (models.delete, request(KEY), ("delete", "a/b"), (204, None, None)),
    ],
)  # fmt: skip
def test_each_route_asks_its_model_one_thing(handler: Any, asked: Any, call: Any, answer: Any) -> None:
    model = Model()
    found = asyncio.run(handler(door(models={"plant": model}), EVERYTHING, asked))
    assert model.asked == [call]
    status, document, etag = answer
    assert (found.status, found.headers.get("etag")) == (status, etag)
    assert found.body is None if document is None else models._json(found.body) == document


@pytest.mark.parametrize(
    ("handler", "asked", "right"),
    [
        (models.get, request(KEY), ((), ("$model/plant/a/b",))),
        (models.items, request("model=plant", query=[("pattern", "a/#")]), ((), ("$model/plant/a/#",))),
        (models.put, request(KEY, 5), (("$model/plant/a/b",), ())),
        (models.compare, request(KEY, {"value": 5}), (("$model/plant/a/b",), ())),
        (models.patch, request(KEY, {}), (("$model/plant/a/b",), ())),
        (models.delete, request(KEY), (("$model/plant/a/b",), ())),
    ],
)
def test_a_client_needs_the_right_to_the_key_and_to_nothing_more(handler: Any, asked: Any, right: Any) -> None:
    model = Model()
    made = door(models={"plant": model})
    publish, subscribe = right
    status, words = called(handler, made, asked, Rights("x", subscribe, publish))
    assert (status, model.asked) == (403, [])
    assert words.startswith(f"client 'x' may not {'publish to' if publish else 'read'} '$model/plant/a/")
    assert called(handler, made, asked, Rights("x", publish, subscribe))[0] in (200, 204)


@pytest.mark.parametrize("handler", [models.put, models.compare])
def test_a_condition_that_does_not_hold_is_told_and_a_minority_is_another_matter(handler: Any) -> None:
    model = Model()
    made, asked = door(models={"plant": model}), request(KEY, {"value": 1})
    model.problem = glue.RefusedError("it has another value")
    assert called(handler, made, asked) == (412, "it has another value")
    model.problem = glue.MinorityError("no majority")
    with pytest.raises(glue.MinorityError):
        called(handler, made, asked)


def test_what_is_not_there_or_not_understood_is_named() -> None:
    made = door(models={"plant": Model(), "house": Model()})
    assert called(models.get, made, request("model=other key=a")) == (
        404, "no model 'other' at this door; there are plant, house",
    )  # fmt: skip
    assert called(models.get, door(models={}), request("model=other key=a")) == (
        404, "no model 'other' at this door; there are none",
    )  # fmt: skip
    assert called(models.get, made, request("model=plant key=none")) == (404, "no key 'none'")
    assert called(models.compare, made, request(KEY, {"expected": 1})) == (400, "'value' is missing")
    for handler in (models.put, models.patch):
        status, words = called(handler, made, request(KEY, b"{no"))
        assert (status, words.partition(":")[0]) == (400, "the body is no JSON")


def test_the_models_that_a_client_may_read_are_listed_with_their_voters() -> None:
    made = door(models={"plant": Model(), "house": Model()})
    row = {"leader": "hall", "role": "follower", "term": 3, "keys": 7, "voters": ["hall", "door"], "failure": ""}
    assert called(models.show_models, made, request()) == (
        200, {"models": [{"model": "plant", **row}, {"model": "house", **row}]},
    )  # fmt: skip
    some = Rights("x", (), ("$model/house/#",))
    assert called(models.show_models, made, request(), some) == (200, {"models": [{"model": "house", **row}]})
    assert called(models.show_models, made, request(), Rights("x", (), ("$model/house/a",))) == (200, {"models": []})


class Watching:
    """The changes of a model."""

    def __init__(self, *changes: Any) -> None:
        self._changes, self.waited, self.is_closed = list(changes), list[float](), False

    async def get(self, timeout: float) -> Any:
        self.waited.append(timeout)
        change = self._changes.pop(0)
        if isinstance(change, Exception):
            raise change
        return change

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("accept", "lines"),
    [
        ("text/event-stream",
         [b"", b'data: {"key":"a","value":1,"revision":5}\n\n', b": ping\n\n",
          b'event: refused\ndata: {"reason":"this token is not known"}\n\n']),
        ("application/x-ndjson",
         [b"", b'{"key":"a","value":1,"revision":5}\n', b"\n",
          b'{"event":"refused","reason":"this token is not known"}\n']),
    ],
)  # fmt: skip
def test_a_watch_tells_changes_signs_of_life_and_why_it_ends(
    accept: str, lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "web", SimpleNamespace(StreamResponse=Response))
    change = SimpleNamespace(key="a", value=1, index=5)
    made = door(Limits(ping=7.0))
    watching = Watching(change, TimeoutError(), change)
    model = Model()

    async def watch(pattern: str) -> Watching:
        assert made.streams == 0
        model.asked.append(pattern)
        return watching

    model.watch = watch  # type: ignore[attr-defined]
    made.models = {"plant": model}
    asked = request("model=plant", query=[("pattern", "a/+")], accept=accept, authorization="Bearer x")
    get = watching.get

    async def change_rights(timeout: float) -> Any:
        assert made.streams == 1
        if len(watching.waited) == 2:
            made.rights_revision, made.access.rights = 1, lambda *_: None
        return await get(timeout)

    watching.get = change_rights  # type: ignore[method-assign]
    response: Any = asyncio.run(models.items(made, EVERYTHING, asked))
    assert (response.asked, response.written) == (asked, lines)
    assert (response.content_type, response.headers) == (accept, {"cache-control": "no-store"})
    assert (model.asked, watching.waited, watching.is_closed, made.streams) == (["a/+"], [7.0] * 3, True, 0)
    made.limits = Limits(streams=0)
    assert called(models.items, made, asked) == (503, "there are 0 streams already")


def test_a_watch_that_fails_cuts_its_client_which_would_take_an_answer_for_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "web", SimpleNamespace(StreamResponse=Response))
    made, watching = door(), Watching(SimpleNamespace(key="a", value=1, index=5), glue.ClosedError("closed"))

    async def watch(pattern: str) -> Watching:
        return watching

    made.models = {"plant": SimpleNamespace(watch=watch)}
    asked = request("model=plant", accept="application/x-ndjson")
    response: Any = asyncio.run(models.items(made, EVERYTHING, asked))
    assert response.written == [b"", b'{"key":"a","value":1,"revision":5}\n']
    assert (asked.transport.is_cut, watching.is_closed, made.streams) == (True, True, 0)


def test_a_client_that_reads_nothing_is_cut_and_one_that_has_gone_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    made = door(Limits(send_time=0.001))
    asked, stuck, gone, fine = request(), Response(), Response(), Response()
    stuck.stuck, gone.broken = 1, ConnectionResetError("gone")

    async def program() -> list[bool]:
        found = [await streaming.write(made, asked, stuck, b"1")]  # type: ignore[arg-type]
        for response in (stuck, gone, fine):
            assert not asked.transport.is_cut or response is not stuck
            found.append(await streaming.write(made, asked, response, b"2"))  # type: ignore[arg-type]
        return found

    assert asyncio.run(program()) == [True, False, False, True]
    assert (asked.transport.is_cut, made.statistics) == (True, {"streams cut: the client read nothing": 1})
    assert made.told == ["127.0.0.1: streams cut: the client read nothing"]
    asked.transport = None
    assert not asyncio.run(streaming.write(made, asked, stuck, b"3"))  # type: ignore[arg-type]
    permit = Permit(made, EVERYTHING, asked, ["#"])
    assert permit.refusal() == ""
