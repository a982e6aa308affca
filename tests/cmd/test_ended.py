"""A command that is ended before it has its answer has failed and says so; one that only shows what comes has not."""

from __future__ import annotations

import json
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.cmd import common, doctor, endpoint, history, receivers, request, simulate, top
from glue.cmd.output import CommandOutput
from glue.doctor import Seen
from tests.cmd.prepared import Calls, Time, message
from tests.doctor.scenes import healthy
from tests.doctor.test_told import SHOWN

Capture = pytest.CaptureFixture[str]


def end(*_: Any, **__: Any) -> Any:
    raise common.Ended


class Ending(Calls):
    """An endpoint at which every call is ended."""

    name, id, peers = "me", "m", ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return end


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The progress that a command shows: what goes on, for how long, whether lines are progress, and its texts."""
    noted: list[Any] = []

    def progress(output: CommandOutput, what: str, seconds: float = 0.0, *, beside_lines: bool = False) -> Any:
        noted.append((what, seconds, beside_lines))
        return nullcontext(SimpleNamespace(tell=lambda *told: noted.append(told)))

    monkeypatch.setattr(CommandOutput, "progress", progress)
    return noted


@pytest.mark.parametrize(("words", "what", "seconds"), [
    ("consumers --wait 3", "asking the keepers", 3.0), ("consumers b a/# --forget", "", 0.0),
    ("consumers b a/# --to latest", "", 0.0), ("peers", "asking the endpoints", 2.4),
    ("receivers --wait 2", "asking the hosts", 2.0), ("receivers a/1", "waiting for the answer", 5.0),
    ("receivers a/1 --timeout 2", "waiting for the answer", 2.0), ("receivers a/1 --send", "", 0.0),
    ("request t 1 --wait 2", "looking for a responder", 2.0), ("request t 1 --all", "looking for a responder", 3.0),
    ("top", "looking for endpoints", 1.2), ("top --count 2", "looking for endpoints", 1.2),
])  # fmt: skip
def test_a_command_without_its_answer_has_failed(
    words: str, what: str, seconds: float, shown: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    name, *rest = words.split()
    monkeypatch.setattr(import_module(f"glue.cmd.{name}"), "open_endpoint", lambda *_, **__: nullcontext(Ending()))
    monkeypatch.setattr(common, "pause", end)
    runtime = SimpleNamespace(ask_hosts=lambda take: None, send=end)
    monkeypatch.setattr(receivers, "parts_of", lambda endpoint: SimpleNamespace(runtime=runtime))
    assert import_module(f"glue.cmd.{name}").main(rest) == 1
    assert capsys.readouterr() == ("", f"glue {name}: ended before there was an answer\n")
    assert shown == ([(what, seconds, False)] if what else [])


def test_simulated_runs_and_a_look_that_are_ended_have_failed(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(simulate, "results", end)
    assert simulate.main(["--seeds", "3"]) == 1
    assert capsys.readouterr() == ("", "glue simulate: ended before there was an answer\n")
    monkeypatch.setattr(doctor, "Observer", lambda settings, pause: SimpleNamespace(look=end))
    assert doctor.main([]) == 1
    assert capsys.readouterr() == ("", "glue doctor: ended before there was an answer\n")


def test_top_has_succeeded_once_a_table_was_shown(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    clock, looks = Time(), list[float]()

    def look(endpoint: Any) -> dict[str, Any]:
        looks.append(clock.now)
        return {} if len(looks) < 3 else end()

    monkeypatch.setattr(top, "open_endpoint", lambda *_, **__: nullcontext("endpoint"))
    monkeypatch.setattr(top, "time", clock)
    monkeypatch.setattr(common, "pause", clock.sleep)
    monkeypatch.setattr(top, "look", look)
    assert top.main(["--interval", "1.5"]) == 0
    assert looks == [1001.2, 1002.7, 1004.2]
    assert capsys.readouterr().out.startswith("no endpoint answers")


@pytest.mark.parametrize(("count", "code", "told"), [
    (2, 0, ""), (0, 1, "glue history: nothing is remembered of t\n"),
])  # fmt: skip
def test_history_that_is_ended_shows_what_it_has(
    count: int, code: int, told: str, shown: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    left = iter([message(number) for number in range(count)])
    subscription = SimpleNamespace(get=lambda seconds: next(left, None) or end())
    there: Any = Calls(subscribe=lambda *_, **__: nullcontext(subscription))
    monkeypatch.setattr(history, "open_endpoint", lambda *_, **__: nullcontext(there))
    assert history.main(["t", "--follow"]) == code
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (count, told)
    assert shown == [("reading", 0.0, True), *[(f"{number} messages",) for number in range(1, count + 1)]]


def test_a_gap_that_is_told_at_once_makes_history_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    gap = SimpleNamespace(topic="t", publisher="hall", count=3, cause="gone")

    def subscribe(*_: Any, **__: Any) -> Any:
        there.on_gap(gap)
        return nullcontext(SimpleNamespace(get=end))

    there: Any = Calls(subscribe=subscribe)
    monkeypatch.setattr(history, "open_endpoint", lambda *_, **__: nullcontext(there))
    assert history.main(["t"]) == 1
    assert "3 messages of t from hall are missing: gone" in capsys.readouterr().err


def test_history_of_a_silent_topic_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def get(seconds: float) -> Any:
        asked.append(seconds)
        raise TimeoutError

    monkeypatch.setattr(common, "check", lambda: end() if len(asked) == 2 else None)
    silent: Any = SimpleNamespace(get=get)
    with pytest.raises(common.Ended):
        list(history.read(silent, None))
    assert asked == [common.NAP] * 2


def test_answers_are_waited_for_after_a_responder_was_found(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    there: Any = Calls(wait_for_responders=True, request_many=end)
    monkeypatch.setattr(request, "open_endpoint", lambda *_, **__: nullcontext(there))
    assert request.main(["t", "1", "--timeout", "7"]) == 1
    assert shown == [("looking for a responder", 3.0, False), ("waiting for answers", 7.0, False)]
    there = Calls(model=Calls())
    monkeypatch.setattr(endpoint, "open_endpoint", lambda *_, **__: nullcontext(there))
    monkeypatch.setattr(endpoint, "publish_all", end)
    del shown[:]
    assert endpoint.main(["--publish", "t", "1"]) == 0
    assert shown == [("publishing", 0.0, True)]


# ---------------------------------------------------------------------------------------------- the doctor


def test_the_doctor_looks_with_the_settings_of_the_command_line_and_saves_what_it_saw(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    made = list[Any]()

    def observer(settings: Any, pause: Any) -> Any:
        made.append((settings, pause))
        return SimpleNamespace(look=lambda: SHOWN["warnings"])

    monkeypatch.setattr(doctor, "Observer", observer)
    file = tmp_path / "seen.json"
    assert doctor.main(["--network-id", "7", "--interface", "lo", "--save", str(file)]) == 1
    assert made == [({"interface": "lo", "network_id": 7}, common.pause)]
    assert shown == [("looking", 4.0, False)]
    told = capsys.readouterr().out
    assert Seen.from_dict(json.loads(file.read_text())) == SHOWN["warnings"]
    assert file.read_text().startswith('{\n "')
    assert file.read_text().endswith("}\n")
    assert doctor.main(["--judge", str(file)]) == 1
    assert (capsys.readouterr().out, len(made)) == (told, 1)
    copy = tmp_path / "copy.json"
    assert doctor.main(["--judge", str(file), "--save", str(copy)]) == 1
    assert copy.read_text() == file.read_text()
    file.write_text(json.dumps(healthy().as_dict()))
    assert doctor.main(["--judge", str(file)]) == 0
