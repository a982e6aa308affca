"""Streams of a door, read line by line."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from glue.gateway.http.gateway import Gateway
from tests.support.lan import PATIENCE


@contextmanager
def opened_stream(gateway: Gateway, path: str, headers: dict[str, str]) -> Iterator[Iterator[bytes]]:
    """The lines of a stream, without empty ones; returns once the door has answered."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.sendall(f"GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n{head}\r\n".encode())
        with connection.makefile("rb") as file:
            assert b"200" in file.readline()
            while file.readline().strip():
                pass
            yield (line.strip() for line in file if line.strip())
