"""Endpoints that sleep, in virtual time: what waits for them, and a swarm of sleepers and publishers.

python -m tests.simulation.test_sleep 0 10000      # hunt through these seeds
python -m tests.simulation.test_sleep bugs 1000    # tell how many seeds each planted bug takes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import glue
from benchmarks.sleep import BAR, radio_times
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.transport import sleepers
from tests.simulation.sleep_bugs import BUGS
from tests.simulation.sleep_swarm import Swarm, hunt
from tests.support.planting import command, seeds_to_find

REST = 60.0


def pair(**settings: Any) -> tuple[World, SimulatedEndpoint, SimulatedEndpoint]:
    """A publisher, and a node that sleeps and subscribes."""
    world = World()
    publisher, node = world.endpoint("publisher", **settings), world.endpoint("node", sleep=REST)
    world.run(1.0)
    return world, publisher, node


def test_messages_wait_and_come_in_order_when_the_node_wakes_up() -> None:
    world, publisher, node = pair()
    subscription = node.subscribe("node/#")
    woken: list[glue.Woke] = []
    node.on_wake = woken.append
    world.run(1.0)
    node.sleep()
    world.run(10.0)
    for number in range(100):
        publisher.publish("node/command", number)
    world.run(10.0)
    assert not subscription.received
    assert not publisher.backlog, "no publisher waits for an endpoint that sleeps"
    assert world.run_until(lambda: woken, REST)
    assert [message.payload for message in subscription.received] == list(range(100))
    assert woken == [glue.Woke(waited=100, dropped=0, publishers=1, silent=())]
    assert not any(node.name == peer.name for peer in publisher.peers if peer.reason)


def test_nothing_is_sent_to_a_node_that_sleeps() -> None:
    world, publisher, node = pair()
    node.subscribe("node/#")
    world.run(1.0)
    node.sleep()
    world.run(1.0)
    link = world.network.link(publisher.host, node.host)
    before = link.counters["sent"]
    for number in range(30):
        publisher.publish("node/command", number)
        publisher.publish("node/hint", number, reliability="best-effort")
        world.run(1.0)
    announcements = 32
    assert link.counters["sent"] - before <= announcements
    assert publisher.accounting.sent["lost: receiver asleep"] == 30  # what is best effort does not wait


def test_others_get_their_messages_at_once() -> None:
    world, publisher, node = pair()
    other = world.endpoint("other").subscribe("node/#")
    node.subscribe("node/#")
    world.run(1.0)
    node.sleep()
    world.run(1.0)
    for number in range(10):
        publisher.publish("node/command", number)
    world.run(0.1)
    assert len(other.received) == 10
    assert publisher.accounting.sent["delivered"] == 10


def test_too_much_is_dropped_counted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleepers, "HELD_FOR_ONE", 10_000)
    world, publisher, node = pair()
    subscription = node.subscribe("node/#")
    lost: list[tuple[str, int]] = []
    gaps: list[glue.Gap] = []
    woken: list[glue.Woke] = []
    publisher.on_lost = lambda cause, count: lost.append((cause, count))
    node.on_gap, node.on_wake = gaps.append, woken.append
    publisher.publish("node/command", bytes(1000))
    world.run(1.0)
    publisher.publish("node/command", bytes(1000))
    world.run(1.0)
    node.sleep()
    world.run(1.0)
    for _ in range(20):
        publisher.publish("node/command", bytes(1000))
        world.run(0.01)
    assert world.run_until(lambda: woken, REST)
    (woke,) = woken
    assert {cause for cause, _ in lost} == {"receiver asleep"}
    assert woke.waited + woke.dropped == 20
    assert woke.dropped == sum(count for _, count in lost) == sum(gap.count for gap in gaps) > 0
    assert len(subscription.received) == 1 + woke.waited


def test_sleepers_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleepers, "HELD_FOR_ALL", 10_000)
    world = World()
    publisher = world.endpoint("publisher")
    nodes = [world.endpoint(f"node{number}", sleep=REST) for number in range(4)]
    for node in nodes:
        node.subscribe("node/#")
    world.run(1.0)
    for node in nodes:
        node.sleep()
    world.run(1.0)
    for _ in range(5):
        publisher.publish("node/command", bytes(1000))
        world.run(0.01)
    assert publisher.accounting.sent["lost: receiver asleep"] == 20 - 9
    world.run(2 * REST)
    assert not publisher.accounting.sending


def test_a_message_that_expires_meanwhile_does_not_come() -> None:
    world, publisher, node = pair()
    subscription = node.subscribe("node/#")
    woken: list[glue.Woke] = []
    node.on_wake = woken.append
    world.run(1.0)
    node.sleep()
    world.run(1.0)
    publisher.publish("node/command", "soon stale", lifespan=5)
    world.run(1.0)
    publisher.publish("node/command", "stays")
    assert world.run_until(lambda: woken, REST)
    assert [message.payload for message in subscription.received] == ["stays"]
    assert (woken[0].waited, woken[0].dropped) == (1, 1)


def test_the_lease_follows_the_time_asleep_and_ends() -> None:
    world, publisher, node = pair()
    node.sleep()
    world.run(REST - 1.0)
    assert [peer.name for peer in publisher.peers] == ["node"]
    node.crash()
    world.run(REST)
    assert [peer.name for peer in publisher.peers] == ["node"]
    world.run(REST)
    assert not publisher.peers


def test_a_node_that_dies_without_a_word_is_served_when_its_silence_is_noticed() -> None:
    world, publisher, node = pair()
    node.subscribe("node/#")
    world.run(1.0)
    node.host.take_down()
    publisher.publish("node/command", 1)
    world.run(3.0)
    assert publisher.statistics["transport"]["sleepers found silent"] == 1
    assert not publisher.backlog


def test_a_node_that_is_started_again_while_it_sleeps_is_awake() -> None:
    world, publisher, node = pair()
    world.run(1.0)
    node.sleep()
    world.run(1.0)
    assert not node.host.is_up
    node.restart()
    node.subscribe("node/#")
    world.run(2.0)
    assert (node.host.is_up, [peer.name for peer in node.peers]) == (True, [publisher.name])
    node.host.take_down()
    node.restart()
    assert not node.host.is_up, "what a test has taken down stays down"


def test_what_is_published_asleep_leaves_when_the_node_wakes_up() -> None:
    world, publisher, node = pair()
    heard = publisher.subscribe("state/#")
    world.run(1.0)
    node.sleep()
    world.run(1.0)
    node.publish("state/battery", 3.7)
    world.run(REST / 2)
    assert not heard.received
    world.run(REST / 2)
    assert [message.payload for message in heard.received] == [3.7]


def test_interests_that_changed_meanwhile_are_known_when_the_node_is_awake() -> None:
    world, publisher, node = pair()
    world.run(1.0)
    node.sleep(then=lambda woke: node.publish("state/battery", 3.7))
    world.run(1.0)
    heard = publisher.subscribe("state/#")
    world.run(REST)
    assert [message.payload for message in heard.received] == [3.7]


def test_a_dead_publisher_is_waited_for_a_few_times() -> None:
    world, publisher, node = pair()
    other = world.endpoint("other")
    world.run(1.0)
    woken: list[glue.Woke] = []
    node.on_wake = woken.append
    times: list[float] = []

    def awake(woke: glue.Woke) -> None:
        times.append(world.time - node._radio_since)
        node.sleep(then=awake)

    node.sleep(then=awake)
    world.run(1.0)
    publisher.crash()
    world.run(5 * REST)
    assert [woke.silent for woke in woken[:4]] == [("publisher",)] * 4
    assert times[0] > 0.4 > 0.1 > times[1] > times[3]
    assert other.is_running


def test_sleep_needs_the_setting_and_has_its_length() -> None:
    world, publisher, node = pair()
    with pytest.raises(glue.ConfigurationError, match="needs the setting"):
        publisher.sleep()
    for seconds in (REST + 1, -1, True, "10"):
        with pytest.raises(glue.ConfigurationError, match="expected 0 to 60"):
            node.sleep(seconds)  # type: ignore[arg-type]
    with pytest.raises(glue.ConfigurationError, match="86400"):
        world.endpoint("never", sleep=100_000)


@pytest.mark.parametrize(("publishers", "delay", "loss"), [(1, 0.005, 0.0), (5, 0.01, 0.05)])
def test_the_radio_is_on_for_a_moment_only(publishers: int, delay: float, loss: float) -> None:
    times = radio_times(1, publishers, delay, loss, 3)
    assert sum(times) / len(times) < BAR


def test_lossy_links_delay_a_wakeup_and_lose_nothing() -> None:
    world, publisher, node = pair()
    subscription = node.subscribe("node/#")
    world.run(1.0)
    world.network.set_conditions(Conditions(loss=0.3, delay=0.01))
    for number in range(20):
        node.sleep()
        world.run(REST / 2)
        publisher.publish("node/command", number)
        world.run(REST)
    assert [message.payload for message in subscription.received] == list(range(20))


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_nothing_is_lost_doubled_or_out_of_order(first: int) -> None:
    assert hunt(first, first + 4) > 50


def run(seed: int) -> None:
    """Run one seed of the swarm."""
    Swarm(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: Callable[[pytest.MonkeyPatch], None]) -> None:
    assert seeds_to_find(run, range(100), bug) is not None


if __name__ == "__main__":
    command(hunt, run, BUGS)
