"""The mergeable part of a group on its own: what each question is answered, what goes to disk, and who is refused."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random
from typing import Any

import orjson
import pytest

from glue.contract import Delivery, Options
from glue.errors import ModelError
from glue.model.mergeable import Delta
from glue.model.mergeable import part as module
from glue.model.mergeable.context import Context
from glue.model.mergeable.part import Mergeable
from glue.model.mergeable.store import Store
from glue.model.mergeable.wire import Digest, Message, Pull, Push, decode, encode
from glue.model.questions import Committed, Found, Read, Refused, Synchronize, Unknown, Unwatch, Write
from glue.model.state import Change, Delete, Expect, ExpectRevision, Pattern, Set, Update
from tests.model.mergeable.stores import PREFIXES, store

AT = 1_700_000_000.0
OTHER = "b" * 16
ALONE = "no other endpoint of the model is in reach"
approx = pytest.approx


class File:
    """A file of deltas that notes what is done to it."""

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.is_outdated = False
        self.is_whole = True

    def append(self, data: bytes) -> None:
        self.did.append(decode(PREFIXES, data))

    def replace(self, deltas: list[bytes]) -> None:
        self.did.append([decode(PREFIXES, data) for data in deltas])
        self.is_outdated, self.is_whole = False, True

    def sync(self) -> None:
        self.did.append("sync")


class Trial:
    """A part at time 100 that another replica sends messages to."""

    def __init__(self, durable: bool = False, deltas: tuple[Delta, ...] = ()) -> None:
        self.counts = Counter[str]()
        self.file = File() if durable else None
        file: Any = self.file
        self.part = Mergeable(PREFIXES, file, deltas, "m", self.counts, Random(1), 100.0, AT)
        self.part.store.is_watched = True
        self.answers: list[Any] = []
        self.part.receive(100.0, [], [])

    def ask(self, now: float, question: Any, token: Any = "token", deadline: float = 200.0) -> list[Change]:
        """Ask at a time; returns the changes, and notes the answers."""
        answers, changes = self.part.ask(now, AT + now - 100.0, token, question, deadline)
        self.answers += [(one.token, one.answer) for one in answers]  # type: ignore[union-attr]
        return changes

    def write(self, now: float, *operations: Any, token: Any = "token") -> list[Change]:
        """Write at a time."""
        return self.ask(now, Write(operations), token)

    def turn(self, now: float, *messages: Message | bytes, sender: str = OTHER) -> tuple[list[Change], list[Any]]:
        """A turn with these messages; returns the changes, and the topics and messages that leave."""
        data = [one if isinstance(one, bytes) else encode(PREFIXES, one) for one in messages]
        up: list[Any] = []
        found = [Delivery("m", data, None, "other", sender, 1, 1, 0.0, False, ())] if data else []
        changes, requests = self.part.receive(now, found, up)
        self.answers += [(one.token, one.answer) for one in up]
        sent: list[Any] = [(one.topic, decode(PREFIXES, *one.payloads)) for one in requests]  # type: ignore[union-attr]
        return changes, sent

    def told(self) -> list[Any]:
        """The answers since the last time."""
        answers, self.answers = self.answers, []
        return answers


def like(one: Store, asks: bool = False) -> Digest:
    """The digest of a replica with the same state."""
    return Digest(asks, one.context.copy(), one.mark)


def filled(number: int = 2, *operations: Any) -> Store:
    """Another replica that wrote something."""
    made = store(number)
    made.write(1, operations or [Update("c/1", 5)])
    return made


def test_each_question_is_for_this_part_or_for_the_majority() -> None:
    part = Trial().part
    for question, concerns in (
        (Synchronize(), True), (Read("c/#"), True), (Read("#"), False), (Read("x"), False), (Unwatch(1), False),
        (Write([Update("c/1", 1), Set("m/1", 2)]), True), (Write([Delete("x"), Set("y", 1)]), False),
        (Write([Expect("r/1", 1)]), True), (Write([ExpectRevision("r/1", 1)]), True), (Write([]), False),
    ):  # fmt: skip
        assert part.concerns(question) is concerns
    with pytest.raises(ModelError, match=r"^'c/1' is mergeable, others are not: they change one without another$"):
        part.concerns(Write([Set("x", 1), Update("c/1", 1), Set("y", 1)]))


def test_without_a_disk_a_write_is_done_at_once_and_a_read_finds_it() -> None:
    trial = Trial()
    changes = trial.write(101.0, Update("c/1", 5), Set("s/1", ["b", "a"]), Set("m/1", None))
    assert changes == [
        Change("c/1", b"5", 0, True, False), Change("s/1", b'["a","b"]', 0, True, False),
        Change("m/1", b"null", 0, True, False),
    ]  # fmt: skip
    assert trial.write(101.0, Set("m/1", None)) == [], "it has the same value"
    trial.ask(101.0, Read("c/#"))
    assert trial.told() == [
        ("token", Committed(0)), ("token", Committed(0)), ("token", Found([Change("c/1", b"5", 0, True, False)])),
    ]  # fmt: skip
    assert trial.part.deadline == -inf
    _, ((topic, message), *_) = trial.turn(101.0)
    assert (topic, sorted(message.delta.events)) == ("m", ["c/1", "m/1", "s/1"])


def test_messages_need_no_order_and_are_of_no_use_after_ten_seconds() -> None:
    trial = Trial()
    trial.write(101.0, Update("c/1", 5))
    _, (request, *_) = trial.part.receive(101.0, [], [])
    assert request.options == Options(lifespan=10.0, ordered=False)  # type: ignore[union-attr]
    assert (request.published_at, request.json) == (0.0, False)  # type: ignore[union-attr]
    assert trial.part.topics(OTHER) == ["m", f"m/{OTHER}"]
    _, ((topic, _),) = trial.turn(101.0, Pull(Context()))
    assert topic == f"m/{OTHER}"


def test_with_a_disk_writes_are_answered_after_one_sync_for_all() -> None:
    trial = Trial(durable=True)
    trial.write(101.0, Update("c/1", 5), token=1)
    trial.write(101.0, Update("c/2", 6), token=2)
    assert trial.file is not None
    assert (trial.told(), len(trial.file.did), trial.part.deadline) == ([], 2, -inf)
    trial.turn(101.0)
    assert trial.told() == [(1, Committed(0)), (2, Committed(0))]
    assert [sorted(one.delta.events) for one in trial.file.did[:2]] == [["c/1"], ["c/2"]]
    assert trial.file.did[2:] == ["sync"]
    trial.turn(101.0)
    assert (trial.told(), len(trial.file.did)) == ([], 3)


def test_what_others_wrote_is_kept_once_and_no_disk_waits_for_it() -> None:
    trial = Trial(durable=True)
    assert trial.file is not None
    push = Push(filled().whole())
    assert trial.turn(101.0, push)[0] == [Change("c/1", b"5", 0, True, False)]
    assert [sorted(one.delta.events) for one in trial.file.did] == [["c/1"]]
    assert trial.turn(102.0, push)[0] == []
    assert len(trial.file.did) == 1


def test_an_outdated_file_is_replaced_by_the_whole_state_and_one_that_was_full_too() -> None:
    trial = Trial(durable=True)
    assert trial.file is not None
    trial.write(101.0, Update("c/1", 5))
    trial.turn(101.0)
    trial.write(101.0, Update("c/2", 5))
    trial.file.did.clear()
    trial.file.is_outdated = True
    trial.turn(101.0)
    ((whole,), sync) = trial.file.did
    assert (sorted(whole.delta.events), sync) == (["c/1", "c/2"], "sync")
    trial.file.did.clear()
    trial.part.recover()
    assert trial.file.did == []
    trial.file.is_whole = False
    trial.part.recover()
    ((whole,),) = trial.file.did
    assert sorted(whole.delta.events) == ["c/1", "c/2"]
    Trial().part.recover()


def test_what_the_file_had_is_there_from_the_beginning() -> None:
    trial = Trial(deltas=(filled().whole(), filled(3, Set("r/1", 7)).whole()))
    assert [change.key for change in trial.part.match(Pattern("#"))] == ["c/1", "r/1"]
    late = store(4)
    late.write(int(AT * 1000) + 5_000, [Set("r/2", 1)])
    again = Trial(deltas=(late.whole(),))
    assert again.counts == {}, "its clock is compared with the wall clock"
    again.write(100.0, Set("r/2", 2))
    assert again.part.store._values["r/2"].events.popitem()[1][0] == (int(AT * 1000) + 5_000, 1)


def test_stamps_follow_the_wall_clock_of_the_last_question() -> None:
    trial = Trial()

    token: Any = "token"

    def stamp() -> Any:
        return next(iter(trial.part.store._values["r/1"].events.values()))[0]

    trial.write(101.5, Set("r/1", 1))
    assert stamp() == (int(AT * 1000) + 1500, 0)
    trial.part.ask(102.0, AT + 60.0, token, Read("r/1"), 200.0)
    writer = store(9)
    writer.write(int(AT * 1000) + 72_000, [Set("r/1", 2)])
    trial.turn(104.0, Push(writer.whole()))
    assert trial.counts["events merged of a clock that is far ahead"] == 0
    writer.write(int(AT * 1000) + 72_001, [Set("r/1", 2)])
    trial.turn(104.0, Push(writer.whole()))
    assert trial.counts["events merged of a clock that is far ahead"] == 1


def test_who_synchronizes_asks_at_once_and_each_half_second_and_waits_for_agreement() -> None:
    trial = Trial()
    part = trial.part
    trial.turn(101.0)
    part._exchange.agreed = True
    trial.ask(101.0, Synchronize(), 1)
    trial.ask(101.0, Synchronize(), 2)
    assert part.deadline == 101.0, "agreement from before does not count"
    asked = ("m", Digest(True, Context(), 0))
    sent = [(now, trial.turn(now)[1].count(asked)) for now in (101.0, 101.25, 101.4375, 101.5, 101.75, 102.0)]
    assert sent == [(101.0, 1), (101.25, 0), (101.4375, 0), (101.5, 1), (101.75, 0), (102.0, 1)]
    trial.turn(102.1, Digest(False, filled().context, 7))
    assert trial.told() == []
    trial.turn(102.2, like(part.store))
    assert trial.told() == [(1, Found([])), (2, Found([]))]
    assert trial.turn(103.0)[1].count(asked) == 0
    assert part.deadline > 103.0


def test_who_finds_nobody_to_synchronize_with_is_told_why_at_its_deadline() -> None:
    trial = Trial()
    trial.ask(101.0, Synchronize(), 1, 101.25)
    trial.ask(101.0, Synchronize(), 2, 102.25)
    trial.turn(101.0)
    assert trial.part.deadline <= 101.25
    trial.turn(101.24)
    assert trial.told() == []
    trial.turn(101.25)
    assert trial.told() == [(1, Refused(ALONE, unreachable=True))]
    trial.turn(102.0, b'["0","pull",{}]')
    trial.turn(102.25)
    ((token, ending),) = trial.told()
    assert (token, ending.unreachable) == (2, True)
    assert ending.reason == (
        f"{ALONE} that agrees: others have opened it with another mergeable=, which must be the same at all endpoints"
    )
    assert ("m", Digest(True, Context(), 0)) not in trial.turn(110.0)[1]
    assert trial.counts["messages of replicas with other mergeable prefixes"] == 1
    assert trial.part.deadline > 110.0


def test_an_answer_to_a_pull_is_agreement_too() -> None:
    trial, other = Trial(), filled()
    trial.ask(101.0, Synchronize())
    trial.turn(101.0, Push(other.whole()))
    assert trial.told() == []
    trial.turn(101.0, Push(other.whole(), other.mark))
    assert trial.told() == [("token", Found([]))]


def test_before_the_first_question_the_clock_is_the_one_of_the_start() -> None:
    trial, writer = Trial(), store(9)
    for ahead, count in ((10_000, 0), (10_001, 1)):
        writer.write(int(AT * 1000) + ahead, [Set("r/1", 2)])
        trial.turn(100.0, Push(writer.whole()))
        assert trial.counts["events merged of a clock that is far ahead"] == count


def test_65536_calls_wait_at_once() -> None:
    assert module.WAITING == 65_536
    trial = Trial(durable=True)
    trial.part._unsynced = ["write"] * 65_534  # type: ignore[list-item]
    trial.ask(101.0, Synchronize())
    assert trial.told() == []
    trial.write(101.0, Update("c/1", 1))
    assert trial.told() == []
    assert trial.write(101.0, Update("c/1", 1), token="late") == []
    trial.ask(101.0, Read("c/1"), "read")
    assert trial.told() == [(token, Refused("more than 65536 calls wait")) for token in ("late", "read")]


def test_all_that_waits_ends_when_the_model_does() -> None:
    trial = Trial(durable=True)
    trial.write(101.0, Update("c/1", 1), token=1)
    trial.ask(101.0, Synchronize(), 2)
    ending = Unknown("closed")
    assert [(one.token, one.answer) for one in trial.part.end(ending)] == [(1, ending), (2, ending)]  # type: ignore[union-attr]
    assert trial.part.end(ending) == []


def claiming(trial: Trial, number: int) -> Context:
    """A context that claims more writes of this replica than it made."""
    return Context({trial.part.store.life: [1, number + 1]})


@pytest.mark.parametrize("in_delta", [True, False])
def test_writes_move_to_a_new_life_when_another_claims_writes_that_were_never_made(in_delta: bool) -> None:
    trial = Trial(durable=True)
    trial.write(101.0, Update("c/1", 5))
    trial.turn(101.0)
    assert trial.file is not None
    trial.file.did.clear()
    lives = [trial.part.store.life]

    def claim(now: float, number: int) -> list[Any]:
        context = claiming(trial, number)
        message = Push(Delta(context, {}, claiming(trial, 1))) if in_delta else Digest(False, context, 0)
        sent = trial.turn(now, message)[1]
        lives.append(trial.part.store.life)
        return [one for _, one in sent if isinstance(one, Push)]

    assert claim(102.0, 1) == [], "as many as it made"
    assert trial.counts["writes of ours that we never made"] == 0
    (push,) = claim(103.0, 2)
    assert [dot[0] for dot, _ in push.delta.events["c/1"]] == [lives[2]]
    assert [sorted(one.delta.events) for one in trial.file.did if one.delta.events] == [["c/1"]]
    assert claim(162.9, 2) == []
    assert claim(163.0, 2) != []
    assert trial.counts["writes of ours that we never made"] == 3
    assert len(set(lives)) == 3
    assert lives[0] == lives[1]
    assert lives[2] == lives[3]
    trial.ask(163.0, Read("c/1"))
    assert trial.told()[-1][1].entries[0].value == 5


def test_a_new_life_without_writes_is_not_told_to_anybody() -> None:
    trial = Trial(durable=True)
    life = trial.part.store.life
    _, sent = trial.turn(101.0, Digest(True, claiming(trial, 5), 0))
    assert trial.part.store.life != life
    assert not any(isinstance(one, Push) for _, one in sent)
    assert trial.file is not None
    assert trial.file.did == []


def test_each_message_is_counted_with_its_fault_and_the_others_are_taken() -> None:
    trial = Trial()
    writer = filled()
    mark = PREFIXES.mark
    too_far = orjson.dumps([mark, "pull", {"a" * 16: [1, (1 << 40) + 1]}])
    stamped = orjson.dumps([mark, "delta", [{"a" * 16: [1, 2]}, {"r/1": [["a" * 16, 1, [1 << 42, 0, 1]]]}, {}]])
    changes, _ = trial.turn(101.0, b"x", too_far, stamped, b'["0","pull",{}]', Push(writer.whole()))
    assert [change.key for change in changes] == ["c/1"]
    assert trial.counts == {
        "messages of mergeable keys": 5,
        "malformed messages of mergeable keys": 1,
        "messages refused: writes or stamps too far ahead": 2,
        "messages of replicas with other mergeable prefixes": 1,
    }
    trial.part.receive(101.0, [Delivery("m", [{"a": 1}], None, "o", OTHER, 1, 1, 0.0, False, ())], [])
    assert trial.counts["malformed messages of mergeable keys"] == 2


def test_a_refused_delta_changes_and_answers_nothing() -> None:
    trial = Trial()
    bad = Delta(Context(), {}, Context({"a" * 16: [1, 2]}))
    trial.ask(101.0, Synchronize(), 1)
    assert trial.turn(101.0, Push(bad, 0))[0] == []
    assert trial.told() == []
    assert trial.counts["deltas refused: meant for another life"] == 1


def test_conflicts_are_shown_by_key() -> None:
    trial = Trial()
    trial.write(101.0, Set("m/1", 1), Set("m/2", 1))
    changes, _ = trial.turn(101.0, Push(filled(2, Set("m/1", 2), Set("m/2", 1)).whole()))
    assert changes == [Change("m/1", b"[1,2]", 0, True, True)]
    assert trial.part.conflicts("m/+") == {"m/1": [b"1", b"2"]}
    assert trial.part.conflicts("m/2") == {}
    with pytest.raises(ModelError):
        trial.part.conflicts("m/#/x")


def test_a_newcomer_gets_a_digest_soon() -> None:
    trial = Trial()
    now = 100.0
    while now < 160.0:
        now = trial.part.deadline
        trial.turn(now)
    trial.part.meet(now + 0.01)
    assert trial.part.deadline <= now + 0.01 + 0.2
