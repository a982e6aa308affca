"""Commands of an endpoint from the call to its ending: what is proposed when, and which endings are certain."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from glue.model import calls as module
from glue.model.calls import Calls, CommandCall
from glue.model.questions import Committed, Refused, Unknown
from glue.model.state import (
    EXPIRED,
    OK,
    AcquireLock,
    Applied,
    Command,
    OpenSession,
    Result,
    Set,
    encode_command,
)
from glue.model.state.commands import decode_command

REFUSED = "refused"


class Desk:
    """Calls whose batches the test settles; each call's token is its key."""

    def __init__(self, *, session: int = 7) -> None:
        self.calls: Any = Calls("a life")
        self.now = 100.0
        self.ticket = 0
        if session:
            self.open(session)

    def add(self, key: str, *, within: float = 60.0, patient: bool = False, operation: Any = None) -> Any:
        token: Any = key
        call = CommandCall(token, [operation or Set(key, 1)], self.now + within, patient)
        return self.calls.add(call)

    def propose(self) -> list[tuple[int, list[str]]]:
        """The tickets of what is proposed now, with the keys of each batch."""
        found = []
        for commands, calls in self.calls.batches(self.now):
            self.ticket += 1
            self.calls.proposed(self.ticket, calls)
            keys = [getattr(decode_command(one).operations[0], "key", "") for one in commands]
            assert keys == [getattr(call.operations[0], "key", "") for call in calls] or not calls
            found.append((self.ticket, keys))
        return found

    def open(self, session: int, nonce: str = "") -> None:
        """Let a session be opened, as somebody waits for it."""
        self.add("first")
        ((commands, calls),) = self.calls.batches(self.now)
        assert calls == []
        opening = decode_command(commands[0]).operations[0]
        assert isinstance(opening, OpenSession)
        assert self.take(Command(0, 0, 0, [opening]), Result(OK, session)) == []
        assert self.propose() == [(1, ["first"])]
        assert self.done(1, 50) == [("first", Committed(50, self.now))]

    def take(self, command: Command, result: Result, *released: str) -> Any:
        applied = Applied()
        applied.commands, applied.results, applied.released = [command], [result], [*released]
        return self.calls.take(applied)

    def done(self, serial: int, index: int, code: str = OK, detail: str = "") -> Any:
        return self.take(Command(self.calls.session, serial, 0, [Set("x", 1)]), Result(code, index, detail))


def test_a_session_is_opened_first_and_again_if_that_was_refused() -> None:
    desk = Desk(session=0)
    assert (desk.calls.deadline, desk.calls.batches(desk.now)) == (inf, [])
    desk.add("a")
    assert desk.calls.deadline == -inf
    ((commands, calls),) = desk.calls.batches(desk.now)
    opening = decode_command(commands[0])
    assert (calls, opening.operations, opening.session) == ([], [OpenSession("a life-1")], 0)
    assert (desk.calls.batches(desk.now), desk.calls.deadline) == ([], 160.0)
    desk.calls.proposed(5, [])
    assert not desk.calls.settle(desk.now, 6, True)
    assert desk.calls.settle(desk.now, 5, True)
    assert (desk.calls.batches(desk.now), desk.calls.deadline) == ([], 100.05)
    desk.now = 100.05
    assert desk.calls.batches(desk.now) == [(commands, [])]  # under the same nonce
    desk.calls.proposed(6, [])
    desk.calls.repeat()  # another leader
    assert desk.calls.batches(desk.now) == [(commands, [])]
    other = Command(0, 0, 0, [OpenSession("another life-1")])
    assert desk.take(other, Result(OK, 8)) == []
    assert desk.calls.session == 0
    assert desk.take(Command(0, 0, 0, [OpenSession("a life-1")]), Result(OK, 9)) == []
    assert (desk.calls.session, desk.calls.deadline) == (9, -inf)
    assert desk.propose() == [(1, ["a"])]


def test_commands_are_proposed_together_up_to_a_size_and_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (module.BATCH, module.OUTSTANDING, module.RETRY_INTERVAL) == (256 << 10, 512, 0.05)
    desk = Desk()
    for key in "abc":
        desk.add(key)
    size = len(encode_command(Command(7, 2, 1, [Set("a", 1)])))
    monkeypatch.setattr(module, "BATCH", 2 * size)
    monkeypatch.setattr(module, "OUTSTANDING", 4)
    assert desk.propose() == [(2, ["a", "b"]), (3, ["c"])]
    desk.add("d")
    desk.add("e")
    assert desk.propose() == [(4, ["d"])]
    assert (desk.propose(), len(desk.calls), desk.calls.deadline) == ([], 5, 160.0)
    assert desk.done(3, 60) == [("b", Committed(60, 100.0))]
    assert desk.calls.deadline == -inf
    assert desk.propose() == [(5, ["e"])]
    encoded = next(reversed(desk.calls._numbered.values())).encoded
    assert (decode_command(encoded).serial, decode_command(encoded).answered) == (6, 1)
    monkeypatch.setattr(module, "WAITING_LIMIT", 1)
    assert desk.add("f") == []
    assert desk.add("g") == [("g", Refused("more than 1 calls wait"))]
    assert desk.done(99, 1) == []  # of no call here
    assert desk.take(Command(8, 2, 0, [Set("x", 1)]), Result(OK, 1)) == []  # of another session


def test_what_was_refused_is_tried_again_a_moment_later() -> None:
    desk = Desk()
    desk.add("a")
    desk.add("b")
    assert desk.propose() == [(2, ["a", "b"])]
    assert desk.done(2, 60) == [("a", Committed(60, 100.0))]
    assert desk.calls.settle(desk.now, 2, True)
    assert (desk.propose(), desk.calls.deadline) == ([], 100.05)
    desk.now = 100.05
    assert desk.propose() == [(3, ["b"])]
    assert desk.calls.committed(3)
    assert not desk.calls.committed(3)
    assert desk.done(3, 61) == [("b", Committed(61, 100.0))]  # since the first try


@pytest.mark.parametrize(
    ("refused", "settled", "ending"),
    [
        (True, True, Refused("no majority", unreachable=True)),
        (False, True, Unknown("no answer came in time")),
        (True, False, Unknown("no answer came in time")),
    ],
)
def test_a_call_that_is_late_is_refused_only_if_no_try_can_have_had_an_effect(
    refused: bool, settled: bool, ending: Any
) -> None:
    desk = Desk()
    desk.add("late", within=1.0)
    desk.add("later", within=2.0)
    desk.propose()
    if settled:
        desk.calls.settle(desk.now, 2, refused)
    assert desk.calls.expired(100.99, "no majority") == []
    assert desk.calls.expired(101.0, "no majority") == [("late", ending)]
    assert desk.calls.expired(101.0, "no majority") == []
    assert (len(desk.calls), min(desk.calls.deadline, 102.0)) == (1, 100.05 if settled else 102.0)
    desk.now = 101.0
    assert [keys for _, keys in desk.propose()] == ([["later"]] if settled else [])
    assert [token for token, _ in desk.calls.expired(102.0, "no majority")] == ["later"]
    assert (len(desk.calls), desk.calls.deadline) == (0, inf)


def test_a_call_that_never_was_proposed_is_refused() -> None:
    desk = Desk(session=0)
    desk.add("a", within=1.0)
    assert desk.calls.expired(101.0, "not founded") == [("a", Refused("not founded", unreachable=True))]
    assert desk.calls.deadline == inf


def test_another_leader_is_asked_for_all_that_is_under_way() -> None:
    desk = Desk()
    for key in "abc":
        desk.add(key)
    desk.propose()
    assert desk.done(3, 60) == [("b", Committed(60, 100.0))]
    desk.now = 101.0
    desk.calls.repeat()
    assert desk.propose() == [(3, ["a", "c"])]
    assert not desk.calls.committed(2)
    ends = desk.calls.end("closed")
    assert ends == [("a", Unknown("closed")), ("c", Unknown("closed"))]


def test_who_waits_for_a_lock_asks_again_when_it_is_released() -> None:
    desk = Desk()
    lock = AcquireLock("door", "me", 1000)
    desk.add("patient", patient=True, operation=lock, within=5.0)
    desk.add("other", patient=True, operation=AcquireLock("gate", "me", 1000), within=9.0)
    desk.add("hasty", operation=lock)
    desk.propose()
    assert desk.done(4, 60, REFUSED, "held by b") == [("hasty", Refused("held by b"))]
    assert desk.done(2, 60, REFUSED) == desk.done(3, 60, REFUSED) == []
    assert (len(desk.calls), desk.calls.deadline, desk.propose()) == (2, 105.0, [])
    nothing = Command(0, 0, 0, [Set("x", 1)])
    assert desk.take(nothing, Result(OK, 61), "door", "window") == []
    assert len(desk.propose()) == 1
    assert desk.done(5, 62) == [("patient", Committed(62, 100.0))]
    assert desk.calls.expired(109.0, "no majority") == [("other", Refused("somebody else holds the lock"))]
    assert len(desk.calls) == 0
    desk.add("again", patient=True, operation=lock)
    desk.propose()
    desk.done(6, 63, REFUSED)
    desk.calls.unblock()  # a snapshot does not tell what was released
    assert len(desk.propose()) == 1
    assert desk.calls.results() == [(7, 7)]
    assert desk.calls.found(7, Result(OK, 64)) == [("again", Committed(64, 100.0))]
    assert desk.calls.results() == []


def test_a_session_that_ended_takes_along_what_may_have_happened() -> None:
    desk = Desk()
    for key in "abcd":
        desk.add(key)
    assert desk.propose() == [(2, ["a", "b", "c", "d"])]
    assert desk.done(2, 60) == [("a", Committed(60, 100.0))]
    desk.calls.settle(desk.now, 2, False)
    desk.add("e")
    desk.now = 100.05
    assert desk.propose() == [(3, ["b", "c", "d", "e"])]
    assert desk.done(6, 61, EXPIRED) == [
        (key, Unknown("the session ended before an answer came")) for key in "bcd"
    ]  # fmt: skip
    assert (desk.calls.session, len(desk.calls), desk.calls.deadline) == (0, 1, -inf)
    ((commands, calls),) = desk.calls.batches(desk.now)
    assert (calls, decode_command(commands[0]).operations) == ([], [OpenSession("a life-2")])
    desk.take(Command(0, 0, 0, [OpenSession("a life-2")]), Result(OK, 9))
    assert desk.propose() == [(4, ["e"])]
    assert decode_command(desk.calls._numbered[1].encoded).session == 9
    desk.calls.proposed(99, [])
    assert desk.calls.end("closed") == [("e", Unknown("closed"))]
    never = Desk()
    never.add("f")
    assert never.calls.end("closed") == [("f", Refused("closed", unreachable=True))]


def test_a_call_that_waited_to_be_tried_again_goes_to_the_next_session_once() -> None:
    desk = Desk()
    desk.add("a")
    assert desk.propose() == [(2, ["a"])]
    desk.add("b")
    assert desk.propose() == [(3, ["b"])]
    desk.calls.settle(desk.now, 3, True)
    assert desk.done(2, 60, EXPIRED) == []
    desk.calls.batches(desk.now)
    desk.take(Command(0, 0, 0, [OpenSession("a life-2")]), Result(OK, 9))
    desk.now = 100.05
    assert desk.propose() == [(4, ["a", "b"])]
    assert desk.done(1, 61, EXPIRED) == [], "each had one try, which had no effect"


def test_a_session_whose_opening_was_in_a_snapshot_is_asked_for_again() -> None:
    desk = Desk(session=0)
    desk.add("a")
    ((opening, calls),) = desk.calls.batches(desk.now)
    desk.calls.proposed(1, calls)
    desk.calls.committed(1)  # its entry was not applied here: the state came as a snapshot
    assert desk.calls.batches(desk.now) == [(opening, [])]


def test_a_call_of_an_ended_session_takes_none_of_the_next_one_along() -> None:
    desk = Desk()
    desk.add("patient", patient=True, operation=AcquireLock("door", "me", 1000), within=5.0)
    desk.propose()
    assert desk.done(2, 60, REFUSED) == []  # somebody else holds the lock, for longer than a session lives
    desk.add("late", within=60.0)
    desk.propose()
    assert desk.done(3, 61, EXPIRED) == []
    desk.add("other", within=60.0)
    desk.calls.batches(desk.now)
    desk.take(Command(0, 0, 0, [OpenSession("a life-2")]), Result(OK, 9))
    desk.propose()  # under the serial numbers 1 and 2, as the patient call had in the session before
    assert desk.calls.expired(105.0, "no majority") == [("patient", Refused("somebody else holds the lock"))]
    assert desk.done(1, 62) + desk.done(2, 63) == [("late", Committed(62, 100.0)), ("other", Committed(63, 100.0))]


@pytest.mark.parametrize("ends_by", ["deadline", "close"])
def test_who_waits_for_a_lock_certainly_has_not_got_it(ends_by: str) -> None:
    desk = Desk()
    desk.add("patient", patient=True, operation=AcquireLock("door", "me", 1000), within=5.0)
    desk.propose()
    desk.calls.repeat()  # another leader: what the first try did is unknown, until it is answered
    desk.propose()
    assert desk.done(2, 60, REFUSED) == []
    if ends_by == "deadline":
        assert desk.calls.expired(105.0, "no majority") == [("patient", Refused("somebody else holds the lock"))]
    else:
        assert desk.calls.end("closed") == [("patient", Refused("closed", unreachable=True))]
