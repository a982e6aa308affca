"""A client of a door for programs that do not join the network themselves; needs nothing but the standard library.

    door = Client("http://door:8080", token="glue_…")
    door.publish("home/lamp", {"on": True})
    print(door.last("home/lamp")["payload"])
    for message in door.stream("home/#"):
        print(message["topic"], message["payload"])

A broken stream is resumed at its position, so no message is missed while the door remembers it.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from glue.errors import ConfigurationError, GlueError

PAUSE: Final = 1.0
"""Seconds before a broken stream is taken up again."""


class DoorError(GlueError, OSError):
    """A door refused: the `status` and the `reason` of its answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


class Client:
    """A client of one door. Keeps a connection; use each client from one thread at a time."""

    def __init__(
        self, url: str, token: str | None = None, *, timeout: float = 30.0, tls: ssl.SSLContext | None = None
    ) -> None:
        """`url` is that of the door; `timeout` in seconds. Raises ConfigurationError for a wrong URL."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"url={url!r:.200}: expected http://HOST:PORT or https://…")
        self._parts, self._timeout, self._tls = parts, timeout, tls
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._kept: http.client.HTTPConnection | None = None

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """Call a route; bytes are sent as they are, all else as JSON. Returns the answer: JSON decoded, else bytes.

        Raises DoorError, OSError. A call that fails on a kept connection is repeated once, but no POST without an
        idempotency key.
        """
        data, sent = None, {**self._headers, **(headers or {})}
        if isinstance(body, bytes):
            data, sent["content-type"] = body, sent.get("content-type", "application/octet-stream")
        elif body is not None:
            data, sent["content-type"] = json.dumps(body).encode(), "application/json"
        is_fresh = self._kept is None
        connection = self._kept = self._kept or self._connection()
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            text = answer.read()
        except (http.client.HTTPException, OSError):
            self.close()
            if is_fresh or (method == "POST" and "idempotency-key" not in sent):
                raise
            return self.call(method, path, body, headers)
        return _checked(answer, text)

    def publish(self, topic: str, payload: Any, *, idempotency_key: str | None = None, **options: Any) -> Any:
        """Publish a payload; options as the query of `POST /v1/topics`, such as `retain=1`, `acks="disk"`."""
        headers = {} if idempotency_key is None else {"idempotency-key": idempotency_key}
        return self._send(_path("topics", topic, options), payload, headers)

    def _send(self, path: str, payload: Any, headers: dict[str, str] | None = None) -> Any:
        """POST a payload, which may be None."""
        if payload is None:
            return self.call("POST", path, b"null", {**(headers or {}), "content-type": "application/json"})
        return self.call("POST", path, payload, headers)

    def last(self, topic: str) -> dict[str, Any] | None:
        """Return the last message of a topic; None if no endpoint remembers one."""
        try:
            found: dict[str, Any] = self.call("GET", _path("topics", topic))
        except DoorError as error:
            if error.status == 404:
                return None
            raise
        return found

    def history(self, topic: str, since: str = "10m", limit: int = 100) -> list[dict[str, Any]]:
        """Return messages of the past, oldest first."""
        found: list[dict[str, Any]] = self.call("GET", _path("topics", topic, {"since": since, "limit": limit}))[
            "messages"
        ]
        return found

    def request(self, topic: str, payload: Any, timeout: float = 10.0) -> Any:
        """Ask a program that answers a topic."""
        return self._send(_path("requests", topic, {"timeout": timeout}), payload)

    def subscribe(self, topic: str, url: str, **options: Any) -> dict[str, Any]:
        """Have an address called with each message; returns the subscription with its `id` and `secret`."""
        found: dict[str, Any] = self.call("POST", "/v1/subscriptions", {"topic": topic, "url": url, **options})
        return found

    def unsubscribe(self, id: str) -> None:
        """End a subscription."""
        self.call("DELETE", f"/v1/subscriptions/{quote(id, safe='')}")

    def stream(self, *patterns: str, since: str | None = None, retained: bool = False) -> Iterator[dict[str, Any]]:
        """Iterate over messages as they come, for ever; a broken stream is taken up again. Raises DoorError."""
        options: list[tuple[str, str]] = [("topic", pattern) for pattern in patterns]
        if retained:
            options.append(("retained", "1"))
        last = None
        while True:
            query = urlencode([*options, *([("since", since)] if since and last is None else [])])
            headers = {**self._headers, "accept": "application/x-ndjson"}
            if last is not None:
                headers["last-event-id"] = last
            connection = self._connection()
            try:
                connection.request("GET", f"/v1/stream?{query}", headers=headers)
                answer = connection.getresponse()
                if answer.status != 200:
                    _checked(answer, answer.read())
                if not retained:  # else the last values come first, again if need be
                    last = last or answer.getheader("x-glue-position")
                for line in answer:
                    if line.strip():
                        message = json.loads(line)
                        last = message.get("id", last)
                        yield message
            except DoorError:
                raise
            except (http.client.HTTPException, OSError, ValueError):
                pass
            finally:
                connection.close()
            time.sleep(PAUSE)

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _path(kind: str, topic: str, options: dict[str, Any] | None = None) -> str:
    return f"/v1/{kind}/{quote(topic, safe='/')}" + (f"?{urlencode(options)}" if options else "")


def _checked(answer: http.client.HTTPResponse, text: bytes) -> Any:
    is_json = "json" in (answer.getheader("content-type") or "")
    if answer.status >= 400:
        try:
            reason = json.loads(text)["detail"] if is_json else answer.reason
        except (ValueError, KeyError, TypeError):
            reason = answer.reason
        raise DoorError(answer.status, reason)
    return json.loads(text) if is_json and text else text
