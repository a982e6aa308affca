"""Receivers: every limit of what travels, waits and is remembered, at its value and one beyond."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

import glue
from glue.contract.heads import MalformedError, integer
from glue.endpoint.receiver_results import result_of
from glue.receivers.activation import _is_small, settle
from glue.receivers.address import PARTITIONS, PARTITIONS_MOST, choose, kind_key, parse, partition_of
from glue.receivers.context import Call, Mail, Receiver, check_seconds, factory_of
from glue.receivers.inbox import Inbox
from glue.receivers.outbox import Entry
from glue.receivers.ownership import Change, Owner, Ownership, owner_of
from glue.receivers.state import State
from glue.receivers.wire import (
    AGAIN,
    ANSWER,
    Report,
    Result,
    at_topic,
    decode,
    decode_batch,
    decode_report,
    encode,
    encode_batch,
    encode_report,
)
from tests.receivers.test_parts import A, B, Box, C
from tests.support.bounds import Limit, check_limit


def entry(seq: int = 1, id: str = "x", body: bytes = b"1", is_json: bool = True, within: float = 0.0) -> Entry:
    """A message."""
    return Entry(seq, id, body, is_json, 60.0, within, ("k/a",), None)


def batch(**more: Any) -> Any:
    """A batch with one message of bytes, and other members of its head."""
    head, body = decode(encode_batch(7, ":k", 3, 64, [entry(body=b"abc", is_json=False, within=2.0)]))
    return decode_batch({**head, **more}, body)


def many(count: int) -> Any:
    """A batch with so many messages."""
    return decode_batch(*decode(encode_batch(1, ":k", 0, 1, [entry(number + 1) for number in range(count)])))


def report(body: bytes = b"", **head: Any) -> Any:
    """A report."""
    return decode_report(head, body)


GREATEST = (1 << 53) - 1
LIMITS: list[Limit] = [
    ("integer", integer, [0, GREATEST], [-1, GREATEST + 1, True, 1.0, "1", None]),
    ("message", lambda seq: batch(seqs=[seq]), [1, GREATEST], [0, -1, GREATEST + 1]),
    ("list", lambda seqs: batch(seqs=seqs), [[1]], [[1.0], [True], "1", None, {}]),
    ("messages", lambda seqs: batch(seqs=seqs), [[1]], [[], [1, 2]]),
    ("message", lambda id: batch(ids=[id]), ["i" * 512], ["i" * 513, ""]),
    ("list", many, [1, 4096], [4097]),
    ("integer", lambda index: batch(bytes=[[index, 3]]), [0], [-1, 1]),
    ("integer", lambda size: batch(bytes=[[0, size]]), [3], [-1, 4]),
    ("sizes", lambda size: batch(bytes=[[0, size]]), [3], [0, 2]),
    ("rows", lambda width: batch(bytes=[[0, 3, 1][:width]]), [2], [0, 1, 3]),
    ("rows", lambda width: batch(asks=[[0, 3, [], 1][:width]]), [3], [2, 4]),
    ("integer", lambda index: batch(asks=[[index, 1, []]]), [0], [-1, 1]),
    ("integer", lambda within: batch(asks=[[0, within, []]]), [0, 10**9 - 1], [-1, 10**9]),
    ("list", lambda path: batch(asks=[[0, 1, path]]), [["a/b"], []], [[1], "a/b", None]),
    ("integer", lambda number: batch(batch=number), [0, GREATEST], [-1, None]),
    ("integer", lambda number: batch(partition=number), [0, GREATEST], [-1, None]),
    ("integer", lambda number: batch(partitions=number), [0, GREATEST], [-1, None]),
    ("status", lambda status: report(results=[[1, 1, status, 0, 0]]), [1, 2, 3], [0, 4]),
    ("integer", lambda size: report(b"abc", results=[[1, 1, 1, size, 0]]), [3], [-1, 4]),
    ("sizes", lambda size: report(b"abc", results=[[1, 1, 1, size, 0]]), [3], [0, 2]),
    ("rows", lambda width: report(results=[[1, 1, 1, 0, 0, 0][:width]]), [5], [4, 6]),
    ("done", lambda width: report(done=[[1, [1], 1][:width]]), [1, 2], [0, 3]),
    ("list", lambda seqs: report(done=[[1, seqs]]), [[1], []], [1, ["1"], None]),
    ("rows", lambda width: report(moved=[[1, "h", 1][:width]]), [2], [1, 3]),
    ("list", lambda count: report(taken=[1] * count), [0, 4096], [4097]),
    ("integer", lambda number: report(taken=[number]), [0], [-1, GREATEST + 1]),
    ("no line feed", decode, [b"{}\n"], [b"", b"{}"]),
    ("a JSON document", decode, [], ["{}\n", None]),
    ("no line feed", lambda size: decode(bytes(size) + b"\n"), [], [16 << 20]),
    ("not JSON", lambda size: decode(bytes(size) + b"\n"), [], [0, 1, (16 << 20) - 1]),
    ("no object", decode, [], [b"[]\n"]),
]


@pytest.mark.parametrize("limit", LIMITS)
def test_what_keeps_the_limits_is_taken_and_what_is_beyond_is_malformed(limit: Limit) -> None:
    check_limit(limit, MalformedError)


def test_batches_and_reports_as_they_travel() -> None:
    messages = [entry(1, "x", b"abc", False, 2.0), entry(2, "y", b"[1]"), entry(3, "z", b"", False)]
    payload = encode_batch(7, ":k", 3, 64, messages)
    assert payload == (
        b'{"batch":7,"kind":":k","partition":3,"partitions":64,"seqs":[1,2,3],"ids":["x","y","z"],'
        b'"asks":[[0,2000,["k/a"]]],"bytes":[[0,3],[2,0]]}\n[null,[1],null]\nabc'
    )
    found = decode_batch(*decode(payload))
    assert (found.payloads, found.asks) == ([b"abc", [1], b""], {0: (2.0, ("k/a",))})
    assert orjson.loads(encode_batch(1, "k", 0, 1, [entry(within=1e-9)]).partition(b"\n")[0])["asks"][0][1] == 1
    assert encode_report(Report()) == b"{}\n"
    told = Report(
        [1], [(2, "h")], [(3, None), (4, [5])], [(6, Result(7, ANSWER, b"ab", True)), (8, Result(9, 2, b"c"))]
    )
    assert encode_report(told) == (
        b'{"taken":[1],"moved":[[2,"h"]],"done":[[3],[4,[5]]],"results":[[6,7,1,2,1],[8,9,2,1,0]]}\nabc'
    )
    assert decode_report(*decode(encode_report(told))) == told
    assert encode({"status": 1}, b"x") == b'{"status":1}\nx'
    assert at_topic("e") == "$glue/receivers/at/e"


def test_addresses_have_512_characters_and_kinds_64_partitions_unless_told_otherwise() -> None:
    parse("k/" + "i" * 510)
    with pytest.raises(glue.ConfigurationError):
        parse("k/" + "i" * 511)
    for text in ("k/a\0", "k\0/a", "s$:k/a", "s+:k/a", "k#/a", "k$/a", "s/k:a"):
        if text != "s/k:a":
            with pytest.raises(glue.ConfigurationError):
                parse(text)
    with pytest.raises(glue.ConfigurationError, match="expected a text"):
        parse(7)  # type: ignore[arg-type]
    assert (PARTITIONS, PARTITIONS_MOST) == (64, 4096)
    assert (parse("s:k/a", "t").kind, parse("k/a", "t").kind, parse(":k/a", "t").kind) == ("s:k", "t:k", ":k")
    assert kind_key("k", "s") == "s:k"
    assert [partition_of(id, 64) for id in ("a", "b", "kitchen/2", "ü")] == [3, 57, 49, 21]
    assert [choose(":k", partition, [A, B, C])[0] for partition in range(12)] == [*"abcabcbaacba"]


def test_a_batch_has_4096_messages_or_a_quarter_of_a_megabyte() -> None:
    box = Box()
    box.hosts(A)
    for _ in range(4097):
        box.put(b"")
    assert [len(bodies) for _, _, bodies in box.flush(0.0)] == [4096]
    box.report(0.0, A, taken=[1])
    assert [len(bodies) for _, _, bodies in box.flush(0.0)] == [1]
    for body, count in (
        (bytes((128 << 10) - 21), 2),
        (bytes((128 << 10) - 22), 3),
    ):  # with an id of a byte, and 20 more
        box = Box()
        box.hosts(A)
        for _ in range(4):
            box.put(body)
        assert [len(bodies) for _, _, bodies in box.flush(0.0)] == [count]


@pytest.mark.parametrize(("spare", "count"), [(0, 2), (1, 3)])
def test_a_batch_takes_messages_as_long_as_it_has_less_than_a_quarter_of_a_megabyte(spare: int, count: int) -> None:
    box = Box()
    box.hosts(A)
    for size in ((128 << 10) - 21, (128 << 10) - 21 - spare, 1, 1):
        box.put(bytes(size))
    assert [len(bodies) for _, _, bodies in box.flush(0.0)] == [count]


def test_a_message_carries_the_seconds_that_are_left_and_none_if_it_has_no_limit() -> None:
    for within, now, left in ((1.0, 10.0, 50.0), (1.0, 59.9995, 0.001), (1.0, 99.0, 0.001), (0.0, 10.0, 0.0)):
        box = Box()
        assert not box.box.put("other", "x", b"1", False, 60.0, within, (), None), "it has no host"
        box.hosts(A)
        assert box.box.put(":k", "x", b"1", False, 60.0, within, (), None), "there is something to send"
        ((_, batch),) = box.box.flush(now)
        assert [entry.within for entry in batch.entries.values()] == [left]


def test_a_partition_is_busy_while_a_message_waits_is_under_way_or_came_back() -> None:
    box = Box()
    box.hosts(A, partitions=1)
    busy = [box.box.is_busy(":k", 0)]
    box.put(b"1")
    busy.append(box.box.is_busy(":k", 0))
    box.flush(0.0)
    busy.append(box.box.is_busy(":k", 0))
    box.report(0.0, A, taken=[1], results=[(1, Result(1, AGAIN))])
    busy.append(box.box.is_busy(":k", 0))
    ((_, number, bodies),) = box.flush(1.0)
    assert bodies == [b"1"]
    box.report(1.0, A, taken=[number], done=[(number, None)])
    busy.append(box.box.is_busy(":k", 0))
    assert busy == [False, True, True, True, False]


def test_a_refused_route_waits_longer_each_time_and_a_tenth_of_a_second_at_most() -> None:
    box, now, pauses = Box(), 5.0, []
    box.hosts(A)
    box.put(b"1")
    for number in range(1, 7):
        assert [one[1] for one in box.flush(now)] == [number]
        box.report(now, A, moved=[(number, "")])
        pauses.append(round(box.box.due - now, 6))
        assert box.flush(box.box.due - 0.001) == []
        now = box.box.due
    assert pauses == [0.02, 0.04, 0.08, 0.1, 0.1, 0.1]
    assert box.statistics == {"batches to a host that is no owner": 6, "messages to receivers sent again": 6}
    box.flush(now)
    box.report(now, A, taken=[7])
    box.put(b"2")
    box.flush(now)
    box.report(now, A, moved=[(8, A)])
    box.report(now, A, done=[(7, None)])
    assert box.box.due == now + 0.02, "it was taken in between"


def test_without_an_answer_a_batch_is_sent_again_after_two_seconds_and_half_a_minute_at_most() -> None:
    box, now, pauses = Box(), 0.0, []
    box.hosts(A)
    box.put(b"1", until=1e9)
    for number in range(1, 7):
        assert [one[1] for one in box.flush(now)] == [number]
        begun = now
        while not box.box._dirty:
            now += 0.5
            box.box.expire(now)
        pauses.append(now - begun)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    box.flush(now)
    box.report(now, A, taken=[7], done=[(7, [99])])
    box.box.expire(now + 1.9)
    assert not box.box._dirty
    box.box.expire(now + 2.0)
    assert box.box._dirty, "after an answer it is two seconds again"
    box.flush(now + 2.0)
    box.box.expire(now + 5.9)
    assert not box.box._dirty
    box.box.expire(now + 6.0)
    assert box.box._dirty, "and then four"


def test_messages_are_counted_until_each_has_its_result() -> None:
    box = Box()
    box.put(b"1")
    assert box.box.count == 1
    assert box.box.is_busy(":k", 0)
    box.hosts(A)
    box.put(b"2")
    assert box.box.count == 2
    box.flush(0.0)
    for number, host in ((2, A), (1, B)):
        box.report(0.0, host, done=[(number, None)])
        box.report(0.0, host, moved=[(number, "")])
        box.report(0.0, host, taken=[number])
    assert box.statistics == {"answers to unknown batches": 4}
    box.report(0.0, A, taken=[1], results=[(1, Result(1, ANSWER, b"r"))])
    assert box.box.count == 1
    box.report(0.0, A, done=[(1, [1, 2, 2])])
    assert (box.box.count, box.box.is_busy(":k", 0)) == (0, False)
    assert [body for body, _ in box.settled] == [b"1", b"2"]
    assert [result.status for _, result in box.settled] == [1, 0]


def test_an_inbox_takes_200000_messages_and_tells_a_quarter_of_a_megabyte_at_once() -> None:
    inbox = Inbox(A, f"{A}/1", result_of, lambda: None)
    full = []
    for number, total in ((1, 199_999), (2, 1)):
        inbox.open((":k", 0), number, total)
        full.append(inbox.is_full)
    assert full == [False, True]
    for sizes, parts in (([128 << 10] * 3, [2, 1]), ([(128 << 10) + 1, 128 << 10], [1, 1]), ([300 << 10, 1], [1, 1])):
        inbox = Inbox(A, f"{A}/1", result_of, lambda: None)
        first = inbox.open((":k", 0), 1, len(sizes))
        for seq, size in enumerate(sizes, 1):
            settle(Call(None, batch=first, seq=seq), None, bytes(size))
        found = []
        while inbox.has_more:
            told = inbox.report()
            assert told is not None
            found.append(len(told.results))
        assert found == parts
        assert (inbox.is_empty, inbox._waiting) == (True, 0)
        assert inbox.report() is None


def test_a_report_has_4096_entries_of_a_kind() -> None:
    inbox = Inbox(A, f"{A}/1", result_of, lambda: None)
    for number in range(1, 4098):
        first = inbox.open((":k", 0), number, 1)
        settle(Call(None, batch=first, seq=number), None, None)
    inbox.moved += [(number, "h") for number in range(4097)]
    first_told, second = inbox.report(), inbox.report()
    assert first_told is not None
    assert second is not None
    assert [len(one) for one in (first_told.taken, first_told.moved, first_told.results)] == [4096] * 3
    assert [len(one) for one in (second.taken, second.moved, second.results)] == [1] * 3
    assert inbox.report() is None


def test_a_reminder_names_each_unfinished_batch_once() -> None:
    inbox = Inbox(A, f"{A}/1", result_of, lambda: None)
    first = inbox.open((":k", 0), 1, 1)
    inbox.report()
    inbox.open((":k", 1), 2, 1)
    inbox.remind()
    inbox.remind()
    assert inbox.report() == Report([2, 1], [], [], [])
    settle(Mail(None, first, 1), None, None)
    inbox.report()
    inbox.remind()
    assert inbox.report() == Report([2], [], [], [])


def test_a_partition_is_changed_by_one_at_a_time() -> None:
    mine = Ownership("k", 8, A, 1)
    mine.is_known = True
    assert mine.ask(3)
    assert not mine.ask(3)
    assert [claim.partition for claim in mine.claims()] == [0, 1, 2, 4, 5, 6, 7]
    mine.answered(3)
    (claim,) = mine.claims()
    assert claim == Change(3, None, Owner(A, 1, 1))
    for partition in range(8):
        mine.answered(partition)
        mine.note(partition, Owner(A, 1, 1).record)
    assert (mine.claims(), mine.surplus()) == ([], [])
    assert sorted(mine.all_owned) == [*range(8)]
    mine.set_hosts({B: 5})
    wanted = [partition for partition in range(8) if choose("k", partition, [A, B]) == B]
    assert mine.surplus() == wanted
    assert mine.ask(wanted[0])
    assert mine.surplus() == wanted[1:]
    assert mine.hand_over(wanted[0]) is None
    assert mine.hand_over(wanted[1]) == Change(wanted[1], Owner(A, 1, 1), Owner(B, 5, 2))
    assert mine.hand_over(next(one for one in range(8) if one not in wanted)) is None
    mine.leave()
    assert (mine.is_leaving, mine.claims()) == (True, [])
    assert mine.surplus() == [one for one in range(8) if one not in wanted[:2]]
    alone = Ownership("k", 1, A, 1)
    alone.leave()
    assert alone.wanted(0) == ""


@pytest.mark.parametrize(
    "record",
    [None, 7, {}, {"host": 1, "life": 1, "epoch": 1}, {"host": A, "life": "1", "epoch": 1}, {"host": A, "life": 1}],
)
def test_what_is_no_record_of_an_owner_is_none(record: Any) -> None:
    assert owner_of(record) is None
    assert owner_of(Owner(A, 1, 2).record) == (A, 1, 2)


def test_answers_below_a_thousand_characters_are_remembered() -> None:
    assert [_is_small(answer) for answer in ("x" * 997, "x" * 998, b"", None, True, 5, 1.5)] == [
        True, False, False, True, True, True, True,
    ]  # fmt: skip


def test_seconds_of_timers_and_attributes_of_receivers_are_checked() -> None:
    assert [check_seconds(seconds) for seconds in (0, 1.5, 999_999_999)] == [0, 1.5, 999_999_999]
    for wrong in (-0.1, 1e9, True, "1", None):
        with pytest.raises(glue.ConfigurationError, match="a timer after"):
            check_seconds(wrong)  # type: ignore[arg-type]
    assert (Receiver.idle, Receiver.on_error, Receiver.messages) == (300.0, "drop", ())

    class Good:
        idle, on_error = 0, "park"

        def receive(self, context: Any, message: Any) -> None: ...

    assert factory_of(Good) is Good
    for changes, text in (
        ({"idle": -1}, "idle = -1"),
        ({"on_error": "no"}, "on_error = 'no'"),
        ({"receive": 1}, "no method"),
    ):
        with pytest.raises(glue.ConfigurationError, match=text):
            factory_of(type("Bad", (Good,), changes))
    with pytest.raises(glue.ConfigurationError, match="expected a class with receive"):
        factory_of(7)
    made = factory_of(lambda context, message: message)
    assert made() is made()


def test_a_state_knows_whether_it_changed() -> None:
    state = State({"a": 1})
    state.delete("x")
    assert (state.is_changed, state.get("a"), state.get("x", 5), state["a"]) == (False, 1, 5, 1)
    state.delete("a")
    assert (state.is_changed, state.is_empty) == (True, True)
    state = State()
    value = [1]
    state.set("k", value)
    value.append(2)
    assert (state.is_changed, state.all()) == (True, {"k": [1]})
    for key, wrong in ((7, 1), ("k", {1})):
        with pytest.raises(glue.PayloadError):
            state.set(key, wrong)  # type: ignore[arg-type]
