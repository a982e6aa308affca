"""What is promised of priorities, in whole stacks in virtual time: urgent messages are early, and nothing starves."""

from __future__ import annotations

from statistics import median

import pytest

import glue
from glue.endpoint.admission import SHARES
from glue.endpoint.core import PRIORITIES
from glue.endpoint.options import Priority
from glue.simulation import Conditions, SimulatedEndpoint, World

RATE = 50e6 / 8  # bytes a second
MOST = 0.84  # of the rate is payload, at best: 1,280 bytes of each 1,514
SLOW = Conditions(rate=RATE, queue=0.1, delay=0.0005)


class Saturated:
    """A sender that streams 1 MB messages as fast as it may, and small ones at 100 Hz, to so many receivers."""

    def __init__(
        self, bulk: Priority, small: Priority, receivers: int = 1, conditions: Conditions = SLOW, seed: int = 5
    ) -> None:
        self.world = World(seed=seed)
        self.world.network.set_conditions(conditions)
        self.sender = self.world.endpoint("sender")
        self.delays: list[float] = []
        self.bulk_bytes = 0
        self.refused = 0
        for number in range(receivers):
            receiver = self.world.endpoint(f"receiver {number}")
            receiver.subscribe("small", lambda message: self.delays.append(self.world.time - message.payload))
            receiver.subscribe("bulk", self._heard_bulk)
        assert self.world.run_until(lambda: len(self.sender.subscribers("bulk")) == receivers, 5)
        self._stream(bulk)
        self._tick(small)

    def _heard_bulk(self, message: glue.Message) -> None:
        self.bulk_bytes += len(message.payload)

    def _stream(self, priority: Priority) -> None:
        fill(self.sender, priority, 1 << 20)
        self.world.after(0.05, lambda: self._stream(priority))

    def _tick(self, priority: Priority) -> None:
        try:
            self.sender.publish("small", self.world.time, priority=priority)
        except glue.WouldBlockError:
            self.refused += 1
        self.world.after(0.01, lambda: self._tick(priority))


def fill(endpoint: SimulatedEndpoint, priority: Priority, size: int) -> int:
    """Publish until the queue is full; returns how many messages that took."""
    count = 0
    while True:
        try:
            endpoint.publish("bulk", bytes(size), priority=priority)
        except glue.WouldBlockError:
            return count
        count += 1


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


@pytest.mark.parametrize(("receivers", "small"), [(1, "urgent"), (1, "normal"), (3, "urgent")])
def test_beside_bulk_that_saturates_a_slow_link_small_messages_take_less_than_5_ms(
    receivers: int, small: Priority
) -> None:
    case = Saturated("bulk", small, receivers)
    case.world.run(5)
    assert percentile(case.delays, 99) < 0.005
    assert len(case.delays) >= 499 * receivers
    assert case.refused == 0
    assert case.bulk_bytes / receivers > 0.85 * MOST * RATE * 5


def test_bulk_gets_most_of_a_link_whose_jitter_is_ten_times_the_queue_that_it_may_make() -> None:
    got = []
    for seed in range(3):  # with so much jitter one run says little
        case = Saturated("bulk", "urgent", conditions=Conditions(rate=2 * RATE, delay=0.002, jitter=0.02), seed=seed)
        case.world.run(5)
        got.append(case.bulk_bytes)
    assert median(got) > 0.5 * MOST * 2 * RATE * 5


def test_on_a_fast_link_small_messages_overtake_large_ones_unasked() -> None:
    case = Saturated("normal", "normal", conditions=Conditions(rate=1.25e8))
    case.world.run(0.1)
    case.delays.clear()  # of the first round of discovery, in which messages are held
    case.world.run(0.5)
    assert percentile(case.delays, 99) < 0.025  # of the queue that a window may make, and not of the 4 MB that wait
    assert case.refused == 0


def test_bulk_does_not_starve_beside_what_takes_all_it_can_get() -> None:
    world = World(seed=6)
    world.network.set_conditions(SLOW)
    sender, receiver = world.endpoint("sender"), world.endpoint("receiver")
    heard = {priority: receiver.subscribe(priority) for priority in ("bulk", "urgent")}
    assert world.run_until(lambda: sender.subscribers("bulk") and sender.subscribers("urgent"), 5)
    for priority in ("urgent", "bulk") * 1000:
        try:
            sender.publish(priority, bytes(10_000), priority=priority)
        except glue.WouldBlockError:
            world.run(0.01)
    world.run(5)
    rates = {priority: sum(len(m.payload) for m in heard[priority].received) for priority in heard}
    assert rates["bulk"] > 0.05 * rates["urgent"]


@pytest.mark.parametrize("receivers", [1, 3])
def test_a_topic_keeps_its_order_whatever_the_classes_of_its_messages(receivers: int) -> None:
    world = World(seed=7)
    world.network.set_conditions(Conditions(loss=0.1, delay=0.002))
    sender = world.endpoint("sender", queue_limit=1 << 30)
    ears = [world.endpoint(f"receiver {number}") for number in range(receivers)]
    heard = [ear.subscribe("t") for ear in ears]
    gaps: list[glue.Gap] = []
    for ear in ears:
        ear.on_gap = gaps.append
    assert world.run_until(lambda: len(sender.subscribers("t")) == receivers, 5)
    sizes = 10, 100_000, 10, 40_000, 10, 10
    sent = []
    for number in range(200):
        payload = [number, "x" * sizes[number % len(sizes)]]
        sender.publish("t", payload, priority=[*PRIORITIES][number // 3 % 4])
        sent.append(payload)
        if number % 7 == 0:
            world.run(0.003)
    world.run(20)
    for subscription in heard:
        assert [message.payload for message in subscription.received] == sent
    assert not gaps


def test_a_queue_full_of_bulk_still_takes_what_is_more_urgent_up_to_a_bound() -> None:
    world = World(seed=8)
    sender, receiver = world.endpoint("sender", queue_limit=1_000_000), world.endpoint("receiver")
    heard = receiver.subscribe("bulk")
    assert world.run_until(lambda: sender.subscribers("bulk"), 5)
    receiver.pause()
    world.run(0.01)
    held = 0
    for priority in ("bulk", "normal", "high", "urgent"):
        count = fill(sender, priority, 1000)
        assert count > 0
        held += count
        assert SHARES[PRIORITIES[priority]] * 1e6 < sender.backlog < SHARES[PRIORITIES[priority]] * 1e6 + 3000
        assert fill(sender, "bulk", 1000) == 0
    receiver.resume()
    world.run(5)
    assert len(heard.received) == held


def test_what_is_kept_for_a_late_joiner_comes_after_what_is_urgent() -> None:
    world = World(seed=9)
    world.network.set_conditions(SLOW)
    sender = world.endpoint("sender")
    for number in range(100):
        sender.publish(f"kept/{number}", bytes(20_000), retain=True)
    world.run(1)
    heard = world.endpoint("late joiner").subscribe("#")
    assert world.run_until(lambda: sender.subscribers("alarm"), 5)
    sender.publish("alarm", "fire", priority="urgent")
    world.run(10)
    assert len(heard.received) == 101
    assert [message.topic for message in heard.received].index("alarm") < 20
