"""The home of consumers: its answers word for word, its clocks, and each limit at its value and one beyond."""

from __future__ import annotations

from typing import Any

import pytest

from glue.consumers.consumer import Content
from glue.consumers.home import ConsumerAlert
from glue.consumers.positions import Stored
from glue.consumers.wire import ask_topic, parse, tell_topic
from glue.errors import StorageError
from glue.storage import Record
from tests.consumers.test_home import MEMBER, PEER, Trial

NAMES = {"name": "billing", "pattern": "a/#"}
OTHER = "b" * 16


def shares_of(messages: list[tuple[str, bytes]]) -> list[list[list[Any]]]:
    """The shares of each message that has some."""
    return [
        head["shares"] for head, _ in map(parse, (payload for _, payload in messages)) if head.get("tell") == "shares"
    ]


def test_each_question_has_one_answer_word_for_word() -> None:
    trial = Trial()
    trial.append(b"1", b"2")
    state = {
        **NAMES, "keeper": "k" * 16, "lag": 2, "epoch": 1, "next": 0, "members": [MEMBER], "failures": 0, "passed": 0,
        "still": 0.0, "stuck": False, "oldest": ["a/b", 0.0],
    }  # fmt: skip
    share = [1, 0, "p" * 16, "publisher", 1]
    told: Any = {"member": MEMBER}
    assert trial.ask(ask="where") == [{"tell": "where", **NAMES, "home": "", "epoch": 0, "covers": 1}]
    assert trial.join() == [
        {"tell": "joined", **NAMES, **told, "epoch": 1},
        {"tell": "shares", **NAMES, **told, "epoch": 1, "shares": [share]},
    ]
    assert trial.ask(ask="where") == [{"tell": "where", **NAMES, "home": "k" * 16, "epoch": 1, "covers": 1}]
    assert trial.ask(ask="list", id=7) == [{"tell": "list", "id": 7, "consumers": [state]}]
    trial.now = 2.0
    assert trial.ask(ask="here", **told, epoch=1, got=1) == [{"tell": "here", **NAMES, **told}]
    (found,) = trial.ask(ask="list", id=0)
    assert found["consumers"] == [{**state, "still": 2.0}]
    assert trial.ask(ask="failed", **told, epoch=1, shares=[[1, 1, 1]]) == []
    assert trial.ask(ask="done", **told, epoch=1, shares=[[1, 2, 2]]) == []
    (found,) = trial.ask(ask="list", id=1)
    assert found["consumers"] == [{**state, "lag": 1, "failures": 1, "still": 2.0}]
    assert trial.ask(ask="leave", **told, epoch=1) == []
    assert trial.ask(ask="leave", **told, epoch=1) == []
    for asked in ("here", "done", "failed"):
        assert trial.ask(ask=asked, **told, epoch=1) == [{"tell": "fenced", **NAMES, **told}]
    assert trial.ask(ask="seek", id=3, start=["latest", 0]) == [{"tell": "sought", **NAMES, "id": 3, "done": True}]
    assert trial.ask(ask="forget", id=4) == [{"tell": "sought", **NAMES, "id": 4, "done": True}]
    assert trial.ask(ask="seek", id=5, start=["latest", 0]) == [{"tell": "sought", **NAMES, "id": 5, "done": False}]
    assert trial.ask(ask="list", id=6) == [{"tell": "list", "id": 6, "consumers": []}]
    assert dict(trial.statistics) == {"acknowledgements of members that are fenced": 1}


def test_answers_go_to_the_life_that_asked_and_notices_to_other_keepers() -> None:
    trial = Trial()
    member = f"{PEER}-3-1"
    join = trial.home.take(0.0, 1e9, PEER, 3, b'{"ask":"join","name":"n","pattern":"a","member":"%b","begin":1}\n' %
                           member.encode())  # fmt: skip
    assert [topic for topic, _ in join] == [tell_topic(PEER, 3)]
    assert trial.home.deadline == 0.25
    ((topic, payload),) = trial.home.advance(0.25)
    assert topic == ask_topic("o" * 16)
    assert parse(payload)[0] == {"ask": "known", "name": "n", "pattern": "a", "created": 1_000_000_000_000}
    assert trial.home.advance(0.5) == []
    silence = [round(now * 0.25, 2) for now in range(3, 40) if trial.home.advance(now * 0.25)]
    assert silence == [1.75, 5.25], "the member is removed; the other keepers are told again"


def test_a_position_is_on_disk_a_hundredth_of_a_second_after_it_moved() -> None:
    trial = Trial()
    trial.append(b"1", b"2")
    trial.join()
    trial.now = 0.1
    trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 1, 1]])
    assert trial.home.deadline == 0.11
    trial.now = 0.105
    trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 2, 2]])
    assert trial.home.deadline == 0.11, "the first one counts"
    trial.home.advance(0.11)
    assert trial.home.deadline == 0.25
    trial.disk.crash()
    trial.open()
    (consumer,) = trial.home.consumers.values()
    assert consumer.position.next == 2


@pytest.mark.parametrize(("got", "removed_at"), [(None, 1.75), (0, 3.25), (1, None)])
def test_a_member_is_removed_that_is_silent_or_does_not_get_what_it_was_sent(
    got: int | None, removed_at: float
) -> None:
    trial = Trial()
    trial.append(b"1")
    trial.join()
    removed = None
    for tick in range(1, 20):
        trial.now = tick * 0.25
        if got is not None:
            trial.ask(ask="here", member=MEMBER, epoch=1, got=got)
        told = trial.heads(trial.home.advance(trial.now))
        if {"tell": "fenced", **NAMES, "member": MEMBER} in told:
            removed = trial.now
            break
    assert removed == removed_at
    assert trial.statistics == ({"members of consumers removed: silent": 1} if removed else {})


def test_a_member_that_has_got_less_than_it_says_is_stalled_all_the_same() -> None:
    trial = Trial()
    trial.append(b"1")
    trial.join()
    (consumer,) = trial.home.consumers.values()
    assert consumer.here(MEMBER, 99)
    assert consumer.members[MEMBER].got == 1, "as many as it was sent"
    assert not consumer.here("nobody", 1)


def test_a_member_that_gets_little_at_a_time_stays_however_long_that_takes() -> None:
    trial = Trial()
    trial.join()
    for number in range(40):
        trial.append(b"%d" % number)
        trial.home.advance(trial.now)
    for got in range(10):
        for _ in range(4):
            trial.now += 0.25
            assert trial.ask(ask="here", member=MEMBER, epoch=1, got=got)[0]["tell"] == "here"
            trial.home.advance(trial.now)
    assert trial.statistics["members of consumers removed: silent"] == 0


def test_a_consumer_has_1024_members_at_most() -> None:
    trial = Trial()
    trial.join()
    (consumer,) = trial.home.consumers.values()
    for number in range(1023):
        assert consumer.join(str(number), (PEER, 1))
    assert trial.join(OTHER) == []
    assert trial.statistics == {"members of consumers refused: too many": 1}
    assert trial.join()[0]["tell"] == "joined", "it is one already"
    consumer.leave("7")
    assert trial.join(OTHER)[0]["tell"] == "joined"


def test_a_home_has_4096_consumers_and_knows_twice_as_many() -> None:
    trial = Trial()
    trial.join()
    (consumer,) = trial.home.consumers.values()
    positions = trial.home._positions
    trial.home.consumers.update((str(number), consumer) for number in range(4095))
    join: dict[str, Any] = {"ask": "join", "name": "next", "member": MEMBER, "begin": 1}
    assert trial.ask(**join) == []
    assert trial.statistics == {"consumers refused: too many": 1}
    del trial.home.consumers["0"]
    assert trial.ask(**join)[0]["tell"] == "joined"
    del trial.home.consumers["next/a/#"]
    stored = Stored(consumer.position, 0, {"home": OTHER, "epoch": 3})
    positions.stored.update((str(number), stored) for number in range(8192 - 2 - 1))
    for name, home in (("one", OTHER), ("two", "")):
        trial.ask(OTHER, ask="known", name=name, created=5)
        (where,) = trial.ask(ask="where", name=name)
        assert where["home"] == home


@pytest.mark.parametrize(
    ("size", "count", "parts"), [(1, 257, [256, 1]), (128 << 10, 3, [2, 1]), (131_071, 3, [3]), (1, 256, [256])]
)
def test_a_message_to_a_member_has_256_shares_or_256_kilobytes(size: int, count: int, parts: list[int]) -> None:
    trial = Trial()
    trial.join()
    (consumer,) = trial.home.consumers.values()
    content = Content(0, Record("p" * 16, "p", 1, "a/b", 1, [bytes(size)]), False)
    trial.home._send(consumer, MEMBER, [(number, content) for number in range(1, count + 1)])
    found = shares_of(trial.home.advance(0.0))
    assert [len(one) for one in found] == parts
    assert [share[0] for one in found for share in one] == [*range(1, count + 1)]


@pytest.mark.parametrize(
    ("start", "offset"),
    [(["earliest", 0], 2), (["latest", 0], 6), (["since", 40_000_000], 3), (["since", 40_000_001], 4), (None, 2),
     (["latest"], 2), (["since", 99_000_000], 6)],
)  # fmt: skip
def test_a_consumer_begins_where_it_is_told_to(start: Any, offset: int) -> None:
    trial = Trial()
    for number in range(6):
        trial.log.append([Record("p" * 16, "p", 1, "a", number + 1, [b"x"], 10.0 + 10 * number)])
        trial.log._limit = 4
    trial.ask(ask="join", member=MEMBER, begin=1, start=start)
    (consumer,) = trial.home.consumers.values()
    assert consumer.position.next == offset
    assert trial.ask(ask="seek", id=1, start=start)[-1]["done"]
    assert consumer.position.next == offset
    assert consumer.epoch == 2


@pytest.mark.parametrize(
    ("created", "other", "gives_up"),
    [(999_999_999_999, "z" * 16, True), (1_000_000_000_000, "a" * 16, True), (1_000_000_000_000, "z" * 16, False),
     (1_000_000_000_001, "a" * 16, False)],
)  # fmt: skip
def test_of_two_homes_that_meet_the_older_one_goes_on(created: int, other: str, gives_up: bool) -> None:
    trial = Trial()
    trial.join()
    told = trial.ask(other, ask="known", created=created)
    detail = f"it was begun at two keepers, and goes on at {other}"
    assert trial.alerts == ([ConsumerAlert("conflict", "billing", "a/#", detail)] if gives_up else [])
    assert told == ([{"tell": "fenced", **NAMES, "member": MEMBER}] if gives_up else [])
    trial.disk.crash()
    trial.open()
    assert trial.ask(ask="where") == [{
        "tell": "where", **NAMES, "home": other if gives_up else "k" * 16, "epoch": 0 if gives_up else 2, "covers": 1,
    }]  # fmt: skip


def test_a_log_that_cannot_be_read_is_tried_again_after_a_second_and_told_of_each_time() -> None:
    trial = Trial()
    trial.append(b"1")
    good = trial.log.read

    def fails(*arguments: Any, **more: Any) -> Any:
        raise StorageError("the disk is broken")

    trial.log.read = fails  # type: ignore[method-assign]
    assert [head["tell"] for head in trial.join()] == ["joined"]
    assert [head["ask"] for head in trial.heads(trial.home.advance(0.9))] == ["known"]
    (state,) = trial.ask(ask="list", id=1)[0]["consumers"]
    assert (state["lag"], state["oldest"]) == (-1, None)
    for trial.now in (1.0, 1.5, 1.9):
        trial.ask(ask="here", member=MEMBER, epoch=1)
    assert trial.alerts == [ConsumerAlert("storage", "billing", "a/#", "the disk is broken")] * 2
    assert trial.statistics == {"logs that consumers could not read": 2}
    trial.log.read = good  # type: ignore[method-assign]
    assert len(shares_of(trial.home.advance(2.0))) == 1


@pytest.mark.parametrize("is_full", [True, False])
def test_what_is_to_come_again_waits_quietly_while_the_disk_stores_no_position(is_full: bool) -> None:
    trial = Trial()
    trial.append(b"1", b"2")
    trial.join()
    trial.ask(ask="failed", member=MEMBER, epoch=1, shares=[[1, 1, 1]])
    trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 2, 2]])
    trial.disk.is_full, trial.disk.fails_to_sync = is_full, not is_full
    turns = 0
    while trial.now < 10.0 and turns < 100:
        trial.ask(ask="here", member=MEMBER, epoch=1, got=1)
        trial.now = max(trial.now, trial.home.deadline)
        trial.home.advance(trial.now)
        turns += 1
    assert turns < 100, "four ticks a second, and the tries"
    trial.disk.is_full = trial.disk.fails_to_sync = False
    trial.now = 11.0
    assert len(shares_of(trial.home.advance(trial.now))) == is_full, "a disk that failed is not tried again"


def test_a_log_that_one_consumer_cannot_read_holds_up_no_other() -> None:
    trial = Trial()
    trial.ask(ask="join", name="archive", pattern="a/old", member=f"{PEER}-1-2", begin=1)
    trial.join()
    good = trial.log.read

    def reads(topics: Any, *arguments: Any, **more: Any) -> Any:
        if topics("a/old") and not topics("a/b"):
            raise StorageError("the disk is broken there")
        return good(topics, *arguments, **more)

    trial.log.read = reads  # type: ignore[method-assign]
    for number in range(4):
        trial.append(b"%d" % number)
        assert len(shares_of(trial.home.advance(trial.now))) == 1
        trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[number + 1, 1, 1]])
        assert trial.home.deadline == trial.now + 0.01, "what is done is stored as ever"
        trial.now += 0.01
        trial.home.advance(trial.now)
    assert [alert.name for alert in trial.alerts] == ["archive"]
    trial.log.read = good  # type: ignore[method-assign]
    trial.append(b"5", topic="a/old")
    trial.now = 1.0
    assert [len(one) for one in shares_of(trial.home.advance(trial.now))] == [1, 1]
