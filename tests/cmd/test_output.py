"""What commands say, to people and to programs."""

from __future__ import annotations

import io
import json
import os
from typing import Any

import pytest

from glue.cmd.output import CommandOutput, payload_fields, payload_text, printable, table


def said(as_json: bool, **fields: Any) -> str:
    stream = io.StringIO()
    CommandOutput(stream, as_json, lambda: None, "some", 2).event("thing", "a thing", **fields)
    return stream.getvalue()


def test_programs_get_one_json_object_a_line() -> None:
    line = said(True, text="two\nlines, ü and \ud800")
    assert line.count("\n") == 1
    form = {"glue": "some", "format": 2}
    assert json.loads(line) == {**form, "event": "thing", "text": "two\nlines, ü and \ud800"}


def test_people_get_text_without_colours_where_there_is_no_terminal() -> None:
    output = CommandOutput(io.StringIO(), json=False, unread=lambda: None)
    assert said(False) == "a thing\n"
    assert output.style("red", "text") == "text"


def test_an_output_that_nobody_reads_any_more_is_reported_once_and_then_silent() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    unread: list[None] = []
    with open(write_end, "w") as stream:
        output = CommandOutput(stream, json=True, unread=lambda: unread.append(None))
        output.event("one")
        output.event("two")
    assert len(unread) == 1


def test_what_came_from_the_network_cannot_command_the_terminal() -> None:
    assert printable("\x1b[2Jred\nalert\x9b") == r"\x1b[2Jred\nalert\x9b"
    assert printable("x" * 100, 10) == "xxxxxxxxx…"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("plain", "plain"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (b"text \xc3\xbc", "text ü"),
        (b"\x00\xff", "00 ff"),
        (b"\xc3\xbc" * 300, "ü" * 79 + "…"),
        (b"", ""),
    ],
)
def test_payloads_are_shown_as_what_they_are(payload: object, text: str) -> None:
    assert payload_text(payload) == text


def test_programs_are_told_how_bytes_are_written() -> None:
    assert payload_fields({"a": 1}) == {"payload": {"a": 1}}
    assert payload_fields(b"text") == {"payload": "text", "payload_encoding": "utf-8"}
    assert payload_fields(b"\xff") == {"payload": "/w==", "payload_encoding": "base64"}


def test_tables_align_words_left_and_numbers_right() -> None:
    assert table([["name", "count"], ["a", "5"], ["long name", "1,000"]]) == [
        "name       count",
        "a              5",
        "long name  1,000",
    ]
