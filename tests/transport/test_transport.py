"""What the transport promises: everything, once, in order, whatever the wire does; and bounded memory."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.contract import BULK, HIGH, LARGE, NORMAL, URGENT, Accept, Flow, Inbound, Outbound, PeerAdded, Undelivered
from glue.transport import Transport
from glue.transport.wire import KEY, WINDOW
from tests.transport.network import Wire, endpoint_id


def numbered(count: int) -> list[bytes]:
    """Bodies that tell their place."""
    return [b"%d" % number for number in range(count)]


def heard_by(wire: Wire, number: int, source: int = 0) -> list[bytes]:
    """What an endpoint heard from another, in order."""
    return [body for peer, body in wire.heard[wire.ids[number]] if peer == wire.ids[source]]


def test_a_message_arrives_and_is_acknowledged() -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"hello")
    wire.run(0.1)
    assert heard_by(wire, 1) == [b"hello"]
    assert wire.backlog == 0
    assert math.isinf(wire.transports[wire.ids[0]].deadline)


@pytest.mark.parametrize("loss", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("receivers", [1, 4])
def test_loss_duplicates_and_reordering_are_repaired(loss: float, receivers: int) -> None:
    wire = Wire(1 + receivers, seed=7, loss=loss, duplicate=0.3, jitter=0.004)
    bodies = numbered(300)
    for body in bodies:
        wire.publish(0, list(range(1, 1 + receivers)), body)
        wire.run(0.001)
    wire.run(30)
    for receiver in range(1, 1 + receivers):
        assert heard_by(wire, receiver) == bodies
    assert wire.backlog == 0


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_long_stream_passes_the_windows(loss: float) -> None:
    wire = Wire(2, loss=loss)
    peers = (wire.ids[1],)
    wire.send(wire.ids[0], *[Outbound(peers, numbered(1000)) for _ in range(20)])
    wire.run(120)
    assert heard_by(wire, 1) == numbered(1000) * 20
    assert wire.backlog == 0


def test_without_loss_nothing_is_sent_twice() -> None:
    wire = Wire(4)
    for _ in range(50):
        wire.publish(0, [1, 2, 3], b"x", frames=40)
        wire.run(0.002)
    wire.run(1)
    assert all(len(heard_by(wire, receiver)) == 2000 for receiver in (1, 2, 3))
    assert wire.transports[wire.ids[0]].statistics["frames resent"] == 0


def test_only_the_lost_frame_is_sent_again() -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"warm up")
    wire.run(0.1)
    wire.cut = {(wire.ids[0], wire.ids[1])}
    wire.publish(0, [1], b"lost")
    wire.cut = set()
    wire.publish(0, [1], b"x", frames=30)
    wire.run(1)
    assert heard_by(wire, 1) == [b"warm up", b"lost"] + [b"x"] * 30
    assert wire.transports[wire.ids[0]].statistics["frames resent"] == 1


def test_several_receivers_share_one_multicast() -> None:
    wire = Wire(4)
    wire.publish(0, [1, 2, 3], b"x", frames=10)
    data = [item for source, _, item in wire.sent if source == wire.ids[0] and item.header[KEY][0] == "group"]
    assert len(set(map(id, data))) == 1
    assert data[0].peers == ()


def test_those_who_are_not_meant_hear_nothing() -> None:
    wire = Wire(4)
    wire.publish(0, [1, 2], b"x")
    wire.run(1)
    assert heard_by(wire, 1) == heard_by(wire, 2) == [b"x"]
    assert heard_by(wire, 3) == []


def test_after_an_interruption_all_is_sent_again_at_once_even_if_the_network_is_faster_now() -> None:
    wire = Wire(2)
    wire.delay = 0.2
    for body in numbered(20):
        wire.publish(0, [1], body)
        wire.run(0.5)
    wire.cut = {(wire.ids[0], wire.ids[1])}
    wire.publish(0, [1], b"missed", frames=100)
    wire.run(5)
    wire.cut, wire.delay = set(), 0.0001
    wire.run(1.5)  # the wait for the next probe, and no more
    assert heard_by(wire, 1) == numbered(20) + [b"missed"] * 100


def test_an_acknowledgement_rides_on_data_going_back() -> None:
    wire = Wire(2)
    for _ in range(20):
        wire.publish(0, [1], b"ping")
        wire.run(0.001)
        wire.publish(1, [0], b"pong")
        wire.run(0.001)
    wire.run(1)
    second = wire.transports[wire.ids[1]].statistics
    assert second["acknowledgements carried by data"] >= 19
    assert second["acknowledgements sent"] <= 1
    assert wire.backlog == 0


def test_a_receiver_that_goes_away_holds_up_nobody() -> None:
    wire = Wire(3)
    wire.cut = {(wire.ids[0], wire.ids[2])}
    for body in numbered(5):
        wire.publish(0, [1, 2], body)
        wire.run(0.01)
    assert wire.backlog
    wire.remove(wire.ids[0], wire.ids[2], "expired")
    wire.publish(0, [1], b"after", after=(((wire.ids[1], wire.ids[2]), NORMAL),))
    wire.run(1)
    assert heard_by(wire, 1) == [*numbered(5), b"after"]
    assert wire.backlog == 0
    lost = [item for item in wire.news[wire.ids[0]] if isinstance(item, Undelivered)]
    assert [(item.peer, item.count) for item in lost] == [(wire.ids[2], 5)]


def test_order_is_kept_when_the_set_of_receivers_changes() -> None:
    wire = Wire(3, seed=3, loss=0.3)
    sets = [[1], [1, 2], [1], [1, 2], [2, 1], [1]]
    before: tuple[Flow, ...] = ()
    for number, destinations in enumerate(sets):
        wire.publish(0, destinations, b"%d" % number, after=before)
        before = ((tuple(sorted(wire.ids[n] for n in destinations)), NORMAL),)
    wire.run(30)
    assert heard_by(wire, 1) == numbered(6)
    assert heard_by(wire, 2) == [b"1", b"3", b"4"]


@pytest.mark.parametrize("receivers", [[1], [1, 2]])
def test_what_is_urgent_does_not_wait_behind_bulk(receivers: list[int]) -> None:
    wire = Wire(3)
    for body in numbered(20):
        wire.publish(0, receivers, body, frames=1000, priority=BULK)
    wire.publish(0, receivers, b"now", priority=URGENT)
    wire.run(0.002)
    assert b"now" in heard_by(wire, 1)
    assert len(heard_by(wire, 1)) < 100
    wire.run(60)
    assert [body for body in heard_by(wire, 1) if body != b"now"] == [
        body for body in numbered(20) for _ in range(1000)
    ]
    assert wire.backlog == 0


def test_a_turn_sends_what_is_urgent_first() -> None:
    wire = Wire(2)
    peers = (wire.ids[1],)
    classes = NORMAL, BULK, URGENT, LARGE, HIGH
    wire.send(wire.ids[0], *[Outbound(peers, [b"%d" % number], priority=number) for number in classes])
    assert [item.bodies for _, _, item in wire.sent] == [[b"%d" % number] for number in sorted(classes)]


@pytest.mark.parametrize("first", [BULK, URGENT])
def test_order_is_kept_when_the_class_changes(first: int) -> None:
    wire = Wire(2, seed=3, loss=0.3)
    flows = [((wire.ids[1],), priority) for priority in (first, NORMAL, first, BULK, URGENT)]
    for number, (peers, priority) in enumerate(flows):
        after = (flows[number - 1],) if number else ()
        wire.send(wire.ids[0], Outbound(peers, [b"%d" % number] * 10, after=after, priority=priority))
    wire.run(30)
    assert heard_by(wire, 1) == [b"%d" % number for number in range(5) for _ in range(10)]


def test_a_peer_that_expired_wrongly_goes_on_without_a_duplicate() -> None:
    wire = Wire(2)
    for body in numbered(3):
        wire.publish(0, [1], body)
    wire.run(1)
    wire.remove(wire.ids[1], wire.ids[0], "expired")
    wire.tell(wire.ids[1], PeerAdded(wire.ids[0], 1, "a", ("10.0.0.1", 1)))
    wire.publish(0, [1], b"more")
    wire.run(1)
    assert heard_by(wire, 1) == [*numbered(3), b"more"]


def test_a_receiver_lost_and_found_does_not_overhear_what_it_was_taken_off_from() -> None:
    wire = Wire(4)
    wire.publish(0, [1, 2, 3], b"for all")
    wire.run(1)
    wire.cut = {(wire.ids[0], id) for id in wire.ids}
    wire.publish(0, [1, 2, 3], b"while it is away")
    wire.remove(wire.ids[0], wire.ids[1], "expired")
    wire.tell(wire.ids[0], PeerAdded(wire.ids[1], 1, "b", ("10.0.0.1", 1)))
    wire.cut = {(wire.ids[0], wire.ids[2])}
    wire.publish(0, [1], b"new")
    wire.run(1)
    wire.cut = set()
    wire.run(5)
    assert heard_by(wire, 1) == [b"for all", b"new"]
    assert heard_by(wire, 2) == heard_by(wire, 3) == [b"for all", b"while it is away"]
    assert wire.backlog == 0


def test_a_restarted_receiver_is_not_invited_to_what_its_former_life_was_to_hear() -> None:
    wire = Wire(4)
    wire.cut = {(wire.ids[0], id) for id in wire.ids}
    wire.publish(0, [1, 2, 3], b"for the former life")
    wire.run(1)
    wire.restart(0, 1)
    wire.cut = set()
    wire.run(5)
    assert heard_by(wire, 1) == []
    assert heard_by(wire, 2) == heard_by(wire, 3) == [b"for the former life"]


def test_a_receiver_that_lost_its_state_gets_the_rest_on_a_new_channel() -> None:
    wire = Wire(2)
    for body in numbered(3):
        wire.publish(0, [1], body)
    wire.run(1)
    wire.transports[wire.ids[1]] = Transport(endpoint_id=wire.ids[1])
    wire.tell(wire.ids[1], PeerAdded(wire.ids[0], 1, "a", ("10.0.0.1", 1)))
    wire.publish(0, [1], b"more")
    wire.run(20)
    assert heard_by(wire, 1) == [*numbered(3), b"more"]
    assert wire.backlog == 0


def test_a_receiver_that_stops_accepting_stops_the_sender_within_a_window() -> None:
    wire = Wire(2)
    wire.send(wire.ids[1], Accept(False))
    wire.send(wire.ids[0], *[Outbound((wire.ids[1],), numbered(100)) for _ in range(100)])
    wire.run(5)
    assert len(heard_by(wire, 1)) <= WINDOW
    wire.send(wire.ids[1], Accept(True))
    wire.run(5)
    assert len(heard_by(wire, 1)) == 10_000


def test_best_effort_is_never_resent_and_never_doubled() -> None:
    wire = Wire(2, loss=0.3, duplicate=0.5, jitter=0.01)
    for body in numbered(200):
        wire.publish(0, [1], body, reliable=False)
        wire.run(0.001)
    wire.run(1)
    got = heard_by(wire, 1)
    assert len(got) == len(set(got))
    assert 100 <= len(got) < 200
    assert wire.backlog == 0


def test_a_message_too_old_is_not_sent_at_all() -> None:
    wire = Wire(2)
    wire.send(wire.ids[1], Accept(False))
    wire.send(wire.ids[0], *[Outbound((wire.ids[1],), numbered(100)) for _ in range(50)])
    wire.publish(0, [1], b"soon stale", expires=wire.now + 1)
    wire.publish(0, [1], b"fresh")
    wire.run(2)
    wire.send(wire.ids[1], Accept(True))
    wire.run(5)
    assert b"soon stale" not in heard_by(wire, 1)
    assert heard_by(wire, 1)[-1] == b"fresh"


def test_age_grows_while_a_frame_is_lost_or_waits_behind_a_gap() -> None:
    wire = Wire(2)
    wire.cut = {(wire.ids[0], wire.ids[1])}
    wire.publish(0, [1], b"late")
    wire.run(0.5)
    wire.cut = set()
    wire.publish(0, [1], b"behind")
    wire.run(1)
    late, behind = wire.ages[wire.ids[1]]
    assert 0.4 < late < 1.0
    assert behind < late


def test_more_groups_than_allowed_go_by_unicast() -> None:
    count = 9
    wire = Wire(count)
    wire.cut = {(wire.ids[n], wire.ids[0]) for n in range(1, count)}
    sets = [[a, b, c] for a in range(1, count) for b in range(a + 1, count) for c in range(b + 1, count)]
    assert len(sets) == 56
    sets += [[a, b] for a in range(1, count) for b in range(a + 1, count)]
    for number, destinations in enumerate(sets):
        wire.publish(0, destinations, b"%d" % number)
    assert wire.transports[wire.ids[0]].statistics["messages sent by unicast for want of a group"] == 20
    wire.cut = set()
    wire.run(10)
    for receiver in range(1, count):
        expected = {b"%d" % n for n, destinations in enumerate(sets) if receiver in destinations}
        assert set(heard_by(wire, receiver)) == expected
        assert len(heard_by(wire, receiver)) == len(expected)


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.floats(0, 0.4), st.floats(0, 0.5), st.floats(0, 0.02), st.integers(1, 3))
def test_any_wire_delivers_each_message_once_and_in_order(
    seed: int, loss: float, duplicate: float, jitter: float, receivers: int
) -> None:
    wire = Wire(1 + receivers, seed=seed, loss=loss, duplicate=duplicate, jitter=jitter)
    random = Random(seed)
    for body in numbered(30):
        wire.publish(0, list(range(1, 1 + receivers)), body, frames=random.choice([1, 1, 5, 60]))
        wire.run(random.choice([0, 0.0005, 0.05]))
    wire.run(60)
    assert wire.backlog == 0
    first = heard_by(wire, 1)
    assert sorted(set(first), key=int) == numbered(30)
    assert first == sorted(first, key=int)
    assert all(heard_by(wire, receiver) == first for receiver in range(1, 1 + receivers))


ENTRIES = st.lists(
    st.one_of(
        st.sampled_from(["data", "group", "open", "ack", "best", "", "x"]),
        st.integers(-(2**64), 2**64),
        st.integers(0, 5000),
        st.none(),
        st.lists(st.integers()),
        st.text(max_size=5),
    ),
    max_size=9,
)


@settings(max_examples=300)
@given(ENTRIES, st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.booleans())
def test_nothing_a_peer_sends_raises(entry: list[object], bodies: list[bytes], known: bool) -> None:
    transport = Transport(endpoint_id=endpoint_id(0))
    peer = endpoint_id(1)
    transport.receive(0.0, [PeerAdded(peer, 1, "b", ("10.0.0.1", 1))] if known else [])
    transport.send(0.0, [Outbound((peer,), [b"x"] * 10)])
    transport.receive(0.0, [Inbound(peer, 1, None, {KEY: entry}, bodies)])
    transport.receive(0.5, [])


@pytest.mark.parametrize(
    "entry",
    [
        ["ack", 0, 100, 1, 11],  # beyond what was sent
        ["ack", 0, 2**60, 1, 2],  # a window that is none
        ["data", 0, 0, 1, 99, 0, 7, 0],
        ["data", 0, 0, 0, 0, 0, 7, 2**52],
    ],
)
def test_lies_change_nothing_but_counters(entry: list[object]) -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"x", frames=10)
    wire.tell(wire.ids[0], Inbound(wire.ids[1], 1, None, {KEY: entry}, [b"[]"]))
    wire.run(1)
    assert heard_by(wire, 1) == [b"x"] * 10
    assert wire.backlog == 0


@pytest.mark.parametrize("receivers", [1, 2])
@pytest.mark.parametrize("ahead", [0, 5])
def test_forged_frames_do_not_stop_a_channel(receivers: int, ahead: int) -> None:
    wire = Wire(1 + receivers)
    destinations = list(range(1, 1 + receivers))
    wire.publish(0, destinations, b"first")
    wire.run(1)
    kind = "data" if receivers == 1 else "group"
    forged = Inbound(wire.ids[0], 1, None, {KEY: [kind, 0, 0, 0, 0, 0, 1, 1 + ahead]}, [b"forged"] * 1000)
    wire.tell(wire.ids[1], forged)
    wire.publish(0, destinations, b"second")
    wire.publish(0, destinations, b"third")
    wire.run(30)
    assert wire.backlog == 0
    wire.publish(0, destinations, b"last", frames=2000)
    wire.run(30)
    assert wire.backlog == 0
    assert heard_by(wire, 1)[-1] == b"last"


def test_frames_far_ahead_are_not_kept() -> None:
    wire = Wire(2)
    for start in range(0, 10 * WINDOW, 50):
        entry = ["data", 0, 0, 0, 0, 0, 3, 1 + start]
        wire.tell(wire.ids[0], Inbound(wire.ids[1], 1, None, {KEY: entry}, [b"x"] * 50))
    assert heard_by(wire, 0, source=1) == []
    assert wire.transports[wire.ids[0]].statistics["beyond window"] >= 700
