"""Which addresses a door calls: their forms, their networks, and the IPv4 addresses within IPv6 ones."""

from __future__ import annotations

import pytest

from glue.errors import ConfigurationError
from glue.gateway.http.guard import Guard, check_url, destination

LAN = "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7"
TEREDO = "2001:0:4136:e378:8000:63bf:3fff:fdd2"  # of 192.0.2.45


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("10.0.0.1", ""), ("11.0.0.1", f"11.0.0.1 is not in an allowed network; deliveries go to {LAN} only"),
        ("172.31.255.255", ""), ("172.32.0.0", f"172.32.0.0 is not in an allowed network; deliveries go to {LAN} only"),
        ("fdff::1", ""), ("fe80::1%eth0", f"fe80::1 is link-local; deliveries go to {LAN} only"),
        ("127.0.0.2", f"127.0.0.2 is loopback; deliveries go to {LAN} only"),
        ("::ffff:192.168.0.1", ""), ("2002:a00:1::", ""),
        ("2002:7f00:2::", f"127.0.0.2 is loopback; deliveries go to {LAN} only"),
        (TEREDO, f"192.0.2.45 is not in an allowed network; deliveries go to {LAN} only"),
        ("224.0.0.1", "224.0.0.1 is no address of a subscriber"), ("::", ":: is no address of a subscriber"),
        ("name", "'name' is no address"), ("10.0.0.9", "10.0.0.9 port 80 is this door"),
        ("::ffff:10.0.0.9", "10.0.0.9 port 80 is this door"), ("::1", "::1 port 80 is this door"),
    ],
)  # fmt: skip
def test_an_address_is_called_or_refused_for_what_it_really_is(address: str, words: str) -> None:
    guard = Guard()
    guard.add_own(["10.0.0.9"], 80)
    assert guard.refusal(address, 80) == words


def test_networks_that_are_allowed_decide_alone_but_groups_are_never_called() -> None:
    guard = Guard(["0.0.0.0/0", "10.0.0.7/8"])
    guard.add_own(["10.0.0.9"], 81)
    for address in ("127.0.0.1", "8.8.8.8", "10.0.0.9"):
        assert guard.refusal(address, 80) == ""
    for address in ("224.0.0.251", "0.0.0.0"):
        assert guard.refusal(address, 80) == f"{address} is no address of a subscriber"
    assert guard.refusal("fd00::1", 80).endswith("deliveries go to 0.0.0.0/0, 10.0.0.0/8 only")
    assert Guard([]).refusal("10.0.0.1", 80).endswith("deliveries go to no network only")
    with pytest.raises(ConfigurationError, match=r"^network 'x': .*; expected such as 192\.168\.0\.0/16$"):
        Guard(["10.0.0.0/8", "x"])


LONG = "http://h/" + "x" * (2_048 - len("http://h/"))


@pytest.mark.parametrize("url", [
    "http://h", "https://h:65535/a?b#c", "http://[fd00::1]:80/", LONG, "http://h/!~\x80ü", "HTTP://h/",
])  # fmt: skip
def test_an_address_of_a_subscriber_stays_as_it_is(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (None, "^address None: expected a URL of at most 2048 characters$"),
        (b"http://h", "expected a URL of at most 2048 characters$"),
        ("", "^address '': expected a URL of at most 2048 characters$"),
        (LONG + "x", "expected a URL of at most 2048 characters$"),
        ("http://[", r"^address 'http://\[': "), ("http://h:99999/", "^address 'http://h:99999/': Port out of range"),
        ("h", "^address 'h': expected http://HOST:PORT/PATH or https://…$"),
        ("http:///path", "expected http://HOST:PORT"), ("http://h:0/", "expected http://HOST:PORT"),
        ("ws://h/", "expected http://HOST:PORT"),
        ("http://u@h/", "a user name or a password"), ("http://:p@h/", "a user name or a password"),
        ("http://u:p@h/", "a user name or a password"),
        *((f"http://h/{sign}a", "a space or a control character is in it$") for sign in (" ", "\x1f", "\x7f")),
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_subscriber_is_told(url: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_url(url)


def test_a_destination_is_scheme_host_and_port() -> None:
    assert [destination(url) for url in ("http://H.lan/a", "https://h/b", "https://h:80", "http://[fd00::1]:443/")] == [
        ("http", "h.lan", 80), ("https", "h", 443), ("https", "h", 80), ("http", "fd00::1", 443),
    ]  # fmt: skip
