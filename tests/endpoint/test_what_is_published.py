"""What `publish` and its kin hand to the driver, blocking and asyncio, without a network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import glue
import glue.aio
from glue.contract import Publication, Subscribe
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.receipt import AwaitableReceipt, WaitingReceipt
from tests.support.calls import do

OWNER = OwnerFunctions(*[lambda *_: None] * 6)


class Driver:
    """A driver that notes what it is to publish, and fails as the test says."""

    closed = False

    def __init__(self, is_aio: bool) -> None:
        self.replier = 0
        self.published: list[Publication] = []
        self.asked: list[Any] = []
        self.blocks: list[bool] = []
        self.replied: list[Any] = []
        self.can_reply = True
        self.fails: Exception | None = None
        self.before_wait: Callable[[], None] = lambda: None
        self._is_aio = is_aio

    def reply(self, topic: str, payload: Any) -> bool:
        self.replied.append((topic, payload))
        return self.can_reply

    def publish(self, publications: Any, block: bool = True) -> Any:
        if self.fails is not None:
            raise self.fails
        self.published += publications
        self.blocks.append(block)
        return self._done() if self._is_aio else None

    async def _done(self) -> None:
        pass

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append(request)

    def wait_until(self, condition: Any, timeout: float | None) -> Any:
        self.before_wait()
        return self._true(condition) if self._is_aio else bool(condition())

    async def _true(self, condition: Any) -> bool:
        return bool(condition())

    def wait_for(self, event: Any, timeout: float) -> bool:
        self.before_wait()
        return bool(event.is_set())

    def call_threadsafe(self, function: Callable[[], None]) -> None:
        function()

    def notify(self) -> None:
        self.asked.append("notify")


@pytest.fixture(params=[glue.Endpoint, glue.aio.Endpoint])
def endpoint(request: pytest.FixtureRequest) -> Any:
    made = request.param("a", message_limit=100_000)
    made._driver, made._owner = Driver(request.param is glue.aio.Endpoint), OWNER
    return made


def test_each_option_of_publish_is_told_with_the_publication(endpoint: Any) -> None:
    driver = endpoint._driver
    before = time.time()
    assert do(lambda: endpoint.publish("t", {"a": 1}, block=False)) is None
    (plain,) = driver.published
    assert (plain.topic, plain.payloads, plain.json, driver.blocks) == ("t", [b'{"a":1}'], True, [False])
    assert before <= plain.published_at <= time.time()
    for option, value in (("type", "kind"), ("retain", True), ("lifespan", 2.5), ("key", "k")):
        do(partial(endpoint.publish, "t", b"x", **{option: value}))
        assert getattr(driver.published[-1].options, option) == value
    do(lambda: endpoint.publish("t", b"x", reliability="best-effort"))
    assert not driver.published[-1].options.reliable
    do(lambda: endpoint.publish("t", b"x", priority="urgent"))
    do(lambda: endpoint.publish("t", b"x", priority="bulk"))
    assert driver.published[-2].priority < plain.priority < driver.published[-1].priority
    do(lambda: endpoint.publish("t", [1], properties={"a": "b"}, codec="msgpack"))
    metadata = driver.published[-1].options.metadata
    assert (dict(metadata.properties), driver.published[-1].json) == ({"a": "b"}, False)
    assert metadata.codec is not None
    assert driver.blocks == [False] + [True] * 8
    receipt = do(lambda: endpoint.publish("t", b"x", receipt=True))
    assert isinstance(receipt, WaitingReceipt | AwaitableReceipt)
    assert driver.published[-1].options.receipt is receipt
    assert receipt.expectation is None


def test_with_acks_a_receipt_expects_keepers_and_nothing_if_publishing_fails(endpoint: Any) -> None:
    driver, durability = endpoint._driver, endpoint._core.durability
    durability.keeps("k" * 16, "disk", "#", None)
    receipt = do(lambda: endpoint.publish("t", b"x", receipt=True, acks="disk"))
    assert [one.acks for one in durability._pending["t"]] == ["disk"]
    (asked,) = driver.asked
    assert isinstance(asked, Subscribe)
    assert asked.patterns == (durability.topic,)
    assert durability.wanted == {endpoint.id: endpoint.incarnation}
    durability.addressed(receipt.expectation, 1)
    durability.take("k" * 16, {"durable": [["t", 1, 2]]})
    assert receipt
    assert ("notify" in driver.asked) is isinstance(endpoint, glue.aio.Endpoint)
    driver.fails = glue.WouldBlockError("full")
    with pytest.raises(glue.WouldBlockError):
        do(lambda: endpoint.publish("t", b"x", receipt=True, acks="disk"))
    with pytest.raises(glue.PayloadError):
        do(lambda: endpoint.publish("t", object(), receipt=True, acks="disk"))
    assert durability._pending == {}
    assert len([one for one in driver.asked if isinstance(one, Subscribe)]) == 1


def test_a_delayed_message_is_none_of_the_driver(endpoint: Any) -> None:
    driver = endpoint._driver
    for delay in ({"delay": 5}, {"deliver_at": time.time() + 5}):
        found = do(partial(endpoint.publish, "t", b"x", **delay))
        assert found.waiting
        assert found.cancel()
    assert driver.published == []


def test_only_a_plain_answer_to_a_lone_message_takes_the_short_cut() -> None:
    endpoint: Any = glue.Endpoint("a")
    driver, endpoint._owner = Driver(False), OWNER
    endpoint._driver = driver
    endpoint.publish("t", 1)
    assert (driver.replied, len(driver.published)) == ([], 1)
    driver.replier = 5
    endpoint.publish("t", 1)
    assert (driver.replied, len(driver.published)) == ([("t", 1)], 1)
    driver.can_reply = False
    endpoint.publish("t", 2)
    assert (driver.replied.pop(), len(driver.published)) == (("t", 2), 2)
    driver.can_reply = True
    driver.replied.clear()
    for options in (
        {"type": "kind"}, {"retain": True}, {"lifespan": 5}, {"reliability": "best-effort"}, {"priority": "urgent"},
        {"key": "k"}, {"properties": {"a": "b"}}, {"codec": "msgpack"}, {"receipt": True}, {"delay": 5},
        {"deliver_at": time.time() + 5}, {"receipt": True, "acks": "disk"},
    ):  # fmt: skip
        endpoint.publish("t", [1], **options)
        assert driver.replied == [], options
    assert len(driver.published) == 2 + 10


def test_a_stream_is_published_in_pieces(endpoint: Any) -> None:
    driver = endpoint._driver
    do(lambda: endpoint.publish_many("t", (bytes([number]) for number in range(50)), priority="high"))
    assert [payload for one in driver.published for payload in one.payloads] == [bytes([n]) for n in range(50)]
    assert {one.priority for one in driver.published} == {1}
    assert len(driver.published) < 50
    assert all(driver.blocks)
    driver.published.clear()
    do(lambda: endpoint.publish_many("t", []))
    do(lambda: endpoint.publish_many("t", [b"a", [1], "text"]))
    assert [payload for one in driver.published for payload in one.payloads] == [b"a", b"[1]", b'"text"']


async def read(stream: Any, most: int) -> list[int]:
    """So many numbers of an iterator of either kind, which is then closed."""
    found: list[int] = []
    if hasattr(stream, "__anext__"):
        async for number in stream:
            found.append(number)
            if len(found) == most:
                break
        await stream.aclose()
    else:
        for number in stream:
            found.append(number)
            if len(found) == most:
                break
        stream.close()
    return found


def test_a_durable_stream_goes_on_as_keepers_acknowledge(endpoint: Any) -> None:
    driver, durability = endpoint._driver, endpoint._core.durability
    durability.keeps("k" * 16, "disk", "#", None)
    sequence, stored, publish = 0, 0, driver.publish
    waiting: list[int] = []

    def numbered(publications: Any, block: bool = True) -> Any:
        nonlocal sequence
        for one in publications:
            sequence += len(one.payloads)
            durability.addressed(one.options.receipt.expectation, sequence)
        return publish(publications, block)

    def store() -> None:
        nonlocal stored
        waiting.append(sequence - stored)
        stored = sequence
        durability.take("k" * 16, {"durable": [["t", 1, sequence + 1]]})

    driver.publish, driver.before_wait = numbered, store

    async def main() -> None:
        source = iter([bytes([number]) for number in range(8)])
        found = await read(endpoint.publish_durable("t", source, outstanding=4, priority="high"), 99)
        assert found == [2, 4, 6, 8]
        assert max(waiting) == 4
        assert [len(one.payloads) for one in driver.published] == [2, 2, 2, 2]
        assert {one.priority for one in driver.published} == {1}
        stream = endpoint.publish_durable("t", [b"x"] * 20, outstanding=1)
        assert len(driver.published) == 4  # nothing is sent before it is read
        driver.before_wait = lambda: None
        durability.lost_pattern("k" * 16, "disk", "#")
        with pytest.raises(glue.NotDurableError) as caught:
            await read(stream, 1)
        failure = "0 of 1 keepers of 't' with a disk are known"
        assert str(caught.value) == f"0 messages on 't' were acknowledged; not the next: {failure}"
        assert durability._pending == {}

    asyncio.run(main())


def test_a_durable_stream_that_is_read_no_more_expects_no_more_acknowledgements(endpoint: Any) -> None:
    driver, durability = endpoint._driver, endpoint._core.durability
    durability.keeps("k" * 16, "disk", "#", None)

    def store_the_first() -> None:
        for number, one in enumerate(driver.published, 1):
            durability.addressed(one.options.receipt.expectation, number)
        durability.take("k" * 16, {"durable": [["t", 1, 2]]})

    driver.before_wait = store_the_first
    stream = endpoint.publish_durable("t", (bytes([number]) for number in range(8)), outstanding=3)
    assert asyncio.run(read(stream, 1)) == [1]
    assert len(driver.published) == 3
    assert durability._pending == {}


@pytest.mark.parametrize("outstanding", [0, -1, True, 1.5, "1"])
def test_another_number_of_outstanding_messages_is_refused(endpoint: Any, outstanding: Any) -> None:
    with pytest.raises(glue.ConfigurationError, match=r"^outstanding=.*: expected a number of messages, at least 1$"):
        endpoint.publish_durable("t", [b"x"], outstanding=outstanding)


def test_acknowledgements_of_this_endpoint_s_keepers_are_published_with_the_present_time(endpoint: Any) -> None:
    driver = endpoint._driver
    driver.add = driver.published.extend
    body = Publication("t", [b"x"], 0.0, False, 1)
    before = time.time()
    endpoint._publish_quietly([body])
    assert driver.published == [body]
    assert before <= body.published_at <= time.time()
    if isinstance(endpoint, glue.Endpoint):
        driver.fails = glue.ClosedError("closed")
        endpoint._publish_quietly([body])
    else:
        endpoint._driver = None
        endpoint._publish_quietly([body])
    assert len(driver.published) == 1
