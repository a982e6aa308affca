"""What a host asks the model and its store before it serves partitions, and how it lets them go, step by step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from glue.contract import Delivery, Publication
from glue.endpoint.receiver_kind import Kind
from glue.endpoint.receiver_partitions import _number
from glue.model.questions import Committed, Read, Refused, Unwatch, WatchPattern, Write
from glue.model.state import ABSENT, Change, Expect, Set
from glue.receivers.address import Address, choose, partition_of
from glue.receivers.store import FencedError
from glue.receivers.wire import AGAIN, decode_report, encode, encode_batch
from glue.receivers.wire import decode as decoded
from tests.receivers.desk import HOST, PEER, Desk, Shelf

ROOT = "receivers/%3Asum"
UNREACHABLE = Refused("no majority", True)


def record(epoch: int, host: str = HOST, life: int = 7) -> dict[str, Any]:
    return {"host": host, "life": life, "epoch": epoch}


def asked(desk: Desk) -> list[tuple[Any, ...]]:
    """The questions since the last look, as what they read, or what they expect and set."""
    found: list[tuple[Any, ...]] = []
    for one in desk.questions():
        assert (one.name, one.timeout, one.at) == ("plant", 10.0, desk.time + 1000.0)
        question = one.question
        if isinstance(question, Write):
            expect, change = question.operations
            assert isinstance(expect, Expect)
            assert isinstance(change, Set)
            assert expect.key == change.key
            found.append((one, change.key.removeprefix(f"{ROOT}/"), expect.value, change.value))
        else:
            assert isinstance(question, Read | WatchPattern)
            found.append((one, question.pattern.removeprefix(f"{ROOT}/")))
    return found


def owned(desk: Desk, shelf: Shelf | None, partitions: int = 2, **options: Any) -> Kind:
    """A host that owns all partitions since epoch 3."""
    kind = desk.host(shelf, partitions, **options)
    for question, name in asked(desk):
        if name == "partitions":
            desk.answer(question, partitions=partitions)
    ((question, _),) = asked(desk)
    desk.answer(question, **{f"owner_{partition}": record(3) for partition in range(partitions)})
    desk.run()
    return kind


def state(kind: Kind) -> tuple[bool, bool, bool]:
    """Whether the first two partitions are served, and all that this host should have."""
    return kind.serves(0), kind.serves(1), kind.is_settled


def changed(kind: Kind, partition: int, value: Any) -> None:
    """The watch tells of a record that changed."""
    change = Change(f"{ROOT}/owner/{partition}", orjson.dumps(value), 9)
    kind._watch._deliver(Delivery("", [change], None, "", "", 1, 1, 0.0, False, ()))


def test_a_host_agrees_on_the_number_reads_the_records_and_claims_what_is_free() -> None:
    desk, shelf = Desk(), Shelf()
    kind = desk.host(shelf)
    (watch, pattern), (question, name) = asked(desk)
    assert (pattern, name) == ("owner/+", "partitions")
    desk.answer(watch, Committed(1))
    desk.answer(question, UNREACHABLE)
    assert asked(desk) == []
    desk.tick()
    ((question, name),) = asked(desk)
    assert name == "partitions"
    desk.tick()
    assert asked(desk) == []  # it is asked already
    desk.answer(question)
    ((question, *write),) = asked(desk)
    assert write == ["partitions", ABSENT, 2]
    desk.answer(question, Refused("another was first"))
    desk.tick()
    ((question, name),) = asked(desk)
    assert name == "partitions"
    desk.answer(question, partitions=2)
    ((question, name),) = asked(desk)
    assert name == "owner/+"
    desk.answer(question, UNREACHABLE)
    desk.tick()
    ((question, _),) = asked(desk)
    desk.answer(question, partitions=2)
    ((question, name),) = asked(desk)
    desk.tick()
    assert (name, asked(desk)) == ("owner/+", [])  # nothing is claimed before the records are known
    desk.answer(question, owner_0=record(4, PEER, 1), owner_x=record(1))
    desk.tick()
    (first, *claim), (second, *other) = asked(desk)
    assert claim == ["owner/0", record(4, PEER, 1), record(5)]
    assert other == ["owner/1", ABSENT, record(1)]
    assert state(kind) == (False, False, False)
    desk.answer(first, Committed(2))
    desk.answer(second, UNREACHABLE)
    desk.run()
    assert shelf.calls == [("claim", 0, 5)]
    assert state(kind) == (True, False, False)
    desk.tick()
    ((second, *other),) = asked(desk)
    assert other == ["owner/1", ABSENT, record(1)]
    desk.answer(second, Committed(3))
    desk.run()
    assert shelf.calls == [("claim", 0, 5), ("claim", 1, 1)]
    assert state(kind) == (True, True, True)
    desk.tick()
    assert (asked(desk), shelf.calls[2:]) == ([], [])


def test_what_the_watch_told_is_not_replaced_by_an_older_answer() -> None:
    desk, shelf = Desk(), Shelf()
    kind = desk.host(shelf)
    _, (question, _) = asked(desk)
    desk.answer(question, partitions=2)
    ((question, _),) = asked(desk)
    changed(kind, 0, record(9, PEER, 1))
    assert len(desk.told) == 1  # the endpoint is told that the delivery was handled
    desk.answer(question, owner_0=record(8), owner_1=record(8))
    desk.run()
    assert shelf.calls == [("claim", 1, 8)]
    assert kind.ownership.records[0].epoch == 9


def test_while_a_claim_is_under_way_the_watch_may_tell_of_it_first() -> None:
    desk, shelf = Desk(), Shelf()
    kind = owned(desk, shelf)
    shelf.calls.clear()
    changed(kind, 0, record(5, "c" * 16, 1))  # of a host that is not there
    desk.tick()
    ((question, *claim),) = asked(desk)
    assert claim == ["owner/0", record(5, "c" * 16, 1), record(6)]
    changed(kind, 0, record(6))
    changed(kind, 0, record(8, PEER, 1))  # and another took it since
    desk.answer(question, Committed(2))
    desk.run()
    assert kind.ownership.records[0].epoch == 8
    assert not kind.serves(0)
    assert shelf.calls == []


def test_a_store_is_asked_once_at_a_time_and_its_answer_counts_for_the_epoch_that_was_asked_about() -> None:
    desk, shelf = Desk(), Shelf()
    desk.held = []
    kind = owned(desk, shelf, 1)
    desk.tick()
    assert shelf.calls == [("claim", 0, 3)]
    changed(kind, 0, record(4))
    desk.tick()
    assert shelf.calls == [("claim", 0, 3)]
    desk.held.pop()(None, None)
    assert not kind.serves(0)
    desk.tick()
    assert shelf.calls[1:] == [("claim", 0, 4)]
    desk.held.pop()(None, None)
    assert kind.serves(0)


def test_a_store_that_fails_is_logged_once_and_asked_again_with_each_tick(caplog: pytest.LogCaptureFixture) -> None:
    desk, shelf = Desk(), Shelf()
    shelf.error = OSError("full")
    kind = owned(desk, shelf, 1)
    for error in (shelf.error, shelf.error, OSError("other"), OSError("full")):
        shelf.error = error
        desk.tick()
    assert [one.getMessage() for one in caplog.records] == [
        f"the store of receivers of kind 'sum': OSError('{text}')" for text in ("full", "other", "full")
    ]
    assert (len(shelf.calls), kind.serves(0), asked(desk)) == (5, False, [])
    shelf.error = None
    desk.tick()
    assert kind.serves(0)


@pytest.mark.parametrize(("known", "expected"), [(2, 7), (6, 7), (7, 8), (50, 51)])
def test_an_owner_counts_on_from_the_epoch_that_its_store_knows(known: int, expected: int) -> None:
    desk, shelf = Desk(), Shelf()
    shelf.error = FencedError.of(":sum", 0, known)
    kind = owned(desk, shelf, 1)
    ((question, *change),) = asked(desk)
    assert change == ["owner/0", record(3), record(expected)]
    desk.tick()
    assert asked(desk) == []  # one change at a time
    shelf.error = None
    desk.answer(question, Committed(5))
    desk.tick()
    assert shelf.calls[-1] == ("claim", 0, expected)
    assert kind.serves(0)


def test_partitions_are_handed_over_four_at_a_time_and_all_as_a_host_leaves() -> None:
    desk, shelf = Desk(), Shelf()
    kind = owned(desk, shelf, 24)
    for partition in range(24):
        id = next(str(number) for number in range(1000) if partition_of(str(number), 24) == partition)
        desk.runtime.send_text(f"sum/{id}", 1)
    desk.run()
    assert len(kind.activations) == 24
    theirs = [partition for partition in range(24) if choose(":sum", partition, [HOST, PEER]) == PEER]
    assert len(theirs) > 9
    desk.deliver(encode({"kinds": {":sum": 24}}), token=desk.runtime._beat_token)
    given: list[int] = []
    for count in (4, 4):
        desk.tick()
        changes = asked(desk)
        assert len(changes) == count
        for question, key, before, after in changes:
            partition = int(key.rpartition("/")[2])
            given.append(partition)
            assert (before, after) == (record(3), record(4, PEER, 1))
            assert not kind.serves(partition)
            desk.answer(question, Committed(2))
    assert given == theirs[:8]
    assert len(kind.activations) == 16
    assert not any(kind.activations[id].partition in given for id in kind.activations)
    assert all(kind.serves(partition) for partition in range(24) if partition not in theirs)
    kind.ownership.leave()
    assert not any(kind.serves(partition) for partition in range(24))
    desk.tick()
    assert len(asked(desk)) == 16
    assert kind.activations == {}


def test_a_partition_is_kept_if_the_other_host_goes_before_it_was_handed_over() -> None:
    desk, shelf = Desk(), Shelf()
    kind = owned(desk, shelf, 1)
    kind.kind = kind.ownership.kind = next(f":k{n}" for n in range(99) if choose(f":k{n}", 0, [HOST, PEER]) == PEER)
    desk.runtime.kinds = {kind.kind: kind}
    desk.held = []  # the store takes its time to put the receiver away
    desk.runtime.send(Address(kind.kind, "x"), {"keep": 1})
    desk.run()
    desk.deliver(encode({"kinds": {kind.kind: 1}}), token=desk.runtime._beat_token)
    desk.tick()
    assert (kind.serves(0), asked(desk)) == (False, [])  # its receiver still loads
    desk.runtime._lose(PEER)
    while desk.held:
        desk.held.pop()(None, None)
        desk.run()
    desk.tick()
    assert (kind.serves(0), asked(desk)) == (True, [])


def test_a_lost_partition_hands_back_what_waits_and_writes_nothing_more() -> None:
    desk, shelf = Desk(), Shelf()
    kind = owned(desk, shelf, 1)
    entry: Any = SimpleNamespace(seq=1, id="theirs", body=b"5", is_json=True, within=0.0, path=())
    desk.deliver(encode_batch(4, ":sum", 0, 1, [entry]))
    desk.runtime.send_text("sum/mine", 1)
    desk.runtime.send_text("sum/mine", 2)
    assert (desk.runtime.outbox.count, len(kind.activations)) == (0, 2)
    desk.orders(object)
    changed(kind, 0, record(4, PEER, 1))
    assert (kind.activations, kind.serves(0)) == ({}, False)
    assert desk.runtime.outbox.count == 2
    shelf.calls.clear()
    desk.run()
    publications = [one for one in desk.orders(Publication) if one.topic.endswith(PEER)]
    reports = [decode_report(*decoded(payload)) for one in publications for payload in one.payloads]
    assert [(number, result.seq, result.status) for report in reports for number, result in report.results] == [
        (4, 1, AGAIN)
    ]
    assert (desk.got, shelf.calls) == ([], [])


def test_a_host_with_another_number_hosts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    kind = desk.host(Shelf())
    _, (question, _) = asked(desk)
    desk.answer(question, partitions=3)
    assert asked(desk) == []
    desk.run()
    expected = (
        "partitions=2 for receivers of kind 'sum': other hosts have 3, and all need the same; to change it, end all "
        "hosts and delete the key 'receivers/%3Asum/partitions' of the model 'plant'"
    )
    assert [one.getMessage() for one in caplog.records] == [expected]
    assert str(kind.refusal) == expected
    assert kind.ownership.is_leaving
    desk.tick()
    assert asked(desk) == []


def test_a_kind_that_closes_ends_its_watch_and_closes_its_store() -> None:
    for is_closed in (False, True):
        desk, shelf = Desk(), Shelf()
        kind = owned(desk, shelf)
        shelf.calls.clear()
        desk.runtime.is_closed = is_closed
        kind.close()
        assert [type(one.question) for one in desk.questions()] == [] if is_closed else [Unwatch]
        assert shelf.calls == [("close",)]


def test_the_number_of_a_record_is_short_and_decimal() -> None:
    keys = {"a/owner/0": 0, "99999": 99999, "a/owner/100000": None, "a/owner/": None, "a/-1": None, "a/\u0661": None}
    assert {key: _number(key) for key in keys} == keys
