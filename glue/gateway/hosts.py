"""Hosts in URLs and headers: which are addresses, and which are loopback."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit


def host_of(url: str) -> str:
    """The host of a URL, or of a Host header behind `//`; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@lru_cache(1024)
def is_address(host: str) -> bool:
    """Whether a host is an address, and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Whether a host is localhost, or a loopback address."""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)
