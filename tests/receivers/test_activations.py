"""One receiver in memory, message by message: what is loaded, written, remembered and told, with a driver by hand."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.receivers import activation as module
from glue.receivers.activation import Activation, typed
from glue.receivers.context import Call, Load, Mail, Save, TimerMail, Wake

SENDER = "peer/1"


class Batch:
    """A batch of another endpoint, which notes what became of its messages."""

    def __init__(self, sender: str = SENDER) -> None:
        self.sender = sender
        self.told: list[tuple[int, str, Any]] = []

    def settled(self, mail: Mail, error: BaseException | None, answer: Any) -> None:
        self.told.append((mail.seq, str(error or ""), answer))


class Stage:
    """A receiver, its surroundings, and the document that it has in a store."""

    kind = ":sum"

    def __init__(self, document: Any = None, **attributes: Any) -> None:
        self.document = document
        self.types: dict[str, Any] = {}
        self.steps: list[Any] = []
        self.did: list[Any] = []
        self.got: list[Any] = []
        self.requests: list[bool] = []
        self.answers: dict[Any, Any] = {}
        stage = self

        class Receiver:
            def receive(self, context: glue.Context, message: Any) -> Any:
                stage.got.append(message)
                stage.requests.append(context.is_request)
                if message == "fail":
                    raise ValueError("as asked")
                if isinstance(message, dict):
                    for name, value in message.items():
                        context.state[name] = value
                if message in ("send", "keep and send"):
                    context.send("sum/y", 1)
                if message == "keep and send":
                    context.state["kept"] = 1
                if message == "become":
                    context.become(lambda context, message: stage.got.append(f"become {message}"))
                if message == "spill":
                    context.send("sum/y", 3)
                    raise ValueError("spilt")
                if message == "after":
                    context.after(5, "late", durable=True)
                if message == "half":
                    context.state["half"] = 1
                    context.send("sum/y", 2)
                    raise ValueError("half")
                return stage.answers.get(message if isinstance(message, str) else "")

        for name, value in attributes.items():
            setattr(Receiver, name, value)
        self.factory = Receiver
        surroundings: Any = self
        self.activation = Activation(surroundings, "x", 0, 100.0)

    def now(self) -> float:
        return 100.0

    def unix_time(self) -> float:
        return 1100.0

    def arm(self, timer: Any) -> None:
        self.did.append(("arm", timer.due))

    def check_send(self, address: str, payload: Any) -> tuple[str, Any]:
        return address, payload

    def send(self, address: str, payload: Any) -> None:
        self.did.append(("send", address, payload))

    def plain(self, payload: Any) -> Any:
        return payload

    def failed(self, activation: Activation, payload: Any, error: BaseException, policy: str) -> None:
        self.did.append(("failed", payload, str(error), policy))

    def run(self, steps: Any) -> list[str]:
        """Do the steps; returns their names."""
        names, value = [], None
        try:
            while steps is not None:
                step = steps.send(value)
                value = None
                names.append(type(step).__name__)
                if isinstance(step, Load):
                    value = deepcopy(self.document)
                elif isinstance(step, Save):
                    self.document = {**step.document, "has timers": step.has_timers}
                    self.did.append("saved")
        except StopIteration:
            pass
        return names

    def take(self, mail: Any) -> list[str]:
        return self.run(self.activation.take(mail))


def test_a_value_that_is_null_can_be_removed_for_good() -> None:
    stage = Stage({"state": {"a": None, "b": 1}}, receive=lambda self, context, message: context.state.delete(message))
    assert stage.take("a") == ["Load", "Save"]
    assert stage.document == {"state": {"b": 1}, "has timers": False}
    assert stage.take("a") == [], "nothing is written if there is none"


def test_the_first_message_loads_and_what_changed_is_written_before_anything_leaves() -> None:
    stage = Stage({"state": {"a": 1}, "seen": {"other/1": [4]}})
    batch = Batch()
    assert stage.take(Mail({"b": 2}, batch, 5)) == ["Load", "Save"]
    assert stage.document == {
        "state": {"a": 1, "b": 2}, "seen": {"other/1": [4], SENDER: [5, None]}, "has timers": False,
    }  # fmt: skip
    assert batch.told == [(5, "", None)]
    assert stage.take("plain") == []
    assert stage.take("send") == []
    assert stage.did == ["saved", ("send", "sum/y", 1)]
    assert stage.take(Wake(None)) == []
    assert stage.got == [{"b": 2}, "plain", "send"]
    assert stage.take("keep and send") == ["Save"]
    assert stage.did[2:] == ["saved", ("send", "sum/y", 1)]
    timer = stage.activation.add_timer(5.0, "ring", True)
    assert [stage.take("send"), stage.take("send")] == [["Save"], []], "a timer is written once"
    timer.stop()
    stage.take("become")
    stage.take("next")
    stage.activation.forget()
    stage.take("again")
    assert stage.got[-3:] == ["become", "become next", "again"], "a receiver that begins anew has its first handler"
    assert stage.activation.address == "sum/x"


def test_a_message_that_comes_again_is_answered_as_before_if_that_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    stage.answers = {"small": "yes", "large": "x" * 1001}
    batch = Batch()
    for seq, message in ((1, "small"), (2, "large"), (3, "small")):
        stage.take(Call(message, batch=batch, seq=seq))
    assert stage.activation.seen == {SENDER: [3, "yes"]}
    forgotten = "it handled this request before, and has forgotten the answer"
    batch.told.clear()
    for mail in (Call("small", batch=batch, seq=3), Call("small", batch=batch, seq=2), Mail("small", batch, 1)):
        assert stage.take(mail) == []
    assert batch.told == [(3, "", "yes"), (2, forgotten, None), (1, "", "yes")]
    assert len(stage.got) == 3
    stage.take(Call("large", batch=batch, seq=4))
    batch.told.clear()
    stage.take(Call("large", batch=batch, seq=4))
    assert batch.told == [(4, forgotten, None)]
    for seq, (answer, is_remembered) in enumerate(
        ((None, True), (5, True), (True, True), ("x" * 997, True), ("x" * 998, False), (b"", False), ([1], True)), 5
    ):  # fmt: skip
        stage.answers["any"] = answer
        stage.take(Call("any", batch=batch, seq=seq))
        assert (stage.activation.seen or {})[SENDER] == ([seq, answer] if is_remembered else [seq])


def test_so_many_senders_are_remembered_and_the_one_heard_longest_ago_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (module.SENDERS, module.UNORDERED, module.REMEMBERED) == (256, 128, 1000)
    monkeypatch.setattr(module, "SENDERS", 2)
    monkeypatch.setattr(module, "UNORDERED", 1)
    stage = Stage()
    for sender, seq in (("a", 1), ("b", 1), ("a", 2), ("c", 1)):
        stage.take(Mail("m", Batch(sender), seq))
    assert stage.activation.seen == {"a": [2, None], "c": [1, None]}


def test_a_failing_handler_is_told_and_a_half_change_is_dropped() -> None:
    for policy in ("drop", "restart", "park"):
        stage = Stage({"state": {"a": 1}}, on_error=policy)
        batch = Batch()
        stage.take(Mail("fail", batch, 1))
        assert stage.did == [("failed", "fail", "as asked", policy)]
        assert batch.told == [(1, "as asked", None)]
        is_kept = policy != "restart"
        assert (stage.activation.receiver is not None) == is_kept
        assert stage.activation.seen == ({SENDER: [1]} if is_kept else None)
        assert stage.take("fail") == ([] if is_kept else ["Load"])
        assert stage.take("half") == ([] if is_kept else ["Load"])
        assert stage.activation.receiver is None  # what is in memory may be half of a change
        assert ("send", "sum/y", 2) not in stage.did
        assert stage.take("plain") == ["Load"]
        assert stage.document == {"state": {"a": 1}}


def test_nothing_of_a_message_passes_on_to_the_next_one() -> None:
    stage = Stage()
    for message in (
        "plain",
        Call("ask"),
        "plain",
        Mail("plain", Batch(), 1),
        Call("ask", is_request=False),
        "spill",
        "send",
    ):
        stage.take(message)
    assert stage.requests == [False, True, False, False, False, False, False]
    assert [one for one in stage.did if one[0] == "send"] == [("send", "sum/y", 1)]


def test_calls_that_are_too_late_are_not_handled() -> None:
    stage = Stage()
    told: list[Any] = []
    for until in (99.0, 100.0, 100.1):
        stage.take(Call(until, lambda error, answer: told.append((error, answer)), until=until))
    assert (stage.got, told) == ([100.1], [(None, None)] * 3)


def test_durable_timers_are_read_rung_once_and_written() -> None:
    stage = Stage({"timers": [[1105.0, "later"], [1050.0, "missed"]]})
    assert stage.take(Wake(None)) == ["Load"]
    assert stage.did == [("arm", 105.0), ("arm", 100.0)]
    timers = stage.activation.timers
    assert timers is not None
    assert (timers.is_changed, [*timers.by_number], timers.next) == (False, [1, 2], 3)
    assert all(one.is_durable for one in timers.by_number.values())
    missed = timers.by_number[2]
    mail = stage.activation.rung(missed)
    assert mail is not None
    assert stage.take(mail) == ["Save"]
    assert stage.got == ["missed"]
    assert stage.document == {"state": {}, "timers": [[1105.0, "later"]], "has timers": True}
    assert stage.activation.rung(missed) is None
    later = timers.by_number[1]
    waiting = TimerMail(later)
    later.reset(9.0)
    assert stage.take(waiting) == []  # it was reset while its message waited
    assert stage.got == ["missed"]
    assert (timers.is_changed, stage.did[-1]) == (True, ("arm", 109.0))
    later.stop()
    assert (timers.by_number, stage.activation.durable_timers()) == ({}, [])
    assert stage.take("plain") == []
    stage.take({"a": 1})
    assert stage.document == {"state": {"a": 1}, "has timers": False}


def test_a_durable_timer_whose_message_fails_has_had_its_turn() -> None:
    stage = Stage({"state": {"a": 1}, "timers": [[1050.0, "fail"], [1060.0, "other"], [1070.0, "fail"]]})
    stage.take(Wake(None))
    timers = stage.activation.timers
    assert timers is not None
    assert stage.take(TimerMail(timers.by_number[1])) == ["Load", "Save"]
    assert stage.document == {
        "state": {"a": 1}, "timers": [[1060.0, "other"], [1070.0, "fail"]], "has timers": True,
    }  # fmt: skip
    assert stage.activation.receiver is None  # as its timers had changed
    assert [one for one in stage.did if one[0] == "failed"] == [("failed", "fail", "as asked", "drop")]
    stage.document = {"timers": [[1170.0, "fail"], [1050.0, "fail"]]}
    stage.take(Wake(None))
    assert stage.activation.timers is not None
    stage.take(TimerMail(stage.activation.timers.by_number[2]))
    assert stage.document["timers"] == [[1170.0, "fail"]], "of two alike, the one that is due"
    stage.document = {}
    stage.take(Wake(None))
    timer = stage.activation.add_timer(0.0, "fail", True)
    assert stage.take(TimerMail(timer)) == ["Load"]  # it was not written yet


def test_a_durable_timer_is_written_once_and_not_with_each_message_after_it() -> None:
    stage = Stage()
    assert [stage.take(message) for message in ("after", "plain", "send")] == [["Load", "Save"], [], []]
    assert stage.document == {"state": {}, "timers": [[1105.0, "late"]], "has timers": True}


def test_a_receiver_that_is_put_away_writes_and_rests_with_nothing() -> None:
    stage = Stage({"state": {"a": 1}}, deactivate=lambda self, context: context.state.__setitem__("b", 2))
    assert stage.run(stage.activation.deactivate()) == []
    stage.take("plain")
    stage.activation.is_stopping = True
    assert stage.run(stage.activation.deactivate()) == ["Save"]
    assert (stage.document["state"], stage.activation.receiver, stage.activation.is_stopping) == (
        {"a": 1, "b": 2}, None, False,
    )  # fmt: skip
    stage = Stage(activate=lambda self, context: context.state.__setitem__("a", 0))
    assert stage.take("plain") == ["Load", "Save"]
    context = stage.activation.context
    assert context is not None
    stage.activation.rest()
    assert (stage.activation.context, stage.activation.mailbox) == (None, None)
    with pytest.raises(glue.GlueError, match="each message brings its own"):
        context.reply(1)


def test_a_further_message_of_a_sender_is_handled_at_once_and_known_again() -> None:
    stage, batch = Stage(), Batch()
    assert stage.take(Mail("first", batch, 1)) == ["Load"]
    assert stage.activation.take(Mail("second", batch, 2)) is None
    assert stage.activation.seen == {SENDER: [2, None]}
    assert stage.take(Mail("second", batch, 2)) == []
    assert stage.got == ["first", "second"]
    assert batch.told == [(1, "", None), (2, "", None), (2, "", None)]
    stage.activation.seen = None
    assert stage.take(Mail("third", Batch("other/1"), 1)) == []
    assert stage.activation.seen == {"other/1": [1, None]}


def test_a_receiver_that_cannot_begin_says_so_and_begins_anew() -> None:
    def activate(self: Any, context: glue.Context) -> None:
        raise ValueError("not today")

    stage = Stage(activate=activate)
    for _ in range(2):
        with pytest.raises(ValueError, match="not today"):
            stage.take("plain")
        assert (stage.activation.receiver, stage.got) == (None, [])
    stage = Stage(activate=lambda self, context: 5, deactivate=lambda self, context: 5)
    assert stage.take("plain") == ["Load"]  # what they return is no matter unless it can be awaited
    assert stage.run(stage.activation.deactivate()) == []
    assert stage.activation.receiver is None


def test_typed_messages_have_one_name() -> None:
    types: dict[str, Any] = {"Add": lambda fields: ("add", fields)}
    payloads = [{"Add": 1}, {"Sub": 1}, {"Add": 1, "b": 2}, ["Add"], SimpleNamespace()]
    assert [typed(one, types) for one in payloads] == [("add", 1), *payloads[1:]]
