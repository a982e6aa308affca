"""Metrics: what a scrape gets is what the counters say, in Prometheus's own reading of it."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from glue.errors import ConfigurationError, PortInUseError
from glue.metrics import CONTENT_TYPE, MetricsServer, exposition, parse_address
from glue.metrics.exposition import FAMILIES
from tests.support.lan import PATIENCE, Lan

ROOT = Path(__file__).parents[2]


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """All samples by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_scrape_tells_what_the_counters_say(lan: Lan) -> None:
    a, b = lan.pair()
    readings = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for number in range(5):
        a.publish("t", number)
    assert a.flush(PATIENCE)  # what became of a message is known one turn later
    assert a._running().wait_until(lambda: sum(a.accounting.sent.values()) == 5, PATIENCE)
    assert [next(readings).payload for _ in range(5)] == list(range(5))
    found = samples(exposition(a, b))
    assert found["glue_peers"] == [({"endpoint": "a"}, 1), ({"endpoint": "b"}, 1)]
    assert ({"endpoint": "a"}, 5) in found["glue_messages_owed_total"]
    sent = {
        labels["outcome"]: value for labels, value in found["glue_messages_sent_total"] if labels["endpoint"] == "a"
    }
    assert sent.keys() <= {"delivered", "repaired"}, "on a busy machine some are sent again"
    assert sum(sent.values()) == 5
    assert ({"endpoint": "b", "outcome": "handled"}, 5) in found["glue_messages_received_total"]
    told = {(labels["layer"], labels["event"]): value for labels, value in found["glue_events_total"]}
    assert told["topics", "messages published"] == 5
    ((info, one), _) = found["glue_endpoint_info"]
    assert (info["id"], info["incarnation"], one) == (a.id, str(a.incarnation), 1)


def test_names_with_any_characters_are_escaped() -> None:
    odd = 'a "b" \\ c\nd'
    endpoint = SimpleNamespace(
        name=odd, id="0", incarnation=1, peers=[], statistics={"network": {odd: 2}},
        accounting=SimpleNamespace(owed=0, sending=0, waiting=0, sent={}, received={}, missed={odd: 1}),
    )  # fmt: skip
    found = samples(exposition(cast(Any, endpoint)))
    assert ({"endpoint": odd, "layer": "network", "event": odd}, 2) in found["glue_events_total"]
    assert found["glue_messages_missed_total"] == [({"endpoint": odd, "cause": odd}, 1)]


def test_the_server_answers_scrapes_and_nothing_else() -> None:
    with MetricsServer(lambda: "glue_peers 1\n") as server:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=PATIENCE) as answer:
            assert answer.read() == b"glue_peers 1\n"
            assert answer.headers["Content-Type"] == CONTENT_TYPE
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/other", timeout=PATIENCE)
        caught.value.close()
        with pytest.raises(PortInUseError, match="choose another port"):
            MetricsServer(lambda: "", port=server.port)


def test_the_server_answers_over_ipv6_too_and_asks_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(name: str = "") -> str:
        raise AssertionError(f"{name} was looked up")

    monkeypatch.setattr(socket, "getfqdn", ask)
    with (
        MetricsServer(lambda: "glue_peers 1\n", *parse_address("[::1]:0")) as server,
        urllib.request.urlopen(f"http://[::1]:{server.port}/metrics", timeout=PATIENCE) as answer,
    ):
        assert answer.read() == b"glue_peers 1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:80", ("::1", 80))],
)
def test_an_address_is_a_port_with_or_without_a_host(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "port", ":80", "1:70000", "-1"])
def test_what_is_no_address_raises(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected PORT or HOST:PORT"):
        parse_address(text)


def test_the_dashboard_asks_for_metrics_that_there_are(lan: Lan) -> None:
    dashboard = json.loads((ROOT / "extras" / "grafana" / "glue.json").read_text())
    asked = {name for panel in dashboard["panels"] for name in re.findall(r"glue_\w+", panel["targets"][0]["expr"])}
    told = set(re.findall(r"^# TYPE (\w+)", exposition(lan.make("a")), re.MULTILINE))
    declared = {name for name, *_ in FAMILIES}
    assert told <= declared
    assert asked <= declared
