"""History in virtual time: what a late joiner sees, and a swarm of publishers and readers.

python -m tests.simulation.test_history 0 10000      # hunt through these seeds
python -m tests.simulation.test_history bugs 1000    # tell how many seeds each planted bug takes
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import glue
from glue.simulation import Conditions, SimulatedEndpoint, World
from tests.simulation.history_bugs import BUGS, FOUND_BY
from tests.simulation.history_swarm import Swarm, hunt
from tests.support.planting import command, seeds_to_find

SECOND = 1.0


def publisher_of(world: World, count: int, **limits: int) -> SimulatedEndpoint:
    """A publisher that has published numbers on "log/a"."""
    publisher = world.endpoint("publisher")
    publisher.remember("log/#", **limits)
    for number in range(1, count + 1):
        publisher.publish("log/a", number)
    world.run(SECOND)
    return publisher


def test_a_late_joiner_gets_history_and_then_live_messages() -> None:
    world = World()
    publisher = publisher_of(world, 1000)
    late = world.endpoint("late").subscribe("log/#", start="earliest")
    began = world.time
    assert world.run_until(lambda: len(late.received) == 1000, SECOND)
    assert world.time - began < 0.05
    publisher.publish("log/a", 1001)
    world.run(SECOND)
    assert [message.payload for message in late.received] == list(range(1, 1002))


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_reader_of_history_gets_the_will_of_a_lost_publisher(start: str, retain: bool) -> None:
    world = World()
    boiler, holder, reader = (world.endpoint(name) for name in ("boiler", "holder", "reader"))
    boiler.remember("home/#")
    world.run(SECOND)
    boiler.will("home/boiler", "offline", retain=retain)
    heard = reader.subscribe("home/#", start=start)
    world.run(SECOND)
    for word in ("starting", "online"):
        boiler.publish("home/boiler", word)
    world.run(SECOND)
    boiler.crash()
    world.run(20 * SECOND)
    gaps: list[glue.Gap] = []
    reader.on_gap = gaps.append
    assert [message.payload for message in heard.received] == ["starting", "online", "offline"]
    if retain:
        late = holder.subscribe("home/#", start=start)
        world.run(5 * SECOND)
        assert [message.payload for message in late.received] == ["offline"]
    assert gaps == []


def test_a_thousand_topics_of_one_value_come_together() -> None:
    world = World()
    publisher = world.endpoint("publisher")
    publisher.remember("lamp/+", last=1)
    for number in range(1000):
        publisher.publish(f"lamp/{number}", "off")
        publisher.publish(f"lamp/{number}", "on")
    world.run(SECOND)
    late = world.endpoint("late").subscribe("lamp/#", start="earliest")
    began = world.time
    assert world.run_until(lambda: len(late.received) == 1000, SECOND)
    assert world.time - began < 0.05
    assert {message.payload for message in late.received} == {"on"}


@pytest.mark.parametrize(
    ("options", "first"),
    [({"last": 3}, 98), ({"start": 40}, 40), ({"start": "latest"}, 101), ({"start": "-30s"}, 51)],
)
def test_where_a_subscription_starts(options: dict[str, str | int], first: int) -> None:
    world = World()
    publisher = publisher_of(world, 50)
    world.run(60 * SECOND)
    for number in range(51, 101):
        publisher.publish("log/a", number)
    world.run(SECOND)
    late = world.endpoint("late").subscribe("log/a", **options)  # type: ignore[arg-type]
    world.run(SECOND)
    publisher.publish("log/a", 101)
    world.run(SECOND)
    assert [message.payload for message in late.received] == list(range(first, 102))


def test_a_slow_reader_holds_nobody_up_and_loses_nothing() -> None:
    world = World()
    publisher = publisher_of(world, 0)
    slow = world.endpoint("slow", receive_limit=4096).subscribe("log/#", start="latest", handling_time=0.01)
    fast = world.endpoint("fast").subscribe("log/#")
    world.run(SECOND)
    for number in range(1, 501):
        publisher.publish("log/a", number)
    world.run(0.1)
    assert len(fast.received) == 500
    assert len(slow.received) < 50
    assert world.run_until(lambda: len(slow.received) == 500, 10 * SECOND)
    assert [message.payload for message in slow.received] == list(range(1, 501))


def test_what_was_missed_in_a_partition_comes_within_two_announcement_intervals() -> None:
    world = World()
    publisher = publisher_of(world, 3)
    endpoint = world.endpoint("reader")
    reader = endpoint.subscribe("log/#", start="earliest")
    world.run(SECOND)
    world.network.partition([publisher.host], [endpoint.host])
    world.run(20 * SECOND)
    for number in range(4, 7):
        publisher.publish("log/a", number)
    world.network.heal()
    assert world.run_until(lambda: len(reader.received) == 6, 2 * SECOND + 0.2)
    assert [message.payload for message in reader.received] == [1, 2, 3, 4, 5, 6]


def test_what_is_gone_is_told_as_a_gap() -> None:
    world = World()
    publisher = publisher_of(world, 5, last=2)
    endpoint = world.endpoint("reader")
    gaps: list[glue.Gap] = []
    endpoint.on_gap = gaps.append
    reader = endpoint.subscribe("log/#", start=1)
    world.run(SECOND)
    assert [message.payload for message in reader.received] == [4, 5]
    assert [(gap.count, gap.cause, gap.topic) for gap in gaps] == [(3, "no longer kept", "log/a")]
    publisher.close()
    world.run(SECOND)
    assert len(gaps) == 1


def test_forged_pages_and_requests_are_counted() -> None:
    world = World()
    publisher = publisher_of(world, 5)
    other = world.endpoint("other")
    endpoint = world.endpoint("reader")
    reader = endpoint.subscribe("log/#", start="earliest")
    world.run(SECOND)
    for topic, payload in (
        (f"$glue/history/page/{endpoint.id}/{endpoint.incarnation}", b'{"id":1,"next":0,"head":9}\n'),
        (f"$glue/history/page/{endpoint.id}/{endpoint.incarnation}", b"nonsense"),
        (f"$glue/history/ask/{publisher.id}", b"nonsense"),
        (f"$glue/history/ask/{publisher.id}", b'{"id":1,"scan":"log/#","after":999,"room":1}\n'),
    ):
        other._core.outbox.add(glue.contract.Publication(topic, [payload], 0.0))
    other.publish("log/b", "wakes it")
    world.run(SECOND)
    counted = endpoint.statistics["endpoint"]
    assert counted["pages of history not asked for"] == counted["malformed pages of history"] == 1
    counted = publisher.statistics["endpoint"]
    assert counted["malformed requests for history"] == counted["requests for history of the future"] == 1
    assert [message.payload for message in reader.received] == [1, 2, 3, 4, 5, "wakes it"]


def test_a_thousand_who_ask_for_all_are_served_in_turn() -> None:
    world = World()
    publisher = publisher_of(world, 2000)
    world.network.set_conditions(Conditions(rate=2e6, queue=1.0))
    readers = [world.endpoint(f"reader{number}").subscribe("log/#", start="earliest") for number in range(10)]
    live = world.endpoint("live").subscribe("news")
    world.run(0.05)
    publisher.publish("news", 1)
    assert world.run_until(lambda: live.received, SECOND)
    assert world.run_until(lambda: all(len(reader.received) == 2000 for reader in readers), 20 * SECOND)


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_nothing_is_lost_doubled_or_out_of_order(first: int) -> None:
    assert hunt(first, first + 8) > 500


@pytest.mark.parametrize(
    "seed",
    [
        235,  # live messages without a known history came after later ones
        1351,  # a topic that began before any other history was read as if it began after it
        2323,  # reliable messages that best effort overtook were dropped, as no history was known yet
    ],
)
def test_seeds_that_found_a_fault_stay_clean(seed: int) -> None:
    Swarm(seed).run()


def run(seed: int) -> None:
    """Run one seed of the swarm."""
    Swarm(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: Callable[[pytest.MonkeyPatch], None]) -> None:
    assert seeds_to_find(run, [*FOUND_BY.get(bug.__name__, ()), *range(200)], bug) is not None


if __name__ == "__main__":
    command(hunt, run, BUGS)
