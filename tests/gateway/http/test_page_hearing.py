"""The page tells who hears whom: in a real browser, over a cable that loses every tenth frame in one direction."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import glue.aio
from glue.gateway.http import Client, Gateway
from glue.gateway.thread import in_thread
from glue.simulation.conditions import Conditions
from tests.namespaces.endpoints import endpoint
from tests.support.cable import Cable
from tests.support.chromium import browser
from tests.support.lan import PATIENCE, Ear
from tests.support.namespaces import needs_namespaces, segment

pytestmark = [
    pytest.mark.namespaces, needs_namespaces, pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium"),
]  # fmt: skip

MESSAGES = 2_000
"""Of a frame each, both ways: loss is the mean of eight samples of 100 frames."""
LINE = b'{"topic":"to/boiler","payload":"%s"}\n' % (b"x" * 1_200)
CELL = "document.querySelector('#hearing').rows[{0}].cells[{1}].textContent"


@asynccontextmanager
async def opened() -> AsyncIterator[Gateway]:
    """A door at one end of the cable."""
    async with glue.aio.Endpoint("door", interface="cable0") as own, Gateway(own, port=0, host="127.0.0.1") as gateway:
        own.subscribe("to/door", lambda message: None)
        yield gateway


def test_the_page_shows_the_loss_that_was_made_in_each_direction(tmp_path: Path) -> None:
    with (
        segment(2) as (near, far),
        Cable(near.namespace, "cable0", far.namespace, "cable0", loss=0.1, back=Conditions(delay=0.0)) as cable,
    ):
        for host in (near, far):
            host.ip(f"address add 10.78.0.{host.number}/24 dev cable0", "link set cable0 up")
        with near.entered(), in_thread(opened) as gateway, endpoint(far, "cable0", "boiler") as boiler:
            url = f"http://127.0.0.1:{gateway.port}"
            with Client(url) as user, browser(tmp_path) as page:
                ear = Ear()
                boiler.subscribe("to/boiler", ear)
                assert boiler.wait_for_subscribers("to/door", 1, PATIENCE)

                def send_hundred() -> None:
                    for _ in range(100):
                        boiler.publish("to/door", bytes(1_200))
                    user.call("POST", "/v1/publish", LINE * 100)

                def measured(cell: str) -> str:
                    """What the page shows in a cell, once enough was sent for that."""
                    ends = time.monotonic() + PATIENCE
                    while "% lost" not in (shown := page.wait(cell)):
                        assert time.monotonic() < ends, shown
                        send_hundred()
                    return str(shown)

                for _ in range(MESSAGES // 100):
                    send_hundred()
                ear.wait(MESSAGES)
                page.show(f"{url}/#endpoints", 1000, 360)
                door_to_boiler, boiler_to_door = measured(CELL.format(1, 2)), measured(CELL.format(2, 1))
                if pictures := os.environ.get("GLUE_PICTURES"):
                    page.wait("document.getElementById('state').textContent.includes('live')")
                    page.picture(Path(pictures) / "page-endpoints.png")
        counts = cable.read_counts()["a"]
    made = 100 * counts["lost"] / counts["sent"]
    assert made == pytest.approx(10, abs=2)
    for told, expected in ((door_to_boiler, made), (boiler_to_door, 0)):  # what is sent again for a lost answer counts
        assert float(told.split(" %")[0]) == pytest.approx(expected, abs=4), (told, counts)
    assert door_to_boiler.endswith(" ms, by multicast")
