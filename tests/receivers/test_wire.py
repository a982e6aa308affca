"""What travels between senders and receivers: batches and reports, whole, wrong and cut off."""

from __future__ import annotations

from typing import Any

import pytest

from glue.contract.heads import MalformedError
from glue.receivers.outbox import Entry
from glue.receivers.wire import (
    AGAIN,
    ANSWER,
    Batch,
    Report,
    Result,
    decode,
    decode_batch,
    decode_report,
    encode_batch,
    encode_report,
)

MESSAGES = [
    Entry(1, "a", b"x\ny", False, 60.0, 0.0, (), None),
    Entry(2, "ü/b", b'{"a":1}', True, 60.0, 2.0, ("k/a", "k/b"), None),
    Entry(5, "a", b"null", True, 60.0, 0.0, (), None),
]
BATCH = encode_batch(7, ":k", 3, 64, MESSAGES)
REPORT = Report(
    [1, 2], [(3, "h")], [(4, None), (5, [1, 2])], [(6, Result(1, AGAIN)), (6, Result(2, ANSWER, b"[]", True))]
)


def test_a_batch_and_its_results_are_read_as_they_were_written() -> None:
    batch = Batch(7, ":k", 3, 64, [1, 2, 5], ["a", "ü/b", "a"], [b"x\ny", {"a": 1}, None], {1: (2.0, ("k/a", "k/b"))})
    assert decode_batch(*decode(BATCH)) == batch
    assert decode_report(*decode(encode_report(REPORT))) == REPORT


WRONG: list[tuple[str, Any]] = [
    ("seqs", []), ("seqs", [1, 2]), ("seqs", [0, 1, 2]), ("seqs", [1, 2, True]), ("seqs", [1, 2, 1 << 60]),
    ("ids", ["a", "", "c"]), ("ids", ["a", "b" * 600, "c"]), ("ids", ["a", 1, "c"]), ("ids", "abc"),
    ("bytes", [[0, 99]]), ("bytes", [[9, 3]]), ("bytes", [[0, -3]]), ("bytes", [0]), ("bytes", []),
    ("asks", [[1, 2000]]), ("asks", [[7, 2000, []]]), ("asks", [[1, -1, []]]), ("asks", [[1, 1, [2]]]),
    ("batch", -1), ("partition", None), ("partitions", "64"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_batch_with_a_wrong_field_is_refused(field: str, value: Any) -> None:
    head, body = decode(BATCH)
    with pytest.raises(MalformedError):
        decode_batch({**head, field: value}, body)


@pytest.mark.parametrize("field", ["taken", "moved", "done", "results"])
@pytest.mark.parametrize(
    "value", [1, [-1], [[1, 2, 3]], [["x"]], [[1, 1, 9, 0, 0]], [[1, 1, 1, 99, 0]], [[1, [-1], 0]]]
)
def test_a_report_with_a_wrong_field_is_refused(field: str, value: Any) -> None:
    with pytest.raises(MalformedError):
        decode_report({field: value}, b"")


@pytest.mark.parametrize("payload", [b"", b"{}", b"[]\n", b"{\n", {"of": 1}, b'{"batch":1}\n', b'{"batch":1}\n[]\n'])
def test_malformed_payloads_are_refused(payload: Any) -> None:
    with pytest.raises(MalformedError):
        decode_batch(*decode(payload))


@pytest.mark.parametrize("end", range(0, len(BATCH) - 1, 7))
def test_a_batch_that_is_cut_off_is_refused(end: int) -> None:
    with pytest.raises(MalformedError):
        decode_batch(*decode(BATCH[:end]))
