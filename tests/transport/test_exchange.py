"""The part of transport in a session: which frames it takes, what it writes, and what a commit makes of them."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import NORMAL, Inbound, Outbound
from glue.transport import Transport
from glue.transport import fastpath as module
from glue.transport.acknowledger import FEW_DIGITS, SHORT
from glue.transport.fastpath import FEW, MOST, OPEN, ROOM, TransportFastPath, UnicastExchange
from glue.transport.incoming import IncomingChannel
from glue.transport.wire import KEY, MAX_HELD_US, WINDOW
from tests.transport.network import Wire


class Session:
    """A transport that has sent one frame to a peer and got one from it, with nothing under way, and its exchange."""

    def __init__(self) -> None:
        wire = Wire(2)
        self.own, self.peer = wire.ids
        wire.publish(1, [0], b"first")
        wire.publish(0, [1], b"first")
        wire.run(1.0)
        self.now = wire.now
        self.layer: Transport = wire.transports[self.own]
        self.fast = TransportFastPath(self.layer)
        self.channel: Any = self.layer.channels[(self.peer,), NORMAL]
        ((self.number, self.incoming),) = self.layer.sources[self.peer].channels.items()
        self.layer.statistics.clear()
        self.one = self.begin()

    def begin(self) -> UnicastExchange:
        exchange = self.tried()
        assert exchange is not None
        return exchange

    def tried(self, incarnation: int = 1) -> UnicastExchange | None:
        partner: Any = SimpleNamespace(id=self.peer, incarnation=incarnation, address=("10.0.0.1", 1))
        return self.fast.exchange(partner)

    def take(self, sequence: int, ack: int = 0, ack_channel: int | None = None, held: int = 0) -> bool:
        """Take a frame; it acknowledges what lies below `ack`, if that is given."""
        if ack_channel is None:
            ack_channel = self.channel.number if ack else 0
        numbers = ack_channel, ack, held, self.number, sequence
        return self.one.take(self.now, tuple([b"%d" % number for number in numbers]))

    def counted(self) -> dict[str, int]:
        return {name: count for name, count in self.layer.statistics.items() if count}


def test_bounds_of_a_session() -> None:
    assert (MOST, OPEN, ROOM, FEW, SHORT, FEW_DIGITS) == (1024, 256, 256, 4, 10**8, 10**5)


def test_frames_are_written_as_plain_ones_or_with_an_acknowledgement_of_what_came() -> None:
    session = Session()
    one, number = session.one, b"%d" % session.channel.number
    assert one.write(session.now, b"x") == b'"transport":["data",0,0,0,0,0,%b,1]' % number
    assert session.take(1, ack=1)
    session.now += 2**-12
    answer = one.write(session.now, b"x")
    assert answer == b'"transport":["data",0,0,%d,2,244,%b,2]' % (session.number, number)
    assert one.write(session.now, b"x") == b'"transport":["data",0,0,0,0,0,%b,3]' % number, "it is owed no more"
    assert session.take(2)
    session.now += 10.0
    assert b",%d,%b,4]" % (MAX_HELD_US, number) in one.write(session.now, b"x")


@pytest.mark.parametrize(
    ("sequence", "ack", "is_taken"),
    [(1, 0, True), (0, 0, False), (2, 0, False), (1, 1, True), (1, 3, True), (1, 4, False)],
)
def test_only_the_next_frame_is_taken_and_only_what_was_sent_is_acknowledged(
    sequence: int, ack: int, is_taken: bool
) -> None:
    session = Session()
    for _ in range(2):
        session.one.write(session.now, b"x")
    assert session.take(sequence, ack) is is_taken


def test_frames_of_other_channels_and_acknowledgements_of_others_or_of_the_past_are_not_taken() -> None:
    session = Session()
    for _ in range(2):
        session.one.write(session.now, b"x")
    assert not session.take(1, 1, ack_channel=session.channel.number + 1)
    number, session.number = session.number, 99
    assert not session.take(1)
    session.number = number
    assert session.take(1, ack=3)
    assert not session.take(2, ack=2)
    session.number = 99
    assert not session.take(2, ack=3)


def test_few_frames_are_taken_without_an_answer_and_none_beyond_what_was_promised() -> None:
    session = Session()
    assert [session.take(sequence) for sequence in range(1, FEW + 2)] == [True] * FEW + [False]
    session.one.write(session.now, b"x")
    assert session.take(FEW + 1)
    session = Session()
    session.incoming.promised = 3
    assert [session.take(sequence) for sequence in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize(("window", "room"), [(2.9, 2), (OPEN + 5.0, OPEN), (float(OPEN), OPEN)])
def test_it_is_full_when_the_window_is_and_an_acknowledgement_makes_room(window: float, room: int) -> None:
    session = Session()
    session.channel.attached[0].window.frames = window
    one = session.one = session.begin()
    for number in range(room):
        assert not one.is_full, number
        one.write(session.now, b"x")
    is_full = [one.is_full]
    assert session.take(1, ack=2)
    is_full.append(one.is_full)
    one.write(session.now, b"x")
    assert [*is_full, one.is_full] == [True, False, True]


def test_a_full_window_at_the_beginning_leaves_no_room() -> None:
    session = Session()
    session.channel.attached[0].window.frames = 0.5
    assert session.begin().is_full


def test_at_most_so_many_frames_leave_before_a_commit_and_no_more_than_the_peer_takes() -> None:
    session = Session()
    one = session.one
    for number in range(MOST):
        assert not one.is_full
        one.write(session.now, b"x")
        assert session.take(number + 1, ack=number + 2)
    assert one.is_full
    session = Session()
    session.channel.attached[0].limit = 3
    one = session.begin()
    one.write(session.now, b"x")
    one.write(session.now, b"x")
    assert one.is_full


def test_it_waits_since_the_oldest_frame_that_is_owed_or_unanswered() -> None:
    session = Session()
    one = session.one
    assert one.waits_since == inf
    one.write(101.0, b"x")
    one.write(102.0, b"x")
    assert one.waits_since == 101.0
    session.now = 103.0
    assert session.take(1, ack=2)
    assert one.waits_since == 102.0
    session.now = 104.0
    assert session.take(2, ack=3)
    assert one.waits_since == 103.0, "an acknowledgement is owed since the first of them"
    one.write(105.0, b"x")
    assert one.waits_since == 105.0
    assert session.take(3, ack=4)
    for number in range(4, MOST - ROOM + 1):
        one.write(106.0, b"x")
        assert session.take(number, ack=number + 1)
    assert one.waits_since > -inf
    one.write(106.0, b"x")
    assert one.waits_since == -inf, "there is hardly any room left"


def test_frames_before_the_session_that_are_not_acknowledged_wait_for_longer() -> None:
    session = Session()
    session.channel.next += 1
    assert session.begin().waits_since == -inf


def test_a_commit_counts_and_records_what_passed() -> None:
    session = Session()
    one = session.one
    for at, body in ((101.0, b"one"), (102.0, b"three"), (103.0, b"x")):
        one.write(at, body)
    session.now = 104.0
    assert session.take(1, ack=2, held=7)
    session.now = 105.0
    assert session.take(2, ack=3, held=9)
    assert one.commit() == (2, 3)
    assert session.counted() == {"acknowledgements received": 1, "frames received": 2, "frames sent": 3}
    assert (session.incoming.next, session.incoming.newest_at) == (3, 105.0)
    flights = [
        (flight.first, flight.stop, flight.item.messages, flight.size, flight.sent_at, flight.since)
        for flight in session.channel.flights
    ]
    assert flights == [(1, 3, 2, 8, 102.0, 101.0), (3, 4, 1, 1, 103.0, 103.0)]
    assert session.fast.carried == [(105.0, session.peer, session.channel.number, 3, 9)]
    assert session.channel.attached[0].next == 2, "the earlier news, so that the window counts as used"
    assert session.layer.busy == {session.channel.number: session.channel}
    assert session.fast.acknowledger.owing(session.peer) is session.incoming
    assert session.incoming.unacknowledged == 2


def test_what_was_carried_is_owed_no_more() -> None:
    session = Session()
    assert session.take(1)
    session.one.write(session.now, b"x")
    assert session.one.commit() == (1, 1)
    assert session.counted() == {"acknowledgements carried by data": 1, "frames received": 1, "frames sent": 1}
    assert session.fast.acknowledger.owing(session.peer) is None
    assert session.incoming.promised == 2 + WINDOW
    session.layer.statistics.clear()
    session.one = session.begin()
    assert session.one.commit() == (0, 0)
    assert session.counted() == {}


def test_frames_of_which_none_is_acknowledged_are_flights_of_their_own() -> None:
    session = Session()
    for at in (101.0, 102.0):
        session.one.write(at, b"x")
    assert session.one.commit() == (0, 2)
    assert [(flight.first, flight.stop) for flight in session.channel.flights] == [(1, 2), (2, 3)]
    assert (session.fast.carried, session.fast.acknowledger.owing(session.peer)) == ([], None)


def test_what_was_owed_before_the_session_is_carried_by_its_first_frame() -> None:
    session = Session()
    session.incoming.advance(session.now, 1, 2)
    session.fast.acknowledger.taken(session.now, session.incoming, 2, False)
    one = session.begin()
    assert one.write(session.now, b"x").startswith(b'"transport":["data",0,0,%d,3,' % session.number)
    assert one.commit() == (0, 1)
    assert session.counted() == {"acknowledgements carried by data": 1, "frames sent": 1}


def spoiled(session: Session, what: str) -> None:
    """Let something stand against a session."""
    channel, member, incoming = session.channel, session.channel.attached[0], session.incoming
    match what:
        case "incarnation" | "nothing":
            pass
        case "accepting":
            session.fast.acknowledger.accepting = False
        case "no channel":
            session.layer.channels.clear()
        case "group":
            channel.kind = "group"
        case "loss":
            member.lost.add(1)
        case "waits for some":
            channel.waits_for_some = True
        case "paused":
            channel.paused = "peer asleep"
        case "receipts":
            channel.awaited.append(object())
        case "long sequences":
            channel.next = SHORT - MOST
        case "long channel":
            channel.number = FEW_DIGITS
        case "two members":
            channel.attached.append(member)
        case "others wait":
            session.layer.busy[7] = SimpleNamespace(waiting=True)  # type: ignore[assignment]
        case "owes another":
            other = IncomingChannel(session.peer, 9, incoming._budget)
            session.fast.acknowledger.owe(session.now, other)
            session.fast.acknowledger.taken(session.now, other, 1, False)


@pytest.mark.parametrize(
    "what",
    ["nothing", "incarnation", "accepting", "no channel", "group", "loss", "waits for some", "paused", "receipts",
     "long sequences", "long channel", "two members", "others wait", "owes another"],
)  # fmt: skip
def test_a_session_begins_only_in_the_simple_case(what: str) -> None:
    session = Session()
    spoiled(session, what)
    begun = session.tried(2 if what == "incarnation" else 1)
    if what == "owes another":
        assert begun is None or not begun.listen(session.incoming)
    else:
        assert (begun is not None) is (what == "nothing")


@pytest.mark.parametrize(
    ("name", "value", "is_received"),
    [
        ("nothing", 0, True), ("recovered", 1, False), ("decoder", object(), False), ("channel", FEW_DIGITS, False),
        ("channel", FEW_DIGITS - 1, True), ("promised", SHORT, False), ("promised", SHORT - 1, True),
        ("unacknowledged", 1, False), ("ranges", None, False),
    ],
)  # fmt: skip
def test_a_channel_is_received_only_if_frames_can_carry_all_that_is_to_be_told(
    name: str, value: Any, is_received: bool
) -> None:
    session = Session()
    if name == "ranges":
        entry = ["data", 0, 0, 0, 0, 0, session.number, 5]
        session.incoming.take(session.now, Inbound(session.peer, 1, None, {KEY: entry}, [b"x"]), 5)
    elif name != "nothing":
        setattr(session.incoming, name, value)
    assert session.one.listen(session.incoming) is is_received
    assert not session.one.listen(None)


@pytest.mark.parametrize(("beyond", "begins"), [(-1, True), (0, False)])
def test_a_session_ends_before_sequences_or_channels_grow_too_long(beyond: int, begins: bool) -> None:
    for name, limit in (("next", SHORT - MOST), ("number", FEW_DIGITS)):
        session = Session()
        setattr(session.channel, name, limit + beyond)
        assert module._is_plain(session.channel) is begins


def test_others_are_due_when_they_are_but_not_the_channels_of_the_session() -> None:
    session = Session()
    due = session.fast.due([session.one])
    assert due == session.fast.acknowledger.deadline
    session.layer.busy.update({1: session.channel, 2: SimpleNamespace(deadline=5.0)})  # type: ignore[dict-item]
    session.channel._deadline = 3.0
    assert session.fast.due([session.one]) == 5.0
    assert session.fast.due([]) == 3.0


@pytest.mark.parametrize(("late", "leaves"), [(0.0, True), (1e-6, False)])
def test_a_lone_message_leaves_at_its_last_moment(late: float, leaves: bool) -> None:
    session = Session()
    item = Outbound((session.peer,), [b"x"], expires=session.now)
    assert (session.fast.send_one(session.now + late, item) is not None) is leaves
    assert session.counted().get("frames sent", 0) == leaves
    assert (session.channel.number in session.layer.busy) is leaves


def test_a_lone_message_carries_what_is_owed_and_a_lone_frame_tells_its_age() -> None:
    session = Session()
    entry = ["data", 0, 250, 0, 0, 0, session.number, 1]
    session.layer.kinds[b"form"] = "data"
    frame = Inbound(session.peer, 1, None, {KEY: entry}, [b"x"], form=b"form")
    assert session.fast.receive_one(session.now, frame) is frame
    assert frame.age == 0.25
    sent = session.fast.send_one(session.now, Outbound((session.peer,), [b"x"]))
    assert sent is not None
    assert sent.header[KEY][3:5] == [session.number, 2]
