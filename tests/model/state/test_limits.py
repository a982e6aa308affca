"""The bounds of the replicated state on both sides, what a refusal says, and the whole of a snapshot."""

from __future__ import annotations

from math import inf
from typing import Any

import orjson
import pytest

from glue.errors import ModelError
from glue.model.consensus.log import ENTRY_OVERHEAD
from glue.model.consensus.settings import UNCOMMITTED_LIMIT
from glue.model.state import (
    EXPIRED,
    OK,
    REFUSED,
    AcquireLock,
    Change,
    Command,
    Delete,
    Expect,
    ExpectRevision,
    MalformedEntryError,
    OpenSession,
    Pattern,
    ReleaseLock,
    Set,
    State,
    Update,
    commands,
    encode_command,
    locks,
    machine,
    sessions,
)
from glue.model.state.commands import decode_command, decode_entry
from glue.model.state.locks import Locks
from glue.model.state.patterns import KEY_LIMIT, NAME_LIMIT, check_key, check_name
from glue.model.state.sessions import SESSION_LIFE_MS
from tests.model.state.client import Client


def told(client: Client, *operations: Any, **more: Any) -> tuple[str, int, str]:
    """The result of a transaction: code, index and reason."""
    result = client.run(*operations, **more).results[0]
    return result.code, result.index, result.detail


def test_a_refusal_says_why_and_at_which_entry() -> None:
    client = Client(session=False)
    client.run(Set("a", 1), AcquireLock("l", "me", 1_000))
    for operations, reason in [
        ((Expect("a", 2),), "'a' has another value"), ((Expect("a"),), "'a' has another value"),
        ((Expect("b", 2),), "'b' has no value"), ((ExpectRevision("a", 5),), "'a' is at revision 1"),
        ((ExpectRevision("b", 5),), "'b' is at revision 0"), ((AcquireLock("l", "you", 1),), "held by me"),
        ((Delete("a"), Expect("a", 1)), "'a' has no value"),
    ]:  # fmt: skip
        assert told(client, *operations) == (REFUSED, client.state.index, reason)
    assert told(client, Set("b", 1), ReleaseLock("l", "me")) == (OK, client.state.index, "")


def test_the_state_is_full_at_its_limit_and_takes_what_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STATE_LIMIT", 10)
    client = Client(session=False)
    assert client.code(Set("k", "12345678")) == REFUSED
    assert client.state.size == 0
    assert told(client, Set("k", "1234567")) == (OK, 2, "")
    assert client.state.size == 10
    assert told(client, Set("l", 1)) == (REFUSED, 3, "the state is full: 10 bytes")
    assert client.code(Set("k", "7654321")) == OK
    assert client.code(Set("l", 1), Set("k", "12345")) == OK
    assert client.state.size == 10
    assert client.code(Delete("l"), Set("k", "1234567")) == OK
    monkeypatch.setattr(machine, "STATE_LIMIT", 5)
    assert client.code(Set("k", "123456")) == OK, "it shrinks"
    client.run(Delete("k"))
    assert (client.state.size, len(client.state)) == (0, 0)


def test_a_value_that_updates_lead_to_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "VALUE_LIMIT", 20)
    client = Client(session=False)
    client.run(Set("k", {"a": 1}))
    reason = "the update of 'k' leads to a value of 22 bytes; at most 20"
    assert told(client, Update("k", {"b": "23456789"})) == (REFUSED, 2, reason)
    assert client.code(Update("k", {"b": "234567"})) == OK
    deep: Any = {}
    for _ in range(253):
        deep = {"a": deep}
    assert client.code(Set("deep", {}), Update("deep", deep)) == REFUSED


def test_locks_are_bounded_and_know_when_they_have_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOCKS", 2)
    held = Locks()
    assert (held.next_expiry, held.first_end, held.stamp(5)) == (inf, inf, [])
    assert (held.take("a", "me", 7, 100), held.take("b", "me", 8, 50)) == (7, 8)
    assert (held.next_expiry, held.first_end) == (0, inf)
    assert held.refusal("c", "me") == "too many locks"
    assert (held.refusal("a", "me"), held.refusal("a", "you")) == ("", "held by me")
    assert held.stamp(1_000) == []
    assert (held.next_expiry, held.first_end) == (1_050, 1_050)
    assert held.take("b", "me", 20, 500) == 8
    assert (held.next_expiry, held.first_end) == (0, 1_050), "it begins again with the next stamp"
    assert held.stamp(1_040) == []
    assert (held.next_expiry, held.first_end) == (1_100, 1_100)
    assert held.as_list() == [["a", "me", 7, 100, 1_100], ["b", "me", 8, 500, 1_540]]
    assert (held.stamp(1_099), held.stamp(1_100), held.next_expiry) == ([], ["a"], 1_540)
    assert held.refusal("c", "me") == ""
    assert not held.release("b", "you")
    assert held.holder("b") is not None
    assert held.release("b", "me")
    assert (held.holder("b"), held.release("b", "me")) == (None, False)
    assert (held.stamp(1_540), held.next_expiry) == ([], inf)
    again = Locks()
    again.load(0, [["x", "me", 1, 9, None], ["y", "me", 2, 9, 77]])
    assert (again.next_expiry, again.first_end) == (0, 77)
    again.load(None, [["x", "me", 1, 9, None]])
    assert (again.next_expiry, again.first_end) == (inf, inf)


def test_sessions_end_in_the_order_of_their_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS", 3)
    monkeypatch.setattr(sessions, "PENDING", 2)
    state = State()
    clients = [Client(state) for _ in range(3)]
    assert [client.session for client in clients] == [1, 2, 3]
    assert state.next_expiry == 0
    clients[0].run(Set("a", 1), time_ms=1_000)
    assert state.sessions.next_expiry == 0
    clients[1].run(Set("a", 1), time_ms=2_000)
    clients[1].run(Set("a", 1), time_ms=3_000)
    assert [one[:4] for one in state.sessions.as_list()] == [
        [3, "client 2", 1_000, 0], [1, "client 0", 2_000, 0], [2, "client 1", -1, 0],
    ]  # fmt: skip
    last = Client(state)
    assert (last.session, len(state.sessions)) == (4, 3), "the third had not been used for longest"
    assert told(clients[2], Set("a", 2)) == (EXPIRED, 0, "the session has ended")
    assert told(clients[0], Set("a", 2))[0] == OK
    assert told(clients[0], Set("a", 3)) == (REFUSED, 0, "more than 2 commands of one session without an answer")
    assert told(clients[0], Set("a", 4), serial=4, answered=2)[0] == OK
    assert told(clients[0], Set("a", 5), serial=2) == (EXPIRED, 0, "answered before")
    assert state.sessions.result(1, 2) is None
    assert state.sessions.result(1, 3) is not None
    assert state.sessions.result(9, 1) is None
    assert told(clients[0], Set("a", 6), serial=3, answered=2)[0] == OK, "its first result again"
    assert clients[0].value("a") == 4
    time = 3_000 + SESSION_LIFE_MS
    state.apply(state.index + 1, b"[%d,[]]" % time)
    assert len(state.sessions) == 3
    assert state.next_expiry == time + SESSION_LIFE_MS
    state.apply(state.index + 1, b"[%d,[]]" % (time + SESSION_LIFE_MS - 1))
    assert len(state.sessions) == 3
    state.apply(state.index + 1, b"[%d,[]]" % (time + SESSION_LIFE_MS))
    assert (len(state.sessions), state.sessions.last_number, state.next_expiry) == (0, 4, inf)


def test_a_snapshot_has_everything() -> None:
    client = Client()
    client.run(Set("b", {"x": 1}), AcquireLock("l", "me", 50), time_ms=5)
    client.run(Set("a", None), time_ms=9)
    document = orjson.loads(client.state.snapshot())
    assert document == {
        "format": 1, "index": 3, "time": 9, "session": 1, "expiry": 59, "locks": [["l", "me", 2, 50, 59]],
        "sessions": [[1, "client 0", -1, 0, [[2, "ok", 2, ""], [3, "ok", 3, ""]]]],
        "values": [["a", 3, None], ["b", 2, {"x": 1}]],
    }  # fmt: skip
    again = State.restore(client.state.snapshot())
    assert (again.index, again.time_ms, again.size, len(again)) == (3, 9, client.state.size, 2)
    assert again.digest == client.state.digest
    with pytest.raises(MalformedEntryError, match="snapshot of format 2; expected 1"):
        State.restore(orjson.dumps({**document, "format": 2}))


def test_a_change_shows_its_value_and_is_compared_as_a_whole() -> None:
    change = Change("k", b"[1]", 5)
    assert (change.value, change.deleted, change.live, change.past.live) == ([1], False, True, False)
    assert change != change.past
    assert change == Change("k", b"[1]", 5)
    assert change != Change("k", b"[1]", 6)
    assert change != 5
    assert (repr(change), repr(Change("k", None, 5))) == ("<Change k = [1] at 5>", "<Change k deleted at 5>")
    assert (Change("k", None, 5).deleted, Change("k", None, 5).value) == (True, None)
    assert isinstance(Change("k", b"[1]", 0, True, True).value, machine.Conflict)
    assert not isinstance(change.value, machine.Conflict)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (b'[0,0,0,[["-","k"]]]', b'[0,0,-1,[["-","k"]]]'),
        (b'[%d,%d,%d,[["-","k"]]]' % (((1 << 53) - 1,) * 3), b'[0,%d,0,[["-","k"]]]' % (1 << 53)),
        (b'[0,0,0,[["L","k","o",1]]]', b'[0,0,0,[["L","k","o",0]]]'),
        (b'[0,0,0,[["L","k","o",86400000]]]', b'[0,0,0,[["L","k","o",86400001]]]'),
        (b'[0,0,0,[["L","k","%b",1]]]' % (b"o" * 128), b'[0,0,0,[["L","k","%b",1]]]' % (b"o" * 129)),
        (b'[0,0,0,[["S","%b"]]]' % (b"o" * 128), b'[0,0,0,[["S","%b"]]]' % (b"o" * 129)),
        (b'[0,0,0,[["S","o"]]]', b'[0,0,0,[["S",""]]]'), (b'[0,0,0,[["-","k"]]]', b"[0,0,0,[]]"),
        (b"[0,0,0,[%b]]" % b",".join([b'["-","k"]'] * 1024), b"[0,0,0,[%b]]" % b",".join([b'["-","k"]'] * 1025)),
        (b'[0,0,0,[["?","k"]]]', b'[0,0,0,[["?"]]]'), (b'[0,0,0,[["U","k","o"]]]', b'[0,0,0,[["U","k",5]]]'),
        (b'[0,0,0,[["L","k","o",1]]]', b'[0,0,0,[["L","k","",1]]]'),
        (b'[0,0,0,[["@","k",5]]]', b'[0,0,0,[["@","k","5"]]]'),
    ],
)  # fmt: skip
def test_a_command_has_its_bounds(right: bytes, wrong: bytes) -> None:
    command = decode_command(right)
    assert decode_command(encode_command(command)).operations == command.operations
    with pytest.raises(MalformedEntryError):
        decode_command(wrong)
    assert decode_entry(b"[0,[%b]]" % right)[0] == 0
    assert decode_entry(b"[%d,[]]" % ((1 << 53) - 1)) == ((1 << 53) - 1, [])
    for entry in (b"[-1,[]]", b"[%d,[]]" % (1 << 53), b"[0,[%b]]" % wrong, b"[0]", b"{"):
        with pytest.raises(MalformedEntryError):
            decode_entry(entry)


def test_what_a_client_may_ask_for_has_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, is_right in ((0, False), (1, True), (1024, True), (1025, False)):
        given = Command(0, 0, 0, [Delete("k")] * count)
        if is_right:
            assert len(decode_command(encode_command(given)).operations) == count
            continue
        with pytest.raises(ModelError, match=f"{count} operations; expected 1 to 1024"):
            encode_command(given)
    assert UNCOMMITTED_LIMIT > commands.COMMAND_LIMIT + ENTRY_OVERHEAD == (15 << 20) + 64, "else it is never committed"
    size = len(encode_command(Command(0, 0, 0, [Set("k", "12345678")])))
    monkeypatch.setattr(commands, "COMMAND_LIMIT", size)
    encode_command(Command(0, 0, 0, [Set("k", "12345678")]))
    with pytest.raises(ModelError, match=f"a transaction of {size + 1} bytes; at most {size}"):
        encode_command(Command(0, 0, 0, [Set("k", "123456789")]))
    assert len(encode_command(Command(12, 345, 6, [Set("k", "12345678")]))) > size, "its numbers do not count"
    monkeypatch.setattr(commands, "COMMAND_LIMIT", 1000)
    monkeypatch.setattr(commands, "VALUE_LIMIT", 10)
    encode_command(Command(0, 0, 0, [Set("k", "12345678")]))
    for operation in (Set("k", "123456789"), Update("k", "123456789"), Expect("k", "123456789")):
        with pytest.raises(ModelError, match="11 bytes; at most 10"):
            encode_command(Command(0, 0, 0, [operation]))
    assert decode_command(b'[0,0,0,[["=","k",["345678"]]]]')
    with pytest.raises(MalformedEntryError):
        decode_command(b'[0,0,0,[["=","k",["3456789"]]]]')


def test_keys_names_and_patterns_have_their_lengths() -> None:
    for key, words in (
        ("", "0 bytes"),
        ("ü" * 513, "1026 bytes"),
        ("a+", "wildcards"),
        ("#", "wildcards"),
        (5, "string"),
    ):
        with pytest.raises(ModelError, match=words):
            check_key(key)
    assert check_key("k" * KEY_LIMIT) == "k" * 1024
    with pytest.raises(ModelError, match="lone surrogate at character 1"):
        check_key("a\ud800")
    check_name("n" * NAME_LIMIT)
    for name in ("n" * 129, "a/b", ""):
        with pytest.raises(ModelError, match="model name"):
            check_name(name)
    assert Pattern("k" * 1024).key == "k" * 1024
    with pytest.raises(ModelError, match="1 to 1024 bytes"):
        Pattern("k" * 1025)
    found = {text: (Pattern(text).prefix, Pattern(text).key) for text in ("a/b", "a/+/c", "a/b/#", "+/a", "#", "a/+")}
    assert found == {
        "a/b": ("a/b", "a/b"), "a/+/c": ("a/", None), "a/b/#": ("a/b", None), "+/a": ("", None), "#": ("", None),
        "a/+": ("a/", None),
    }  # fmt: skip


def test_keys_that_match_come_in_their_order_with_their_revisions() -> None:
    client = Client(session=False)
    for key in ("b/2", "a", "b/1", "b", "c/1", "bc", "b/1/x", "c/1/x"):
        client.run(Set(key, key))
    shown = {
        text: [(one.key, one.index) for one in client.state.match(Pattern(text))]
        for text in ("b/#", "b/+", "a", "x", "+/1")
    }
    assert shown == {
        "b/#": [("b", 4), ("b/1", 3), ("b/1/x", 7), ("b/2", 1)],
        "b/+": [("b/1", 3), ("b/2", 1)],
        "+/1": [("b/1", 3), ("c/1", 5)],
        "a": [("a", 2)],
        "x": [],
    }
    assert client.run(OpenSession("n")).results[0].index == 1, "the number of the session"


@pytest.mark.parametrize(
    "operation",
    [
        *[ExpectRevision("k", revision) for revision in ("3", 3.0, None, True, -1, 1 << 53)],  # type: ignore[arg-type]
        AcquireLock("k", "o", 0),
        AcquireLock("k", "o", 86_400_001),
    ],
)
def test_what_no_replica_would_take_is_refused_before_it_takes_the_others_of_its_entry_along(operation: Any) -> None:
    with pytest.raises(ModelError, match="'k'"):
        encode_command(Command(0, 0, 0, [operation, Set("k", 1)]))
