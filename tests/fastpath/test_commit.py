"""What passes in a session is committed late, yet before an endpoint that was not answered asks again."""

from __future__ import annotations

import pytest

from glue.fastpath.session import PERIOD
from glue.serialization.fastpath import SerializationFastPath
from glue.transport.fastpath import MOST
from glue.transport.round_trip import ACK_DELAY
from glue.transport.window import INITIAL
from tests.support.sessions import STEP, Repliers, met

LONG = MOST // 2  # messages each way in a row, which take several periods


def exchange(repliers: Repliers, now: float, count: int) -> float:
    """So many questions, each answered at once; returns when the last answer came."""
    for number in range(count):
        now += STEP
        repliers.reply(now, 0, "ping/1", b"%d" % number, {})
        while repliers.wire:
            repliers.arrive(now)
    return now


def test_what_is_answered_need_not_be_committed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    repliers = met()
    now = exchange(repliers, 101.3, 5)
    committed, commit = [], SerializationFastPath.commit

    def noted(path: SerializationFastPath, received: int, sent: int) -> None:
        committed.append(received)
        commit(path, received, sent)

    monkeypatch.setattr(SerializationFastPath, "commit", noted)
    exchange(repliers, now, LONG)
    assert LONG * STEP > 5 * PERIOD
    assert committed == []
    exchange(repliers, now + LONG * STEP, MOST)
    assert 0 < len(committed) <= 4, "there is an end to what is kept"
    repliers.state()
    topics = repliers.cores[1].stack.statistics["topics"]
    assert topics["messages received"] == 20 + 5 + LONG + MOST


def test_the_window_does_not_grow_by_messages_that_were_on_their_way_one_by_one() -> None:
    repliers = met()
    exchange(repliers, 101.3, MOST)
    *_, windows = repliers.state()
    assert windows == [INITIAL, INITIAL]


@pytest.mark.parametrize("lost", ["the question", "the answer"])
def test_what_is_not_answered_is_committed_before_it_is_asked_again(lost: str) -> None:
    repliers = met()
    now = exchange(repliers, 101.3, 50)
    stack = repliers.cores[0].stack
    repliers.reply(now, 0, "ping/1", b"?", {})
    if lost == "the answer":
        repliers.arrive(now)
    repliers.wire.clear()
    assert stack.session.is_open
    assert stack.session_until(now + PERIOD / 2) == now + PERIOD
    assert stack.session_until(now + PERIOD) <= now + PERIOD, "now it is to be committed"
    stack.commit()
    assert now + PERIOD < repliers.cores[0].deadline < now + 2 * PERIOD, "only then it is asked again"
    assert not stack.session.is_open


def test_what_is_sent_and_not_answered_gets_an_acknowledgement_in_time() -> None:
    repliers, now = met(), 101.3
    for _ in range(2):  # what comes for the first time ends a session
        now = exchange(repliers, now, 50)
        repliers.reply(now, 1, "mixed", b"!", {})
        while repliers.wire:
            repliers.arrive(now)
    ann = repliers.cores[0].stack
    assert ann.session.is_open
    assert ann.session_until(now + PERIOD / 2) == now + PERIOD
    assert ann.session_until(now + PERIOD) <= now + PERIOD, "it is to be committed, as what is owed is due"
    ann.commit()
    assert repliers.cores[0].deadline <= now + ACK_DELAY
