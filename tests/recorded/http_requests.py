"""Recorded minutes of the HTTP door: requests that a seed draws, right and wrong, and the answers that a client gets.

The door is that of the fuzzer: it has no network, and keeps what it is asked to publish and to deliver.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

import glue
from glue.gateway.http.deliveries import Deliveries
from glue.gateway.http.limits import Limits
from glue.gateway.http.recent import RecentLog
from glue.gateway.http.server import ROUTES, application
from glue.gateway.http.store import MemoryStore
from glue.gateway.http.subscriptions import Subscription
from glue.storage import JSON, MemoryLog, Record
from tests.fuzz.targets.doors import door
from tests.recorded.minutes import Minutes

PATHS = (
    "/v1/topics/a/b", "/v1/topics/a%2Fb", "/v1/topics/a/+", "/v1/topics/", "/v1/topics", "/v1/publish", "/create",
    "/subscribe", "/publish", "/v1/subscriptions", "/v1/subscriptions/{id}", "/v1/subscriptions/{id}/replay",
    "/v1/subscriptions/{id}/dead-letters", "/v1/subscriptions/{id}/deliveries", "/v1/topics/a/b/history", "/v1/models",
    "/v1/health", "/v1/status", "/metrics", "/asyncapi.json", "/v1/subscriptions/{id}",
    "/v1/subscriptions/x", "/health", "/v1", "/", "/v1/models/m/keys/a", "/v1/request/a",
    "/v1/asyncapi", "/openapi.json", "/v1/dead/{id}", "/nothing", "/v1/topics/$glue/x", "/v1/topics/a//b",
)  # fmt: skip
QUERIES = (
    "retain=1", "retain=2", "type=t", "lifespan=5", "lifespan=-1", "lifespan=x", "property=a=b", "property=a", "acks=2",
    "acks=disk", "acks=0", "priority=urgent", "priority=x", "delay=3", "unknown=1", "last=3", "limit=5", "limit=0",
    "since=10m", "since=x", "offset=log.7", "offset=log.99", "offset=7", "raw=1", "timeout=0", "timeout=x", "all=1",
    "pattern=a/%23", "reliability=best-effort", "codec=json", "retained=1", "base64=1",
)  # fmt: skip
BODIES = (
    b"", b"1", b'{"on":true}', b"not json", b'{"topic":"t"}', b'{"topic":"created"}', b'{"topic":"a/#"}', b"\xff\x00",
    b'{"topic":"created","addr":"http://127.0.0.1:9/x"}', b'{"topic":"created","addr":"ftp://x"}', b"[]",
    b'{"topic":"created","payload":"YWJj","payloadType":"x"}', b'{"topic":"created","payload":"%%"}',
    b'{"topic":"a","payload":1}\n{"topic":"b","payload_base64":"YQ=="}', b'{"topic":"a/#","payload":1}',
    b'{"topic":"a","payload":1,"retain":true,"lifespan":2,"properties":{"a":"b"},"type":"t"}',
    b'{"topic":"a","payload":1,"retain":"yes"}\n{"topic":""}\n{"topic":"b","payload":2}',
    b'{"topic":"a/#","url":"http://127.0.0.1:9/x","start":"10m","parallel":3}', b'{"topic":"a/#","url":"x"}',
    b'{"topic":"a/#","url":"http://h/","secret":"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","timeout":3}',
    b'{"topic":"a","url":"http://h/","parallel":0}', b'{"topic":"a","url":"http://h/","timeout":"x"}',
    b'{"topic":"a","url":"http://h/","format":"carrier","give_up_after":9}', b'{"state":"paused"}', b'{"parallel":2}',
    b'{"state":"gone"}', b'{"url":"http://other/"}', b'{"secret":null}', b"{" + b" " * 3000 + b"}",
)  # fmt: skip
HEADERS: dict[str, tuple[str, ...]] = {
    "content-type": ("application/json", "text/plain", "application/octet-stream", "application/x-ndjson", "x"),
    "idempotency-key": ("k1", "k2", "k" * 300), "origin": ("http://a", "http://door", "null"),
    "authorization": ("Bearer x", "Basic x", "Bearer"), "if-match": ('"1"', "1", "*"), "if-none-match": ("*", '"2"'),
    "accept": ("application/json", "text/event-stream", "text/html"), "host": ("other", "127.0.0.1"),
    "glue-type": ("t",), "glue-property-a": ("b",), "content-encoding": ("gzip",),
}  # fmt: skip
TOPICS = ("a/b", "a/b", "a%2Fb", "a/c", "created", "x/y", "a/+", "a/%23", "$glue/x", "a//b", "m")
FIELD = re.compile(r"\{(\w+)(?::[^}]*)?\}")
METHODS = ("GET", "GET", "POST", "POST", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD")
CHANGING = re.compile(r"\b[0-9a-f]{16}\b|[0-9a-f]{8}-[0-9a-f-]{27}|whsec_[A-Za-z0-9+/=_-]+|\d{10}\.\d+")


class Delivering:
    """The subscriptions of the door, and its log."""

    def __init__(self) -> None:
        log = MemoryLog("log")
        self.store, self.subscriptions = MemoryStore(), dict[str, Any]()
        self.forbidden, self.unkept = dict[str, str](), dict[str, str]()
        self.is_owner = lambda id: True
        self.store.topics.add("created")
        self.journal = SimpleNamespace(
            recent=RecentLog(log, 1 << 16), data_dir=None, patterns=["a/#", "created"], want=self.change,
            keeps=lambda topic: topic.startswith("a/") or topic == "created",
        )  # fmt: skip
        self.machine = Deliveries(self.journal.recent, Random(1), Limits())
        for number in range(1, 60):
            topic, payload = ("a/b", "a/c", "created")[number % 3], b'{"n":%d}' % number
            record = Record("o" * 16, "o", 1, topic, number, [payload], 1e9 + number, JSON if number % 2 else 0)
            begin = log.end
            self.journal.recent.add(begin, log.append([record]), [record])
        log.sync()
        self.journal.recent.sync(log.durable)

    async def add(self, made: Subscription, start: Any = None) -> None:
        """Add a subscription."""
        if len(self.subscriptions) >= 4:
            raise glue.ConfigurationError("there are 4 subscriptions already; delete some")
        self.subscriptions[made.id] = made
        position: Any = {"log": "log", "offset": 20, "since": start if isinstance(start, float) else 0.0, "seen": []}
        self.machine.open(5.0, made, position)

    async def change(self, made: Any) -> None:
        """Use other settings."""
        if isinstance(made, Subscription):
            self.subscriptions[made.id] = made
            self.machine.change(6.0, made)

    async def remove(self, id: str) -> None:
        """End a subscription."""
        del self.subscriptions[id]
        self.machine.close(id)

    async def replay(self, id: str) -> None:
        """Deliver dead letters again."""

    async def dead_from(self, id: str) -> int:
        """Where dead letters begin."""
        return 30


class Clients(Minutes):
    """Clients of one door."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = Random(seed)
        made: Any = door()
        made.delivering = Delivering()
        made.feed = SimpleNamespace(last=lambda topic: '{"last":1}' if topic == "a/b" else None, statistics={})
        self.published: list[str] = []
        publish = made.endpoint.publish

        async def noted(topic: str, payload: Any, **options: Any) -> None:
            await publish(topic, payload, **options)
            self.published.append(f"{topic} {payload!r:.60} {sorted(options.items())}")

        made.endpoint.publish = noted
        self.door = made

    def live_on(self, steps: int) -> str:
        """Send so many requests."""
        loop = asyncio.new_event_loop()
        logging.disable()
        try:
            for _ in range(steps):
                self.say(loop.run_until_complete(self.request()), *self.published)
                self.published.clear()
        finally:
            logging.disable(logging.NOTSET)
            loop.close()
        return self.text() + "".join(f"{what}: {n}\n" for what, n in sorted(self.door.statistics.items()))

    async def request(self) -> str:
        """Send one request, and return it with its answer."""
        choice, chance = self.random.choice, self.random.random
        ids = [*self.door.delivering.subscriptions, "none"]
        method, path = choice(METHODS), choice(PATHS)
        if chance() < 0.8:
            route = choice(ROUTES)
            method, path = route.method, route.path
        path = FIELD.sub(lambda field: choice(ids if field[1] == "id" else TOPICS), path)
        query = "&".join(self.random.sample(QUERIES, choice((0, 0, 1, 1, 2))))
        headers = {"host": "door"}
        headers |= {name: choice(values) for name, values in HEADERS.items() if chance() < 0.12}
        body = choice(BODIES)
        content = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1 << 16)
        content.feed_data(body)
        content.feed_eof()
        app = application(self.door, frozenset())
        app.freeze()
        full = f"{path}?{query}" if query else path
        request = make_mocked_request(method, full, headers, payload=content, app=app)
        place = {name: str(number) for number, name in enumerate(ids)}
        shown = full if path.isascii() else path
        for id, number in place.items():
            shown = shown.replace(id, number)
        try:
            answer: web.StreamResponse = await app._handle(request)
            told = f"{answer.status} {bytes(getattr(answer, 'body', b'') or b'')[:300]!r}"
            kept = {name: value for name, value in answer.headers.items() if name not in ("Date", "Server")}
            told += f" {sorted(kept.items())}"
        except (web.HTTPException, AttributeError, AssertionError, TypeError) as error:
            told = type(error).__name__
        for id, number in place.items():
            told = told.replace(id, number) if id != "none" else told
        told = CHANGING.sub("…", told)
        return f"{method} {shown} {sorted(headers.items())[1:]} {body[:40]!r}: {told}"


HTTP: dict[str, Callable[[], str]] = {"http-requests": lambda: Clients(91).live_on(600)}
