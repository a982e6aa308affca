"""The driver of an event loop: when it runs turns, what it hands out, and who waits, without a network."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.aio import driver as module
from glue.aio.driver import LoopDriver
from glue.contract import Delivery, Leave, Missed, Publication, Rung
from glue.endpoint.core import EARLY


class Network:
    """A network that notes what is sent, and gives what the test says."""

    datagram_size = 1400

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.trains: list[Any] = []
        self.maintained: list[float] = []
        self.closed = 0

    def filenos(self) -> list[int]:
        return []

    def maintain(self, now: float) -> float:
        self.maintained.append(now)
        return now + 1000.0

    def receive(self) -> list[Any]:
        found, self.trains = self.trains, []
        return [*found, "received"]

    def send(self, out: Any) -> None:
        self.sent += out

    def close(self) -> None:
        self.closed += 1


class Outbox:
    """What waits to leave."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.size = 0

    def order(self, request: Any) -> None:
        self.requests.append(request)

    def add(self, publication: Any) -> None:
        self.requests.append(publication)
        self.size += publication.size


class Subscription:
    """A subscription with the task that handles its messages."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker


class Token:
    """What receives events."""

    def __init__(self, name: str, got: list[Any]) -> None:
        self._name = name
        self._got = got

    def _deliver(self, event: Any) -> None:
        self._got.append((self._name, event))


class Place:
    """A driver with a core that notes its turns."""

    def __init__(self, queue_limit: int = 1 << 20) -> None:
        network: Any = Network()
        self.network = network
        self.turns: list[Any] = []
        self.events: list[Any] = []
        self.out: list[Any] = []
        self.fits: list[int] = []
        self.commits = 0
        self.told: list[Any] = []
        self.is_overfed_no_more = False
        outbox = Outbox()
        core: Any = SimpleNamespace(
            settings=SimpleNamespace(queue_limit=queue_limit), outbox=outbox, deadline=math.inf, backlog=0,
            overfed=False, turn=self.turn, handled=lambda delivery: self.is_overfed_no_more,
            stack=SimpleNamespace(fit=self.fits.append, commit=self.commit),
            would_block=lambda backlog: glue.WouldBlockError(f"{backlog}"),
        )  # fmt: skip
        self.core, self.outbox = core, outbox
        self.subscriptions: set[Any] = set()
        self.driver = LoopDriver(core, network, self.told.append, self.subscriptions)

    def turn(self, now: float, trains: Any) -> Any:
        self.turns.append([*trains])
        self.outbox.requests.clear()
        self.outbox.size = 0
        found, self.events = self.events, []
        out, self.out = self.out, []
        return found, out

    def commit(self) -> None:
        self.commits += 1


def in_loop(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def publication(size: int = 3, priority: int = 2) -> Publication:
    return Publication("t", [bytes(size)], 5.0, False, size, priority)


async def passes(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_it_begins_with_a_turn_and_ends_with_a_goodbye() -> None:
    async def main() -> None:
        place = Place()
        place.driver.start()
        assert (place.turns, place.fits, len(place.network.maintained)) == ([[]], [1400, 1400], 1)
        assert place.commits == 1
        waiting = asyncio.create_task(place.driver.wait_until(lambda: False, None))
        await passes()
        asked: list[Any] = []
        turn = place.core.turn

        def last(now: float, trains: Any) -> Any:
            asked.extend(place.outbox.requests)
            return turn(now, trains)

        place.core.turn = last
        place.driver.leave()
        assert [type(one) for one in asked] == [Leave]
        assert (await waiting, place.driver.closed, place.network.closed) == (False, True, 1)
        place.driver.leave()
        place.driver.wake()
        place.driver._turn(False)
        await passes()
        assert (place.network.closed, len(place.turns)) == (1, 2)
        with pytest.raises(glue.ClosedError):
            place.driver.order(Leave())

    in_loop(main)


def test_events_go_to_their_tokens_and_news_to_the_endpoint() -> None:
    async def main() -> None:
        place = Place()
        got: list[Any] = []
        tokens = [Token(name, got) for name in "ab"]
        delivery = Delivery("t", [1], None, "b", "id-b", 1, 1, 0.0, False, tokens)
        missed, rung = Missed("t", "b", "id-b", 1, "lost", tokens[:1]), Rung(tokens[1])
        place.events = [delivery, missed, rung, "news"]
        place.driver._turn(True)
        assert got == [("a", delivery), ("b", delivery), ("a", missed), ("b", rung)]
        assert place.told == ["news"]
        assert place.turns == [["received"]]
        assert place.network.sent == []

    in_loop(main)


def test_what_went_to_all_is_read_back_in_the_same_turn() -> None:
    async def main() -> None:
        place = Place()
        to_all, to_one = SimpleNamespace(address=None), SimpleNamespace(address=("::1", 5))
        for out, turns in (([to_one, to_all], 2), ([to_all, to_one], 1), ([], 1)):
            place.turns.clear()
            place.network.sent.clear()
            place.out = out
            place.driver._turn(False)
            assert place.turns == [[], ["received"]][:turns]
            assert place.network.sent == out
        assert place.commits == 4

    in_loop(main)


def test_the_interface_is_looked_after_when_it_is_due_and_a_little_early() -> None:
    async def main() -> None:
        place = Place()
        place.driver._turn(False)
        (first,) = place.network.maintained
        place.driver._advance(first + 1000.0 - EARLY - 0.01, False)
        assert len(place.network.maintained) == 1
        place.driver._advance(first + 1000.0 - EARLY, False)
        assert len(place.network.maintained) == 2

    in_loop(main)


def test_a_turn_that_fails_is_logged_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        monkeypatch.setattr(module, "PATIENCE", 0.0)
        place = Place()
        turn = place.core.turn

        def fail(now: float, trains: Any) -> Any:
            place.core.turn = turn
            raise ValueError("ours")

        place.core.turn = fail
        place.driver._turn(False)
        assert place.turns == []
        async with asyncio.timeout(10):
            while not place.turns:
                await asyncio.sleep(0)

    in_loop(main)
    assert [record.getMessage() for record in caplog.records] == ["turn failed"]


def test_a_turn_comes_when_the_stack_wants_one() -> None:
    async def main() -> None:
        place = Place()
        place.core.deadline = 0.0
        place.driver.start()
        place.core.deadline = math.inf
        async with asyncio.timeout(10):
            while len(place.turns) < 2:
                await asyncio.sleep(0)
        await passes()
        assert len(place.turns) == 2
        place.outbox.requests.append("left in a turn")
        place.driver._arm(1000.0)
        await passes()
        assert len(place.turns) == 3

    in_loop(main)


def test_what_is_published_in_a_pass_of_the_loop_leaves_together_unless_it_is_much() -> None:
    async def main() -> None:
        place = Place(queue_limit=4000)
        for _ in range(3):
            await place.driver.publish([publication()])
        assert place.turns == []
        await passes()
        assert len(place.turns) == 1
        await place.driver.publish([publication(999)])
        assert len(place.turns) == 1
        await place.driver.publish([publication(1)])
        assert len(place.turns) == 2
        await passes()
        assert len(place.turns) == 3  # the one that was to come
        place.driver.add([publication(), publication(1000)])
        assert len(place.turns) == 4
        place.driver.order(Leave(), wait=True)
        assert len(place.turns) == 5
        await passes()
        place.driver.order(Leave())
        place.driver.order(Leave())
        turns = len(place.turns)
        await passes()
        assert len(place.turns) == turns + 1

    in_loop(main)


def test_a_publisher_that_gathers_much_lets_the_loop_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(module, "GATHERED", 100)
        place = Place(queue_limit=1 << 20)
        went: list[int] = []
        asyncio.get_running_loop().call_soon(went.append, 1)
        await place.driver.publish([publication(99)])
        await place.driver.publish([publication(1)])
        assert went == []
        await place.driver.publish([publication(1)])
        assert went == [1]

    in_loop(main)


def test_a_full_queue_stops_a_class_until_there_is_room() -> None:
    async def main() -> None:
        place = Place(queue_limit=1000)
        place.core.backlog = 1001
        place.driver._turn(False)
        with pytest.raises(glue.WouldBlockError, match="1001"):
            await place.driver.publish([publication()], block=False)
        await place.driver.publish([publication(priority=0)], block=False)
        waiting = asyncio.create_task(place.driver.publish([publication()]))
        await passes()
        assert not waiting.done()
        place.core.backlog = 0
        place.driver._turn(False)
        await waiting
        place.core.backlog = 5000
        place.driver._turn(False)
        waiting = asyncio.create_task(place.driver.publish([publication()]))
        await passes()
        place.driver.leave()
        with pytest.raises(glue.ClosedError):
            await waiting

    in_loop(main)


def test_a_handler_that_publishes_is_not_stopped_by_what_it_is_to_handle() -> None:
    async def main() -> None:
        place = Place()
        place.core.overfed = True
        waiting = asyncio.create_task(place.driver.publish([publication()]))
        await passes()
        assert not waiting.done()
        handler = asyncio.create_task(place.driver.publish([publication()]))
        place.subscriptions.add(Subscription(handler))
        await handler
        place.core.overfed = False
        place.is_overfed_no_more = True
        delivery = Delivery("t", [1], None, "b", "id-b", 1, 1, 0.0, False, ())
        place.driver.handled(delivery)
        await waiting
        await passes()
        turns = len(place.turns)
        place.driver.handled(delivery)
        await passes()
        assert len(place.turns) == turns
        place.outbox.requests.append("an order to send")
        place.driver.handled(delivery)
        await passes()
        assert len(place.turns) == turns + 1

    in_loop(main)


def test_a_condition_is_waited_for_in_time() -> None:
    async def main() -> None:
        place = Place()
        found: list[int] = []
        waiting = asyncio.create_task(place.driver.wait_until(lambda: bool(found), None))
        for _ in range(2):
            await passes()
            assert not waiting.done()
            place.driver.notify()
        await passes()
        found.append(1)
        await passes()
        assert not waiting.done()  # it looks when it is told
        place.driver.notify()
        assert await waiting is True
        assert await place.driver.wait_until(lambda: False, 0.001) is False
        assert await place.driver.wait_until(lambda: True, 0) is True
        assert not place.driver._changed
        with pytest.raises(glue.ConfigurationError):
            await place.driver.wait_until(lambda: True, "1")  # type: ignore[arg-type]

    in_loop(main)


def test_other_threads_have_the_loop_call_something_until_it_is_closed() -> None:
    async def main() -> LoopDriver:
        place = Place()
        got: list[int] = []
        await asyncio.to_thread(place.driver.call_threadsafe, lambda: got.append(1))
        await passes()
        assert got == [1]
        place.driver.start()
        place.driver.leave()
        place.driver.call_threadsafe(lambda: got.append(2))
        await passes()
        assert got == [1]
        return place.driver

    asyncio.run(main()).call_threadsafe(lambda: None)
