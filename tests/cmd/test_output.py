"""What commands say, to people and to programs."""

from __future__ import annotations

import datetime
import io
import json
import os
from fractions import Fraction
from typing import Any

import pytest

from glue.cmd.output import STYLES, CommandOutput, payload_fields, payload_text, printable, table
from tests.cmd.prepared import Screen, people, programs

HUGE = 10**5000
LOOP: list[Any] = []
LOOP += [LOOP, LOOP]


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


def test_an_output_that_has_no_room_left_is_an_error() -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    unread: list[None] = []
    output = CommandOutput(Full(), json=True, unread=lambda: unread.append(None))
    with pytest.raises(OSError, match="No space left"):
        output.event("one")
    assert unread == []


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
        ({"a": b"x"}, "{'a': b'x'}"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
    ],
)
def test_payloads_are_shown_as_what_they_are(payload: object, text: str) -> None:
    assert payload_text(payload) == text


def test_programs_are_told_how_bytes_are_written() -> None:
    assert payload_fields({"a": 1}) == {"payload": {"a": 1}}
    assert payload_fields(b"text") == {"payload": "text", "payload_encoding": "utf-8"}
    assert payload_fields(b"\xff") == {"payload": "/w==", "payload_encoding": "base64"}


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"a": b"x"}, {"a": "b'x'"}),
        ({b"k": {2: 1.5}}, {"b'k'": {"2": 1.5}}),
        ([1.0, float("nan"), float("-inf")], [1.0, "nan", "-inf"]),
        ({"at": datetime.date(2026, 11, 29)}, {"at": "2026-11-29"}),
        ([Fraction(1, 3), {None: float("nan")}], ["1/3", {"None": "nan"}]),
        (LOOP, ["[[...], [...]]", "[[...], [...]]"]),
    ],
)
def test_payloads_of_codecs_are_told_to_programs_as_json(payload: object, told: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    stream = io.StringIO()
    CommandOutput(stream, True, lambda: None, "endpoint").event("message", None, **payload_fields(payload))
    assert json.loads(stream.getvalue(), parse_constant=refuse)["payload"] == told


def test_integers_that_python_does_not_write_end_no_command() -> None:
    for payload in (HUGE, [HUGE], {HUGE: 1}, Fraction(HUGE), [float("nan"), Fraction(HUGE)]):
        assert payload_text(payload)
        assert json.loads(said(True, payload=payload))["event"] == "thing"


def test_a_payload_that_is_nested_without_end_is_told_as_far_as_it_goes() -> None:
    payload: list[object] = []
    for _ in range(100_000):
        payload = [payload]
    stream = io.StringIO()
    CommandOutput(stream, True, lambda: None, "endpoint").event("message", payload_text(payload), payload=payload)
    assert json.loads(stream.getvalue())["event"] == "message"


def test_tables_align_words_left_and_numbers_right() -> None:
    assert table([["name", "count"], ["a", "5"], ["long name", "1,000"]]) == [
        "name       count",
        "a              5",
        "long name  1,000",
    ]
    assert table([["name", "count"], ["a", "5"], ["b", ""]]) == ["name  count", "a     5", "b"]


def test_the_output_knows_whether_it_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen, pipe, program = (
        CommandOutput(stream, json, lambda: None)
        for stream, json in ((Screen(), False), (io.StringIO(), False), (Screen(), True))
    )
    assert [one.interactive for one in (screen, pipe, program)] == [True, False, False]
    assert {style: screen.style(style, "x") for style in STYLES} == {
        "bold": "\x1b[1mx\x1b[0m", "dim": "\x1b[2mx\x1b[0m", "red": "\x1b[31mx\x1b[0m", "green": "\x1b[32mx\x1b[0m",
        "yellow": "\x1b[33mx\x1b[0m", "cyan": "\x1b[36mx\x1b[0m",
    }  # fmt: skip
    assert program.style("red", "x") == pipe.style("red", "x") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert CommandOutput(Screen(), False, lambda: None).style("red", "x") == "x"


def test_programs_get_complaints_as_events_and_people_on_the_other_stream(capsys: pytest.CaptureFixture[str]) -> None:
    def complain(output: CommandOutput) -> None:
        output.complaint("bad", "it is bad", why="x")

    assert people(complain) == ""
    assert capsys.readouterr().err == "it is bad\n"
    assert programs(complain) == [{"event": "bad", "why": "x"}]
    assert capsys.readouterr().err == ""


def test_an_event_names_the_endpoint_and_may_be_for_programs_alone() -> None:
    def say(output: CommandOutput) -> None:
        output.event("early", None, path=os)
        output.endpoint = "hall"
        output.event("late", "text", number=1)

    assert people(say) == "text\n"
    early, late = programs(say)
    assert early == {"event": "early", "path": str(os)}
    assert late == {"event": "late", "endpoint": "hall", "number": 1}


def test_a_stream_without_a_character_gets_its_number() -> None:
    bytes_ = io.BytesIO()
    output = CommandOutput(io.TextIOWrapper(bytes_, "ascii"), False, lambda: None)
    output.event("x", "caf\u00e9")
    assert bytes_.getvalue() == b"caf\\xe9\n"


def test_progress_beside_lines_is_quiet_only_where_the_lines_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Screen())
    monkeypatch.setenv("TERM", "xterm")
    for stream, beside, is_shown in ((Screen(), True, False), (io.StringIO(), True, True), (Screen(), False, True)):
        progress = CommandOutput(stream, False, lambda: None).progress("reading", 2.0, beside_lines=beside)
        assert progress._is_shown == is_shown
        assert progress.line(1.0).startswith("reading  [##########----------]  50%")
    assert CommandOutput(io.StringIO(), False, lambda: None).progress("x").line(1.0) == "x  1 s"


def test_shortened_text_has_the_length_that_is_asked_for() -> None:
    assert printable("x" * 80) == "x" * 80
    assert printable("x" * 81) == "x" * 79 + "…"
    assert payload_text(b"\xff" * 100) == ("ff " * 100)[:79] + "…"
    assert payload_text("ü" * 20, 10) == "ü" * 9 + "…"
    assert payload_text(["ü"]) == '["ü"]'
