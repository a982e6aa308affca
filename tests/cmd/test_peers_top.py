"""`glue peers` and `glue top`: what endpoints tell becomes tables, and what a liar tells breaks nothing."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import glue
from glue.cmd import peers, top
from glue.cmd.facts import matrix
from glue.cmd.output import CommandOutput
from glue.endpoint.facts import Path, number, paths_of, share
from glue.endpoint.inquiring import Answered
from tests.support.json_forms import check
from tests.support.lan import PATIENCE, Lan

LIES: list[Any] = [
    None, [], "x", {"links": []}, {"peers": 7, "paths": [3, {"peer": 5}]}, {"sent": "many", "waiting": 1e999},
]  # fmt: skip


def options(lan: Lan) -> list[str]:
    """The options of a command on this network."""
    return [word for name, value in lan.settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@contextmanager
def publishing(endpoint: glue.Endpoint) -> Iterator[None]:
    """Publish 1 kB a hundred times a second, for the block."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.01):
            endpoint.publish("x", bytes(1000))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The events that were written; each has its documented form."""
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for event in events:
        check(event)
    return events


def test_peers_lists_all_and_every_pair(lan: Lan, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("kitchen", "hall"):
        lan.start(name)
    lan.start("shy", doctor=False)
    assert peers.main([*options(lan), "--endpoint-name", "asking", "--json"]) == 0
    events = told(capsys)
    found = {event["name"]: event for event in events if event["event"] == "endpoint"}
    assert {name: one["answered"] for name, one in found.items()} == {
        "kitchen": True, "hall": True, "shy": False, "asking": True,
    }  # fmt: skip
    assert found["hall"]["round_trip"] > 0
    ids = {one["id"]: name for name, one in found.items()}
    ways = {(ids[e["sender"]], ids[e["receiver"]]): e["unicast"] for e in events if e["event"] == "way"}
    assert ways["kitchen", "hall"] == ways["hall", "asking"] == 0.0


def test_top_tells_who_sends_how_much(lan: Lan, capsys: pytest.CaptureFixture[str]) -> None:
    kitchen, hall = lan.start("kitchen"), lan.start("hall")
    hall.subscribe("x", lambda message: None)
    kitchen.wait_for_subscribers("x", 1, timeout=PATIENCE)
    with publishing(kitchen):
        assert top.main([*options(lan), "--count", "1", "--json"]) == 0
    events = told(capsys)
    rates = {event["name"]: event for event in events if event["event"] == "activity"}
    assert rates["kitchen"]["published"] > 0 == rates["hall"]["published"]
    assert rates["kitchen"]["sent_bytes"] > 1000 * rates["kitchen"]["published"] * 0.9
    assert rates["hall"]["heard"] > 0
    (path,) = [event for event in events if event["event"] == "path" and event["sender"] == kitchen.id]
    assert path["receiver"] == hall.id


@pytest.mark.parametrize("lie", LIES)
def test_what_a_liar_tells_breaks_no_table(lie: Any) -> None:
    stream = io.StringIO()
    output = CommandOutput(stream, json=False, unread=lambda: None)
    links = {"peers": [{"id": "b", "heard": 1, "unicast": [3, 4]}]}
    honest: dict[str, Any] = {"report": {"host": "vm"}, "links": links}
    sections = {"report": lie, "links": lie}
    peers.show(output, "a", {"a": ("asking", ""), "b": ("liar", "")}, {"a": honest, "b": sections})
    assert "25.0 %" in stream.getvalue()
    stream.truncate(0)
    before, after = ({"b": Answered("liar", "b", {"activity": lie})} for _ in range(2))
    top.show(output, before, after, 1.0)
    assert "liar" in stream.getvalue()


def test_the_worst_loss_is_told_above_the_matrix_and_only_if_there_is_a_measure() -> None:
    def table(*losses: float | None) -> list[str]:
        told = [{"peer": "ab"[place], "loss": loss} for place, loss in enumerate(losses)]
        found = {"c": Answered("cellar", "c", {"activity": {"paths": told}})}
        stream = io.StringIO()
        top.show(CommandOutput(stream, json=False, unread=lambda: None), found, found, 1.0)
        return [line for line in stream.getvalue().splitlines() if "at worst" in line]

    assert table(None, None) == table() == []
    assert table(0.02, 0.05) == table(0.05, None) == ["reliable frames lost lately, at worst 5.0 %"]
    assert table(0.0, None) == ["reliable frames lost lately, at worst 0 %"]


def test_a_counter_that_began_again_is_no_negative_rate() -> None:
    assert top.rates_of({"sent": 100}, {"sent": 5}, 1.0)["sent"] == 0.0
    assert top.rates_of({"sent": 100}, {"sent": 150}, 2.0)["sent"] == 25.0


def test_facts_are_numbers_and_shares_or_nothing() -> None:
    values = (3, 2.5, "3", None, float("inf"), float("nan"))
    assert [number({"n": value}, "n") for value in values] == [3, 2.5, 0, 0, 0, 0]
    assert [share(value) for value in (0, 0.5, 1, -1, 2, "1", None)] == [0, 0.5, 1, None, None, None, None]


def test_of_told_paths_only_what_is_expected_counts() -> None:
    good = {"peer": "b", "loss": 0.25, "round_trip": 0.001, "unicast": True}
    odd = {"peer": "c", "loss": 7, "round_trip": "x", "unicast": 1}
    assert paths_of("a", {"paths": [good, odd, 5]}) == [
        Path("a", "b", 0.25, 0.001, True), Path("a", "c", None, None, False),
    ]  # fmt: skip
    many = [{"peer": str(place)} for place in range(1000)]
    assert len(paths_of("a", {"paths": many})) == 200
    assert not any(paths_of("a", lie) for lie in LIES)


def test_a_matrix_has_a_row_for_each_sender_and_nothing_on_its_diagonal() -> None:
    lines = matrix({"a": "hall", "b": "kitchen"}, lambda sender, receiver: 0.05 if sender == "b" else None)
    assert [line.split() for line in lines[1:]] == [["1", "hall", "·", "–"], ["2", "kitchen", "5.0", "%", "·"]]
