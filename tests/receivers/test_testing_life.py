"""The life of a receiver in `glue.testing.Context`: put away, brought back, failed, refused; and its clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import glue
from glue.testing import EPOCH, Context


class Diary(glue.Receiver):
    """Notes in its state what happens to it."""

    def __init__(self) -> None:
        self.heard = 0

    def activate(self, context: glue.Context) -> None:
        if context.state.get("sealed"):
            raise OSError("sealed")
        self.note(context, "activate")

    def receive(self, context: glue.Context, message: Any) -> Any:
        self.heard += 1
        match message:
            case {"after": seconds, "say": value, "durable": durable}:
                context.after(seconds, value, durable=durable)
            case {"keep": size}:
                context.state["kept"] = "." * size
            case "fail":
                raise ValueError("as asked")
            case "change and fail":
                self.note(context, message)
                raise ValueError("half of a change")
            case "stop":
                context.stop()
            case "who":
                return [context.id, context.address, context.is_request]
            case list():
                message.append("changed by the receiver")
                context.send("log/1", message)
                message.append("changed after it was sent")
            case _:
                self.note(context, message)
        return self.heard

    def deactivate(self, context: glue.Context) -> None:
        self.note(context, "deactivate")

    def note(self, context: glue.Context, value: Any) -> None:
        context.state["notes"] = [*context.state.get("notes", []), value]


def notes(context: Context) -> list[Any]:
    found: list[Any] = context.state.get("notes", [])
    return found


def test_it_is_put_away_with_a_farewell_and_the_next_message_brings_it_back() -> None:
    context = Context(Diary)
    context.deactivate()
    assert context.state.all() == {}, "it was not there"
    assert [context.ask("a"), context.ask("b")] == [1, 2]
    context.tell({"after": 5, "say": "late", "durable": False})
    context.deactivate()
    assert notes(context) == ["activate", "a", "b", "deactivate"]
    context.advance(10)
    assert context.ask("c") == 1, "what it did not keep is gone"
    assert notes(context) == ["activate", "a", "b", "deactivate", "activate", "c"]


def test_after_a_crash_only_one_with_a_durable_timer_is_back_at_once() -> None:
    context = Context(Diary)
    context.tell("a")
    context.restart()
    assert notes(context) == ["activate", "a"]
    context.tell({"after": 5, "say": "late", "durable": True})
    context.tell({"after": 5, "say": "lost", "durable": False})
    context.restart()
    assert notes(context) == ["activate", "a", "activate", "activate"]
    context.advance(4.5)
    context.advance(0.25)
    assert "late" not in notes(context)
    context.advance(0.25)
    assert notes(context)[-1] == "late"
    context.restart()
    assert notes(context)[-1] == "late", "the timer has had its turn"


@pytest.mark.parametrize("leaving", ["deactivate", "fail"])
def test_a_durable_timer_brings_back_a_receiver_that_is_not_in_memory(leaving: str) -> None:
    context = Context(Diary)
    context.tell("a")
    for place in range(20):  # at times that no binary fraction tells
        context.tell({"after": 0.1 * (place + 1), "say": place, "durable": True})
    if leaving == "deactivate":
        context.deactivate()
    else:
        with pytest.raises(ValueError, match="half"):
            context.tell("change and fail")
    for place in range(20):
        context.advance(0.1)
        assert notes(context)[-1] == place
    assert notes(context).count("activate") == 2


def test_timers_come_in_their_order_each_at_its_time() -> None:
    times: list[tuple[Any, float]] = []

    def receive(context: glue.Context, message: Any) -> None:
        times.append((message, box.now()))
        if message == "begin":
            for name, seconds in (("second", 2), ("first", 1), ("also second", 2), ("beyond", 3.5)):
                context.after(seconds, name)
        elif message == "first":
            context.after(1.5, "from first")

    box = Context(receive)
    box.advance(10)
    box.tell("begin")
    box.advance(3)
    assert times == [("begin", 10), ("first", 11), ("second", 12), ("also second", 12), ("from first", 12.5)]
    assert (box.now(), box.unix_time()) == (13, EPOCH + 13)
    box.advance(0.5)
    assert times[-1] == ("beyond", 13.5)


def test_a_durable_timer_rings_although_a_message_failed_that_took_it_back() -> None:
    class Alarmed:
        def receive(self, context: glue.Context, message: str) -> None:
            if message == "set":
                self.timer = context.after(5, "ring", durable=True)
            elif message == "stop":
                self.timer.stop()
                raise ValueError(message)
            elif message == "half":
                context.state["half"] = True
                raise ValueError(message)
            else:
                context.state["rung"] = True

    for failing in ("stop", "half"):
        context = Context(Alarmed)
        context.tell("set")
        with pytest.raises(ValueError, match=failing):
            context.tell(failing)
        context.advance(5)
        assert context.state.all() == {"rung": True}


def test_what_a_receiver_raises_reaches_the_test_once_and_is_noted() -> None:
    context = Context(Diary)
    for say in (context.tell, context.ask):
        with pytest.raises(ValueError, match="as asked"):
            say("fail")
    assert [type(error) for error in context.errors] == [ValueError, ValueError]
    assert context.ask("a") == 3, "it goes on, and nothing is raised for an earlier message"
    context.tell({"after": 1, "say": "fail", "durable": False})
    with pytest.raises(ValueError, match="as asked"):
        context.advance(2)


class Fickle(glue.Receiver):
    """Does what the message says; `noted` has each "note"."""

    noted: ClassVar[list[str]] = []
    timer: Any = None

    def receive(self, context: glue.Context, message: Any) -> Any:
        match message:
            case "become":
                context.become(lambda context, message: "another")
            case "set":
                self.timer = context.after(5, "note", durable=True)
            case "take back":
                self.timer.stop()
            case "note":
                self.noted.append(message)
        return None


def test_after_a_crash_a_receiver_handles_messages_as_at_its_beginning() -> None:
    context = Context(Fickle)
    context.tell("become")
    assert context.ask("note") == "another"
    context.restart()
    assert context.ask("note") is None


def test_a_durable_timer_that_was_taken_back_does_not_come_after_a_crash() -> None:
    Fickle.noted.clear()
    context = Context(Fickle)
    for message in ("set", "take back"):
        context.tell(message)
    context.restart()
    context.advance(10)
    assert Fickle.noted == []


def test_a_receiver_that_cannot_begin_is_tried_anew_with_the_next_message() -> None:
    context = Context(Diary, state={"sealed": True})
    for _ in range(2):
        with pytest.raises(OSError, match="sealed"):
            context.tell("a")
    assert context.state.all() == {"sealed": True}
    context.document = {"state": {}}
    assert context.ask("a") == 1


def test_what_is_too_large_to_be_kept_is_refused_and_the_former_state_stays() -> None:
    context = Context(Diary)
    context.tell("a")
    with pytest.raises(glue.GlueError, match="bytes"):
        context.ask({"keep": 2_000_000})
    assert context.state.all() == {"notes": ["activate", "a"]}
    assert context.ask("b") == 1
    assert notes(context) == ["activate", "a", "activate", "b"]


def test_coroutines_that_fail_fail_their_message_alone() -> None:
    class Slow:
        async def receive(self, context: glue.Context, message: Any) -> Any:
            if message == "fail":
                raise LookupError("no such thing")
            if message == "later":
                context.after(1, "fail", durable=True)
                return None
            return [message, await context.request("k/1", message)]

    context = Context(Slow)
    context.answers["k/1"] = str.upper
    with pytest.raises(LookupError, match="no such thing"):
        context.ask("fail")
    assert context.ask("x") == ["x", "X"]
    context.tell("later")
    assert len((context.document or {})["timers"]) == 1
    with pytest.raises(LookupError, match="no such thing"):
        context.advance(1)
    assert context.document == {"state": {}, "timers": []}, "the timer has had its turn"
    with pytest.raises(glue.GlueError, match=r"no answer for 'k/2'; set context.answers\['k/2'\]"):
        Context(lambda context, message: context.request("k/2", message)).ask(1)


def test_state_messages_and_documents_are_copies() -> None:
    given: dict[str, Any] = {"notes": []}
    context = Context(Diary, state=given)
    message = ["a"]
    context.tell(message)
    context.tell("b")
    assert (given, message) == ({"notes": []}, ["a"])
    assert context.sent == [("log/1", ["a", "changed by the receiver"])]
    seen = context.state
    context.tell("c")
    assert seen.get("notes") == ["activate", "b"]


def test_it_has_the_id_and_the_kind_that_the_test_gives() -> None:
    assert Context(Diary).ask("who") == ["test", "test/test", True]
    assert Context(Diary, "7", kind="diary").ask("who") == ["7", "diary/7", True]
    with pytest.raises(glue.ConfigurationError, match="address"):
        Context(lambda context, message: context.send("nowhere", message)).tell(1)
    with pytest.raises(glue.PayloadError):
        Context(lambda context, message: context.send("log/1", object())).tell(1)


def test_a_context_ends_with_its_message() -> None:
    kept: list[glue.Context] = []
    box = Context(lambda context, message: kept.append(context))
    box.tell("a")
    with pytest.raises(glue.GlueError, match="a message that was handled"):
        kept[0].send("log/1", "late")
    assert box.sent == []


@dataclass
class Add:
    number: int


def test_typed_messages_arrive_as_their_types() -> None:
    class Typed(glue.Receiver):
        messages = (Add,)

        def receive(self, context: glue.Context, message: Any) -> Any:
            return message.number + 1 if isinstance(message, Add) else repr(message)

    assert Context(Typed).ask(Add(4)) == 5
    assert Context(Typed).ask({"number": 4}) == "{'number': 4}"
    assert Context(lambda context, message: type(message).__name__, messages=(Add,)).ask(Add(4)) == "Add"
    assert Context(lambda context, message: type(message).__name__).ask(Add(4)) == "dict"
