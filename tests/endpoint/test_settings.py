"""Settings: where each value comes from, what is refused, and the printout of what is in effect."""

from __future__ import annotations

import socket
from typing import Any

import pytest

import glue
from glue.contract import RENDEZVOUS_PORT
from glue.endpoint.keywords import Keywords
from glue.settings import SETTINGS, effective, variable
from glue.stack import LAYERS
from tests.support.lan import Lan

NAMES = list(SETTINGS)


def test_a_keyword_beats_the_environment_and_that_the_default() -> None:
    environment = {"GLUE_NETWORK_ID": "7", "GLUE_ANNOUNCE_INTERVAL": "0.5"}
    settings = effective({"network_id": 9}, environment)
    assert (settings.network_id, settings.announce_interval, settings.listen_port) == (9, 0.5, 0)
    sources = [settings.source(name) for name in ("network_id", "announce_interval", "listen_port")]
    assert sources == ["keyword", "environment", "default"]


def test_none_as_a_keyword_and_an_empty_variable_mean_not_given() -> None:
    assert effective({"network_id": None}, {"GLUE_NETWORK_ID": "7"}).network_id == 7
    assert effective({}, {"GLUE_NETWORK_ID": ""}).network_id == 1


@pytest.mark.parametrize(
    ("written", "group", "address"),
    [
        ("10.0.0.5", "239.1.2.3:4", ("10.0.0.5", RENDEZVOUS_PORT)),
        ("10.0.0.5:7000", "239.1.2.3:4", ("10.0.0.5", 7000)),
        ("fd00::5", "[ff15::1]:4", ("fd00::5", RENDEZVOUS_PORT, 0, 0)),
        ("[fd00::5]", "[ff15::1]:4", ("fd00::5", RENDEZVOUS_PORT, 0, 0)),
        ("[fd00::5]:7000", "[ff15::1]:4", ("fd00::5", 7000, 0, 0)),
    ],
)
def test_an_address_of_peers_may_name_a_port(written: str, group: str, address: tuple[Any, ...]) -> None:
    assert effective({"peers": [written], "multicast_address": group}, {}).contacts == [address]


def test_an_endpoint_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUE_NAME", "from the environment")
    monkeypatch.setenv("GLUE_NETWORK_ID", "7")
    endpoint = glue.Endpoint(network_id=8)
    assert (endpoint.name, endpoint.settings.network_id) == ("from the environment", 8)


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_can_be_given_as_a_variable(name: str) -> None:
    texts = {
        "interface": "lo", "multicast_address": "239.1.2.3:4", "name": "n", "announce_interval": "2.5",
        "lease_intervals": "7.5", "offload": "no", "sched_batch": "0", "discovery": "dns-sd", "spin": "0.01",
        "parity": "0.25", "peers": "10.0.0.5, 10.0.0.6:7000", "key": "plant.key", "identity": "a.identity",
        "policy": "plant.rules", "storage_key": "store.key", "doctor": "no",
    }  # fmt: skip
    values: dict[str, Any] = {
        "announce_interval": 2.5,
        "lease_intervals": 7.5,
        "offload": False,
        "sched_batch": False,
        "doctor": False,
        "spin": 0.01,
        "parity": 0.25,
    }
    values["peers"] = ("10.0.0.5", "10.0.0.6:7000")
    text = texts.get(name, "1234")
    settings = effective({}, {variable(name): text})
    assert getattr(settings, name) == values.get(name, text if name in texts else 1234)
    assert settings.source(name) == "environment"


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        ({"network_id": -1}, r"network_id=-1: expected a number from 0 to 65535"),
        ({"network_id": 65_536}, "network_id=65536"),
        ({"network_id": "1"}, r"network_id='1': expected a whole number"),
        ({"network_id": True}, "network_id=True"),
        ({"listen_port": 70_000}, "listen_port=70000: expected a port from 0 to 65535"),
        ({"announce_interval": 0}, "announce_interval=0.0: expected 0.01 to 3600 seconds"),
        ({"announce_interval": float("nan")}, "announce_interval=nan"),
        ({"lease_intervals": 1}, "lease_intervals=1.0"),
        ({"parity": 1.5}, "parity=1.5: expected a share from 0 to 1"),
        ({"queue_limit": 0}, "queue_limit=0: expected a positive number of bytes"),
        ({"offload": "yes"}, "offload='yes': expected true or false"),
        ({"discovery": "broker"}, "discovery='broker': expected multicast or dns-sd"),
        ({"peers": "10.0.0.5"}, r"peers='10.0.0.5': expected a list of text"),
        ({"peers": [5]}, "expected a list of text"),
        ({"peers": ["kitchen.local"]}, "peers=.*expected addresses such as 10.0.0.5:7000"),
        ({"peers": ["10.0.0.5:0"]}, "peers="),
        ({"peers": ["10.0.0.5:65536"]}, "peers="),
        ({"peers": ["239.1.2.3"]}, "peers="),
        ({"peers": ["0.0.0.0"]}, "peers="),
        ({"peers": ["[::]:7000"], "multicast_address": "[ff15::1]:5"}, "peers="),
        ({"peers": ["[fe80::1%eth0]"], "multicast_address": "[ff15::1]:5"}, "peers="),
        ({"peers": ["fd00::5"]}, "peers="),
        ({"peers": ["10.0.0.5"], "multicast_address": "[ff15::1]:5"}, "expected IPv6 addresses"),
        ({"name": ""}, "name='': expected 1 to 255 bytes"),
        ({"name": "x" * 256}, "expected 1 to 255 bytes"),
        ({"name": "\ud800"}, "expected 1 to 255 bytes of UTF-8"),
        ({"name": 7}, "name=7: expected text"),
        ({"netwrk_id": 1}, "unknown setting or layer 'netwrk_id'; .* network_id.*; the layers are network"),
        ({"sources": {}}, "unknown setting 'sources'"),
        ({"transport": "tcp"}, "transport='tcp': expected a factory"),
        ({"network": "lo"}, "network='lo': expected a factory"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_by_name_value_and_what_would_do(keywords: dict[str, Any], complaint: str) -> None:
    with pytest.raises(glue.ConfigurationError, match=complaint):
        glue.Endpoint(**keywords)


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"GLUE_NETWORK_ID": "one"}, r"GLUE_NETWORK_ID='one': expected a whole number"),
        ({"GLUE_NETWORK_ID": "-1"}, r"GLUE_NETWORK_ID=-1: expected a number from 0 to 65535"),
        ({"GLUE_OFFLOAD": "perhaps"}, "GLUE_OFFLOAD='perhaps'"),
        ({"GLUE_ANNOUNCE_INTERVAL": "soon"}, "GLUE_ANNOUNCE_INTERVAL='soon': expected a number"),
    ],
)
def test_a_wrong_variable_is_refused_likewise(environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(glue.ConfigurationError, match=complaint):
        effective({}, environment)


def test_the_printout_tells_each_value_and_where_it_came_from(lan: Lan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUE_ANNOUNCE_INTERVAL", "0.5")
    endpoint = lan.make("kitchen")
    rows = {line.split()[0]: line.split()[1:] for line in endpoint.describe().splitlines()[1:]}
    assert list(rows) == NAMES
    assert rows["name"] == ["kitchen", "keyword"]
    assert rows["announce_interval"] == ["0.5", "environment", "GLUE_ANNOUNCE_INTERVAL"]
    assert rows["listen_port"] == ["0", "default"]
    assert endpoint.describe().startswith(f"endpoint kitchen ({endpoint.id}, incarnation {endpoint.incarnation})")


def test_once_started_the_printout_tells_what_the_network_made_of_it(lan: Lan) -> None:
    text = lan.start().describe()
    assert "as asked for" in text
    assert "network reason" in text
    assert lan.settings["multicast_address"] in text


def test_what_malloc_keeps_is_what_the_setting_says(lan: Lan, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr("glue.drivers.leader.keep_freed_memory", kept.append)
    lan.start(malloc_threshold=0)
    lan.start()
    assert kept == [0, 16 << 20]


def test_an_unknown_interface_is_refused_with_those_that_exist(lan: Lan) -> None:
    endpoint = lan.make(interface="nowhere0")
    with pytest.raises(glue.InterfaceError, match=f"interface='nowhere0': .*{lan.settings['interface']}"):
        endpoint.start()


@pytest.mark.parametrize("address", ["10.0.0.1:5", "239.1.2.3", "239.1.2.3:0", "somewhere:5", "[ff02::1:5", ""])
def test_a_wrong_group_is_refused(lan: Lan, address: str) -> None:
    with pytest.raises(glue.ConfigurationError, match="multicast_address="):
        lan.make(multicast_address=address).start()


def test_a_busy_port_is_named_and_the_endpoint_can_start_once_it_is_free(lan: Lan) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        port = other.getsockname()[1]
        endpoint = lan.make(listen_port=port)
        with pytest.raises(glue.PortInUseError, match=str(port)):
            endpoint.start()
    endpoint.start()
    assert f"network listen_port      {port}" in endpoint.describe()


def test_an_endpoint_without_a_name_gets_one_of_its_own() -> None:
    first, second = glue.Endpoint(), glue.Endpoint()
    assert first.name != second.name
    assert first.name.startswith(socket.gethostname()[:200])


def test_the_same_name_is_the_same_id_and_another_life() -> None:
    first, second = glue.Endpoint("kitchen"), glue.Endpoint("kitchen")
    assert first.id == second.id != glue.Endpoint("hall").id
    assert len(first.id) == 16
    assert first.incarnation != second.incarnation


def test_editors_know_every_setting_and_layer() -> None:
    assert set(Keywords.__annotations__) == ({*NAMES} - {"name"}) | {"network", *LAYERS}


def test_every_error_is_a_glue_error() -> None:
    errors = [getattr(glue, name) for name in glue.__all__ if name.endswith("Error")]
    assert len(errors) > 20
    assert all(issubclass(error, glue.GlueError) for error in errors)
