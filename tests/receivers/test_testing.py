"""Receivers alone, in `glue.testing.Context`."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.testing import Context


class Account(glue.Receiver):
    """Keeps a sum."""

    def receive(self, context: glue.Context, message: Any) -> Any:
        match message:
            case {"add": number}:
                context.state["sum"] = context.state.get("sum", 0) + number
                context.send("log/1", number)
                return context.state["sum"]
            case "fail":
                context.state["sum"] = -1
                context.send("log/1", "never")
                raise ValueError("no")
            case {"after": seconds, "durable": durable}:
                context.after(seconds, {"add": 100}, durable=durable)
            case "stop":
                context.stop()
            case {"ask": address}:
                return context.request(address, "q")
        return None

    def deactivate(self, context: glue.Context) -> None:
        context.state["ended"] = True


def test_state_and_messages_leave_together() -> None:
    context = Context(Account)
    assert [context.ask({"add": 1}), context.ask({"add": 2})] == [1, 3]
    assert context.sent == [("log/1", 1), ("log/1", 2)]
    assert context.state.all() == {"sum": 3}


def test_a_failed_message_changes_nothing() -> None:
    context = Context(Account, state={"sum": 5})
    with pytest.raises(ValueError, match="no"):
        context.ask("fail")
    assert context.ask({"add": 1}) == 6
    assert context.sent == [("log/1", 1)]


def test_timers_come_in_time_and_durable_ones_survive() -> None:
    context = Context(Account)
    context.tell({"after": 10, "durable": False})
    context.advance(9.9)
    assert context.state.get("sum") is None
    context.advance(0.2)
    assert context.state.get("sum") == 100
    context.tell({"after": 10, "durable": False})
    context.tell({"after": 20, "durable": True})
    context.restart()
    context.advance(30)
    assert context.state.get("sum") == 200


def test_a_timer_is_stopped_and_reset() -> None:
    timers: list[Any] = []

    def receive(context: glue.Context, message: Any) -> None:
        if message == "begin":
            timers.append(context.after(1, "one"))
            timers.append(context.after(1, "two"))
        else:
            context.send("log/1", message)

    context = Context(receive)
    context.tell("begin")
    timers[0].stop()
    timers[1].reset(5)
    context.advance(4)
    assert context.sent == []
    context.advance(1)
    assert context.sent == [("log/1", "two")]


def test_stop_puts_it_away_and_the_next_message_brings_it_back() -> None:
    context = Context(Account)
    context.tell("stop")
    assert context.state.all() == {"ended": True}
    assert context.ask({"add": 1}) == 1


def test_answers_of_others_are_given_by_the_test() -> None:
    context = Context(Account)
    context.answers["k/1"] = lambda payload: [payload]
    assert context.ask({"ask": "k/1"}) == ["q"]
    with pytest.raises(glue.GlueError, match="no answer"):
        context.ask({"ask": "k/2"})


def test_coroutine_functions_run() -> None:
    class Slow:
        async def activate(self, context: glue.Context) -> None:
            self.base = context.state.get("base", 1)

        async def receive(self, context: glue.Context, message: Any) -> Any:
            return self.base + await context.request("k/1", message)

    context = Context(Slow, state={"base": 10})
    context.answers["k/1"] = 5
    assert context.ask("x") == 15


def test_become_changes_the_handler() -> None:
    class Door(glue.Receiver):
        def receive(self, context: glue.Context, message: Any) -> Any:
            context.become(self.opened)
            return "opened"

        def opened(self, context: glue.Context, message: Any) -> Any:
            context.become(self.receive)
            return "closed"

    context = Context(Door)
    assert [context.ask(1), context.ask(1), context.ask(1)] == ["opened", "closed", "opened"]


def test_wrong_values_raise() -> None:
    def receive(context: glue.Context, message: Any) -> None:
        context.state["x"] = object()

    with pytest.raises(glue.PayloadError):
        Context(receive).ask(1)
    with pytest.raises(glue.ConfigurationError):
        Context(lambda context, message: context.after(-1, 1)).ask(1)
