"""Headers read by the thousand mean what they mean one by one, whatever stands in them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from spark.read.header import INTEGERS, TEXTS, MalformedHeaderError, interpret
from spark.read.records import PADDING
from spark.read.templates import FEW, Decoder, _alike

IDS = ["e36759dea8a54260", "99636814c1679116", "00000000000000a0"]
NUMBERS = some.one_of(some.integers(0, 30), some.integers(0, 2**53 + 2), some.integers(0, 10**20))


def decode(texts: list[bytes]) -> tuple[list[dict[str, Any] | None], Counter[str]]:
    """All texts as one block; what each means, None for those that are refused."""
    data = b"".join(texts)
    begin = np.cumsum([0, *map(len, texts)])[:-1]
    captured = np.array(list(map(len, texts)))
    skipped: Counter[str] = Counter()
    columns = Decoder().decode(np.frombuffer(data + bytes(PADDING), np.uint8), begin, captured, skipped)
    texts_of = {name: list(columns.texts[name]) for name in TEXTS}
    rows: list[dict[str, Any] | None] = []
    for row in range(len(texts)):
        found = {name: int(columns.integers[name][row]) for name in INTEGERS if columns.integers[name][row] >= 0}
        codes = {name: int(columns.codes[name][row]) for name in TEXTS if columns.codes[name][row] >= 0}
        named = {name: texts_of[name][code] for name, code in codes.items()}
        rows.append(found | named if columns.good[row] else None)
    return rows, skipped


def test_headers_that_differ_in_digits_alone_are_one_group_unless_their_senders_differ() -> None:
    texts = [b'{"glue":[1,"%s",%d],"%s":%d}' % (id.encode(), n, key, n)
             for n in (1, 7) for key in (b"a", b"b") for id in IDS[:2]]  # fmt: skip
    width = max(map(len, texts)) + 7
    heads = np.array([[*text.ljust(width // 8 * 8, b"\0")] for text in texts], np.uint8)
    groups = _alike(heads, np.array(list(map(len, texts))))
    assert sorted(rows.tolist() for _, rows in groups) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert len({key for key, _ in groups}) == 4


def naively(text: bytes) -> dict[str, Any] | None:
    """What a text means, by the plain reading alone."""
    try:
        columns = interpret(json.loads(text))
    except (ValueError, MalformedHeaderError):
        return None
    del columns["version"]
    return columns


@some.composite
def headers(draw: some.DrawFn) -> bytes:
    glue = [draw(some.sampled_from([1, 1, 1, 2])), draw(some.sampled_from([1, 7, 65535, 70000])),
            draw(some.sampled_from(IDS)), draw(NUMBERS), draw(NUMBERS)]  # fmt: skip
    header: dict[str, Any] = {"glue": glue}
    match draw(some.integers(0, 4)):
        case 0:
            header["transport"] = ["data", *(draw(NUMBERS) for _ in range(7))]
        case 1:
            header["transport"] = ["ack", *(draw(NUMBERS) for _ in range(4))]
        case 2:
            header["discovery"] = [draw(NUMBERS), 0, None, None, draw(some.sampled_from(IDS)), "probe"]
        case 3:
            header["fragment"] = [draw(NUMBERS) for _ in range(4)]
            header["later"] = [draw(some.sampled_from([1.5, "12", -3, True]))]
    text = json.dumps(header, separators=(",", draw(some.sampled_from([":", ": "])))).encode()
    return draw(some.sampled_from([text, text, text.replace(b",1]", b",01]"), text[:-1]])) + b"\n"


@settings(max_examples=300)
@given(some.lists(headers(), min_size=1, max_size=6))
def test_templates_read_what_the_plain_reading_reads(texts: list[bytes]) -> None:
    texts = [text for text in texts if len(text) <= 192]
    rows, _ = decode(texts * FEW)  # often enough that each makes a template
    assert rows == [naively(text) for text in texts] * FEW


def test_numbers_of_a_template_are_each_row_s_own() -> None:
    texts = [
        b'{"glue":[1,1,"%s",1740800000000000,%d],"transport":["data",0,%d,0,0,0,1,%d]}\n'
        % (IDS[row % 2].encode(), 10_000 + row, row % 7, 100 + 3 * row)
        for row in range(300)
    ]
    rows, skipped = decode(texts)
    assert rows == [naively(text) for text in texts]
    assert +skipped == {}


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (b'{"glue":[1,1,"e36759dea8a54260",1,007]}\n', "malformed header"),
        (b'{"glue":[1,1,"e36759dea8a54260",1,9007199254740992]}\n', "malformed header"),
        (b'{"glue":[1,65536,"e36759dea8a54260",1,1]}\n', "malformed header"),
        (b'{"glue":[9,1,"e36759dea8a54260",1,1]}\n', "other version"),
        (b'{"glue":[1,1,"e36759dea8a54260",1,1],"transport":["data",1]}\n', "malformed header"),
        (b'{"glue":[1,1,"e36759dea8a54260",1,1],"transport":7}\n', "malformed header"),
        (b'{"glue":[1,1,"e36759dea8a54260",1,1e3]}\n', "malformed header"),
    ],
)
def test_a_wrong_header_among_right_ones_is_counted(wrong: bytes, cause: str) -> None:
    right = b'{"glue":[1,1,"e36759dea8a54260",1,555]}\n'
    rows, skipped = decode([right] * 50 + [wrong] * 20 + [right] * 50)
    assert [row is None for row in rows] == [False] * 50 + [True] * 20 + [False] * 50
    assert +skipped == {cause: 20}
