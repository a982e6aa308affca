"""Recorded runs of the virtual network alone: what befalls numbered datagrams under each condition and trouble.

A line has the counts of the whole network, when what arrived, and a number for the whole run: a seed gives the same run
as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from zlib import crc32

from glue.simulation import Burst, Conditions, Crossing, Host, World
from glue.simulation.disk import SimulatedDisk
from glue.simulation.recorded import RecordedOutcomes
from tests.simulation.machines import Counting, Echo, Listener, Timer, listeners, numbered

CONDITIONS = {
    "as it is": Conditions(),
    "loss": Conditions(loss=0.2),
    "bursts": Conditions(loss=0.02, burst=Burst(enter=0.05, leave=0.2, loss=0.7)),
    "flipped bits": Conditions(corrupt=0.2),
    "copies": Conditions(duplicate=0.3, jitter=0.003),
    "jitter": Conditions(delay=0.01, jitter=0.02),
    "overtaken": Conditions(reorder=0.2, reorder_delay=0.004),
    "narrow": Conditions(rate=100_000.0, queue=0.02),
    "everything": Conditions(
        loss=0.1, burst=Burst(enter=0.1, leave=0.3), corrupt=0.1, duplicate=0.1, delay=0.002, jitter=0.004, reorder=0.1,
        rate=200_000.0, queue=0.01,
    ),
}  # fmt: skip


class Network:
    """A world whose network is written down."""

    def __init__(self, seed: int = 3) -> None:
        self.world = World(seed)
        self.seen: list[str] = []
        self.world.network.observer = self._note

    def _note(self, crossing: Crossing) -> None:
        self.seen.append(f"{crossing.time:.9f} {crossing.sent_at:.9f} {crossing.outcome} {crossing[1:4]}")

    def line(self, what: str, *machines: Listener) -> str:
        """What has happened so far: the counts, what came where, and a number for all of it."""
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.world.network.totals().items()))
        came = [(now, address, data, segment) for machine in machines for now, address, data, segment in machine.trains]
        numbers = "; ".join(f"{len(one.trains)} trains, {len(one.turns)} turns" for one in machines)
        whole = f"{self.world.trace_hash[:8]} {crc32(repr((came, self.seen)).encode()):08x}"
        return f"{what}: {counts}; {numbers}; {whole}\n"


def conditions() -> str:
    """Multicast, unicast and an echo under each condition, for all links, for a source, a destination and a pair."""
    lines = []
    for name, these in CONDITIONS.items():
        for scope in range(4):
            made = Network()
            world = made.world
            machines, hosts = listeners(world, 2)
            echo = world.add(Echo())
            group = world.add(Counting(None, count=60, together=4, interval=0.005, size=300))
            world.add(asker := Counting(echo.address, count=40, together=2, interval=0.007))
            source, destination = (None, None) if scope == 0 else (group, None) if scope == 1 else (None, hosts[0])
            world.network.set_conditions(these, source=group if scope == 3 else source, destination=destination)
            world.run(1.0)
            lines.append(made.line(f"{name}, {('all', 'source', 'destination', 'pair')[scope]}", *machines, asker))
    return "".join(lines)


def troubles() -> str:
    """Hosts that stop, crash, are cut off, read slowly, have small buffers and wrong clocks; and recorded fates."""
    made = Network(5)
    world, network = made.world, made.world.network
    machines, hosts = listeners(world, 3)
    small = world.add(slow := Listener(), receive_buffer=1_500)
    small.turn_time = 0.11
    fast = world.add(timer := Timer(0.1, 0.5, 2.0, 7.25), offset=5.0, drift=0.01)
    network.set_conditions(Conditions(jitter=0.001))
    sender = world.add(Counting(None, count=330, together=3, interval=0.05, size=700), drift=-0.02)
    lines = []

    def then(what: str, action: Callable[[], object] = lambda: None, seconds: float = 0.3) -> None:
        action()
        world.run(seconds)
        lines.append(made.line(f"{world.time:.1f} s, {what}", *machines, slow, timer))

    then("begun")
    then("paused", hosts[0].pause)
    then("resumed", hosts[0].resume)
    then("crashed", hosts[1].crash)
    then("restarted", lambda: hosts[1].restart(machines[1]))
    then("apart", lambda: network.partition(hosts[:2], [sender, hosts[2]]))
    then("healed", network.heal)
    then("blocked", lambda: network.block(sender, hosts[2]))
    then("another direction", lambda: network.block(hosts[2], sender))
    then("unblocked", lambda: network.unblock(sender, hosts[2]))
    then("no multicast", lambda: setattr(network, "carries_multicast", False))
    then("multicast", lambda: setattr(network, "carries_multicast", True))
    then("down", sender.take_down)
    then("up", sender.bring_up)
    then("no conditions", network.clear_conditions)
    outcomes = RecordedOutcomes([0.0, 4.2, 4.21, 4.3], [0.001, None, 0.05, 0.002])
    then("recorded fates", lambda: network.repeat(sender, hosts[0], outcomes))
    then("another clock", lambda: clock_jumps(fast))
    then("late", lambda: late(world, hosts))
    world.note("the end")
    lines.append(made.line(f"end at {world.time:.1f} s, drawn {world.random('test').random():.6f}"))
    return "".join(lines)


def clock_jumps(host: Host) -> None:
    """Let a clock gain, and jump."""
    host.adjust_clock(drift=0.5, jump=1.5)


def late(world: World, hosts: list[Host]) -> None:
    """A host that comes late, and speaks to nobody and to a host."""
    world.add(Counting(("10.9.9.9", 1), count=2))
    world.add(Counting(hosts[0].address, count=50, together=50, size=1_472))


def disks() -> str:
    """What disks hold after random calls and crashes."""
    lines = []
    for seed in range(12):
        random, disk = Random(seed), SimulatedDisk(Random(seed))
        told = []
        for step in range(60):
            name = random.choice(["a", "b", "c"])
            known = name in disk.names()
            match random.randrange(9):
                case 0 | 1 if not known:
                    disk.create(name)
                case 2 | 3 | 4 if known:
                    disk.append(name, numbered(step, 4 + random.randrange(90)))
                case 5 if known:
                    disk.sync(name)
                case 6 if known:
                    disk.rename(name, random.choice(["b", "c", "d"]))
                case 7 if known and random.random() < 0.3:
                    disk.remove(name) if random.random() < 0.5 else disk.truncate(name, disk.size(name) // 2)
                case 8 if random.random() < 0.5:
                    disk.sync_names()
                case 8:
                    disk.crash()
            told.append([(one, disk.read(one), disk.read_at(one, 2, 3)) for one in sorted(disk.names())])
        sizes = ", ".join(f"{one} {disk.size(one)}" for one in sorted(disk.names()))
        lines.append(f"{seed}: {disk.calls} calls; {sizes}; {crc32(repr(told).encode()):08x}\n")
    return "".join(lines)


NETWORKS: dict[str, Callable[[], str]] = {
    "network-conditions": conditions, "network-troubles": troubles, "network-disks": disks,
}  # fmt: skip
