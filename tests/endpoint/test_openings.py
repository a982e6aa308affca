"""What opens with an endpoint: typed topics, models, requests of quality, delayed messages with receipts, and logs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio
from glue.contract import Delivery, Missed, PeerInterest, Subscribe, Unsubscribe
from glue.drivers.directory import FileDirectory
from glue.endpoint import model_options
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.qos_terms import OFFER, Statement, terms_of
from tests.endpoint.owners import Owner
from tests.support.calls import do
from tests.support.lan import PATIENCE


@dataclass
class Reading:
    celsius: float


class Driver:
    """A driver that notes its orders, and which of them are not to wait for a turn."""

    closed = False
    replier = 0

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.at_once: list[bool] = []

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append(request)
        self.at_once.append(wait)

    def wake(self) -> None:
        pass

    def call_threadsafe(self, function: Callable[[], None]) -> None:
        function()

    def notify(self) -> None:
        pass

    def wait_until(self, condition: Any, timeout: float | None) -> Any:
        return bool(condition())

    def inspect(self, read: Any) -> Any:
        return read()


@pytest.fixture(params=[glue.Endpoint, glue.aio.Endpoint])
def endpoint(request: pytest.FixtureRequest) -> Any:
    made = request.param("a")
    made._driver, made.counted, made.gaps = Driver(), Owner(), []
    handled, settled = made.counted.handled, made.counted.settled
    made._owner = OwnerFunctions(print, handled, settled, print, made.gaps.append, made.unsubscribe)
    return made


def delivery(*payloads: Any, sequence: int = 1) -> Delivery:
    return Delivery("t", [*payloads], None, "b", "id-b", 1, sequence, 0.0, False, ())


# ----------------------------------------------------------------------------------------------- quality of service


def test_a_strict_request_takes_nothing_of_who_offers_nothing_until_it_does(endpoint: Any) -> None:
    told: list[Any] = []
    got: list[Any] = []
    endpoint.on_qos_mismatch = told.append
    strict = glue.QoS(strict=True)
    subscription = endpoint.subscribe("t", lambda message: got.append(message.payload), qos=strict)
    done = {"done": 1} if endpoint._COUNTS else {}
    subscription._deliver(delivery("x", "y"))
    assert (got, endpoint.counted.counted["left out"]) == ([], 2)
    assert endpoint.counted.counted["done"] == done.get("done", 0)
    (mismatch,) = told
    assert (mismatch.pattern, mismatch.here, mismatch.peer_id, mismatch.refused) == ("t", "subscriber", "id-b", True)
    subscription._deliver(Missed("t", "b", "id-b", 3, "not sent", ()))
    assert [(gap.cause, gap.count, gap.pattern) for gap in endpoint.gaps] == [("not sent", 3, "t")]
    offer = Statement(OFFER, terms_of(glue.QoS()), "t").interest
    matching = endpoint._matching
    assert list(matching.note(5.0, PeerInterest("id-b", [offer], []))) == []
    subscription._deliver(delivery("z", sequence=3))
    assert got == ["z"]
    (departure,) = matching.note(6.0, PeerInterest("id-b", [], [offer]))
    subscription._deliver(delivery("last", sequence=4))
    before = endpoint.counted.counted.copy()
    subscription._deliver(departure)
    assert endpoint.counted.counted - before == {"handled": 1, **done}
    subscription._deliver(delivery("late", sequence=5))
    assert (got, len(told)) == (["z", "last"], 1)
    assert endpoint.counted.counted["left out"] == 3
    subscription.close()
    assert (endpoint._requested, matching._requests) == ({}, {})


def test_a_strict_reader_of_history_is_asked_when_the_turn_of_a_message_comes(endpoint: Any) -> None:
    told: list[Any] = []
    endpoint.on_qos_mismatch = told.append
    subscription = endpoint.subscribe("t", qos=glue.QoS(strict=True), start="earliest")
    reader = subscription._waiting.reader
    assert reader.admits(delivery("x", "y")) is False
    assert endpoint.counted.counted["left out"] == 2
    put: list[Any] = []
    reader.live = lambda now, one: put.append(one.payloads)
    subscription._deliver(delivery("x"))
    assert (put, len(told)) == ([["x"]], 1)
    endpoint._matching.note(5.0, PeerInterest("id-b", [Statement(OFFER, terms_of(glue.QoS()), "t").interest], []))
    assert reader.admits(delivery("z")) is True
    assert endpoint.counted.counted["left out"] == 2


def test_a_topic_that_is_closed_promises_no_rate_any_more(endpoint: Any) -> None:
    topic = endpoint.topic("t", qos=glue.QoS(deadline=0.5))
    topic.announce()
    begun = {one.token for one in endpoint._driver.asked if isinstance(one, Subscribe)}
    assert any(one.patterns == ("$glue/publisher/500/t",) for one in endpoint._driver.asked)
    topic.close()
    assert {one.token for one in endpoint._driver.asked if isinstance(one, Unsubscribe)} == begun


# ----------------------------------------------------------------------------------------------------- typed topics


def test_typed_topics_of_one_life_of_an_endpoint_share_what_they_know(endpoint: Any) -> None:
    first, second = (endpoint.topic(name, Reading) for name in "tu")
    types = endpoint._types
    assert (first._types is types, second._types is types, first.pattern, first.qos) == (True, True, "t", None)
    assert (types._core is endpoint._core, types._counts) == (True, endpoint._COUNTS)
    assert endpoint._core.types.tell == types._told
    types._core = None  # of a life that is over
    third = endpoint.topic("t", Reading, codec="msgpack")
    assert (third._types is types, third._types is endpoint._types, third._codec) == (False, True, "msgpack")
    for options in ({"codec": "none such"}, {"writable": True}):
        with pytest.raises(glue.ConfigurationError):
            endpoint.topic("t", Reading, **options)
        with pytest.raises(glue.ConfigurationError):
            endpoint.topic("t", **options)


# ------------------------------------------------------------------------------------------------------------- models


def test_a_model_opens_with_the_options_that_were_given(endpoint: Any) -> None:
    before = time.time()
    model = endpoint.model("plant", voters=1, mergeable={"count/": "counter"}, election_timeout=0.5)
    (opened,) = endpoint._driver.asked
    assert (opened.name, opened.options.mergeable.kind("count/a") is not None) == ("plant", True)
    assert before <= opened.at <= time.time()
    assert endpoint._driver.at_once == [True]
    assert (model.name, model.endpoint, endpoint._models) == ("plant", endpoint, {"plant": model})
    assert model._mergeable is opened.options.mergeable
    with pytest.raises(glue.ConfigurationError, match="model 'plant' is closed"):
        do(lambda: model.get("a", stale=True))
    with pytest.raises(glue.ConfigurationError):
        endpoint.model("other", voters=0)
    assert [*endpoint._models] == ["plant"]


def test_a_model_that_is_refused_for_what_its_directory_holds_leaves_it_to_others(
    endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = SimpleNamespace(vital=SimpleNamespace(group="garden/1", value=b""))

    def opened(directory: FileDirectory, luck: Any) -> Any:
        return SimpleNamespace(close=directory.close), stored

    monkeypatch.setattr(model_options, "open_storage", opened)
    with pytest.raises(glue.ConfigurationError, match="data_dir holds state of a model of another name"):
        endpoint.model("plant", voters=1, data_dir=tmp_path)
    FileDirectory(tmp_path).close()


# ---------------------------------------------------------------------------------------------------- delayed messages


def test_the_receipt_of_a_delayed_message_is_about_keepers_that_hold_it(endpoint: Any) -> None:
    durability = endpoint._core.durability
    durability.keeps("k" * 16, "disk", "#", None)
    made = [
        do(lambda: endpoint.publish("t", b"x", receipt=True, acks="disk", delay=5.0, retain=True)) for _ in range(2)
    ]
    expected = [*durability._pending["$glue/held/t"]]
    assert [(one.topic, one.count, one.first, one.acks) for one in expected] == [
        ("$glue/held/t", 1, 1, "disk"), ("$glue/held/t", 1, 2, "disk"),
    ]  # fmt: skip
    for delayed, expectation in zip(made, expected, strict=True):
        assert delayed.receipt.expectation is expectation
        assert (delayed._publication.options.receipt, delayed._publication.options.retain) == (None, True)
        assert delayed._number == expectation.first
    durability.take("k" * 16, {"held": [["t", 1, 2]]})
    assert [bool(delayed.receipt) for delayed in made] == [True, False]


# ---------------------------------------------------------------------------------------------------------------- logs


def opening(gate: threading.Event, then: Callable[[], None]) -> Any:
    """An asyncio endpoint of which each log opens slowly: it waits for a gate, and something happens meanwhile."""
    made: Any = glue.aio.Endpoint("a")
    made._driver, made._owner = Driver(), OwnerFunctions(*[lambda *_: None] * 6)
    made.begun, open_log = threading.Event(), made._open_log

    def open_slowly(data_dir: Any, size: int | None) -> Any:
        made.begun.set()
        assert gate.wait(PATIENCE)
        log = open_log(data_dir, size)
        then()
        return log

    made._open_log = open_slowly
    return made


def test_a_log_that_has_opened_after_its_endpoint_ended_is_closed(tmp_path: Path) -> None:
    gate = threading.Event()
    made: Any = opening(gate, lambda: setattr(made._driver, "closed", True))
    gate.set()
    with pytest.raises(glue.ClosedError):
        asyncio.run(made.keep("t", data_dir=tmp_path))
    FileDirectory(tmp_path).close()


def test_a_log_that_opens_while_its_call_is_cancelled_ends_with_its_endpoint(tmp_path: Path) -> None:
    gate = threading.Event()
    made = opening(gate, lambda: None)

    async def main() -> None:
        keeping = asyncio.create_task(made.keep("t", data_dir=tmp_path))
        assert await asyncio.to_thread(made.begun.wait, PATIENCE)
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping
        left = [*made._openings.values()]
        gate.set()
        await asyncio.gather(*left, return_exceptions=True)

    asyncio.run(main())
    made._end_keeping(PATIENCE)
    FileDirectory(tmp_path).close()
