"""A door for MQTT clients at an endpoint: clients publish to the network, and subscribe to its topics."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Self

import glue
from glue.aio import Endpoint, Subscription
from glue.endpoint.message import Message
from glue.errors import ClosedError, ConfigurationError, GlueError
from glue.gateway.descriptors import connections_of, open_files
from glue.gateway.mqtt.access import Access, Everybody
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.door import Door
from glue.gateway.mqtt.group_rules import GroupAccess
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.neighbours import Neighbours
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.plugins import Plugin, PluginAccess, load_plugins
from glue.gateway.mqtt.recovery import recover
from glue.gateway.mqtt.session import Client
from glue.gateway.mqtt.session import Subscription as ClientSubscription
from glue.gateway.mqtt.store import Store
from glue.gateway.mqtt.subscriptions import shared_parts
from glue.gateway.mqtt.system import SystemTopics
from glue.gateway.mqtt.translation import FROM_LOG, for_network, run_of
from glue.gateway.rights import Rights
from glue.network import choose_interface, parse_group

if TYPE_CHECKING:
    from glue.aio.model import Model
    from glue.gateway.mqtt.cluster.joining import Joining

MQTT_PORT, TLS_PORT = 1883, 8883

NETWORK_QUEUE = 8 << 20
"""Bytes published by clients that may wait for the network; beyond, no more is read from publishers."""

REPLAY_TIME = 1.0
"""Seconds that retained messages of other endpoints have to arrive for a new subscription."""

REST_DELAY = 0.5
"""Seconds until publishers know that a session is at this door now."""

RECHECK_INTERVAL = 2.0
"""Seconds between two looks at whether passwords or rules have changed."""

logger = logging.getLogger("glue.mqtt")


class Gateway:
    """A broker for MQTT clients, at an endpoint of asyncio; a context manager.

    Topics are the same on both sides. A payload of a client is bytes at endpoints. A JSON value of an endpoint is a
    JSON text at clients. Topics below `$` stay on their side.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        host: str | None = None,
        port: int | None = MQTT_PORT,
        tls_port: int | None = None,
        tls: ssl.SSLContext | None = None,
        websocket_port: int | None = None,
        access: Access | None = None,
        limits: Limits | None = None,
        data_dir: str | PathLike[str] | None = None,
        shared: Model | None = None,
        system_interval: float = 10.0,
    ) -> None:
        """Each port may be 0 for any free port, and None for no listener; with `tls`, websockets use TLS, too.

        The `endpoint` must be started before the gateway. The `access` decides about clients; by default all clients
        may do everything. The `system_interval` is the time in seconds between two publications of `$SYS` topics, 0
        for none.
        With `data_dir`, sessions, their messages and retained messages survive the end of the process there.
        With `shared`, a model that all doors of the network have open, they are in this model instead, and another door
        goes on with them when this one dies. A directory is given to the model then; both are a ConfigurationError.
        """
        self.endpoint = endpoint
        self.port, self.tls_port, self.websocket_port = port, tls_port, websocket_port
        self._host = host
        self._data_dir = data_dir
        self._tls = tls
        plugins = load_plugins()
        decides = _deciding(endpoint, plugins, access or Everybody())
        self._joining: Joining | None = None
        if shared is None:
            self.broker = Broker(decides, Random(), limits)
        else:
            self._joining, self.broker = _joined(endpoint, shared, decides, limits, data_dir is not None)
        self._neighbours = Neighbours(endpoint, self.broker)
        self.broker.watchers = [*plugins, self._neighbours]
        self.broker.log, self.broker.wall_clock = logger.log, time.time
        self._system = SystemTopics(self.broker, system_interval, glue.__version__)
        self._door: Door | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._mine: set[Hashable] = set()  # the same subscriptions
        self._outgoing: deque[Publish] = deque()
        self._outgoing_bytes = 0
        self._has_outgoing = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._incoming: list[Message] = []
        self._is_closed = False

    async def start(self) -> Self:
        """Listen. Raises OSError if a port cannot be had, StorageError if the data directory cannot be used.

        With `shared` and no majority in reach, the door soon serves what needs none, and the rest once there is one.
        """
        self._fit()
        door = self._door = Door(self.broker, self._after)
        try:
            if self._joining is not None:
                door.is_cluster_full = self._joining.is_full
                await self._joining.start(door.flush)
            if self._data_dir is not None:
                door.store_in(self._recovered(self._data_dir))
            if self.port is not None:
                self.port = await door.listen(self._host, self.port)
            if self.tls_port is not None and self._tls is not None:
                self.tls_port = await door.listen_tls(self._host, self.tls_port, self._tls)
            if self.websocket_port is not None:
                self.websocket_port = await door.listen_websocket(self._host, self.websocket_port, self._tls)
            self._neighbours.flush, self._neighbours.spawn = door.flush, door.spawn
            self._neighbours.address = self._address()
            self._neighbours.begin()
        except BaseException:
            await door.close()
            if self._joining is not None:
                await self._joining.close()
            self._leave()
            raise
        self._sender = asyncio.create_task(self._send(), name="glue mqtt")
        self._system.begin(time.monotonic())
        self._check_access(time.monotonic())
        door.flush()
        return self

    def _fit(self) -> None:
        """Take no more clients than files may be open."""
        limits, room = self.broker.limits, connections_of(open_files())
        if room < limits.clients:
            self.broker.limits = replace(limits, clients=room)
        if room < 0.9 * limits.clients:  # a little less is worth no line
            logger.info(
                "this process may open %s files, so it takes %s clients at a time; `ulimit -n` raises it",
                open_files(), room,
            )  # fmt: skip

    def _address(self) -> str:
        """Where clients reach this door, for other doors to tell: the address that it listens on, and the port."""
        if self._host:
            return f"{self._host}:{self.port}"
        settings = self.endpoint.settings
        family = parse_group(settings.multicast_address).family
        with suppress(GlueError):
            for address in choose_interface(settings.one_interface, family).interface.addresses(family):
                return f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"
        return ""

    def _recovered(self, data_dir: str | PathLike[str]) -> Store:
        """Open the store, and take from it what was there before."""
        from glue.drivers.directory import FileDirectory  # imported here: most programs store nothing

        directory = self.endpoint._core.at_rest(FileDirectory(data_dir))
        try:
            store = Store(directory, Random(), time.time)
            recover(time.monotonic(), self.broker, store)
        except BaseException:
            directory.close()
            raise
        broker = self.broker
        logger.info("%d sessions and %d retained messages are stored", len(broker.sessions), len(broker.retained))
        return store

    async def close(self) -> None:
        """Close all connections, publish the wills, and hand over what was published. A second time does nothing."""
        if self._door is None or self._is_closed:
            return
        self._is_closed = True
        other = await self._neighbours.drain()
        await self._door.close(other, self._neighbours.hand_over)
        if self._joining is not None:
            await self._joining.close()
        self._after()
        sender = self._sender
        while self._outgoing and not self.endpoint.closed and sender is not None and not sender.done():
            await asyncio.sleep(0.01)
        if sender is not None:
            sender.cancel()
        self._leave()

    def _leave(self) -> None:
        """End what the endpoint does for this door: it may go on without it."""
        self._neighbours.end()
        for subscription in self._subscriptions.values():
            subscription.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_access(self, now: float) -> None:
        """Heed changed passwords and rules, now and from time to time."""
        if self.broker.access.changed():
            logger.info("passwords or rules have changed")
            self.broker.recheck(now)
            self.broker.subscriptions.is_changed = True
        self.broker.at(now + RECHECK_INTERVAL, self._check_access)

    # --------------------------------------------------------------------------------------- to the network

    def _after(self) -> None:
        """Pass on what clients published, and subscribe to what they want; called after each event."""
        broker = self.broker
        if broker.published:
            published, broker.published = broker.published, []
            for run in published:
                if run.retain or self._wants(run):
                    self._outgoing.append(run)
                    self._outgoing_bytes += run.size
            if self._outgoing_bytes > NETWORK_QUEUE and self._door is not None:
                self._door.network_full(True)
        if self._outgoing or self._neighbours.has_news:
            self._has_outgoing.set()
        if self._joining is not None:
            self._joining.begin()
        if broker.subscriptions.is_changed:
            broker.subscriptions.is_changed = False
            self._follow()
        if broker.sought and self._door is not None:
            sought, broker.sought = broker.sought, []
            for client in sought:
                self._door.spawn(self._find_session(client))
        if broker.fresh:
            fresh, broker.fresh = broker.fresh, []
            for subscription in fresh:
                self._replay(subscription)

    def _wants(self, run: Publish) -> bool:
        """Whether another endpoint gets a run through the network."""
        return bool(self.endpoint.subscribers(run.topic)) and (self._joining is None or self._joining.wants(run))

    async def _find_session(self, client: Client) -> None:
        """Ask the other doors for the session of a client that connects here."""
        assert client.connect is not None
        assert self._door is not None
        client_id = client.connect.client_id
        value = await self._neighbours.seek(client_id)
        self.broker.settle(time.monotonic(), client, value)
        self.broker.changed[client] = None
        self._door.flush()
        if isinstance(value, dict):
            await asyncio.sleep(REST_DELAY)
            if self.broker.awaits_rest(client_id):
                self.broker.give_rest(time.monotonic(), client_id, *await self._neighbours.rest(client_id))
                self._door.flush()

    async def _send(self) -> None:
        """Publish what clients published, in order."""
        while True:
            await self._has_outgoing.wait()
            await self._neighbours.announce()
            while self._outgoing:
                run = self._outgoing.popleft()
                self._outgoing_bytes -= run.size
                try:
                    await self._publish(run)
                except ClosedError:
                    return
                except GlueError as error:
                    self.broker.statistics["messages that the network refused"] += run.count
                    told = f"a message to {run.topic!r:.200} could not be passed on: {error}"
                    self.broker.refusals.tell(time.monotonic(), told, str(error))
            self._has_outgoing.clear()
            if self._door is not None:
                self._door.network_full(False)

    async def _publish(self, run: Publish) -> None:
        lifespan = None if run.expires == float("inf") else max(0.001, run.expires - time.monotonic())
        properties, are_too_large = for_network(run.properties)
        if run.offset >= 0 and self._joining is not None:
            properties = {**(properties or {}), FROM_LOG: "1"}
        self.broker.statistics["properties too large for the network"] += are_too_large
        if not run.retain and lifespan is None and properties is None and run.count > 1:
            await self.endpoint.publish_many(run.topic, run.payloads)
            return
        for payload in run.payloads:
            await self.endpoint.publish(run.topic, payload, retain=run.retain, lifespan=lifespan, properties=properties)

    # ------------------------------------------------------------------------------------- from the network

    def _follow(self) -> None:
        """Subscribe to the topic filters that clients use now, and to no others."""
        patterns = {*self.broker.subscriptions.patterns}
        if self._joining is not None:
            patterns |= self._joining.patterns
        wanted = {pattern for pattern in patterns if not pattern.startswith("$")}
        for pattern in self._subscriptions.keys() - wanted:
            self._subscriptions.pop(pattern).close()
        for pattern in wanted - self._subscriptions.keys():
            receive = partial(self._receive, pattern)
            try:
                self._subscriptions[pattern] = self.endpoint.subscribe(pattern, receive, local=False)
            except GlueError as error:  # of a session that stays: the door might subscribe when its client did
                told = f"a session wants {pattern!r:.200}, which the door gets nothing of: {error}"
                self.broker.refusals.tell(time.monotonic(), told)
        self._mine = {*self._subscriptions.values()}

    def _receive(self, pattern: str, message: Message) -> None:
        """Take a message of another endpoint, once; those of one turn go to clients together."""
        if message.retained:
            return  # a new subscription asks for these itself
        tokens = message.delivery.tokens
        if len(tokens) > 1 and not self._is_first(pattern, tokens):
            return
        if not self._incoming:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._incoming.append(message)

    def _is_first(self, pattern: str, tokens: Sequence[Hashable]) -> bool:
        """Whether the subscription to this pattern is the first of the door's that a delivery is for."""
        return next((token for token in tokens if token in self._mine), None) is self._subscriptions.get(pattern)

    def _deliver(self) -> None:
        incoming, self._incoming = self._incoming, []
        now = time.monotonic()
        first = 0
        for place, message in enumerate(incoming):
            following = incoming[place + 1] if place + 1 < len(incoming) else None
            if following is None or following.delivery is not message.delivery:
                run = run_of(incoming[first : place + 1])
                if self._joining is None or self._joining.takes(run, message):
                    self.broker.deliver(now, run)
                first = place + 1
        if self._door is not None:
            self._door.flush()

    def _replay(self, subscription: ClientSubscription) -> None:
        """Ask the network for the retained messages that a new subscription of a client gets."""
        _, pattern = shared_parts(subscription.filter)
        if pattern.startswith("$"):
            return

        def give(message: Message) -> None:
            if message.retained and self._door is not None:
                self.broker.replay_from_network(time.monotonic(), subscription, run_of([message]), message.published_at)
                self._door.flush()

        asking = self.endpoint.subscribe(pattern, give, local=False)
        asyncio.get_running_loop().call_later(REPLAY_TIME, asking.close)


def _deciding(endpoint: Endpoint, plugins: Sequence[Plugin], access: Access) -> Access:
    """What decides about clients: the plugins and then the `access`, within the rights of the endpoint's group."""
    decides = PluginAccess(plugins, access) if plugins else access
    guard = endpoint._core.guard
    return decides if guard is None else GroupAccess(Rights("mqtt", guard), decides)


def _joined(
    endpoint: Endpoint, shared: Model, access: Access, limits: Limits | None, has_data_dir: bool
) -> tuple[Joining, Broker]:
    """The part of a door in a cluster, and its broker."""
    from glue.gateway.mqtt.cluster.joining import Joining  # imported here: most doors stand alone

    if has_data_dir:
        raise ConfigurationError("data_dir and shared: give the directory to the shared model instead")
    joining = Joining(endpoint, shared, access, limits)
    return joining, joining.broker
