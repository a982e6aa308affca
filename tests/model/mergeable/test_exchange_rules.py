"""When replicas tell each other of mergeable keys: deltas at once, digests at rest, and pulls of what is lost."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random
from typing import Any

import pytest

from glue.model.mergeable import exchange as module
from glue.model.mergeable.context import Context
from glue.model.mergeable.exchange import DigestExchange, Sending
from glue.model.mergeable.store import Store
from glue.model.mergeable.wire import Digest, Pull, Push
from glue.model.state import Set, Update
from tests.model.mergeable.stores import merge, store

approx = pytest.approx


class Chosen(Random):
    """Chooses the same part of every range."""

    def __init__(self, part: float) -> None:
        super().__init__(1)
        self._part = part

    def uniform(self, a: float, b: float) -> float:
        return a + self._part * (b - a)


class Trial:
    """One replica at time 0, which is driven by its own deadlines."""

    def __init__(self, number: int = 1, part: float = 0.5) -> None:
        self.store = store(number)
        self.counts = Counter[str]()
        self.exchange = DigestExchange(self.store, self.counts, Chosen(part), 0.0)

    def run(self, end: float) -> list[tuple[float, Sending]]:
        """All that is sent up to this time, with the time of each."""
        sent: list[tuple[float, Sending]] = []
        while (now := self.exchange.deadline) <= end:
            sent += [(now, sending) for sending in self.exchange.tick(now)]
            assert len(sent) < 100
            assert self.exchange.deadline > now, "a tick does what is due"
        return sent

    def rest(self) -> float:
        """Let the intervals grow; returns the beginning of a longest one."""
        self.run(12.61)
        assert self.exchange._ends_at == approx(12.6 + module.LONGEST)
        return self.exchange._ends_at - module.LONGEST

    def write(self, now: float, key: str = "c/1", value: Any = 1) -> Context:
        """A local write."""
        touched, _ = self.store.write(1, [Update(key, value)])
        self.exchange.wrote(now, touched)
        return touched

    def digest(self, now: float, of: Store, asks: bool = False) -> None:
        """A digest arrives from a replica with this store."""
        self.exchange.receive_digest(now, "b" * 16, Digest(asks, of.context.copy(), of.mark))


def kinds(sent: list[tuple[float, Sending]]) -> list[tuple[float, str]]:
    """When, and what."""
    return [(round(at, 6), type(message).__name__) for at, (_, message) in sent]


@pytest.mark.parametrize(("part", "share"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_a_replica_alone_sends_a_digest_in_each_interval_and_the_intervals_double_up_to_12_8(
    part: float, share: float
) -> None:
    trial = Trial(part=part)
    expected, begin, length = [], 0.0, 0.2
    while begin + share * length <= 60.0:
        expected.append(begin + share * length)
        begin, length = begin + length, min(2 * length, 12.8)
    sent = trial.run(60.0)
    assert [at for at, _ in sent] == approx(expected)
    assert [sending for _, sending in sent] == [(None, Digest(False, Context(), 0))] * len(expected)


def test_a_digest_that_is_like_ours_takes_its_place_in_this_interval_only() -> None:
    trial = Trial()
    trial.digest(0.1, trial.store)
    assert trial.exchange.agreed
    assert kinds(trial.run(1.0)) == [(0.5, "Digest")]


@pytest.mark.parametrize("asks", [True, False])
def test_a_digest_that_asks_or_differs_does_not_take_the_place_of_ours(asks: bool) -> None:
    trial = Trial()
    trial.write(0.0)
    trial.run(0.0)
    trial.digest(0.1, trial.store if asks else store(2), asks)
    assert trial.exchange.agreed is asks
    assert kinds(trial.run(0.2)) == [(0.15, "Digest")]


def test_a_lone_write_leaves_at_once_and_the_next_ones_share_a_delta_5_ms_later() -> None:
    trial = Trial()
    start = trial.rest()
    dots = [trial.write(start + 1.0, f"c/{number}") for number in range(3)]
    assert trial.exchange.deadline == -inf
    ((receiver, message),) = trial.exchange.tick(start + 1.0)
    assert receiver is None
    assert isinstance(message, Push)
    assert (sorted(message.delta.events), message.mark) == (["c/0", "c/1", "c/2"], None)
    assert all(context <= message.delta.context for context in dots)
    trial.write(start + 1.001, "c/3")
    trial.write(start + 1.002, "c/4")
    assert trial.exchange.deadline == approx(start + 1.005)
    assert trial.exchange.tick(start + 1.004) == []
    ((_, message),) = trial.exchange.tick(trial.exchange.deadline)
    assert isinstance(message, Push)
    assert sorted(message.delta.events) == ["c/3", "c/4"]
    assert trial.exchange.tick(start + 1.02) == []


def test_a_write_news_and_a_newcomer_begin_a_short_interval_and_only_those() -> None:
    def soon(act: Any) -> float:
        trial = Trial()
        now = trial.rest() + 1.0
        act(trial, now)
        return round(trial.exchange.deadline - now, 6)

    other = store(2)
    other.write(1, [Update("c/9", 1)])
    at_rest = 12.8 * 0.75 - 1.0
    push = Push(other.whole())
    assert soon(lambda trial, now: None) == approx(at_rest)
    assert soon(lambda trial, now: trial.exchange.hasten(now)) == 0.15
    assert soon(lambda trial, now: trial.exchange.receive_push(now, push, True)) == 0.15
    assert soon(lambda trial, now: trial.exchange.receive_push(now, push, False)) == approx(at_rest)
    assert soon(lambda trial, now: trial.digest(now, trial.store)) == approx(at_rest)
    assert soon(lambda trial, now: trial.digest(now, trial.store, asks=True)) == 0.15
    assert soon(lambda trial, now: (trial.write(now), trial.exchange.tick(now))) == 0.15
    trial = Trial()
    trial.exchange.hasten(0.1)
    assert trial.exchange.deadline == approx(0.15), "a short interval goes on"


def test_what_a_digest_shows_is_pulled_after_0_15_s_and_at_once_if_it_asks() -> None:
    other = store(2)
    other.write(1, [Update("c/9", 1)])
    for asks, at in ((False, 0.16), (True, 0.01)):
        trial = Trial()
        trial.write(0.0)
        trial.exchange.tick(0.0)
        trial.digest(0.01, other, asks)
        trial.digest(0.02, store(3), asks)
        ((when, sending),) = [one for one in trial.run(0.16) if isinstance(one[1][1], Pull)]
        assert when == approx(at)
        assert sending == ("b" * 16, Pull(trial.store.context))
        assert not trial.exchange.agreed


def test_nothing_is_pulled_that_has_come_meanwhile_or_that_is_no_news() -> None:
    one, behind = store(2), store(3)
    one.write(1, [Update("c/9", 1)])
    trial = Trial()
    trial.digest(0.01, one)
    merge(trial.store, one.whole())
    trial.write(0.02)
    trial.digest(0.03, one)
    trial.digest(0.03, behind)
    assert "Pull" not in dict(kinds(trial.run(1.0))).values()


def test_of_two_replicas_with_the_same_context_one_has_missed_a_deletion() -> None:
    trial = Trial()
    trial.exchange.receive_digest(0.0, "b" * 16, Digest(True, Context(), 5))
    assert kinds([(0.0, sending) for sending in trial.exchange.tick(0.0)]) == [(0.0, "Pull")]
    assert not trial.exchange.agreed


def test_a_pull_without_an_answer_is_repeated_after_a_second_and_with_one_as_soon_as_needed() -> None:
    other = store(2)
    other.write(1, [Update("c/9", 1)])

    def pulled(trial: Trial, now: float) -> bool:
        trial.digest(now, other, asks=True)
        return any(isinstance(message, Pull) for _, message in trial.exchange.tick(now))

    trial = Trial()
    assert [pulled(trial, now) for now in (0.0, 0.5, 0.99, 1.0, 1.5)] == [True, False, False, True, False]
    trial.exchange.receive_push(1.5, Push(other.whole()), True)
    assert not pulled(trial, 1.6), "a delta is no answer"
    trial.exchange.receive_push(1.7, Push(other.whole(), other.mark), True)
    assert pulled(trial, 1.7)


def test_an_answer_tells_whether_both_are_alike_now() -> None:
    other = store(2)
    other.write(1, [Update("c/9", 1)])
    trial = Trial()
    answer = Push(other.whole(), other.mark)
    agreed = [trial.exchange.agreed]
    for push in (answer, None, Push(other.whole()), answer):  # after the second, both are alike
        if push is None:
            merge(trial.store, other.whole())
        else:
            trial.exchange.receive_push(0.0, push, True)
        agreed.append(trial.exchange.agreed)
    assert agreed == [False, False, False, False, True], "a delta says nothing about it"
    trial.write(0.0)
    agreed = [trial.exchange.agreed]
    trial.exchange.agreed = True
    trial.digest(0.0, store(3))
    assert [*agreed, trial.exchange.agreed] == [False, False]


def test_a_pull_is_answered_with_what_is_lacking_and_each_replica_every_0_05_s() -> None:
    trial = Trial()
    trial.write(0.0)
    known = trial.store.context.copy()
    trial.store.write(1, [Set("s/1", ["x"])])

    def answered(now: float, sender: str) -> list[Sending]:
        return trial.exchange.receive_pull(now, sender, Pull(known))

    ((receiver, message),) = answered(1.0, "b")
    assert receiver == "b"
    assert isinstance(message, Push)
    assert (list(message.delta.events), message.mark) == (["s/1"], trial.store.mark)
    assert (message.delta.context, message.delta.kept) == (trial.store.context, known)
    assert [len(answered(now, "b")) for now in (1.0, 1.05, 1.0625, 1.2)] == [0, 1, 0, 1]
    assert len(answered(1.2, "c")) == 1
    assert trial.counts == {"pulls refused: too many": 2}


def test_the_last_answers_of_1024_replicas_are_known_and_then_all_are_forgotten() -> None:
    trial = Trial()
    for number in range(1024):
        assert trial.exchange.receive_pull(0.0, str(number), Pull(Context()))
    assert not trial.exchange.receive_pull(0.0, "0", Pull(Context()))
    assert trial.exchange.receive_pull(0.0, "another", Pull(Context()))
    assert trial.exchange.receive_pull(0.0, "0", Pull(Context()))
    assert len(trial.exchange._answered) == 2


def test_who_asks_wants_an_answer_of_a_replica_that_is_like_it() -> None:
    trial = Trial()
    trial.write(0.0)
    before, mark = trial.store.context.copy(), trial.store.mark
    asked = trial.exchange.ask()
    trial.write(0.0, "c/2")
    assert asked == (None, Digest(True, before, mark)), "it is told as it was"
