"""`glue endpoint`, `glue history` and `glue request` at prepared endpoints."""

from __future__ import annotations

import io
import json
import sys
from argparse import ArgumentTypeError
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.cmd import common, endpoint, history, request
from glue.requests.routes import Routes
from tests.cmd.prepared import Calls, Time, lines_of, message, people, programs

Capture = pytest.CaptureFixture[str]


class Receipt:
    """A receipt whose outcome is known from the beginning, or after it was waited for."""

    def __init__(self, delivered: int = 1, lost: dict[str, str] | None = None, late: bool = False) -> None:
        self.delivered = delivered
        self.lost = lost or {}
        self.complete = not late
        self.waited: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.complete = True


def published(*words: str, **answers: Any) -> tuple[list[Any], int]:
    """What `glue endpoint` asks of its endpoint to publish this, and its code."""
    given = endpoint.parser().parse_args([*words])
    there: Any = Calls(**{"flush": True, "wait_for_subscribers": True, **answers})
    return there.calls, endpoint.publish_all(there, given)


PLAIN = {"type": None, "retain": False, "lifespan": None, "reliability": "reliable", "priority": "normal",
         "receipt": True, "block": False}  # fmt: skip


def test_each_payload_is_published_with_its_options(capsys: Capture) -> None:
    receipt = Receipt()
    calls, code = published("--publish", "a", '{"x": 1}', "--publish", "b", "two words", publish=receipt)
    assert code == 0
    assert [call for call in calls if call[0] == "publish"] == [
        ("publish", "a", {"x": 1}, PLAIN), ("publish", "b", "two words", PLAIN),
    ]  # fmt: skip
    assert calls[0][:3] == ("wait_for_subscribers", "a", 1)
    options = ["--type", "t", "--retain", "--lifespan", "2", "--reliability", "best-effort", "--priority", "urgent"]
    calls, code = published("--publish", "a", "1", "--bytes", *options, publish=None)
    assert [call for call in calls if call[0] == "publish"] == [("publish", "a", b"1", {
        "type": "t", "retain": True, "lifespan": 2.0, "reliability": "best-effort", "priority": "urgent",
        "receipt": False, "block": False,
    })]  # fmt: skip
    assert (code, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize(("words", "answers", "code", "told"), [
    ((), {"publish": Receipt(0)}, 1, "nobody subscribes to a"),
    ((), {"publish": Receipt(0), "wait_for_subscribers": True}, 0, ""),
    ((), {"publish": Receipt(0, {"x": "expired", "y": "evicted"})}, 1, "nobody received (evicted, expired) a"),
    ((), {"publish": Receipt(0, {"x": "peer removed"})}, 0, ""),
    ((), {"publish": Receipt(1, {"x": "expired"})}, 0, ""),
    ((), {"publish": Receipt(0, {"x": "gone"}), "wait_for_subscribers": True}, 1, "nobody received (gone) a"),
    (("--reliability", "best-effort"), {"publish": None}, 1, "nobody subscribes to a"),
    (("--retain",), {"publish": Receipt(0)}, 1,
     "nobody subscribes to a; a retained value lasts as long as its endpoint: add --duration"),
    (("--retain", "--duration", "1"), {"publish": Receipt(0)}, 0, ""),
    (("--retain", "--subscribe", "x"), {"publish": Receipt(0)}, 0, ""),
    (("--retain", "--presence", "x"), {"publish": Receipt(0)}, 0, ""),
    (("--duration", "1"), {"publish": Receipt(0)}, 1, "nobody subscribes to a"),
    ((), {"publish": Receipt(), "flush": False}, 1, "not acknowledged within 10 seconds"),
])  # fmt: skip
def test_what_nobody_received_is_a_failure(
    words: tuple[str, ...], answers: dict[str, Any], code: int, told: str, capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    clock = Time()
    monkeypatch.setattr(common, "time", clock)
    monkeypatch.setattr(endpoint, "time", clock)
    there = answers.pop("wait_for_subscribers", False)

    def wait(topic: str, count: int, seconds: float) -> bool:
        clock.now += seconds
        return bool(there)

    def flush(seconds: float) -> bool:
        clock.now += seconds
        return bool(answers.get("flush", True))

    calls, found = published("--publish", "a", "1", *words, **{**answers, "wait_for_subscribers": wait, "flush": flush})
    assert (found, capsys.readouterr().err) == (code, f"glue endpoint: {told}\n" if told else "")
    waits = [call[3] for call in calls if call[0] == "wait_for_subscribers"]
    assert sum(waits) == (pytest.approx(3.0) if not there else pytest.approx(0.2))
    assert {call[2] for call in calls if call[0] == "wait_for_subscribers"} == {1}
    if answers.get("flush") is False:
        assert sum(call[1] for call in calls if call[0] == "flush") == pytest.approx(10.0)


def test_all_topics_together_wait_for_subscribers_once(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    clock = Time()
    monkeypatch.setattr(common, "time", clock)
    monkeypatch.setattr(endpoint, "time", clock)

    def wait(topic: str, count: int, seconds: float) -> bool:
        clock.now += seconds
        return False

    words = ["--publish", "a", "1", "--publish", "b", "2", "--wait", "0.5"]
    _, code = published(*words, publish=Receipt(0), wait_for_subscribers=wait)
    assert (code, round(clock.now, 6)) == (1, 1000.5)
    assert capsys.readouterr().err == "glue endpoint: nobody subscribes to a, nobody subscribes to b\n"
    with pytest.raises(glue.TopicError):
        published("--publish", "a/#", "1", publish=Receipt())


def test_receipts_are_waited_for_once_all_is_acknowledged() -> None:
    late = Receipt(late=True)
    published("--publish", "a", "1", publish=late, flush=True)
    assert late.waited == [1.0]
    sent = iter([Receipt(), Receipt(late=True), Receipt()])
    left: deque[Any] = deque(("t", one) for one in sent)
    there: Any = Calls(wait_for_subscribers=True)
    assert endpoint.unreceived(there, left) == {}
    assert len(left) == 2, "in order: the second one is not known yet"


def test_lines_are_topics_and_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "next_line", lines_of("a/b 1 2\r\n", "\n", "c\n", " x\n", 'd  {"a": 1}\n'))
    given = endpoint.parser().parse_args(["--lines", "--publish", "first", "1"])
    assert [*map(tuple, endpoint.publications(given))] == [
        ("first", "1"), ("a/b", "1 2"), ("c", ""), ("d", ' {"a": 1}'),
    ]  # fmt: skip
    given = endpoint.parser().parse_args(["--publish", "first", "1"])
    assert len([*endpoint.publications(given)]) == 1
    monkeypatch.undo()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a \xff\n"), "utf-8"))
    assert [*endpoint.publications(endpoint.parser().parse_args(["--lines"]))] == [("a", "�")]


def test_so_many_messages_are_shown_and_then_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(common, "request_end", lambda: ended.append(1))

    def show(output: Any) -> None:
        shown = endpoint.Shown(output, 2)
        for number in range(3):
            shown.add(message({"n": number}))

    assert people(show) == 'home/lamp {"n": 0}\nhome/lamp {"n": 1}\n'
    assert ended == [1]

    def show_all(output: Any) -> None:
        shown = endpoint.Shown(output, None)
        for payload in ("x" * 200, "21.5", "word"):
            shown.add(message(payload))

    assert people(show_all) == f'home/lamp {"x" * 200}\nhome/lamp "21.5"\nhome/lamp word\n'
    assert ended == [1]


def test_what_comes_and_goes_is_a_line() -> None:
    came = glue.Presence("publisher", "hall", "h", "home/#", True)
    went = glue.Presence("endpoint", "hall", "h", "", False, "expired")
    assert people(lambda output: endpoint.report_presence(output, came)) == "+ publisher hall home/#\n"
    assert people(lambda output: endpoint.report_presence(output, went)) == "- endpoint hall expired\n"
    assert programs(lambda output: endpoint.report_presence(output, went)) == [{
        "event": "presence", "kind": "endpoint", "name": "hall", "pattern": "", "present": False, "reason": "expired",
    }]  # fmt: skip


@pytest.mark.parametrize(("words", "asked", "waits"), [
    ("--subscribe a --subscribe b --group g --max-rate 2", ["subscribe", "subscribe"], True),
    ("--presence p", ["watch_presence"], True), ("--publish a 1", ["publish_all"], False),
    ("--publish a 1 --duration 5", ["publish_all"], True),
    ("--lines --subscribe a", ["subscribe", "publish_all"], True),
    ("--publish a 1 --will w 2 --retain", ["will", "publish_all"], False),
    ("--subscribe a --will w 2 --bytes", ["subscribe", "will"], True),
])  # fmt: skip
def test_the_endpoint_does_what_the_options_say(
    words: str, asked: list[str], waits: bool, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    there: Any = Calls()
    waited: list[int] = []
    monkeypatch.setattr(endpoint, "open_endpoint", lambda *_, **options: nullcontext(there))
    monkeypatch.setattr(endpoint, "publish_all", lambda one, arguments: one.publish_all() or 7)
    monkeypatch.setattr(common, "wait_for_end", lambda: waited.append(1))
    assert endpoint.main(words.split()) == (7 if "publish_all" in asked else 0)
    assert [call[0] for call in there.calls] == asked
    assert bool(waited) == waits
    if "group" in words:
        assert [call[1] for call in there.calls] == ["a", "b"]
        assert there.calls[0][3] == {"group": "g", "max_rate": 2.0}
        for call in there.calls:
            call[2](message("on"))
        assert capsys.readouterr().out == "home/lamp on\n" * 2
    if "retain" in words:
        assert there.calls[0] == ("will", "w", 2, {"retain": True})
    if "bytes" in words:
        assert there.calls[1] == ("will", "w", b"2", {"retain": False})
    if "presence" in words:
        assert there.calls[0][1] == "p"


# ---------------------------------------------------------------------------------------------- history


class Subscription:
    """Messages at given times, after which nothing comes."""

    def __init__(self, clock: Time, *messages: tuple[float, float]) -> None:
        self._clock = clock
        self._left = [*messages]

    def get(self, seconds: float) -> Any:
        assert 0.0 <= seconds <= common.NAP
        if self._left and self._left[0][0] <= self._clock.now + seconds:
            at, published_at = self._left.pop(0)
            self._clock.now = max(self._clock.now, at)
            return message(at, published_at=published_at)
        self._clock.now += seconds
        raise TimeoutError


def test_history_ends_when_nothing_old_has_come_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*messages: tuple[float, float], quiet_for: float | None = 1.0) -> tuple[list[float], float]:
        clock = Time()
        monkeypatch.setattr(history, "time", clock)
        subscription: Any = Subscription(clock, *messages)
        return [one.payload for one in history.read(subscription, quiet_for)], round(clock.now, 6)

    assert read() == ([], 1001.0)
    assert read((1000.0, 5.0), (1000.9, 5.0), (1001.9, 1000.0)) == ([1000.0, 1000.9, 1001.9], 1002.9)
    assert read((1000.9, 1000.1)) == ([1000.9], 1001.0), "what is newer than the command does not keep it"
    assert read((1002.0, 5.0)) == ([], 1001.0)
    clock = Time()
    monkeypatch.setattr(history, "time", clock)

    class Closed:
        def get(self, seconds: float) -> Any:
            clock.now += 100.0
            if clock.now > 2000.0:
                raise glue.ClosedError
            raise TimeoutError

    closed: Any = Closed()
    assert [*history.read(closed, None)] == []
    assert clock.now > 2000.0, "without an end it waits on"


@contextmanager
def subscribed(found: list[Any]) -> Iterator[list[Any]]:
    yield found


def test_history_shows_messages_and_complains_of_gaps(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    gap = SimpleNamespace(topic="t", publisher="hall", count=3, cause="no longer kept")

    def run(*words: str, found: int = 1, gaps: int = 0) -> tuple[int, str, str, list[Any]]:
        there: Any = Calls(subscribe=lambda *_, **options: subscribed([message("on")] * found))
        monkeypatch.setattr(history, "open_endpoint", lambda *_, **options: nullcontext(there))

        def read(subscription: Any, quiet_for: float | None) -> Iterator[Any]:
            there.calls.append(quiet_for)
            for _ in range(gaps):
                there.on_gap(gap)
            yield from subscription

        monkeypatch.setattr(history, "read", read)
        return history.main(["t", *words]), *capsys.readouterr(), there.calls

    line = "1970-01-01T00:00:01.500+00:00 hall home/lamp on\n"
    assert run() == (0, line, "", [("subscribe", "t", {"start": "earliest"}), 1.0])
    missing = "glue history: 3 messages of t from hall are missing: no longer kept\n"
    assert run("--last", "2", "--quiet-for", "3", gaps=2, found=2) == (
        1, line * 2, missing * 2, [("subscribe", "t", {"last": 2}), 3.0],
    )  # fmt: skip
    assert run("--since", "7", "--follow", found=0) == (
        1, "", "glue history: nothing is remembered of t\n", [("subscribe", "t", {"start": 7}), None],
    )  # fmt: skip
    assert json.loads(run("--json", gaps=1)[1].splitlines()[1])["count"] == 3


def test_a_beginning_is_a_name_a_time_or_a_number() -> None:
    assert [history.since(text) for text in ("earliest", "latest", "-10m", "17")] == ["earliest", "latest", "-10m", 17]
    assert history.since("2026-01-31T12:00") == datetime(2026, 1, 31, 12)
    for wrong in ("soon", "\u00b2"):
        with pytest.raises(ArgumentTypeError, match=f"'{wrong}': expected earliest"):
            history.since(wrong)
    parsed = history.parser().parse_args(["t", "--since", "-10m"])
    assert parsed.since == "-10m"


# ---------------------------------------------------------------------------------------------- request


def asked(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, *words: str, **answers: Any
) -> tuple[int, str, str, list[Any]]:
    there: Any = Calls(**{"wait_for_responders": True, **answers})
    monkeypatch.setattr(request, "open_endpoint", lambda *_, **options: nullcontext(there))
    code = request.main([*words])
    assert there.calls[0][:3] == ("wait_for_responders", words[0], 1)
    return code, *capsys.readouterr(), there.calls[1:]


def test_answers_are_lines_and_errors_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    answer, other = glue.Reply({"a": 1}, "hall", "h", None), glue.Reply("x", "attic", "a", None)
    error = glue.Reply(None, "attic", "a", glue.RequestError("attic: it\nfailed"))
    told = asked(monkeypatch, capsys, "t", '{"b": 2}', request_many=[answer])
    assert told == (0, '{"a": 1}\n', "", [("request_many", "t", [{"b": 2}], 5.0, {"retry": False})])
    told = asked(monkeypatch, capsys, "t", "1", "--bytes", "--retry", "--timeout", "2", request_many=[answer])
    assert told[3] == [("request_many", "t", [b"1"], 2.0, {"retry": True})]
    told = asked(monkeypatch, capsys, "t", "1", "--all", request_all=[error, answer, other])
    assert told == (
        1, 'hall {"a": 1}\nattic x\n', "glue request: attic: it\\nfailed\n", [("request_all", "t", 1, 5.0)],
    )  # fmt: skip
    (event,) = map(json.loads, asked(monkeypatch, capsys, "t", "1", "--json", request_many=[answer])[1].splitlines())
    assert (event["responder"], event["responder_id"], event["topic"], event["payload"]) == ("hall", "h", "t", {"a": 1})


def test_a_topic_that_nobody_answers_is_told_in_the_words_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    nobody: Any = SimpleNamespace(find=lambda topic: [], patterns=list)
    with pytest.raises(glue.NoResponderError) as refused:
        Routes(nobody).choose("t", ())
    code, out, err, _ = asked(monkeypatch, capsys, "t", "1", "--wait", "0", request_many=refused.value)
    assert (code, out) == (1, "")
    assert err == "glue request: no responder of 't' is known; give it more time with --wait\n"
