"""Which addresses deliveries may go to: a guard against forged requests from the server's side (SSRF).

A subscriber names the address that the door then calls, from inside the network. Therefore the host name is resolved
once, each address is checked, and the connection goes to a checked address (so no second answer of a name server can
change it); redirects are not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from glue.errors import ConfigurationError

LAN: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
"""Private networks (RFC 1918, RFC 4193): where deliveries may go unless told otherwise."""

URL_LIMIT: Final = 2_048
"""Characters of an address of a subscriber."""

Address = IPv4Address | IPv6Address


class Guard:
    """Decides by networks; those that are allowed decide alone, also about loopback and link-local addresses."""

    def __init__(self, networks: Sequence[str] = LAN) -> None:
        """Raises ConfigurationError for what is no network."""
        self.networks = []
        for network in networks:
            try:
                self.networks.append(ip_network(network, strict=False))
            except ValueError as error:
                raise ConfigurationError(f"network {network!r}: {error}; expected such as 192.168.0.0/16") from None
        self.own: set[tuple[Address, int]] = set()

    def add_own(self, addresses: Iterable[str], port: int) -> None:
        """Never call these addresses of the door itself at its port."""
        self.own.update((_plain(address), port) for address in (*addresses, "127.0.0.1", "::1"))

    def refusal(self, address: str, port: int) -> str:
        """Return why an address must not be called, "" if it may."""
        try:
            found = _plain(address)
        except ValueError:
            return f"{address!r:.80} is no address"
        if (found, port) in self.own:
            return f"{found} port {port} is this door"
        if found.is_multicast or found.is_unspecified:
            return f"{found} is no address of a subscriber"
        if any(found.version == network.version and found in network for network in self.networks):
            return ""
        kind = "loopback" if found.is_loopback else "link-local" if found.is_link_local else "not in an allowed network"
        return f"{found} is {kind}; deliveries go to {', '.join(map(str, self.networks)) or 'no network'} only"


def check_url(url: object) -> str:
    """Return a subscriber's address if it has the form of one. Raises ConfigurationError."""
    if not isinstance(url, str) or not 0 < len(url) <= URL_LIMIT:
        raise ConfigurationError(f"address {url!r:.80}: expected a URL of at most {URL_LIMIT} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"address {url!r:.200}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigurationError(f"address {url!r:.200}: expected http://HOST:PORT/PATH or https://…")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("a user name or a password in an address is not sent; use `secret`")
    if any(ord(sign) <= 32 or ord(sign) == 127 for sign in url):
        raise ConfigurationError(f"address {url!r:.200}: a space or a control character is in it")
    return url


@lru_cache(16_384)
def destination(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a checked address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _plain(address: str) -> Address:
    """An address without scope; one of IPv4 in the clothes of IPv6 as what it is."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        return inner or found
    return found
