"""Batches of messages to receivers, and what became of them: a JSON object, a line feed, and the payloads.

A batch: `{"batch":n,"kind":"subnet:kind","partition":p,"partitions":64,"messages":[MESSAGE,…]}`, each message
`[seq,id,size,flags,within,path]`. `seq` counts a sender's messages to one partition; `within` is how long an answer is
awaited in milliseconds, 0 for no answer; `path` the addresses that wait for it. Flags: 1, the payload is JSON.

An answer: `{"of":n,"taken":1}`; `{"of":n,"moved":"host id"}`; or `{"of":n,"results":[[seq,status,size,flags],…]}`. A
question for counters is `{"status":n}`, and its answer `{"counters":n}` with a JSON payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

TOPIC = "$glue/receivers/at/"
HEAD_LIMIT = 1 << 20
"""Bytes of the JSON object: 4,096 messages with ids of 200 characters."""
BATCH_MESSAGES = 4096
JSON = 1
DONE, ANSWER, FAILED, AGAIN = range(4)
"""What became of a message: handled; handled, with an answer; its handler raised; not handled, to be sent again."""


class MalformedError(ValueError):
    """A payload is no batch, and no answer."""


class Item(NamedTuple):
    """One message of a batch; `within` in seconds."""

    seq: int
    id: str
    body: bytes
    is_json: bool
    within: float
    path: tuple[str, ...]


class Result(NamedTuple):
    """What became of one message."""

    seq: int
    status: int
    body: bytes = b""
    is_json: bool = False


def at_topic(endpoint_id: str) -> str:
    """The topic of everything to one endpoint."""
    return TOPIC + endpoint_id


def encode_batch(number: int, kind: str, partition: int, partitions: int, items: Sequence[Item]) -> bytes:
    """A batch."""
    messages = [
        [one.seq, one.id, len(one.body), int(one.is_json), int(one.within * 1000), *([one.path] if one.path else [])]
        for one in items
    ]  # fmt: skip
    head = {"batch": number, "kind": kind, "partition": partition, "partitions": partitions, "messages": messages}
    return b"".join([orjson.dumps(head), b"\n", *[item.body for item in items]])


def encode_results(number: int, results: Sequence[Result]) -> bytes:
    """What became of messages of a batch."""
    head = {"of": number, "results": [[one.seq, one.status, len(one.body), int(one.is_json)] for one in results]}
    return b"".join([orjson.dumps(head), b"\n", *[one.body for one in results]])


def encode(head: dict[str, Any], body: bytes = b"") -> bytes:
    """Any other payload."""
    return orjson.dumps(head) + b"\n" + body


def decode(payload: Any) -> tuple[dict[str, Any], bytes]:
    """The JSON object, and what follows. Raises MalformedError."""
    end = payload.find(b"\n", 0, HEAD_LIMIT) if payload.__class__ is bytes else -1
    if end < 0:
        raise MalformedError("no line feed")
    try:
        head = orjson.loads(payload[:end])
    except orjson.JSONDecodeError:
        raise MalformedError("not JSON") from None
    if not isinstance(head, dict):
        raise MalformedError("no object")
    return head, payload[end + 1 :]


def decode_items(head: dict[str, Any], body: bytes) -> list[Item]:
    """The messages of a batch. Raises MalformedError."""
    items, start = [], 0
    try:
        for seq, id, size, flags, within, *path in _rows(head["messages"]):
            if not (size >= 0 and seq > 0 and 0 <= within < 10**9) or not isinstance(id, str):
                raise MalformedError("message")
            waits = tuple(map(str, path[0])) if path else ()
            items.append(Item(int(seq), id, body[start : start + size], flags == JSON, within / 1000, waits))
            start += size
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError("messages") from error
    if start != len(body):
        raise MalformedError("sizes")
    return items


def decode_results(head: dict[str, Any], body: bytes) -> list[Result]:
    """The results of an answer. Raises MalformedError."""
    results, start = [], 0
    try:
        for seq, status, size, flags in _rows(head["results"]):
            if not (size >= 0 and 0 <= status <= AGAIN):
                raise MalformedError("result")
            results.append(Result(int(seq), int(status), body[start : start + size], flags == JSON))
            start += size
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError("results") from error
    return results


def _rows(rows: Any) -> list[Any]:
    if not isinstance(rows, list) or len(rows) > BATCH_MESSAGES:
        raise MalformedError("rows")
    return rows


def integer(value: Any) -> int:
    """A count. Raises MalformedError."""
    if value.__class__ is not int or not 0 <= value < 1 << 53:
        raise MalformedError("integer")
    return int(value)
