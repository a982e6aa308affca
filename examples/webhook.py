"""A webhook that is down when messages are published, and gets all of them in order when it is up.

The door is part of this program; `glue http --data-dir DIR` is the same as a command.
"""

from __future__ import annotations

import queue
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import glue.aio
from glue.gateway.http import Client, Gateway, Webhook
from glue.gateway.http.webhook import Delivered, serve
from glue.gateway.thread import in_thread

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def main() -> None:
    """Publish to a webhook that is down, and then start it."""
    with tempfile.TemporaryDirectory() as data_dir:

        @asynccontextmanager
        async def opened() -> AsyncIterator[Gateway]:
            async with (
                glue.aio.Endpoint("door") as endpoint,
                Gateway(endpoint, port=0, data_dir=data_dir, deliver_to=["127.0.0.0/8"]) as gateway,
            ):
                yield gateway

        port, got = free_port(), queue.Queue[Delivered]()
        with in_thread(opened) as gateway, Client(f"http://127.0.0.1:{gateway.port}") as door:
            door.subscribe("orders/#", f"http://127.0.0.1:{port}/", secret=SECRET)
            for title in ("Emma", "Persuasion", "Sanditon"):
                done = door.publish("orders/books", {"title": title})
                print("on disk at", ", ".join(done["durable"]))
            with serve(Webhook(SECRET), got.put, port=port):
                for _ in range(3):
                    event = got.get(timeout=30)
                    print(event.sequence, event.topic, event.payload["title"])


if __name__ == "__main__":
    main()
