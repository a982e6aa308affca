"""The other doors of the network: a client id is connected at one door alone, and each door announces its clients.

A door announces each client that connects, with a number: a Lamport clock, one more than all numbers seen before. A
door with an older connection of the same client id closes the connection. A door with a newer connection announces its
client again.

A door that starts announces the sessions that it has stored with the number 0: it does not know whether their clients
have connected elsewhere meanwhile, at doors that may never have seen its numbers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from glue.aio import Endpoint, Responder, Subscription
from glue.endpoint.message import Message
from glue.endpoint.request import Request
from glue.errors import ClosedError, GlueError
from glue.gateway.mqtt import codes
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.plugins import Plugin
from glue.gateway.mqtt.session import Client, Session
from glue.gateway.names import MQTT_DOORS

CONNECTED = "$mqtt/connected"
"""The topic on which doors announce clients: a list of pairs of client id and number."""

NUMBER_LIMIT = 2**53 - 1
"""The largest number: what JSON readers keep exactly. Larger ones are not taken."""

SEEK_TIMEOUT = 2.0
"""Seconds that a client waits for its session at most; a door that is dead is unknown after less."""

TOGETHER = 64
"""Sessions that are handed over at a time."""

RETAINED_TOGETHER = 256
"""Retained messages in a request; what is larger than a message of glue stays behind."""

SHOWN = 10_000
"""Clients or sessions in an answer; at some 300 bytes each it has 3 MB."""


class Neighbours(Plugin):
    """The messages between doors: sends the messages of this door, and obeys the messages of other doors."""

    def __init__(self, endpoint: Endpoint, broker: Broker) -> None:
        self._endpoint = endpoint
        self._broker = broker
        self.address = ""
        """Where clients reach this door: host and port."""
        self.flush: Callable[[], None] = lambda: None
        """Writes what the broker has for its clients."""
        self.spawn: Callable[[Coroutine[Any, Any, None]], None] = Coroutine.close
        """Runs a coroutine beside all else."""
        self._late: set[str] = set()  # clients whose messages are being handed over
        self._successor = ""
        self._new: dict[str, int] = {}  # what is to be announced: client ids and their epochs
        self._stored: dict[str, int] = {}  # the epochs of sessions as this door found them when it began
        self._open: list[Subscription | Responder] = []

    def begin(self) -> None:
        """Listen to other doors, and answer them."""
        self._open.append(self._endpoint.subscribe(CONNECTED, self._other_connected, local=False))
        self._open.append(self._endpoint.respond(MQTT_DOORS, self._answer))
        self._broker.may_be_elsewhere = lambda: bool(self._others())
        self._stored = {name: session.epoch for name, session in self._broker.sessions.items() if session.epoch}
        self._new.update(dict.fromkeys(self._stored, 0))

    def end(self) -> None:
        """Be no door for the others any more: what they hand over would be lost here."""
        while self._open:
            self._open.pop().close()

    def _others(self) -> list[str]:
        """The other doors."""
        return [one for one in self._endpoint._core.requests.responders(MQTT_DOORS) if one != self._endpoint.id]

    async def rest(self, client_id: str) -> list[Any]:
        """Ask for what came at each former door of a session since it was taken, values for `give_rest`."""
        found: list[Any] = []
        with suppress(GlueError):
            async for reply in self._endpoint.request_all(MQTT_DOORS, ["rest", client_id], SEEK_TIMEOUT):
                found += [] if reply.payload is None else [reply.payload]
        return found

    async def drain(self) -> str:
        """Choose the door that takes over, and return its address, "" if there is no other door."""
        for door in self._others():
            address = await self._ask(door, "address", None)
            if isinstance(address, str):
                self._successor = door
                return address
        return ""

    async def hand_over(self) -> None:
        """Hand retained messages and sessions over to the door that `drain` chose; what it does not take stays."""
        if not self._successor:
            return
        limit = asyncio.Semaphore(TOGETHER)

        async def give(client_id: str) -> None:
            async with limit:
                value = self._broker.taken(time.monotonic(), client_id, self._successor)
                if isinstance(value, dict) and await self._ask(self._successor, "give", value) is not True:
                    self._broker.give(time.monotonic(), value)

        retained = self._broker.retained_values(time.monotonic())
        for start in range(0, len(retained), RETAINED_TOGETHER):
            await self._ask(self._successor, "retain", retained[start : start + RETAINED_TOGETHER])
        async with asyncio.TaskGroup() as group:
            for client_id in list(self._broker.sessions):
                group.create_task(give(client_id))

    async def _ask(self, door: str, what: str, value: Any) -> Any:
        """Ask one other door; None if it does not answer."""
        with suppress(GlueError):
            async for reply in self._endpoint.request_all(MQTT_DOORS, [what, door, value], SEEK_TIMEOUT):
                if reply.payload is not None:
                    return reply.payload
        return None

    async def seek(self, client_id: str) -> Any:
        """Ask the other doors for a session: a value for `settle`, a text if it cannot move, None if there is none."""
        found: list[Any] = []
        with suppress(GlueError):
            replies = self._endpoint.request_all(MQTT_DOORS, ["take", client_id], SEEK_TIMEOUT)
            found += [reply.payload async for reply in replies if reply.payload is not None]
        sessions = [one for one in found if isinstance(one, dict) and isinstance(one.get("epoch"), int)]
        return max(sessions, key=lambda one: one["epoch"], default=next(iter(found), None))

    def on_session(self, client_id: str, event: str) -> None:
        """Give a client that connects a number, to be announced."""
        if event == "connected":
            self._new[client_id] = self._broker.sessions[client_id].epoch

    async def announce(self) -> None:
        """Announce the clients that have connected since the last call. What the network refuses is counted."""
        new, self._new = self._new, {}
        if not new or not self._endpoint.subscribers(CONNECTED):
            return
        try:
            await self._endpoint.publish(CONNECTED, list(new.items()))
        except ClosedError:
            pass  # the door ends, too
        except GlueError as error:
            self._broker.statistics["announcements that the network refused"] += 1
            told = f"other doors are not told of clients that connect: {error}"
            self._broker.refusals.tell(time.monotonic(), told)

    @property
    def has_news(self) -> bool:
        """Whether there is something to announce."""
        return bool(self._new)

    def _other_connected(self, message: Message) -> None:
        """Close the older connections of clients that connected to another door."""
        for client_id, number in _pairs(message.payload):
            broker = self._broker
            broker.highest_epoch = max(broker.highest_epoch, number)
            session = broker.sessions.get(client_id)
            if session is None or session.claim > 0:
                continue  # in a cluster, all know where it is
            own = 0 if self._stored.get(client_id) == session.epoch else session.epoch
            if own and (own, self._endpoint.id) > (number, message.publisher_id):
                self._new[client_id] = own
            elif number:
                self._move(session, message.publisher, message.publisher_id)
        self._broker.statistics["announcements of other doors"] += 1

    def _move(self, session: Session, door: str, id: str) -> None:
        """End a session, because its client has connected to another door; what waited here goes there.

        If that is too much to move, the session stays, and the client can come back for it.
        """
        now = time.monotonic()
        client = session.client
        if client is not None:
            self._broker.statistics["connections taken over"] += 1
            self._broker.end(now, client, codes.SESSION_TAKEN_OVER, f"the client id connects at door {door}")
            self._broker.lost(now, client)
        if self._broker.sessions.get(session.client_id) is not session:
            return
        if session.client_id not in self._late:
            values = self._broker.left_over(now, session)
            if values:
                self._late.add(session.client_id)
                self.spawn(self._hand_late(session, id, values))
            elif values is not None:
                self._broker.end_session(now, session)

    async def _hand_late(self, session: Session, door: str, values: list[Any]) -> None:
        """Hand over what waited here while this door was dead; the session stays if the other door does not take it."""
        is_taken = await self._ask(door, "late", [session.client_id, values]) is True
        self._late.discard(session.client_id)
        if is_taken and self._broker.sessions.get(session.client_id) is session and session.client is None:
            session.queued = 0  # they are not lost
            self._broker.end_session(time.monotonic(), session)
            self.flush()

    def _answer(self, request: Request) -> Any:
        """Tell of the clients or the sessions of this door, or hand over a session."""
        now = time.monotonic()
        match request.payload:
            case ["take", str(client_id)]:
                is_own = request.caller_id == self._endpoint.id
                value = None if is_own else self._broker.taken(now, client_id, request.caller)
                self.flush()
                return value
            case ["rest", str(client_id)]:
                rest = self._broker.rest(now, client_id)
                self.flush()
                return rest
            case ["address", self._endpoint.id, _]:
                return self.address
            case ["give", self._endpoint.id, {"client": str(client_id)} as value]:
                if client_id in self._broker.sessions:
                    return False
                self._broker.give(now, value)
                self.flush()
                return client_id in self._broker.sessions
            case ["retain", self._endpoint.id, list(values)]:
                self._broker.give_retained(now, values)
                self.flush()
                return True
            case ["late", self._endpoint.id, [str(client_id), list(values)]]:
                is_taken = self._broker.give_late(now, client_id, values)
                self.flush()
                return is_taken
            case ["address" | "give" | "late" | "retain", str(), _]:
                return None
        sessions = list(self._broker.sessions.values())[:SHOWN]
        if request.payload == "clients":
            return [_client(now, one.client) for one in sessions if one.client is not None]
        if request.payload == "sessions":
            return [*map(partial(_session, now), sessions), *self._broker.others(now)][:SHOWN]
        raise ValueError(f"{request.payload!r:.40}: expected 'clients' or 'sessions'")


def _pairs(payload: Any) -> list[tuple[str, int]]:
    """The well-formed pairs of an announcement."""
    return [
        (pair[0], pair[1])
        for pair in (payload if isinstance(payload, list) else ())
        if isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], int)
        and 0 <= pair[1] < NUMBER_LIMIT
    ]


def _client(now: float, client: Client) -> dict[str, Any]:
    return {
        "client": client.name,
        "user": client.identity.user if client.identity is not None else "",
        "address": client.remote.address,
        "version": {3: "3.1", 4: "3.1.1"}.get(client.version, "5"),
        "connected": round(now - client.since, 1),
        "received": client.received,
        "sent": client.sent,
        "dropped": client.dropped,
    }


def _session(now: float, session: Session) -> dict[str, Any]:
    return {
        "client": session.client_id,
        "connected": session.client is not None,
        "subscriptions": len(session.subscriptions),
        "waiting": session.queued,
        "under_way": session.under_way,
        "dropped": session.dropped,
        "expires": None if session.client is not None else round(session.expires_at - now, 1),
    }
