"""Blocks: trains sealed by one call, where the receiver grants it; see `glue.security.blocks`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from glue import Message
from glue.capture.opened import BEGUN, FrameOpener, Opener
from glue.contract import Train
from glue.contract.sealed import FORMATS
from glue.endpoint.core import id_of
from glue.fastpath.stack import FastStack
from glue.security import new_key
from glue.security.blocks import BLOCKS
from glue.security.granting import PATIENCE, TRIAL
from glue.security.runs import OVERHEAD, PREFIX_SIZE
from glue.simulation import Conditions, World
from glue.stack import SECURITY
from tests.security.pair import KEY, OTHER_KEY
from tests.security.streams import COUNT, NUMBERS, SIZE, Stream
from tests.security.test_identities import HALL, THIEF, layer, meet


def test_a_stream_goes_over_to_blocks_and_all_arrives(stream: Stream) -> None:
    for _ in range(1000):
        plain, sealed = stream.block()
        assert len(sealed) == len(plain) + COUNT * OVERHEAD
        assert stream.arrives(sealed) == plain
    assert stream.kitchen.layer.statistics["datagrams sealed in blocks"] == 1000 * COUNT


def test_blocks_that_the_short_way_grants_are_told_with_what_leaves_next() -> None:
    stream = Stream()
    told = 0
    for _ in range(PATIENCE):
        sealed = stream.sealed(stream.plain())
        assert sealed[0] not in BLOCKS
        train = Train(stream.kitchen.address, sealed, SIZE + OVERHEAD)
        assert stream.hall.layer.open_train(0.0, train) is not None
        down = stream.hall.layer.send(0.0, [])
        assert stream.hall.layer.send(0.0, []) == [], "once"
        for train in down:
            told += 1
            stream.kitchen.layer.receive(0.0, [Train(stream.hall.address, bytes(train.data), train.segment)])
    plain, sealed = stream.block()
    assert (told, stream.arrives(sealed)) == (1, plain)


def test_a_train_may_mix_blocks_and_others(stream: Stream) -> None:
    plains = [stream.plain()[: SIZE * count] for count in (8, 3, 10, 8, 1)]
    sealed = b"".join(map(stream.sealed, plains))
    opened = stream.hall.layer.open_train(0.0, Train(stream.kitchen.address, sealed, SIZE + OVERHEAD))
    assert opened is not None
    assert bytes(opened.data) == b"".join(plains)
    assert opened.segment == SIZE
    plains = [stream.plain()[: SIZE * 8] for _ in range(3)]
    first, _, third = map(stream.sealed, plains)
    assert stream.arrives(first + third) == plains[0] + plains[2]


class Noting:
    """A layer that notes the datagrams of trains."""

    deadline = float("inf")
    backlog = unfinished = 0

    def __init__(self) -> None:
        self.statistics: Counter[str] = Counter()
        self.noted: list[bytes] = []

    def receive(self, now: float, items: Iterable[Train]) -> tuple[list[Train], list[Train]]:
        """Note all."""
        self.noted += [bytes(train.data) for train in items]
        return [], []


def test_what_was_opened_stays_as_it_is_when_more_is_opened(stream: Stream) -> None:
    blocks = [stream.block() for _ in range(4)]
    trains = [Train(stream.kitchen.address, sealed, SIZE + OVERHEAD) for _, sealed in blocks]
    up, _ = stream.hall.layer.receive(0.0, trains[:2])
    above: Any = Noting()
    stack = FastStack({SECURITY: stream.hall.layer, "above": above})
    stack.commit()
    stack.turn(0.0, iter(trains[2:]), [])
    assert [*map(bytes, (train.data for train in up)), *above.noted] == [plain for plain, _ in blocks]


def test_short_trains_and_multicasts_are_not_sealed_as_blocks(stream: Stream) -> None:
    assert stream.sealed(stream.plain(7))[0] not in BLOCKS
    multicast = stream.kitchen.layer.send(0.0, [Train(None, stream.plain(), SIZE)])[0]
    assert bytes(multicast.data)[0] not in BLOCKS


def test_no_nonce_is_used_twice(stream: Stream) -> None:
    heads = [stream.block()[1], stream.sealed(stream.plain(3)), stream.block()[1]]
    numbers = [
        int.from_bytes(data[at:][NUMBERS], "big") for data in heads for at in range(0, len(data), SIZE + OVERHEAD)
    ]
    assert numbers == [*range(numbers[0], numbers[0] + 2 * COUNT + 3)]


def test_a_block_that_is_not_whole_passes_nothing_and_the_sender_stops_soon(stream: Stream) -> None:
    sent = 0
    while (sealed := stream.sealed(stream.plain()))[0] in BLOCKS:
        assert stream.arrives(sealed[SIZE + OVERHEAD :]) == b""
        sent += COUNT
    assert 0 < sent <= TRIAL
    assert stream.hall.layer.statistics["refused: not a whole block"] == sent - sent // COUNT
    stream.arrives(sealed)
    stream.go_on_until_blocks(8 * PATIENCE - 1)
    stream.block()


def test_nothing_of_a_changed_cut_or_spliced_block_passes(stream: Stream) -> None:
    _, one = stream.block()
    _, two = stream.block()
    size, random = SIZE + OVERHEAD, Random(1)
    wrong = [one[:size] + one[:size] + one[2 * size :], one[size : 2 * size] + one[:size] + one[2 * size :]]
    wrong += [one[:-1], one[: -size // 2], one + b"\0", one[: 5 * size], two[:size] + one[size:], one[: -2 * size]]
    wrong += [one[:size] + two[size : 2 * size] + one[2 * size :], one[: -size // 2] + two[-size // 2 :]]
    for _ in range(200):
        changed = bytearray(one)
        changed[random.randrange(len(one))] ^= 1 << random.randrange(8)
        wrong.append(bytes(changed))
    statistics = stream.hall.layer.statistics
    for place, data in enumerate(wrong):
        for segment in (size, size + 1, 2 * size, 30, len(data)) if place < 12 else (size,):
            up, down = stream.hall.layer.receive(0.0, [Train(stream.kitchen.address, data, segment)])
            assert [*map(bytes, (train.data for train in up + down))] == []
    assert statistics["refused: not a whole block"] > 0
    assert stream.arrives(one) != b""


def test_a_block_with_its_datagrams_cut_anew_is_refused(stream: Stream) -> None:
    _, sealed = stream.block()
    size = SIZE + OVERHEAD
    text = b"".join(sealed[at + 24 : at + size] for at in range(0, len(sealed), size))
    part, other = sealed[:PREFIX_SIZE], SIZE // 2 + 16
    pieces = [text[at : at + other] for at in range(0, len(text), other)]
    heads = [part] * (len(pieces) - 1) + [bytes([part[0] + 4]) + part[1:]]
    first = int.from_bytes(sealed[NUMBERS], "big")
    cut = b"".join(
        head + (first + number).to_bytes(4, "big") + piece
        for number, (head, piece) in enumerate(zip(heads, pieces, strict=True))
    )
    assert stream.arrives(cut, other + 24) == b""


def test_a_replay_of_a_block_is_refused_and_ends_no_grant(stream: Stream) -> None:
    plain, sealed = stream.block()
    assert stream.arrives(sealed) == plain
    for _ in range(100):
        assert stream.arrives(sealed) == b""
    life = stream.hall.layer.lives.fresh[0]
    assert life.granting.is_on


def test_members_with_identities_seal_blocks_for_each_other_alone() -> None:
    hall, thief = layer("hall"), layer("thief")
    meet(hall, thief)
    plain = (b'{"glue":[1,1,"%s",1,0]}\n' % id_of("thief").encode() + bytes(100)) * COUNT
    kinds = set()
    for _ in range(PATIENCE + 5):
        sealed = thief.send(0.0, [Train(HALL, plain, len(plain) // COUNT)])[0]
        data = bytes(sealed.data)
        kinds.add(data[0])
        up, down = hall.receive(0.0, [Train(THIEF, data, sealed.segment)])
        assert b"".join(bytes(train.data) for train in up) == plain
        for train in down:
            thief.receive(0.0, [Train(HALL, bytes(train.data), train.segment)])
        assert Opener(KEY).open(data) is None
    assert kinds == {FORMATS[2], FORMATS[2] + 4}
    other = plain.replace(id_of("thief").encode(), id_of("hall").encode(), COUNT // 2)
    forged = thief.send(0.0, [Train(HALL, other, sealed.segment - OVERHEAD)])[0]
    assert hall.receive(0.0, [Train(THIEF, bytes(forged.data), sealed.segment)])[0] == []


def test_a_stream_over_a_path_that_cuts_trains_delivers_each_datagram_once_at_most() -> None:
    for seed in range(5):
        random, stream = Random(seed), Stream()
        sent: set[bytes] = set()
        opened: list[bytes] = []
        recorded: list[bytes] = []
        for _ in range(400):
            plain = stream.plain(random.choice((1, 7, 8, 20, 60)))
            data = stream.sealed(plain)
            sent.update(plain[at : at + SIZE] for at in range(0, len(plain), SIZE))
            recorded.append(data)
            pieces = [data]
            if random.random() < 0.1:
                cut = random.randrange(len(data) // (SIZE + OVERHEAD) + 1) * (SIZE + OVERHEAD)
                pieces = random.choice(([data[:cut]], [data[cut:]], [data[:cut], data[cut:]], [data[cut:], data[:cut]]))
            if random.random() < 0.2:
                pieces.append(random.choice(recorded))
            for piece in pieces:
                up = stream.arrives(piece)
                opened += [up[at : at + SIZE] for at in range(0, len(up), SIZE)] if len(pieces) == 1 else []
        assert len(opened) == len(set(opened))
        assert sent.issuperset(opened)


def frame_of(payload: bytes) -> bytes:
    """A bare IP packet with this payload."""
    length = 28 + len(payload)
    ip = b"\x45\0" + length.to_bytes(2, "big") + bytes(4) + b"\x40\x11\0\0" + bytes([10, 0, 0, 1, 10, 0, 0, 2])
    return ip + b"\x1b\x58\x1b\x58" + (length - 20).to_bytes(2, "big") + bytes(2) + payload


def test_captures_open_blocks_in_one_frame_and_in_many(stream: Stream) -> None:
    (plain, sealed), (other_plain, other) = stream.block(), stream.block()
    size = SIZE + OVERHEAD
    assert Opener(KEY).open(sealed) == plain
    assert Opener(OTHER_KEY).open(sealed) is None
    opener = FrameOpener(KEY, 101)  # bare IP packets
    frames = [frame_of(sealed[at : at + size]) for at in range(0, len(sealed), size)]
    found = [opener.open(frame) for frame in frames]
    assert found[:-1] == [[]] * (COUNT - 1)
    assert [frame[28:] for frame in found[-1] or ()] == [plain]
    begun = opener.open(frame_of(other[: 3 * size]))
    assert begun == []
    assert [frame[28:] for frame in opener.open(frame_of(other[3 * size :])) or ()] == [other_plain]
    opener.open(frame_of(sealed[: 3 * size]))
    assert [frame[28:] for frame in opener.open(frame_of(other)) or ()] == [sealed[: 3 * size], other_plain]
    opener.open(frame_of(sealed[: 3 * size]))
    assert [frame[28:] for frame in opener.rest()] == [sealed[: 3 * size]]
    assert opener.open(frame_of(sealed[size:])) is None
    assert opener.open(frame_of(b"{}\n")) is None


def streamed(seed: int, conditions: Conditions, count: int = 200) -> tuple[list[int], list[float], Counter[str]]:
    """A reliable stream goes over to blocks; then the path changes. Returns what came, delays, and what was refused."""
    world = World(seed)
    key = new_key(Random(seed).randbytes)
    kitchen, hall = world.endpoint("kitchen", key=key), world.endpoint("hall", key=key)
    heard: list[int] = []
    delays: list[float] = []
    sent_at: dict[int, float] = {}

    def hear(message: Message) -> None:
        heard.append(int(bytes(message.payload).rstrip(b".")))
        delays.append(world.time - sent_at[heard[-1]])

    hall.subscribe("x", hear)
    world.run(1.0)
    for number in range(count):
        if number == 2 * PATIENCE:
            assert kitchen.statistics["security"]["datagrams sealed in blocks"] > 0
            world.network.set_conditions(conditions)
        sent_at[number] = world.time
        kitchen.publish("x", (b"%d" % number).ljust(27_000, b"."))
        world.run(0.02)
    world.run(2.0)
    return heard, delays, hall.statistics["security"]


@pytest.mark.parametrize(
    "conditions", [Conditions(loss=0.2), Conditions(jitter=0.002), Conditions(loss=0.02, duplicate=0.02, jitter=0.001)]
)
def test_a_stream_does_not_stall_when_its_trains_do_not_arrive_in_one_piece_any_more(conditions: Conditions) -> None:
    heard, delays, refused = streamed(1, conditions)
    assert heard == [*range(200)]
    assert max(delays) < 0.3
    assert refused["refused: not a whole block"] < 8 * COUNT


def test_captures_lose_no_frame_when_many_blocks_are_begun(stream: Stream) -> None:
    _, sealed = stream.block()
    size = SIZE + OVERHEAD
    opener = FrameOpener(KEY, 101)
    begun = frame_of(sealed[: 3 * size])
    found = opener.open(begun) or []
    for number in range(BEGUN + 9):  # anyone can send beginnings in the names of lives that are none
        salt = number.to_bytes(16, "big")
        forged = b"".join(
            sealed[at : at + 4] + salt + sealed[at + PREFIX_SIZE : at + size] for at in range(0, 3 * size, size)
        )
        found += opener.open(frame_of(forged)) or []
    found += opener.rest()
    assert len(found) == BEGUN + 10
    assert [frame for frame in found if frame[28:] == sealed[: 3 * size]] != []
