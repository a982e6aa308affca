"""Delayed messages: published at their time, cancelled, bounded, and dropped when their publisher ends."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.endpoint import delays as module
from glue.simulation import SimulatedEndpoint, World


def pair(world: World) -> tuple[SimulatedEndpoint, SimulatedEndpoint]:
    """Two endpoints that know each other."""
    one, other = world.endpoint("one"), world.endpoint("other")
    assert world.run_until(lambda: one.peers and other.peers, 5)
    return one, other


def test_delayed_messages_come_in_the_order_of_their_times() -> None:
    world = World()
    one, other = pair(world)
    came: list[tuple[Any, float]] = []
    other.subscribe("t", lambda message: came.append((message.payload, world.time)))
    world.run(0.1)
    start, wall = world.time, one.host.unix_time
    one.publish("t", "c", delay=3)
    one.publish("t", "b", deliver_at=wall + 2)
    one.publish("t", "a", delay=1.0)
    one.publish("t", "now")
    one.publish("t", "past", deliver_at=wall - 5)
    world.run(5)
    assert [payload for payload, _ in came] == ["now", "past", "a", "b", "c"]
    assert [at - start for _, at in came][2:] == pytest.approx([1, 2, 3], abs=0.002)


def test_a_cancelled_message_is_not_published_and_is_cancelled_once() -> None:
    world = World()
    one, other = pair(world)
    heard = other.subscribe("t")
    world.run(0.1)
    kept, dropped = one.publish("t", 1, delay=1), one.publish("t", 2, delay=1)
    assert dropped.cancel()
    assert not dropped.cancel()
    world.run(2)
    assert not kept.cancel()
    assert not kept.waiting
    assert [message.payload for message in heard.received] == [1]
    assert repr(kept) == "<Delayed 't'>"


def test_options_count_from_the_publication() -> None:
    world = World()
    one, other = pair(world)
    heard = other.subscribe("t")
    world.run(0.1)
    before = one.host.unix_time
    delayed = one.publish("t", 1, delay=2, lifespan=1, retain=True, receipt=True)
    world.run(1)
    receipt = delayed.receipt
    assert receipt is not None
    assert not receipt.complete
    world.run(2)
    assert receipt
    (message,) = heard.received
    assert message.published_at == pytest.approx(before + 2)


def test_the_end_of_the_publisher_is_the_end_of_its_delayed_messages() -> None:
    world = World()
    one, other = pair(world)
    heard = other.subscribe("t")
    world.run(0.1)
    delayed = one.publish("t", 1, delay=1)
    one.close()
    world.run(3)
    assert heard.received == []
    assert delayed.waiting
    with pytest.raises(glue.ClosedError):
        one.publish("t", 1, delay=1)
    one.restart()
    one.publish("t", 2, delay=0.5)
    world.run(3)
    assert [message.payload for message in heard.received] == [2]


def test_they_are_bounded_and_cancelled_ones_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    endpoint = world.endpoint()
    monkeypatch.setattr(module, "DELAYED", 3)
    waiting = [endpoint.publish("t", number, delay=3600) for number in range(3)]
    with pytest.raises(glue.WouldBlockError, match="3 delayed messages"):
        endpoint.publish("t", 3, delay=1)
    for _ in range(1000):
        waiting.pop().cancel()
        waiting.append(endpoint.publish("t", 0, delay=3600))
        world.run(0)
    alarms = endpoint._core.stack.layers["topics"]._alarms  # type: ignore[attr-defined]
    assert len(alarms.heap) < 200
    monkeypatch.setattr(module, "DELAYED_SIZE", 1000)
    waiting.pop().cancel()
    with pytest.raises(glue.WouldBlockError):
        endpoint.publish("t", bytes(1000), delay=1)


@pytest.mark.parametrize(
    "options", [{"delay": -1}, {"delay": "1"}, {"delay": True}, {"deliver_at": float("nan")}, {"delay": 1e10},
                {"delay": 1, "deliver_at": 1}]
)  # fmt: skip
def test_wrong_delays_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(glue.ConfigurationError, match=r"delay|deliver_at"):
        World().endpoint().publish("t", 1, **options)
