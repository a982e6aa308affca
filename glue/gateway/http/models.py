"""Keys of models by HTTP: get, set, compare, change, delete, watch."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from glue.errors import GlueError
from glue.gateway.http.clients import Permit
from glue.gateway.http.door import Door
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.routes import Route, answer, body_of, check_publish, check_subscribe, document_of, flag
from glue.gateway.http.streaming import NDJSON, SSE, check_room, failed, kind_of, told, write
from glue.gateway.http.tokens import MODEL, Rights


def model_of(door: Door, request: web.Request) -> tuple[str, Any]:
    """Return the model that a path names. Raises ProblemError."""
    name = request.match_info["model"]
    if name not in door.models:
        raise ProblemError(404, f"no model {name!r:.80} at this door; there are {', '.join(door.models) or 'none'}")
    return name, door.models[name]


def revision_of(request: web.Request) -> int | None:
    """Return what `If-Match` says; None without it. Raises ProblemError."""
    text = request.headers.get("if-match")
    if text is None:
        return None
    number = text.strip().removeprefix("W/").strip('"')
    if not number.isascii() or not number.isdigit() or len(number) > 18:
        raise ProblemError(400, "If-Match: expected a revision in quotes, as ETag gives it")
    return int(number)


async def show_models(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """List the models of this door, with leader and voters."""
    found = []
    for name, model in door.models.items():
        if rights.may_subscribe(f"{MODEL}{name}/#"):
            status = model.status
            found.append({
                "model": name, "leader": status.leader, "role": status.role, "term": status.term, "keys": status.keys,
                "voters": list(status.voters), "failure": status.failure,
            })  # fmt: skip
    return answer({"models": found})


async def items(door: Door, rights: Rights, request: web.Request) -> web.StreamResponse:
    """Return the keys and values that match `pattern`, or watch them, by the Accept header."""
    name, model = model_of(door, request)
    pattern = request.query.get("pattern", "#")
    check_subscribe(rights, f"{MODEL}{name}/{pattern}")
    if kind_of(request) in (SSE, NDJSON):
        return await watch(door, Permit(door, rights, request, [f"{MODEL}{name}/{pattern}"]), request, model, pattern)
    return answer({"items": await model.items(pattern, stale=flag(request, "stale"))})


async def get(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Give the value of a key, and its revision as ETag."""
    name, model = model_of(door, request)
    key = request.match_info["key"]
    check_subscribe(rights, f"{MODEL}{name}/{key}")
    entry = await model.entry(key, stale=flag(request, "stale"))
    if entry is None:
        raise ProblemError(404, f"no key {key!r:.200}")
    return answer(entry.value, headers={"etag": f'"{entry.revision}"'})


async def put(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Set a key; with `If-Match` only at this revision, with `If-None-Match: *` only if it has no value."""
    import glue

    name, model = model_of(door, request)
    key = request.match_info["key"]
    check_publish(rights, f"{MODEL}{name}/{key}")
    value = _json(await body_of(door, request))
    revision = revision_of(request)
    try:
        if revision is not None:
            done = await model.transaction(glue.ExpectRevision(key, revision), glue.Set(key, value))
        elif request.headers.get("if-none-match") == "*":
            done = await model.compare_and_set(key, glue.ABSENT, value)
        else:
            done = await model.set(key, value)
    except glue.RefusedError as error:
        if isinstance(error, glue.MinorityError):
            raise
        raise ProblemError(412, str(error)) from None
    return answer({"revision": done}, headers={"etag": f'"{done}"'})


async def compare(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Set a key if it has an expected value; without `expected`, if it has none."""
    import glue

    name, model = model_of(door, request)
    key = request.match_info["key"]
    check_publish(rights, f"{MODEL}{name}/{key}")
    document = await document_of(door, request)
    if "value" not in document:
        raise ProblemError(400, "'value' is missing", pointer="/value")
    try:
        done = await model.compare_and_set(key, document.get("expected", glue.ABSENT), document["value"])
    except glue.RefusedError as error:
        if isinstance(error, glue.MinorityError):
            raise
        raise ProblemError(412, str(error)) from None
    return answer({"revision": done})


async def patch(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Apply a JSON Merge Patch (RFC 7396) to a key."""
    name, model = model_of(door, request)
    key = request.match_info["key"]
    check_publish(rights, f"{MODEL}{name}/{key}")
    return answer({"revision": await model.update(key, _json(await body_of(door, request)))})


async def delete(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Remove a key."""
    name, model = model_of(door, request)
    key = request.match_info["key"]
    check_publish(rights, f"{MODEL}{name}/{key}")
    await model.delete(key)
    return web.Response(status=204)


async def watch(door: Door, permit: Permit, request: web.Request, model: Any, pattern: str) -> web.StreamResponse:
    """Stream the changes of keys, beginning with what is there."""
    check_room(door)
    response = web.StreamResponse(headers={"cache-control": "no-store"})
    response.content_type = SSE if kind_of(request) == SSE else NDJSON
    watching = await model.watch(pattern)
    door.streams += 1
    try:
        await response.prepare(request)
        try:
            await _tell_changes(door, permit, request, response, watching)
        except (GlueError, OSError) as error:  # the answer has begun, so it can only end
            failed(request, error)
        return response
    finally:
        door.streams -= 1
        watching.close()


async def _tell_changes(
    door: Door, permit: Permit, request: web.Request, response: web.StreamResponse, watching: Any
) -> None:  # fmt: skip
    """Write the changes of keys until the client goes, or may read no longer."""
    is_sse, data = kind_of(request) == SSE, b""
    while await write(door, request, response, data):
        try:
            change = await watching.get(door.limits.ping)
            text = orjson.dumps({"key": change.key, "value": change.value, "revision": change.index})
            data = b"data: %b\n\n" % text if is_sse else text + b"\n"
        except TimeoutError:
            data = b": ping\n\n" if is_sse else b"\n"
        if refusal := permit.refusal():
            await write(door, request, response, told(is_sse, "refused", {"reason": refusal}))
            return


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError as error:
        raise ProblemError(400, f"the body is no JSON: {error}") from None


_KEY = "/v1/models/{model}/keys/{key:.+}"

ROUTES = [
    Route("GET", "/v1/models", show_models, "List the models of this door"),
    Route(
        "GET", "/v1/models/{model}/keys", items, "Give keys and values, or watch them",
        {"pattern": "of keys", "stale": "1: what this door knows"}, answers={200: "{items}, or a stream of changes"},
    ),
    Route("GET", _KEY, get, "Give a value", {"stale": "1: what this door knows"}, answers={404: "There is none"}),
    Route("PUT", _KEY, put, "Set a value", body="A JSON value", answers={412: "The condition does not hold"}),
    Route(
        "POST", _KEY, compare, "Compare and set", body='{"expected", "value"}', needs=["value"],
        answers={412: "It has another value"},
    ),
    Route("PATCH", _KEY, patch, "Change members of a value", body="A JSON Merge Patch"),
    Route("DELETE", _KEY, delete, "Remove a key", answers={204: "It is gone"}),
]  # fmt: skip
