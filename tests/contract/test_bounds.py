"""Messages between keepers, doors and hosts: each number has its bounds, and nothing else is a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from glue.contract import BULK
from glue.contract.heads import MalformedError
from glue.delayed import wire as delayed
from glue.history import wire as history
from glue.receivers import wire as receivers
from glue.topics.bundle import INTEGER_LIMIT, SEQUENCE_LIMIT, MessageGroup, body_of
from tests.support.bounds import Path, changed, check_bounds

ID = "a" * 16
COUNT = (0, INTEGER_LIMIT)
PLACE = (1, INTEGER_LIMIT)


def packed(document: Any, body: bytes = b"") -> bytes:
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE) + body


def group() -> MessageGroup:
    return MessageGroup("t", 1, 17, [b"x"], 1)


def a_batch(document: Any) -> receivers.Batch:
    return receivers.decode_batch(*receivers.decode(packed(document, b"[1,0]\nxyz")))


def a_report(document: Any) -> receivers.Report:
    return receivers.decode_report(*receivers.decode(packed(document, b"xyz")))


REQUEST = {"id": 1, "room": 9, "scan": "a/#", "start": ["last", 3], "after": 4, "until": 5}
ASKED = {"id": 1, "room": 9, "heads": "a/#", "eras": [3, 4], "era": 1, "kept": 1}
RANGES = {"id": 1, "room": 9, "ranges": [["t", 2, 5, 0, ID, 3]]}
PAGE = {
    "id": 1, "next": 2, "head": 3, "known": 1, "answered": 1, "until": 4, "compared": 1, "origins": [[ID, "n", 7, 1]],
    "heads": [["t", 5, ID, 3, 1]],
}  # fmt: skip
PUT = {"put": [[ID, 1, 2, "n", 3, 4, 1]], "done": [[ID, 1, 2]]}
BATCH = {
    "batch": 1, "kind": ":k", "partition": 2, "partitions": 4, "seqs": [5, 6], "ids": ["x", "y"], "bytes": [[1, 3]],
    "asks": [[0, 2000, []]],
}  # fmt: skip
REPORT = {"taken": [1], "moved": [[2, ID]], "done": [[3], [4, [5]]], "results": [[6, 7, receivers.ANSWER, 3, 0]]}

CASES: dict[str, tuple[Any, Callable[[Any], object], type[Exception], dict[Path, tuple[int, int | None]]]] = {
    "scan": (
        REQUEST, lambda one: history.decode_request(packed(one)), MalformedError,
        {("id",): COUNT, ("room",): COUNT, ("start", 1): (-INTEGER_LIMIT, INTEGER_LIMIT), ("after",): COUNT,
         ("until",): COUNT},
    ),
    "heads": (
        ASKED, lambda one: history.decode_request(packed(one)), MalformedError,
        {("eras", 0): COUNT, ("eras", 1): COUNT, ("era",): (-1, 2)},
    ),
    "ranges": (
        RANGES, lambda one: history.decode_request(packed(one)), MalformedError,
        {("ranges", 0, 1): (1, 5), ("ranges", 0, 2): (2, SEQUENCE_LIMIT), ("ranges", 0, 3): COUNT,
         ("ranges", 0, 5): COUNT},
    ),
    "page": (
        PAGE, lambda one: history.decode_page(packed(one, b"".join(body_of([group()])))), MalformedError,
        {("id",): COUNT, ("next",): COUNT, ("head",): COUNT, ("answered",): COUNT, ("until",): COUNT,
         ("compared",): COUNT, ("origins", 0, 2): COUNT, ("origins", 0, 3): (1, 1),
         ("heads", 0, 1): (1, SEQUENCE_LIMIT), ("heads", 0, 3): COUNT, ("heads", 0, 4): COUNT},
    ),
    "delayed": (
        PUT, lambda one: delayed.parse(packed(one, b"".join(body_of([group()])))), MalformedError,
        {("put", 0, 1): COUNT, ("put", 0, 2): PLACE, ("put", 0, 4): (0, delayed.WAIT_LIMIT), ("put", 0, 5): (0, BULK),
         ("put", 0, 6): (0, 1), ("done", 0, 1): COUNT, ("done", 0, 2): PLACE},
    ),
    "batch": (
        BATCH, a_batch, MalformedError,
        {("batch",): (0, receivers.SEQ_LIMIT - 1), ("partition",): (0, receivers.SEQ_LIMIT - 1),
         ("partitions",): (0, receivers.SEQ_LIMIT - 1), ("seqs", 0): (1, receivers.SEQ_LIMIT - 1),
         ("bytes", 0, 0): (0, 1), ("bytes", 0, 1): (3, 3), ("asks", 0, 0): (0, 1), ("asks", 0, 1): (0, 10**9 - 1)},
    ),
    "report": (
        REPORT, a_report, MalformedError,
        {("taken", 0): (0, receivers.SEQ_LIMIT - 1), ("moved", 0, 0): (0, receivers.SEQ_LIMIT - 1),
         ("done", 0, 0): (0, receivers.SEQ_LIMIT - 1), ("results", 0, 0): (0, receivers.SEQ_LIMIT - 1),
         ("results", 0, 1): (0, receivers.SEQ_LIMIT - 1), ("results", 0, 2): (receivers.ANSWER, receivers.AGAIN),
         ("results", 0, 3): (3, 3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_number_is_taken_within_its_bounds_alone(case: str) -> None:
    check_bounds(*CASES[case])


LONG = "x" * 70_000
WRONG: list[tuple[str, Path, Any]] = [
    ("scan", ("start", 0), "soon"), ("scan", ("start",), ["last", 1, 2]), ("scan", ("scan",), "a/#/b"),
    ("heads", ("eras",), [1, 2, 3]), ("heads", ("eras",), None), ("ranges", ("ranges", 0), ["t", 1, 2, 0, ID]),
    ("ranges", ("ranges", 0, 4), ID + "a"), ("page", ("origins", 0, 0), ID[1:]), ("page", ("origins", 0, 1), LONG),
    ("page", ("heads", 0, 0), "a/+"), ("page", ("heads", 0, 2), "a"), ("page", ("digests",), [ID, ID]),
    ("page", ("digests",), [ID, ID, "a"]), ("delayed", ("put", 0, 0), ID[1:]), ("delayed", ("put", 0, 3), LONG),
    ("delayed", ("done", 0), [ID, 1]), ("batch", ("ids", 0), ""), ("batch", ("ids", 0), "x" * 513),
    ("batch", ("seqs",), [5]), ("report", ("done", 0), [1, [2], 3]),
]  # fmt: skip


@pytest.mark.parametrize(("case", "path", "value"), WRONG)
def test_what_has_another_form_is_refused(case: str, path: Path, value: Any) -> None:
    document, decode, error, _ = CASES[case]
    with pytest.raises(error):
        decode(changed(document, path, value))
