"""The first message of real endpoints: `start` waits for who is there, and says so if nobody is."""

from __future__ import annotations

import asyncio
import threading

import pytest

import glue
import glue.aio
from glue.endpoint.receipt import WaitingReceipt
from tests.support.event_loop import run
from tests.support.lan import PATIENCE, Ear, Lan, private_network


def test_what_is_published_at_once_is_heard_and_who_is_there_is_known(lan: Lan) -> None:
    ear = Ear()
    subscriber = lan.start("subscriber")
    subscriber.subscribe("t", ear)
    delivered = []
    for number in range(8):
        with lan.make(f"publisher-{number}") as publisher:
            receipt = publisher.publish("t", number, receipt=True)
            if receipt.wait(PATIENCE):  # else the subscriber was too busy to answer in time
                delivered.append(number)
            assert bool(receipt) == (receipt.delivered == ["subscriber"])
            assert publisher.flush(PATIENCE) or not receipt
    assert len(delivered) > 4
    assert ear.wait(len(delivered))
    assert ear.payloads == delivered


def test_where_nobody_is_there_neither_a_receipt_nor_flush_says_that_all_went_well(lan: Lan) -> None:
    lonely = lan.start("lonely")
    receipt = lonely.publish("t", 1, receipt=True)
    is_flushed = lonely.flush(PATIENCE)
    held = lonely.statistics["topics"]["messages to nobody at the start"]  # none if this thread came too late
    assert is_flushed == (not held)
    assert not receipt.wait(PATIENCE)
    assert receipt.complete
    assert not receipt
    assert lonely.flush(PATIENCE)  # it is told once


def test_what_another_thread_publishes_during_the_start_is_held(lan: Lan) -> None:
    ear = Ear()
    lan.start("subscriber").subscribe("t", ear)
    publisher = lan.make("publisher")
    receipts: list[WaitingReceipt] = []

    def publish() -> None:
        while True:
            try:
                receipts.append(publisher.publish("t", "early", receipt=True))
            except glue.ClosedError:  # not started yet
                continue
            return

    thread = threading.Thread(target=publish)
    thread.start()
    publisher.start()
    thread.join(PATIENCE)
    assert ear.wait(1)[0].payload == "early"
    assert receipts[0].wait(PATIENCE)


def test_with_asyncio_what_is_published_at_once_is_heard() -> None:
    async def main() -> None:
        settings = private_network()
        heard: list[object] = []
        async with glue.aio.Endpoint("subscriber", **settings) as subscriber:
            subscriber.subscribe("t", heard.append)
            async with glue.aio.Endpoint("publisher", **settings) as publisher:
                assert [peer.name for peer in publisher.peers] == ["subscriber"]
                receipt = await publisher.publish("t", 1, receipt=True)
                assert await receipt
                assert receipt
            assert len(heard) == 1

    run(main())


def test_with_asyncio_a_start_that_is_cancelled_leaves_nothing_open() -> None:
    async def main() -> None:
        endpoint = glue.aio.Endpoint("lonely", **private_network())
        task = asyncio.ensure_future(endpoint.start())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert endpoint.closed

    run(main())
