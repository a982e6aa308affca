"""A program's default timeout of sockets is none of glue's affair."""

from __future__ import annotations

import socket

from glue.network import parse_group, sockets


def test_sockets_have_no_timeout_whatever_the_default_is() -> None:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.25)
    try:
        with sockets.open_unicast_socket(parse_group("239.192.137.1:37320"), 0) as opened:
            assert opened.gettimeout() is None
    finally:
        socket.setdefaulttimeout(before)
