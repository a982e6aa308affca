"""The simulator's bounds: conditions, buffers, clocks, the schedule, the hash of a run, and addresses."""

from __future__ import annotations

from contextlib import nullcontext
from math import inf, nan
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.errors import ConfigurationError
from glue.simulation import Burst, Conditions, SimulationError, World, schedule
from glue.simulation.clock import Clock
from glue.simulation.host import Socket
from glue.simulation.link import Port, flipped, split
from glue.simulation.machine import SimulationError as Refusal
from glue.simulation.randomness import RandomStreams
from glue.simulation.recorded import RecordedOutcomes
from glue.simulation.schedule import Schedule
from glue.simulation.trace import TraceHash
from tests.simulation.machines import Listener


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        *((name, [0, 0.5, 1], [-0.1, 1.1, nan]) for name in ("loss", "corrupt", "duplicate", "reorder")),
        *((name, [0, 1e9], [-1e-9, inf, nan]) for name in ("delay", "jitter", "reorder_delay", "queue")),
        ("rate", [None, 1e-9, 1e12], [0, -1, inf, nan]),
    ],
)  # fmt: skip
def test_a_condition_has_its_range(name: str, right: list[Any], wrong: list[Any]) -> None:
    for value in right + wrong:
        with nullcontext() if value in right else pytest.raises(ConfigurationError, match=f"^{name}="):
            assert getattr(Conditions(**{name: value}), name) == value
    for name in ("enter", "leave", "loss"):
        with pytest.raises(ConfigurationError, match=f"^{name}=2"):
            Burst(**{"enter": 0.1, "leave": 0.1, name: 2})


def test_only_conditions_without_chance_and_rate_are_plain() -> None:
    assert Conditions(delay=5.0, queue=0.0, reorder_delay=1.0).is_plain
    for name in ("loss", "corrupt", "duplicate", "jitter", "reorder", "rate"):
        given = {name: cast(Any, 0.1)}
        assert not Conditions(**given).is_plain
    assert not Conditions(burst=Burst(enter=0.0, leave=1.0)).is_plain


def test_a_socket_takes_what_its_buffer_holds() -> None:
    socket, source = Socket(10), ("a", 1)
    assert socket.put(source, bytes(10), 5)
    assert not socket.put(source, b"x", 1)
    assert [len(data) for _, data, _ in socket.take(1)] == [10]
    assert socket.take(1) == []
    for size in (4, 6):
        assert socket.put(source, bytes(size), 4)
    assert [len(data) for _, data, _ in socket.take(1)] == [4]
    assert not socket.put(source, bytes(5), 1)
    socket.clear()
    assert (socket.put(source, bytes(10), 1), len(socket.trains)) == (True, 1)


def test_a_port_sends_at_its_rate_and_drops_what_would_wait_too_long() -> None:
    port = Port(1_000.0, 0.5)
    data = bytes(58)  # 100 bytes with its headers
    assert port.departures(10.0, data * 7, 58) == pytest.approx([10.1, 10.2, 10.3, 10.4, 10.5, 10.6, None])
    assert port.departures(10.2, data, 58) == pytest.approx([10.7])
    assert port.departures(20.0, b"", 58) == pytest.approx([20.042])
    assert (split(bytes(5), 5), split(bytes(6), 5), split(b"", 5)) == ([bytes(5)], [bytes(5), bytes(1)], [b""])
    assert [flipped(b"\0\0", bit) for bit in (0, 7, 8, 15)] == [b"\1\0", b"\x80\0", b"\0\1", b"\0\x80"]


def test_random_streams_are_those_of_their_seed_and_draw_only_what_is_needed() -> None:
    one, other = RandomStreams(7, "x"), RandomStreams(7, "x")
    assert not one.strikes("a", 0.0)
    first = one.draw("a")
    one.draw("b")
    assert (other.draw("a"), other.draw("a")) == (first, one.draw("a"))
    assert [RandomStreams(*given).draw("a") == first for given in ((8, "x"), (7, "y"))] == [False, False]
    assert RandomStreams(7, "x").strikes("a", first + 1e-9)
    assert not RandomStreams(7, "x").strikes("a", first)


def test_time_does_not_go_back_nor_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    made, done = Schedule(), list[Any]()
    made.call_at(1.0, done.append, "b")
    made.call_at(1.0, done.append, "c")
    made.call_at(0.5, done.append, "a")
    made.call_last(lambda: done.append("last"))
    while made.step(1.0):
        pass
    assert (done, made.time, made.step(1.0)) == (["last", "a", "b", "c"], 1.0, False)
    for time in (0.9, nan):
        with pytest.raises(Refusal, match="cannot schedule"):
            made.call_at(time, done.append, "x")
    made.call_at(1.0, done.append, "now")
    made.call_last(lambda: done.append("after"))
    assert (made.step(1.0), done[-1], made.step(1.0), done[-1], made.step(1.0)) == (True, "now", True, "after", False)
    monkeypatch.setattr(schedule, "STEPS_AT_ONE_INSTANT", 3)
    for count, problem in ((3, nullcontext()), (4, pytest.raises(Refusal, match="virtual time stands still"))):
        made.call_at(made.time + 1.0, done.append, "first")
        for _ in range(count - 1):
            made.call_at(made.time + 1.0, done.append, "more")
        until = made.time + 1.0
        with problem:
            while made.step(until):
                pass


def test_a_clock_drifts_jumps_and_tells_when_it_will_read_something() -> None:
    clock = Clock(100.0, 0.5)
    assert (clock.read(0.0), clock.read(2.0), clock.moment(103.0)) == (100.0, 103.0, 2.0)
    clock.adjust(2.0, jump=7.0)
    assert (clock.read(2.0), clock.read(4.0)) == (110.0, 113.0)
    clock.adjust(4.0, drift=-0.5)
    assert (clock.read(4.0), clock.read(6.0), clock.moment(115.0)) == (113.0, 114.0, 8.0)
    for reading in (115.1, 115.7, 1e6 + 0.1):
        assert clock.read(clock.moment(reading)) >= reading
    for given in ({"jump": -0.1}, {"jump": inf}, {"jump": nan}, {"drift": -1.0}, {"drift": inf}):
        with pytest.raises(ConfigurationError):
            clock.adjust(9.0, **given)


def test_the_hash_of_a_run_is_made_of_all_that_happened() -> None:
    def digest(*events: Any) -> str:
        made = TraceHash()
        for one in events:
            made.note(*one) if len(one) == 2 else made.record(*one)
        return made.digest

    assert digest() == "cae66941d9efbd404e4d88758ea67670"
    plain = (b"s", 1.0, 2, 3, 4, b"data")
    assert digest(plain) == "63097e26590a4c69845ef83eab564ee0"
    assert digest((1.5, "ü")) == digest((b"n", 1.5, 2, 0, 0, "ü".encode()))
    changed = [(b"a", *plain[1:]), (b"s", 1.1, *plain[2:]), (b"s", 1.0, 3, 2, 4, b"data"), (*plain[:5], b"date")]
    assert len({digest(one) for one in [plain, *changed]}) == 5


def test_recorded_fates_are_those_of_the_same_tenth_of_a_second() -> None:
    outcomes = RecordedOutcomes([0.0, 0.05, 0.31], [0.01, None, 0.2])
    found = [outcomes.arrival(now) for now in (0.02, 0.03, 0.04, 0.15, 0.35, 0.36, 0.9)]
    assert found == [0.03, None, 0.05, None, 0.55, 0.56, 1.1]
    late = RecordedOutcomes([0.0, 0.05], [0.5, 0.01])
    assert [late.arrival(now) for now in (0.01, 0.02)] == [0.51, 0.51], "none overtakes another"
    assert RecordedOutcomes([], []).arrival(5.0) == 5.0


def test_hosts_get_addresses_that_are_free_and_no_network_or_broadcast() -> None:
    world = World()
    world.add(Listener(), ("10.0.0.2", 37_320))
    assert [world.add(Listener()).address for _ in range(2)] == [("10.0.0.1", 37_320), ("10.0.0.3", 37_320)]
    full: Any = World()
    for last in range(1, 251):
        full.hosts.append(SimpleNamespace(address=(f"10.0.0.{last}", 37_320)))
        assert full._next_address()[0] == (f"10.0.0.{last + 1}" if last < 250 else "10.0.1.1")
    with pytest.raises(ConfigurationError, match="taken"):
        world.add(Listener(), ("10.0.0.2", 37_320))
    for seconds in (-1.0, inf, nan):
        with pytest.raises(SimulationError, match="time cannot pass"):
            world.run(seconds)
    world.run(0.0)
    calls: list[float] = []
    world.after(2.0, lambda: calls.append(world.time))
    assert not world.run_until(lambda: bool(calls), 1.0)
    assert (world.time, world.run_until(lambda: bool(calls), 1.0), calls) == (1.0, True, [2.0])
    assert world.run_until(lambda: True, 0.0)
    world.at(3.0, lambda: world.run(1.0))
    with pytest.raises(SimulationError, match="run was called from within run"):
        world.run(5.0)
