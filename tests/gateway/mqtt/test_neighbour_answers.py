"""What a door answers to other doors, what it takes of their announcements, and how it hands over at its end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from glue.gateway.mqtt import neighbours
from glue.gateway.mqtt.neighbours import NUMBER_LIMIT, _pairs
from tests.gateway.mqtt.test_neighbours import HOUR, Door, Network
from tests.support import mqtt


def doors(*names: str) -> list[Door]:
    network = Network()
    return [Door(network, name) for name in names]


def ask(door: Door, payload: Any, caller: str = "other") -> Any:
    request: Any = SimpleNamespace(payload=payload, caller=caller, caller_id=caller)
    return door.neighbours._answer(request)


def test_only_pairs_of_a_client_and_a_number_are_taken_from_an_announcement() -> None:
    right = [["a", 0], ["b", NUMBER_LIMIT - 1]]
    wrong = [["a", -1], ["a", NUMBER_LIMIT], ["a", "1"], [5, 1], ["a"], ["a", 1, 2], "ab", None, {"a": 1}]
    assert _pairs(right + wrong) == [("a", 0), ("b", 9_007_199_254_740_990)]
    assert [_pairs(one) for one in (None, "ab", 5, {"a": 1})] == [[]] * 4


def test_a_door_shows_its_clients_and_its_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    (door,) = doors("one")
    bench = door.bench
    monkeypatch.setattr(neighbours.time, "monotonic", lambda: bench.now)  # type: ignore[attr-defined]
    device = bench.subscriber(("t", 1), ("u", 0), client_id="here", version=5)
    bench.connect("away", 5, clean=False, raw=HOUR).leave()
    bench.connect("old", 3)
    bench.now += 7.26
    bench.connect("p").send(mqtt.publish("t", b"x", 1, 1), mqtt.publish("u", b"x"))
    shown = {one["client"]: one for one in ask(door, "clients")}
    assert [*shown] == ["here", "old", "p"]
    assert shown["here"] == {
        "client": "here", "user": "", "address": device.client.remote.address, "version": "5", "connected": 7.3,
        "received": 0, "sent": 2, "dropped": 0,
    }  # fmt: skip
    assert [shown[name]["version"] for name in ("old", "p")] == ["3.1", "3.1.1"]
    assert (shown["p"]["received"], shown["p"]["connected"]) == (2, 0.0)
    sessions = {one["client"]: one for one in ask(door, "sessions")}
    assert sessions["here"] == {
        "client": "here", "connected": True, "subscriptions": 2, "waiting": 0, "under_way": 1, "dropped": 0,
        "expires": None,
    }  # fmt: skip
    assert (sessions["away"]["connected"], sessions["away"]["expires"]) == (False, 3_592.7)
    monkeypatch.setattr(neighbours, "SHOWN", 2)
    assert (len(ask(door, "clients")), len(ask(door, "sessions"))) == (1, 2)
    with pytest.raises(ValueError, match="'x': expected 'clients' or 'sessions'"):
        ask(door, "x")


def test_a_door_writes_to_its_clients_what_an_answer_has_for_them() -> None:
    (door,) = doors("one")
    flushes: list[bool] = []
    door.neighbours.flush = lambda: flushes.append(True)
    subscriber = door.bench.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR)
    value = {
        "client": "b", "epoch": 1, "expiry": 9, "subscriptions": [], "inflight": [], "released": [], "received": [],
        "queue": [],
    }  # fmt: skip
    for asked, count in (
        (["address", "one", None], 0), (["late", "one", ["s", []]], 1), (["retain", "one", []], 1),
        (["give", "one", value], 1), (["give", "one", value], 0), (["take", "s"], 1), (["rest", "s"], 1),
        ("clients", 0), ("sessions", 0), (["give", "other", value], 0),
    ):  # fmt: skip
        flushes.clear()
        ask(door, asked)
        assert len(flushes) == count, asked
    assert subscriber.is_closed()


def test_a_door_answers_what_it_alone_is_asked() -> None:
    one, other = doors("one", "other")
    one.neighbours.address = "10.0.0.1:1883"
    assert [ask(one, ["address", name, None]) for name in ("one", "other")] == ["10.0.0.1:1883", None]
    one.bench.connect("s", 5, clean=False, raw=HOUR).leave()
    assert ask(one, ["take", "s"], "one") is None, "it has it itself"
    assert ask(one, ["take", "unknown"]) is None
    value = ask(one, ["take", "s"])
    assert (value["client"], value["expiry"], "s" in one.bench.broker.sessions) == ("s", 3_600.0, False)
    assert (ask(one, ["rest", "s"]), ask(one, ["rest", "s"])) == ([], None)
    assert ask(other, ["give", "one", value]) is None
    assert ask(other, ["give", "other", {"client": "s"}]) is False, "it is malformed"
    assert ask(other, ["give", "other", value]) is True
    assert ask(other, ["give", "other", value]) is False, "it is there"
    assert ask(other, ["late", "other", ["s", []]]) is True
    assert ask(other, ["late", "other", ["unknown", []]]) is False
    assert ask(other, ["late", "one", ["s", []]]) is None
    one.bench.connect("p").send(mqtt.publish("kept", b"x", retain=True))
    values = one.bench.broker.retained_values(one.bench.now)
    assert (ask(other, ["retain", "other", values]), len(other.bench.broker.retained)) == (True, 1)
    for wrong in (["take", 5], ["give", "other", {"client": 5}], ["retain", "other", "x"], ["late", "other", ["s"]]):
        if wrong[0] == "take":
            with pytest.raises(ValueError, match="expected 'clients' or 'sessions'"):
                ask(other, wrong)
        else:
            assert ask(other, wrong) is None


def test_a_door_that_ends_hands_all_to_the_next_one() -> None:
    one, other = doors("one", "other")
    assert asyncio.run(one.neighbours.drain()) == ""
    asyncio.run(one.neighbours.hand_over())
    other.neighbours.address = "10.0.0.2:1883"
    for name in ("a", "b"):
        one.bench.connect(name, 5, clean=False, raw=HOUR).leave()
    other.bench.connect("b", 5, clean=False, raw=HOUR).leave()
    one.bench.connect("p").send(*(mqtt.publish(f"kept/{number}", b"x", retain=True) for number in range(300)))

    async def end() -> None:
        assert await one.neighbours.drain() == "10.0.0.2:1883"
        await one.neighbours.hand_over()

    asyncio.run(end())
    assert (sorted(one.bench.broker.sessions), sorted(other.bench.broker.sessions)) == (["b"], ["a", "b"])
    assert len(other.bench.broker.retained) == 300
    assert other.bench.broker.statistics["sessions taken from other doors"] == 1


def test_the_newest_session_is_taken_of_several_doors() -> None:
    one, second, third = doors("one", "second", "third")
    for door, times in ((second, 1), (third, 3)):
        for _ in range(times):
            door.bench.connect("s", 5, clean=False, raw=HOUR).leave()
    found = asyncio.run(one.neighbours.seek("s"))
    assert found["epoch"] == 3
    assert asyncio.run(one.neighbours.seek("unknown")) is None
    assert asyncio.run(one.neighbours.rest("s")) == [[], []]
    assert asyncio.run(one.neighbours.rest("unknown")) == []


def test_an_announcement_closes_the_older_connection_and_keeps_the_newer() -> None:
    one, _ = doors("one", "other")

    def told(*pairs: Any, publisher: str = "other") -> None:
        message: Any = SimpleNamespace(payload=[*pairs], publisher=publisher, publisher_id=publisher)
        one.neighbours._other_connected(message)

    device = one.bench.connect("s", 5, clean=False, raw=HOUR)
    one.bench.broker.sessions["s"].claim = 7
    told(["s", 40])
    assert not device.is_closed(), "in a cluster, the log says where a session is"
    one.bench.broker.sessions["s"].claim = 0
    one.bench.broker.highest_epoch = one.bench.broker.sessions["s"].epoch
    asyncio.run(one.neighbours.announce())
    own = one.bench.broker.sessions["s"].epoch
    told(["unknown", 50], ["s", 0])
    assert not device.is_closed()
    assert one.neighbours.has_news, "it says itself that it has the newer one"
    asyncio.run(one.neighbours.announce())
    told(["s", own], publisher="abc")
    assert (device.is_closed(), one.neighbours.has_news) == (False, True), "of two equal ones, the larger id counts"
    told(["s", own])
    assert device.is_closed()
    (goodbye,) = device.read()
    assert (goodbye.kind, goodbye.body[0], b"connects at door other" in goodbye.body) == (14, 0x8E, True)
    assert one.bench.broker.statistics["connections taken over"] == 1
    assert one.bench.broker.statistics["announcements of other doors"] == 4
    assert one.bench.broker.highest_epoch == 50
    assert "s" not in one.bench.broker.sessions
