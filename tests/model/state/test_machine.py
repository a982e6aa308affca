"""The state machine: what commands do, exactly once, and alike on every replica."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

from glue.errors import ModelError
from glue.model.state import (
    EXPIRED,
    OK,
    REFUSED,
    AcquireLock,
    Command,
    Delete,
    Expect,
    ExpectRevision,
    MalformedEntryError,
    OpenSession,
    Operation,
    Pattern,
    ReleaseLock,
    Set,
    State,
    Update,
    encode_command,
    encode_entry,
)
from glue.model.state.sessions import PENDING, SESSION_LIFE_MS, SESSIONS
from tests.model.state.client import Client


def test_a_key_is_set_updated_by_merge_patch_and_deleted() -> None:
    client = Client()
    assert client.code(Set("valve/1", {"open": True, "by": "me"})) == OK
    client.run(Update("valve/1", {"by": None, "flow": {"max": 3}}))
    assert client.value("valve/1") == {"open": True, "flow": {"max": 3}}
    client.run(Delete("valve/1"))
    assert client.state.get("valve/1") is None
    assert client.state.size == 0


RFC_7396 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
"""The test cases of RFC 7396, appendix A: original, patch, result."""


@pytest.mark.parametrize(("original", "patch", "result"), RFC_7396)
def test_an_update_is_the_merge_patch_of_rfc_7396(original: Any, patch: Any, result: Any) -> None:
    client = Client()
    client.run(Set("k", original))
    client.run(Update("k", patch))
    assert client.value("k") == result


def test_an_update_travels_and_is_logged_as_the_delta_alone() -> None:
    client = Client()
    client.run(Set("k", {"large": "x" * 10_000}))
    entry = encode_entry(0, [encode_command(Command(client.session, 9, 0, [Update("k", {"n": 1})]))])
    assert len(entry) < 50
    client.state.apply(3, entry)
    assert client.value("k") == {"large": "x" * 10_000, "n": 1}


def test_a_transaction_changes_all_or_nothing() -> None:
    client = Client()
    client.run(Set("a", 1), Set("b", 2))
    assert client.code(Set("a", 10), Expect("b", 3), Delete("b")) == REFUSED
    assert (client.value("a"), client.value("b")) == (1, 2)
    assert client.code(Set("a", 10), Expect("b", 2), Delete("b")) == OK
    assert (client.value("a"), client.value("b")) == (10, None)


def test_operations_of_a_transaction_see_those_before_them() -> None:
    client = Client()
    client.run(Set("a", {"n": 1}), Update("a", {"m": 2}), Expect("a", {"m": 2, "n": 1}))
    assert client.value("a") == {"n": 1, "m": 2}


def test_a_value_is_compared_as_json_whatever_the_order_of_its_keys() -> None:
    client = Client()
    client.run(Set("a", {"x": 1, "y": {"u": 1, "v": 2}}))
    assert client.code(Expect("a", {"y": {"v": 2, "u": 1}, "x": 1})) == OK
    assert client.code(Expect("a", {"x": 1})) == REFUSED
    assert client.code(Expect("a")) == REFUSED
    assert client.code(Expect("none")) == OK
    client.run(Set("null", None))
    assert client.code(Expect("null", None)) == OK
    assert client.code(Expect("null")) == REFUSED


def test_the_revision_of_a_key_is_the_index_of_its_last_change() -> None:
    client = Client()
    index = client.run(Set("a", 1)).results[0].index
    assert client.state.get("a") == (b"1", index)
    client.run(Set("b", 1))
    assert client.code(ExpectRevision("a", index)) == OK
    assert client.code(ExpectRevision("a", index + 1)) == REFUSED
    assert client.code(ExpectRevision("none", 0)) == OK


# ---------------------------------------------------------------------------------------- exactly once


def test_row_29_a_retried_command_takes_effect_once_and_gets_its_first_result_again() -> None:
    client = Client()
    client.run(Set("n", 0))
    first = client.run(Expect("n", 0), Set("n", 1), serial=7).results
    again = client.run(Expect("n", 0), Set("n", 1), serial=7)
    assert again.results == first
    assert again.changes == []
    assert client.value("n") == 1


def test_row_29_results_are_forgotten_once_the_client_has_them() -> None:
    client = Client()
    client.run(Set("n", 0), serial=5)
    client.run(Set("n", 1), serial=6, answered=5)
    assert client.run(Set("n", 2), serial=5).results[0].code == EXPIRED
    assert client.value("n") == 1


def test_row_29_a_session_ends_at_the_same_entry_on_all_replicas_and_never_comes_back() -> None:
    client = Client()
    client.run(Set("n", 1), serial=1)
    client.state.apply(client.state.index + 1, encode_entry(1000, []))
    client.state.apply(client.state.index + 1, encode_entry(1000 + SESSION_LIFE_MS, []))
    assert client.run(Set("n", 2), serial=1).results[0].code == EXPIRED
    assert client.value("n") == 1
    assert Client(client.state).session > client.session


def test_a_session_used_since_the_last_stamp_is_not_blamed_for_the_time_before() -> None:
    client = Client()
    client.run(Set("n", 1))
    client.state.apply(client.state.index + 1, encode_entry(50 * SESSION_LIFE_MS, []))
    assert client.code(Set("n", 2)) == OK


def test_sessions_and_their_results_are_bounded() -> None:
    client = Client()
    for serial in range(1, PENDING + 1):
        client.run(Set("n", serial), serial=serial)
    assert client.run(Set("n", 0), serial=PENDING + 1).results[0].code == REFUSED
    for _ in range(SESSIONS + 10):
        Client(client.state)
    assert len(client.state.sessions) == SESSIONS


def test_opening_a_session_twice_with_one_nonce_is_opening_it_once() -> None:
    client = Client(session=False)
    numbers = {client.run(OpenSession("nonce")).results[0].index for _ in range(3)}
    assert len(numbers) == 1


# ----------------------------------------------------------------------------------------------- locks


def test_a_lock_has_one_owner_until_it_is_given_back() -> None:
    client = Client()
    token = client.run(AcquireLock("door", "a", 1000)).results[0].index
    assert client.code(AcquireLock("door", "b", 1000)) == REFUSED
    assert client.run(AcquireLock("door", "a", 1000)).results[0].index == token
    assert client.run(ReleaseLock("door", "b")).released == []
    assert client.run(ReleaseLock("door", "a")).released == ["door"]
    assert client.run(AcquireLock("door", "b", 1000)).results[0].index > token


def test_a_lease_ends_in_committed_time_which_starts_with_the_stamp_after_it_was_taken() -> None:
    client = Client()
    client.run(AcquireLock("door", "a", 1000))
    assert client.run(Set("x", 1), time_ms=1_000_000).released == []
    assert client.run(Set("x", 1), time_ms=1_000_999).released == []
    assert client.run(Set("x", 1), time_ms=900_000).released == []  # the time never goes back
    assert client.run(Set("x", 1), time_ms=1_001_000).released == ["door"]
    assert client.code(AcquireLock("door", "b", 1000)) == OK


def test_the_state_says_when_it_needs_to_know_the_time() -> None:
    client = Client(session=False)
    assert client.state.next_expiry == float("inf")
    client.run(AcquireLock("door", "a", 1000))
    assert client.state.next_expiry == 0
    client.run(Set("x", 1), time_ms=5000)
    assert client.state.next_expiry == 6000


# ------------------------------------------------------------------------------------ the same everywhere


def commands(random: Random, count: int) -> list[bytes]:
    """Random entries, some of them repeated, malformed, or of sessions that do not exist."""
    entries = [encode_entry(0, [encode_command(Command(0, 0, 0, [OpenSession(f"s{n}")]))]) for n in range(3)]
    time_ms = 0
    for serial in range(count):
        key = f"k/{random.randrange(8)}"
        operation = random.choice(
            list[Operation](
                [
                    Set(key, random.choice([1, 1.5, "a", None, {"x": random.random()}])),
                    Update(key, {"x": random.choice([None, 1, {"y": 2}])}),
                    Delete(key),
                    Expect(key),
                    AcquireLock(key, random.choice("ab"), random.randrange(1, 5000)),
                    ReleaseLock(key, random.choice("ab")),
                ]
            )
        )
        command = Command(random.randrange(5), serial // 2, max(0, serial // 2 - 10), [operation])
        time_ms += random.choice([0, 0, 100, 10_000, 200_000])
        entries.append(encode_entry(random.choice([0, time_ms]), [encode_command(command)]))
        if random.random() < 0.1:
            entries.append(random.choice([b"", b"[", b"[1]", b'[1,[[1,1,0,[["?"]]]]]', b"null"]))
    return entries


@pytest.mark.parametrize("seed", range(20))
def test_row_42_replicas_that_applied_the_same_entries_are_equal_also_from_a_snapshot(seed: int) -> None:
    one, other = State(), State()
    entries = commands(Random(seed), 200)
    at = Random(seed).randrange(len(entries))
    for index, entry in enumerate(entries, 1):
        results = one.apply(index, entry).results
        assert other.apply(index, entry).results == results
        if index == at:
            other = State.restore(other.snapshot())
        if index % 10 == 0:
            assert one.digest == other.digest
    assert one.size == other.size == State.restore(one.snapshot()).size
    assert one.size == sum(len(change.key) + len(change.document or b"") for change in one.match(Pattern("#")))


def test_changes_tell_what_became_of_each_key() -> None:
    client = Client()
    applied = client.run(Set("a", 1), Delete("none"), Set("b", 2))
    assert [(change.key, change.document) for change in applied.changes] == [("a", b"1"), ("b", b"2")]
    assert {change.index for change in applied.changes} == {client.state.index}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"format":2}', b'{"format":1,"index":1}'])
def test_bytes_that_are_no_snapshot_are_refused_with_the_one_error(data: bytes) -> None:
    with pytest.raises(MalformedEntryError):
        State.restore(data)


MISTAKES: list[Any] = [Set("", 1), Set("a/+", 1), Set("a", {1}), Set("\ud800", 1), Set("k" * 2000, 1), "set a 1"]


@pytest.mark.parametrize("operation", MISTAKES)
def test_a_callers_mistake_is_told_before_anything_is_logged(operation: Operation) -> None:
    with pytest.raises(ModelError):
        encode_command(Command(1, 1, 0, [operation]))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a/b", ["a/b"], ["a", "a/b/c", "a/c"]),
        ("a/+", ["a/b", "a/"], ["a", "a/b/c", "b/b"]),
        ("a/#", ["a", "a/b", "a/b/c"], ["b", "ab"]),
        ("#", ["a", "a/b"], []),
        ("+/x/#", ["a/x", "b/x/y"], ["a", "a/y"]),
    ],
)
def test_patterns_match_keys_as_they_match_topics(pattern: str, matching: list[str], others: list[str]) -> None:
    found = Pattern(pattern)
    assert [key for key in matching + others if found.matches(key)] == matching


@pytest.mark.parametrize("pattern", ["", "a+/b", "#/a", "a/b#"])
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ModelError):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("index", "1"), ("time", None), ("time", "1"), ("session", 1.5), ("expiry", [1]), ("expiry", "1"),
        ("expiry", {}),
        ("locks", [["l", "o", 1, 5, "6"]]), ("locks", [["l", "o", [1], 5, 6]]), ("locks", [["l", "o", 1, None, 6]]),
        ("sessions", [[1, "n", "5", 0, []]]), ("sessions", [[1, "n", 5, None, []]]),
        ("sessions", [["1", "n", 5, 0, []]]),
    ],
)  # fmt: skip
def test_a_snapshot_from_a_peer_with_a_value_of_another_type_is_refused(name: str, value: Any) -> None:
    document = {**orjson.loads(State().snapshot()), name: value}
    with pytest.raises(MalformedEntryError):
        State.restore(orjson.dumps(document))


def test_a_state_from_a_snapshot_knows_when_its_first_lease_ends() -> None:
    client = Client()
    client.run(AcquireLock("a", "me", 5000), AcquireLock("b", "me", 900))
    state = client.state
    state.locks.stamp(1000)
    again = State.restore(state.snapshot())
    assert (again.locks.first_end, again.locks.next_expiry) == (1900, 1900)
    assert again.locks.stamp(1899) == []
    assert again.locks.stamp(1900) == ["b"]
