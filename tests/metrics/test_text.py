"""The text of a scrape, line by line, and which requests and addresses the server takes."""

from __future__ import annotations

import socket
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.errors import ConfigurationError, PortInUseError
from glue.metrics import MetricsServer, exposition, parse_address
from glue.metrics import server as server_room
from tests.support.lan import PATIENCE


def endpoint(name: str, **changed: Any) -> Any:
    accounting = {"owed": 0, "sending": 0, "waiting": 0, "sent": {}, "received": {}, "missed": {}}
    accounting |= changed.pop("accounting", {})
    facts = {"id": f"{name}0", "incarnation": 7, "peers": [], "statistics": {}, **changed}
    return SimpleNamespace(name=name, accounting=SimpleNamespace(**accounting), **facts)


BUSY = endpoint(
    "a", peers=[1, 2], statistics={"network": {"bytes sent": 10, "datagrams received": 3}, "topics": {"b": 2, "a": 1}},
    accounting={"owed": 2.5, "sending": 4.0, "waiting": 3, "sent": {"lost": 1, "delivered": 4},
                "received": {"handled": 5}, "missed": {"late": 6}},
)  # fmt: skip


def test_a_scrape_is_a_line_for_each_number_of_each_endpoint() -> None:
    text = exposition(BUSY, endpoint("b"))
    assert text.endswith("\n")
    version = f'version="{glue.__version__}"'
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        f'glue_endpoint_info{{endpoint="a",id="a0",incarnation="7",{version}}} 1',
        f'glue_endpoint_info{{endpoint="b",id="b0",incarnation="7",{version}}} 1',
        'glue_peers{endpoint="a"} 2', 'glue_peers{endpoint="b"} 0',
        'glue_network_bytes_total{endpoint="a",direction="sent"} 10',
        'glue_network_bytes_total{endpoint="a",direction="received"} 0',
        'glue_network_bytes_total{endpoint="b",direction="sent"} 0',
        'glue_network_bytes_total{endpoint="b",direction="received"} 0',
        'glue_network_datagrams_total{endpoint="a",direction="sent"} 0',
        'glue_network_datagrams_total{endpoint="a",direction="received"} 3',
        'glue_network_datagrams_total{endpoint="b",direction="sent"} 0',
        'glue_network_datagrams_total{endpoint="b",direction="received"} 0',
        'glue_messages_owed_total{endpoint="a"} 2.5', 'glue_messages_owed_total{endpoint="b"} 0',
        'glue_messages_sent_total{endpoint="a",outcome="delivered"} 4',
        'glue_messages_sent_total{endpoint="a",outcome="lost"} 1',
        'glue_messages_sending{endpoint="a"} 4', 'glue_messages_sending{endpoint="b"} 0',
        'glue_messages_received_total{endpoint="a",outcome="handled"} 5',
        'glue_messages_waiting{endpoint="a"} 3', 'glue_messages_waiting{endpoint="b"} 0',
        'glue_messages_missed_total{endpoint="a",cause="late"} 6',
        'glue_events_total{endpoint="a",layer="network",event="bytes sent"} 10',
        'glue_events_total{endpoint="a",layer="network",event="datagrams received"} 3',
        'glue_events_total{endpoint="a",layer="topics",event="a"} 1',
        'glue_events_total{endpoint="a",layer="topics",event="b"} 2',
    ]  # fmt: skip


def test_endpoints_of_one_name_are_told_apart() -> None:
    lines = exposition(*(endpoint(name) for name in ("b", "b", "b#2", "b"))).splitlines()
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples))
    peers = [line for line in samples if line.startswith("glue_peers{")]
    assert peers == [f'glue_peers{{endpoint="{name}"}}' for name in ("b", "b#2", "b#2#2", "b#3")]


def test_each_metric_that_has_a_number_is_declared_before_it() -> None:
    for text, count in ((exposition(BUSY), 11), (exposition(endpoint("b")), 7)):
        lines = text.splitlines()
        declared = [place for place, line in enumerate(lines) if line.startswith("# TYPE ")]
        assert len(declared) == count
        for place in declared:
            _, _, name, kind = lines[place].split(" ")
            assert lines[place - 1].startswith(f"# HELP {name} ")
            assert lines[place + 1].startswith(f"{name}{{")
            assert (kind == "counter") == name.endswith("_total")


def test_the_server_answers_at_two_paths_and_its_port_is_free_afterwards() -> None:
    numbers = iter(range(10))
    with MetricsServer(lambda: f"n {next(numbers)} é") as server:
        for number, path in enumerate(("/metrics", "/", "/metrics?x=1")):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=PATIENCE) as answer:
                assert (answer.status, answer.read()) == (200, f"n {number} é".encode())
                assert answer.headers["Content-Length"] == "6"
        told = f"^metrics on 127.0.0.1:{server.port}: Address already in use; choose another port$"
        with pytest.raises(PortInUseError, match=told):
            MetricsServer(str, port=server.port)
    MetricsServer(str, port=server.port).close()


def test_a_connection_on_which_no_request_comes_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_room, "TIMEOUT", 0.01)
    with (
        MetricsServer(str) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as idle,
    ):
        assert idle.recv(1) == b"", "it holds no thread any longer"


def test_an_address_has_a_port_up_to_65535() -> None:
    assert (parse_address("65535"), parse_address("::1:0")) == (("127.0.0.1", 65535), ("::1", 0))
    for text in ("65536", "٣", "host:", ":0", "x:y"):
        with pytest.raises(ConfigurationError, match=r"such as 0\.0\.0\.0:9464"):
            parse_address(text)
