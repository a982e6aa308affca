"""Durable consumers of asyncio endpoints, at a keeper with a real disk; and `glue consumers`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import glue
import glue.aio
from glue.cmd import consumers
from tests.support.lan import PATIENCE, Lan


def test_a_consumer_goes_on_and_is_shown_moved_and_forgotten(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper = lan.start("keeper")
    keeper.keep("orders/#", data_dir=tmp_path)
    for number in range(3):
        keeper.publish("orders/a", number)

    async def work() -> list[object]:
        handled: list[object] = []
        done = asyncio.Event()

        async def handle(message: glue.Message) -> None:
            await asyncio.sleep(0)
            handled.append(message.payload)
            if len(handled) == 3:
                done.set()

        async with glue.aio.Endpoint("member", **lan.settings) as member:
            member.subscribe("orders/#", handle, consumer="billing")
            await asyncio.wait_for(done.wait(), PATIENCE)
            while (await member.consumers())[0].lag:
                pass
            with pytest.raises(glue.NoConsumerError):
                await member.move_consumer("nobody", "orders/#", "latest")
            with pytest.raises(glue.NoConsumerError):
                await member.forget_consumer("nobody", "orders/#")
        return handled

    assert asyncio.run(work()) == [0, 1, 2]
    with pytest.raises(glue.NoConsumerError):
        keeper.move_consumer("nobody", "orders/#", "latest")
    with pytest.raises(glue.NoConsumerError):
        keeper.forget_consumer("nobody", "orders/#")
    assert [(one.name, one.pattern) for one in keeper.consumers()] == [("billing", "orders/#")]
    network = ["--interface", str(lan.settings["interface"]), "--network-id", str(lan.settings["network_id"])]
    network += ["--multicast-address", str(lan.settings["multicast_address"])]
    assert consumers.main(["billing", "orders/#", "--to", "earliest", *network]) == 0
    assert consumers.main(["--json", *network]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (found,) = [event for event in events if event["event"] == "consumer"]
    assert (found["name"], found["keeper"], found["lag"], found["members"]) == ("billing", "keeper", 3, [])
    assert consumers.main(["billing", "orders/#", "--forget", *network]) == 0
    assert consumers.main(network) == 1
    assert "no keeper has any" in capsys.readouterr().err
