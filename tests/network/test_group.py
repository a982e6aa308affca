"""How a multicast group is written, and what is said to someone who writes it wrongly."""

from __future__ import annotations

import socket

import pytest

from glue.errors import ConfigurationError
from glue.network import MulticastGroup, parse_group


@pytest.mark.parametrize(
    ("written", "group"),
    [
        ("239.192.137.1:37320", MulticastGroup(socket.AF_INET, "239.192.137.1", 37320)),
        ("224.0.0.1:1", MulticastGroup(socket.AF_INET, "224.0.0.1", 1)),
        ("[ff15::1]:65535", MulticastGroup(socket.AF_INET6, "ff15::1", 65535)),
        ("[FF15:0:0::1]:5", MulticastGroup(socket.AF_INET6, "ff15::1", 5)),
    ],
)
def test_a_group_is_an_address_and_a_port(written: str, group: MulticastGroup) -> None:
    assert parse_group(written) == group
    assert parse_group(str(group)) == group


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", "group:port"),
        ("239.192.137.1", "group:port"),
        ("239.192.137.1:", "group:port"),
        ("239.192.137.1:port", "group:port"),
        ("239.192.137.1:37320 ", "group:port"),
        ("239.192.137.1:٣٧", "group:port"),
        ("ff15::1:37320", "group:port"),
        ("group.example:37320", "numeric"),
        ("239.192.137:37320", "numeric"),
        ("[ff15::1::2]:37320", "numeric"),
        ("[239.192.137.1]:37320", "square brackets"),
        ("[ff15::1%eth0]:37320", "no zone"),
        ("10.0.0.1:37320", "a multicast address"),
        ("240.0.0.1:37320", "a multicast address"),
        ("[fe80::1]:37320", "a multicast address"),
        ("239.192.137.1:0", "1 to 65535"),
        ("239.192.137.1:65536", "1 to 65535"),
    ],
)
def test_a_malformed_group_is_refused_with_what_would_do(written: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected) as refusal:
        parse_group(written)
    assert repr(written) in str(refusal.value)
    assert "239.192.137.1:37320" in str(refusal.value)


def test_ipv6_headers_are_20_bytes_longer_than_those_of_ipv4() -> None:
    assert parse_group("239.192.137.1:37320").overhead == 28
    assert parse_group("[ff15::1]:37320").overhead == 48


def test_only_ipv6_addresses_name_the_interface() -> None:
    assert parse_group("239.192.137.1:37320").destination(7) == ("239.192.137.1", 37320)
    assert parse_group("[ff15::1]:37320").destination(7) == ("ff15::1", 37320, 0, 7)


@pytest.mark.parametrize(("written", "most", "overhead"), [("239.1.2.3:1", 65507, 28), ("[ff15::1]:1", 65527, 48)])
def test_a_system_call_takes_as_much_as_a_packet_can_hold(written: str, most: int, overhead: int) -> None:
    group = parse_group(written)
    assert (group.payload_limit, group.overhead) == (most, overhead)
