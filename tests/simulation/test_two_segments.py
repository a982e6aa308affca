"""Endpoints with two interfaces in virtual time: each message arrives once and in order while links die and return."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.segments import Segments

SEEDS = range(3)
LINKS = ("eth0", "wlan0")


class Stream:
    """A publisher that counts up, and what each receiver got."""

    def __init__(
        self, world: World, publisher: SimulatedEndpoint, *receivers: SimulatedEndpoint, **options: Any
    ) -> None:
        self.world = world
        self.publisher = publisher
        self.got: dict[str, list[int]] = {receiver.name: [] for receiver in receivers}
        self.times: dict[str, list[float]] = {receiver.name: [] for receiver in receivers}
        self.sent = 0
        self._options = options
        for receiver in receivers:
            receiver.subscribe("t", lambda message, name=receiver.name: self._take(name, message.payload))

    def _take(self, name: str, number: int) -> None:
        self.got[name].append(number)
        self.times[name].append(self.world.time)

    def run(self, seconds: float, rate: float = 200.0) -> None:
        """Publish at this rate for so long."""
        for _ in range(int(seconds * rate)):
            self.publisher.publish("t", self.sent, **self._options)
            self.sent += 1
            self.world.run(1 / rate)

    def longest_gap(self, name: str, since: float) -> float:
        times = [time for time in self.times[name] if time >= since - 0.1]
        return max(later - sooner for sooner, later in pairwise(times))


def lan(seed: int, **settings: Any) -> tuple[World, Segments, SimulatedEndpoint, SimulatedEndpoint]:
    """Two endpoints on two segments that know all their paths."""
    world = World(seed=seed)
    segments = Segments(world, *LINKS)
    segments["eth0"].set_conditions(Conditions(delay=0.0003, jitter=0.0003))
    segments["wlan0"].set_conditions(Conditions(delay=0.002, jitter=0.002))
    one, two = segments.endpoint("one", **settings), segments.endpoint("two", **settings)
    return world, segments, one, two


def paths(endpoint: SimulatedEndpoint, peer: str) -> dict[str, Any]:
    discovery: Any = endpoint._core.stack.layers["discovery"]
    return dict(discovery.links.describe()[peer])


def link(endpoint: SimulatedEndpoint, peer: str) -> str:
    """The link that carries what an endpoint sends to a peer."""
    return str(paths(endpoint, peer)["link"])


def cut(segments: Segments, name: str, *ends: SimulatedEndpoint) -> None:
    """Pull the cables of these endpoints from a segment, in the middle of the network: nobody is told."""
    segments[name].partition(*[[segments.nic(end, name)] for end in ends])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_segment_loses_nothing_and_doubles_nothing(seed: int) -> None:
    world, segments, one, two = lan(seed)
    stream = Stream(world, one, two)
    world.run(3.0)
    for _ in range(2):
        stream.run(1.0)
        dead, at = link(one, "two"), world.time
        cut(segments, dead, one, two)
        stream.run(1.0)
        assert link(one, "two") == link(two, "one") != dead
        assert stream.longest_gap("two", at) < 0.1
        segments[dead].heal()
        stream.run(3.0)
    world.run(1.0)
    assert stream.got["two"] == [*range(stream.sent)]
    assert one.peers
    assert two.peers


@pytest.mark.parametrize("seed", SEEDS)
def test_best_effort_goes_on_too_and_what_comes_comes_once(seed: int) -> None:
    world, segments, one, two = lan(seed)
    stream = Stream(world, one, two, reliability="best-effort")
    world.run(3.0)
    stream.run(1.0)
    at = world.time
    cut(segments, link(one, "two"), one, two)
    stream.run(1.0)
    world.run(0.5)
    got = stream.got["two"]
    assert len(got) == len(set(got))
    assert max(got) == stream.sent - 1
    assert stream.sent - len(got) < 50
    assert stream.longest_gap("two", at) < 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_an_interface_that_is_switched_off_is_left_at_once(seed: int) -> None:
    world, segments, one, two = lan(seed)
    stream = Stream(world, one, two)
    world.run(3.0)
    stream.run(0.5)
    at, name = world.time, link(one, "two")
    segments.switch(one, name, False)
    stream.run(1.0)
    assert stream.longest_gap("two", at) < 0.05
    segments.switch(one, name, True)
    stream.run(4.0)
    world.run(1.0)
    assert stream.got["two"] == [*range(stream.sent)]
    assert {path["link"] for path in paths(one, "two")["paths"] if path["answers"]} == set(LINKS)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_of_several_peers_is_reached_by_the_link_that_it_has(seed: int) -> None:
    world, segments, one, two = lan(seed)
    wired, radio = segments.endpoint("wired", on=["eth0"]), segments.endpoint("radio", on=["wlan0"])
    stream = Stream(world, one, two, wired, radio)
    world.run(3.0)
    stream.run(1.0)
    assert link(one, "wired") == "eth0"
    assert link(one, "radio") == "wlan0"
    assert paths(one, "wired")["paths"] == []
    assert len(paths(one, "two")["paths"]) == 2
    cut(segments, "eth0", one, two)  # now the wired one is out of reach, and the others go on
    stream.run(1.0)
    segments["eth0"].heal()
    stream.run(2.0)
    world.run(2.0)
    for name in ("two", "radio", "wired"):
        assert stream.got[name] == [*range(stream.sent)]


def test_what_goes_to_several_goes_through_the_links_that_carry_it_only() -> None:
    world, segments, one, two = lan(1)
    three = segments.endpoint("three")
    stream = Stream(world, one, two, three)
    world.run(15.0)
    assert link(one, "two") == link(one, "three") == "eth0"  # the better one
    before = segments["wlan0"].totals()["sent bytes"]
    wired = segments["eth0"].totals()["sent bytes"]
    stream.run(2.0)
    world.run(0.5)
    assert stream.got["two"] == stream.got["three"] == [*range(stream.sent)]
    assert (segments["wlan0"].totals()["sent bytes"] - before) < 0.2 * (segments["eth0"].totals()["sent bytes"] - wired)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lossy_link_is_left_for_a_good_one(seed: int) -> None:
    world, segments, one, two = lan(seed)
    stream = Stream(world, one, two)
    world.run(2.0)
    segments["eth0"].set_conditions(Conditions(delay=0.0003, loss=0.3))
    stream.run(20.0, rate=50.0)
    world.run(1.0)
    assert link(one, "two") == link(two, "one") == "wlan0"
    assert stream.got["two"] == [*range(stream.sent)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_link_that_carries_one_direction_only_is_left(seed: int) -> None:
    world, segments, one, two = lan(seed)
    stream = Stream(world, one, two)
    world.run(3.0)
    stream.run(0.5)
    name = link(one, "two")
    segments[name].block(segments.nic(one, name), segments.nic(two, name))
    stream.run(2.0)
    world.run(1.0)
    assert link(one, "two") == link(two, "one") != name
    assert stream.got["two"] == [*range(stream.sent)]


def test_a_paused_peer_is_not_taken_for_a_dead_link() -> None:
    world, _, one, two = lan(2)
    stream = Stream(world, one, two)
    world.run(3.0)
    stream.run(0.5)
    two.pause()
    stream.run(1.0)
    two.resume()
    stream.run(0.5)
    world.run(2.0)
    assert stream.got["two"] == [*range(stream.sent)]
    assert one.statistics["discovery"]["paths changed"] <= 2


def test_each_segment_has_its_own_addresses_luck_and_cables() -> None:
    world = World(1)
    segments = Segments(world, *LINKS)
    both, radio, wired = (
        segments.endpoint("both"),
        segments.endpoint("radio", ["wlan0"]),
        segments.endpoint("wired", ["eth0"]),
    )
    for name in LINKS:
        segments[name].set_conditions(Conditions(loss=0.3))
    world.run(3.0)
    nics = [
        segments.nic(both, "eth0"),
        segments.nic(both, "wlan0"),
        segments.nic(radio, "wlan0"),
        segments.nic(wired, "eth0"),
    ]
    assert [nic.address[0] for nic in nics] == ["10.1.0.1", "10.2.0.1", "10.2.0.2", "10.1.0.3"]
    assert {nic.address[1] for nic in nics} == {37319}
    assert [sorted(peer.name for peer in one.peers) for one in (both, radio, wired)] == [
        ["radio", "wired"],
        ["both"],
        ["both"],
    ]
    (seen,) = radio.peers
    assert seen.address == nics[1].address, "with one interface, addresses name no link"
    assert link(both, "radio") == "wlan0"
    assert all(segments[name].totals()["lost"] > 0 for name in LINKS)
    with pytest.raises(KeyError):
        segments.nic(radio, "eth0")
    segments.switch(both, "wlan0", False)
    sent = segments["wlan0"].totals()["sent"]
    from_both = segments["wlan0"].link(nics[1], nics[2]).counters["sent"]
    world.run(9.0)
    assert segments["wlan0"].link(nics[1], nics[2]).counters["sent"] == from_both, "nothing leaves by it"
    assert segments["wlan0"].link(nics[2], nics[1]).counters["receiver down"] > 0
    assert segments["wlan0"].totals()["sent"] > sent
    assert (radio.peers, [peer.name for peer in wired.peers]) == ([], ["both"])
    assert not nics[1].is_listening
    both.crash()
    assert not nics[0].is_listening
