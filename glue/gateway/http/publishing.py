"""Publications of many clients, gathered: what comes in one turn of the event loop shares a turn of the stack.

Under load hundreds of requests wait for the same sync of the disk. Each would need its own turn of the stack and its
own receipt. Therefore simultaneous plain publications on one topic are published together, with one receipt.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import Any, Final, NamedTuple

from glue.aio import Endpoint
from glue.endpoint.durability import Acks
from glue.endpoint.encoding import encoded
from glue.gateway.http.problems import ProblemError

ACKS_TIME: Final = 10.0
"""Seconds that a publication waits for its keepers; then the client is told that it may be tried again."""


class Waiting(NamedTuple):
    """A publication that waits for its turn."""

    topic: str
    payload: Any
    acks: Acks | None
    done: asyncio.Future[list[str]]


def kind(waiting: Waiting) -> tuple[str, Acks | None]:
    """Return what publications that go together have in common."""
    return waiting.topic, waiting.acks


class Publisher:
    """Publishes for the clients of a door, in the order of their requests. As many wait as there are connections."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._waiting: list[Waiting] = []
        self._worker: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()

    async def publish(self, topic: str, payload: Any, acks: Acks | None) -> list[str]:
        """Publish a message; returns the keepers that have it on disk, none without `acks`.

        Raises ProblemError if it is not as durable as asked, and what `Endpoint.publish` raises.
        """
        encoded(payload)  # what cannot be published must not fail those that are published together with it
        done: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(topic, payload, acks, done))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="glue http publications")
        return await done

    async def _work(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            for (topic, acks), group in groupby(waiting, key=kind):
                members = list(group)
                try:
                    await self._publish(topic, acks, members)
                except Exception as error:  # each of these clients is told
                    for one in members:
                        if not one.done.done():
                            one.done.set_exception(error)
        self._worker = None

    async def _publish(self, topic: str, acks: Acks | None, members: list[Waiting]) -> None:
        payloads = [one.payload for one in members]
        if acks is None:
            await self._endpoint.publish_many(topic, payloads)
            for one in members:
                _settle(one.done, [])
            return
        begin = 0
        for receipt, publication in self._endpoint._with_receipts(topic, payloads, acks, "normal"):
            await self._endpoint._running().publish((publication,))
            part = members[begin : begin + receipt.messages]
            begin += receipt.messages
            task = asyncio.create_task(_wait(receipt, part))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)


async def _wait(receipt: Any, members: list[Waiting]) -> None:
    """Wait for the acknowledgement of some messages, and tell their clients."""
    error: Exception | None = None
    try:
        async with asyncio.timeout(ACKS_TIME):
            if not await receipt:
                error = ProblemError(503, f"not as durable as asked: {receipt.failure}", {"retry-after": "1"})
    except TimeoutError:
        error = ProblemError(504, f"no acknowledgement within {ACKS_TIME:g} s; the message may be stored")
    except Exception as raised:
        error = raised
    for one in members:
        if error is None:
            _settle(one.done, receipt.durable)
        elif not one.done.done():
            one.done.set_exception(error)


def _settle(done: asyncio.Future[list[str]], keepers: list[str]) -> None:
    if not done.done():  # the client may be gone
        done.set_result(keepers)
