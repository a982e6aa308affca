"""Receipts, gaps and losses: what an application is told of the outcome of messages."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.simulation import SimulatedEndpoint, World
from tests.support.event_loop import pair as aio_pair
from tests.support.event_loop import run
from tests.support.lan import PATIENCE, Ear, Lan, listen

# ---------------------------------------------------------------------------------------- in virtual time


def meet(*endpoints: SimulatedEndpoint) -> None:
    world = endpoints[0].world
    assert world.run_until(lambda: all(len(one.peers) == len(endpoints) - 1 for one in endpoints), 10)
    world.run(0.1)


def test_a_receipt_tells_who_has_it_who_is_slow_and_who_left() -> None:
    world = World(seed=1)
    publisher, prompt, slow, gone = (world.endpoint(name) for name in ("publisher", "prompt", "slow", "gone"))
    for endpoint in (prompt, slow, gone):
        endpoint.subscribe("t")
    meet(publisher, prompt, slow, gone)
    slow.pause()
    gone.crash()
    receipt = publisher.publish("t", bytes(100_000), receipt=True)
    assert not receipt.complete
    world.run(0.5)
    assert receipt.delivered == ["prompt"]
    assert sorted(receipt.pending) == ["gone", "slow"]
    world.after(0.5, slow.resume)
    assert world.run_until(lambda: receipt.complete, 20)
    assert receipt.delivered == ["prompt", "slow"]
    assert receipt.lost == {"gone": "peer removed"}
    assert receipt.pending == []
    assert repr(receipt) == "<Receipt delivered ['prompt', 'slow'], pending [], lost {'gone': 'peer removed'}>"


def test_the_receipt_of_a_message_to_nobody_is_complete_at_once_and_false() -> None:
    world = World()
    publisher = world.endpoint()
    world.run(0.1)
    receipt = publisher.publish("t", 1, receipt=True)
    world.run(0.001)
    assert receipt.complete
    assert not receipt
    assert receipt.delivered == []


def test_a_message_that_expires_before_it_can_leave_is_lost_and_told() -> None:
    world = World(seed=1)
    publisher, subscriber = world.endpoint("publisher", queue_limit=1 << 30), world.endpoint("subscriber")
    lost: list[tuple[str, int]] = []
    gaps: list[glue.Gap] = []
    publisher.on_lost = lambda cause, count: lost.append((cause, count))
    subscriber.on_gap = gaps.append
    heard = subscriber.subscribe("t")
    meet(publisher, subscriber)
    publisher.publish("t", "first")
    world.run(0.1)
    world.network.block(publisher.host, subscriber.host)
    publisher.publish("t", bytes(10_000_000))  # fills the window
    world.run(0.1)
    receipt = publisher.publish("t", "stale", lifespan=0.5, receipt=True)
    world.run(1.0)
    world.network.heal()
    assert world.run_until(lambda: receipt.complete, 10)
    publisher.publish("t", "last")
    assert world.run_until(lambda: len(heard.received) == 3, 10)
    assert receipt.lost == {"subscriber": "expired"}
    assert lost == [("expired", 1)]
    assert [(gap.cause, gap.count, gap.topic) for gap in gaps] == [("not sent", 1, "t")]
    assert subscriber.accounting.missed == {"not sent": 1}
    assert publisher.accounting.sent["lost: expired"] == 1


def test_after_a_separation_beyond_the_lease_both_ends_are_told_what_is_missing() -> None:
    world = World(seed=1)
    publisher, subscriber = world.endpoint("publisher"), world.endpoint("subscriber")
    lost: list[tuple[str, int]] = []
    gaps: list[glue.Gap] = []
    publisher.on_lost = lambda cause, count: lost.append((cause, count))
    subscriber.on_gap = gaps.append
    heard = subscriber.subscribe("t")
    meet(publisher, subscriber)
    publisher.publish("t", 1)
    world.run(0.1)
    world.network.partition([publisher.host])
    publisher.publish_many("t", [2, 3])
    world.run(10)
    publisher.publish("t", 4)  # to nobody any more
    world.network.heal()
    assert world.run_until(lambda: publisher.subscribers("t"), 5)
    publisher.publish("t", 5)
    world.run(1)
    assert [message.payload for message in heard.received] == [1, 5]
    assert [(gap.cause, gap.count, gap.publisher) for gap in gaps] == [("not sent", 3, "publisher")]
    assert lost == [("peer removed", 2)]
    assert publisher.accounting.sent == {"delivered": 2, "lost: peer removed": 2}
    assert publisher.accounting.sending == 0


def test_a_late_joiner_and_one_who_comes_back_to_a_topic_are_told_of_no_gap() -> None:
    world = World(seed=1)
    publisher, other, subscriber = (world.endpoint(name) for name in ("publisher", "other", "subscriber"))
    gaps: list[glue.Gap] = []
    other.on_gap = subscriber.on_gap = gaps.append
    other.subscribe("t")
    meet(publisher, other, subscriber)
    publisher.publish_many("t", range(10))
    world.run(0.1)
    for _ in range(3):
        subscription = subscriber.subscribe("t")
        world.run(0.1)
        publisher.publish_many("t", range(10))
        publisher.publish("t", 0, reliability="best-effort")
        world.run(0.1)
        assert len(subscription.received) == 11
        subscription.close()
        world.run(0.1)
        publisher.publish_many("t", range(10))
        world.run(0.1)
    world.run(5)
    assert gaps == []


def test_lost_best_effort_messages_are_counted_once_they_can_no_longer_come() -> None:
    world = World(seed=1)
    publisher, subscriber = world.endpoint("publisher"), world.endpoint("subscriber")
    gaps: list[glue.Gap] = []
    subscriber.on_gap = gaps.append
    heard = subscriber.subscribe("t")
    meet(publisher, subscriber)
    for number in range(30):
        if number in (10, 20):
            (world.network.heal if number == 20 else lambda: world.network.block(publisher.host, subscriber.host))()
        publisher.publish("t", number, reliability="best-effort")
        publisher.publish("u", number)  # what is reliable does not matter to it
        world.run(0.01)
    assert gaps == []
    world.run(2)
    assert len(heard.received) == 20
    assert [(gap.cause, gap.count, gap.topic) for gap in gaps] == [("best effort", 10, "t")]
    assert publisher.accounting.sent == {"unconfirmed": 30}


# ------------------------------------------------------------------------------------- on a real network


def test_a_receipt_can_be_waited_for(lan: Lan) -> None:
    a, b = lan.pair(queue_limit=1 << 26)
    ear = listen(b, "t", a)
    receipt = a.publish("t", bytes(1_000_000), receipt=True)
    assert receipt.wait(PATIENCE)
    assert (receipt.delivered, receipt.pending, receipt.lost) == (["b"], [], {})
    ear.wait(1)
    c = lan.start("c", receive_limit=1000)
    c.subscribe("t")
    assert a.wait_for_subscribers("t", 2, PATIENCE)
    for _ in range(50):
        receipt = a.publish("t", bytes(200_000), receipt=True)
    assert not receipt.wait(0.1)
    assert "c" in receipt.pending
    c.close(timeout=0)
    assert not receipt.wait(PATIENCE)
    assert (receipt.delivered, receipt.lost) == (["b"], {"c": "peer removed"})


def test_best_effort_gives_no_receipt(lan: Lan) -> None:
    a = lan.start("a")
    with pytest.raises(glue.ConfigurationError, match="best effort is never acknowledged"):
        a.publish("t", 1, receipt=True, reliability="best-effort")
    options: dict[str, Any] = {}
    result: Any = a.publish("t", 1, **options)
    assert result is None


def test_losses_are_told_and_the_accounting_of_both_ends_adds_up(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=32 << 20), lan.start("b", receive_limit=1000)
    lost = Ear()
    a.on_lost = lambda cause, count: lost((cause, count))
    ear = listen(b, "t", a)
    a.publish_many("t", range(100))
    ear.wait(100)
    assert a.flush(PATIENCE)
    assert a.accounting.sent["delivered"] + a.accounting.sent["repaired"] == a.accounting.owed == 100
    assert b.accounting.arrived == 100
    kept = b.subscribe("u")
    assert a.wait_for_subscribers("u", 1, PATIENCE)
    a.publish_many("u", [bytes(10_000)] * 2000)  # much more than what is on its way before b says that it is full
    kept.get(PATIENCE)
    b.close(timeout=0)
    lost.wait(1)
    accounting = b.accounting
    assert accounting.waiting == 0
    assert accounting.received["handled"] == 101
    assert accounting.received["unread"] == accounting.arrived - 101
    lost.wait_until(lambda _: a.accounting.sending == 0)
    assert a.accounting.sent["lost: peer removed"] == sum(count for _, count in lost.heard) > 0


def test_with_asyncio_a_receipt_is_awaited() -> None:
    async def main() -> None:
        async with aio_pair() as (a, b):
            b.subscribe("t", lambda message: None)
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            receipt = await a.publish("t", 1, receipt=True)
            assert await receipt
            assert receipt.delivered == ["b"]
            receipt = await a.publish("t", 2, receipt=True)
            assert await receipt.wait(PATIENCE)

    run(main())
