"""Quality of service at real endpoints, blocking and asyncio: what the simulator cannot show."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

import glue
import glue.aio
from glue.endpoint.accounting import OUTCOMES
from tests.support.lan import Lan


@dataclass
class Door:
    is_open: bool


def test_threads_get_events_states_and_mismatches(tmp_path: Path, lan: Lan) -> None:
    with glue.Endpoint(**lan.settings) as one, glue.Endpoint(**lan.settings) as other:
        told: list[glue.QoSMismatch] = []
        here: list[glue.QoSMismatch] = []
        one.on_qos_mismatch, other.on_qos_mismatch = here.append, told.append
        events = one.topic("door/+/event", Door, qos=glue.EVENT)
        events.publish(Door(True), "door/1/event")
        late = other.topic("door/+/event", Door, qos=glue.EVENT).subscribe()
        assert late.get(timeout=5).value == Door(True)
        handled: list[object] = []
        other.subscribe("t", handled.append, payload_only=True, qos=glue.STATE)
        sensor = other.topic("t", qos=glue.SENSOR).subscribe()
        one.wait_for_subscribers("t", timeout=5)
        one.topic("t", qos=glue.SENSOR).publish(1)
        assert sensor.get(timeout=5).payload == 1
        assert other._running().wait_until(lambda: handled == [1], 5)
        assert one._running().wait_until(lambda: len(here) == len(told) == 1, 5)
        assert (here[0].here, told[0].here) == ("publisher", "subscriber")
        one.keep("log", data_dir=tmp_path)
        receipt = one.topic("log", qos=glue.LOG).publish("kept")
        assert receipt is not None
        assert receipt.wait(5)


def test_an_exclusive_publisher_in_asyncio(lan: Lan) -> None:
    async def main() -> None:
        async with (
            glue.aio.Endpoint(**lan.settings) as one,
            glue.aio.Endpoint(**lan.settings) as two,
            glue.aio.Endpoint(**lan.settings) as other,
        ):
            qos = glue.EVENT.replace(ownership="exclusive")
            received = other.topic("t", qos=qos).subscribe()
            volatile = other.subscribe("t", qos=glue.QoS(ownership="exclusive", overflow="drop_oldest"))
            for endpoint in (one, two):
                await endpoint.wait_for_subscribers("t", timeout=5)
            first = one.topic("t", qos=qos.replace(strength=2))
            second = two.topic("t", qos=qos.replace(strength=1))
            second.announce()
            await first.publish("first")
            assert (await received.get(5)).payload == (await volatile.get(5)).payload == "first"
            await second.publish("left out")
            await one.close()
            assert await two._running().wait_until(lambda: len(two.peers) == 1, 5)
            assert await other._running().wait_until(lambda: len(other.peers) == 1, 5)
            await second.publish("second")
            assert (await received.get(5)).payload == (await volatile.get(5)).payload == "second"

    asyncio.run(main())


@pytest.mark.parametrize("wanted", [glue.STATE, glue.QoS()])
def test_what_a_standby_published_while_the_owner_lived_stays_left_out_for_a_slow_handler(
    wanted: glue.QoS, lan: Lan
) -> None:
    """The messages of the standby are handled only once the owner is gone."""
    qos, go_on, handled = wanted.replace(ownership="exclusive"), Event(), list[str]()

    def handle(message: glue.Message) -> None:
        handled.append(message.payload)
        assert go_on.wait(5)

    with glue.Endpoint("panel", **lan.settings) as panel, glue.Endpoint("spare", **lan.settings) as spare:
        subscription = panel.topic("t", qos=qos).subscribe(handle)
        second = spare.topic("t", qos=qos.replace(strength=1))
        with glue.Endpoint("main", **lan.settings) as main:
            main.topic("t", qos=qos.replace(strength=2)).publish("first")
            assert panel._running().wait_until(lambda: handled == ["first"], 5)
            assert spare.wait_for_subscribers("t", timeout=5)
            second.publish("left out")
            assert spare.flush(5)
        assert panel._running().wait_until(lambda: len(panel.peers) == 1, 5)
        go_on.set()
        second.publish("second")
        assert panel._running().wait_until(lambda: handled == ["first", "second"], 5)
        ended = panel.statistics["endpoint"]
        assert ended["messages arrived"] == sum(ended[name] for name in OUTCOMES.values())
        subscription.close()
