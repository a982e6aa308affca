"""What befalls one host: deadlines to the exact instant, its own clock, pauses, crashes, a dead interface."""

from __future__ import annotations

from math import inf, nan

import pytest

from glue.contract import Accept, Event, Leave, NameClash, Request, Train
from glue.errors import ConfigurationError
from glue.simulation import Conditions, SimulationError, World
from tests.simulation.machines import Counting, Echo, Listener, Timer

# ------------------------------------------------------------------------------------------ deadlines, clock


def test_a_deadline_is_obeyed_at_the_exact_virtual_time() -> None:
    world = World()
    deadlines = [0.1, 0.2, 0.30000000000000004, 1 / 3, 7.7]
    world.add(timer := Timer(*deadlines))
    world.run(10.0)
    assert timer.turns == deadlines


def test_a_deadline_moved_by_a_turn_is_obeyed_where_it_is_now() -> None:
    class Retry(Listener):
        """Each request brings its deadline forward or puts it off."""

        def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
            self.deadline = {0.0: 5.0, 1.0: 2.0, 1.5: 3.0}.get(now, inf)
            return super().turn(now, trains, requests)

    world = World()
    host = world.add(machine := Retry())
    for time in (0.0, 1.0, 1.5):
        world.at(time, lambda: host.submit(Leave()))
    world.run(10.0)
    assert machine.turns == [0.0, 1.0, 1.5, 3.0]


def test_a_deadline_that_has_passed_already_is_obeyed_at_once() -> None:
    world = World()
    world.run(3.0)
    world.add(timer := Timer(1.0))
    world.run(1.0)
    assert timer.turns == [3.0]


def test_a_machine_that_leaves_its_deadline_in_the_past_is_named() -> None:
    class Stuck(Listener):
        deadline = 1.0

        def __init__(self) -> None:
            pass

        def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
            return [], []

    world = World()
    world.add(Stuck())
    with pytest.raises(SimulationError, match=r"deadline of <Host \('10.0.0.1', 37320\): Stuck> stands at 1.0"):
        world.run(2.0)


def test_a_deadline_that_is_no_number_is_named() -> None:
    with pytest.raises(SimulationError, match="not a number"):
        World().add(Timer(nan))


def test_each_machine_sees_its_own_clock() -> None:
    world = World()
    fast = world.add(Listener(), offset=1000.0, drift=0.01)
    exact = world.add(Listener())
    world.run(100.0)
    assert (fast.now, exact.now) == (1101.0, 100.0)


@pytest.mark.parametrize("drift", [0.01, -0.5, 50e-6, 1 / 3])
def test_a_deadline_is_one_of_the_machines_own_clock_and_never_early(drift: float) -> None:
    world = World()
    deadlines = [1e9 + 0.1 * tick for tick in range(1, 200)]
    world.add(timer := Timer(*deadlines), offset=1e9, drift=drift)
    world.run(100.0)
    assert len(timer.turns) == 199
    assert all(0 <= now - deadline < 1e-6 for now, deadline in zip(timer.turns, deadlines, strict=True))


def test_a_clock_may_change_its_rate_and_jump_forward_but_not_back() -> None:
    world = World()
    host = world.add(timer := Timer(10.0, 20.0))
    world.run(5.0)
    host.adjust_clock(drift=1.0)
    assert host.now == 5.0
    world.run(2.5)
    assert timer.turns == [10.0]
    host.adjust_clock(jump=9.0)
    world.run(0.5)
    assert timer.turns == [10.0, 20.0]
    with pytest.raises(ConfigurationError, match="only jumps forward"):
        host.adjust_clock(jump=-1.0)
    with pytest.raises(ConfigurationError, match="drift=-1"):
        host.adjust_clock(drift=-1.0)


def test_the_wall_clock_may_jump_without_the_monotonic_one() -> None:
    world = World()
    host = world.add(Listener())
    before = host.unix_time
    host.wall_offset = -3600.0
    world.run(1.0)
    assert host.unix_time == before - 3600.0 + 1.0
    assert host.now == 1.0


# ---------------------------------------------------------------------------------------- requests and events


def test_requests_reach_the_machine_in_order_at_the_instant_they_are_made() -> None:
    world = World()
    host = world.add(machine := Listener())
    first, second, third = Accept(False), Accept(True), Leave()
    host.submit(first, second)
    world.at(2.0, lambda: host.submit(third))
    world.run(3.0)
    assert machine.requests == [first, second, third]
    assert machine.turns == [0.0, 2.0]


def test_the_events_of_a_turn_go_to_the_hosts_handler_which_may_ask_for_more() -> None:
    news = NameClash("name", 1, ())

    class Newsy(Listener):
        def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
            super().turn(now, trains, requests)
            return ([news] if len(self.turns) == 1 else []), []

    world = World()
    heard: list[Event] = []
    leave = Leave()

    def handle(events: list[Event]) -> None:
        heard.extend(events)
        host.submit(leave)

    host = world.add(machine := Newsy(), on_events=handle)
    host.submit(Accept(True))
    world.run(1.0)
    assert heard == [news]
    assert machine.requests[-1] is leave


def test_what_a_machine_raises_tells_where_and_when() -> None:
    class Broken(Timer):
        def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
            raise ZeroDivisionError

    world = World()
    world.add(Broken(1.5))
    with pytest.raises(ZeroDivisionError) as caught:
        world.run(2.0)
    assert caught.value.__notes__ == ["in a turn of <Host ('10.0.0.1', 37320): Broken> at virtual time 1.5"]


def test_received_data_is_overwritten_by_the_next_as_in_a_sockets_buffer() -> None:
    class Keeper(Listener):
        kept: bytes | bytearray | memoryview = b""

        def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
            self.kept = self.kept or trains[0].data
            return super().turn(now, trains, requests)

    world = World()
    receiver = world.add(machine := Keeper())
    world.add(Counting(receiver.address, count=2, size=8, interval=1.0))
    world.run(0.5)
    assert bytes(machine.kept) == bytes(8)
    world.run(1.0)
    assert bytes(machine.kept) == b"\xdb" * 8
    assert machine.numbers == [0, 1]


# ----------------------------------------------------------------------------------------------- its troubles


def test_a_paused_host_finds_on_resume_all_that_came_and_the_deadlines_it_missed() -> None:
    world = World()
    receiver = world.add(machine := Timer(1.0, 2.0, 9.0))
    world.add(Counting(receiver.address, count=100, interval=0.01))
    world.at(0.5, receiver.pause)
    world.at(5.0, receiver.resume)
    world.run(4.0)
    assert max(machine.turns) < 0.5
    world.run(2.0)
    assert machine.numbers == list(range(100))
    assert {now for now in machine.turns if now >= 0.5} == {5.0}
    assert machine.turns.count(5.0) == 1
    world.run(4.0)
    assert machine.turns[-1] == 9.0


def test_a_large_burst_is_handed_over_in_bounded_pieces() -> None:
    world = World()
    receiver = world.add(machine := Listener())
    world.add(Counting(receiver.address, count=1000))
    receiver.pause()
    world.run(2.0)
    receiver.resume()
    world.run(1.0)
    assert machine.numbers == list(range(1000))
    assert machine.turns == [2.0] * 16


def test_unicast_is_read_before_what_waits_in_the_multicast_socket_which_starves_neither() -> None:
    world = World()
    receiver = world.add(machine := Listener())
    world.add(Counting(None, count=40))
    world.add(Counting(receiver.address, count=60))
    receiver.pause()
    world.run(2.0)
    receiver.resume()
    world.run(1.0)
    assert machine.numbers == [*range(48), *range(16), *range(48, 60), *range(16, 40)]
    assert machine.turns == [2.0, 2.0]


def test_what_arrives_while_a_slow_host_reads_its_backlog_comes_in_between() -> None:
    world = World()
    receiver = world.add(machine := Listener())
    receiver.turn_time = 0.1
    world.add(Counting(None, count=200))
    receiver.pause()
    world.run(2.0)
    receiver.resume()
    world.add(Counting(receiver.address, count=1))
    world.run(1.0)
    assert machine.numbers == [*range(64), 0, *range(64, 200)]
    assert machine.turns == pytest.approx([2.0, 2.1, 2.2, 2.3])


def test_a_paused_hosts_buffer_is_bounded_and_what_it_refuses_is_counted() -> None:
    world = World()
    receiver = world.add(machine := Listener(), receive_buffer=1000)
    sender = world.add(Counting(receiver.address, count=100, size=100))
    receiver.pause()
    world.run(1.0)
    receiver.resume()
    world.run(1.0)
    assert machine.numbers == list(range(10))
    assert world.network.link(sender, receiver).counters["buffer full"] == 90
    sender.restart(Counting(receiver.address, count=20))
    world.run(1.0)
    assert machine.numbers[10:] == list(range(20))


def test_a_host_without_its_interface_neither_sends_nor_hears_but_goes_on() -> None:
    world = World()
    down = world.add(machine := Counting(None, count=10, interval=1.0))
    other = world.add(Counting(None, count=10, interval=1.0))
    world.at(1.5, down.take_down)
    world.at(4.5, down.bring_up)
    world.run(20.0)
    assert [number for number, (_, address, _, _) in zip(machine.numbers, machine.trains, strict=True)
            if address == other.address] == [0, 1, 5, 6, 7, 8, 9]  # fmt: skip
    assert world.network.link(other, down).counters["receiver down"] == 3
    assert world.network.link(down, other).counters["sender down"] == 3
    assert len([now for now in machine.turns if now == int(now)]) == 10


def test_a_crashed_host_is_silent_and_a_restart_gives_its_address_to_a_new_life() -> None:
    world = World()
    echo = world.add(Echo())
    sender = world.add(machine := Counting(echo.address, count=10, interval=1.0))
    world.at(2.5, echo.crash)
    world.at(6.5, lambda: echo.restart(Echo()))
    world.run(20.0)
    assert machine.numbers == [0, 1, 2, 7, 8, 9]
    assert world.network.link(sender, echo).counters["receiver down"] == 4


def test_nothing_of_the_old_life_reaches_the_new_one() -> None:
    world = World()
    host = world.add(Timer(1.0))
    world.add(Counting(host.address, count=5))
    world.add(Counting(None, count=5))
    host.pause()
    host.submit(Leave())
    world.run(0.5)
    host.restart(machine := Timer(2.0))
    world.run(5.0)
    assert (machine.turns, machine.trains, machine.requests) == ([2.0], [], [])


def test_a_crashed_host_cannot_be_asked_for_anything() -> None:
    world = World()
    host = world.add(Listener())
    host.crash()
    with pytest.raises(SimulationError, match="restart it before"):
        host.submit(Leave())


def test_a_datagram_on_its_way_to_a_host_that_restarts_reaches_the_new_life() -> None:
    world = World()
    host = world.add(Listener())
    world.add(Counting(host.address))
    world.network.set_conditions(Conditions(delay=1.0))
    world.run(0.5)
    host.restart(machine := Listener())
    world.run(1.0)
    assert machine.numbers == [0]
