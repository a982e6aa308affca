"""The other end of a webhook: checks the signature, drops what came before, and tells of gaps in the order.

    webhook = Webhook("whsec_…")
    event = webhook.open(headers, body)      # in any web framework; raises SignatureError
    if not event.is_duplicate:
        handle(event.topic, event.payload)
        webhook.done(event)                  # when it comes again, it is a duplicate

`serve` is a small server around it, for programs that have none.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote

from glue.errors import GlueError
from glue.gateway.http.signing import is_signed, key_of

REMEMBERED: Final = 100_000
"""Ids of messages that are remembered, at some 150 bytes each: 15 MB."""
STREAMS: Final = 10_000
"""Topics and publishers whose last number is remembered."""
BODY_LIMIT: Final = 256 << 20
TIMEOUT: Final = 15.0
"""Seconds for a request to come."""


class SignatureError(GlueError, ValueError):
    """A delivery is not signed with a known secret, is too old, or is no delivery at all."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """One delivery. `payload` is bytes, or the JSON value that was published."""

    id: str
    topic: str
    payload: Any
    publisher: str
    sequence: int
    is_duplicate: bool
    """Whether this receiver has had it before: answer with success, and do nothing."""
    missed: int
    """Messages of this topic and publisher that are missing before it; 0 if it follows, or nothing is known."""


class Webhook:
    """Checks deliveries of one subscription. Several secrets are all accepted. May be used from several threads."""

    def __init__(self, *secrets: str, clock: Callable[[], float] = time.time) -> None:
        """Raises ConfigurationError for a malformed secret."""
        for secret in secrets:
            key_of(secret)
        self._secrets = secrets
        self._clock = clock
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._numbers: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()  # the last one, and its gap
        self._lock = threading.Lock()

    def open(self, headers: Mapping[str, str], body: bytes) -> Delivered:
        """Check a delivery and return it. Raises SignatureError; then answer with 400."""
        told = {name.lower(): value for name, value in headers.items()}
        id, at = told.get("webhook-id", ""), told.get("webhook-timestamp", "")
        if not is_signed(self._secrets, id, at, body, told.get("webhook-signature", ""), self._clock()):
            raise SignatureError("the signature is missing, wrong, or older than five minutes")
        try:
            sequence = int(told["ce-gluesequence"])
            source = (told["ce-source"], told["ce-gluelife"])
            topic = unquote(told["ce-subject"])
            is_json = told.get("content-type", "").partition(";")[0] == "application/json"
            payload = json.loads(body) if is_json else body
        except (KeyError, ValueError) as error:
            raise SignatureError(f"this is no delivery of a glue door: {error!r:.200}") from None
        with self._lock:
            is_duplicate, missed = id in self._ids, self._missed(source, sequence)
        return Delivered(id, topic, payload, unquote(told.get("ce-gluepublisher", "")), sequence, is_duplicate, missed)

    def done(self, event: Delivered) -> None:
        """Remember that a delivery was handled: from now on it is a duplicate."""
        with self._lock:
            self._ids[event.id] = None
            if len(self._ids) > REMEMBERED:
                self._ids.popitem(last=False)

    def _missed(self, source: tuple[str, str], sequence: int) -> int:
        """Return how many messages are missing before one; when it is sent again, just as many."""
        last, missed = self._numbers.pop(source, (sequence, 0))
        if sequence > last:
            last, missed = sequence, sequence - last - 1
        self._numbers[source] = last, missed
        if len(self._numbers) > STREAMS:
            self._numbers.popitem(last=False)
        return missed if sequence == last else 0


class WebhookServer(ThreadingHTTPServer):
    """A threaded server that ends kept-alive connections when it closes."""

    daemon_threads = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        """Raises OSError if the port cannot be had."""
        super().__init__(address, handler)
        self._open: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that has ended."""
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Close all connections, and wait for their threads."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()


class DeliveryServer(WebhookServer):
    """Takes deliveries of one subscription, one at a time."""

    def __init__(self, address: tuple[str, int], webhook: Webhook, handle: Callable[[Delivered], None]) -> None:
        """Raises OSError if the port cannot be had."""
        super().__init__(address, DeliveryHandler)
        self._webhook = webhook
        self._handle = handle
        self._lock = threading.Lock()

    def take(self, headers: Mapping[str, str], body: bytes) -> None:
        """Check a delivery and handle it, unless it is a duplicate. Raises SignatureError, or what handling raises."""
        with self._lock:
            event = self._webhook.open(headers, body)
            if not event.is_duplicate:
                self._handle(event)
                self._webhook.done(event)


class DeliveryHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection to a `DeliveryServer`."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT
    server: DeliveryServer

    def do_POST(self) -> None:
        """Take a delivery; the door tries again unless the answer is a success."""
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > BODY_LIMIT:
            self.close_connection = True
            self._answer(411 if not length else 413)
            return
        body = self.rfile.read(int(length))
        try:
            self.server.take(dict(self.headers.items()), body)
        except SignatureError:
            self._answer(400)
        except Exception:
            self._answer(500)
            raise
        else:
            self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        if status != 204:
            self.send_header("Content-Length", "0")
        try:
            self.end_headers()
        except ConnectionError:  # the door is gone; it sends this delivery again
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: a delivery is no news."""


@contextmanager
def serve(
    webhook: Webhook, handler: Callable[[Delivered], None], host: str = "127.0.0.1", port: int = 0
) -> Iterator[int]:
    """Receive deliveries in threads of their own while the block runs; gives the port.

    The handler is called for one delivery at a time, and not for duplicates. If it raises, the door tries again.
    """
    server = DeliveryServer((host, port), webhook, handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="glue webhook")
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
