"""The whole tables of `glue peers` and `glue top`, from prepared answers."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from glue.cmd import facts, peers, top
from glue.endpoint.activity import COUNTERS
from glue.endpoint.inquiring import Answered
from glue.endpoint.sections import SECTIONS
from tests.cmd.prepared import Calls, Time, people, programs

PEERS = {"a": ("attic", "10.0.0.1:7"), "h": ("hall", "10.0.0.2:7"), "k": ("kitchen", "10.0.0.3:7"), "m": ("me", "this")}
TOLD: dict[str, dict[str, Any]] = {
    "h": {
        "report": {"host": "vm1", "version": "1.2", "peers": 3, "waiting": 17},
        "links": {"peers": [
            {"id": "m", "heard": 1.0, "multicast": [15, 20], "unicast": [20, 20]},
            {"id": "a", "heard": 1.0, "multicast": [1, 2], "unicast": [1, 2]},
            {"id": "k"},
        ]},
    },
    "m": {
        "report": {"host": "vm2", "version": "1.3", "peers": 3, "waiting": 0},
        "links": {"peers": [
            {"id": "h", "heard": 1.0, "multicast": [20, 20], "unicast": [0, 0], "round_trip": 0.00123},
            {"id": "k", "round_trip": 0.5},
        ]},
    },
}  # fmt: skip


def test_peers_are_a_table_and_two_matrices() -> None:
    assert people(lambda output: peers.show(output, "m", PEERS, TOLD)).splitlines() == [
        "endpoint  address     host  glue       round trip  peers  waiting",
        "attic     10.0.0.1:7        no answer  –               0  0 B",
        "hall      10.0.0.2:7  vm1   1.2        1.23 ms         3  17 B",
        "kitchen   10.0.0.3:7        no answer  500.00 ms       0  0 B",
        "me        this        vm2   1.3        –               3  0 B",
        "",
        "pings lost by multicast",
        "from \\ to        1       2",
        "        1  hall  ·       0 %",
        "        2  me    25.0 %  ·",
        "",
        "pings lost by unicast",
        "from \\ to        1    2",
        "        1  hall  ·    –",
        "        2  me    0 %  ·",
    ]
    *endpoints, way, other, summary = programs(lambda output: peers.show(output, "m", PEERS, TOLD))
    assert [(one["id"], one["round_trip"], one["answered"]) for one in endpoints] == [
        ("a", None, False), ("h", 0.00123, True), ("k", 0.5, False), ("m", None, True),
    ]  # fmt: skip
    assert endpoints[1] == {
        "event": "endpoint", "name": "hall", "id": "h", "address": "10.0.0.2:7", "host": "vm1", "version": "1.2",
        "round_trip": 0.00123, "peers": 3, "waiting": 17, "answered": True,
    }  # fmt: skip
    assert way == {"event": "way", "sender": "h", "receiver": "m", "multicast": 0.0, "unicast": None}
    assert other == {"event": "way", "sender": "m", "receiver": "h", "multicast": 0.25, "unicast": 0.0}
    assert summary == {"event": "summary", "endpoints": 4}


def test_of_many_endpoints_a_part_is_a_matrix() -> None:
    for count, more in ((12, None), (13, "1 more endpoints: --json tells of all pairs")):
        named = {str(number): (f"p{number:02}", "x") for number in range(count)}
        told: dict[str, dict[str, Any]] = {id: {"report": {}} for id in named}
        lines = people(lambda output, a=named, b=told: peers.show(output, "0", a, b)).splitlines()  # type: ignore[misc]
        assert lines[count + 1 : count + 3] == ["", "pings lost by multicast"]
        assert len(lines) == 1 + count + 2 * (3 + facts.MATRIX) + (2 if more else 0)
        assert (lines[-1] == more) is (more is not None)
    named = {"z": ("attic", "x"), "y": ("hall", "y"), "a": ("me", "this")}
    lines = people(lambda output: peers.show(output, "a", named, {"a": {}, "z": {}})).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["attic", "hall", "me"], "by name"
    assert [line.split()[1] for line in lines[7:9]] == ["attic", "me"]
    alone = people(lambda output: peers.show(output, "m", {"m": ("me", "this")}, {"m": {}}))
    assert "pings" not in alone


@pytest.mark.parametrize(("pings", "share"), [
    ([3, 4], 0.25), ([0, 1], 1.0), ([4, 4], 0.0), ([5, 4], None), ([-1, 4], None), ([0, 0], None), ([1], None),
    (None, None), (["1", 2], None),
])  # fmt: skip
def test_pings_that_did_not_come_are_lost(pings: Any, share: float | None) -> None:
    assert peers.lost(pings) == share


def test_the_endpoints_are_given_time_to_be_found_and_to_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    did: list[Any] = []
    hall: Any = Calls()
    hall.id, hall.name, hall.address = "h", "hall", ("10.0.0.2", 7, 0, 0)
    own: Any = Calls()
    own.id, own.name, own.peers = "m", "me", [hall]
    monkeypatch.setattr(peers, "open_endpoint", lambda *_, **options: nullcontext(own))
    monkeypatch.setattr("glue.cmd.common.pause", did.append)
    monkeypatch.setattr(peers, "begin_round", lambda endpoint, pings: did.append((endpoint is own, pings)))

    def ask_all(endpoint: Any, sections: list[str]) -> list[Answered]:
        did.append(sections)
        return [Answered("hall", "h", TOLD["h"])]

    def told(name: str, endpoint: Any) -> Any:
        return TOLD["m"][name]

    monkeypatch.setattr(peers, "ask_all", ask_all)
    for name in ("report", "links"):
        monkeypatch.setitem(SECTIONS, name, partial(told, name))
    assert peers.main([]) == 0
    assert did == [1.2, (True, 20), 1.2, ["report", "links"]]
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("hall      10.0.0.2:7    vm1   1.2   1.23 ms")
    assert lines[2].startswith("me        this command  vm2   1.3   –")


def activity(paths: list[Any], waiting: int = 0, **counters: int) -> dict[str, Any]:
    return {"activity": {**dict.fromkeys(COUNTERS, 0), **counters, "waiting": waiting, "paths": paths}}


def test_top_is_a_table_by_what_is_sent_and_a_matrix() -> None:
    def path(peer: str, loss: float | None) -> dict[str, Any]:
        return {"peer": peer, "loss": loss, "round_trip": 0.01, "unicast": True}

    before = {id: Answered(name, id, activity([])) for id, name in (("h", "hall"), ("k", "kitchen"), ("a", "attic"))}
    counters = {"published": 2400, "sent": 4000, "sent_bytes": 6_000_000, "heard": 10, "received": 5000}
    found = {
        "h": Answered("hall", "h", activity([path("k", 0.0)], received_bytes=6_000_000, lost=3)),
        "k": Answered("kitchen", "k", activity([path("h", 0.125), path("x", None)], 1234, **counters)),
        "n": Answered("new", "n", activity([])),
        "a": Answered("attic", "a", activity([])),
    }
    assert people(lambda output: top.show(output, before, found, 2.0)).splitlines() == [
        "endpoint  published/s  sent/s   kB/s  heard/s  received/s  kB/s in  lost/s  waiting",
        "kitchen         1,200   2,000  3,000        5       2,500        0       0    1,234",
        "attic               0       0      0        0           0        0       0        0",
        "hall                0       0      0        0           0    3,000       2        0",
        "",
        "reliable frames lost lately, at worst 12.5 %",
        "from \\ to           1    2  3",
        "        1  kitchen  ·    –  12.5 %",
        "        2  attic    –    ·  –",
        "        3  hall     0 %  –  ·",
        "",
    ]
    events = programs(lambda output: top.show(output, before, found, 2.0004))
    assert [(one["event"], one.get("name")) for one in events] == [
        ("activity", "kitchen"), ("activity", "attic"), ("activity", "hall"), ("path", None), ("path", None),
        ("path", None), ("summary", None),
    ]  # fmt: skip
    assert events[0] == {
        "event": "activity", "name": "kitchen", "id": "k", "waiting": 1234, "published": 1199.8, "heard": 5.0,
        "sent": 1999.6, "sent_bytes": 2999400.1, "received": 2499.5, "received_bytes": 0.0, "lost": 0.0,
    }  # fmt: skip
    assert events[3] == {
        "event": "path", "sender": "k", "receiver": "h", "loss": 0.125, "round_trip": 0.01, "unicast": True,
    }  # fmt: skip
    assert events[-1] == {"event": "summary", "endpoints": 3, "seconds": 2.0}
    unmeasured = {"h": Answered("hall", "h", activity([path("k", None)]))}
    assert "lost lately" not in people(lambda output: top.show(output, before, unmeasured, 2.0))
    nobody = "no endpoint answers; those with doctor=False never do\n\n"
    assert people(lambda output: top.show(output, {}, found, 2.0)) == nobody
    assert people(lambda output: top.show(output, {}, found, 2.0), terminal=True) == "\x1b[H\x1b[2J" + nobody


def test_top_looks_once_an_interval(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Time()
    answers = iter(range(0, 1000, 30))

    def ask(endpoint: Any, sections: list[str], timeout: float) -> list[Answered]:
        assert (endpoint, sections, timeout) == ("endpoint", ["activity"], 0.5)
        clock.now += 0.25
        return [Answered("hall", "h", activity([], published=next(answers)))]

    monkeypatch.setattr(top, "open_endpoint", lambda *_, **options: nullcontext("endpoint"))
    monkeypatch.setattr(top, "time", clock)
    monkeypatch.setattr(top, "ask_all", ask)
    monkeypatch.setattr("glue.cmd.common.pause", clock.sleep)
    assert top.main(["--count", "2", "--interval", "0.1"]) == 0
    assert clock.naps == [1.2, 1.0, 1.0]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith("hall")] == [["hall", "24", *"0000000"]] * 2
    assert top.main(["--count", "1", "--interval", "3"]) == 0
    assert clock.naps[3:] == [1.2, 3.0]


def test_shares_and_names_for_people() -> None:
    assert [facts.percent(value) for value in (None, 0, 0.0, 0.0004, 0.125, 1)] == [
        "–", "0 %", "0 %", "0.0 %", "12.5 %", "100.0 %",
    ]  # fmt: skip
    assert facts.matrix({"a": "x" * 30}, lambda *_: 0.5)[1] == f"        1  {'x' * 23}…  ·"
