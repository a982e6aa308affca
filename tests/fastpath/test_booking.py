"""What passes in a rally is booked late, yet before anybody who was not answered asks again."""

from __future__ import annotations

import pytest

from glue.fastpath.session import PERIOD
from glue.serialization import Serialization
from glue.transport.exchange import MOST
from glue.transport.round_trip import ACK_DELAY
from glue.transport.window import INITIAL
from tests.fastpath.test_rally import STEP, Players, met

LONG = MOST // 2  # messages each way in a row, which take several periods


def play(players: Players, now: float, count: int) -> float:
    """So many questions, each answered at once; returns when the last answer came."""
    for number in range(count):
        now += STEP
        players.say(now, 0, "ping/1", b"%d" % number, {})
        while players.wire:
            players.arrive(now)
    return now


def test_what_is_answered_need_not_be_booked_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    players = met()
    now = play(players, 101.3, 5)
    booked, book = [], Serialization.book

    def noted(layer: Serialization, heard: int, said: int) -> None:
        booked.append(heard)
        book(layer, heard, said)

    monkeypatch.setattr(Serialization, "book", noted)
    play(players, now, LONG)
    assert LONG * STEP > 5 * PERIOD
    assert booked == []
    play(players, now + LONG * STEP, MOST)
    assert 0 < len(booked) <= 4, "there is an end to what is kept"
    topics = players.cores[1].stack.statistics["topics"]
    assert topics["messages received"] == 20 + 5 + LONG + MOST


def test_the_window_does_not_grow_by_messages_that_were_on_their_way_one_by_one() -> None:
    players = met()
    play(players, 101.3, MOST)
    *_, windows = players.state()
    assert windows == [INITIAL, INITIAL]


@pytest.mark.parametrize("lost", ["the question", "the answer"])
def test_what_is_not_answered_is_booked_before_it_is_asked_again(lost: str) -> None:
    players = met()
    now = play(players, 101.3, 50)
    stack = players.cores[0].stack
    players.say(now, 0, "ping/1", b"?", {})
    if lost == "the answer":
        players.arrive(now)
    players.wire.clear()
    assert stack.rally.is_open
    assert stack.prolong(now + PERIOD / 2) == now + PERIOD
    assert stack.prolong(now + PERIOD) <= now + PERIOD, "now it is to be booked"
    assert now + PERIOD < players.cores[0].deadline < now + 2 * PERIOD, "only then it is asked again"
    assert not stack.rally.is_open


def test_who_says_what_is_not_answered_gets_an_acknowledgement_in_time() -> None:
    players, now = met(), 101.3
    for _ in range(2):  # what comes for the first time ends a rally
        now = play(players, now, 50)
        players.say(now, 1, "mixed", b"!", {})
        while players.wire:
            players.arrive(now)
    ann = players.cores[0].stack
    assert ann.rally.is_open
    assert ann.prolong(now + PERIOD / 2) == now + PERIOD
    assert ann.prolong(now + PERIOD) <= now + PERIOD, "it is to be booked, as what is owed is due"
    assert players.cores[0].deadline <= now + ACK_DELAY
