"""What forward error correction is worth, and what it costs: whole stacks in virtual time, exactly."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from glue.simulation import Conditions, World

FIRST = 120  # messages in which the loss becomes known: as many frames at least
COUNT = 200
FAR = 0.05  # seconds one way


class Link:
    """Messages from one endpoint to another, ten a second, over a lossy link."""

    def __init__(
        self, loss: float, parity: float | None, size: int = 64 << 10, hz: float = 10, delay: float = FAR, seed: int = 1
    ) -> None:
        world = World(seed)
        settings: Any = {} if parity is None else {"parity": parity}
        self.publisher, self.subscriber = world.endpoint("publisher", **settings), world.endpoint("subscriber")
        heard: list[int] = []
        published: list[float] = []
        self.delays: list[float] = []

        def hear(message: Any) -> None:
            heard.append(int(message.payload[:4]))
            self.delays.append(world.time - published[heard[-1]])

        self.subscriber.subscribe("t", hear)
        assert world.run_until(lambda: len(self.publisher.peers) == len(self.subscriber.peers) == 1, 20)
        world.run(0.5)
        world.network.set_conditions(Conditions(loss=loss, delay=delay))
        counts = world.network.link(self.publisher.host, self.subscriber.host).counters
        for number in range(FIRST + COUNT):
            published.append(world.time)
            self.publisher.publish("t", (b"%04d" % number).ljust(size, b"."))
            world.run(1 / hz)
        assert world.run_until(lambda: self.publisher.backlog == 0, 10)
        assert heard == list(range(FIRST + COUNT))
        self.lost = counts["lost"]

    @property
    def p99(self) -> float:
        """Seconds from publishing to hearing, once the loss was known."""
        return self.percentile(99)

    def percentile(self, part: int) -> float:
        return sorted(self.delays[FIRST:])[COUNT * part // 100]

    def sent(self, cause: str) -> int:
        return self.publisher.statistics["transport"][cause]


def test_a_message_of_64_kb_comes_eight_times_sooner_than_by_resending_alone_and_costs_a_quarter_more() -> None:
    without, parity = Link(loss=0.1, parity=0), Link(loss=0.1, parity=None)
    assert without.p99 >= 8 * parity.p99
    assert parity.p99 <= FAR + 0.002  # as without any loss
    data = 52 * (FIRST + COUNT)
    assert 0.2 * data < parity.sent("parity frames sent") < 0.3 * data
    assert parity.sent("frames resent") <= 0.05 * parity.lost


@pytest.mark.parametrize(("loss", "most"), [(0.01, 0.1), (0.2, 0.55)])
def test_the_overhead_follows_the_loss(loss: float, most: float) -> None:
    link = Link(loss=loss, parity=None)
    assert link.percentile(98) <= FAR + 0.005  # the p99 is that of the two worst, and one in a hundred may need more
    assert loss < link.sent("parity frames sent") / (52 * (FIRST + COUNT)) < most


def test_a_link_without_loss_carries_not_a_byte_more() -> None:
    without, parity = Link(loss=0, parity=0), Link(loss=0, parity=None)
    assert parity.sent("parity frames sent") == 0
    assert parity.sent("frames sent") == without.sent("frames sent")
    assert parity.delays == without.delays


def p99(share: float | None, seed: int) -> float:
    return Link(loss=0.1, parity=share, size=1024, hz=30, seed=seed).p99


def test_lone_small_messages_come_a_third_sooner_too() -> None:
    without, parity = (median(p99(share, seed) for seed in range(1, 6)) for share in (0, None))
    assert parity <= without * 2 / 3


@pytest.mark.parametrize(("size", "hz"), [(1024, 30), (64 << 10, 20)])
def test_on_a_near_link_nothing_changes(size: int, hz: float) -> None:
    without, parity = (Link(loss=0.1, parity=share, size=size, hz=hz, delay=0.002) for share in (0, None))
    assert parity.delays == without.delays
