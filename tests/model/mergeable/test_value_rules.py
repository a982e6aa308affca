"""Mergeable values and their store: every limit at its value and one beyond, what all weighs, and how it travels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest

from glue.errors import ModelError
from glue.model.mergeable import store as module
from glue.model.mergeable.context import Context
from glue.model.mergeable.store import Delta, Store
from glue.model.mergeable.wire import Digest, MalformedDeltasError, Message, Pull, Push, TooFarError, decode, encode
from glue.model.state import Delete, Expect, Pattern, Set, Update
from tests.model.mergeable.stores import PREFIXES, merge, store
from tests.support.bounds import Limit, check_limit

LIFE = "a" * 16
MARK = PREFIXES.mark


def written(key: str, *values: Any, update: bool = False) -> Store:
    """A store after these writes to one key."""
    made = store(1)
    for value in values:
        made.write(1, [Update(key, value) if update else Set(key, value)])
    return made


def updated(key: str, *values: Any) -> Store:
    """A store after these updates of one key."""
    return written(key, *values, update=True)


GREATEST = (1 << 53) - 1
COUNTED = "'c/1': one endpoint may add less than 9007199254740992 in all"
STRINGS = "'s/1' is a set; its elements are strings of up to 1024 bytes"
REFUSED: list[Limit] = [
    (COUNTED, lambda value: updated("c/1", value), [GREATEST, -GREATEST, 0], [GREATEST + 1, -GREATEST - 1]),
    (COUNTED, lambda value: updated("c/1", GREATEST - 1, value), [1, -5], [2]),
    (r"'c/1' is a counter; expected an integer to add, not .*", lambda value: updated("c/1", value), [1],
     [True, 1.0, "1", None]),
    (r"'c/1' is a counter, which is not set but added to: update\(key, 1\), or add\(key, 1\)",
     lambda value: written("c/1", value), [], [1]),
    (STRINGS, lambda size: written("s/1", ["é" * (size // 2)]), [1024], [1026]),
    (STRINGS, lambda element: written("s/1", ["a", element]), ["", "b", "a"], [1, None, "\ud800", b"x"]),
    (STRINGS, lambda element: updated("s/1", {element: True}), ["x" * 1024], ["x" * 1025, 5]),
    (r"'s/1' is a set; expected a list of strings, not .*", lambda value: written("s/1", value), [["a"], ("a",), []],
     ["a", {"a": True}, 5, None]),
    (r"'s/1' is a set; expected \{element: True to add it, None to remove it\}", lambda value: updated("s/1", value),
     [{"a": True, "b": None}, {}], [["a"], {"a": False}, {"a": 1}, {"a": True, "b": 0}]),
    (r"the value for key 'm/1': 1048577 bytes; at most 1048576 bytes", lambda size: written("m/1", "x" * (size - 2)),
     [1 << 20], [(1 << 20) + 1]),
    (r"the value for key '[mr]/1': Type is not JSON serializable: .*; at most 1048576 bytes",
     lambda key: written(key, {1, 2}), [], ["m/1", "r/1"]),
    (r".*: a condition needs a majority, but the key is mergeable; leave it out",
     lambda key: store(1).write(1, [Expect(key, 1)]), [], ["c/1", "s/1", "m/1", "r/1"]),
    (r"'.*': a transaction of mergeable keys has each key once, and no others",
     lambda keys: store(1).write(1, [Update(f"c/{key}", 1) for key in keys]), ["12"], ["11", "121"]),
    (r"'x': a transaction of mergeable keys has each key once, and no others",
     lambda key: store(1).write(1, [Update("c/1", 1), Update(key, 1)]), ["c/2"], ["x"]),
]  # fmt: skip


@pytest.mark.parametrize("limit", REFUSED)
def test_a_write_beyond_a_limit_is_refused_with_its_reason(limit: Limit) -> None:
    check_limit(limit, ModelError)


def test_a_refused_transaction_leaves_everything_as_it_was() -> None:
    one = updated("c/1", 5)
    state = (one.mark, one.size, one.version, one.context.copy())
    with pytest.raises(ModelError):
        one.write(2, [Update("c/1", 1), Set("s/1", ["a"]), Set("c/2", 5)])
    assert (one.mark, one.size, one.version, one.context) == state
    assert one.match(Pattern("#")) == [("c/1", (b"5", False))]


@pytest.mark.parametrize(
    ("key", "operations", "read", "size"),
    [
        ("c/1", [Update("c/1", 5)], b"5", 403),
        ("c/1", [Update("c/1", 5), Update("c/1", -7)], b"-2", 403),
        ("s/1", [Set("s/1", ["b", "a", "b"])], b'["a","b"]', 605),
        ("s/1", [Set("s/1", ["bb"]), Update("s/1", {"a": True}), Update("s/1", {"bb": None, "x": None})], b'["a"]',
         404),
        ("s/1", [Set("s/1", ["a"]), Update("s/1", {"a": True})], b'["a"]', 404),
        ("s/1", [Set("s/1", ["a"]), Set("s/1", [])], None, 0),
        ("m/1", [Set("m/1", {"b": 1, "a": None})], b'{"a":null,"b":1}', 419),
        ("m/1", [Set("m/1", {"b": 1}), Update("m/1", {"c": 2})], b'{"b":1,"c":2}', 416),
        ("m/1", [Update("m/1", {"c": 2})], b'{"c":2}', 410),
        ("r/1", [Set("r/1", "old"), Set("r/1", "new")], b'"new"', 408),
        ("r/1", [Set("r/1", {"b": 1}), Update("r/1", {"b": None})], b"{}", 405),
        ("r/1", [Set("r/1", 1), Delete("r/1")], None, 0),
    ],
)  # fmt: skip
def test_each_kind_is_read_as_it_was_written_and_weighs_its_contents(
    key: str, operations: list[Any], read: bytes | None, size: int
) -> None:
    one = store(1)
    for operation in operations:
        one.write(1, [operation])
    assert (one.reading(key), one.size, len(one)) == ((read, False), size, int(size > 0))
    other = store(2)
    merge(other, one.whole())
    assert (other.reading(key), other.size, other.mark) == ((read, False), size, one.mark)
    one.write(1, [Delete(key)])
    assert (one.size, one.mark, len(one)) == (0, 0, 0)


def test_a_conflict_is_decided_before_it_is_updated() -> None:
    one, other = written("m/1", {"a": 1}), store(2)
    other.write(1, [Set("m/1", {"a": 2})])
    merge(one, other.whole())
    with pytest.raises(ModelError, match=r"^'m/1' has 2 values in conflict; set the one that is to be$"):
        one.write(1, [Update("m/1", {"b": 1})])
    assert one.conflicts(Pattern("m/#")) == {"m/1": [b'{"a":1}', b'{"a":2}']}
    assert one.conflicts(Pattern("r/#")) == {}


def test_of_registers_with_equal_stamps_all_replicas_read_the_same_one() -> None:
    stores = [store(number) for number in (1, 2)]
    for number, one in enumerate(stores):
        one.write(7, [Set("r/1", number)])
    for one, other in (stores, stores[::-1]):
        merge(one, other.whole())
        assert (one.reading("r/1"), one.conflicts(Pattern("#"))) == ((b"1", False), {"r/1": [b"1", b"0"]})


def test_keys_are_read_in_order_and_one_by_its_name() -> None:
    one = store(1)
    one.write(1, [Set("m/2", 2), Update("c/1", 1), Set("m/1", 1)])
    assert [key for key, _ in one.match(Pattern("#"))] == ["c/1", "m/1", "m/2"]
    assert one.match(Pattern("m/2")) == [("m/2", (b"2", False))]
    assert one.match(Pattern("m/3")) == []
    assert one.reading("m/3") == (None, False)


def test_who_watches_nothing_is_told_nothing_of_what_was_before() -> None:
    one = Store(PREFIXES, LIFE, Counter())
    assert one.write(1, [Update("c/1", 1)])[1] == {}
    one.is_watched = True
    assert one.write(1, [Update("c/1", 2), Update("c/2", 2)])[1] == {"c/1": (b"1", False), "c/2": (None, False)}
    version, other = one.version, written("c/2", update=True)
    other.write(1, [Update("c/2", 5)])
    assert one.merge(other.whole(), 0) == {"c/2": (b"2", False)}
    assert one.version > version


@pytest.mark.parametrize(("size", "is_refused"), [((32 << 20) - 1, False), (32 << 20, True)])
def test_32_megabytes_are_written_and_more_can_only_be_deleted(size: int, is_refused: bool) -> None:
    one = written("m/1", 5)
    one.size = size
    if is_refused:
        with pytest.raises(ModelError, match=r"^the mergeable keys take 33554432 bytes already; delete some$"):
            one.write(1, [Set("m/2", 1)])
        with pytest.raises(ModelError, match="delete some"):
            one.write(1, [Delete("m/1"), Set("m/2", 1)])
        one.write(1, [Delete("m/1")])
        assert one.size == size - 404
    else:
        one.write(1, [Set("m/2", 1)])


def test_a_write_touches_what_it_supersedes_and_tells_what_was_before() -> None:
    one, other = store(1), store(2)
    other.write(1, [Set("m/1", "old"), Set("m/2", "stays")])
    merge(one, other.whole())
    touched, before = one.write(1, [Set("m/1", "new")])
    assert touched.bounds == {f"{1:016x}": [1, 2], f"{2:016x}": [1, 2]}
    assert before == {"m/1": (b'"old"', False)}
    assert other.merge(one.delta(touched), 0) == before
    touched, _ = other.write(1, [Delete("m/1")])
    assert touched.bounds == {f"{1:016x}": [1, 2]}
    assert one.merge(other.delta(touched), 0) == {"m/1": (b'"new"', False)}
    assert one.is_like(other.context, other.mark)
    assert not one.is_like(other.context, other.mark + 1)
    assert not one.is_like(Context(), other.mark)


def test_128_megabytes_are_merged_and_more_only_if_nothing_is_added() -> None:
    one, other = store(1), written("m/1", 5)
    other.life = LIFE
    other.write(1, [Set("m/2", 1)])
    one.life = "f" * 16
    one.size = (128 << 20) + 1
    assert one.merge(Delta(other.whole().context, {}), 0) == {}
    assert one.merge(other.whole(), 0) is None
    one.size = 128 << 20
    assert one.merge(written("m/1", 5).whole(), 0) is not None
    assert one.statistics == {"deltas refused: no room": 1}


def test_a_context_has_16384_lives() -> None:
    assert module.CONTEXT_LIMIT == 16_384
    lives = {f"{number:016x}": [1, 2] for number in range(16_385)}
    too_many = orjson.dumps([MARK, "pull", lives])
    with pytest.raises(MalformedDeltasError, match=r"^too large a context$"):
        decode(PREFIXES, too_many)
    del lives[f"{0:016x}"]
    message = decode(PREFIXES, orjson.dumps([MARK, "pull", lives]))
    assert isinstance(message, Pull)
    assert message.context.size == 16_384


def test_a_writer_that_continues_in_another_life_takes_what_is_there_along() -> None:
    one, other = store(1), store(2)
    one.write(5, [Update("c/1", 5), Set("r/1", 1), Set("s/1", ["x"])])
    one.write(5, [Delete("s/1")])
    merge(other, one.whole())
    touched = one.renew(LIFE)
    assert touched.bounds == {f"{1:016x}": [1, 3], LIFE: [1, 3]}
    merge(other, one.delta(touched))
    for replica in (one, other):
        assert replica.match(Pattern("#")) == [("c/1", (b"5", False)), ("r/1", (b"1", False))]
        assert {dot for value in replica._values.values() for dot in value.events} == {(LIFE, 1), (LIFE, 2)}
    assert one.mark == other.mark
    assert one.renew("b" * 16).bounds[LIFE] == [1, 3]
    assert store(3).renew(LIFE).bounds == {}


# ---------------------------------------------------------------------------------------------------- messages


def test_messages_as_they_travel() -> None:
    one = store(1)
    one.write(5, [Update("c/1", 5), Set("s/1", ["x"]), Set("r/1", {"b": 1}), Set("m/1", None)])
    life = f"{1:016x}"
    context: Any = {life: [1, 5]}
    events = {
        "c/1": [[life, 1, 5]], "s/1": [[life, 2, "x"]], "r/1": [[life, 3, [5, 0, {"b": 1}]]], "m/1": [[life, 4, None]],
    }  # fmt: skip
    mark = f"{one.mark:016x}"
    known: Any = Context({life: [1, 3]})
    rest: Any = {"r/1": events["r/1"], "m/1": events["m/1"]}
    cases: list[tuple[Message, list[Any]]] = [
        (Digest(True, one.context, one.mark), ["digest", True, context, mark]),
        (Digest(False, Context(), 255), ["digest", False, {}, "00000000000000ff"]),
        (Pull(known), ["pull", {life: [1, 3]}]),
        (Push(one.whole()), ["delta", [context, events, {}]]),
        (Push(one.since(known), one.mark), ["answer", [context, rest, {life: [1, 3]}], mark]),
        (Push(one.delta(known)), ["delta", [{life: [1, 3]}, {"c/1": events["c/1"], "s/1": events["s/1"]}, {}]]),
    ]
    for message, expected in cases:
        data = encode(PREFIXES, message)
        assert orjson.loads(data) == [MARK, *expected]
        assert encode(PREFIXES, decode(PREFIXES, data)) == data


def context(bounds: Any, life: str = LIFE) -> Any:
    """A pull with this context."""
    return decode(PREFIXES, orjson.dumps([MARK, "pull", {life: bounds}]))


def event(key: str, content: Any, life: Any = LIFE, number: Any = 1) -> Any:
    """A delta with this event."""
    return decode(PREFIXES, orjson.dumps([MARK, "delta", [{LIFE: [1, 2]}, {key: [[life, number, content]]}, {}]]))


def marked(mark: Any) -> Any:
    """A digest with this mark."""
    return decode(PREFIXES, orjson.dumps([MARK, "digest", True, {}, mark]))


MALFORMED: list[Limit] = [
    ("not JSON", lambda data: decode(PREFIXES, data), [], [b"", b"x", b"\xff"]),
    ("not a message", lambda document: decode(PREFIXES, orjson.dumps(document)), [[MARK, "pull", {}]],
     [[], 5, {}, [MARK], [MARK, "pull"], [MARK, "pull", {}, 1], [MARK, "digest", 1, {}, "0" * 16], [MARK, "x", {}]]),
    ("not a mark", marked, ["0" * 16, "f" * 16], ["0" * 15, "0" * 17, "g" * 16, 5, None]),
    ("not a context", lambda found: decode(PREFIXES, orjson.dumps([MARK, "pull", found])), [{}], [[], 5, None, "x"]),
    ("not intervals", lambda life: context([1, 2], life), [LIFE], [LIFE[1:], LIFE + "a", ""]),
    ("not intervals", context, [[1, 2], [1, 2, 3, 4]], [[], [1], [1, 2, 3], 5, None]),
    ("not ascending", context, [[1, 2, 3, 4]], [[1, 1], [2, 1], [1, 2, 2, 3], [1.0, 2], [1, True], [1, "2"]]),
    ("not numbers of writes", context, [[1, 2]], [[0, 2], [-1, 2]]),
    ("more writes than a life can make", context, [[1, 1 << 40]], [[1, (1 << 40) + 1]]),
    ("not a delta", lambda found: decode(PREFIXES, orjson.dumps([MARK, "delta", found])), [[{}, {}, {}]],
     [[{}, {}], [{}, [], {}], {}, 5]),
    ("not a mergeable key", lambda key: event(key, 5), ["c/1", "c"], ["x", "cc/1"]),
    ("not events", lambda key: event(key, 5), ["c/" + "x" * 1022], ["c/#", "c/" + "x" * 1023]),
    ("not events", lambda content: event("c/1", content), [GREATEST, -GREATEST], [GREATEST + 1, -GREATEST - 1, 1.0]),
    ("not events", lambda content: event("s/1", content), ["x" * 1024], ["x" * 1025, 5, None]),
    ("not events", lambda size: event("m/1", "x" * (size - 2)), [1 << 20], [(1 << 20) + 1]),
    ("not events", lambda stamp: event("r/1", [*stamp, 1]), [[0, 0]], [[-1, 0], [0, -1], [True, 0], [0, 1.0], [0]]),
    ("a stamp too far ahead", lambda stamp: event("r/1", [*stamp, 1]), [[(1 << 42) - 1, 65_535]],
     [[1 << 42, 0], [0, 65_536]]),
    ("not a dot", lambda life: event("c/1", 5, life), [LIFE], [5, None]),
    ("not a dot", lambda number: event("c/1", 5, LIFE, number), [1], [1.0, True, "1", None]),
]  # fmt: skip


@pytest.mark.parametrize("limit", MALFORMED)
def test_a_message_beyond_a_limit_is_refused_with_its_reason(limit: Limit) -> None:
    error = TooFarError if limit[0] in {"more writes than a life can make", "a stamp too far ahead"} else None
    check_limit(limit, error or MalformedDeltasError)
