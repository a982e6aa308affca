"""The parts of receivers: addresses, owners, routes, and inboxes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import glue
from glue.endpoint.receiver_results import result_of
from glue.receivers.activation import settle
from glue.receivers.address import Address, choose, kind_key, parse, partition_of
from glue.receivers.context import AgainError, Call, Mail
from glue.receivers.inbox import Inbox
from glue.receivers.outbox import GIVE_UP, PAUSE, REPEAT, Outbox
from glue.receivers.ownership import Owner, Ownership
from glue.receivers.wire import (
    AGAIN,
    ANSWER,
    Report,
    Result,
)

A, B, C = "a" * 16, "b" * 16, "c" * 16


def test_an_address_has_a_kind_and_an_id_and_perhaps_a_subnet() -> None:
    assert parse("lamp/kitchen/2") == Address(":lamp", "kitchen/2")
    assert parse("cellar:lamp/1") == Address("cellar:lamp", "1") == parse("lamp/1", "cellar")
    assert str(parse("lamp/1")) == "lamp/1"
    assert str(parse("cellar:lamp/1")) == "cellar:lamp/1"
    assert kind_key("lamp", "") == ":lamp"


@pytest.mark.parametrize("text", ["", "lamp", "/x", "lamp/", "a:b:c/x", "la+mp/x", "l#/x", "x" * 600 + "/1", ":/x"])
def test_a_malformed_address_raises(text: str) -> None:
    with pytest.raises(glue.ConfigurationError, match="address"):
        parse(text)


def test_a_host_that_leaves_moves_only_its_own_partitions() -> None:
    before = [choose("k", partition, [A, B, C]) for partition in range(256)]
    after = [choose("k", partition, [A, C]) for partition in range(256)]
    assert all(old == new for old, new in zip(before, after, strict=True) if old != B)
    assert all(40 < before.count(host) < 130 for host in (A, B, C))
    assert choose("k", 1, []) == ""
    assert {partition_of(f"r{number}", 8) for number in range(200)} == set(range(8))


def test_a_host_claims_what_is_free_and_hands_over_what_another_should_have() -> None:
    mine = Ownership("k", 16, A, 1)
    assert mine.claims() == []  # the records are not read yet
    mine.is_known = True
    claims = mine.claims()
    assert [claim.partition for claim in claims] == list(range(16))
    assert mine.claims() == []  # asked for once
    for claim in claims:
        mine.answered(claim.partition)
        assert not mine.note(claim.partition, claim.after.record)
    mine.set_hosts({B: 7})
    surplus = mine.surplus()
    assert 0 < len(surplus) < 16
    change = mine.hand_over(surplus[0])
    assert change is not None
    assert change.after == Owner(B, 7, 2)
    assert mine.note(surplus[0], change.after.record)  # lost
    assert mine.owned(surplus[0]) is None


def test_the_partitions_of_a_lost_or_restarted_host_are_claimed_with_the_next_epoch() -> None:
    mine = Ownership("k", 64, A, 2)
    mine.is_known = True
    owners = [Owner(B, 1, 3), Owner(A, 1, 5), Owner(C, 1, 7), Owner(C, 2, 9)]  # lost, this one before, restarted, there
    for partition in range(64):
        mine.note(partition, owners[partition % 4].record)
    mine.set_hosts({C: 2})
    wanted = [partition for partition in range(64) if partition % 4 < 3 and mine.wanted(partition) == A]
    assert {partition % 4 for partition in wanted} == {0, 1, 2}
    assert [(claim.partition, claim.after) for claim in mine.claims()] == [
        (partition, Owner(A, 2, owners[partition % 4].epoch + 1)) for partition in wanted
    ]
    assert mine.note(2, "nonsense") is False
    assert 2 not in mine.records


def test_a_host_claims_its_share_of_what_is_free_and_no_more() -> None:
    mine = Ownership("k", 64, A, 1)
    mine.is_known = True
    mine.set_hosts({B: 1, C: 1})
    expected = {partition for partition in range(64) if choose("k", partition, [A, B, C]) == A}
    assert {claim.partition for claim in mine.claims()} == expected
    assert 0 < len(expected) < 40


class Box:
    """An outbox with one kind, and what was settled."""

    def __init__(self) -> None:
        self.statistics: Counter[str] = Counter()
        self.box = Outbox(self.statistics)
        self.settled: list[Any] = []

    def hosts(self, *hosts: str, partitions: int = 1) -> None:
        self.box.hosts = {":k": (partitions, set(hosts))} if hosts else {}
        self.box.hosts_changed(":k")

    def put(self, body: bytes, until: float = 60.0) -> None:
        self.box.put(":k", "x", body, False, until, 1.0, (), lambda result: self.settled.append((body, result)))

    def flush(self, now: float) -> list[tuple[str, int, list[bytes]]]:
        sent = self.box.flush(now)
        return [(host, batch.number, [entry.body for entry in batch.entries.values()]) for host, batch in sent]

    def report(self, now: float, host: str, **told: Any) -> None:
        for call in self.box.report(now, host, Report(**told)):
            call()


def test_messages_wait_for_a_host_and_gather_while_a_batch_is_not_taken() -> None:
    box = Box()
    box.put(b"1")
    assert box.flush(0.0) == []
    box.hosts(A)
    assert box.flush(0.0) == [(A, 1, [b"1"])]
    box.put(b"2")
    box.put(b"3")
    assert box.flush(0.0) == []
    box.report(0.0, A, taken=[1])
    assert box.flush(0.0) == [(A, 2, [b"2", b"3"])]
    box.report(0.0, A, results=[(1, Result(1, ANSWER, b"one"))])
    assert box.settled == [(b"1", Result(1, ANSWER, b"one"))]
    box.report(0.0, A, taken=[2], done=[(2, [3])])
    box.report(0.0, A, done=[(2, None)])
    assert [body for body, _ in box.settled] == [b"1", b"3", b"2"]
    assert box.box.count == 0
    assert not box.box.is_busy(":k", 0)


def test_a_refused_batch_goes_to_the_owner_with_the_same_numbers() -> None:
    box = Box()
    box.hosts(A, B)
    box.put(b"1")
    ((host, number, _),) = box.flush(0.0)
    other = B if host == A else A
    box.report(0.0, host, moved=[(number, other)])
    ((to, _, bodies),) = box.flush(0.0)
    assert (to, bodies) == (other, [b"1"])


def test_what_waits_for_a_pause_leaves_at_once_when_the_hosts_change() -> None:
    box = Box()
    box.hosts(A)
    box.put(b"1")
    ((_, number, _),) = box.flush(0.0)
    box.report(0.0, A, taken=[], moved=[(number, "")], done=[], results=[])
    assert box.flush(0.0) == []
    box.hosts(A, B)
    assert [bodies for _, _, bodies in box.flush(0.0)] == [[b"1"]]


def test_what_a_host_told_of_its_partitions_counts_until_it_denies_it_or_is_lost() -> None:
    best = choose(":k", 0, [A, B])
    other = B if best == A else A

    def owned_by_the_other() -> Box:
        box = Box()
        box.hosts(other)
        box.put(b"1")
        ((host, number, _),) = box.flush(0.0)
        box.report(0.0, host, taken=[number], done=[(number, None)])
        box.hosts(A, B)
        box.put(b"2")
        return box

    box = owned_by_the_other()
    ((host, number, _),) = box.flush(0.0)
    assert host == other, "it has taken the batch before"
    box.report(0.0, other, moved=[(number, "")])
    assert [to for to, *_ in box.flush(PAUSE)] == [best]
    box = owned_by_the_other()
    box.box.lost(other)
    assert [to for to, *_ in box.flush(0.0)] == [best], "although it is back"


def test_hosts_that_name_each_other_are_asked_again_only_after_a_pause() -> None:
    box = Box()
    box.hosts(A, B)
    box.put(b"1")
    asked = []
    for _ in range(3):
        ((host, number, _),) = box.flush(0.0)
        asked.append(host)
        box.report(0.0, host, moved=[(number, B if host == A else A)])
    assert asked in ([A, B, A], [B, A, B])
    assert box.flush(0.0) == []
    ((host, number, _),) = box.flush(PAUSE)
    box.report(PAUSE, host, taken=[number])
    box.put(b"2")
    assert len(box.flush(PAUSE)) == 1


def test_what_is_handed_back_is_sent_again_in_order_before_anything_newer() -> None:
    box = Box()
    box.hosts(A)
    box.put(b"1")
    box.flush(0.0)
    box.report(0.0, A, taken=[1])
    box.put(b"2")
    box.flush(0.0)
    box.put(b"3")
    box.report(0.0, A, results=[(1, Result(1, AGAIN))])
    assert box.flush(1.0) == []  # the second batch is under way
    box.report(1.0, A, taken=[2])
    box.report(1.0, A, results=[(2, Result(2, AGAIN))])
    assert box.flush(1.0 + 2 * PAUSE) == [(A, 3, [b"1", b"2", b"3"])]


def test_a_lost_host_or_silence_sends_everything_again() -> None:
    box = Box()
    box.hosts(A)
    box.put(b"1")
    box.flush(0.0)
    box.hosts(B)
    box.box.lost(A)
    assert box.flush(0.0) == [(B, 2, [b"1"])]
    assert box.box.expire(REPEAT / 2) == []
    box.box.expire(REPEAT)
    assert box.flush(REPEAT) == [(B, 3, [b"1"])]
    box.report(0.0, B, results=[(2, Result(1, ANSWER))])  # of a batch that was given up
    assert box.settled == []
    assert box.statistics["answers to unknown batches"] == 1


def test_nothing_is_sent_again_while_its_host_still_has_it() -> None:
    box = Box()
    box.hosts(A)
    box.put(b"1")
    box.flush(0.0)
    box.report(0.0, A, taken=[1])
    for second in range(1, 10):
        box.report(float(second), A, taken=[1])
        box.box.expire(float(second))
    assert box.flush(9.0) == []
    box.put(b"2")
    box.flush(9.0)
    box.report(9.0, A, taken=[2])
    for second in range(10, 13):  # the host has nothing of the first batch any more
        box.report(float(second), A, taken=[2])
        box.box.expire(float(second))
    assert box.flush(12.0) == [(A, 3, [b"1", b"2"])]


def test_what_nobody_takes_in_time_is_given_up() -> None:
    box = Box()
    for number in range(3):
        box.put(b"%d" % number, until=5.0 + number)
    for call in box.box.expire(6.0):
        call()
    assert box.settled == [(b"0", None), (b"1", None)]
    assert box.box.count == 1


def test_what_waits_behind_others_is_not_given_up_while_a_host_handles_these() -> None:
    box = Box()
    box.hosts(A)
    for _ in range(2):
        box.box.put(":k", "x", b"1", False, 60.0)
        box.flush(0.0)
    box.report(30.0, A, taken=[1])
    box.report(50.0, A, done=[(1, None)])
    box.box._dirty.clear()
    box.box.expire(100.0)
    assert box.box.count == 1
    box.box.expire(50.0 + GIVE_UP)
    assert box.box.count == 0
    assert box.statistics["messages to receivers given up"] == 1


def test_a_kind_with_another_number_of_partitions_gets_what_waits() -> None:
    box = Box()
    box.hosts(A)
    box.put(b"1")
    box.put(b"2")
    box.flush(0.0)
    box.put(b"3")
    box.hosts(A, partitions=7)
    assert box.flush(1.0) == [(A, 2, [b"1", b"2", b"3"])]
    (sent,) = box.box._batches.values()
    assert min(sent.entries) > 3, "receivers take numbers that they had for repeated messages"


def test_an_inbox_tells_what_became_of_batches_and_nothing_twice() -> None:
    told: list[int] = []
    inbox = Inbox(A, f"{A}/1", result_of, lambda: told.append(1))
    first, second = inbox.open((":k", 0), 1, 3), inbox.open((":k", 0), 2, 1)
    mails = [Mail(None, first, 1), Call(None, batch=first, seq=2), Mail(None, first, 3)]
    first.mails += mails
    assert inbox.report() == Report(taken=[1, 2], moved=[], done=[], results=[])
    settle(mails[0], None, None)
    assert told == []  # it waits for the others, or for the next look
    assert inbox.report() == Report([], [], [(1, [1])], [])
    assert {seq: mail.seq for seq, mail in inbox.waiting((":k", 0), 2).items()} == {2: 2, 3: 3}
    settle(mails[1], None, "answer")
    assert len(told) == 1
    settle(mails[2], None, None)
    settle(mails[2], None, None)  # a second time does nothing
    assert inbox.report() == Report([], [], [(1, [3])], [(1, Result(2, ANSWER, b'"answer"', True))])
    settle(Mail(None, second, 4), AgainError(""), None)
    assert inbox.report() == Report([], [], [], [(2, Result(4, AGAIN))])
    assert [inbox.is_empty, inbox.is_ahead((":k", 0), 5), inbox.is_ahead((":k", 0), 4)] == [False, True, False]
    assert inbox.is_empty
