"""`glue history`, beside a publisher that remembers."""

from __future__ import annotations

import json
import threading

import pytest

from glue.cmd import history
from tests.support.lan import Lan


def told(lan: Lan, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """The exit code, the lines and the errors of a command."""
    network = ["--interface", str(lan.settings["interface"]), "--network-id", str(lan.settings["network_id"])]
    group = ["--multicast-address", str(lan.settings["multicast_address"])]
    code = history.main([*words, *network, *group, "--quiet-for", "0.3"])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_it_shows_what_is_remembered(lan: Lan, capsys: pytest.CaptureFixture[str]) -> None:
    boiler = lan.start("boiler")
    boiler.remember("boiler/#", last=3)
    for celsius in range(5):
        boiler.publish("boiler/1", celsius)
    boiler.flush(5)
    code, lines, _ = told(lan, capsys, "boiler/#")
    assert code == 0
    assert [line.split(" ", 1)[1] for line in lines] == [f"boiler boiler/1 {celsius}" for celsius in (2, 3, 4)]
    code, lines, _ = told(lan, capsys, "boiler/1", "--last", "1", "--json")
    events = [json.loads(line) for line in lines]
    assert [event["payload"] for event in events if event["event"] == "message"] == [4]


def test_what_is_gone_or_was_never_there_is_told(lan: Lan, capsys: pytest.CaptureFixture[str]) -> None:
    boiler = lan.start("boiler")
    boiler.remember("boiler/#", last=1)
    for celsius in range(5):
        boiler.publish("boiler/1", celsius)
    boiler.flush(5)
    code, lines, error = told(lan, capsys, "boiler/1", "--since", "1")
    assert (code, len(lines)) == (1, 1)
    assert "4 messages of boiler/1 from boiler are missing: no longer kept" in error
    code, lines, error = told(lan, capsys, "cellar/#")
    assert (code, lines, error) == (1, [], "glue history: nothing is remembered of cellar/#\n")


def test_it_ends_on_a_busy_topic_and_when_asked_to(lan: Lan, capsys: pytest.CaptureFixture[str]) -> None:
    boiler = lan.start("boiler")
    boiler.remember("boiler/#")
    boiler.publish("boiler/1", 60)
    is_over = threading.Event()

    def publish() -> None:
        while not is_over.wait(0.02):
            boiler.publish("boiler/1", 61)

    busy = threading.Thread(target=publish)
    busy.start()
    try:
        code, lines, _ = told(lan, capsys, "boiler/#")
        assert (code, lines[0].rsplit(" ", 1)[1]) == (0, "60")
        assert told(lan, capsys, "boiler/#", "--follow", "--duration", "0.2")[0] == 0
    finally:
        is_over.set()
        busy.join()
    assert told(lan, capsys, "cellar/#", "--follow", "--duration", "0.1")[:2] == (1, [])


def test_a_wrong_time_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        history.main(["a", "--since", "yesterday"])
    assert "expected earliest" in capsys.readouterr().err
    assert history.main(["a", "--since", "0001-01-01"]) == 2
    assert "out of range" in capsys.readouterr().err
