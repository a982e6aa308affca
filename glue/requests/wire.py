"""The payloads of requests and replies: a JSON object, a line feed, and then the caller's or responder's payload.

A request: `{"id":7,"within":2000}`. `id` counts the requests of one life of the caller; `within` is how long the caller
will wait, in milliseconds, when it sends the request. Optional: `json` 1, the payload is a JSON document; `retry` 1,
the request may come again with the same id; `path`, the handlers that wait for this request, outermost first, each as
`[endpoint id, endpoint name, pattern]`.

A reply: `{"id":7}` with `json` likewise; or, with no payload, an `error` (the name of what the handler raised) and a
`message`; or `refused`: the responder did nothing, for this reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from glue.contract.heads import MalformedError, integer, split
from glue.contract.pattern import LazyPattern

PREFIX: Final = "$glue"
ANNOUNCED: Final = f"{PREFIX}/responder/"
HEAD_LIMIT: Final = 64 << 10
"""Bytes of the JSON object: a path of 32 hops with patterns of a kilobyte, or some hops with long ones."""
PATH_LIMIT: Final = 32
"""Handlers that wait for each other at most; more are taken for a cycle that the path does not show."""
ID_LIMIT: Final = 10**15
"""Ids are smaller: a caller with a million requests a second needs 30 years for as many."""
WITHIN_LIMIT: Final = 10**9
"""Milliseconds that a caller waits at most: eleven days."""
NAME_LIMIT, MESSAGE_LIMIT = 200, 2000
"""Characters of an error's name and of its message; what is longer is cut."""

GONE, FORGOTTEN, FULL = "gone", "forgotten", "full"
"""Why a responder refuses: it answers no more; it has answered, but kept no copy; it remembers too many requests."""
CYCLE: Final = "RequestCycleError"
"""The error of a handler if its own request would reach a handler that waits for it; its caller gets the same error."""

REQUEST = LazyPattern(rb'\{"id":(0|[1-9][0-9]{0,14}),"within":([1-9][0-9]{0,8})(,"json":1)?\}\n')
"""Matches the head of a request without options: its id, `within` in milliseconds, and `json` if it is there."""
_REPLY = LazyPattern(rb'\{"id":(0|[1-9][0-9]{0,14})(,"json":1)?\}\n')

Hop = tuple[str, str, str]
"""A handler that waits for an answer: its endpoint's id and name, and the pattern it answers."""


def announcement(pattern: str) -> str:
    """The interest that tells callers of a responder."""
    return ANNOUNCED + pattern


def request_topic(endpoint_id: str, topic: str) -> str:
    """The topic of requests to one endpoint; with a pattern, the pattern of these."""
    return f"{PREFIX}/request/{endpoint_id}/{topic}"


def reply_topic(endpoint_id: str, incarnation: int) -> str:
    """The topic of replies to one life of a caller."""
    return f"{PREFIX}/reply/{endpoint_id}/{incarnation}"


def tail_of(body: bytes, json: bool) -> bytes:
    """The end of a request or a reply, equal each time it is sent: whether the payload is JSON, and the payload."""
    return (b',"json":1}\n' if json else b"}\n") + body


class RequestHead:
    """The head of a request, all but its payload; `within` in seconds."""

    __slots__ = ("id", "is_json", "is_repeatable", "path", "within")

    def __init__(self, id: int, within: float, is_json: bool, is_repeatable: bool, path: tuple[Hop, ...]) -> None:
        self.id = id
        self.within = within
        self.is_json = is_json
        self.is_repeatable = is_repeatable
        self.path = path


def encode_requests(first: int, within: float, extra: bytes, tails: Sequence[bytes]) -> list[bytes]:
    """Requests with ids that count up from `first`; `extra` is from `extra_of`."""
    ms = min(max(1, int(within * 1000)), WITHIN_LIMIT - 1)
    return [b'{"id":%d,"within":%d%b%b' % (id, ms, extra, tail) for id, tail in enumerate(tails, first)]


def extra_of(is_repeatable: bool, path: Sequence[Hop]) -> bytes:
    """The optional members of a request, encoded."""
    extra = b',"retry":1' if is_repeatable else b""
    return extra + b',"path":' + orjson.dumps(path) if path else extra


def decode_request(payload: bytes) -> tuple[RequestHead, bytes]:
    """A request and its payload. Raises MalformedError."""
    if payload.__class__ is not bytes:
        raise MalformedError("a JSON document")
    found = REQUEST.match(payload)
    if found is not None:
        id, within, json = found.groups()
        return RequestHead(int(id), int(within) / 1000, json is not None, False, ()), payload[found.end() :]
    head, body = split(payload, HEAD_LIMIT)
    within = integer(head.get("within"), 1, WITHIN_LIMIT - 1)
    is_json, is_repeatable = head.get("json") == 1, head.get("retry") == 1
    return RequestHead(
        integer(head.get("id"), 0, ID_LIMIT - 1), within / 1000, is_json, is_repeatable, _path(head)
    ), body


def encode_reply(id: int, tail: bytes) -> bytes:
    """The reply with a payload; `tail` is from `tail_of`."""
    return b'{"id":%d%b' % (id, tail)


def error_tail(name: str, message: str) -> bytes:
    """The end of a reply that tells of an error."""
    return _text_tail(b',"error":', name[:NAME_LIMIT]) + _text_tail(b',"message":', message[:MESSAGE_LIMIT]) + b"}\n"


def refusal_tail(reason: str) -> bytes:
    """The end of a reply that refuses."""
    return _text_tail(b',"refused":', reason) + b"}\n"


def _text_tail(key: bytes, text: str) -> bytes:
    return key + orjson.dumps(text.encode("utf-8", "replace").decode())


class ReplyHead:
    """The content of a reply: an answer, an error with its name (and `message`), or a refusal."""

    __slots__ = ("error", "id", "is_json", "message", "refused")

    def __init__(self, id: int, is_json: bool, error: str = "", message: str = "", refused: str = "") -> None:
        self.id = id
        self.is_json = is_json
        self.error = error
        self.message = message
        self.refused = refused


def decode_reply(payload: bytes) -> tuple[ReplyHead, bytes]:
    """A reply and its payload. Raises MalformedError."""
    if payload.__class__ is not bytes:
        raise MalformedError("a JSON document")
    found = _REPLY.match(payload)
    if found is not None:
        id, json = found.groups()
        return ReplyHead(int(id), json is not None), payload[found.end() :]
    head, body = split(payload, HEAD_LIMIT)
    error, message, refused = (_text(head.get(key, "")) for key in ("error", "message", "refused"))
    return ReplyHead(integer(head.get("id"), 0, ID_LIMIT - 1), head.get("json") == 1, error, message, refused), body


_ID = LazyPattern(rb'\{"id":(0|[1-9][0-9]{0,14})[,}]')


def first_id(payload: bytes) -> int:
    """The id of a reply that begins with it, as glue writes replies; -1 for all else, which has to be decoded whole."""
    found = _ID.match(payload) if payload.__class__ is bytes else None
    return -1 if found is None else int(found[1])


def answer_of(payload: bytes, id: int) -> tuple[Any] | None:
    """The answer of the reply with this id and nothing else in its head; None for any other payload."""
    if payload.__class__ is not bytes:
        return None
    end = payload.find(b"\n")
    head = payload[:end]
    if head == b'{"id":%d}' % id:
        return (payload[end + 1 :],)
    if head != b'{"id":%d,"json":1}' % id:
        return None
    try:
        return (orjson.loads(payload[end + 1 :]),)
    except orjson.JSONDecodeError:
        return None


def decode_body(body: bytes, is_json: bool) -> Any:
    """The payload as it was given. Raises MalformedError for a document that is none."""
    if not is_json:
        return body
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise MalformedError("json") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise MalformedError("text")
    return value[:MESSAGE_LIMIT]


def _path(head: dict[str, Any]) -> tuple[Hop, ...]:
    path = head.get("path", ())
    if not path:
        return ()
    if not isinstance(path, list) or len(path) > PATH_LIMIT:
        raise MalformedError("path")
    hops: list[Hop] = []
    for hop in path:
        if not isinstance(hop, list) or len(hop) != 3 or not all(isinstance(part, str) for part in hop):
            raise MalformedError("path")
        hops.append((hop[0], hop[1], hop[2]))
    return tuple(hops)
