"""One set of tests for receivers in three places: the fake, an endpoint of this program, and three nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

import glue
from glue.testing import Context
from tests.support.lan import PATIENCE, Lan


class Counter(glue.Receiver):
    """Counts, and can fail, change its ways, and wake up later."""

    on_error = "drop"

    def activate(self, context: glue.Context) -> None:
        self.activated = 1
        self.unsaved = 0

    def receive(self, context: glue.Context, message: Any) -> Any:
        match message:
            case {"add": number}:
                context.state["sum"] = context.state.get("sum", 0) + number
                return context.state["sum"]
            case "sum":
                context.reply(context.state.get("sum", 0))
            case {"note": value}:
                context.state["notes"] = [*context.state.get("notes", []), value]
            case "notes":
                return context.state.get("notes", [])
            case "fail halfway":
                context.state["sum"] = 1_000_000
                raise ValueError("halfway")
            case "unsaved":
                self.unsaved += 1
                return self.unsaved
            case "fail":
                raise ValueError("as asked")
            case {"after": seconds, "say": value, "durable": durable}:
                context.after(seconds, {"note": value}, durable=durable)
            case {"keep": size}:
                context.state["kept"] = "." * size
                return size
            case "stop":
                context.stop()
            case "sleep":
                context.become(self.asleep)
            case ["who"]:
                return [context.id, context.is_request]
            case bytes():
                return message[::-1]
        return None

    def asleep(self, context: glue.Context, message: Any) -> Any:
        """Handle messages until one wakes it."""
        if message == "wake":
            context.become(self.receive)
        return "asleep"


class Restarting(Counter):
    """Begins anew after an error."""

    on_error = "restart"


class Place(Protocol):
    """Where receivers are."""

    def tell(self, address: str, message: Any) -> None:
        """Send a message."""

    def ask(self, address: str, message: Any) -> Any:
        """Ask."""

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until a condition holds."""


class Fake:
    """Receivers alone."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {}

    def _context(self, address: str) -> Context:
        kind, _, id = address.partition("/")
        factory = {"counter": Counter, "restarting": Restarting}[kind]
        return self.contexts.setdefault(address, Context(factory, id, kind=kind))

    def tell(self, address: str, message: Any) -> None:
        """Send a message."""
        self._context(address).tell(message)

    def ask(self, address: str, message: Any) -> Any:
        """Ask."""
        return self._context(address).ask(message)

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass."""
        for _ in range(1000):
            if condition():
                return
            for context in self.contexts.values():
                context.advance(0.01)
        raise AssertionError("it did not come true")


class Nodes:
    """Endpoints, of which all but perhaps the last host the kinds."""

    def __init__(self, lan: Lan, hosts: int) -> None:
        names = [f"node{number}" for number in range(hosts)]
        endpoints = [lan.start(name) for name in names]
        for endpoint in endpoints:
            plant = endpoint.model("plant", voters=hosts, election_timeout=0.1)
            endpoint.receivers("counter", Counter, model=plant, partitions=16)
            endpoint.receivers("restarting", Restarting, model=plant, partitions=16)
        self.caller = endpoints[0] if hosts == 1 else lan.start("caller")

    def tell(self, address: str, message: Any) -> None:
        """Send a message."""
        self.caller.send(address, message)

    def ask(self, address: str, message: Any) -> Any:
        """Ask."""
        return self.caller.ask(address, message, PATIENCE)

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass."""
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until
            time.sleep(0.005)


@pytest.fixture(scope="module", params=["fake", "one process", "three nodes"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each place in turn."""
    if request.param == "fake":
        yield Fake()
        return
    lan = Lan()
    try:
        yield Nodes(lan, 1 if request.param == "one process" else 3)
    finally:
        lan.close()


def test_messages_are_handled_in_order_and_answered(place: Place) -> None:
    for number in range(20):
        place.tell("counter/order", {"note": number})
    assert place.ask("counter/order", "notes") == list(range(20))
    assert [place.ask("counter/order", {"add": 2}) for _ in range(3)] == [2, 4, 6]
    assert place.ask("counter/order", "sum") == 6
    assert place.ask("counter/order", ["who"]) == ["order", True]
    assert place.ask("counter/order", b"\x00\xff") == b"\xff\x00"
    assert place.ask("counter/order", ("a", 1)) is None


def test_each_receiver_has_its_own_state(place: Place) -> None:
    for number in range(8):
        place.tell(f"counter/own{number}", {"add": number})
    assert [place.ask(f"counter/own{number}", "sum") for number in range(8)] == list(range(8))


def test_an_error_is_told_and_changes_nothing(place: Place) -> None:
    assert place.ask("counter/error", {"add": 1}) == 1
    for message in ("fail", "fail halfway"):
        with pytest.raises((ValueError, glue.RemoteError), match=r"halfway|as asked"):
            place.ask("counter/error", message)
    assert place.ask("counter/error", "sum") == 1


def test_a_state_that_the_model_would_not_keep_is_refused_and_the_former_one_stays(place: Place) -> None:
    assert place.ask("counter/large", {"add": 1}) == 1
    with pytest.raises(glue.GlueError, match="at most 1048576"):
        place.ask("counter/large", {"keep": 1 << 20})
    assert place.ask("counter/large", "sum") == 1
    assert place.ask("counter/large", {"keep": 1000}) == 1000


def test_the_policy_drop_keeps_the_receiver_and_restart_begins_anew(place: Place) -> None:
    for kind, after in (("counter", 2), ("restarting", 1)):
        assert place.ask(f"{kind}/policy", "unsaved") == 1
        with pytest.raises((ValueError, glue.RemoteError)):
            place.ask(f"{kind}/policy", "fail")
        assert place.ask(f"{kind}/policy", "unsaved") == after


def test_become_changes_the_handler_until_it_is_changed_back(place: Place) -> None:
    place.tell("counter/become", {"add": 1})
    place.tell("counter/become", "sleep")
    assert [place.ask("counter/become", word) for word in ("sum", "wake", "sum")] == ["asleep", "asleep", 1]


def test_stop_puts_it_away_and_the_state_stays(place: Place) -> None:
    assert place.ask("counter/stop", {"add": 3}) == 3
    assert [place.ask("counter/stop", "unsaved") for _ in range(2)] == [1, 2]
    place.tell("counter/stop", "stop")
    assert place.ask("counter/stop", "unsaved") == 1
    assert place.ask("counter/stop", "sum") == 3


def test_timers_come_and_a_durable_one_also_after_it_was_put_away(place: Place) -> None:
    place.tell("counter/timer", {"after": 0.02, "say": "soon", "durable": False})
    place.until(lambda: bool(place.ask("counter/timer", "notes") == ["soon"]))
    place.tell("counter/timer", {"after": 0.05, "say": "kept", "durable": True})
    place.tell("counter/timer", "stop")
    place.until(lambda: bool(place.ask("counter/timer", "notes") == ["soon", "kept"]))
