"""The parts of a group on their own: watches, waiting reads, the disk, and what arrives from other replicas."""

from __future__ import annotations

import gc
import logging
import weakref
from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from glue.contract import Delivery
from glue.errors import StorageError, StorageFullError
from glue.model import incoming, reading
from glue.model.consensus.messages import Append, Forward
from glue.model.consensus.wire import encode
from glue.model.disk import Disk
from glue.model.incoming import is_state, messages_of
from glue.model.names import Names, id_of
from glue.model.reading import Reads
from glue.model.state import Change, Command, Delete, Operation, Pattern, Set, State, decode_entry, encode_command
from glue.model.state.commands import encode_entry
from glue.model.watches import Watches, difference

# ------------------------------------------------------------------------------------------------------- watches


def changes(*keys: str, index: int = 5, live: bool = True) -> list[Change]:
    return [Change(key, b"1", index, live) for key in keys]


def told(delivery: Delivery) -> tuple[Any, ...]:
    return (delivery.topic, [change.key for change in delivery.payloads], delivery.sequence, [*delivery.tokens])


def test_each_watch_is_told_what_matches_under_numbers_of_its_own() -> None:
    watches = Watches("plant", "a" * 16, 7)
    (first,) = watches.add("all", Pattern("#"), changes("a", "b/c"))
    assert told(first) == ("a", ["a", "b/c"], 1, ["all"])
    assert [change.live for change in first.payloads] == [False, False]
    origin = (first.publisher, first.publisher_id, first.incarnation)
    assert (origin, first.published_at, first.retained) == (("plant", "a" * 16, 7), 0.0, False)
    assert watches.add("b", Pattern("b/#"), []) == []
    found = watches.tell(changes("a", "b/d", "b/e"))
    assert [told(one) for one in found] == [("a", ["a", "b/d", "b/e"], 3, ["all"]), ("b/d", ["b/d", "b/e"], 1, ["b"])]
    assert [change.live for change in found[1].payloads] == [True, True]
    assert [told(one) for one in watches.tell(changes("b/f"))] == [
        ("b/f", ["b/f"], 6, ["all"]),
        ("b/f", ["b/f"], 3, ["b"]),
    ]
    assert watches.tell([]) == []
    watches.remove("all")
    watches.remove("nobody")
    assert len(watches) == 1
    assert [told(one) for one in watches.tell(changes("a", "b/g"))] == [("b/g", ["b/g"], 4, ["b"])]
    assert Watches("plant", "a" * 16).add("x", Pattern("#"), changes("a"))[0].incarnation == 0


def test_nothing_is_kept_of_a_watch_that_has_ended() -> None:
    class Token:
        """Something that can be let go."""

    watches, token = Watches("plant", "a" * 16), Token()
    watches.add(token, Pattern("#"), changes("a"))
    gone = weakref.ref(token)
    watches.remove(token)
    del token
    gc.collect()
    assert gone() is None


def state(*entries: Operation) -> State:
    """A state whose entries, from index 1 on, have one operation each."""
    made = State()
    for index, operation in enumerate(entries, 1):
        made.apply(index, encode_entry(0, [encode_command(Command(0, 0, 0, [operation]))]))
    return made


def test_the_difference_of_two_states_is_told_in_the_order_of_its_making() -> None:
    before = state(Set("kept", 1), Set("changed", 1), Set("gone", 1))
    after = state(
        Set("kept", 1), Set("changed", 1), Set("gone", 1), Set("new", 4), Set("changed", 5), Delete("gone"), Set("z", 7)
    )  # fmt: skip
    found = difference(before, after)
    assert [(one.key, one.value, one.index, one.live) for one in found] == [
        ("new", 4, 4, False),
        ("changed", 5, 5, False),
        ("z", 7, 7, False),
        ("gone", None, 7, False),
    ]
    assert difference(after, after) == []
    assert [(one.key, one.index) for one in difference(State(), state(Set("first", 1)))] == [("first", 1)]


# --------------------------------------------------------------------------------------------------------- reads


def reads(*deadlines: float) -> Any:
    made: Any = Reads()
    for number, deadline in enumerate(deadlines):
        made.add(deadline, number, Pattern("#"))
    return made


def test_a_read_is_asked_for_at_once_and_again_when_it_is_time() -> None:
    waiting = reads()
    assert (len(waiting), waiting.deadline, waiting.are_due(100.0)) == (0, inf, False)
    waiting = reads(110.0, 105.0)
    assert (len(waiting), waiting.deadline, waiting.are_due(0.0)) == (2, -inf, True)
    waiting.asked(7)
    assert (len(waiting), waiting.deadline, waiting.are_due(100.0)) == (2, 105.0, False)
    assert waiting.take(8) is None
    taken = waiting.take(7)
    assert [token for _, token, _ in taken] == [0, 1]
    assert (len(waiting), waiting.take(7)) == (0, None)
    waiting.again(taken, 101.0)
    assert (waiting.deadline, waiting.are_due(100.99), waiting.are_due(101.0)) == (101.0, False, True)
    waiting.add(120.0, 2, Pattern("#"))
    assert waiting.are_due(100.0)  # a new one does not wait for those before
    waiting.asked(8)
    waiting.add(120.0, 3, Pattern("#"))
    waiting.asked(9)
    waiting.again(waiting.take(9), 102.0)
    waiting.repeat()  # a new leader
    assert (waiting.are_due(100.0), len(waiting), waiting.take(8)) == (True, 4, None)
    waiting.asked(10)
    assert sorted(token for _, token, _ in waiting.take(10)) == [0, 1, 2, 3]


def test_reads_end_at_their_deadline_wherever_they_wait() -> None:
    waiting = reads(101.0, 102.0)
    waiting.asked(7)
    waiting.add(101.0, 2, Pattern("#"))
    waiting.add(103.0, 3, Pattern("#"))
    assert waiting.expired(100.99) == []
    assert sorted(waiting.expired(101.0)) == [0, 2]
    assert (waiting.expired(101.0), len(waiting)) == ([], 2)
    assert [token for _, token, _ in waiting.take(7)] == [1]
    assert waiting.end() == [3]
    assert (len(waiting), waiting.end(), waiting.deadline) == (0, [], inf)
    assert reading.READS == 65_536


# ---------------------------------------------------------------------------------------------------------- disk


class Store:
    """A storage that fails when it is told to, and notes what it does."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.did: list[str] = []

    def write(self, write: Any) -> None:
        self._do(f"write {write.number}")

    def sync(self) -> None:
        self._do("sync")

    def close(self) -> None:
        self._do("close")

    def _do(self, what: str) -> None:
        if self.error is not None:
            raise self.error
        self.did.append(what)


class Numbered:
    """A write that has nothing but its number."""

    def __init__(self, number: int) -> None:
        self.number = number


def disk(*numbers: int) -> tuple[Any, Store, Counter[str]]:
    store, statistics = Store(), Counter[str]()
    made: Any = Disk("plant", store, statistics)  # type: ignore[arg-type]
    made.unwritten += map(Numbered, numbers)
    return made, store, statistics


def test_writes_are_made_durable_together_and_in_order() -> None:
    made, store, statistics = disk(4, 5)
    assert (made.failure, made.is_over, made.deadline) == ("", False, inf)
    assert made.flush() == 5
    assert store.did == ["write 4", "write 5", "sync"]
    assert (made.unwritten, made.flush()) == ([], 0)
    made.close()
    assert store.did[3:] == ["sync", "close"]
    assert statistics == {}


def test_a_full_disk_is_tried_each_second_and_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    made, store, statistics = disk(4, 5)
    recovered: list[str] = []
    others: list[Callable[[], None]] = [lambda: recovered.append("other")]
    store.error = StorageFullError("no room")
    with caplog.at_level(logging.WARNING, "glue"):
        made.fail(100.0, store.error)
        assert (made.failure, made.is_over, made.deadline) == ("the storage failed: no room", False, 101.0)
        assert (made.retry(100.99, others), recovered, made.deadline) == (None, [], 101.0)
        assert (made.retry(101.0, others), recovered, made.deadline) == (None, ["other"], 102.0)
        assert statistics == {"times that the disk was full": 1}
        store.error = None
        assert made.retry(102.0, others) == 5
    assert (recovered, store.did, made.failure) == (["other", "other"], ["write 4", "write 5", "sync"], "")
    assert caplog.messages == [
        "model 'plant': the storage failed: no room",
        "model 'plant': there is room on the disk again, so this replica goes on",
    ]
    made.fail(200.0, StorageFullError("no room again"))
    assert statistics == {"times that the disk was full": 2}
    assert made.retry(201.0, []) == 0  # nothing was left to write, and there is room


def test_after_any_other_error_the_disk_is_never_tried_again() -> None:
    made, store, statistics = disk(4)
    made.fail(100.0, StorageFullError("no room"))
    store.error = StorageError("broken")
    assert made.retry(101.0, []) is None
    assert (made.failure, made.is_over, made.deadline) == ("the storage failed: broken", True, inf)
    assert statistics == {"times that the disk was full": 1, "storage failures": 1}
    store.error = None
    assert made.retry(1e9, []) is None
    assert (store.did, len(made.unwritten)) == ([], 1)


# ------------------------------------------------------------------------------------------------------ messages


def delivery(*payloads: Any, sender: str = "b" * 16) -> Delivery:
    return Delivery("$glue/model/plant/all", payloads, None, "other", sender, 1, 1, 0.0, False, ())


HEARTBEAT = Append("group", "life", 3, 1, 1, 1, 1, ())


def test_what_is_no_message_is_counted_and_the_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert incoming.MESSAGES == 16_384
    names, statistics = Names(), Counter[str]()
    other = Names()
    other.learn(id_of("pump"), "pump")
    data = encode(HEARTBEAT)
    arrived = [delivery({"a": 1}, data, b"junk", b"[]"), delivery(other.told([id_of("pump")]), data, sender="c" * 16)]
    assert messages_of(arrived, names, statistics) == [("b" * 16, HEARTBEAT), ("c" * 16, HEARTBEAT)]
    assert statistics == {"messages dropped: not bytes, or too many": 1, "malformed messages of consensus": 2}
    assert names.of(id_of("pump")) == "pump"
    monkeypatch.setattr(incoming, "MESSAGES", 2)
    statistics.clear()
    assert len(messages_of([delivery(data, data, data, data)], names, statistics)) == 2
    assert statistics == {"messages dropped: not bytes, or too many": 2}


def test_only_the_leader_stamps_the_log() -> None:
    statistics = Counter[str]()
    command = encode_command(Command(0, 0, 0, [Set("a,b", 1)]))
    plain, stamped = encode_entry(0, [command]), encode_entry(123_456, [command])
    honest = Forward("group", "life", 3, (1, 2), (plain, None))
    assert messages_of([delivery(encode(honest))], Names(), statistics) == [("b" * 16, honest)]
    assert statistics == {}
    forged = Forward("group", "life", 3, (1, 2, 3), (plain, None, stamped))
    ((_, message),) = messages_of([delivery(encode(forged))], Names(), statistics)
    assert message == Forward("group", "life", 3, (1, 2, 3), (plain, None, plain))
    assert decode_entry(plain)[0] == 0
    assert statistics == {"times stamped by others than the leader": 1}


def test_a_state_is_told_from_other_bytes() -> None:
    assert is_state(state(Set("a", 1)).snapshot())
    assert not is_state(b"junk")
