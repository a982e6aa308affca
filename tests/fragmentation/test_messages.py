"""Messages of any size arrive whole or not at all, in whatever order and however often their fragments come."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.contract import Inbound, Leave, Outbound, PeerAdded, PeerRemoved
from glue.contract.pieces import Pieces
from glue.errors import MessageTooLargeError
from glue.fragmentation.fastpath import FragmentationFastPath
from tests.fragmentation.frames import FRAME, LIMIT, OTHER, PEER, inbound, layer, received, run, singly

SIZES = [0, 1, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME, 2 * FRAME + 1, 64 * FRAME, 64 * FRAME + 1, 129 * FRAME - 1]


def message(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


@pytest.mark.parametrize("size", SIZES)
def test_a_message_of_any_size_passes(size: int) -> None:
    receiver = layer()
    assert received(receiver, [run(layer(), message(size))]) == [(PEER, message(size))]
    assert math.isinf(receiver.deadline)


@pytest.mark.parametrize("frame", [1280, 8780])
def test_a_message_of_several_megabytes_passes(frame: int) -> None:
    body = message(5_000_001)
    whole = run(layer(8 << 20, frame), body)
    assert len(whole.bodies) == -(-len(body) // frame)
    assert received(layer(8 << 20), [whole]) == [(PEER, body)]


@pytest.mark.parametrize("size", SIZES)
def test_no_frame_is_larger_than_fits_and_all_but_the_last_are_equal(size: int) -> None:
    *equal, last = map(len, run(layer(), message(size)).bodies)
    assert set(equal) <= {FRAME}
    assert last <= FRAME


def test_what_fits_in_a_frame_gets_no_header() -> None:
    assert run(layer(), message(FRAME)).header == {}


@pytest.mark.parametrize("seed", range(5))
def test_fragments_in_any_order_and_doubled_make_one_message(seed: int) -> None:
    pieces = singly(run(layer(), message(3333))) * 2
    Random(seed).shuffle(pieces)
    assert received(layer(), pieces) == [(PEER, message(3333))]


def test_fragments_in_reverse_order_make_a_message() -> None:
    assert received(layer(), singly(run(layer(), message(3333)))[::-1]) == [(PEER, message(3333))]


def test_messages_of_several_peers_at_once_are_kept_apart() -> None:
    senders = {peer: layer() for peer in (PEER, OTHER)}
    pieces, expected = [], []
    for number in range(6):
        for peer, sender in senders.items():
            body = message(1000 + number, number)
            pieces += singly(run(sender, body, peer))
            expected.append((peer, body))
    Random(3).shuffle(pieces)
    assert sorted(received(layer(), pieces)) == sorted(expected)


@pytest.mark.parametrize("lost", [0, 5, 9])
def test_a_message_with_a_fragment_lost_never_arrives_but_all_others_do(lost: int) -> None:
    sender, receiver = layer(), layer()
    pieces = singly(run(sender, message(950)))
    late = pieces.pop(lost)
    assert received(receiver, pieces * 2) == []
    assert received(receiver, [run(sender, message(500))]) == [(PEER, message(500))]
    assert received(receiver, [late]) == [(PEER, message(950))]


def test_a_fragment_that_comes_after_its_message_is_complete_is_counted() -> None:
    receiver = layer()
    whole = run(layer(), message(500))
    received(receiver, [whole])
    assert received(receiver, singly(whole)) == []
    assert receiver.statistics["late fragments"] == 5


@pytest.mark.parametrize(("reliable", "expiry"), [(True, 600.0), (False, 30.0)])
def test_an_incomplete_message_expires_some_time_after_its_last_fragment(reliable: bool, expiry: float) -> None:
    receiver = layer()
    first, second, third = singly(run(layer(), message(300), reliable=reliable))
    received(receiver, [first], now=100.0)
    received(receiver, [third], now=120.0)
    received(receiver, [], now=receiver.deadline)
    assert receiver.statistics["messages expired incomplete"] == 0
    assert receiver.deadline == 120.0 + expiry
    received(receiver, [], now=receiver.deadline)
    assert receiver.statistics["messages expired incomplete"] == 1
    assert math.isinf(receiver.deadline)
    assert received(receiver, [second], now=1000.0) == []


def test_a_reliable_message_survives_an_interruption_of_minutes_in_its_middle() -> None:
    sender, receiver = layer(), layer()
    first, second = singly(run(sender, message(200)))
    doomed, _ = singly(run(sender, message(200), reliable=False))
    received(receiver, [first, doomed], now=0.0)
    received(receiver, [], now=300.0)
    assert receiver.statistics["messages expired incomplete"] == 1
    assert received(receiver, [second], now=599.0) == [(PEER, message(200))]


def test_a_message_under_a_number_used_again_replaces_one_that_was_given_up() -> None:
    receiver = layer()
    received(receiver, singly(run(layer(), message(300)))[:2], now=0.0)
    assert received(receiver, singly(run(layer(), message(300, seed=2))), now=60.0) == [(PEER, message(300, seed=2))]
    assert receiver.statistics["messages given up by their sender"] == 1


def test_each_of_many_incomplete_messages_expires_in_its_time() -> None:
    sender, receiver = layer(), layer()
    for number in range(5):
        received(receiver, singly(run(sender, message(300), reliable=False))[:2], now=float(number))
    expired = []
    while receiver.deadline < math.inf:
        now = receiver.deadline
        received(receiver, [], now=now)
        expired.append((now, receiver.statistics["messages expired incomplete"]))
    assert expired == [(30.0, 1), (31.0, 2), (32.0, 3), (33.0, 4), (34.0, 5)]


def test_a_message_is_as_old_as_its_oldest_fragment() -> None:
    receiver = layer()
    first, second = singly(run(layer(), message(200)))
    first.age, second.age = 2.0, 0.5
    receiver.receive(100.0, [first])
    (whole,), _ = receiver.receive(101.0, [second])
    assert isinstance(whole, Inbound)
    assert whole.age == pytest.approx(3.0)


def test_a_message_over_the_limit_raises_and_one_at_the_limit_passes() -> None:
    sender = layer(limit=1000)
    assert sender.fit(FRAME) == 1000
    with pytest.raises(MessageTooLargeError, match=r"1001 bytes.*1000"):
        sender.send(0.0, [Outbound((PEER,), [bytes(1001)])])
    assert received(layer(limit=1000), [run(sender, bytes(1000))]) == [(PEER, bytes(1000))]


def test_message_numbers_start_again_without_harm() -> None:
    entry = [999_999, FRAME, 2 * FRAME, 0]
    sender, receiver = layer(), layer()
    assert len(received(receiver, [run(sender, message(200))])) == 1
    assert len(received(receiver, [inbound({"fragment": entry}, bytes(FRAME), bytes(FRAME))])) == 1
    assert len(received(receiver, [run(sender, message(200))])) == 1


# ------------------------------------------------------------------------------------------------------ peers


def test_lives_of_a_peer_are_kept_apart() -> None:
    first, second = singly(run(layer(), message(200)))
    second.incarnation = 2
    assert received(layer(), [first, second]) == []


@pytest.mark.parametrize("reason", ["goodbye", "restarted", "evicted"])
def test_what_a_peer_that_is_gone_began_is_dropped(reason: str) -> None:
    receiver = layer()
    first, second = singly(run(layer(), message(200)))
    received(receiver, [first])
    receiver.receive(1.0, [PeerRemoved(PEER, 1, "peer", reason)])
    assert receiver.statistics["messages dropped with their peer"] == 1
    assert received(receiver, [second], now=2.0) == []


def test_a_peer_that_was_lost_and_found_goes_on_in_the_middle_of_a_message() -> None:
    receiver = layer()
    first, second = singly(run(layer(), message(200)))
    received(receiver, [first])
    receiver.receive(1.0, [PeerRemoved(PEER, 1, "peer", "expired")])
    receiver.receive(5.0, [PeerAdded(PEER, 1, "peer", ("10.0.0.1", 1))])
    assert received(receiver, [second], now=6.0) == [(PEER, message(200))]


def test_what_a_lost_peer_began_expires_if_it_never_comes_back() -> None:
    receiver = layer()
    first, second = singly(run(layer(), message(200)))
    received(receiver, [first])
    receiver.receive(1.0, [PeerRemoved(PEER, 1, "peer", "expired")])
    received(receiver, [], now=receiver.deadline)
    assert receiver.statistics["messages expired incomplete"] == 1
    assert math.isinf(receiver.deadline)
    assert received(receiver, [second], now=700.0) == []


def test_news_and_orders_keep_their_place_between_the_data() -> None:
    news = PeerRemoved(OTHER, 1, "other", "goodbye")
    first, second = run(layer(), b"first"), run(layer(), message(200))
    up, _ = layer().receive(0.0, [first, news, second])
    assert [type(item) for item in up] == [Inbound, PeerRemoved, Inbound]
    leave = Leave()
    assert layer().send(0.0, [leave]) == [leave]


# --------------------------------------------------------------------------------------- against a naive twin


def joined(pieces: list[Inbound]) -> list[tuple[str, bytes]]:
    """The naive twin: puts each message down when the last of its fragments has come."""
    parts: dict[tuple[str, int], dict[int, bytes]] = {}
    done, out = set(), []
    for piece in pieces:
        number, size, total, index = piece.header["fragment"]
        key = (piece.peer, number)
        places = parts.setdefault(key, {})
        places.setdefault(index, piece.bodies[0])
        if key not in done and len(places) == -(-total // size):
            done.add(key)
            out.append((piece.peer, b"".join(places[place] for place in sorted(places))))
    return out


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(11, 400), st.sampled_from([PEER, OTHER])), min_size=1, max_size=6),
    st.integers(),
    st.floats(0, 0.2),
    st.floats(0, 0.5),
)
def test_whatever_happens_to_fragments_the_same_messages_arrive_as_by_naive_joining(
    messages: list[tuple[int, str]], seed: int, loss: float, duplicate: float
) -> None:
    random = Random(seed)
    senders = {peer: layer(frame=10) for peer in (PEER, OTHER)}
    pieces = [piece for size, peer in messages for piece in singly(run(senders[peer], message(size), peer))]
    pieces = [piece for piece in pieces if random.random() >= loss]
    pieces += [piece for piece in pieces if random.random() < duplicate]
    if random.random() < 0.8:
        random.shuffle(pieces)
    assert received(layer(frame=10), pieces) == joined(pieces)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=30))
def test_overlapping_runs_of_a_message_make_it_once_they_cover_it(runs: list[tuple[int, int]]) -> None:
    body = message(305)
    whole = run(layer(frame=10), body)
    pieces = singly(whole)
    items = []
    seen: set[int] = set()
    for start, count in runs:
        places = range(start, min(start + count, len(pieces)))
        seen.update(places)
        header = pieces[start].header
        items.append(inbound(header, *[whole.bodies[place] for place in places]))
    expected = [(PEER, body)] if len(seen) == len(pieces) else []
    assert received(layer(frame=10), items) == expected


def test_the_limit_is_what_the_layer_above_is_told() -> None:
    assert layer().fit(1280) == LIMIT


def test_nothing_is_due_after_a_whole_message_when_no_other_is_begun() -> None:
    sender, receiver = layer(), layer()
    for is_alone in (False, True):
        arriving = run(sender, message(300))
        arriving.bodies, arriving.form = Pieces([b"".join(arriving.bodies)], FRAME, 3), b"the form"
        receiver.receive(0.0, [singly(run(layer(), message(300), OTHER))[0], PeerRemoved(OTHER, 1, "other", "goodbye")])
        assert receiver.deadline < math.inf
        path = FragmentationFastPath(receiver)
        assert path.receive_one(1.0, arriving) is arriving if is_alone else received(receiver, [arriving])
        assert math.isinf(receiver.deadline)


def test_a_forged_fragment_under_the_number_of_a_reliable_message_costs_it_nothing() -> None:
    sender, receiver = layer(), layer()
    message = run(sender, bytes(1000))
    number, size, total, _ = message.header["fragment"]
    assert received(receiver, [inbound({"fragment": [number, size, total + size, 0]}, b"x" * size)]) == []
    assert received(receiver, [message]) == [(PEER, bytes(1000))]
