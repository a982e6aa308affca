"""Requests and doors for tests that call a handler of an HTTP door, without sockets."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

from multidict import CIMultiDict, MultiDict

from glue.gateway.http.limits import Limits
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.tokens import EVERYTHING, Rights
from glue.gateway.refusals import Refusals


def request(path: str = "", body: Any = None, query: Any = (), kind: str = "", **headers: str) -> Any:
    """A request whose path has the parts that `path` names, as in "model=plant key=a/b"."""
    parts = dict(part.split("=", 1) for part in path.split())
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

    async def read() -> bytes:
        return data

    return SimpleNamespace(
        match_info=parts, query=MultiDict(query), content_type=kind, content_length=len(data), read=read,
        headers=CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()}), remote="127.0.0.1",
        host="localhost", transport=Wire(),
    )  # fmt: skip


class Wire:
    """The transport of a request."""

    def __init__(self) -> None:
        self.is_cut = False

    def abort(self) -> None:
        self.is_cut = True

    def get_extra_info(self, name: str) -> None:
        return None


def door(limits: Limits | None = None, **parts: Any) -> Any:
    """A door with the parts that a handler uses; `told` has what is in its log."""
    told: list[str] = []
    access = SimpleNamespace(rights=lambda token, certificate, is_local: EVERYTHING)
    return SimpleNamespace(
        limits=limits or Limits(), statistics=Counter(), refusals=Refusals(told.append), told=told, streams=0,
        rights_revision=0, access=access, rules=None, **parts,
    )  # fmt: skip


def called(handler: Any, made: Any, asked: Any, rights: Rights = EVERYTHING) -> tuple[int, Any]:
    """Call a handler; returns its status and its document, or the words of its refusal."""
    try:
        answer = asyncio.run(handler(made, rights, asked))
    except ProblemError as error:
        return error.status, error.detail
    try:
        return answer.status, json.loads(answer.body)
    except (ValueError, TypeError):
        return answer.status, answer.body


class Response:
    """A stream's answer: notes what is written."""

    stuck = 0
    """From how many writes on the client reads nothing more."""
    broken: Exception | None = None

    def __init__(self, headers: dict[str, str] | None = None) -> None:
        self.headers, self.content_type, self.written = headers or {}, "", list[bytes]()

    async def prepare(self, asked: Any) -> None:
        self.asked = asked

    async def write(self, data: bytes) -> None:
        if self.broken is not None:
            raise self.broken
        if self.stuck and len(self.written) >= self.stuck:
            await asyncio.Event().wait()
        self.written.append(data)
