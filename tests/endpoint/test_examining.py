"""Endpoints on a real network ask all others for sections: blocking, for asyncio, and switched off."""

from __future__ import annotations

import asyncio
from typing import Any

import glue
import glue.aio
from glue.aio.examining import ask_all as ask_all_async
from glue.sync.examining import ask_all

NETWORK: Any = {"interface": "lo", "network_id": 3507}


def test_a_blocking_endpoint_asks_all_and_those_that_may_answer_do() -> None:
    with (
        glue.Endpoint("doctor", **NETWORK) as doctor,
        glue.Endpoint("hall", **NETWORK),
        glue.Endpoint("silent", doctor=False, **NETWORK) as silent,
    ):
        told = ask_all(doctor, ["report", "links", "unheard of"], 0.5)
        assert [one.name for one in told] == ["hall"]
        (sections,) = [one.sections for one in told]
        report = sections["report"]
        assert (report["version"], report["network"]["interface"]) == (glue.__version__, "lo")
        assert report["network"]["receive_buffer"]["granted"] > 0
        assert abs(report["clock_moved"]) < 60
        assert {peer["name"] for peer in sections["links"]["peers"]} == {"doctor", "silent"}
        assert sections["unheard of"] is None
        assert silent.statistics["discovery"]["exam refused"] > 0


def test_an_asyncio_endpoint_asks_and_answers() -> None:
    async def ask() -> tuple[Any, Any]:
        async with glue.aio.Endpoint("doctor", **NETWORK) as doctor, glue.aio.Endpoint("hall", **NETWORK) as hall:
            return await ask_all_async(doctor, ["report"], 5.0), await ask_all_async(hall, ["links"], 5.0)

    reports, links = asyncio.run(ask())
    assert [one.sections["report"]["name"] for one in reports] == ["hall"]
    assert [one.name for one in links] == ["doctor"]
