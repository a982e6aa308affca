"""What a stranger says in a peer's name: one forged datagram does no lasting harm, and what is true still counts."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from glue.contract import Inbound
from tests.discovery.lan import DELAY, Host, Lan, data, endpoint_id, pair
from tests.discovery.stranger import STRANGER, forged, strike

HUGE = (1 << 53) - 1


def followed() -> tuple[Lan, Host, Host]:
    """Two endpoints, the first of which has heard what the other wants."""
    lan, one, other = pair()
    lan.want(other, "a", "b")
    lan.run(1.5)
    assert one.interests(other.id) == {"a", "b"}
    return lan, one, other


@pytest.mark.parametrize("is_spoofed", [False, True])
def test_a_forged_goodbye_removes_nobody(is_spoofed: bool) -> None:
    lan, one, other = followed()
    for _ in range(20):
        strike(lan, one, forged(other, "goodbye", other.address if is_spoofed else STRANGER))
        lan.run(0.3)
    assert one.events == [("added", other.id)]
    assert one.interests(other.id) == {"a", "b"}


def test_a_goodbye_that_gets_lost_but_for_its_multicast_copy_is_asked_about_and_believed_before_the_lease_ends() -> (
    None
):
    lan, one, other = followed()
    lan.is_dropped = lambda source, host, frame: source is other and frame.address is not None
    lan.leave(other)
    lan.run(2.0)
    assert one.known == set()


@pytest.mark.parametrize("is_spoofed", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": HUGE},
        {"epoch": 1},
        {"epoch": 1, "version": 2, "base": 1, "operations": ["+x", "-x"]},
        {"version": HUGE},
        {"version": 3, "operations": ["-a"]},
        {"version": 2, "operations": ["-a", "-b"]},
        {"interval_ms": 10},
        {"interval_ms": HUGE},
        {"name": "other"},
    ],
)
def test_after_a_forged_announcement_all_is_as_before_within_two_intervals(
    changes: dict[str, Any], is_spoofed: bool
) -> None:
    lan, one, other = followed()
    strike(lan, one, forged(other, "announce", other.address if is_spoofed else STRANGER, **changes))
    lan.run(2.5)
    assert one.events == [("added", other.id)]
    assert one.interests(other.id) == {"a", "b"}
    lan.want(other, "c", removed=["a"])
    lan.run(0.1)
    assert one.interests(other.id) == {"b", "c"}
    assert one.layer.peers[other.id].name == "host 2"
    lan.crash(other)
    lan.run(5.5)
    assert one.known == set()


@pytest.mark.parametrize("incarnation", [1_000_000, HUGE])
@pytest.mark.parametrize("is_spoofed", [False, True])
def test_a_forged_life_does_not_replace_the_real_one(incarnation: int, is_spoofed: bool) -> None:
    lan, one, other = followed()
    address = other.address if is_spoofed else STRANGER
    strike(lan, one, forged(other, "announce", address, incarnation), forged(other, "goodbye", address, incarnation))
    lan.run(2.0)
    assert one.events == [("added", other.id)]
    assert one.layer.peers[other.id].incarnation == other.incarnation


def test_what_comes_from_another_address_than_the_peers_is_dropped() -> None:
    lan, one, other = followed()
    strike(lan, one, Inbound(other.id, other.incarnation, STRANGER, {"transport": [1]}, [b"forged"]))
    strike(lan, one, forged(other, "announce", STRANGER))
    lan.run(0.1)
    assert one.data == []
    assert one.layer.peers[other.id].address == other.address
    assert one.layer.statistics["other address"] == 1
    lan.order(other, data(one.id))
    lan.run(DELAY)
    assert len(one.data) == 1


def test_a_machine_that_speaks_from_two_addresses_is_heard_from_both() -> None:
    lan, one, other = followed()
    second = ("10.8.8.8", other.address[1])
    lan.is_dropped = lambda source, host, frame: False
    strike(lan, one, forged(other, "announce", second, version=2, operations=["+a", "+b"]))
    (probe,) = [frame for source, frame in lan.sent if source is one and frame.address == second]
    strike(lan, other, Inbound(one.id, one.incarnation, one.address, probe.header, probe.bodies))
    lan.run(0.1)  # it got the question at its second address and answers from its first
    strike(lan, one, Inbound(other.id, other.incarnation, second, {"transport": [1]}, [b"true"]))
    assert [item.bodies for item in one.data] == [[b"true"]]
    assert one.layer.peers[other.id].address == other.address


def test_who_has_proved_nothing_is_known_but_nothing_is_told_of_what_it_wants() -> None:
    lan, one, _ = followed()
    body = {"name": "silent", "interval_ms": 3_600_000, "epoch": 0, "version": 1, "operations": ["+#"]}
    header = {"discovery": [0, 0, None, None, "announce"]}
    for number in range(100, 166):
        bodies = [orjson.dumps({**body, "previous": 0, "base": 0})]
        strike(lan, one, Inbound(endpoint_id(number), 1, STRANGER, header, bodies))
    lan.run(1.0)
    assert len(one.known) == 67
    assert not any(one.interests(endpoint_id(number)) for number in range(100, 166))
    lan.run(10.0)
    assert len(one.known) == 1


def test_an_endpoint_that_announces_itself_every_hour_stays_a_peer_for_as_long_as_it_lives() -> None:
    lan = Lan()
    one, other = lan.add(1), lan.add(2, announce_interval=3600.0)
    lan.want(other, "a")
    lan.run(7200.0)
    assert one.events == [("added", other.id)]
    assert one.interests(other.id) == {"a"}
    lan.crash(other)
    lan.run(70.0)
    assert one.known == set()
