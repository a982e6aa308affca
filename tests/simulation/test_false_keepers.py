"""Keepers that lie: about numbers, and with lists that never end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy
from typing import Any

import pytest

from glue.history.wire import Page, Request
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.topics.bundle import MessageGroup
from tests.simulation.test_keepers_serve import SECOND, answers, kept


def lies(keeper: SimulatedEndpoint, lie: Callable[[Request, Page], None]) -> None:
    """Have a keeper answer falsely."""
    history: Any = keeper._core.history
    good = history._server._from_logs

    def answer(now: float, request: Request, room: int, reader: str) -> Generator[None, None, Page]:
        page: Page = yield from good(now, request, room, reader)
        lie(request, page)
        return page

    history._server._from_logs = answer


def publish_on(world: World, publisher: SimulatedEndpoint) -> None:
    """Publish twenty further messages, ten a second."""
    for number in range(11, 31):
        publisher.publish("log/a", number)
        world.run(0.1)


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("is_first", [False, True])
def test_numbers_of_the_future_that_a_keeper_tells_keep_no_live_message_back(start: str, is_first: bool) -> None:
    world = World()
    publisher, (keeper,) = kept(world, 1, 10)

    def lie(request: Request, page: Page) -> None:
        page.heads = [
            (topic, last + 10**9, origin, life, last + 10**9 if is_first else first)
            for topic, last, origin, life, first in page.heads
        ]

    lies(keeper, lie)
    late = world.endpoint("late").subscribe("log/#", start=start)
    world.run(SECOND)
    for number in range(11, 51):
        publisher.publish("log/a", number)
        world.run(0.4)
    assert [message.payload for message in late.received][-40:] == list(range(11, 51))


@pytest.mark.parametrize("heads", [0, 1])
def test_a_list_of_streams_without_an_end_keeps_no_live_message_back(heads: int) -> None:
    world = World()
    publisher, (keeper,) = kept(world, 1, 10)

    def lie(request: Request, page: Page) -> None:
        if not request.ranges and request.eras is None:
            page.heads = [*page.heads, *[(f"log/x{request.after}", 1, "e" * 16, 1, 1)] * heads][-1:]
            page.next, page.head = request.after + 1, 10**12

    lies(keeper, lie)
    late = world.endpoint("late").subscribe("log/#", start="earliest")
    world.run(SECOND)
    before = answers([keeper])
    for number in range(11, 51):
        publisher.publish("log/a", number)
        world.run(0.1)
    assert [message.payload for message in late.received if message.topic == "log/a"][-40:] == list(range(11, 51))
    assert answers([keeper]) - before < 200


@pytest.mark.parametrize("keepers", [1, 2])
@pytest.mark.parametrize("is_old", [True, False])
def test_a_keeper_that_gives_nothing_new_keeps_no_live_message_back(keepers: int, is_old: bool) -> None:
    world = World()
    publisher, keeping = kept(world, keepers, 10)

    first: list[Any] = []

    def lie(request: Request, page: Page) -> None:
        if request.ranges:
            first.extend(zip(page.origins[: not first], page.groups, strict=False))
            page.answered, page.origins, page.groups = 0, [], []
            if is_old:
                (origin, group), *_ = first
                page.origins, page.groups = [(*origin[:3], 1)], [copy(group)]
                page.groups[0].payloads = group.payloads[:1]

    for keeper in keeping:
        lies(keeper, lie)
    late = world.endpoint("late").subscribe("log/#", start="earliest")
    world.run(2 * SECOND)
    before = answers(keeping)
    publish_on(world, publisher)
    assert [message.payload for message in late.received][-20:] == list(range(11, 31))
    assert answers(keeping) - before < 50


def test_a_long_list_without_an_end_keeps_no_history_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.history.keepers.FEW", 1)
    monkeypatch.setattr("glue.history.keepers.STREAMS", 8)
    world = World(3)
    publisher, keeping = kept(world, 2, 10)
    world.network.set_conditions(Conditions(delay=0.01))

    def lie(request: Request, page: Page) -> None:
        if not request.ranges and request.eras is None:
            page.heads = [*page.heads, (f"log/x{request.after}", 1, "e" * 16, 1, 1)]
            page.next, page.head = request.after + 1, 10**12

    lies(keeping[1], lie)
    late = world.endpoint("late").subscribe("log/#", start="earliest")
    world.run(5 * SECOND)
    before = answers(keeping)
    publish_on(world, publisher)
    world.run(SECOND)
    assert [message.payload for message in late.received] == list(range(1, 31))
    assert answers(keeping) - before < 80


def test_a_keeper_that_leaves_out_every_second_message_takes_no_more_and_more_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glue.history.healing.WANTED", 100)
    world = World(2)
    good, bad = world.endpoint("good"), world.endpoint("bad")
    for keeper in (good, bad):
        keeper.keep("log/#")

    def lie(request: Request, page: Page) -> None:
        page.next = page.head = page.answered = 0
        page.groups, page.origins = [], []
        if request.digest:
            page.digests = (f"{request.id:016x}",) * 3
        elif not request.ranges:
            page.heads = [("log/x", 10**9, "e" * 16, 1, 1)]
        else:
            topic, first, last, *_ = max(request.ranges, key=lambda one: one[2] - one[1])
            page.groups = [
                MessageGroup(topic, number, 10**15, [b"x"], 1, None, False, metadata=None)
                for number in range(first + 1, min(first + 401, last), 2)
            ]
            page.origins = [("e" * 16, "bad", 1, len(page.groups))]

    lies(bad, lie)
    history: Any = good._core.history
    most = 0
    for _ in range(20):
        world.run(0.1)
        for healer, *_ in history._healers.values():
            most = max(most, len(healer._work.wanted) if healer._work else 0)
    assert good.statistics["endpoint"]["messages fetched by keepers"] >= 200
    assert most <= 100


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_false_streams_of_one_keeper_do_not_displace_true_ones(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sequencer", "keepers", "reader"):
        monkeypatch.setattr(f"glue.history.{module}.STREAMS", 64)
    world = World(4)
    publisher, keeping = kept(world, 2, 5)
    for number in range(20):
        publisher.publish(f"log/b{number}", 1)
    world.run(SECOND)

    def lie(request: Request, page: Page) -> None:
        if not request.ranges and request.eras is None:
            false = [(f"log/x{request.id}/{number}", 9, "e" * 16, 1, 1) for number in range(200)]
            page.heads = [*false, *page.heads, *false]
            page.next = page.head = len(page.heads)

    lies(keeping[1], lie)
    late = world.endpoint("late")
    found = late.subscribe("log/#", start=start)
    world.run(20 * SECOND)  # several comparisons with each keeper
    for number in range(20):
        publisher.publish(f"log/b{number}", 2)
    publish_on(world, publisher)
    world.run(SECOND)
    got = [(message.topic, message.payload) for message in found.received]
    assert len(got) == len({*got})
    first = [1, 2] if start == "earliest" else [2]
    for number in range(20):
        assert [payload for topic, payload in got if topic == f"log/b{number}"] == first
    assert [payload for topic, payload in got if topic == "log/a"][-20:] == [*range(11, 31)]
    counts = late.statistics["endpoint"]
    assert counts["streams of history dropped: only one keeper told of them"] > 100
    assert not counts["streams of history forgotten: too many"]


def test_streams_of_one_busy_publisher_do_not_displace_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sequencer", "keepers", "reader"):
        monkeypatch.setattr(f"glue.history.{module}.STREAMS", 64)
    world = World(5)
    publisher, _ = kept(world, 1, 5)
    busy = world.endpoint("busy")
    found = world.endpoint("late").subscribe("log/#", start="earliest")
    world.run(SECOND)
    for number in range(300):
        busy.publish(f"log/x{number}", number)
        world.run(0.01)
    publisher.publish("log/a", 6)
    world.run(SECOND)
    assert [message.payload for message in found.received if message.topic == "log/a"] == [1, 2, 3, 4, 5, 6]
