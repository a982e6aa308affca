"""One consumer at its home: what it reads ahead, what comes again and when, and what a restart knows of it."""

from __future__ import annotations

from typing import Any

import pytest

from glue.consumers.consumer import Consumer
from glue.errors import StorageError
from glue.storage import Record
from glue.storage.log import Reading
from tests.consumers.test_home import MEMBER, PEER, Trial


def joined(*payloads: bytes) -> tuple[Trial, Consumer]:
    """A consumer with one member, and a message in the log for each payload."""
    trial = Trial()
    for payload in payloads:
        trial.append(payload)
    trial.join()
    (consumer,) = trial.home.consumers.values()
    return trial, consumer


def read(consumer: Consumer) -> None:
    """Read all that there is room for."""
    consumer.feed(0.0)
    while consumer.goes_on:
        consumer.feed(0.0)


def test_8192_messages_are_in_memory_at_most() -> None:
    trial, consumer = joined()
    trial.append(*[bytes(40)] * 8191)
    for _ in range(3):
        trial.append(bytes(1 << 18))
    read(consumer)
    assert consumer.in_memory == 8192
    assert consumer.lag() == 8194


def test_a_log_that_does_not_go_on_ends_the_count_of_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    trial, consumer = joined()
    trial.append(b"1")
    calls: list[int] = []

    def stays(topics: Any, offset: int, *more: Any) -> Reading:
        assert len(calls) < 3, "it asks for ever"
        calls.append(offset)
        return Reading([], offset)

    monkeypatch.setattr(consumer._log, "read", stays)
    assert consumer.lag() == consumer.in_memory
    assert len(calls) == 1


def test_four_megabytes_are_in_memory_at_most_and_little_while_there_is_no_member() -> None:
    trial, consumer = joined()
    for _ in range(20):
        trial.append(bytes(1 << 18))
    read(consumer)
    assert consumer.in_memory == 16
    assert consumer.lag() == 20
    trial, consumer = joined()
    for _ in range(20):
        trial.append(bytes(1 << 15))
    consumer.leave(MEMBER)
    consumer.feed(0.0)
    assert consumer.in_memory == 2
    consumer.feed(0.0)
    assert consumer.in_memory == 2, "it is seen that something waits"


def test_what_failed_comes_again_after_pauses_that_double_up_to_a_minute_and_nothing_waits_for_it() -> None:
    trial, consumer = joined(b"1", b"2")
    number, pauses = 1, []
    for attempt in range(8):
        assert consumer.failed(trial.now, MEMBER, number, 1, 1)
        assert not consumer.failed(trial.now, MEMBER, number, 1, 1), "it has it no more"
        assert consumer.failures == attempt + 1
        assert consumer.in_memory == 2
        pauses.append(consumer.deadline - trial.now)
        trial.now = consumer.deadline
        consumer.feed(trial.now - 0.001)
        assert consumer.deadline == trial.now
        consumer.feed(trial.now)
        ((member, number, content),) = [
            one for one in consumer.assign(trial.now) if one[2].offset == 0
        ]  # fmt: skip
        assert (member, content.is_again, content.attempts, content.count) == (MEMBER, True, attempt + 1, 1)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert consumer.deadline > 1e9
    assert consumer.done(trial.now, MEMBER, number, 1, 1)
    assert consumer.position.next == 1
    assert consumer.done(trial.now, MEMBER, 2, 1, 1)
    assert (consumer.position.next, consumer.in_memory, consumer.is_behind) == (2, 0, False)


def test_a_share_is_done_in_order_by_the_member_that_has_it() -> None:
    trial, consumer = joined()
    trial.append(b"1", b"2", b"3")
    trial.home.advance(0.0)
    wrong = [(MEMBER, 1, 2, 2), (MEMBER, 1, 1, 4), (MEMBER, 2, 1, 1), (MEMBER, 0, 1, 1), ("other", 1, 1, 1)]
    for one in wrong:
        assert not consumer.done(0.0, *one)
        assert not consumer.failed(0.0, *one)
    told: list[tuple[Any, ...]] = []
    consumer.on_done = lambda *one: told.append(one)
    assert consumer.done(0.0, MEMBER, 1, 1, 2)
    assert not consumer.done(0.0, MEMBER, 1, 1, 2)
    assert (consumer.position.next, consumer.in_memory) == (2, 1)
    assert consumer.failed(0.0, MEMBER, 1, 3, 3)
    assert consumer.members[MEMBER].shares == {}
    consumer.feed(1.0)
    assert [(number, content.offset) for _, number, content in consumer.assign(1.0)] == [(2, 2)]
    assert consumer.done(1.0, MEMBER, 2, 1, 1)
    stream = ("p" * 16, 1, "a/b")
    assert [(tuple(one[0]), *one[1:]) for one in told] == [(stream, 1, 3), (stream, 3, 4)]
    assert (consumer.position.next, consumer.in_memory) == (3, 0)


@pytest.mark.parametrize(("closes", "again"), [(False, 257), (True, 1)])
def test_after_a_restart_only_what_may_have_been_given_away_is_marked(closes: bool, again: int) -> None:
    trial, _ = joined(b"1")
    for _ in range(300):
        trial.append(b"x")
    trial.ask(ask="leave", member=MEMBER, epoch=1)
    if closes:
        trial.home.close(trial.now)
    else:
        trial.home.advance(trial.now)
    trial.disk.crash()
    trial.open()
    (consumer,) = trial.home.consumers.values()
    consumer.join(MEMBER, (PEER, 1))
    marked, offset = 0, 0
    while offset < 301:
        consumer.feed(0.0)
        for member, number, content in [*consumer.assign(0.0)]:
            assert content.offset == offset
            marked += content.count if content.is_again else 0
            offset += content.count
            assert consumer.done(0.0, member, number, 1, content.count)
    assert marked == again


def test_what_is_read_anew_after_a_seek_is_not_marked_and_has_all_room() -> None:
    trial, _ = joined(bytes(4 << 20))
    trial.ask(ask="failed", member=MEMBER, epoch=1, shares=[[1, 1, 1]])
    trial.disk.crash()
    trial.open()  # what was given away would be marked now
    trial.home.advance(trial.now)
    trial.join()
    trial.ask(ask="failed", member=MEMBER, epoch=2, shares=[[1, 1, 1]])
    trial.append(b"2")
    trial.ask(ask="seek", id=1, start=["earliest", 0])
    told = trial.join()
    assert [share[:2] for share in told[-1]["shares"]] == [[1, 0]]
    trial.ask(ask="failed", member=MEMBER, epoch=3, shares=[[1, 1, 1]])
    trial.now = 1.0
    (again,) = [head for head in trial.heads(trial.home.advance(trial.now)) if head.get("tell") == "shares"]
    assert [share[:2] for share in again["shares"]] == [[2, 1]], "it comes again"
    (following,) = trial.ask(ask="done", member=MEMBER, epoch=3, shares=[[2, 1, 1]])
    assert [share[:2] for share in following["shares"]] == [[3, 0]], "and then the next one, for which there is room"


def test_messages_of_a_topic_go_one_after_another_to_one_member_if_they_are_ordered() -> None:
    for ordered in (0, 1):
        trial = Trial()
        for number in (1, 2):
            trial.ask(ask="join", member=f"{PEER}-1-{number}", begin=1, ordered=ordered)
        for number in range(4):
            trial.append(b"%d" % number)
        trial.home.advance(0.0)
        (consumer,) = trial.home.consumers.values()
        assert sorted(len(one.shares) for one in consumer.members.values()) == ([0, 4] if ordered else [2, 2])


def test_what_retention_removed_is_told_in_the_list() -> None:
    trial, _ = joined()
    trial.ask(ask="leave", member=MEMBER, epoch=1)
    trial.log._limit = 3
    for removed in (7, 14):
        for number in range(10):
            trial.append(b"%d" % number)
        trial.join()
        (state,) = trial.ask(ask="list", id=1)[0]["consumers"]
        assert (state["passed"], state["lag"]) == (removed, 3)
        trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 1, 1], [2, 1, 1], [3, 1, 1]])
        trial.ask(ask="leave", member=MEMBER, epoch=1)


def test_a_consumer_is_stuck_once_nothing_moved_for_its_limit_and_no_more_once_it_moves() -> None:
    _, consumer = joined(b"1", b"2")
    assert [consumer.look(now, 5.0) for now in (0.0, 4.9, 5.0, 6.0)] == [False, False, True, False]
    assert consumer.describe(6.0, "k")["still"] == 6.0
    assert consumer.is_stuck
    consumer.done(16.0, MEMBER, 1, 1, 1)
    assert [consumer.look(now, 5.0) for now in (16.0, 20.9, 21.0)] == [False, False, True]
    consumer.done(22.0, MEMBER, 2, 1, 1)
    assert not consumer.look(22.0, 5.0)
    assert (consumer.is_stuck, consumer.describe(30.0, "k")["still"]) == (False, 0.0)
    assert consumer.oldest() is None


def test_the_oldest_message_is_told_with_its_time() -> None:
    trial, consumer = joined()
    trial.log.append([Record("p" * 16, "p", 1, "b", 1, [b"x"], 5.0), Record("p" * 16, "p", 1, "a/z", 1, [b"x"], 6.0)])
    assert consumer.oldest() == ("a/z", 6.0)
    assert consumer.lag() == 1

    def fails(*arguments: Any, **more: Any) -> Any:
        raise StorageError("broken")

    trial.log.read = fails  # type: ignore[method-assign]
    assert consumer.oldest() is None
