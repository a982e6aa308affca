"""What the receiving end counts and tells of each kind of frame, and which flights a sender keeps."""

from __future__ import annotations

from typing import Any

import orjson

from glue.contract import NORMAL, FrameGap, Inbound, Outbound, PeerAdded, Upward
from glue.transport import Transport
from glue.transport.flight import Flight, Flights
from glue.transport.reception import FARTHEST, INCOMING
from glue.transport.wire import GROUP, KEY, OPEN, PARITY, SKIP
from tests.transport.network import endpoint_id

ME, PEER = endpoint_id(0), endpoint_id(1)


class Receiver:
    """A transport that knows one peer; what it hands up, and what it counts."""

    def __init__(self) -> None:
        self.transport = Transport(endpoint_id=ME)
        self.take(PeerAdded(PEER, 1, "peer", ("10.0.0.1", 1)))

    def take(self, *items: Upward) -> list[Upward]:
        return self.transport.receive(1.0, [*items])[0]

    def entry(self, entry: list[Any], *bodies: bytes) -> list[Upward]:
        return self.take(Inbound(PEER, 1, None, {KEY: entry}, bodies))

    def data(self, channel: int, sequence: int, *bodies: bytes) -> list[Upward]:
        return self.entry(["data", 0, 0, 0, 0, 0, channel, sequence], *bodies)

    def next(self, channel: int) -> int:
        return self.transport.sources[PEER].channels[channel].next

    def count(self, name: str) -> int:
        return self.transport.statistics[name]


def test_frames_of_channels_that_are_not_known_are_counted_one_by_one() -> None:
    one = Receiver()
    group = GROUP.packer("channel", "sequence")(7, 0)
    assert one.entry(group, b"a", b"b", b"c") == []
    assert one.entry(PARITY.pack(age_ms=0, channel=7, first=0, count=1, row=0), bytes(30), bytes(30)) == []
    assert one.entry(SKIP.pack(channel=7, sequence=1), b"") == []
    assert one.count("frames of groups not joined") == 3 + 1
    assert one.count("parity of channels not known") == 2
    for body, joined in (
        (b"{}", False),
        (b"[1]", False),
        (orjson.dumps([PEER]), False),
        (orjson.dumps([ME, PEER]), True),
    ):
        one.entry(OPEN.pack(channel=7), body)
        assert (7 in one.transport.sources[PEER].channels) is joined
    assert one.count("malformed entries") == 2
    (run,) = one.entry(group, b"a", b"b", b"c")
    assert isinstance(run, Inbound)
    assert (one.count("frames received"), one.transport.sources[PEER].channels[7].members) == (3, 2)
    one.entry(OPEN.pack(channel=8), orjson.dumps([PEER]), orjson.dumps([ME]))
    assert [*one.transport.sources[PEER].channels] == [7, 9], "each body is for a channel of its own"


def test_what_the_sender_gave_up_is_told_once_and_a_place_too_far_away_is_refused() -> None:
    one = Receiver()
    one.data(5, 0, b"a")
    assert one.data(5, 3, b"d") == []
    assert one.entry(SKIP.pack(channel=5, sequence=1 + FARTHEST + 1), b"") == []
    assert (one.count("malformed entries"), one.next(5)) == (1, 1)
    gap, run = one.entry(SKIP.pack(channel=5, sequence=3), b"")
    assert isinstance(gap, FrameGap)
    assert isinstance(run, Inbound)
    assert (gap.peer, gap.count, gap.cause, [*run.bodies]) == (PEER, 2, "given up", [b"d"])
    assert one.entry(SKIP.pack(channel=5, sequence=3), b"") == []
    assert (one.count("frames given up by their sender"), one.count("frames received"), one.next(5)) == (2, 2, 4)
    (gap,) = one.entry(SKIP.pack(channel=5, sequence=4 + FARTHEST), b"")
    assert isinstance(gap, FrameGap)
    assert (gap.count, one.next(5)) == (FARTHEST, 4 + FARTHEST)


def test_a_channel_too_many_takes_the_place_of_the_oldest_without_a_gap_else_of_the_oldest() -> None:
    one = Receiver()
    for channel in range(1, INCOMING + 1):
        one.data(channel, 0 if channel == 3 else 2, b"x", b"y")
    channels = one.transport.sources[PEER].channels
    one.data(1000, 2, b"x")
    assert (len(channels), 3 in channels, 1 in channels) == (INCOMING, False, True)
    assert (one.count("channels forgotten"), one.count("frames forgotten with their channel")) == (1, 0)
    one.data(1, 4, b"z")
    one.data(1001, 2, b"x")
    assert (len(channels), 2 in channels, 1 in channels) == (INCOMING, False, True)
    assert (one.count("channels forgotten"), one.count("frames forgotten with their channel")) == (2, 2)


def flights(*sizes: int, begins: bool = True) -> Flights:
    """Flights of two frames each, a second after each other, of so many bytes."""
    found = Flights()
    for place, size in enumerate(sizes):
        item = Outbound((PEER,), [b"x", b"y"], priority=NORMAL)
        found.append(Flight(2 * place, item, 2 * place, float(place), 0.0, size, begins or place % 2 == 0))
    return found


def test_a_sender_keeps_flights_until_all_have_them() -> None:
    one = flights(10, 20, 30)
    assert (one.open_size, one.kept_size, bool(one)) == (60, 0, True)
    one.release(3, 1, "ab")
    assert (one.open_size, one.kept_size, one.messages) == (50, 10, 0)
    one.release(6, 1, "ab")
    assert (one.open_size, one.kept_size, bool(one)) == (0, 60, True)
    one.release(6, 4, "ab")
    assert (one.kept_size, one.messages, [flight.first for flight in one]) == (30, 4, [4])
    one.clear()
    assert (one.kept_size, one.open_size, bool(one)) == (0, 0, False)


def test_flights_are_found_by_frame_and_by_time() -> None:
    one = flights(10, 20, 30, 40)
    one.release(3, 0, "ab")
    assert [one.find(sequence).first for sequence in range(8)] == [0, 0, 2, 2, 4, 4, 6, 6]
    assert [one.sent_since(time, 8) for time in (3.0, 2.5, 2.0, 0.5)] == [8, 6, 6, 2]
    assert [[flight.first for flight in one.since(sequence)] for sequence in (7, 6, 3, 0)] == [
        [],
        [6],
        [4, 6],
        [2, 4, 6],
    ]


def test_what_is_given_up_ends_where_a_message_begins() -> None:
    assert [flights(10, 20, 30, 40).message_after(size) for size in (0, 10, 11, 30, 60, 61, 999)] == [
        0,
        2,
        4,
        4,
        6,
        6,
        6,
    ]
    parts = flights(10, 20, 30, 40, begins=False)
    assert [parts.message_after(size) for size in (0, 1, 30, 31)] == [0, 4, 4, 4]


def test_a_message_that_took_repairs_counts_as_repaired_once_for_each_member() -> None:
    one = Flights()
    for place, messages in enumerate((0, 2)):  # the first part of two, and the last
        one.append(Flight(place, Outbound((PEER,), [b"x"], messages=messages), place, 0.0, 0.0, 1, place == 0))
    one.find(0).repaired = frozenset("a")
    one.find(1).repaired = frozenset("b")
    one.release(1, 1, "abc")
    assert (one.messages, one.repairs) == (0, 0)
    one.release(2, 2, "abc")
    assert (one.messages, one.repairs) == (6, 4)
