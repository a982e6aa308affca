"""Names and types of messages to receivers: `request`, typed messages, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import glue
import glue.aio
from glue.endpoint.receiver_payloads import copied, decoders
from glue.schema import MismatchedValueError
from glue.testing import Context
from tests.support.lan import PATIENCE, Lan


@dataclass
class Set:
    """Set the temperature."""

    target: float


@dataclass
class Get:
    """Ask for it."""


class Oven(glue.Receiver):
    """Keeps a temperature."""

    messages = (Set, Get)

    def receive(self, context: glue.Context, message: Any) -> Any:
        match message:
            case Set(target):
                context.state["target"] = target
            case Get():
                return Set(context.state.get("target", 0.0))
            case "relay":
                context.send("oven/other", Set(1.0))
                context.after(1, Set(5.0))
            case _:
                return ["untyped", message]
        return None


def test_typed_messages_come_as_values_of_their_types() -> None:
    oven = Context(Oven)
    oven.tell(Set(180.0))
    assert oven.ask(Get()) == {"target": 180.0}
    assert oven.ask({"$Other": {}}) == ["untyped", {"$Other": {}}]
    oven.tell("relay")
    assert oven.sent == [("oven/other", Set(1.0))]
    oven.advance(1)
    assert oven.state.get("target") == 5.0


def test_a_message_that_does_not_fit_its_type_is_an_error() -> None:
    oven = Context(Oven)
    with pytest.raises(MismatchedValueError, match="Set"):
        oven.ask({"$Set": {"target": "hot"}})
    with pytest.raises(MismatchedValueError, match="Set"):
        oven.ask({"$Set": 3})


def test_a_function_takes_types_too() -> None:
    doubled = Context(lambda context, message: message.target * 2, messages=[Set])
    assert doubled.ask(Set(2.0)) == 4.0


def test_wrong_types_are_refused() -> None:
    with pytest.raises(glue.ConfigurationError, match="expected a dataclass"):
        decoders([int])
    with pytest.raises(glue.ConfigurationError, match="two types"):
        decoders([Set, dataclass(type("Set", (), {}))])
    with pytest.raises(glue.PayloadError):
        copied(object())


def test_a_colon_in_the_first_level_makes_a_name_a_receiver(lan: Lan) -> None:
    a, b = lan.pair()
    model = a.model("plant", voters=1, election_timeout=0.1)
    a.receivers("oven", Oven, model=model)
    a.receivers("oven", Oven, subnet="cellar", model=model)
    a.respond("oven/1", lambda request: "topic")
    assert b.wait_for_responders("oven/1", 1, PATIENCE)
    b.send("cellar:oven/1", Set(70.0))
    assert b.request("cellar:oven/1", Get(), PATIENCE) == {"target": 70.0}
    assert a.request(":oven/1", Get(), PATIENCE) == {"target": 0.0}
    assert b.request("oven/1", None, PATIENCE) == "topic"
    for wrong in (lambda: a.respond("cellar:oven/+", lambda request: 1), lambda: a.request_all("cellar:oven/1", 1)):
        with pytest.raises(glue.TopicError, match="address of a receiver"):
            wrong()
    with pytest.raises(glue.ConfigurationError, match="kind/id"):
        b.request("a:b", 1)
    with pytest.raises(glue.MessageTooLargeError):
        b.send("cellar:oven/1", bytes((256 << 20) + 1))


def test_an_asyncio_endpoint_does_all_of_it(lan: Lan) -> None:
    class Slow:
        messages = (Set,)

        async def receive(self, context: glue.Context, message: Any) -> Any:
            match message:
                case Set(target):
                    context.after(0.01, ["later", target])
                case ["later", target]:
                    context.become(self.done)
                case ["ask", address]:
                    return await context.request(address, "state")
            return None

        async def done(self, context: glue.Context, message: Any) -> Any:
            return "done"

    async def run() -> None:
        async with glue.aio.Endpoint("a", **lan.settings) as a, glue.aio.Endpoint("b", **lan.settings) as b:
            a.receivers("slow", Slow, model=a.model("plant", voters=1, election_timeout=0.1))
            await b.send("slow/1", Set(2.0))
            b.send("slow/2", "not awaited")
            while await b.request(":slow/1", "state", PATIENCE) is None:
                await asyncio.sleep(0.01)
            assert await a.ask("slow/2", ["ask", "slow/1"], PATIENCE) == "done"
            assert await a.close_receivers(PATIENCE)

    asyncio.run(run())


def test_types_that_are_no_json_are_refused() -> None:
    with pytest.raises(glue.ConfigurationError, match="'Timestamp': receivers take dataclasses"):
        decoders([Timestamp])
