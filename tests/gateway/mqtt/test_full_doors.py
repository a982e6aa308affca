"""Doors that take nothing for a while, or never again: what their clients notice."""

from __future__ import annotations

import time

import pytest

from glue.errors import StorageError
from glue.gateway.mqtt import codes
from glue.gateway.mqtt.door import Door
from tests.gateway.mqtt.test_committing import Shell, run
from tests.gateway.mqtt.test_connections import at_door, connected
from tests.support import mqtt


def test_a_client_that_is_not_read_is_not_taken_for_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(door: Door) -> None:
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now)
        made, _ = connected(door, "c", keep_alive=10)
        for is_full, steps in ((False, 28), (True, 600), (False, 1)):
            door.network_full(is_full)
            made.update()
            for _ in range(steps):
                now += 0.5
                door.broker.advance(now)
        (client,) = door.broker.clients.values()
        assert not client.is_closing
        door.broker.advance(now + 15.0)
        assert client.reason == "silent for 15 s"

    at_door(main)


@pytest.mark.parametrize("cause", ["snapshot", "reading"])
def test_a_door_that_has_given_up_its_disk_lets_nobody_in(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*options: object) -> None:
        raise StorageError("broken") if cause == "reading" else OSError("broken")

    async def main(shell: Shell) -> None:
        store = shell.bench.store
        assert store is not None
        subscriber = shell.subscriber()
        if cause == "snapshot":
            monkeypatch.setattr(type(store), "wants_snapshot", True)
            monkeypatch.setattr(store, "save", broken)
        else:
            store.then(broken)
        shell.flush()
        await shell.until(subscriber.is_closed)
        late = shell.bench.link(5)
        late.send(mqtt.connect("late", 5))
        assert late.read()[0].body[1] == codes.SERVER_UNAVAILABLE
        assert late.is_closed()

    run(monkeypatch, main)
