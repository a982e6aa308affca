"""Several interfaces at once, as far as one loopback interface shows it; `tests/namespaces` has two."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import glue
from glue.cmd.common import common_parser, settings_from
from glue.contract import GroupOn, Train, link_of, on_link, without_link
from glue.network.linked import LinkedNetwork
from glue.settings import effective
from tests.support.loopback import loopback_environment

_ENVIRONMENT = loopback_environment()
LOOPBACK, GROUP = _ENVIRONMENT["GLUE_INTERFACE"], _ENVIRONMENT["GLUE_MULTICAST_ADDRESS"]
MISSING = "missing0"


@contextmanager
def network(*interfaces: str, **options: Any) -> Iterator[LinkedNetwork]:
    made = LinkedNetwork(
        interfaces=interfaces or (LOOPBACK, MISSING),
        multicast_address=GROUP,
        receive_buffer=1 << 20,
        **{"listen_port": 0, "offload": True, **options},
    )
    try:
        yield made
    finally:
        made.close()
        made.close()  # a second time does nothing


def received(at: LinkedNetwork, count: int) -> list[tuple[Any, bytes]]:
    found: list[tuple[Any, bytes]] = []
    until = time.monotonic() + 5.0
    while len(found) < count and time.monotonic() < until:
        at.wait(0.1)
        found += [(train.address, bytes(train.data)) for train in at.receive()]
    return found


def test_addresses_tell_the_link_and_are_plain_again_without_it() -> None:
    for plain in (("10.0.0.2", 7000), ("fe80::1", 7000, 0, 3)):
        tagged = on_link(plain, "eth0")
        assert link_of(tagged) == "eth0"
        assert without_link(tagged) == without_link(plain) == plain
    assert link_of(("10.0.0.2", 7000)) == link_of(()) == link_of(None) == ""
    group = GroupOn(["eth0"])
    assert group.links == {"eth0"}
    assert group == ()  # as any other destination for known peers


def test_an_interface_that_is_missing_is_waited_for_and_the_other_one_used(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), network() as one, network() as two:
        assert MISSING in caplog.text
        changes: list[tuple[str, bool]] = []
        one.follow_links(lambda link, is_up: changes.append((link, is_up)))
        assert changes == [(MISSING, False)]
        one.send([Train(None, b"to all", 6), Train(GroupOn([MISSING]), b"nowhere", 7), Train((), b"to peers", 8)])
        found = received(two, 2)
        assert [data for _, data in found] == [b"to all", b"to peers"]
        ((host, port),) = {address for address, _ in found}
        link = link_of((host, port))
        assert host == f"127.0.0.1%{link}"
        two.send([Train((host, port), b"back", 4), Train(("127.0.0.1", port), b"plain", 5)])
        assert {data for _, data in received(one, 4)} >= {b"back", b"plain"}
        assert one.statistics["not sent: no interface"] == 1
        told = one.describe()
        assert told["links"][MISSING] == {
            "up": False, "address": "", "listen_port": 0, "bytes_sent": 0, "bytes_received": 0,
        }  # fmt: skip
        assert told["links"][link]["bytes_sent"] == 14
        assert one.datagram_size == 1472
        assert one.maintain(time.monotonic()) > time.monotonic()


def test_without_any_of_the_interfaces_the_error_names_those_that_exist() -> None:
    with pytest.raises(glue.InterfaceError, match=r"those that exist are.*lo") as raised, network(MISSING, "missing1"):
        pass
    assert MISSING in str(raised.value)


def test_a_port_in_use_is_told() -> None:
    with network() as one:
        port = one.unicast_address[1]
        with pytest.raises(glue.PortInUseError, match="listen_port"), network(listen_port=port):
            pass


@pytest.mark.parametrize(
    ("written", "names"),
    [("eth0", "eth0"), ("eth0,wlan0", ("eth0", "wlan0")), (["eth0", "wlan0"], ("eth0", "wlan0")), (("eth0",), "eth0")],
)
def test_the_setting_takes_a_name_or_several(written: Any, names: Any) -> None:
    settings = effective({"interface": written}, {})
    assert settings.interface == names
    assert settings.links == (names if isinstance(names, tuple) else ())
    assert settings.one_interface == "eth0"
    assert effective({}, {"GLUE_INTERFACE": "a, b"}).links == ("a", "b")


@pytest.mark.parametrize("written", [["eth0", "eth0"], "eth0,", "", [], ["a", "b", "c", "d", "e"], 5, [5]])
def test_a_name_twice_an_empty_one_or_too_many_are_errors(written: Any) -> None:
    with pytest.raises(glue.ConfigurationError, match="interface"):
        effective({"interface": written}, {})


def test_several_interfaces_need_discovery_by_multicast() -> None:
    with pytest.raises(glue.ConfigurationError, match="discovery"):
        effective({"interface": ["a", "b"], "discovery": "dns-sd"}, {})


@pytest.mark.parametrize(
    "words",
    [["--interface", "eth0", "--interface", "wlan0"], ["--interface", "eth0,wlan0"], ["--interface=eth0,wlan0"]],
)
def test_commands_take_the_option_repeated_or_with_commas(words: list[str]) -> None:
    given = settings_from(common_parser("topics", "").parse_args(words))
    assert effective(given, {}).links == ("eth0", "wlan0")
    assert settings_from(common_parser("topics", "").parse_args([])) == {}


def test_commands_that_use_one_interface_say_so() -> None:
    from glue.cmd.session import choose, chosen

    settings = effective({"interface": ["eth0", "wlan0"]}, {})
    assert chosen(settings) == ("eth0,wlan0", "eth0 and wlan0, as asked for")
    with pytest.raises(glue.ConfigurationError, match="one interface at a time"):
        choose(settings)
