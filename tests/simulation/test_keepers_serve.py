"""Keepers serve history: after the death of the publisher, one of them at a time, and each other's omissions.

python -m tests.simulation.test_keepers_serve 0 1000      # hunt through these seeds
python -m tests.simulation.test_keepers_serve bugs 200    # tell how many seeds each planted bug takes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import glue
from glue.history import Server, healing, keepers
from glue.history.keepers import Keepers
from glue.history.kept import KeptHistory
from glue.history.reader import Reader
from glue.simulation import SimulatedEndpoint, World
from tests.simulation.keeper_swarm import Swarm, hunt
from tests.support.planting import command, seeds_to_find

SECOND = 1.0


def kept(world: World, count: int, messages: int) -> tuple[SimulatedEndpoint, list[SimulatedEndpoint]]:
    """A publisher without a memory, and keepers that have all of its messages."""
    publisher = world.endpoint("publisher")
    keeping = [world.endpoint(f"keeper{number}") for number in range(count)]
    for keeper in keeping:
        keeper.keep("log/#")
    world.run(SECOND)
    for number in range(1, messages + 1):
        publisher.publish("log/a", number)
    world.run(SECOND)
    return publisher, keeping


def answers(keeping: list[SimulatedEndpoint]) -> int:
    return sum(keeper.statistics["endpoint"]["pages of history"] for keeper in keeping)


@pytest.mark.parametrize(
    ("options", "first"),
    [({"start": "earliest"}, 1), ({"last": 3}, 298), ({"start": 40}, 40), ({"start": "-30s"}, 251)],
)
def test_a_keeper_serves_what_a_dead_publisher_published(options: dict[str, Any], first: int) -> None:
    world = World()
    publisher, _ = kept(world, 3, 250)
    world.run(60 * SECOND)
    for number in range(251, 301):
        publisher.publish("log/a", number)
    world.run(SECOND)
    publisher.crash()
    world.run(10 * SECOND)
    late = world.endpoint("late").subscribe("log/#", **options)
    assert world.run_until(lambda: len(late.received) >= 301 - first, 0.2)
    world.run(5 * SECOND)
    assert [message.payload for message in late.received] == list(range(first, 301))
    assert {message.publisher for message in late.received} == {"publisher"}


def test_of_eight_keepers_one_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "INTERVAL", 1e9)  # keepers ask each other when they meet alone
    world = World()
    _, keeping = kept(world, 8, 1000)
    before, handled = answers(keeping), sum(keeper.accounting.received["handled"] for keeper in keeping)
    readers = [world.endpoint(f"reader{number}").subscribe("log/#", start="earliest") for number in range(8)]
    assert world.run_until(lambda: all(len(reader.received) == 1000 for reader in readers), SECOND)
    asked = sum(keeper.accounting.received["handled"] for keeper in keeping) - handled
    assert answers(keeping) - before == asked == 8 * 2  # the streams, and their messages
    assert sum(keeper.statistics["endpoint"]["pages of history"] > 0 for keeper in keeping) > 2


def test_another_keeper_takes_over_after_a_silence() -> None:
    world = World()
    _, keeping = kept(world, 3, 100)
    reader = world.endpoint("reader")
    world.run(SECOND)
    probe = reader.subscribe("log/#", start="earliest")
    world.run(SECOND)
    (asked,) = [keeper for keeper in keeping if keeper.statistics["endpoint"]["messages of history served"]]
    probe.close()
    asked.pause()
    began = world.time
    late = reader.subscribe("log/#", start="earliest")
    assert world.run_until(lambda: len(late.received) == 100, SECOND)
    assert world.time - began < 0.08
    assert reader.statistics["endpoint"]["keepers silent"] == 1


def test_what_one_keeper_leaves_out_another_one_gives() -> None:
    world = World()
    publisher, keeping = kept(world, 2, 10)
    for number, keeper in enumerate(keeping):  # each misses some of the next messages
        world.network.partition([keeper.host])
        world.run(0.01)
        for payload in range(11 + 10 * number, 21 + 10 * number):
            publisher.publish("log/a", payload, reliability="best-effort")
        world.run(0.1)
        world.network.heal()
    for payload in range(31, 41):
        publisher.publish("log/a", payload)
    world.run(3 * SECOND)
    publisher.crash()
    world.run(10 * SECOND)
    endpoint = world.endpoint("late")
    late = endpoint.subscribe("log/a", start="earliest")
    world.run(SECOND)
    assert [message.payload for message in late.received] == list(range(1, 41))


def test_what_no_keeper_has_is_told_as_a_gap() -> None:
    world = World()
    publisher, keeping = kept(world, 2, 5)
    world.network.partition([keeper.host for keeper in keeping])
    publisher.publish("log/a", 6, reliability="best-effort")
    world.run(0.1)
    world.network.heal()
    publisher.publish("log/a", 7)
    world.run(3 * SECOND)
    publisher.crash()
    world.run(10 * SECOND)
    endpoint = world.endpoint("late")
    gaps: list[glue.Gap] = []
    endpoint.on_gap = gaps.append
    late = endpoint.subscribe("log/a", start="earliest")
    world.run(5 * SECOND)
    assert [message.payload for message in late.received] == [1, 2, 3, 4, 5, 7]
    assert [(gap.count, gap.cause) for gap in gaps] == [(1, "no longer kept")]


def test_history_of_a_keeper_and_of_a_publisher_are_joined() -> None:
    world = World()
    publisher, _ = kept(world, 1, 0)
    publisher.remember("log/#", last=5)
    for number in range(1, 101):
        publisher.publish("log/a", number)
    world.run(SECOND)
    late = world.endpoint("late").subscribe("log/#", start="earliest")
    world.run(SECOND)
    for number in range(101, 111):
        publisher.publish("log/a", number)
    world.run(SECOND)
    assert [message.payload for message in late.received] == list(range(1, 111))


def test_history_that_is_found_after_the_live_messages_is_told_as_a_gap() -> None:
    world = World()
    publisher, keeping = kept(world, 1, 5)
    world.network.partition([keeper.host for keeper in keeping])
    world.run(10 * SECOND)
    endpoint = world.endpoint("late")
    gaps: list[glue.Gap] = []
    endpoint.on_gap = gaps.append
    late = endpoint.subscribe("log/a", start="earliest")
    world.run(2 * SECOND)
    publisher.publish("log/a", 6)
    world.run(2 * SECOND)
    assert [message.payload for message in late.received] == [6]
    world.network.heal()
    world.run(10 * SECOND)
    assert [(gap.count, gap.cause, gap.topic) for gap in gaps] == [(5, "found too late", "log/a")]
    publisher.publish("log/a", 7)
    world.run(SECOND)
    assert [message.payload for message in late.received] == [6, 7]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_what_keepers_have_comes_in_order_and_gaps_are_told(first: int) -> None:
    assert hunt(first, first + 10) > 500


Patch = pytest.MonkeyPatch


def silence_is_waited_for(patch: Patch) -> None:
    """A keeper that does not answer is asked for ever."""
    patch.setattr(keepers, "SILENCE", 1e9)


def omissions_are_believed(patch: Patch) -> None:
    """What one keeper does not have counts as gone, without a word."""

    def wrong(self: Any, now: float, peer: str, key: Any, stream: Any) -> None:
        missing = stream.missing()
        if missing is not None:
            stream.next = missing[1] + 1
            self._reader._drain(stream)

    patch.setattr(Keepers, "_missed", wrong)


def dead_publishers_take_all_with_them(patch: Patch) -> None:
    """What a dead publisher left is not asked of keepers any more."""
    good = Keepers._take_heads

    def wrong(self: Any, now: float, peer: str, page: Any) -> None:
        page.heads.clear()
        good(self, now, peer, page)

    patch.setattr(Keepers, "_take_heads", wrong)


def keeper_skips_a_message(patch: Patch) -> None:
    """A keeper leaves out the first messages of a page, and says that this is all."""
    good = KeptHistory.ranges

    def wrong(self: Any, asked: Any, room: int, groups: int) -> Any:
        found, _ = yield from good(self, asked, room, groups)
        return found[1:], {*range(len(asked))}

    patch.setattr(KeptHistory, "ranges", wrong)


def partial_pages_are_whole(patch: Patch) -> None:
    """A page that found no room for all says that it is all."""
    good = Server._from_logs

    def wrong(self: Any, now: float, request: Any, room: int, reader: str) -> Any:
        page = yield from good(self, now, request, room // 16, reader)
        page.answered = len(request.ranges)
        return page

    patch.setattr(Server, "_from_logs", wrong)


def live_does_not_wait(patch: Patch) -> None:
    """Live messages are handed over while the streams of keepers are not known."""

    def wrong(self: Any, key: Any, stream: Any, source: Any, delivery: Any) -> None:
        self.keepers.is_listing, before = False, self.keepers.is_listing
        try:
            if not stream.next:
                stream.next = delivery.sequence
            good(self, key, stream, source, delivery)
        finally:
            self.keepers.is_listing = before

    good = Reader._splice
    patch.setattr(Reader, "_splice", wrong)


BUGS: list[Callable[[Patch], None]] = [
    silence_is_waited_for,
    omissions_are_believed,
    dead_publishers_take_all_with_them,
    keeper_skips_a_message,
    partial_pages_are_whole,
    live_does_not_wait,
]


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_keeper_that_was_cut_off_does_not_tell_where_streams_begin(is_planted: bool, monkeypatch: Patch) -> None:
    if is_planted:
        monkeypatch.setattr(Keepers, "_may_lack", lambda self, peer, page: False)
    came = []
    for cut_off in (0, 1):
        world = World()
        publisher, keeping = kept(world, 2, 0)
        world.network.partition([keeping[cut_off].host])
        for number in range(1, 21):
            publisher.publish("log/a", number)
        world.run(30 * SECOND)
        publisher.crash()
        world.network.heal()
        late = world.endpoint("late").subscribe("log/#", last=3)
        world.run(10 * SECOND)
        came.append([message.payload for message in late.received])
    assert (came == [[18, 19, 20]] * 2) != is_planted


def run(seed: int) -> None:
    """Run one seed of the swarm."""
    Swarm(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: Callable[[Patch], None]) -> None:
    assert seeds_to_find(run, range(100), bug) is not None


if __name__ == "__main__":
    command(hunt, run, BUGS)
