"""The faults of simulated groups do to nodes, clocks, disks and ways what their names say, and end again."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from glue.model.consensus.messages import Message, Vote
from glue.simulation.consensus.cluster import Cluster
from glue.simulation.consensus.faults import FAULTS, Faults
from glue.simulation.consensus.forger import FORGERIES, Forger
from glue.simulation.consensus.node import Node
from tests.model.clusters import cluster, leader_of


class Group:
    """Three voters with disks and a leader, and all kinds of faults."""

    def __init__(self, seed: int = 1) -> None:
        self.cluster = cluster()
        self.faults = Faults(self.cluster, Random(seed))
        net = self.cluster.net
        net.loss = net.duplicate = net.stray = 0.0
        net.slowest = 0.002
        self.leader = self.cluster.nodes[leader_of(self.cluster)]
        self.other = next(node for node in self.cluster.nodes.values() if node is not self.leader)

    def befall(self, kind: str, node: Node) -> None:
        FAULTS[kind](self.faults, node)

    @property
    def blocked(self) -> set[tuple[str, str]]:
        return self.cluster.net.blocked

    def is_well(self) -> bool:
        nodes = self.cluster.nodes.values()
        return self.cluster.leader() is not None and len({node.last() for node in nodes}) == 1


def ways(node: Node, made: Cluster) -> set[tuple[str, str]]:
    """All ways from and to a node."""
    return {way for peer in made.nodes if peer != node.peer for way in ((node.peer, peer), (peer, node.peer))}


@pytest.mark.parametrize("seed", range(5))
def test_ways_are_cut_and_healed_again(seed: int) -> None:
    group = Group(seed)
    made = group.cluster
    group.befall("isolate", group.other)
    assert group.blocked == ways(group.other, made)
    made.run(3.0)
    assert group.blocked == set()
    group.befall("block", group.other)
    assert all(group.other.peer in way for way in group.blocked)
    assert all((to, source) not in group.blocked for source, to in group.blocked), "one direction"
    made.run(3.0)
    assert group.blocked == set()
    leader = made.nodes[leader_of(made)]
    group.befall("rotate", group.other)
    assert group.blocked == ways(leader, made)
    made.run(12.0)
    assert group.blocked == set()
    group.befall("split", group.other)
    assert len(group.blocked) in (0, 4)
    made.run(3.0)
    assert (group.blocked, group.is_well()) == (set(), True)


def test_what_was_delivered_to_a_paused_node_is_handled_later_but_not_by_another_life() -> None:
    group = Group()
    made, node = group.cluster, group.other
    seen: list[int] = []
    original = node.step

    def step(messages: list[tuple[str, Message]]) -> None:
        seen.append(len(messages))
        original(messages)

    node.step = step  # type: ignore[method-assign]
    stale = Vote(node.vital.group, group.leader.life, 0, False, False)
    for how, count in (("resume", 2), ("resume deaf", 0), ("restart", 0)):
        node.pause()
        for _ in range(2):
            node.deliver(group.leader.peer, stale)
        seen.clear()
        if how == "restart":
            node.crash()
            node.restart()
            seen.clear()
            node.pause()
        node.resume(is_deaf=how == "resume deaf")
        assert seen == [count], how
        node.resume()
        assert seen == [count], "it was not paused"
    made.run(2.0)
    assert group.is_well()


@pytest.mark.parametrize("kind", ["stop", "freeze"])
def test_a_stopped_machine_goes_on_and_a_suspended_one_has_a_clock_that_stood(kind: str) -> None:
    group = Group()
    made, node = group.cluster, group.leader
    before = node.now
    group.befall(kind, group.other if kind == "freeze" else node)  # suspended is the leader, whichever is named
    assert (node.is_paused, group.other.is_paused) == (True, False)
    made.run(0.9)
    assert node.now - before == pytest.approx(0.0009 if kind == "freeze" else 0.9)
    assert made.run_until(lambda: not node.is_paused, 6.0)
    now, at = node.now, made.time
    made.run(1.0)
    assert node.now - now == pytest.approx(made.time - at)
    made.run(3.0)
    assert group.is_well()


def test_clocks_jump_forward_and_go_wrong_until_the_faults_end() -> None:
    group = Group()
    made, node = group.cluster, group.other
    before = node.now
    group.befall("jump", node)
    assert node.now - before in (0.5, 2.0, 3600.0)
    now = node.now
    group.befall("drift", node)
    made.run(1.0)
    assert 0.69 < node.now - now < 1.51
    assert node.now - now != 1.0
    group.faults.end()
    now = node.now
    made.run(1.0)
    assert node.now - now == pytest.approx(1.0)
    assert made.run_until(group.is_well, 10.0)


def test_crashed_nodes_start_again_within_three_seconds() -> None:
    group = Group()
    made = group.cluster
    lives = {peer: node.life for peer, node in made.nodes.items()}
    group.befall("crash", group.other)
    assert (group.other.replica, group.leader.replica is None) == (None, False)
    group.befall("crash", group.other)
    group.befall("crash all", group.other)
    assert all(node.replica is None for node in made.nodes.values())
    made.run(3.0)
    assert all(node.replica is not None for node in made.nodes.values())
    assert {peer: node.life for peer, node in made.nodes.items()} == lives, "their disks kept them"
    assert made.run_until(group.is_well, 10.0)


@pytest.mark.parametrize("kind", ["wipe", "damage"])
def test_a_node_that_lost_its_disk_has_another_life_and_only_a_minority_may(kind: str) -> None:
    for seed in range(8):  # damage may meet a file that is empty
        group = Group(seed)
        made, node = group.cluster, group.other
        former = node.life
        group.befall(kind, node)
        assert node.replica is None
        if node.life == former:
            continue
        assert (node.life, node.lost_at, node.durable.last) == ("", made.time, (0, 0))
        group.befall(kind, group.leader)
        assert group.leader.replica is not None, "two of three would be lost"
        made.run(3.0)
        assert (node.replica is not None, node.life != former) == (True, True)
        return
    raise AssertionError("nothing was damaged")


def test_disks_are_slow_full_or_fail_for_a_while() -> None:
    group = Group()
    made, node = group.cluster, group.other
    assert node.disk is not None
    group.befall("slow disk", node)
    assert node.sync_delay in (0.001, 0.05, 0.5)
    node.sync_delay = 0.5
    group.befall("full disk", node)
    assert node.disk.is_full
    made.propose(group.leader, b"x")
    assert made.run_until(lambda: node.is_full, 1.0)
    made.run(3.0)
    assert (node.disk.is_full, made.run_until(lambda: not node.is_full, 1.0)) == (False, True)
    group.befall("sync error", node)
    made.propose(group.leader, b"y")
    assert made.run_until(lambda: node.replica is None, 1.0)
    made.run(3.0)
    assert node.replica is not None
    node.disk.is_full = node.disk.fails_to_sync = True
    node.pause()
    group.faults.end()
    assert (node.disk.is_full, node.disk.fails_to_sync, node.sync_delay) == (False, False, 0.001)
    assert (node.is_paused, made.net.slowest, made.net.duplicate) == (False, 0.02, 0.0)
    assert made.run_until(group.is_well, 10.0)
    assert made.watch.commands == {b"x", b"y"}


def test_faults_of_the_kinds_that_are_left_out_are_drawn_but_do_nothing() -> None:
    def struck(without: tuple[str, ...]) -> tuple[dict[str, int], int]:
        made = cluster()
        faults = Faults(made, Random(5), without)
        faults.begin(6.0)
        made.run(6.0)
        at = dict(faults.counters)
        made.run(20.0)
        assert faults.counters == at, "its time is over"
        return faults.counters, sum(at.values())

    kinds, count = struck(())
    assert count > 3
    assert struck(tuple(kinds)) == ({}, 0)


def test_messages_are_lost_doubled_and_delayed_as_the_network_says() -> None:
    made = cluster()
    source, destination = list(made.nodes)[:2]
    node = made.nodes[source]
    message = Vote(node.vital.group, node.life, 0, False, False)
    for peer in made.nodes.values():
        peer.pause()
    arrived: list[float] = []
    made.told = lambda *_: arrived.append(made.time)  # type: ignore[method-assign]

    def sent(to: str | None = destination, count: int = 40) -> list[float]:
        made.run(5.0)
        arrived.clear()
        at = made.time
        for _ in range(count):
            made.send(node, to, message)
        made.run(5.0)
        return [one - at for one in arrived]

    plain = sent()
    assert len(plain) == 40
    assert all(0.001 <= one <= 0.002 for one in plain)
    assert len(sent(None)) == 80
    assert (sent("nobody"), sent(source)) == ([], [])
    net = made.net
    net.duplicate = 1.0
    assert len(sent()) == 80
    net.duplicate, net.loss = 0.0, 0.5
    assert 8 < len(sent()) < 32
    net.loss, net.stray = 0.0, 1.0
    late = sent()
    assert max(late) > 1.5
    assert all(0.001 <= one <= 3.002 for one in late)
    made.partition([source])
    assert sent() == []
    assert len(made.net.blocked) == 4


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_message_is_of_the_receivers_group_in_the_name_of_the_other_member(kind: str) -> None:
    group = Group()
    forger = Forger(group.cluster, Random(1))
    message: Any = FORGERIES[kind](forger, group.leader, group.other)
    assert (message.group, message.life) == (group.leader.vital.group, group.other.life)
    assert message.term >= group.leader.vital.term
