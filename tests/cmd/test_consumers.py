"""`glue consumers` at a prepared endpoint: what it lists, moves, forgets and refuses."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import datetime
from typing import Any, NamedTuple

import pytest

import glue
from glue.cmd import consumers
from tests.cmd.prepared import Calls

Capture = pytest.CaptureFixture[str]


class State(NamedTuple):
    name: str = "billing"
    pattern: str = "orders/#"
    keeper: str = "attic"
    lag: int = 3
    topic: str = "orders/1"
    published_at: float = 900.0
    members: tuple[str, ...] = ("hall", "kitchen")
    failures: int = 0
    stuck: bool = False


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Any:
    """Runs the command at an endpoint with these answers; returns the calls, the code, the output and the errors."""
    monkeypatch.setattr("time.time", lambda: 1000.4)

    def run(*words: str, **answers: Any) -> Any:
        endpoint = Calls(**answers)
        monkeypatch.setattr(consumers, "open_endpoint", lambda *_, **options: nullcontext(endpoint))
        code = consumers.main([*words])
        return endpoint.calls, code, *capsys.readouterr()

    return run


def test_the_list_tells_how_far_behind_each_is_and_who_works_on_it(told: Any) -> None:
    states = [
        State(), State("other", topic="", members=(), lag=0),
        State("late", published_at=2000.0, failures=2, stuck=True),
    ]  # fmt: skip
    calls, code, out, err = told("--wait", "1.5", consumers=states)
    assert (calls, code, err) == ([("consumers", 1.5)], 0, "")
    assert out.splitlines() == [
        "billing of orders/# at attic: 3 behind, the oldest 100 s on orders/1; hall, kitchen",
        "other of orders/# at attic: 0 behind; nobody",
        "late of orders/# at attic: 3 behind, the oldest 0 s on orders/1; hall, kitchen; 2 failed; stuck",
    ]
    assert told("other", consumers=states)[2].splitlines() == ["other of orders/# at attic: 0 behind; nobody"]
    _, code, out, err = told("other", "a/#", consumers=states)
    assert (code, out, err) == (1, "", "glue consumers: no keeper has any\n")
    (event,) = map(json.loads, told("late", "orders/#", "--json", consumers=states)[2].splitlines())
    assert {name: event[name] for name in State._fields} == {
        **State("late", published_at=2000.0, failures=2, stuck=True)._asdict(), "members": ["hall", "kitchen"],
    }  # fmt: skip


def test_a_consumer_is_moved_or_forgotten(told: Any) -> None:
    assert told("billing", "orders/#", "--to", "-10m") == (
        [("move_consumer", "billing", "orders/#", "-10m", {"timeout": 2.0})], 0, "", "",
    )  # fmt: skip
    assert told("billing", "orders/#", "--forget", "--wait", "3") == (
        [("forget_consumer", "billing", "orders/#", {"timeout": 3.0})], 0, "", "",
    )  # fmt: skip
    usage = "glue consumers: give the NAME and the PATTERN of the consumer\n"
    assert told("billing", "--forget") == ([], 2, "", usage)
    assert told("--to", "latest") == ([], 2, "", usage)


@pytest.mark.parametrize(("error", "code"), [
    (glue.NoConsumerError("no keeper\nknows it"), 1), (glue.ConfigurationError("no time"), 2),
    (glue.TopicError("bad"), 2), (glue.GlueError("closed"), 1),
])  # fmt: skip
def test_what_went_wrong_is_told(told: Any, error: Exception, code: int) -> None:
    _, found, out, err = told("billing", "orders/#", "--to", "earliest", move_consumer=error)
    assert (found, out) == (code, "")
    assert err == f"glue consumers: {error}\n".replace("\nknows", r"\nknows")


def test_a_place_is_a_name_a_time_ago_or_a_time() -> None:
    for text in ("earliest", "latest", "-10m", "-1.5h", "-3s", "-2d"):
        assert consumers.place(text) == text
    assert consumers.place("2026-01-31T12:00") == datetime(2026, 1, 31, 12)
    for text in ("-10", "-m", "10m", "soon", "-10mm"):
        with pytest.raises(SystemExit):
            consumers.main(["a", "b", f"--to={text}"])
