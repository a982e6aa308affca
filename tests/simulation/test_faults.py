"""Each fault happens to datagrams at the rate asked for, exactly reproducible, and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise

import pytest

from glue.simulation import Burst, Conditions, World
from glue.simulation.conditions import FRAME_OVERHEAD
from tests.simulation.machines import Counting, Listener, listeners, numbered


def flood(
    conditions: Conditions, seed: int = 1, count: int = 10_000, interval: float = 0.001, **shape: int
) -> tuple[list[int], Counter[str]]:
    """Numbered datagrams from one host to another: the numbers that arrive, in order, and the link's counts."""
    world, listener = World(seed), Listener()
    receiver = world.add(listener)
    sender = world.add(Counting(receiver.address, count=count, interval=interval, **shape))
    world.network.set_conditions(conditions)
    world.run(count * interval + 10.0)
    return listener.numbers, world.network.link(sender, receiver).counters


# --------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.4])
def test_losses_come_near_the_rate_asked_for_and_are_the_same_for_the_same_seed(loss: float) -> None:
    arrived, counts = flood(Conditions(loss=loss))
    assert counts["sent"] == 10_000
    assert counts["lost"] == 10_000 - len(arrived)
    assert counts["lost"] == pytest.approx(10_000 * loss, rel=0.2)
    assert flood(Conditions(loss=loss))[0] == arrived
    assert flood(Conditions(loss=loss), seed=2)[0] != arrived


def test_the_luck_of_single_datagrams_is_that_of_datagrams_in_trains() -> None:
    conditions = Conditions(loss=0.2)
    assert flood(conditions, count=400)[0] == flood(conditions, count=400, together=40)[0]


def test_losses_come_in_bursts_of_the_length_asked_for() -> None:
    arrived, counts = flood(Conditions(burst=Burst(enter=0.01, leave=0.2)), count=50_000)
    bursts = [next_one - one - 1 for one, next_one in pairwise(arrived) if next_one - one > 1]
    assert counts["lost"] / 50_000 == pytest.approx(0.01 / 0.21, rel=0.1)
    assert sum(bursts) / len(bursts) == pytest.approx(1 / 0.2, rel=0.1)


def test_between_bursts_the_ordinary_loss_holds_and_within_them_their_own() -> None:
    burst = Burst(enter=0.1, leave=0.1, loss=0.6)
    _, counts = flood(Conditions(loss=0.2, burst=burst), count=20_000)
    assert counts["lost"] / 20_000 == pytest.approx((0.2 + 0.6) / 2, rel=0.1)


def test_duplicates_arrive_twice() -> None:
    arrived, counts = flood(Conditions(duplicate=0.25))
    times = Counter(Counter(arrived).values())
    assert times == {1: 10_000 - counts["duplicated"], 2: counts["duplicated"]}
    assert counts["duplicated"] == pytest.approx(2500, rel=0.1)


def test_what_is_held_back_is_overtaken() -> None:
    arrived, counts = flood(Conditions(reorder=0.1, reorder_delay=0.0045))
    overtaken = sum(1 for one, next_one in pairwise(arrived) if next_one < one)
    assert sorted(arrived) == list(range(10_000))
    assert counts["held back"] == pytest.approx(1000, rel=0.1)
    assert overtaken > 800


def test_jitter_spreads_the_delay_evenly() -> None:
    world = World(3)
    (machine,), (receiver,) = listeners(world, 1)
    world.add(Counting(receiver.address, count=1000, interval=1.0))
    world.network.set_conditions(Conditions(delay=0.1, jitter=0.2))
    world.run(1001.0)
    delays = [now - number for (now, _, _, _), number in zip(machine.trains, machine.numbers, strict=True)]
    assert 0.1 <= min(delays) < 0.11
    assert 0.29 < max(delays) <= 0.3 + 1e-9
    assert sum(delays) / 1000 == pytest.approx(0.2, rel=0.05)


def test_corruption_flips_one_bit() -> None:
    world, machine = World(), Listener()
    receiver = world.add(machine)
    sender = world.add(Counting(receiver.address, count=1000, interval=0.01))
    world.network.set_conditions(Conditions(corrupt=0.3))
    world.run(11.0)
    differences = [
        (int.from_bytes(datagram, "big") ^ int.from_bytes(numbered(number), "big")).bit_count()
        for number, datagram in enumerate(machine.datagrams)
    ]
    assert set(differences) == {0, 1}
    assert sum(differences) == world.network.link(sender, receiver).counters["corrupted"]
    assert sum(differences) == pytest.approx(300, rel=0.2)


def test_a_rate_lets_through_just_that_many_bytes_and_drops_what_does_not_fit_its_queue() -> None:
    frame = 100 + FRAME_OVERHEAD
    conditions = Conditions(rate=frame * 100.0, queue=0.1, delay=0.0)
    world, machine = World(), Listener()
    receiver = world.add(machine)
    sender = world.add(Counting(receiver.address, count=1000, interval=0.001))
    world.network.set_conditions(conditions)
    world.run(5.0)
    counts = world.network.link(sender, receiver).counters
    gaps = [later - earlier for earlier, later in pairwise(now for now, _, _, _ in machine.trains)]
    assert min(gaps) == pytest.approx(0.01)
    assert counts["arrived"] == 110  # 0.01 s each: as many as begin within 0.999 s of sending and 0.1 s of queue
    assert counts["queue full"] == 1000 - counts["arrived"]


def test_a_rate_of_a_source_is_shared_by_all_it_sends_to_but_a_multicast_counts_once() -> None:
    frame = 100 + FRAME_OVERHEAD

    def last_arrival(limited_destination: bool, multicast: bool) -> float:
        world = World()
        machines, hosts = listeners(world, 2)
        for index in range(1 if multicast else 2):
            sender = world.add(Counting(None if multicast else hosts[index].address, count=10, interval=0.0001))
            if not limited_destination:
                world.network.set_conditions(Conditions(rate=frame * 10.0, queue=9.0), source=sender)
        if limited_destination:
            world.network.set_conditions(Conditions(rate=frame * 10.0, queue=9.0), destination=hosts[0])
        world.run(10.0)
        assert all(machine.numbers == list(range(10)) for machine in machines)
        return round(max(machine.trains[-1][0] for machine in machines), 2)

    assert last_arrival(limited_destination=False, multicast=True) == 1.0
    assert last_arrival(limited_destination=True, multicast=True) == 1.0
    assert last_arrival(limited_destination=False, multicast=False) == 1.0


def test_a_rate_of_a_destination_is_shared_by_all_who_send_to_it() -> None:
    world = World()
    (machine,), (receiver,) = listeners(world, 1)
    for _ in range(2):
        world.add(Counting(receiver.address, count=10, interval=0.0001))
    frames = 10 * (100 + FRAME_OVERHEAD)
    world.network.set_conditions(Conditions(rate=frames, queue=9.0, delay=0.0), destination=receiver)
    world.run(10.0)
    assert machine.trains[-1][0] == pytest.approx(2.0)


# ----------------------------------------------------------------------------------------------------- random numbers


def test_each_receiver_of_a_multicast_has_luck_of_its_own() -> None:
    world = World()
    machines, _ = listeners(world, 3)
    world.add(Counting(None, count=200))
    world.network.set_conditions(Conditions(loss=0.5))
    world.run(1.0)
    assert len({tuple(machine.numbers) for machine in machines}) == 3


def test_another_host_does_not_change_the_luck_of_the_others() -> None:
    def numbers(others: int) -> list[int]:
        world = World(5)
        receiver = world.add(machine := Listener(), ("receiver", 1))
        for _ in range(others):
            world.add(Counting(None, count=50))
        world.add(Counting(receiver.address, count=500), ("sender", 1))
        world.network.set_conditions(Conditions(loss=0.3, jitter=0.01))
        world.run(2.0)
        return [int.from_bytes(data[:4], "big") for _, source, data, _ in machine.trains if source == ("sender", 1)]

    assert numbers(0) == numbers(7)


def test_another_fault_does_not_change_which_datagrams_are_lost_or_doubled() -> None:
    some = Conditions(loss=0.2, duplicate=0.2)
    others = replace(some, jitter=0.01, reorder=0.2, corrupt=0.0, burst=None)
    assert sorted(flood(some)[0]) == sorted(flood(others)[0])
    twice = {number for number, run in groupby(sorted(flood(some)[0])) if len(list(run)) == 2}
    twice_without_loss = {
        number for number, run in groupby(sorted(flood(replace(some, loss=0.0))[0])) if len(list(run)) == 2
    }
    assert twice <= twice_without_loss
