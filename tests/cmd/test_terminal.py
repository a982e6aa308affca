"""The terminal of `glue model` at a prepared model: every line that it prints, and what it asks of the model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.cmd import common, model
from glue.cmd.model import Terminal
from glue.cmd.output import CommandOutput
from tests.cmd.prepared import Calls, Time, lines_of, people, programs

Capture = pytest.CaptureFixture[str]
T = {"timeout": 7.0}


def done(words: str, **answers: Any) -> tuple[str, list[Any], list[bool]]:
    """What people are told of a command, what it asks of the model, and whether it succeeded."""
    results: list[bool] = []
    there: Any = Calls(**answers)
    text = people(lambda output: results.append(Terminal(there, output, 7.0).do(words.split(" "))))
    return text, there.calls, results


ENTRY = SimpleNamespace(value={"a": 1}, revision=4)
DONE: list[tuple[str, dict[str, Any], str, Any]] = [
    ("get k", {"entry": ENTRY}, '{"a": 1}', ("entry", "k", T)),
    ("get k", {"entry": None}, "k has no value", ("entry", "k", T)),
    ("items", {"items": {"a": 1, "b": "x"}}, "a = 1\nb = x", ("items", "#", T)),
    ("items p", {"items": {}}, "", ("items", "p", T)),
    ('set k {"x":1}', {"set": 9}, "committed at 9", ("set", "k", {"x": 1}, T)),
    ("set k word", {"set": 0}, "written; the others merge it", ("set", "k", "word", T)),
    ("update k 2", {"update": 9}, "committed at 9", ("update", "k", 2, T)),
    ("delete k", {"delete": 9}, "committed at 9", ("delete", "k", T)),
    ("add k 5", {"add": 0}, "written; the others merge it", ("add", "k", 5, T)),
    ("add k 1.5", {"add": 0}, "written; the others merge it", ("add", "k", "1.5", T)),
    ("discard k red", {"discard": 0}, "written; the others merge it", ("discard", "k", "red", T)),
    ("conflicts", {"conflicts": {"k": (1, "x")}}, "k = 1 or x", ("conflicts", "#")),
    ("conflicts p", {"conflicts": {}}, "", ("conflicts", "p")),
    ("compare k 1 2", {"compare_and_set": 3}, "committed at 3", ("compare_and_set", "k", 1, 2, T)),
    ("lock door", {"lock": SimpleNamespace(remaining=9.96, token=5)}, "locked for 10.0 s, token 5",
     ("lock", "door", 10.0, T)),
    ("lock door 2.5", {"lock": SimpleNamespace(remaining=1.0, token=5)}, "locked for 1.0 s, token 5",
     ("lock", "door", 2.5, T)),
    ("transfer hall", {}, "hall leads", ("transfer", "hall", T)),
    ("remove hall", {}, "hall votes no more", ("remove", "hall", T)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "answers", "told", "asked"), DONE, ids=[one[0] for one in DONE])
def test_a_command_asks_the_model_and_tells_its_answer(
    words: str, answers: dict[str, Any], told: str, asked: Any
) -> None:
    assert done(words, **answers) == (f"{told}\n" if told else "", [asked], [True])


def test_a_watch_shows_the_changes_of_its_pattern() -> None:
    there: Any = Calls()
    terminals: list[Terminal] = []

    def watch(output: Any) -> None:
        terminals.append(Terminal(there, output, 7.0))
        assert terminals[0].do(["watch", "valve/#"])

    assert people(watch) == ""
    assert there.calls == [("watch", "valve/#", terminals[0]._show_change)]


@pytest.mark.parametrize(("error", "event", "told"), [
    (glue.RefusedError("another value"), "refused", "refused: another value\n"),
    (glue.ModelError("no majority"), "refused", "refused: no majority\n"),
    (glue.UnknownOutcomeError("it may be"), "unknown", "unknown: it may be\n"),
])  # fmt: skip
def test_what_the_model_refuses_is_no_success(error: Exception, event: str, told: str, capsys: Capture) -> None:
    text, _, results = done("set k 1", set=error)
    assert (text, results, capsys.readouterr().err) == ("", [False], told)
    there: Any = Calls(set=error)
    events = programs(lambda output: Terminal(there, output, 7.0).do(["set", "k", "1"]))
    assert events == [{"event": event, "reason": str(error)}]


def test_programs_get_what_was_found() -> None:
    def say(output: Any) -> None:
        lock = SimpleNamespace(remaining=1.23456, token=5, release=lambda: None)
        there: Any = Calls(entry=ENTRY, items={"a": 1}, conflicts={"k": (1, 2)}, lock=lock)
        terminal = Terminal(there, output, 7.0)
        for words in ("get k", "items", "conflicts", "lock d", "unlock d"):
            assert terminal.do(words.split())
        with pytest.raises(glue.ConfigurationError, match="was not taken in this terminal"):
            terminal.do(["unlock", "d"])
        with pytest.raises(glue.ConfigurationError, match="lease 'x': expected a number of seconds"):
            terminal.do(["lock", "d", "x"])
        there._answers["entry"] = None
        terminal.do(["get", "k"])

    assert programs(say) == [
        {"event": "value", "key": "k", "value": {"a": 1}, "found": True, "revision": 4},
        {"event": "value", "key": "a", "value": 1, "found": True},
        {"event": "conflict", "key": "k", "values": [1, 2]},
        {"event": "locked", "name": "d", "token": 5, "remaining": 1.235},
        {"event": "unlocked", "name": "d"},
        {"event": "value", "key": "k", "value": None, "found": False, "revision": 0},
    ]


def test_a_command_that_ends_gives_its_locks_back() -> None:
    held: dict[str, Any] = {name: Calls(release=glue.MinorityError("alone") if name == "b" else None) for name in "abc"}
    for name, lock in held.items():
        lock.remaining, lock.token = 0.0 if name == "a" else 5.0, 1
    there: Any = Calls(lock=lambda name, *_, **__: held[name])
    quiet: Any = SimpleNamespace(event=lambda *_, **__: None)
    terminal = Terminal(there, quiet, 7.0)
    for name in held:
        terminal.do(["lock", name])
    terminal.release_all()
    ((_, first),), ((_, second),) = held["b"].calls, held["c"].calls
    assert (held["a"].calls, 0.5 < second["timeout"] <= first["timeout"] <= 1.0) == ([], True)


def test_a_lock_whose_release_takes_long_leaves_less_time_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, given = Time(), list[float]()
    monkeypatch.setattr(model, "time", clock)

    def release(timeout: float) -> None:
        given.append(round(timeout, 3))
        clock.now += min(timeout, 0.6)
        raise glue.MinorityError("no majority")

    there: Any = Calls(lock=SimpleNamespace(remaining=5.0, token=1, release=release))
    quiet: Any = SimpleNamespace(event=lambda *_, **__: None)
    terminal = Terminal(there, quiet, 7.0)
    for name in "abc":
        terminal.do(["lock", name])
    assert terminal.release_all()
    assert given == [1.0, 0.4], "a second for all"


@pytest.mark.parametrize(("change", "text"), [
    ({}, "k = 1  (7)"), ({"deleted": True, "value": None}, "k deleted  (7)"), ({"index": 0}, "k = 1  (merged)"),
    ({"is_conflict": True}, "k = 1  (conflict)"), ({"key": "a\x1b"}, r"a\x1b = 1  (7)"),
])  # fmt: skip
def test_a_change_is_a_line(change: dict[str, Any], text: str) -> None:
    fields = {"key": "k", "value": 1, "deleted": False, "index": 7, "live": True, "is_conflict": False, **change}
    one: Any = SimpleNamespace(**fields)
    there: Any = Calls()
    assert people(lambda output: Terminal(there, output, 7.0)._show_change(one)) == text + "\n"
    fields["conflict"] = fields.pop("is_conflict")
    assert programs(lambda output: Terminal(there, output, 7.0)._show_change(one)) == [{"event": "change", **fields}]


def status(**changed: Any) -> glue.ModelStatus:
    fields = {
        "role": "leader", "term": 3, "leader": "hall", "commit_index": 7, "voters": ("hall",), "age": 0.12345,
        "keys": 1, "failure": "",
    }  # fmt: skip
    return glue.ModelStatus(**{**fields, **changed})


def test_a_status_is_a_line() -> None:
    there: Any = Calls()
    text = people(lambda output: Terminal(there, output, 7.0).show_status(status(voters=())))
    assert text == "leader in term 3, leader hall, commit index 7, 1 key; voters: not yet known\n"
    ages = [
        programs(lambda output, age=age: Terminal(there, output, 7.0).show_status(status(age=age)))[0]["age"]  # type: ignore[misc]
        for age in (0.12345, float("inf"))
    ]
    assert ages == [0.123, None]


def test_the_status_is_told_when_it_changes_and_the_index_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(model, "time", clock)
    monkeypatch.setattr(model, "LOOK_INTERVAL", 0.125)
    seen: list[Any] = []
    changes: dict[int, dict[str, Any]] = {
        0: {}, 3: {"commit_index": 8}, 10: {"commit_index": 9}, 12: {"commit_index": 9, "term": 4},
        14: {"commit_index": 9, "term": 4, "failure": "full"}, 40: {"commit_index": 9, "term": 4, "failure": "full"},
    }  # fmt: skip

    class Model:
        @property
        def status(self) -> glue.ModelStatus:
            look = round((clock.now - 1000.0) / model.LOOK_INTERVAL)
            if look > 45:
                raise glue.ClosedError
            return status(**changes[max(one for one in changes if one <= look)])

    there: Any = Model()
    terminal: Any = Terminal(there, Calls(), 7.0)  # type: ignore[arg-type]
    terminal.show_status = lambda one: seen.append((round(clock.now - 1000.0, 3), one.commit_index, one.failure))
    terminal._look()
    assert seen == [(0.0, 7, ""), (1.125, 8, ""), (1.5, 9, ""), (1.75, 9, "full")]


def test_a_status_waits_for_the_log() -> None:
    for ready, asked in ((True, [("entry", "status", T)]), (False, [])):
        there: Any = Calls(wait_until_ready=ready, entry=glue.ModelError("none"))
        there.status = status()
        text = people(lambda output, there=there: Terminal(there, output, 7.0).status())  # type: ignore[misc]
        assert there.calls == [("wait_until_ready", 7.0), *asked]
        assert text.startswith("leader in term 3")


@pytest.mark.parametrize(("met", "asked", "result"), [
    (True, ["synchronize", "set", "synchronize"], True), (False, ["synchronize"], False),
])  # fmt: skip
def test_mergeable_keys_are_brought_up_to_date_before_and_after(
    met: bool, asked: list[str], result: bool, capsys: Capture
) -> None:
    there: Any = Calls(set=0, synchronize=None if met else glue.MinorityError("alone"))
    results: list[bool] = []
    people(lambda output: results.append(Terminal(there, output, 7.0).do_once(["set", "k", "1"], is_merging=True)))
    assert ([call[0] for call in there.calls], results) == (asked, [result])
    assert there.calls[0] == ("synchronize", 7.0)
    assert capsys.readouterr().err == ("" if met else "refused: alone\n")
    people(lambda output: results.append(Terminal(there, output, 7.0).do_once(["set", "k", "1"], is_merging=False)))
    assert there.calls[len(asked) :] == [("set", "k", 1, T)]
    assert results == [result, True]
    there._answers["set"] = glue.RefusedError("no")
    people(lambda output: results.append(Terminal(there, output, 7.0).do_once(["set", "k", "1"], is_merging=False)))
    people(lambda output: results.append(Terminal(there, output, 7.0).do_once(["set", "k", "1"], is_merging=True)))
    assert results[2:] == [False, False]


def test_a_terminal_carries_out_what_is_typed(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    ended: list[int] = []
    monkeypatch.setattr(common, "wait_for_end", lambda: ended.append(1))
    monkeypatch.setattr(common, "request_end", lambda: ended.append(2))
    monkeypatch.setattr(model, "next_line", lines_of("set k 1\n", "\n", "set k\n", "paint\n", "quit\n"))
    started: list[Any] = []

    def thread(**given: Any) -> Any:
        started.append(given)
        return Calls()

    monkeypatch.setattr(threading, "Thread", thread)
    there: Any = Calls(set=5)
    terminals: list[Terminal] = []

    def live(output: Any) -> None:
        terminals.append(Terminal(there, output, 7.0))
        terminals[0].live()

    assert people(live) == "committed at 5\n"
    assert ended == [2, 1]
    assert there.calls == [("watch", "#", terminals[0]._show_change), ("set", "k", 1, T)]
    assert started == [{"target": terminals[0]._look, "name": "status", "daemon": True}]
    assert capsys.readouterr().err.splitlines() == [
        "expected: set KEY VALUE", f"no command 'paint'; there are {', '.join(model.USAGES)}",
    ]  # fmt: skip


@pytest.mark.parametrize(("words", "voters", "observer", "waits", "code"), [
    ("", 3, False, False, 0), ("--observer", None, True, False, 0), ("--voters 5 --observer", 5, True, False, 0),
    ("--members a,b", None, False, False, 0), ("get k", None, True, False, 0), ("watch k", None, True, True, 0),
    ("lock k", None, True, True, 0), ("set k 1", None, True, False, 1), ("--voters 2 get k", 2, True, False, 0),
])  # fmt: skip
def test_a_model_is_opened_as_the_options_say(
    words: str, voters: int | None, observer: bool, waits: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: Any = Calls(entry=ENTRY, set=glue.RefusedError("no"), wait_until_ready=True,
                      lock=SimpleNamespace(remaining=0.0, token=1))  # fmt: skip
    there: Any = Calls(model=kept)
    did: list[str] = []
    monkeypatch.setattr(model, "open_endpoint", lambda *_, **options: nullcontext(there))

    def end(what: str) -> None:
        did.append(what)
        raise common.Ended

    monkeypatch.setattr(common, "wait_for_end", lambda: end("waits"))
    monkeypatch.setattr(Terminal, "live", lambda terminal: end("live"))
    assert model.main([*words.split(), "--timeout", "7", "--data-dir", "d", "--mergeable", "a/=set"]) == code
    ((_, name, given),) = there.calls
    assert (name, given) == ("model", {
        "voters": voters, "members": ["a", "b"] if "members" in words else None, "observer": observer,
        "mergeable": {"a/": "set"}, "data_dir": "d", "election_timeout": 1.0,
    })  # fmt: skip
    is_typed = not [word for word in words.split() if word in model.USAGES]
    assert did == (["live"] if is_typed else ["waits"] if waits else [])
    assert (("wait_until_ready", 7.0) in kept.calls) == waits


@pytest.mark.parametrize(("words", "code"), [
    ("status", 1), ("get k", 1), ("lock d", 1), ("watch k", 0), ("items watch", 1),
])  # fmt: skip
def test_a_command_that_is_ended_before_its_answer_has_failed(
    words: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def end(*_: Any, **__: Any) -> None:
        raise common.Ended

    there: Any = Calls(model=Calls(**dict.fromkeys(("wait_until_ready", "entry", "items", "lock", "watch"), end)))
    monkeypatch.setattr(model, "open_endpoint", lambda *_, **options: nullcontext(there))
    assert model.main(words.split()) == code
    assert capsys.readouterr().err == ("glue model: ended before there was an answer\n" if code else "")


def test_a_signal_as_soon_as_a_lock_is_told_ends_a_lock_that_was_had(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def event(output: CommandOutput, kind: str, text: str, **fields: Any) -> None:
        told.append(kind)
        raise common.Ended  # as the handler of the signal does, while the command waits

    told: list[str] = []
    lock: Any = Calls(release=None)
    lock.remaining, lock.token = 9.0, 1
    there: Any = Calls(model=Calls(lock=lock))
    monkeypatch.setattr(model, "open_endpoint", lambda *_, **options: nullcontext(there))
    monkeypatch.setattr(CommandOutput, "event", event)
    assert model.main(["lock", "door"]) == 0
    assert (told, capsys.readouterr().err) == (["locked"], "")
    assert [call[0] for call in lock.calls] == ["release"]


def test_a_watch_without_a_leader_says_so(capsys: Capture) -> None:
    for ready, told in ((True, ""), (False, "no leader in reach; waiting for one\n")):
        there: Any = Calls(wait_until_ready=ready)
        people(lambda output, there=there: Terminal(there, output, 7.0).tell_if_alone())  # type: ignore[misc]
        assert capsys.readouterr().err == told
        assert there.calls == [("wait_until_ready", 7.0)]


def test_a_text_that_begins_like_json_must_be_json(capsys: Capture) -> None:
    assert [model._value(text) for text in ('{"a":1}', "[1]", '"x"', "x", "1", "")] == [{"a": 1}, [1], "x", "x", 1, ""]
    for text in ("{a", "[1", '"x'):
        with pytest.raises(glue.ConfigurationError, match="begins like JSON, but is none; a string goes in quotes"):
            model._value(text)


def test_help_is_a_table_of_the_commands(capsys: Capture) -> None:
    assert model.main(["help", "lock"]) == 0
    assert capsys.readouterr().out == "lock NAME [LEASE]  Take a lock\n"
    assert model.main(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "get KEY                     Show one key"
    assert lines[6] == "add KEY WHAT                Add to a counter or a set"
    assert lines[-1] == "quit                        End the command"
    assert model.main(["help", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("glue model: no command 'nothing'; there are get, items, ")
    assert model.main(["help", "status", "--json"]) == 0
    event = json.loads(capsys.readouterr().out)
    assert (event["command"], event["usage"], event["meaning"]) == (
        "status", "status", "Show the status, up to date if a majority is in reach",
    )  # fmt: skip
    there: Any = Calls()
    shown: Callable[[Any], Any] = lambda output: Terminal(there, output, 7.0).do(["help", "get"])  # noqa: E731
    assert people(shown) == "get KEY  Show one key\n"
