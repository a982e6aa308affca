"""The parts of receivers: addresses, owners, routes, and what travels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import glue
from glue.receivers.address import Address, choose, kind_key, parse, partition_of
from glue.receivers.outbox import PAUSE, REPEAT, Outbox
from glue.receivers.ownership import Owner, Ownership
from glue.receivers.wire import (
    AGAIN,
    ANSWER,
    Item,
    MalformedError,
    Result,
    decode,
    decode_items,
    decode_results,
    encode_batch,
    encode_results,
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
    mine = Ownership("k", 4, A, 2)
    mine.is_known = True
    for partition, owner in enumerate([Owner(B, 1, 3), Owner(A, 1, 5), Owner(C, 1, 1), Owner(C, 1, 1)]):
        mine.note(partition, owner.record)
    mine.set_hosts({C: 1})
    wanted = {partition for partition in (0, 1) if mine.wanted(partition) == A}
    assert {(claim.partition, claim.after.epoch) for claim in mine.claims()} == {
        (partition, {0: 4, 1: 6}[partition]) for partition in wanted
    }
    assert mine.note(2, "nonsense") is False
    assert 2 not in mine.records


class Box:
    """An outbox with one kind, and what was settled."""

    def __init__(self) -> None:
        self.statistics: Counter[str] = Counter()
        self.box = Outbox(self.statistics)
        self.settled: list[Any] = []

    def hosts(self, *hosts: str) -> None:
        self.box.hosts = {":k": (1, set(hosts))} if hosts else {}
        self.box.hosts_changed(":k")

    def put(self, body: bytes, until: float = 60.0) -> None:
        self.box.put(parse("k/x"), body, False, 1.0, until, (), lambda result: self.settled.append((body, result)))

    def flush(self, now: float) -> list[tuple[str, int, list[bytes]]]:
        return [(host, number, [item.body for item in items]) for host, _, _, _, items, number in self.box.flush(now)]


def test_messages_wait_for_a_host_and_gather_while_a_batch_is_not_taken() -> None:
    box = Box()
    box.put(b"1")
    assert box.flush(0.0) == []
    box.hosts(A)
    assert box.flush(0.0) == [(A, 1, [b"1"])]
    box.put(b"2")
    box.put(b"3")
    assert box.flush(0.0) == []
    box.box.taken(0.0, 1, A)
    assert box.flush(0.0) == [(A, 2, [b"2", b"3"])]
    for call in box.box.results(0.0, 1, A, [Result(1, ANSWER, b"one")]):
        call()
    assert box.settled == [(b"1", Result(1, ANSWER, b"one"))]


def test_a_refused_batch_goes_to_the_owner_with_the_same_numbers() -> None:
    box = Box()
    box.hosts(A, B)
    box.put(b"1")
    ((host, number, _),) = box.flush(0.0)
    other = B if host == A else A
    box.box.moved(0.0, number, host, other)
    ((to, _, bodies),) = box.flush(0.0)
    assert (to, bodies) == (other, [b"1"])


def test_what_is_handed_back_is_sent_again_in_order_before_anything_newer() -> None:
    box = Box()
    box.hosts(A)
    box.put(b"1")
    box.flush(0.0)
    box.box.taken(0.0, 1, A)
    box.put(b"2")
    box.flush(0.0)
    box.put(b"3")
    assert box.box.results(0.0, 1, A, [Result(1, AGAIN)]) == []
    assert box.flush(1.0) == []  # the second batch is under way
    box.box.taken(1.0, 2, A)
    box.box.results(1.0, 2, A, [Result(2, AGAIN)])
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
    assert box.box.results(0.0, 2, B, [Result(1, ANSWER)]) == []  # of a batch that was given up
    assert box.statistics["answers to unknown batches"] == 1


def test_what_nobody_takes_in_time_is_given_up() -> None:
    box = Box()
    box.put(b"1", until=5.0)
    for call in box.box.expire(5.0):
        call()
    assert box.settled == [(b"1", None)]
    assert box.box.count == 0


ITEMS = [Item(1, "a", b"x", False, 0.0, ()), Item(2, "ü/b", b'{"a":1}', True, 2.0, ("k/a", "k/b"))]


def test_a_batch_and_its_results_are_read_as_they_were_written() -> None:
    head, body = decode(encode_batch(7, ":k", 3, 64, ITEMS))
    assert (head["batch"], head["kind"], head["partition"], decode_items(head, body)) == (7, ":k", 3, ITEMS)
    results = [Result(1, AGAIN), Result(2, ANSWER, b"[]", True)]
    assert decode_results(*decode(encode_results(7, results))) == results


@pytest.mark.parametrize("payload", [b"", b"{}", b"[]\n", b"{\n", {"of": 1}, b'{"batch":1,"messages":[[1]]}\n',
                                     b'{"batch":1,"messages":[[1,"a",5,0,0]]}\nx'])  # fmt: skip
def test_malformed_payloads_are_refused(payload: Any) -> None:
    with pytest.raises(MalformedError):
        decode_items(*decode(payload))
    with pytest.raises(MalformedError):
        decode_results(*decode(payload))
