"""Headers read by the thousand mean what they mean one by one, whatever stands in them."""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from spark.read import parse
from spark.read.entries import LARGEST_HEADER
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
             for n in (0, 9) for key in (b"a", b"b") for id in IDS[:2]]  # fmt: skip
    width = max(map(len, texts)) + 7
    heads = np.array([[*text.ljust(width // 8 * 8, b"\0")] for text in texts], np.uint8)
    groups = _alike(heads, np.array(list(map(len, texts))))
    assert sorted(rows.tolist() for _, rows in groups) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert len({key for key, _ in groups}) == 4


def grouped(texts: list[bytes]) -> list[list[int]]:
    """The rows that are alike, with all texts in one block."""
    heads = np.zeros((len(texts), 192), np.uint8)
    for row, text in enumerate(texts):
        heads[row, : len(text)] = np.frombuffer(text, np.uint8)
    return sorted(rows.tolist() for _, rows in _alike(heads, np.array(list(map(len, texts)))))


@pytest.mark.parametrize("network", [b"1", b"65535", b"65535" + b" " * 9])
def test_every_digit_of_a_sender_counts_wherever_it_stands(network: bytes) -> None:
    ids = [b"1234567890123456", b"2234567890123456", b"1234567890123457", b"123456789012345f"]
    texts = [b'{"glue":[1,%s,"%s",%d]}' % (network, id, number) for number in (5, 6) for id in ids]
    assert grouped(texts) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert grouped([texts[0], texts[0] + b"]"]) == [[0], [1]]
    assert grouped([texts[0].replace(b"5]", b"15]"), texts[0]]) == [[0], [1]], "a number of another width"


def test_more_groups_than_16_bits_can_number_stay_apart() -> None:
    count = (1 << 16) + 1
    heads = np.zeros((count + 1, 192), np.uint8)
    for byte in range(3):
        heads[:count, byte] = ord("a") + (np.arange(count) >> 6 * byte) % 64
    heads[count] = heads[0]
    groups = _alike(heads, np.full(count + 1, 3))
    assert (len(groups), sum(len(rows) for _, rows in groups)) == (count, count + 1)
    assert [rows.tolist() for _, rows in groups if len(rows) > 1] == [[0, count]]


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
        (b'{"glue":[1,1,"e36759dea8a54260",1,555],"x":[NaN]}\n', "malformed header"),
    ],
)
def test_a_wrong_header_among_right_ones_is_counted(wrong: bytes, cause: str) -> None:
    right = b'{"glue":[1,1,"e36759dea8a54260",1,555]}\n'
    rows, skipped = decode([right] * 50 + [wrong] * 20 + [right] * 50)
    assert [row is None for row in rows] == [False] * 50 + [True] * 20 + [False] * 50
    assert +skipped == {cause: 20}


HEADER = b'{"glue":[%s,%s,"e36759dea8a54260",1,%s]}\n'


@pytest.mark.parametrize(
    ("right", "wrong", "cause"),
    [
        ((b"1", b"1", b"%d" % (2**53 - 1)), (b"1", b"1", b"%d" % 2**53), "malformed header"),
        ((b"1", b"65535", b"5"), (b"1", b"65536", b"5"), "malformed header"),
        ((b"1", b"10", b"5"), (b"1", b"01", b"5"), "malformed header"),
        ((b"1", b"1", b"0"), (b"2", b"1", b"0"), "other version"),
        ((b"1", b"1", b"0"), (b"0", b"1", b"0"), "other version"),
    ],
)
def test_a_wrong_number_among_headers_of_the_same_form_is_refused(
    right: tuple[bytes, ...], wrong: tuple[bytes, ...], cause: str
) -> None:
    for turn in (1, -1):
        texts = [HEADER % numbers for numbers in [right, wrong, right, right][::turn] * FEW]
        rows, skipped = decode(texts)
        assert [row is not None for row in rows] == [True, False, True, True][::turn] * FEW
        assert {row["counter"] for row in rows if row is not None} == {int(right[2])}
        assert +skipped == {cause: FEW}


def test_a_header_has_to_end_within_its_datagram_and_its_limit() -> None:
    good = HEADER % (b"1", b"1", b"5")
    full = good[:-2] + b" " * (LARGEST_HEADER - len(good)) + b"}\n"
    rows, skipped = decode([full, full, full[:-2] + b" }\n", b"{" * LARGEST_HEADER, b"{" * (LARGEST_HEADER - 1)] * 2)
    assert [row is not None for row in rows] == [True, True, False, False, False] * 2
    assert +skipped == {"other UDP": 4, "cut short in the header": 2}
    rows, skipped = decode([b"", good, good[:-1], b"\nnext", good])
    assert [row is not None for row in rows] == [False, True, False, False, True]
    assert +skipped == {"other UDP": 2, "cut short in the header": 1}, "what follows is of another datagram"


def test_documents_are_parsed_alike_without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "orjson", None)
    plain = runpy.run_path(parse.__file__)["loads"]
    for good in (b'{"a":[1,2.5,null,true,"\xc3\xa9"]}', b"[]", b"7"):
        assert plain(good) == parse.loads(good)
    for wrong in (b"[NaN]", b"[Infinity]", b"-Infinity", b"{", b"", b'"\xff"', b"[" * 100_000):
        for one in (plain, parse.loads):
            with pytest.raises(ValueError):  # noqa: PT011
                one(wrong)
