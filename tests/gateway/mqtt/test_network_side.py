"""What a door asks of its endpoint and takes from it: publications, subscriptions, retained messages, its address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.aio import Endpoint
from glue.errors import ConfigurationError, InterfaceError
from glue.gateway.mqtt import Gateway
from glue.gateway.mqtt import gateway as room
from glue.gateway.mqtt.system import SystemTopics
from tests.support import mqtt
from tests.support.mqtt import Bench

PATIENCE = 10.0


class Network:
    """An endpoint that notes what its door asks of it."""

    id, closed = "door", False

    def __init__(self) -> None:
        self.settings = SimpleNamespace(multicast_address="239.0.0.1:5000", one_interface="lan0")
        self._core = SimpleNamespace(guard=None, requests=SimpleNamespace(responders=lambda _: ["door"]))
        self.published: list[tuple[Any, ...]] = []
        self.problem: Exception | None = None
        self.told: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.nobody: set[str] = set()
        self.receivers: list[Receiver] = []
        self.answer: Callable[[Any], Any] = lambda request: None

    def subscribers(self, topic: str) -> list[str]:
        return [] if topic in self.nobody else ["hall"]

    def subscribe(self, pattern: str, receive: Callable[[Any], None], local: bool) -> Receiver:
        assert not local
        self.receivers.append(Receiver(self, pattern, receive))
        return self.receivers[-1]

    def respond(self, topic: str, answer: Callable[[Any], Any]) -> Receiver:
        self.answer = answer
        self.receivers.append(Receiver(self, topic, answer))
        return self.receivers[-1]

    async def request_all(self, *asked: Any) -> AsyncIterator[Any]:
        nothing: tuple[Any, ...] = ()
        for reply in nothing:
            yield reply

    async def publish(self, topic: str, payload: Any, **options: Any) -> None:
        if topic.startswith("$mqtt"):
            if self.told is not None:
                raise self.told
            return
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        self.published.append((topic, payload, {name: value for name, value in options.items() if value}))

    async def publish_many(self, topic: str, payloads: list[bytes]) -> None:
        await self.gate.wait()
        self.published.append((topic, list(payloads)))

    @property
    def patterns(self) -> list[str]:
        return sorted(one.pattern for one in self.receivers if not one.pattern.startswith("$mqtt"))

    def send(self, topic: str, payload: Any, *patterns: str, **facts: Any) -> None:
        """Deliver a message to the subscriptions with these patterns."""
        tokens = [one for one in self.receivers if one.pattern in patterns]
        delivery = SimpleNamespace(tokens=tokens, expires=facts.pop("expires", float("inf")))
        given: dict[str, Any] = {"encoded": None, "retained": False, "properties": {}, "published_at": 0.0, **facts}
        message = SimpleNamespace(topic=topic, payload=payload, delivery=delivery, **given)
        for one in tokens:
            one.receive(message)


class Receiver:
    """A subscription of the door."""

    def __init__(self, network: Network, pattern: str, receive: Callable[[Any], None]) -> None:
        self.network, self.pattern, self.receive = network, pattern, receive

    def close(self) -> None:
        with suppress(ValueError):
            self.network.receivers.remove(self)


class Device:
    """A client with a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, *packets: bytes) -> None:
        self._writer.write(b"".join(packets))

    async def read(self, count: int) -> list[mqtt.Sent]:
        """So many packets, each shorter than 128 bytes."""
        found: list[mqtt.Sent] = []
        async with asyncio.timeout(PATIENCE):
            for _ in range(count):
                head = await self._reader.readexactly(2)
                found += mqtt.split(head + await self._reader.readexactly(head[1]))
        return found

    def close(self) -> None:
        self._writer.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.001)


def at_door(main: Callable[[Network, Gateway, Callable[..., Awaitable[Device]]], Awaitable[None]]) -> Network:
    """Run with a door on loopback, its network, and a way to make a client of MQTT 5; returns the network."""

    async def whole() -> Network:
        network = Network()
        devices: list[Device] = []
        options: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "system_interval": 0.0}
        async with Gateway(cast(Endpoint, network), **options) as gateway:

            async def connect(client_id: str, *filters: tuple[str, int], **options: Any) -> Device:
                devices.append(Device(*await asyncio.open_connection("127.0.0.1", gateway.port)))
                devices[-1].send(mqtt.connect(client_id, 5, **options))
                await devices[-1].read(1)
                if filters:
                    devices[-1].send(mqtt.subscribe(1, *filters, version=5))
                    await devices[-1].read(1)
                return devices[-1]

            await main(network, gateway, connect)
            for device in devices:
                device.close()
        return network

    return asyncio.run(whole())


def test_what_clients_publish_is_published_as_they_did() -> None:
    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        network.nobody = {"nobody", "kept"}
        device = await connect("p")
        device.send(
            *(mqtt.publish("many", b"%d" % number, 1, number, version=5) for number in (1, 2, 3)),
            mqtt.publish("one", b"x", version=5),
            mqtt.publish("nobody", b"x", version=5),
            mqtt.publish("kept", b"x", 1, 4, retain=True, version=5),
            mqtt.publish("typed", b"x", 1, 5, version=5, raw=b"\x03" + mqtt.text("text/csv")),
            *(mqtt.publish("short", b"%d" % n, 1, n, version=5, raw=b"\x02\0\0\0\x3c") for n in (6, 7)),
            mqtt.publish("last", b"", version=5),
        )
        await until(lambda: bool(network.published) and network.published[-1][0] == "last")
        *plain, first, second, last = network.published
        assert plain == [
            ("many", [b"1", b"2", b"3"]), ("one", b"x", {}), ("kept", b"x", {"retain": True}),
            ("typed", b"x", {"properties": {"content-type": "text/csv"}}),
        ]  # fmt: skip
        for number, (topic, payload, options) in enumerate((first, second), 6):
            assert (topic, payload, [*options]) == ("short", b"%d" % number, ["lifespan"])
            assert options["lifespan"] == pytest.approx(60, abs=5)
        assert last == ("last", b"", {})

    at_door(main)


def test_publishers_wait_for_a_network_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "NETWORK_QUEUE", 10)

    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        assert gateway._door is not None
        told: list[bool] = []
        plain = gateway._door.network_full

        def tell(is_full: bool) -> None:
            told.append(is_full)
            plain(is_full)

        monkeypatch.setattr(gateway._door, "network_full", tell)
        device = await connect("p")
        network.gate.clear()
        device.send(mqtt.publish("t", bytes(10), 1, 1, version=5))
        await device.read(1)
        await until(lambda: gateway.broker.statistics["messages received"] == 1)
        assert not gateway._door.is_network_full, "it is not more than may wait"
        device.send(mqtt.publish("u", b"x", 1, 2, version=5))
        await device.read(1)
        device.send(mqtt.publish("v", bytes(10), 1, 3, version=5))
        await device.read(1)
        await until(lambda: gateway._door is not None and gateway._door.is_network_full)
        network.gate.set()
        await until(lambda: len(network.published) == 3)
        await until(lambda: gateway._door is not None and not gateway._door.is_network_full)
        assert (told.count(True), told[-1]) == (1, False)
        device.send(mqtt.PING)
        assert [one.kind for one in await device.read(1)] == [13]

    at_door(main)


def test_a_door_subscribes_to_what_its_clients_want_now_and_gives_it_to_them_once() -> None:
    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        first = await connect("a", ("t/#", 2), ("$SYS/#", 0), ("$share/g/s", 1))
        second = await connect("b", ("t/1", 1), ("t/#", 0))
        live, asking = ["s", "t/#", "t/1"], ["t/#", "t/#", "t/1"]
        assert network.patterns == sorted(live + asking), "each pattern once; new ones ask for what is retained"
        values: list[tuple[Any, dict[str, Any], bytes]] = [
            (b"raw", {}, b"raw"), ({"on": True}, {}, b'{"on":true}'), (object(), {"encoded": b"coded"}, b"coded"),
            (b"typed", {"properties": {"content-type": "text/csv"}}, b"typed"),
        ]  # fmt: skip
        for value, facts, _ in values:
            network.send("t/1", value, "t/1", "t/#", **facts)
        for device, qos in ((first, 2), (second, 1)):
            found = [mqtt.publication(one, 5) for one in await device.read(4)]
            assert [(one.payload, one.qos, one.retain) for one in found] == [(data, qos, False) for *_, data in values]
            assert [one.properties for one in found] == [b""] * 3 + [b"\x03" + mqtt.text("text/csv")]
        second.send(mqtt.unsubscribe(2, "t/1", version=5))
        await second.read(1)
        assert network.patterns == sorted(["s", "t/#", *asking])
        network.send("t/2", b"last", "t/#")
        assert [mqtt.publication(one, 5).payload for one in await second.read(1)] == [b"last"]

    at_door(main)


def test_a_lifetime_of_an_endpoint_s_message_is_told_to_clients() -> None:
    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        device = await connect("a", ("t", 1))
        now = time.monotonic()
        network.send("t", b"short", "t", expires=now + 50, properties={"content-type": "x"})
        (found,) = [mqtt.publication(one, 5) for one in await device.read(1)]
        assert (found.payload, found.properties[:8]) == (b"short", b"\x03" + mqtt.text("x") + b"\x02\0\0\0")
        assert 45 <= found.properties[8] <= 50

    at_door(main)


def test_a_new_subscription_gets_what_endpoints_retain_for_a_second() -> None:
    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        later: list[tuple[float, Callable[[], None]]] = []
        loop = asyncio.get_running_loop()
        plain = loop.call_later
        loop.call_later = lambda after, action, *rest: (  # type: ignore[method-assign,assignment]
            later.append((after, action)) if after == 1.0 else plain(after, action, *rest)
        )
        device = await connect("a", ("t/+", 1))
        network.send("t/1", {"on": 1}, "t/+", retained=True, published_at=5.0)
        (found,) = [mqtt.publication(one, 5) for one in await device.read(1)]
        assert (found.topic, found.payload, found.qos, found.retain) == ("t/1", b'{"on":1}', 1, True)
        assert network.patterns == ["t/+", "t/+"]
        ((_, close),) = later
        close()
        assert network.patterns == ["t/+"]
        network.send("t/1", b"again", "t/+", retained=True)
        device.send(mqtt.PING)
        assert [one.kind for one in await device.read(1)] == [13], "the live subscription gives nothing retained"

    at_door(main)


@pytest.mark.parametrize(
    ("host", "addresses", "told"),
    [
        ("127.0.0.1", [], "127.0.0.1:{}"),
        (None, ["10.0.0.7", "10.0.0.8"], "10.0.0.7:{}"),
        (None, ["fe80::1"], "[fe80::1]:{}"),
        (None, [], ""),
        (None, None, ""),
    ],
)
def test_other_doors_are_told_where_clients_reach_this_one(
    monkeypatch: pytest.MonkeyPatch, host: str | None, addresses: list[str] | None, told: str
) -> None:
    asked: list[Any] = []

    def choose(wanted: str, family: Any) -> Any:
        asked.append((wanted, family.name))
        if addresses is None:
            raise InterfaceError("there is none")
        return SimpleNamespace(interface=SimpleNamespace(addresses=lambda family: addresses))

    monkeypatch.setattr(room, "choose_interface", choose)

    async def main() -> None:
        network = Network()
        async with Gateway(cast(Endpoint, network), host=host, port=0, system_interval=0.0) as gateway:
            request = SimpleNamespace(payload=["address", "door", None], caller="x", caller_id="x")
            assert network.answer(request) == told.format(gateway.port)

    asyncio.run(main())
    assert asked == ([] if host else [("lan0", "AF_INET")])


def test_passwords_and_rules_are_looked_at_every_two_seconds() -> None:
    async def main() -> None:
        changes = [False, True, False]
        access = SimpleNamespace(changed=lambda: changes.pop(0))
        gateway = Gateway(cast(Endpoint, Network()), port=None, system_interval=0.0, access=cast(Any, access))
        broker, rechecked = gateway.broker, list[float]()
        broker.recheck = rechecked.append  # type: ignore[method-assign,assignment]
        async with gateway:
            now = broker.deadline
            for _ in range(2):
                broker.advance(now)
                now += 2.0
                assert broker.deadline == now
        assert rechecked == [now - 4.0]

    asyncio.run(main())


@pytest.mark.parametrize("interval", [0.0, 10.0])
def test_a_door_tells_its_counters_from_the_beginning_if_it_is_to(interval: float) -> None:
    async def main() -> None:
        async with Gateway(cast(Endpoint, Network()), port=None, system_interval=interval) as gateway:
            assert (gateway.broker.retained.get("$SYS/broker/version") is not None) == bool(interval)

    asyncio.run(main())


def test_a_directory_and_a_shared_model_at_once_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError, match="give the directory to the shared model instead"):
            Gateway(cast(Endpoint, Network()), shared=cast(Any, object()), data_dir="x")

    asyncio.run(main())


def test_the_topics_of_the_system_tell_what_is_counted_and_only_what_changed() -> None:
    bench = Bench()
    system = SystemTopics(bench.broker, 10.0, "1.2.3")
    system.begin(bench.now)
    bench.connect("away", 5, clean=False, raw=b"\x11\x00\x00\x0e\x10").leave()
    short = bench.subscriber(("q", 1), client_id="short", version=5, clean=False, raw=b"\x11\x00\x00\x00\x01")
    short.leave()
    bench.link()
    bench.subscriber(("$share/g/s", 0), client_id="m")
    bench.connect("p").send(mqtt.publish("q", b"x", 1, 1), mqtt.publish("kept", b"x", retain=True))
    bench.broker.statistics.update({"bytes received": 70, "bytes sent": 80, "messages dropped": 2})
    assert {name.removeprefix("$SYS/broker/"): value for name, value in system.values(bench.now + 7.4).items()} == {
        "version": "glue 1.2.3", "uptime": "7 seconds", "clients/connected": 2, "clients/disconnected": 2,
        "clients/total": 4, "clients/maximum": 2, "clients/expired": 0, "messages/received": 2, "messages/sent": 0,
        "publish/messages/received": 2, "publish/messages/sent": 0, "publish/messages/dropped": 2,
        "bytes/received": 70, "bytes/sent": 80, "store/messages/count": 20, "retained messages/count": 19,
        "subscriptions/count": 2, "shared_subscriptions/count": 1,
    }  # fmt: skip
    watcher = bench.connect("w")
    watcher.send(mqtt.subscribe(1, ("$SYS/broker/clients/#", 0), ("$SYS/broker/version", 0)))
    retained = {one.topic: one.payload for one in map(mqtt.publication, watcher.read()[1:])}
    assert (len(retained), retained["$SYS/broker/clients/total"]) == (6, b"0")
    assert retained["$SYS/broker/version"] == b"glue 1.2.3"
    bench.pass_time(10)
    told = {one.topic.rpartition("/")[2]: one.payload for one in watcher.messages()}
    assert told == {"connected": b"3", "disconnected": b"1", "expired": b"1", "total": b"4", "maximum": b"3"}
    bench.pass_time(10)
    assert watcher.messages() == []
    silent = Bench()
    SystemTopics(silent.broker, 0.0, "1").begin(silent.now)
    assert (len(silent.broker.retained), silent.broker.deadline) == (0, float("inf"))
