"""The page in a real browser: it shows what was published, folds and searches by keyboard, and publishes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from glue.gateway.http import Client
from tests.gateway.http.doors import Doors
from tests.support.chromium import browser
from tests.support.lan import PATIENCE, Lan

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")

PAIRS = """[...hearing([...Array(12).keys()].map(n => ({id: "e" + n, name: "n" + n})), [
    {sender: "n1", receiver: "n2", loss: null, round_trip_ms: null, served_by: "multicast"},
    {sender: "n3", receiver: "n4", loss: 0.25, round_trip_ms: 3, served_by: "unicast"},
], new Set())[1].rows].map(row => [...row.cells].map(cell => cell.textContent).join("|"))"""
ROWS = "[...document.querySelectorAll('.row')].map(row => [...row.children].map(cell => cell.textContent))"


def test_the_page_shows_what_is_published(door: Doors, lan: Lan, tmp_path: Path) -> None:
    boiler = lan.start("boiler")
    pictures = os.environ.get("GLUE_PICTURES")
    boiler.respond("$mqtt/doors", lambda request: [{"client": "meter-7", "user": None, "sent": 12}])  # as an MQTT door
    with door(models=("plant",)) as gateway, browser(tmp_path / "browser") as page:
        url = f"http://127.0.0.1:{gateway.port}/"
        with Client(url) as user:
            user.call("PUT", "/v1/models/plant/keys/valve/1", {"open": True})
            user.subscribe("plant/#", "http://127.0.0.1:1/", give_up_after=3600)
        page.show(url, 1000, 640)
        page.wait("document.getElementById('state').textContent.includes('live')")
        boiler.wait_for_subscribers("plant/temperature", 1, timeout=PATIENCE)
        for number in range(5):
            boiler.publish("plant/temperature", {"celsius": 60 + number, "flow": [1, number]})
        for room in range(10):
            boiler.publish(f"home/room{room}/lamp", "on")
        boiler.publish("home/bytes", b"\x00\xff")
        page.wait("topics.size == 12")
        page.value("isStale = true, draw()")
        shown = {name.strip("▾▸· "): value for name, value, _ in page.value(ROWS)}
        assert shown["temperature"] == '{"celsius":64,"flow":[1,4]}'
        assert shown["lamp"] == "on"
        assert shown["bytes"] == "2 bytes: 00 ff"
        page.value(
            "choose(visible.find(node => node.path == 'plant/temperature')), document.getElementById('tree').focus()"
        )
        assert "60" not in page.value("document.getElementById('value').textContent")
        boiler.publish("plant/temperature", {"celsius": 71.5, "flow": [1, 9]})
        page.wait("document.getElementById('value').textContent.includes('71.5')")
        page.wait("(document.getElementById('plot').getAttribute('aria-label') || '').includes('from 64 to 71.5')")
        if pictures:
            page.picture(Path(pictures) / "page-topics.png")
        page.press("Home")
        assert page.value("current.path") == "home"
        before = page.value("visible.length")
        page.press("ArrowLeft")
        assert page.value("visible.length") < before
        page.press("/")
        page.press("7")
        page.wait("visible.map(node => node.path).join() == 'home,home/room7,home/room7/lamp'")
        got = boiler.subscribe("home/room7/lamp", local=False)
        page.value(
            "choose(visible[2]), document.querySelector('textarea').value = 'off', "
            "document.querySelector('fieldset button').click()"
        )
        assert got.get(PATIENCE).payload == "off"
        for view, text in [
            ("endpoints", "boiler"),
            ("models", '{"open":true}'),
            ("deliveries", "plant/#"),
            ("mqtt", "meter-7"),
        ]:
            page.value(f"document.querySelector('[data-view={view}]').click()")
            page.wait(f"document.getElementById('{view}').innerText.includes('{text}')")
        assert page.value(PAIRS)[1:] == [
            "n3|n4|25.0 % lost, 3.00 ms, by unicast",
            "n1|n2|loss not measured, by multicast",
        ]
        page.show(url, 390, 700, dark=True)
        page.wait("document.getElementById('state').textContent.includes('live')")
        page.wait("topics.size == 12")
        assert page.value("document.documentElement.scrollWidth") <= 390
        if pictures:
            page.wait("visible.length > 12")
            page.picture(Path(pictures) / "page-phone.png")
        assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
        fluid = """(() => {
            for (let i = 0; i < 10000; i++)
                take({id: "1", topic: `many/${i % 100}/${i}`, payload: i, publisher: "x", sequence: 1,
                    published_at: 1}, 0);
            draw();
            const began = performance.now();
            for (let i = 0; i < 20; i++) { document.getElementById("tree").scrollTop = i * 9000; draw(); }
            return (performance.now() - began) / 20;
        })()"""
        assert page.value(fluid) < 200, "milliseconds to draw 10,000 topics, on a machine however busy"
        page.value("document.querySelector('[data-view=topics]').click(), one('search').value = ''")
        boiler.publish("deep" + "/a" * 30_000, 1)
        page.wait("topics.size == 10013")
        page.value("isStale = true, draw()")
        assert page.value("visible.filter(node => node.path.startsWith('deep')).length") == 32
        page.value("[...Array(50000).keys()].forEach(n => take({topic: 't/' + n, payload: 1}, 0)), draw()")
        assert page.value("one('count').textContent") == "50000 topics, 10013 messages of others left out"
