"""What is counted and remembered of messages and fragments, what goes up of them, and what the fast path leaves."""

from __future__ import annotations

import math
from typing import Any

import pytest

from glue.contract import CONSUMED, Inbound, Leave, Outbound, PeerRemoved, advanced
from glue.contract.pieces import Pieces
from glue.contract.train_buffer import TrainBuffer
from glue.fragmentation import Fragmentation
from glue.fragmentation.assembly import FEW, FRAGMENT_COST, MESSAGE_COST, Assembly, Shelf
from glue.fragmentation.fastpath import FragmentationFastPath
from glue.fragmentation.layer import FORMS
from tests.fragmentation.frames import FRAME, LIMIT, OTHER, PEER, inbound, layer, received, run, singly

FULL = bytes(FRAME)


def sent(sender: Fragmentation, size: int, reliable: bool = True) -> list[Any]:
    """The entry of a message of this size, and the number of its frames."""
    (item,) = sender.send(0.0, [Outbound(("c" * 16,), [bytes(size)], reliable=reliable)])
    assert isinstance(item, Outbound)
    return [item.header.get("fragment"), len(item.bodies)]


def test_numbers_of_messages_are_even_if_reliable_and_start_again_after_a_million() -> None:
    sender = layer()
    assert [sent(sender, 101), sent(sender, 300, False), sent(sender, 100), sent(sender, 250)] == [
        [[0, 100, 101, 0], 2], [[3, 100, 300, 0], 3], [None, 1], [[4, 100, 250, 0], 3],
    ]  # fmt: skip
    assert sender.statistics == {"messages fragmented": 3, "fragments sent": 8}
    sender._messages = 999_998
    assert [sent(sender, 101, False)[0][0], sent(sender, 101)[0][0]] == [999_999, 0]


def test_a_message_goes_up_as_it_came() -> None:
    sender, receiver = layer(), layer()
    first, last = singly(run(sender, b"x" * 150, reliable=False))
    for part in (first, last):
        part.reliable, part.address, part.incarnation = False, ("host", 7), 5
    last.header["more"] = [1]
    (whole,) = receiver.receive(1.0, [first, last])[0]
    assert isinstance(whole, Inbound)
    assert (whole.peer, whole.incarnation, whole.address, whole.reliable) == (PEER, 5, ("host", 7), False)
    assert (whole.header, [*whole.bodies]) == (last.header, [b"x" * 150])
    assert receiver.statistics == {"fragments received": 2, "messages reassembled": 1}
    assert (receiver.held, receiver.deadline) == (0, math.inf)


def test_duplicates_and_late_fragments_are_counted_one_by_one() -> None:
    receiver = layer()
    pieces = singly(run(layer(), bytes(450)))
    received(receiver, [pieces[1], pieces[3], pieces[1], pieces[3]])
    assert receiver.statistics == {"fragments received": 2, "duplicate fragments": 2}
    assert receiver.held == receiver.shelves[PEER].held == MESSAGE_COST + 2 * (FRAME + FRAGMENT_COST)
    whole = run(layer(), bytes(450))
    assert len(received(receiver, [whole])) == 1
    assert receiver.statistics == {"fragments received": 5, "duplicate fragments": 4, "messages reassembled": 1}
    received(receiver, [whole, pieces[0]])
    assert receiver.statistics["late fragments"] == 6
    assert receiver.held == receiver.shelves[PEER].held == 0


@pytest.mark.parametrize(("count", "kind"), [
    (1, bytes), (2, memoryview), (FEW - 1, memoryview), (FEW, memoryview), (FEW + 1, bytes)
])  # fmt: skip
def test_a_message_in_few_parts_stays_in_them(count: int, kind: type) -> None:
    """As the parts of what serialization handed up, of which each is several bodies."""
    receiver = layer()
    body = bytes(range(200)) * count
    entry = [0, FRAME, len(body), 0]
    up = []
    for place in range(count):
        part = inbound(advanced({"fragment": entry}, 2 * place), b"")
        part.bodies = Pieces([body[200 * place : 200 * place + 200]], FRAME, 2)
        up += receiver.receive(0.0, [part])[0]
    (whole,) = up
    assert isinstance(whole, Inbound)
    assert isinstance(whole.bodies, Pieces)
    parts = whole.bodies.parts
    assert ([type(part) for part in parts], b"".join(parts)) == ([kind] * (count if kind is memoryview else 1), body)
    assert len(whole.bodies) == 1


def test_a_number_is_used_again_once_its_first_message_is_given_up_or_forged() -> None:
    def again(number: int, now: float, total: int, reliable: bool, index: int = 0) -> dict[str, int]:
        receiver = layer()
        received(receiver, [inbound({"fragment": [number, FRAME, 300, 0]}, FULL)], 100.0)
        other = inbound({"fragment": [number, FRAME, total, index]}, FULL)
        other.reliable = reliable
        received(receiver, [other], now)
        receiver.statistics.pop("fragments received")
        return receiver.statistics

    given_up, odd, double = (
        {cause: 1}
        for cause in (
            "messages given up by their sender",
            "fragments at odds with their message",
            "duplicate fragments",
        )
    )
    assert again(0, 100.0, 400, True) == again(1, 130.0, 300, False) == again(1, 130.0, 400, False) == given_up
    assert again(1, 129.9, 400, False) == again(0, 100.0, 400, True, 1) == again(0, 130.0, 400, False, 1) == odd
    assert again(0, 129.9, 300, True) == again(1, 129.9, 300, False) == double


def test_the_oldest_message_of_a_peer_is_the_one_without_a_fragment_for_longest() -> None:
    shelf = Shelf(1)
    for now, message in enumerate((0, 2, 1, 3)):
        shelf.row(message)[message] = Assembly(FRAME, 300)
        shelf.put(now, message, 0, [FULL], 0.0)
    oldest = [shelf.oldest()]
    for now, message in enumerate((0, 2, 1, 3), 4):
        shelf.put(now, message, 1, [FULL], 0.0)
        oldest.append(shelf.oldest())
    assert oldest == [0, 2, 1, 3, 0]


def test_of_all_peers_that_with_most_gives_up_its_oldest_message_and_no_byte_too_early() -> None:
    cost = MESSAGE_COST + FRAME + FRAGMENT_COST
    receiver = layer(limit=3 * cost)  # six of a peer, twelve of all
    names = [f"{number:016x}" for number in range(4)]
    counts = (6, 3, 2, 1)

    def begin(number: int, name: str, now: float) -> None:
        received(receiver, [inbound({"fragment": [number, FRAME, 300, 0]}, FULL, peer=name)], now)

    for name, count in zip(names, counts, strict=True):
        for number in range(count):
            begin(number ^ 1, name, float(number))  # 1 comes before 0
    assert receiver.statistics == {"fragments received": 12}
    begin(9, names[3], 20.0)
    assert [len(receiver.shelves[name]) for name in names] == [5, 3, 2, 2]
    assert receiver.statistics["messages dropped over budget"] == 1
    assert 1 not in receiver.shelves[names[0]].row(1)
    begin(8, names[0], 20.0)
    assert [len(receiver.shelves[name]) for name in names] == [5, 3, 2, 2]
    assert 0 not in receiver.shelves[names[0]].row(0)


def test_so_many_forms_of_headers_are_known() -> None:
    receiver = layer()

    def arrives(number: int) -> None:
        part = inbound({"fragment": [0, FRAME, LIMIT, 0]}, FULL)
        part.form = b"%d" % number
        receiver.receive(0.0, [part])

    for number in range(FORMS):
        arrives(number)
    arrives(0)
    assert len(receiver.known) == FORMS == 4096
    arrives(FORMS)
    assert receiver.known == {b"4096"}
    path = FragmentationFastPath(receiver)
    for form, header, expected in (
        (b"4096", {"fragment": [0, FRAME, 300, 2]}, True), (b"0", {"fragment": [0, FRAME, 300, 2]}, False),
        (b"4096", {}, False),
    ):  # fmt: skip
        coming = inbound(header, FULL)
        coming.form = form
        assert path.awaits(coming) is expected


def test_nothing_is_left_of_a_peer_that_was_lost_once_its_messages_expired() -> None:
    receiver = layer()
    first, second, _ = singly(run(layer(), bytes(300), reliable=False))
    received(receiver, [first], 10.0)
    gone = PeerRemoved(PEER, 1, "a", "expired")
    received(receiver, [gone], 11.0)  # type: ignore[list-item]
    received(receiver, [second], 12.0)  # it is back
    received(receiver, [], 42.0)
    assert (list(receiver.shelves), receiver.deadline) == ([PEER], math.inf)
    received(receiver, [gone], 43.0)  # type: ignore[list-item]
    assert list(receiver.shelves) == []
    received(receiver, [inbound({"fragment": [1, FRAME, 300, 0]}, FULL, peer=OTHER)], 50.0)
    received(receiver, [PeerRemoved(OTHER, 1, "b", "expired")], 51.0)  # type: ignore[list-item]
    received(receiver, [], 79.9)
    assert list(receiver.shelves) == [OTHER]
    received(receiver, [], 80.0)
    assert (list(receiver.shelves), receiver.held) == ([], 0)


# -------------------------------------------------------------------------------------------------------- the fast path


def whole(number: int = 0, count: int = 3, peer: str = PEER) -> Inbound:
    """A whole message in one run, as serialization hands it up, of a form that is known."""
    coming = inbound({"fragment": [number, FRAME, count * FRAME - 50, 0]}, b"", peer=peer)
    coming.bodies, coming.form = Pieces([bytes(count * FRAME - 50)], FRAME, count), b"form"
    return coming


def known(limit: int = LIMIT) -> Fragmentation:
    """A layer that knows the form and the peer, of which message 8 is begun and 6 is over."""
    receiver = layer(limit)
    receiver.receive(0.0, [whole(6)])
    receiver.receive(0.0, [inbound({"fragment": [8, FRAME, 250, 0]}, FULL)])
    receiver.statistics.clear()
    return receiver


def changed(**fields: Any) -> Inbound:
    item = whole()
    for name, value in fields.items():
        setattr(item, name, value)
    return item


@pytest.mark.parametrize(("item", "is_whole"), [
    (whole(), True), (whole(8), False), (whole(6), False), (changed(form=b"other"), False),
    (changed(incarnation=2), False), (whole(peer=OTHER), False),
    (changed(header={"fragment": [0, FRAME, 250, 1]}), False), (changed(header={"fragment": [0, 99, 250, 0]}), False),
    (changed(header={"fragment": [0, FRAME, 251, 0]}), False), (changed(bodies=[FULL, FULL, bytes(50)]), False),
    (changed(bodies=Pieces([bytes(250)], FRAME, 2)), False), (whole(count=4), True), (whole(count=5), False),
])  # fmt: skip
def test_a_message_that_is_whole_at_a_glance_passes_as_it_is(item: Inbound, is_whole: bool) -> None:
    receiver = known(limit=4 * FRAME - 50)
    count = len(item.bodies)
    item = Inbound(item.peer, item.incarnation, item.address, dict(item.header), item.bodies, 0.0, True, item.form)
    receiver.shelves[PEER].absent = True
    assert FragmentationFastPath(receiver)._is_whole(1.0, item) is is_whole
    assert receiver.shelves[PEER].absent is not is_whole
    if is_whole:
        assert receiver.statistics == {"fragments received": count, "messages reassembled": 1}
        assert ([*map(len, item.bodies)], receiver.shelves[PEER].finished(0)) == ([FRAME * count - 50], True)
    else:
        assert (receiver.statistics, len(item.bodies)) == ({}, count)


def test_the_fast_path_leaves_what_is_due_and_keeps_what_is_not_whole() -> None:
    receiver = known()
    path = FragmentationFastPath(receiver)
    plain = inbound({"other": [1]}, FULL)
    gone = PeerRemoved(PEER, 1, "a", "goodbye")
    assert (path.receive_one(1.0, plain), path.receive_one(1.0, gone)) == (plain, None)
    passes = whole(4)
    assert path.receive_one(1.0, passes) is passes
    assert path.receive_one(599.9, inbound({"fragment": [2, FRAME, 250, 0]}, FULL)) is CONSUMED
    assert path.receive_one(600.0, whole()) is None, "a message has waited in vain"
    completes = path.receive_one(1.0, inbound({"fragment": [8, FRAME, 250, 1]}, FULL, bytes(50)))
    assert isinstance(completes, Inbound)
    assert [*completes.bodies] == [bytes(250)]
    assert (path.largest_body(), path.session_part()) == (FRAME, path)


def test_a_whole_message_changes_no_time_that_is_earlier_than_its_own() -> None:
    receiver = known()  # looked at in 600 s, where a best-effort message would be looked at in 30 s
    path = FragmentationFastPath(receiver)
    assert [path._is_whole(now, whole(1)) for now in (569.9, 570.0)] == [False, True]
    empty = layer()
    empty.receive(0.0, [whole(6)])
    empty.check_at = 5.0
    assert FragmentationFastPath(empty)._is_whole(1.0, whole())
    assert empty.deadline == math.inf


def test_the_fast_path_cuts_what_is_too_large_for_a_frame() -> None:
    sender = layer()
    path = FragmentationFastPath(sender)
    fits, larger = (Outbound(("c" * 16,), [bytes(size)]) for size in (FRAME, FRAME + 1))
    assert (path.send_one(0.0, fits), path.send_one(0.0, larger), path.send_one(0.0, Leave())) == (fits, larger, None)
    assert (len(fits.bodies), fits.header, len(larger.bodies)) == (1, {}, 2)
    assert sender.statistics == {"messages fragmented": 1, "fragments sent": 2}


def test_fragments_are_kept_though_the_memory_in_which_they_arrived_is_used_again() -> None:
    buffer, receiver, count = TrainBuffer(), layer(), 40
    path = FragmentationFastPath(receiver)
    size = 1010 * count
    for half, value in enumerate((b"x", b"y")):
        buffer.memory[:size] = value * size
        part = inbound({"fragment": [2, 1000, 2000 * count, half * count]}, b"")
        part.bodies = buffer.rests(size, 1010, 10)
        up = path.receive_one(0.0, part)
    buffer.memory[:size] = bytes(size)
    assert isinstance(up, Inbound)
    assert b"".join(up.bodies) == b"x" * 1000 * count + b"y" * 1000 * count
