"""Lives under one endpoint id: restarts, clashes, and what arrives of those that are over."""

from __future__ import annotations

from glue.contract import Inbound
from tests.discovery.lan import DELAY, Lan, data, pair

GOODBYE = [0, 0, None, None, "goodbye"]


def test_what_a_dead_life_sent_comes_too_late() -> None:
    lan, one, other = pair()
    late = [
        Inbound(other.id, other.incarnation, other.address, frame.header, frame.bodies)
        for source, frame in lan.sent
        if source is other
    ]
    lan.leave(other)
    lan.run(30)
    told, before = len(one.told), one.layer.statistics["past life"]
    one.layer.receive(lan.now, [*late, Inbound(other.id, other.incarnation, other.address, {}, [b"data"])])
    assert len(one.told) == told
    assert one.known == set()
    assert one.layer.statistics["past life"] == before + len(late) + 1


def test_the_goodbye_of_an_unknown_life_keeps_nobody_out() -> None:
    lan, one, other = pair()
    lan.run(1)
    newcomer = lan.add(3)
    goodbye = Inbound(newcomer.id, newcomer.incarnation, newcomer.address, {"discovery": GOODBYE}, [b""])
    one.layer.receive(lan.now, [goodbye])
    lan.want(newcomer, "a")
    lan.run(4 * DELAY)
    assert one.known == {other.id, newcomer.id}
    assert one.interests(newcomer.id) == {"a"}


def test_a_restart_is_a_new_life_at_once() -> None:
    lan, one, other = pair()
    lan.crash(other)
    again = lan.add(2)
    lan.run(3 * DELAY)
    assert one.events == [
        ("added", other.id),
        ("removed", other.id, "restarted"),
        ("added", other.id, "restarted"),
    ]
    assert one.layer.peers[other.id].incarnation == again.incarnation
    up, _ = one.layer.receive(lan.now, [Inbound(other.id, other.incarnation, other.address, {}, [b"old"])])
    assert up == []
    assert one.layer.statistics["past life"] == 1


def test_an_announcement_that_was_held_up_does_not_bring_back_a_dead_life_that_nobody_knew() -> None:
    lan = Lan()
    one = lan.add(1)
    dead, alive = lan.add(2, announce_interval=0.2), lan.add(2, announce_interval=0.2)
    lan.is_dropped = lambda source, host, frame: source is dead
    lan.run(0.05)
    lan.crash(dead)
    lan.run(0.1)
    late = [
        Inbound(dead.id, dead.incarnation, dead.address, frame.header, frame.bodies)
        for source, frame in lan.sent
        if source is dead
    ]
    assert late
    one.layer.receive(lan.now, late)
    lan.run(1.0)
    one.layer.receive(lan.now, late)
    lan.run(1.0)
    assert one.events == [("added", alive.id)]
    assert one.layer.peers[alive.id].incarnation == alive.incarnation
    assert one.layer.statistics["doubtful life"] == 2 * len(late)


def test_a_restart_with_a_smaller_number_is_seen_once_it_has_proved_that_it_lives() -> None:
    lan = Lan()
    one, other = lan.add(1), lan.add(2, incarnation=1000)
    lan.run(2)
    lan.crash(other)
    again = lan.add(2, incarnation=10)
    lan.run(3 * DELAY)
    assert one.layer.peers[other.id].incarnation == again.incarnation
    assert again.known == {one.id}


def test_data_of_a_life_that_has_not_announced_itself_is_not_mixed_in() -> None:
    lan, one, other = pair()
    up, _ = one.layer.receive(lan.now, [Inbound(other.id, 77, other.address, {}, [b"new"])])
    assert up == []
    assert one.layer.statistics["unannounced life"] == 1


def test_two_lives_under_one_id_are_reported_to_both_and_never_alternate() -> None:
    lan = Lan()
    watcher, first = lan.add(1), lan.add(2)
    lan.run(2)
    second = lan.add(2)
    lan.run(30)
    assert [clash.incarnation for clash in first.clashes] == [second.incarnation]
    assert [clash.address for clash in second.clashes] == [first.address]
    assert watcher.layer.peers[first.id].incarnation == second.incarnation
    assert len(watcher.events) == 3
    assert watcher.layer.statistics["clash"] > 10
    lan.order(first, data(watcher.id))
    lan.run(DELAY)
    assert watcher.data == []


def test_own_datagrams_are_counted_apart_from_those_of_another_life_under_the_own_id() -> None:
    lan, one, _ = pair()
    frame = next(frame for source, frame in lan.sent if source is one)
    told: list[object] = []
    for life, bodies in ((one.incarnation, [*frame.bodies] * 3), (77, [*frame.bodies] * 2)):
        up, down = one.layer.receive(lan.now, [Inbound(one.id, life, one.address, dict(frame.header), bodies)])
        assert down == []
        told += up
    assert (one.layer.statistics["own datagram"], one.layer.statistics["name clash"]) == (3, 2)
    assert [type(one).__name__ for one in told] == ["NameClash"]


def test_of_two_lives_under_one_id_the_first_is_taken_back_when_the_second_has_left() -> None:
    lan = Lan()
    watcher, first = lan.add(1), lan.add(2)
    lan.run(2)
    lan.leave(lan.add(2))
    lan.run(15)
    assert watcher.layer.peers[first.id].incarnation == first.incarnation
