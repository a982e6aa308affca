"""What the doors of a cluster write: batches, patches of sessions, what a replica makes of them, and what is swept."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import orjson
import pytest

from glue.gateway.mqtt.cluster import shared as limits
from glue.gateway.mqtt.cluster.keys import Entry, Progress, check_will, entry_value, mark, offset_of, read_progress
from glue.gateway.mqtt.cluster.replica import Committed, Kept, Moved, Replica
from glue.gateway.mqtt.cluster.shared import Shared
from glue.gateway.mqtt.cluster.units import UNIT_SIZE, SessionUnit, Unit, claim, forget, guarded
from glue.gateway.mqtt.packets import Publish
from glue.model.state import ABSENT, Change, Delete, Expect, Operation, Set, Update

OWNER = ("s", "door", 5)
HASH = mark("s")


def test_events_of_a_session_become_one_patch_of_each_key() -> None:
    unit = SessionUnit(HASH, OWNER)
    assert (unit.guards, unit.operations, unit.size) == ([Expect(f"o/{HASH}", ["s", "door", 5])], [], 0)
    events: list[tuple[Any, ...]] = [
        ("open", 60.0, 7), ("sub", "a/b", 2, 9), ("sub", "c", 1, 9), ("unsub", "c"), ("next", 10), ("next", 8),
        ("sent", 12, [(1, 100, 2, 5), (9, 200, 1, 1)]), ("ack", [(1, 1), (7, 2)]), ("rec", 2), ("rec", 3), ("comp", 3),
        ("in", [4, 5]), ("rel", 4),
    ]  # fmt: skip
    for name, *more in events:
        unit.note(name, more)
    unit.add(Set("w/x", "1"))
    assert unit.operations == [
        Update(f"a/{HASH}", {"expiry": 60.0, "away": None}),
        Update(f"f/{HASH}", {"a/b": [2, 9], "c": None}),
        Update(f"p/{HASH}", {
            "next": 12, "sent": {"1": None, "2": None, "9": [200, 1], "7": None, "8": None, "3": None},
            "rel": {"2": 1, "3": None}, "in": {"4": None, "5": 1},
        }),
        Set("w/x", "1"),
    ]  # fmt: skip
    assert unit.size == 13 * 48 + 5 + 3 + 3 + 3 * 24 + 3 * 12 + (3 + 3 + 8)
    assert (Unit([], [Delete("k")]).size, Unit([], [Update("k", {"a": 1})]).size) == (64, 1 + 7 + 8)


def test_a_session_is_claimed_changed_and_forgotten_under_guards() -> None:
    assert claim("h", None, OWNER, None).guards == [Expect("o/h", ABSENT), Expect("w/h", ABSENT)]
    found = claim("h", ("s", "", 4), OWNER, {"will": 1})
    assert found.guards == [Expect("o/h", ["s", "", 4]), Expect("w/h", {"will": 1})]
    assert found.operations == [Set("o/h", ["s", "door", 5])]
    assert guarded("h", OWNER, None).guards == [Expect("o/h", ["s", "door", 5]), Expect("w/h", ABSENT)]
    assert forget("h") == [Delete(f"{kind}/h") for kind in "oafpw"]


# ------------------------------------------------------------------------------------------------- batches


def made(is_ready: bool = True) -> Shared:
    """The store of the third door at Unix time 1,000."""
    found = Shared("life", lambda: 1_000.0)
    found.door, found.is_ready = 3, is_ready
    return found


def unit(told: list[str], name: str, size: int = 0, count: int = 1) -> Unit:
    """A unit that tells what becomes of it."""
    found = Unit([], [Set(f"x/{name}", "v" * size)] * count)
    found.committed = lambda now: told.append(f"{name} committed at {now:g}")
    found.refused = lambda now: told.append(f"{name} refused at {now:g}")
    return found


def keys(operations: list[Operation] | None) -> list[str]:
    return [one.key for one in operations or () if isinstance(one, Set | Delete | Update)]


def test_a_batch_has_a_name_and_tells_what_became_of_it() -> None:
    store, told = made(), list[str]()
    assert (store.begin(), store.is_pending) == (None, False)
    for name in "ab":
        store.propose(unit(told, name))
    store.then(lambda now: told.append(f"then at {now:g}"))
    assert (store.noted, store.is_urgent, store.is_pending) == (2, True, True)
    before = store.size
    assert before == sum(one.size for one in store._units) > 0
    store.is_ready = False
    assert store.begin() is None
    store.is_ready = True
    assert keys(store.begin()) == ["x/a", "x/b", "b/3"]
    assert (store.size, store.is_urgent, store.is_pending, store.batch is not None) == (0, False, True, True)
    assert store.begin() is None, "one at a time"
    store.then(lambda now: told.append(f"also at {now:g}"))
    for door, number in ((2, 1), (3, 2)):
        store.committed(5.0, door, number)
    assert told == []
    store.committed(5.0, 3, 1)
    assert told == ["a committed at 5", "b committed at 5", "then at 5", "also at 5"]
    assert (store.batch, store.is_pending) == (None, False)
    store.committed(6.0, 3, 1)
    assert len(told) == 4
    store.then(lambda now: told.append("empty"))
    assert keys(store.begin()) == ["b/3"], "something has to be committed"
    assert store.batch is not None
    assert store.batch.number == 2
    store.committed(7.0, 3, 2)
    assert told[4:] == ["empty"]
    store.replica.batches[3] = 9
    store.propose(unit(told, "c"))
    store.begin()
    assert store.batch.number == 10, "another life of the door has used these numbers"


def test_a_refused_batch_is_proposed_again_unit_by_unit() -> None:
    store, told = made(), list[str]()
    for name in "abc":
        store.propose(unit(told, name))
    store.then(lambda now: told.append(f"then at {now:g}"))
    store.begin()
    store.propose(unit(told, "later"))
    assert store.refused(1.0)
    assert told == []
    assert keys(store.begin()) == ["x/a", "b/3"]
    store.committed(2.0, 3, 2)
    assert keys(store.begin()) == ["x/b", "b/3"]
    assert not store.refused(3.0), "nothing was expected, so the model is full"
    assert told == ["a committed at 2", "b refused at 3"]
    assert keys(store.begin()) == ["x/c", "b/3"]
    store.committed(4.0, 3, 4)
    assert told[2:] == ["c committed at 4", "then at 4"]
    guard = unit(told, "guard")
    guard.guards.append(Expect("o/x", 1))
    assert keys(store.begin()) == ["x/later", "b/3"]
    store.propose(guard)
    store.committed(5.0, 3, 5)
    store.begin()
    assert store.refused(6.0)
    assert told[-1] == "guard refused at 6"
    assert store.refused(7.0), "there is no batch"


def test_a_batch_is_bounded_in_bytes_and_operations() -> None:
    assert (limits.BATCH_SIZE, limits.BATCH_OPERATIONS) == (512 << 10, 900)
    for size, count, number, expected in (
        ((256 << 10) - 13, 1, 3, 2), ((256 << 10) - 12, 1, 3, 1), (0, 300, 4, 3), (0, 301, 4, 2), (600 << 10, 1, 2, 1),
        (0, 1_000, 2, 1),
    ):  # fmt: skip
        store = made()
        for name in range(number):
            store.propose(unit([], str(name), size, count))
        store.is_urgent = True
        total = store.size
        found = keys(store.begin())
        assert len(found) == expected * count + 1, (size, count)
        assert store.size == total * (number - expected) // number
        assert store.is_urgent


def test_what_happens_to_a_session_while_its_last_change_is_under_way_comes_with_the_next_batch() -> None:
    store, told = made(), list[str]()
    store.claims["c"] = 7
    store.note("rec", "c", 1)
    store.propose(unit(told, "large", limits.BATCH_SIZE))
    first = store.begin()
    assert [one for one in keys(first) if one.startswith("p/")] == [f"p/{mark('c')}"]
    store.note("rec", "c", 2)
    store.committed(5.0, 3, 1)
    second = store.begin()
    assert store.batch is not None
    store.committed(6.0, 3, store.batch.number)
    found = [*(second or ()), *(store.begin() or ())]
    assert [one.patch for one in found if isinstance(one, Update)] == [{"sent": {"2": None}, "rel": {"2": 1}}]


def test_a_session_that_is_not_owned_is_not_noted() -> None:
    store = made()
    store.note("next", "s", 5)
    assert (store.unit_of("s"), store.noted, store.size, store.is_pending) == (None, 0, 0, False)
    store.claims["s"] = 5
    assert store.owner("s") == ("s", "life", 5)
    for name in ("away", "end"):
        store.note(name, "s", 5)
    first = store.unit_of("s")
    assert first is not None
    before = store.noted
    store.note("next", "s", 7)
    assert (store.unit_of("s"), store.noted, store.size) == (first, before + 1, 48)
    first.size = UNIT_SIZE
    assert store.unit_of("s") is first
    first.size = UNIT_SIZE + 1
    second = store.unit_of("s")
    assert second is not first
    store.claims["s"] = 6
    third = store.unit_of("s")
    assert third is not second
    lost: list[Any] = []
    store.lost = lambda now, owner: lost.append((now, owner))
    assert third is not None
    assert third.refused is not None
    third.refused(4.0)
    assert lost == [(4.0, ("s", "life", 6))]
    store.begin()
    assert store.unit_of("s") is not third, "what comes now is for the next batch"
    store.drop()
    assert (store.claims, store.batch, store.size, store.drops, store.is_pending, store.is_urgent) == (
        {}, None, 0, 1, False, False,
    )  # fmt: skip


def run(count: int, size: int = 1, qos: int = 1, retain: bool = False, topic: str = "t") -> Publish:
    return Publish(topic, [b"x" * size] * count, qos, retain)


def test_a_large_run_is_cut_in_half_until_it_fits_a_unit() -> None:
    store = made()
    store.offer(0.0, Entry(run(5, 60_000), "", "", (), True))
    values = [one.value for one in store.begin() or () if isinstance(one, Set) and one.key.startswith("m/")]
    assert [(value[0], len(value[2]), value[11]) for value in values] == [(0, 2, True), (2, 1, True), (3, 2, True)]
    assert store.is_urgent is False
    store = made()
    store.offer(0.0, Entry(run(1, 400_000)))
    assert len(store._units) == 1


def test_a_run_has_its_place_its_time_and_its_sender() -> None:
    store = made()
    store.claims["s"] = 5
    one = run(2, retain=True)
    one.expires = 70.0
    store.offer(10.0, Entry(one, "s"), [7, 8])
    store.offer(10.0, Entry(run(3, topic="u"), "s", "only"), [9])
    operations = store.begin()
    assert operations is not None
    payloads = [b64encode(b"x").decode()]
    assert [one for one in operations if isinstance(one, Set) and one.key.startswith("m/")] == [
        Set("m/3/life-1", [0, "t", payloads * 2, 1, True, {}, 1_060.0, 1_000.0, "s", "", [], False]),
        Set("m/3/life-2", [2, "u", payloads * 3, 1, False, {}, None, 1_000.0, "s", "only", [], False]),
    ]  # fmt: skip
    assert Update(f"p/{HASH}", {"in": {"7": 1, "8": 1}}) in operations
    assert keys(operations)[2] == f"r/{mark('t')}"
    entry = Entry(run(1))
    assert [store.is_own(entry)] == [False]
    for key, is_own in (("m/3/life-9", True), ("m/2/life-9", False), ("m/3/lif-9", False)):
        entry.key = key
        assert store.is_own(entry) == is_own


def test_places_begin_again_before_they_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLACES", 10)
    store, found = made(), list[int]()
    for count in (4, 6, 1, 9, 2):
        store.offer(0.0, Entry(run(count)))
        found += [one.value[0] for one in store.begin() or () if isinstance(one, Set) and one.key.startswith("m/")]
        assert store.batch is not None
        store.committed(0.0, 3, store.batch.number)
    assert found == [0, 4, 0, 1, 0]


def test_what_is_retained_is_limited_and_an_empty_message_clears_it() -> None:
    store = made()
    store.retained_limit = 1
    store.retain(0.0, run(1, retain=True, qos=0))
    assert keys(store.begin()) == [f"r/{mark('t')}", "b/3"]
    store.committed(0.0, 3, 1)
    store.replica.retained[mark("t")] = "t"
    store.retain(0.0, run(1, retain=True, topic="u"))
    assert not store.is_pending
    store.retain(0.0, run(1, 0, retain=True))
    assert (store.begin() or [])[0] == Delete(f"r/{mark('t')}")
    for size, total, is_full in (
        ((8 << 20), 0, False),
        ((8 << 20) + 1, 0, True),
        (0, 192 << 20, False),
        (0, (192 << 20) + 1, True),
    ):
        store.size, store.replica.bytes = size, total
        assert store.is_full == is_full


# ------------------------------------------------------------------------------------------------- replica


def value_of(count: int, place: int = 0, topic: str = "t", **more: Any) -> bytes:
    return orjson.dumps(entry_value(Entry(run(count, topic=topic), **more), place, 0.0))


def replica() -> Replica:
    return Replica(lambda: 1_000.0)


def test_a_replica_reads_from_the_middle_of_a_run_and_up_to_a_size() -> None:
    found = replica()
    events = [*found.apply(0.0, [
        Change("m/1/b", value_of(3, 5), 10), Change("m/1/a", value_of(2), 10), Change("b/1", b"4", 10),
        Change("m/2/c", value_of(4), 11),
    ])]  # fmt: skip
    assert [one.key if isinstance(one, Entry) else one for one in events] == [
        "m/1/a",
        "m/1/b",
        Committed(1, 4),
        "m/2/c",
    ]
    first, second, third = offset_of(10, 1, 0), offset_of(10, 1, 5), offset_of(11, 2, 0)
    assert ([one.run.offset for one in found], found.messages, found.bytes) == ([first, second, third], 9, 9)
    assert (found.end, found.batches) == (offset_of(12, 0, 0), {1: 4})

    def read(offset: int, size: int = 100) -> tuple[list[tuple[int, int]], int]:
        entries, following = found.read(offset, size)
        return [(one.run.offset, one.run.count) for one in entries], following

    whole = [(first, 2), (second, 3), (third, 4)]
    assert read(0) == read(first) == (whole, found.end)
    assert read(first + 1) == ([(first + 1, 1), *whole[1:]], found.end)
    assert read(first + 2) == (whole[1:], found.end)
    assert read(0, 2) == (whole[:1], second)
    assert read(0, 3) == (whole[:2], third)
    assert read(found.end) == ([], found.end)
    [*found.apply(0.0, [Change("m/1/b", None, 12), Change("m/1/b", None, 12)])]
    assert (read(0), found.messages, found.bytes) == (([whole[0], whole[2]], offset_of(13, 0, 0)), 6, 6)


def test_a_replica_forgets_places_of_messages_that_are_gone() -> None:
    found = replica()
    for number in range(66):
        [*found.apply(0.0, [Change(f"m/0/{number}", value_of(1), number + 1)])]
    for number in range(66):
        [*found.apply(0.0, [Change(f"m/0/{number}", None, 100 + number)])]
        assert len(found._offsets) <= 64 + 2 * len(found._entries)
    assert (found.messages, found.bytes, [*found]) == (0, 0, [])


def test_a_message_is_done_when_no_session_wants_it_any_more() -> None:
    found = replica()
    [*found.apply(0.0, [
        Change(f"o/{HASH}", b'["s","door",1]', 1), Change(f"f/{HASH}", b'{"t":[1,0],"$share/g/u":[1,0],"q":[0,0]}', 1),
        Change("m/0/a", value_of(2), 2), Change("m/0/b", value_of(1, topic="u"), 3),
        Change("m/0/c", value_of(1, topic="q"), 4),
        Change("m/0/d", value_of(1, topic="x", to="s"), 5),
    ])]  # fmt: skip
    assert found.patterns == {"t": 1, "u": 1, "q": 1}
    a, b, c, d = found
    assert [one.wanted for one in (a, b, c, d)] == [(HASH,), (), (), (HASH,)]
    assert [found.is_done(0.0, one) for one in (a, b, c, d)] == [False, True, True, False]
    for following, sent, is_done in ((a.end - 1, {}, False), (a.end, {}, True), (a.end, {"5": [a.end - 1, 1]}, False)):
        [*found.apply(0.0, [Change(f"p/{HASH}", orjson.dumps({"next": following, "sent": sent}), 6)])]
        assert found.is_done(0.0, a) == is_done
    a.run.expires = 5.0
    assert [found.is_done(now, a) for now in (4.9, 5.0)] == [False, True]
    assert [*found.apply(0.0, [Change(f"o/{HASH}", None, 7)])] == [Moved(HASH, ("s", "door", 1), None)]
    assert found.is_done(0.0, d)
    [*found.apply(0.0, [Change(f"f/{HASH}", b'{"t":[1,0]}', 8)])]
    assert (found.patterns, found.filters(HASH), found.wanting("t")) == ({"t": 1}, {"t": [1, 0]}, (HASH,))
    [*found.apply(0.0, [Change(f"f/{HASH}", None, 9)])]
    assert (found.patterns, found.filters(HASH), found.wanting("t")) == ({}, {}, ())


def test_retained_messages_come_as_events_and_an_unknown_one_is_cleared_by_none() -> None:
    found, store = replica(), made()
    operation = store.retention(0.0, run(1, retain=True))
    assert isinstance(operation, Set)
    (event,) = found.apply(0.0, [Change(operation.key, orjson.dumps(operation.value), 1)])
    assert isinstance(event, Kept)
    assert (event.run.topic, event.run.payloads[0], event.run.at) == ("t", b"x", 1_000.0)
    (event,) = found.apply(0.0, [Change(operation.key, None, 2)])
    assert isinstance(event, Kept)
    assert (event.run.topic, event.run.payloads[0], event.run.retain, found.retained) == ("t", b"", True, {})
    assert [*found.apply(0.0, [Change(operation.key, None, 3)])] == []
    assert not found.statistics


def test_progress_is_read_in_the_order_of_offsets() -> None:
    found = read_progress({"next": 9, "sent": {"3": [7, 1], "1": [8, 2]}, "rel": {"5": 1}, "in": {"6": 1}})
    assert found == Progress(9, {3: (7, 1), 1: (8, 2)}, [5], [6])
    assert ([*found.sent], found.floor, read_progress(None).floor) == ([3, 1], 7, 0)
    for wrong in ({"will": None}, {"will": ["t", "", 3, False, {}]}, {}):
        with pytest.raises((ValueError, TypeError, KeyError)):
            check_will(wrong)
