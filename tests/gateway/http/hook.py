"""A subscriber with a real socket, and waiting for what a door brings about."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from glue.gateway.http.webhook import WebhookServer
from tests.support.lan import PATIENCE


class Hook:
    """A subscriber that records what it gets, and answers as it is told."""

    def __init__(self) -> None:
        self.got: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        self.answers: list[int] = []

    @contextmanager
    def served(self) -> Iterator[str]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.got.put(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(hook.answers.pop(0) if hook.answers else 204)
                self.send_header("content-length", "0")
                self.send_header("location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Log nothing."""

        server = WebhookServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hook"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def next(self) -> tuple[dict[str, str], bytes]:
        return self.got.get(timeout=PATIENCE)


def wait(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)
