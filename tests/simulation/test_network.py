"""The virtual LAN: who reaches whom, in what trains, under which conditions, and what is told about it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.errors import ConfigurationError
from glue.simulation import Burst, Conditions, Crossing, Host, SimulationError, World
from tests.simulation.machines import Counting, Echo, Listener, listeners, numbered

# ----------------------------------------------------------------------------------------------- addressing


def test_multicast_reaches_everyone_and_the_sender_itself_and_names_the_sender() -> None:
    world = World()
    machines, _ = listeners(world, 3)
    sender = world.add(own := Counting(None))
    world.run(1.0)
    for machine in [*machines, own]:
        assert [(address, data) for _, address, data, _ in machine.trains] == [(sender.address, numbered(0))]


def test_unicast_reaches_one_host_and_an_echo_comes_back_after_twice_the_delay() -> None:
    world = World()
    (other,), _ = listeners(world, 1)
    echo = world.add(Echo())
    world.add(sender := Counting(echo.address))
    world.network.set_conditions(Conditions(delay=0.25))
    world.run(1.0)
    assert [(now, address) for now, address, _, _ in sender.trains] == [(0.5, echo.address)]
    assert other.trains == []


def test_what_goes_to_no_hosts_address_is_counted() -> None:
    world = World()
    world.add(Counting(("10.9.9.9", 1), count=3))
    world.run(1.0)
    assert world.network.totals() == {"unknown destination": 3}


def test_a_datagram_that_ip_would_fragment_is_refused() -> None:
    world = World()
    world.add(Counting(None, size=1473))
    with pytest.raises(SimulationError, match="datagrams of 1473"):
        world.run(1.0)


# --------------------------------------------------------------------------------------------------- trains


def test_a_train_that_arrives_at_one_instant_is_handed_over_as_one() -> None:
    world = World()
    (machine,), (receiver,) = listeners(world, 1)
    world.add(Counting(receiver.address, count=42, together=42, size=1472))
    world.run(1.0)
    assert [(len(data), segment) for _, _, data, segment in machine.trains] == [(42 * 1472, 1472)]


def test_a_train_longer_than_a_receive_buffer_arrives_in_pieces_of_64_kb() -> None:
    world = World()
    (machine,), (receiver,) = listeners(world, 1)
    world.add(Counting(receiver.address, count=100, together=100, size=1472))
    world.run(1.0)
    assert [len(data) // 1472 for _, _, data, _ in machine.trains] == [44, 44, 12]
    assert machine.numbers == list(range(100))


def train_under(conditions: Conditions) -> Listener:
    """What arrives of one train of 40."""
    world = World()
    (machine,), (receiver,) = listeners(world, 1)
    world.add(Counting(receiver.address, count=40, together=40))
    world.network.set_conditions(conditions)
    world.run(1.0)
    return machine


def test_a_train_that_loses_some_stays_together() -> None:
    machine = train_under(Conditions(loss=0.5))
    assert len(machine.trains) == 1
    assert 5 < len(machine.numbers) < 35
    assert machine.numbers == sorted(machine.numbers)


def test_a_train_falls_apart_by_jitter() -> None:
    machine = train_under(Conditions(jitter=0.001))
    assert len(machine.trains) == 40
    assert sorted(machine.numbers) == list(range(40)) != machine.numbers


# --------------------------------------------------------------------------------------------------- rules


def test_the_most_specific_conditions_hold() -> None:
    world = World()
    machines, hosts = listeners(world, 3)
    senders = [world.add(Counting(None)) for _ in range(2)]
    network = world.network
    network.set_conditions(Conditions(delay=1.0))
    network.set_conditions(Conditions(delay=2.0), destination=hosts[1])
    network.set_conditions(Conditions(delay=3.0), source=senders[0])
    network.set_conditions(Conditions(delay=4.0), source=senders[0], destination=hosts[2])
    world.run(9.0)
    arrivals = [sorted((address, now) for now, address, _, _ in machine.trains) for machine in machines]
    first, second = (sender.address for sender in senders)
    assert arrivals == [
        [(first, 3.0), (second, 1.0)],
        [(first, 3.0), (second, 2.0)],
        [(first, 4.0), (second, 1.0)],
    ]


def test_cleared_conditions_are_the_gentle_ones_again() -> None:
    world = World()
    (machine,), (receiver,) = listeners(world, 1)
    world.add(Counting(receiver.address, count=100))
    world.network.set_conditions(Conditions(loss=1.0), destination=receiver)
    world.network.clear_conditions()
    world.run(1.0)
    assert machine.numbers == list(range(100))


@pytest.mark.parametrize(
    "values",
    [{"loss": -0.1}, {"loss": 1.1}, {"loss": float("nan")}, {"delay": -1.0}, {"jitter": float("inf")}, {"rate": 0.0}],
)
def test_conditions_out_of_range_are_refused_by_name(values: dict[str, float]) -> None:
    (name,) = values
    with pytest.raises(ConfigurationError, match=f"{name}=.*expected"):
        Conditions(**values)  # type: ignore[arg-type]


def test_conditions_that_are_not_named_change_nothing() -> None:
    assert Conditions().is_plain
    assert Conditions(delay=0.0, reorder_delay=0.0, queue=0.0).is_plain
    for conditions in ({"loss": 1.0}, {"corrupt": 0.1}, {"duplicate": 0.1}, {"jitter": 0.1}, {"reorder": 1.0},
                       {"rate": 1.0}, {"burst": Burst(enter=0.0, leave=0.0)}):  # fmt: skip
        assert not Conditions(**conditions).is_plain
    assert [now for now, *_ in train_under(Conditions(duplicate=1.0)).trains] == [0.0005] * 41
    assert [now for now, *_ in train_under(Conditions(reorder=1.0)).trains] == [0.0055]
    assert train_under(Conditions(burst=Burst(enter=1.0, leave=0.0))).trains == []
    slow = train_under(Conditions(rate=1420.0))  # each of them takes a tenth of a second: one leaves, one waits
    assert [now for now, *_ in slow.trains] == pytest.approx([0.1005, 0.2005])
    assert slow.numbers == [0, 1]


def test_other_conditions_end_a_burst() -> None:
    world = World()
    (machine,), (receiver,) = listeners(world, 1)
    world.network.set_conditions(Conditions(burst=Burst(enter=1.0, leave=0.0)))
    sender = world.add(Counting(receiver.address, count=3))
    world.run(1.0)
    assert machine.numbers == []
    world.network.set_conditions(Conditions(burst=Burst(enter=0.0, leave=0.0)))
    sender.restart(Counting(receiver.address, count=3))
    world.run(1.0)
    assert machine.numbers == [0, 1, 2]


def test_another_rate_holds_for_all_that_is_sent_from_then_on() -> None:
    world = World()
    (machine,), (receiver,) = listeners(world, 1)
    sender = world.add(Listener())
    for rate in (10_000.0, 1_000_000.0):
        world.network.set_conditions(Conditions(rate=rate, queue=10.0))
        sender.restart(Counting(receiver.address, count=40, together=40, size=1000))
        world.run(10.0)
    times = [now for now, _, _, _ in machine.trains]
    assert times[0] < 4.0 < times[39] < 5.0, "a kilobyte takes a tenth of a second, and more with its headers"
    assert len(times) == 80
    assert 10.0 < times[40] < times[79] < 10.1


def test_a_burst_out_of_range_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"leave=2: expected a probability"):
        Burst(enter=0.1, leave=2)


# ---------------------------------------------------------------------------------------------------- cuts


def who_hears(world: World, machines: list[Listener], sender: Host) -> list[int]:
    for machine in machines:
        machine.trains.clear()
    sender.restart(Counting(None))
    world.run(1.0)
    return [number for number, machine in enumerate(machines) if machine.trains]


def test_a_partition_separates_its_groups_and_the_rest_until_it_heals() -> None:
    world = World()
    machines, hosts = listeners(world, 5)
    sender = world.add(Listener())
    world.network.partition([sender, hosts[0]], [hosts[1]])
    assert who_hears(world, machines, sender) == [0]
    assert world.network.link(sender, hosts[1]).counters["cut"] == 1
    world.network.partition([hosts[0]], [hosts[1]])
    assert who_hears(world, machines, sender) == [2, 3, 4]
    world.network.block(sender, hosts[4])
    world.network.heal()
    assert who_hears(world, machines, sender) == [0, 1, 2, 3, 4]


def test_a_host_that_joins_during_a_partition_is_with_those_not_named() -> None:
    world = World()
    machines, hosts = listeners(world, 2)
    world.network.partition([hosts[0]])
    assert who_hears(world, machines, world.add(Listener())) == [1]


def test_a_host_in_two_groups_is_refused() -> None:
    world = World()
    _, (host,) = listeners(world, 1)
    with pytest.raises(ConfigurationError, match="one group only"):
        world.network.partition([host], [host])


def test_a_block_cuts_one_direction() -> None:
    world = World()
    echo = world.add(Echo())
    sender = world.add(machine := Counting(echo.address, count=10))
    world.network.block(echo, sender)
    world.run(1.0)
    assert machine.trains == []
    assert world.network.link(sender, echo).counters["arrived"] == 10
    assert world.network.link(echo, sender).counters["cut"] == 10
    world.network.unblock(echo, sender)
    sender.restart(machine := Counting(echo.address, count=10))
    world.run(1.0)
    assert machine.numbers == list(range(10))


def test_a_cut_stops_what_is_on_its_way() -> None:
    world = World()
    (machine,), (receiver,) = listeners(world, 1)
    sender = world.add(Counting(receiver.address, count=1))
    world.network.set_conditions(Conditions(delay=1.0))
    world.at(0.5, lambda: world.network.partition([receiver]))
    world.run(2.0)
    assert machine.trains == []
    assert world.network.link(sender, receiver).counters["cut"] == 1


# ---------------------------------------------------------------------------------------------------- truth

PROBABILITIES = st.sampled_from([0.0, 0.1, 0.5, 1.0])


@given(
    conditions=st.builds(
        Conditions,
        loss=PROBABILITIES,
        duplicate=PROBABILITIES,
        reorder=PROBABILITIES,
        corrupt=PROBABILITIES,
        jitter=st.sampled_from([0.0, 0.01]),
        burst=st.none() | st.builds(Burst, enter=PROBABILITIES, leave=PROBABILITIES, loss=PROBABILITIES),
        rate=st.sampled_from([None, 20_000.0]),
    ),
    together=st.integers(1, 7),
    size=st.integers(4, 1472),
)
def test_every_datagram_has_one_outcome_and_the_observer_sees_each(
    conditions: Conditions, together: int, size: int
) -> None:
    world, machine = World(), Listener()
    seen: list[Crossing] = []
    world.network.observer = seen.append
    receiver = world.add(machine)
    sender = world.add(Counting(receiver.address, count=30, together=together, size=size))
    world.network.set_conditions(conditions)
    world.at(0.003, receiver.take_down)
    world.at(0.004, receiver.bring_up)
    world.run(60.0)
    counts = world.network.link(sender, receiver).counters
    outcomes = Counter(crossing.outcome for crossing in seen)
    assert counts["sent"] == 30
    assert sum(outcomes.values()) == counts["sent"] + counts["duplicated"]
    assert all(counts[outcome] == count for outcome, count in outcomes.items())
    assert machine.datagrams == [crossing.data for crossing in seen if crossing.outcome == "arrived"]
    assert counts["arrived bytes"] == sum(map(len, machine.datagrams))


def test_the_observer_is_told_when_and_between_whom() -> None:
    world = World()
    seen: list[Crossing] = []
    world.network.observer = seen.append
    (_, _), (near, far) = listeners(world, 2)
    sender = world.add(Counting(None))
    world.network.set_conditions(Conditions(delay=0.5))
    world.network.block(sender, far)
    world.run(1.0)
    own, to_all, data = sender.address, None, numbered(0)
    assert seen == [
        Crossing(0.0, own, to_all, far.address, data, "cut", 0.0),
        Crossing(10e-6, own, to_all, own, data, "arrived", 0.0),
        Crossing(0.5, own, to_all, near.address, data, "arrived", 0.0),
    ]
