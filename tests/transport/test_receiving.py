"""What the receiving end keeps: best-effort frames once each, channels in use, and no more bytes than its budget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.contract import Inbound, Outbound, PeerAdded, PeerRemoved, Upward
from glue.transport import Transport
from glue.transport.incoming import BUDGET, RecentFrames
from glue.transport.reception import INCOMING
from glue.transport.wire import KEY, WINDOW
from tests.transport.network import endpoint_id

PEER = endpoint_id(1)
ADDRESS = ("10.0.0.1", 1)


def numbered(start: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def best_effort(sequence: int, count: int) -> Inbound:
    return Inbound(PEER, 1, None, {KEY: ["best", 0, sequence]}, numbered(sequence, count))


def data(channel: int, sequence: int, *bodies: bytes, peer: str = PEER, incarnation: int = 1) -> Inbound:
    return Inbound(peer, incarnation, None, {KEY: ["data", 0, 0, 0, 0, 0, channel, sequence]}, bodies)


def receiver(*peers: str) -> Transport:
    transport = Transport(endpoint_id=endpoint_id(0))
    news: list[Upward] = [PeerAdded(peer, 1, "peer", ADDRESS) for peer in peers or (PEER,)]
    transport.receive(0.0, news)
    return transport


def heard(transport: Transport, *items: Upward, now: float = 1.0) -> list[bytes]:
    up, _ = transport.receive(now, [*items])
    return [body for item in up if isinstance(item, Inbound) for body in item.bodies]


# ------------------------------------------------------------------------------------------------ best effort


class NaiveRecent:
    """The naive twin of `RecentFrames`: a set of what was had, of which what is too old is taken to be had."""

    def __init__(self) -> None:
        self._had: set[int] = set()
        self._top = 0

    def take(self, sequence: int, count: int) -> list[bytes]:
        fresh = []
        for number in range(sequence, sequence + count):
            self._top = max(self._top, number + 1)
            if number not in self._had and number >= self._top - RecentFrames.SPAN:
                fresh.append(number)
            self._had.add(number)
        return [b"%d" % number for number in fresh]


JUMPS = st.one_of(st.integers(0, 40), st.integers(0, 3 * RecentFrames.SPAN), st.integers(0, RecentFrames.LEAP))


@settings(max_examples=100)
@given(st.lists(st.tuples(JUMPS, st.one_of(st.integers(1, 12), st.just(RecentFrames.SPAN + 5))), max_size=20))
def test_best_effort_frames_are_taken_once_and_their_own_numbers_kept(runs: list[tuple[int, int]]) -> None:
    recent, naive = RecentFrames(), NaiveRecent()
    for sequence, count in runs:
        parts = recent.take(best_effort(sequence, count))
        assert [body for part in parts for body in part.bodies] == naive.take(sequence, count)
        assert all(part.bodies[0] == b"%d" % part.header[KEY][-1] for part in parts)


def test_one_forged_number_far_ahead_silences_nobody() -> None:
    recent = RecentFrames()
    taken = []
    for number in range(100):
        taken += [body for part in recent.take(best_effort(number, 1)) for body in part.bodies]
        assert number % 10 or recent.take(best_effort((1 << 53) - 1 - number * RecentFrames.LEAP, 1)) == []
    assert taken == numbered(0, 100)


def test_a_sender_who_talked_to_others_for_long_is_heard_from_its_second_frame_on() -> None:
    recent = RecentFrames()
    assert recent.take(best_effort(0, 1))
    taken = [recent.take(best_effort(5 * RecentFrames.LEAP + number, 1)) for number in range(5)]
    assert [bool(parts) for parts in taken] == [False, True, True, True, True]


def test_who_was_silenced_by_several_forged_numbers_is_heard_again_soon() -> None:
    recent = RecentFrames()
    for sequence in (0, 1 << 50, (1 << 50) + 1):
        recent.take(best_effort(sequence, 1))
    taken = [recent.take(best_effort(number, 1)) for number in range(1, 100)]
    assert sum(map(bool, taken)) >= 99 - RecentFrames.RETURN
    assert all(taken[RecentFrames.RETURN :])


# --------------------------------------------------------------------------------------------------- channels


def test_a_channel_in_use_is_not_forgotten_however_many_others_come() -> None:
    transport = receiver()
    got = []
    for number in range(3 * INCOMING):
        got += heard(transport, data(1, number, b"%d" % number), data(2 + number, 0, b"other"))
    assert [body for body in got if body != b"other"] == numbered(0, 3 * INCOMING)
    assert transport.statistics["channels forgotten"] > INCOMING


def test_groups_of_any_number_are_answered() -> None:
    transport = receiver()
    members = b'["%s"]' % endpoint_id(0).encode()
    for channel in range(2**53 - 3 * INCOMING, 2**53):
        _, (answer,) = transport.receive(1.0, [Inbound(PEER, 1, None, {KEY: ["open", channel]}, [members])])
        assert isinstance(answer, Outbound)
        assert answer.header[KEY][2:] == [WINDOW, channel, 0]


# ----------------------------------------------------------------------------------------------------- budget

LARGE = bytes(1 << 20)
MANY = BUDGET // len(LARGE)


def fill(transport: Transport, peer: str = PEER, incarnation: int = 1) -> None:
    """Frames behind a gap, until the budget is spent."""
    for number in range(MANY):
        heard(transport, data(1, 1 + number, LARGE, peer=peer, incarnation=incarnation))


def refused(transport: Transport) -> int:
    return transport.statistics["frames beyond the budget for gaps"]


def test_frames_behind_a_gap_are_kept_up_to_the_budget_and_what_is_in_order_passes() -> None:
    other = endpoint_id(2)
    transport = receiver(PEER, other)
    fill(transport)
    assert refused(transport) == 0
    assert heard(transport, data(1, 1 + MANY, LARGE), data(1, 5, b"x", peer=other)) == []
    assert refused(transport) == 2
    assert heard(transport, data(1, 0, b"in order", peer=other)) == [b"in order"]
    assert len(heard(transport, data(1, 0, b"the gap"))) == 1 + MANY
    assert heard(transport, data(1, 5, b"x", peer=other)) == []
    assert refused(transport) == 2


def test_tiny_frames_behind_gaps_are_charged_for_what_they_take() -> None:
    transport = receiver()
    sequences = range(1, WINDOW, 2)
    for channel in range(1, 50):
        assert heard(transport, *[data(channel, sequence, b"") for sequence in sequences]) == []
    assert 49 * len(sequences) - refused(transport) < BUDGET // 900


@pytest.mark.parametrize("reason", ["expired", "goodbye", "restarted"])
def test_what_a_peer_left_behind_gaps_is_given_back_when_its_next_life_begins(reason: str) -> None:
    transport = receiver()
    fill(transport)
    assert heard(transport, PeerRemoved(PEER, 1, "peer", reason), PeerAdded(PEER, 2, "peer", ADDRESS)) == []
    fill(transport, incarnation=2)
    assert refused(transport) == 0


def test_what_is_forgotten_of_channels_and_absent_peers_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.transport.layer.ABSENT", 1)
    peers = [endpoint_id(number) for number in range(1, 4)]
    transport, body = receiver(*peers), bytes(BUDGET // INCOMING // 2)
    for channel in range(3 * INCOMING):
        heard(transport, data(channel, 1, body, peer=peers[0]))
    assert transport.statistics["channels forgotten"] == 2 * INCOMING
    heard(transport, *[PeerRemoved(peer, 1, "peer", "expired") for peer in peers[:2]])
    fill(transport, peers[2])
    assert refused(transport) == 0


def test_what_is_kept_behind_a_gap_outlives_that_discovery_lost_the_peer() -> None:
    transport = receiver()
    heard(transport, data(1, 1, b"1", b"2"))
    heard(transport, PeerRemoved(PEER, 1, "peer", "expired"))
    assert heard(transport, PeerAdded(PEER, 1, "peer", ADDRESS), data(1, 0, b"0")) == [b"0", b"1", b"2"]
