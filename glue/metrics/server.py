"""A small HTTP server that answers scrapes, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from socketserver import TCPServer
from types import TracebackType
from typing import Self

from glue.errors import ConfigurationError, PortInUseError
from glue.metrics.exposition import CONTENT_TYPE

PATHS = ("/metrics", "/")
TIMEOUT = 5.0
"""Seconds for a request to come: an idle connection holds a thread no longer."""


def parse_address(text: str) -> tuple[str, int]:
    """Parse `PORT` or `HOST:PORT`; without a host it is loopback. Raises ConfigurationError."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535 or (colon and not host):
        raise ConfigurationError(f"metrics address {text!r}: expected PORT or HOST:PORT, such as 0.0.0.0:9464")
    return host.strip("[]") or "127.0.0.1", int(port)


class MetricsServer:
    """Answers `GET /metrics` with the text of a function; a context manager.

    `text` is called in another thread for each scrape, such as `lambda: glue.metrics.exposition(endpoint)`.
    """

    def __init__(self, text: Callable[[], str], host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen on a port, 0 for any free one. Raises PortInUseError, OSError."""

        class Handler(BaseHTTPRequestHandler):
            timeout = TIMEOUT

            def do_GET(self) -> None:
                if self.path.partition("?")[0] not in PATHS:
                    self.send_error(404, "metrics are at /metrics")
                    return
                body = text().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Log nothing: a scrape is no news."""

        class Server(ThreadingHTTPServer):
            address_family = AF_INET6 if ":" in host else AF_INET
            daemon_threads = True
            allow_reuse_address = True

            def server_bind(self) -> None:
                """Bind without asking name servers for this host's name, which may take long where there are none."""
                TCPServer.server_bind(self)
                self.server_name, self.server_port = host, self.server_address[1]

        try:
            self._server = Server((host, port), Handler)
        except OSError as error:
            raise PortInUseError(f"metrics on {host}:{port}: {error.strerror}; choose another port") from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="glue metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
