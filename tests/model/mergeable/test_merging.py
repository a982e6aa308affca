"""Merging, as algebra: deltas may come in any order, any grouping, twice; replicas that saw the same are the same.

Programs of writes and deliveries are drawn by Hypothesis; a naive twin, which remembers every write for ever, says what
each replica must read.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.errors import ModelError
from glue.model.mergeable import store as module
from glue.model.mergeable.context import Context, Dot
from glue.model.mergeable.store import Delta, Store
from glue.model.state import Delete, Operation, Pattern, Set, Update
from tests.model.mergeable.stores import merge, store, travelled

EVERYTHING = Pattern("#")
REPLICAS = 3


def state(of: Store) -> Any:
    """All that counts."""
    events = {(key, dot): content for key, value in of._values.items() for dot, content in value.events.items()}
    return events, of.context, of.mark, of.size, of.match(EVERYTHING)


def read(of: Store) -> dict[str, Any]:
    return {key: json.loads(document or b"null") for key, (document, _) in of.match(EVERYTHING)}


def written(rng: Random) -> Operation:
    """Some write."""
    letter = rng.choice("csrm")
    key = f"{letter}/{rng.randrange(2)}"
    if rng.random() < 0.2:
        return Delete(key)
    if letter == "c":
        return Update(key, rng.randrange(-3, 9))
    if letter == "s" and rng.random() < 0.8:
        return Update(key, {rng.choice("xyz"): rng.choice([True, None]) for _ in range(2)})
    return Set(key, rng.sample("xyz", 2)) if letter == "s" else Set(key, rng.randrange(4))


def scattered(seed: int, writes: int) -> tuple[list[Store], list[Delta]]:
    """Replicas that wrote, and heard some of what the others wrote; and every delta there was."""
    rng, stores, deltas = Random(seed), [store(number) for number in range(REPLICAS)], list[Delta]()
    for _ in range(writes):
        writer = rng.choice(stores)
        touched, _ = writer.write(rng.randrange(1, 50), [written(rng)])
        deltas.append(travelled(writer.delta(touched)))
        for reader in stores:
            if rng.random() < 0.3:
                merge(reader, rng.choice(deltas))
    return stores, deltas


SEEDS = st.integers(0, 2**32)


@settings(max_examples=150)
@given(SEEDS, st.integers(1, 25), st.randoms(use_true_random=False))
def test_deltas_in_any_order_and_any_number_of_times_lead_to_the_same_state(
    seed: int, writes: int, rng: Random
) -> None:
    _, deltas = scattered(seed, writes)
    one, other = store(8), store(9)
    for delta in deltas:
        merge(one, delta)
    shuffled = deltas + rng.choices(deltas, k=writes)
    rng.shuffle(shuffled)
    for delta in shuffled:
        merge(other, delta)
    assert state(one) == state(other)


@settings(max_examples=150)
@given(SEEDS, st.integers(0, 25))
def test_merging_states_is_commutative_associative_and_idempotent(seed: int, writes: int) -> None:
    (a, b, c), _ = scattered(seed, writes)

    def joined(*parts: Store) -> Store:
        result = store(9)
        for part in parts:
            merge(result, part.whole())
        return result

    assert state(joined(a, b)) == state(joined(b, a))
    assert state(joined(joined(a, b), c)) == state(joined(a, joined(b, c)))
    assert state(joined(a, b, a, b)) == state(joined(a, b))
    assert state(joined(a)) == state(a)


@settings(max_examples=150)
@given(SEEDS, st.integers(0, 25))
def test_what_a_replica_is_told_since_its_context_is_all_that_it_lacks(seed: int, writes: int) -> None:
    (a, b, _), _ = scattered(seed, writes)
    whole = store(9)
    merge(whole, a.whole())
    merge(whole, b.whole())
    told = b.since(a.context)
    assert not any(dot in a.context for events in told.events.values() for dot, _ in events)
    merge(a, told)
    assert state(a) == state(whole)


class Twin:
    """The naive way: every write is kept, with the events it superseded, and what is read is worked out from them."""

    def __init__(self) -> None:
        self.events: dict[Dot, tuple[str, Any]] = {}
        self.superseded: set[Dot] = set()

    def merge(self, other: Twin) -> None:
        self.events |= other.events
        self.superseded |= other.superseded

    def living(self, key: str) -> list[Any]:
        return [content for dot, (k, content) in self.events.items() if k == key and dot not in self.superseded]

    def write(self, number: int, key: str, matching: Any, contents: list[Any]) -> None:
        self.superseded |= {
            dot for dot, (k, content) in self.events.items() if k == key and matching(dot, content)
        }  # fmt: skip
        for content in contents:
            count = sum(life == f"{number:016x}" for life, _ in self.events)
            self.events[(f"{number:016x}", count + 1)] = (key, content)


@settings(max_examples=150)
@given(SEEDS, st.integers(1, 40))
def test_sets_and_counters_read_as_their_naive_twins(seed: int, steps: int) -> None:
    rng = Random(seed)
    stores, twins = [store(n) for n in range(REPLICAS)], [Twin() for _ in range(REPLICAS)]
    for _ in range(steps):
        number = rng.randrange(REPLICAS)
        if rng.random() < 0.3:
            source = rng.randrange(REPLICAS)
            merge(stores[number], stores[source].since(stores[number].context))
            twins[number].merge(twins[source])
            continue
        operations: list[Operation] = [
            Update("c/0", 2), Delete("c/0"), *[Update("s/0", {rng.choice("xy"): there}) for there in (True, None)],
        ]  # fmt: skip
        operation = rng.choice(operations)
        stores[number].write(1, [operation])
        apply_naively(twins[number], number, operation)
    for real, twin in zip(stores, twins, strict=True):
        assert read(real).get("s/0", []) == sorted(set(twin.living("s/0")))
        assert read(real).get("c/0", 0) == sum(twin.living("c/0"))


def apply_naively(twin: Twin, number: int, operation: Operation) -> None:
    if isinstance(operation, Delete):
        twin.write(number, "c/0", lambda dot, content: True, [])
    elif isinstance(operation, Update) and operation.key == "c/0":
        mine = f"{number:016x}"
        before = sum(
            content for dot, (_, content) in twin.events.items()
            if dot[0] == mine and dot not in twin.superseded and twin.events[dot][0] == "c/0"
        )  # fmt: skip
        twin.write(number, "c/0", lambda dot, content: dot[0] == mine, [before + 2])
    elif isinstance(operation, Update):
        ((element, there),) = operation.patch.items()
        twin.write(number, "s/0", lambda dot, content: content == element, [element] if there else [])


def test_what_was_told_stays_as_it_was_when_more_is_merged_before_it_leaves() -> None:
    a, b = store(1), store(2)
    told = a.whole()
    b.write(1, [Update("c/0", 5)])
    merge(a, b.whole())
    assert not told.context


def test_a_restarted_replica_counts_in_a_slot_of_its_own() -> None:
    first, again, other = store(1), store(2), store(3)
    first.write(1, [Update("c/0", 5)])
    merge(other, first.whole())
    again.write(1, [Update("c/0", 1)])  # it lost its memory, and has not heard of its former life yet
    for one, two in ((other, again), (again, other)):
        merge(one, two.whole())
    assert read(again) == read(other) == {"c/0": 6}


def test_who_adds_while_another_removes_wins_and_a_removal_leaves_no_trace() -> None:
    a, b = store(1), store(2)
    a.write(1, [Set("s/0", ["red", "blue"])])
    merge(b, a.whole())
    a.write(1, [Update("s/0", {"red": True})])
    b.write(1, [Delete("s/0")])
    empty = (b.size, len(b), b.match(EVERYTHING))
    merge(a, b.whole())
    assert read(a) == {"s/0": ["red"]}
    assert empty == (0, 0, [])
    for number in range(1000):
        a.write(1, [Set("s/0", [f"{number}"])])
    a.write(1, [Delete("s/0")])
    assert (a.size, a.context.size) == (0, 1)


def test_of_concurrent_writes_to_a_register_the_later_one_wins_and_the_other_stays_visible() -> None:
    a, b = store(1), store(2)
    a.write(1000, [Set("r/0", "early")])
    b.write(2000, [Set("r/0", "late")])
    merge(a, b.whole())
    merge(b, a.whole())
    assert read(a) == read(b) == {"r/0": "late"}
    assert a.conflicts(EVERYTHING) == {"r/0": [b'"late"', b'"early"']}
    a.write(5, [Set("r/0", "after both, by a clock that is wrong")])
    merge(b, a.whole())
    assert read(b) == {"r/0": "after both, by a clock that is wrong"}
    assert b.conflicts(EVERYTHING) == {}


def test_concurrent_values_are_all_read_until_somebody_decides() -> None:
    a, b = store(1), store(2)
    a.write(1, [Set("m/0", {"b": 1, "a": 2}), Set("m/1", 7)])
    b.write(1, [Set("m/0", "other"), Set("m/1", 7)])
    merge(a, b.whole())
    assert a.reading("m/0") == (b'["other",{"a":2,"b":1}]', True)
    assert a.reading("m/1") == (b"7", False), "the same value is no conflict"
    a.write(1, [Set("m/0", "decided")])
    assert a.reading("m/0") == (b'"decided"', False)


def test_a_clock_that_is_far_ahead_is_counted_and_drags_nobody_along() -> None:
    a, b = store(1), store(2)
    a.write(10_000_000, [Set("r/0", "of the future")])
    assert b.merge(travelled(a.whole()), 5000) is not None
    assert b.statistics == {"events merged of a clock that is far ahead": 1}
    assert b.clock.stamp(5001) == (5001, 0)
    b.write(5002, [Set("r/0", "after it")])
    merge(a, b.whole())
    assert read(a) == {"r/0": "after it"}


def test_stamps_grow_along_every_chain_whatever_the_wall_clock_does() -> None:
    clock = store(1).clock
    stamps = [clock.stamp(wall) for wall in (5, 5, 4, 6, 2)]
    assert clock.follow((9, 3), 6)
    stamps += [clock.stamp(wall) for wall in (7, 10)]
    assert stamps == [(5, 0), (5, 1), (5, 2), (6, 0), (6, 1), (9, 4), (10, 0)]


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6))),
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6))),
)
def test_intervals_are_the_sets_they_stand_for(some: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    contexts, sets = [], []
    for ranges in (some, more):
        context, numbers = Context(), set[int]()
        for start, length in ranges:
            context.update(Context({"x": [start, start + length]}))
            numbers |= set(range(start, start + length))
        contexts.append(context)
        sets.append(numbers)
        assert {n for n in range(40) if ("x", n) in context} == numbers
        assert context.last("x") == max(numbers, default=0)
    assert (contexts[0] <= contexts[1]) == (sets[0] <= sets[1])
    assert (contexts[0] == contexts[1]) == (sets[0] == sets[1])


@pytest.mark.parametrize(
    ("delta", "cause"),
    [
        (Delta(Context({f"{1:016x}": [1, 99]}), {}), "writes of ours that we never made"),
        (Delta(Context(), {}, Context({f"{7:016x}": [1, 2]})), "meant for another life"),
        (Delta(Context(), {"c/0": [((f"{7:016x}", 1), 5)]}), "events beyond their context, or twice"),
        (
            Delta(Context({f"{7:016x}": [1, 2]}), {key: [((f"{7:016x}", 1), 5)] for key in ("c/0", "c/1")}),
            "events beyond their context, or twice",
        ),
        (Delta(Context({f"{7:016x}": list(range(1, 40_001))}), {}), "too many lives"),
    ],
)  # fmt: skip
def test_a_delta_that_cannot_be_is_refused_and_counted(delta: Delta, cause: str) -> None:
    one = store(1)
    one.write(1, [Update("c/0", 5)])
    before = state(one)
    assert one.merge(delta, 0) is None
    assert one.statistics == {f"deltas refused: {cause}": 1}
    assert state(one) == before


def test_what_does_not_fit_is_refused_here_but_still_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = store(1), store(2)
    monkeypatch.setattr(module, "SIZE_LIMIT", 3000)
    monkeypatch.setattr(module, "MERGED_LIMIT", 6000)
    for one in (a, b):
        for number in range(3):
            one.write(1, [Set(f"m/{one.life}{number}", "x" * 600)])
        with pytest.raises(ModelError, match="3000 bytes already"):
            one.write(1, [Set("m/more", 1)])
    merge(a, b.whole())
    assert a.size > 6000
    assert a.merge(travelled(b.whole()), 0) is None
    assert a.statistics == {"deltas refused: no room": 1}
    a.write(1, [Delete(key) for key in read(a)])
    assert a.size == 0


def test_lives_are_counted_once_however_many_both_sides_know() -> None:
    lives = {f"{number:016x}": [1, 2] for number in range(10, 10 + module.CONTEXT_LIMIT - 1)}
    one = store(1)
    assert one.merge(Delta(Context(dict(lives)), {}), 0) == {}
    assert one.merge(Delta(Context(lives | {f"{5:016x}": [1, 2]}), {}), 0) == {}
    assert one.merge(Delta(Context({f"{6:016x}": [1, 2]}), {}), 0) is None
    assert one.context.size == module.CONTEXT_LIMIT
