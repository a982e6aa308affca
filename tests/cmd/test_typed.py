"""Commands that run in this process: a terminal of `glue model`, `glue record` of messages, `glue keep`, `glue spy`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from glue.cmd import common, keep, model, record, spy
from glue.recording.reader import McapReader
from tests.support.lan import PATIENCE, Lan

Capture = pytest.CaptureFixture[str]


def network(lan: Lan) -> list[str]:
    """The options of a command on this network."""
    return [word for name, value in lan.settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def told(capsys: Capture, *events: str) -> list[dict[str, Any]]:
    """What a command said with `--json`, of these kinds."""
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [one for one in found if not events or one["event"] in events]


SESSION = [
    ("set k 1", ("committed", "index")), ("set k {\"a\":", ("mistake", "begins like JSON, but is none")),
    ("get k", ("value", 1)),
    ("get none", ("value", None)), ("update k '{\"b\": 2}'", ("committed", "index")), ("get k", ("value", {"b": 2})),
    ("compare k 1 2", ("refused", "another value")), ("compare k '{\"b\": 2}' 3", ("committed", "index")),
    ("items k", ("value", 3)), ("delete k", ("committed", "index")), ("items", None),
    ("add n/x 5", ("committed", "index")),
    ("get n/x", ("value", 5)), ("add n/x 1.5", ("refused", "")), ("discard n/x 5", ("refused", "")),
    ("lock door soon", ("mistake", "lease 'soon': expected a number of seconds")), ("lock door 30", ("locked", "door")),
    ("unlock gate", ("mistake", "lock 'gate' was not taken in this terminal")), ("unlock door", ("unlocked", "door")),
    ("unlock door", ("mistake", "lock 'door' was not taken")), ("transfer nobody", ("refused", "no other voter")),
    ("remove nobody", ("refused", "")), ("conflicts", None), ("watch w/#", None),
    ("set w/1 x", ("committed", "index")),
    ("", None), ("nonsense", ("mistake", "nonsense")), ("get", ("mistake", "get")), ("status", ("status", 2)),
]  # fmt: skip
SHOWN = {"committed": "index", "value": "value", "mistake": "reason", "refused": "reason", "locked": "name",
         "unlocked": "name", "status": "keys"}  # fmt: skip


def test_what_is_typed_in_a_terminal_of_a_model_is_answered(
    lan: Lan, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[tuple[str, Any]] = []

    def lines() -> Iterator[str]:
        for line, wanted in SESSION:
            capsys.readouterr()
            yield line + "\n"
            said = told(capsys, *SHOWN)
            if wanted is not None and wanted[0] != "status":
                said = [one for one in said if one["event"] != "status"]
            answers.append((line, None if wanted is None else (said[-1]["event"], said[-1][SHOWN[said[-1]["event"]]])))
        yield ""

    typed = lines()
    monkeypatch.setattr(model, "next_line", lambda: next(typed))
    monkeypatch.setattr(common, "wait_for_end", lambda: None)
    options = ["--voters", "1", "--election-timeout", "0.1", "--mergeable", "n/=counter"]
    assert model.main(["--json", *options, *network(lan)]) == 0
    for (line, wanted), (_, answer) in zip(SESSION, answers, strict=True):
        if wanted is None:
            continue
        assert answer is not None
        event, value = answer
        assert event == wanted[0], (line, answer)
        if event in ("mistake", "refused"):
            assert wanted[1] in value, line
        elif event == "committed":
            assert value >= 0, line
        else:
            assert value == wanted[1], line


def test_a_prefix_of_mergeable_keys_needs_its_kind(lan: Lan, capsys: Capture) -> None:
    for wrong in ("n/", "=counter", "n/=counter,"):
        with pytest.raises(SystemExit):
            model.main(["--mergeable", wrong, *network(lan)])
        assert f"'{wrong}': expected PREFIX=KIND,..., such as stats/=counter" in capsys.readouterr().err
    assert model.main(["unlock", "x", *network(lan)]) == 2
    assert "unlock is to be typed in a terminal that takes part" in capsys.readouterr().err


def paused(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> None:
    """Let a command do these steps instead of each pause, and end at the next one."""
    left = iter(steps)

    def pause(seconds: float) -> None:
        for step in left:
            step()
            return
        raise common.Ended

    monkeypatch.setattr(common, "pause", pause)


def test_messages_of_topics_are_recorded_for_other_tools(
    lan: Lan, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, publisher = tmp_path / "day.mcap", lan.start("publisher")

    def publish() -> None:
        assert publisher.wait_for_subscribers("home/x", 1, PATIENCE)
        for number in range(3):
            publisher.publish("home/x", number)
            publisher.publish("other", number)
        assert publisher.flush(PATIENCE)

    paused(monkeypatch, publish)
    assert record.main(["--json", "--output", str(path), "--topics", "home/#", *network(lan)]) == 0
    begun, ended = told(capsys, "recording", "recorded")
    assert (begun["pattern"], begun["file"]) == ("home/#", str(path))
    assert (ended["messages"], ended["bytes"], ended["failure"]) == (3, 3, "")
    with closing(McapReader(path)) as reader:
        assert [message.topic for message in reader.messages()] == ["home/x"] * 3
    for option in (["--rotate-size", "1k"], ["--engine", "scapy"], ["--promiscuous"], ["--keep", "2"]):
        assert record.main(["--output", str(path), *option, *network(lan)]) == 2
        assert f"{option[0]} is for datagrams; recordings of messages (MCAP)" in capsys.readouterr().err


def test_a_keeper_reports_what_is_on_its_disk_and_when_it_fails(
    lan: Lan, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = lan.start("publisher")

    def publish() -> None:
        assert publisher.wait_for_keepers("a/b", 1, PATIENCE)
        for number in range(2):
            assert publisher.publish("a/b", number, receipt=True, acks="disk").wait(PATIENCE)

    paused(monkeypatch, publish)
    where = ["--data-dir", str(tmp_path / "log")]
    assert keep.main(["--json", "a/#", *where, *network(lan)]) == 0
    begun, stored = told(capsys, "keeping", "stored")
    assert (begun["patterns"], begun["first"], begun["end"], stored["durable"]) == (["a/#"], 0, 0, 2)
    reporter = keep.Reporter(keeper := Broken(), output := Output())  # type: ignore[arg-type]
    reporter.look()
    keeper.failure = "no space"
    reporter.look()
    reporter.look()
    keeper.failure = ""
    reporter.look()
    assert output.said == [("failing", "no space"), ("failing", "the disk is well again")]


class Broken:
    """A keeper whose disk fails."""

    failure = ""

    class log:  # noqa: N801
        durable = 5


class Output:
    """Remembers complaints."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def complaint(self, event: str, text: str, **fields: Any) -> None:
        """Take a complaint."""
        self.said.append((event, text))


def test_topics_are_printed_as_they_change_and_summed_up(
    lan: Lan, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = lan.start("publisher")
    publisher.publish("home/lamp", "on", retain=True)
    publisher.publish("hall/lamp", "off", retain=True)
    looks = 0

    def paced(interval: float, rounds: Any) -> Iterator[int]:
        nonlocal looks
        assert interval == 0.5
        while looks < 40 and "hall/lamp" not in seen():
            looks += 1
            yield looks
            common.pause(0.05)

    said: list[dict[str, Any]] = []

    def seen() -> str:
        said.extend(told(capsys))
        return str(said)

    monkeypatch.setattr(common, "paced", paced)
    assert spy.main(["--json", "#", "--every", "2", *network(lan)]) == 0
    said += told(capsys)
    topics = {one["topic"]: one for one in said if one["event"] == "topic"}
    assert {name: topics[name]["payload"] for name in ("home/lamp", "hall/lamp")} == {
        "home/lamp": "on",
        "hall/lamp": "off",
    }
