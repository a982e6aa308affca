"""The doors: an MQTT broker fed with bytes, and the routes of the HTTP door fed with requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from glue.gateway.http.door import Door
from glue.gateway.http.idempotency import Idempotency
from glue.gateway.http.limits import Limits
from glue.gateway.http.server import application
from glue.gateway.http.store import MemoryStore
from glue.gateway.http.tokens import EVERYTHING, Access
from glue.gateway.refusals import Refusals
from glue.topics.names import check_topic
from tests.fuzz.registry import joined, split, target
from tests.support import mqtt

V4, V5 = 4, 5


def sessions() -> list[bytes]:
    """What a client sends, in parts: each comes in a read of its own. The first byte tells who is connected before."""
    found = []
    for version in (V4, V5):
        raw = b"\x11\0\0\1\0" if version == V5 else b""
        will = mqtt.connect("c", version, False, 30, ("w/x", b"gone", 1, True), "user", b"secret", raw)
        middle = [
            mqtt.subscribe(1, ("a/#", 1), ("$share/g/b", 2), version=version),
            mqtt.publish("a/b", b"one", 1, 7, True, version=version),
            mqtt.publish("a/b", b"two", 2, 8, version=version) + mqtt.acknowledge(6, 8),
            mqtt.publish("a/b", b"x", version=version) * 5,
            mqtt.unsubscribe(2, "a/#", version=version) + mqtt.PING,
        ]  # fmt: skip
        found += [joined([b"\0", will, *middle, mqtt.DISCONNECT]), joined([bytes((version,)), *middle])]
    aliased = mqtt.publish("a", b"x", version=V5, raw=b"\x23\0\1")
    aliased += mqtt.publish("", b"y", version=V5, raw=b"\x23\0\1\x26\0\1a\0\1b")
    return [*found, joined([b"\5", aliased]), joined([b"\0", mqtt.connect("d", 3)])]


@target("mqtt", sessions)
def mqtt_broker(data: bytes) -> None:
    """A broker with an honest subscriber; a client that sends anything, before or after a good CONNECT."""
    bench = mqtt.Bench()
    subscriber = bench.subscriber(("a/#", 1), client_id="honest")
    first, *rest = split(data) or [b"\0"]
    version = first[0] if first else 0
    device = bench.connect("guest", version) if version in (V4, V5) else bench.link(is_local=False)
    for part in rest:
        device.send(part)
        device.client.out = []
        bench.pass_time(0.1)
    device.leave()
    bench.pass_time(100.0)
    subscriber.read()
    other = bench.connect("other")
    other.send(mqtt.publish("a/last", b"last"))
    assert any(sent.kind == 3 and b"last" in sent.body for sent in subscriber.read()), "nothing reaches others any more"


# ------------------------------------------------------------------------------------------------------- HTTP


class Endpoint:
    """Takes what a door publishes."""

    class _core:  # noqa: N801  # as the endpoint has it
        guard = None

    async def publish(self, topic: str, payload: Any, **options: Any) -> None:
        """Publish as an endpoint does: with its checks."""
        check_topic(topic)

    async def publish_many(self, topic: str, payloads: list[Any]) -> None:
        """Publish as an endpoint does."""
        await self.publish(topic, payloads)


class Journal:
    """Keeps nothing."""

    data_dir = None
    patterns = ()

    def keeps(self, topic: str) -> bool:
        """Whether a topic is kept."""
        return False

    async def want(self, pattern: str) -> None:
        """Keep a pattern."""


class Machine:
    """Delivers nothing."""

    def __init__(self) -> None:
        self.lanes: dict[str, Any] = {}


class Delivering:
    """Subscriptions that are never served."""

    def __init__(self) -> None:
        self.forbidden, self.unkept = dict[str, str](), dict[str, str]()
        self.is_owner = lambda id: True
        self.store = MemoryStore()
        self.store.topics.add("created")
        self.subscriptions: dict[str, Any] = {}
        self.journal = Journal()
        self.machine = Machine()

    async def add(self, subscription: Any, start: Any = None) -> None:
        """Add a subscription."""
        await self.store.put(subscription.id, orjson.loads(orjson.dumps(subscription.stored())))
        self.subscriptions[subscription.id] = subscription


def door() -> Door:
    """A door without a network."""
    made: Any = Door.__new__(Door)
    made.endpoint, made.access, made.limits = Endpoint(), Access(anonymous=EVERYTHING), Limits()
    made.delivering, made.idempotency = Delivering(), Idempotency(100, 100.0, None, lambda: 1e9)
    made.feed, made.models, made.rules, made.streams = None, {}, None, 0
    made.statistics, made.describe, made.refusals = Counter(), dict, Refusals(lambda _text: None)
    made.publish = lambda topic, payload, acks, options: _published(made, topic, payload, options)
    return made  # type: ignore[no-any-return]


async def _published(door: Door, topic: str, payload: Any, options: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    await door.endpoint.publish(topic, payload, **options)
    return 202, {"topic": topic}


REQUESTS = (
    ("POST", "/create", b'{"topic":"t"}'), ("POST", "/subscribe", b'{"topic":"created","addr":"http://127.0.0.1:9/x"}'),
    ("POST", "/publish", b'{"topic":"created","payload":"YWJj","payloadType":"x"}'),
    ("POST", "/v1/topics/a/b?retain=1&type=t&lifespan=5&property=a=b&acks=2", b'{"on":true}'),
    ("PUT", "/v1/topics/a%2Fb", b"bytes"),
    ("POST", "/v1/publish", b'{"topic":"a","payload":1}\n{"topic":"b","payload_base64":"YQ=="}'),
    ("POST", "/v1/subscriptions", b'{"topic":"a/#","url":"http://127.0.0.1:9/x","start":"10m","parallel":3}'),
    ("OPTIONS", "/v1/topics/a", b""),
)  # fmt: skip
HEADERS = ("content-type", "idempotency-key", "origin", "authorization", "if-match", "accept")


def requests() -> list[bytes]:
    """Requests: the number of the route, what is behind its path, the body, and headers by their numbers."""
    found = [joined([bytes((place,)), path.encode(), body]) for place, (_, path, body) in enumerate(REQUESTS)]
    headers = [b"\0application/json", b"\1key", b"\2http://a", b"\3Bearer x"]
    return [*found, *(joined([b"\3", b"/v1/topics/a", b"1", one]) for one in headers)]


_loop: list[asyncio.AbstractEventLoop] = []


@target("http", requests)
def http_door(data: bytes) -> None:
    """A request to the door: no input may be answered with 500."""
    parts = [*split(data), b"", b"", b""]
    method = REQUESTS[parts[0][0] % len(REQUESTS) if parts[0] else 0][0]
    path = "/" + parts[1].decode("latin-1").lstrip("/")
    headers = {"host": "door"}
    for one in parts[3:]:
        if one:
            headers[HEADERS[one[0] % len(HEADERS)]] = one[1:].decode("latin-1").replace("\n", "").replace("\r", "")
    if not _loop:
        _loop.append(asyncio.new_event_loop())
    status = _loop[0].run_until_complete(answered(method, path, headers, parts[2]))
    assert status < 500 or status in (502, 503, 504), f"{method} {path!r} is answered with {status}"


async def answered(method: str, path: str, headers: dict[str, str], body: bytes) -> int:
    """The status of the answer to a request. A path that is no URL never reaches a route: 400."""
    content = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1 << 16)
    content.feed_data(body)
    content.feed_eof()
    app = application(door(), frozenset())
    app.freeze()
    try:
        request = make_mocked_request(method, path, headers, payload=content, app=app)
    except ValueError:
        return 400
    found: web.StreamResponse = await app._handle(request)
    return found.status
