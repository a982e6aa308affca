"""Frames arrive as they were sent, whether datagrams travel alone or together, and whatever happens to the train."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.contract import Header, Outbound, Train
from glue.contract.pieces import Pieces
from glue.serialization.lazy_train import CALL, CALLS
from tests.serialization.frames import (
    ADDRESS,
    SENDER,
    cut,
    frames,
    outbound,
    read,
    read_alone,
    reader,
    train,
    writer,
    written,
)

COUNTERS = [0, 1, 5, 9, 95, 99, 990, 999, 9_999, 999_995, 2**31 - 3, 2**32 - 3, 10**12 - 1, 2**53 - 100]
TRANSPORT: Header = {"fragment": [3, 100, 5000, 8], "transport": ["data", 0, 12, 0, 0, 0, 1, 996]}


def numbered(count: int, size: int = 20) -> list[bytes]:
    return [(b"%0*d" % (size, number))[:size] for number in range(count)]


def counters(datagrams: list[bytes]) -> list[int]:
    """The counters of the frames that are read."""
    return [header["glue"][-1] for _, _, _, header, _ in frames(read(datagrams))]


def test_a_frame_arrives_as_it_was_sent() -> None:
    (datagram,) = written([b"body"], {"transport": ["best", 0, 5]}, counter=41)
    header = {"glue": [1, 1, SENDER, 77, 41], "transport": ["best", 0, 5]}
    assert frames(read([datagram])) == [(SENDER, 77, ADDRESS, header, b"body")]


@pytest.mark.parametrize("body", [b"", b"\n", b"\n\n{}\n", bytes(range(256)), b"}" * 300])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_body_may_be_any_bytes(body: bytes, count: int) -> None:
    assert [frame[-1] for frame in frames(read(written([body] * count)))] == [body] * count


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("count", [2, 3, 42, 64])
def test_a_run_is_read_as_one_run_however_many_digits_its_numbers_grow(counter: int, count: int) -> None:
    datagrams = written(numbered(count), TRANSPORT, counter=counter)
    assert len(set(map(len, datagrams))) == 1
    (run,) = read(datagrams)
    assert list(run.bodies) == numbered(count)
    assert frames([run]) == read_alone(datagrams, reader())
    assert run.header["glue"] == [1, 1, SENDER, 77, counter]
    assert run.header["transport"] == TRANSPORT["transport"]


@pytest.mark.parametrize("last", [b"", b"x", b"x" * 19, b"x" * 20])
def test_the_last_body_may_be_shorter(last: bytes) -> None:
    bodies = [*numbered(4), last]
    (run,) = read(written(bodies))
    assert list(run.bodies) == bodies


def test_counters_go_on_from_run_to_run() -> None:
    layer = writer(counter=7)
    sent = layer.send(0.0, [outbound(numbered(3)), outbound([b"x"]), outbound(numbered(2))])
    up, _ = reader().receive(0.0, sent)
    assert [frame[3]["glue"][-1] for frame in frames(up)] == [7, 8, 9, 10, 11, 12]
    assert layer.statistics["datagrams sent"] == 6


@pytest.mark.parametrize("counter", [0, 9_000])
def test_a_long_run_leaves_in_portions_that_count_on(counter: int) -> None:
    """As a best-effort message does: no window cuts it before."""
    size, count = 1280, 1700
    data = b"".join(numbered(count, size))
    (sent,) = writer(counter=counter).send(0.0, [Outbound((), Pieces([data], size, count), TRANSPORT, address=ADDRESS)])
    chunks = [bytes(chunk) for chunk in sent.chunks()]
    assert len(chunks) > 1
    assert all(len(chunk) <= CALLS * CALL and len(chunk) % sent.segment == 0 for chunk in chunks)
    assert b"".join(chunks) == sent.data
    datagrams = cut(sent)
    read_ones = read_alone(datagrams, reader())
    assert [frame[3]["glue"][-1] for frame in read_ones] == [*range(counter, counter + count)]
    assert b"".join(frame[-1] for frame in read_ones) == data


def test_a_portion_fills_system_calls_once_each_datagram_is_longer() -> None:
    size, count, extra = 1280, 1700, 40
    bodies = Pieces([bytes(size * count)], size, count)
    (sent,) = writer().send(0.0, [Outbound((), bodies, TRANSPORT, address=ADDRESS)])
    first, *_ = (len(chunk) // sent.segment for chunk in sent.chunks(extra))
    assert first == CALLS * (CALL // (sent.segment + extra)) < CALLS * (CALL // sent.segment)


def test_a_hole_splits_a_run_and_loses_nothing_else() -> None:
    datagrams = written(numbered(10), TRANSPORT, counter=995)
    del datagrams[4]
    assert counters(datagrams) == [995, 996, 997, 998, 1000, 1001, 1002, 1003, 1004]
    assert frames(read(datagrams)) == read_alone(datagrams, reader())


def test_datagrams_that_were_swapped_are_read_in_the_order_they_came() -> None:
    datagrams = written(numbered(6), counter=7)
    datagrams[2], datagrams[3] = datagrams[3], datagrams[2]
    assert counters(datagrams) == [7, 8, 10, 9, 11, 12]


def test_datagrams_that_were_doubled_are_read_twice() -> None:
    datagrams = written(numbered(3), counter=8)
    assert counters([datagrams[0], datagrams[0], datagrams[1], datagrams[2], datagrams[2]]) == [8, 8, 9, 10, 10]


def test_runs_of_different_headers_and_one_size_are_told_apart() -> None:
    one = written(numbered(3), {"transport": ["data", 0, 0, 0, 0, 0, 1, 2]}, counter=2)
    other = written(numbered(3), {"transport": ["data", 0, 0, 0, 0, 0, 2, 5]}, counter=5)
    assert len(one[0]) == len(other[0])
    runs = read([*one, *other])
    assert [(run.header["transport"][-2:], len(run.bodies)) for run in runs] == [([1, 2], 3), ([2, 5], 3)]


def test_senders_of_one_size_are_told_apart() -> None:
    one = written(numbered(2))
    other = written(numbered(2), endpoint_id="cccccccccccccccc")
    assert [run.peer for run in read([one[0], other[0], one[1], other[1]])] == [
        SENDER,
        "cccccccccccccccc",
        SENDER,
        "cccccccccccccccc",
    ]


def test_a_last_datagram_with_a_shorter_header_is_read() -> None:
    first = written([b"x" * 200, b"y" * 200], TRANSPORT)
    (last,) = written([b""], counter=2)
    assert [frame[-1] for frame in frames(read([*first, last]))] == [b"x" * 200, b"y" * 200, b""]


@pytest.mark.parametrize(
    "entry",
    [
        [],
        ["word"],
        [1.5],
        [None],
        [[5]],
        [[5], 6],
        [{"key": [1, 2]}],
        ["5]"],
        [",5]", 7],
        ["[", 1],
        [-3],
        [-1],
        [0, -1000],
        ["a word, then", 998],
    ],
)
def test_frames_of_the_same_entry_are_read_as_such_unless_it_counts(entry: list[object]) -> None:
    datagrams = [written([b"x"], {"other": entry}, counter=number)[0] for number in range(3)]
    assert frames(read(datagrams)) == read_alone(datagrams, reader())


@pytest.mark.parametrize("entry", [[98], [0, 98], ["a word, then", 98], ["[", 98]])
def test_an_integer_that_ends_a_list_counts_up_from_frame_to_frame(entry: list[object]) -> None:
    datagrams = written([b"x"] * 3, {"other": entry})
    assert [frame[3]["other"][-1] for frame in read_alone(datagrams, reader())] == [98, 99, 100]
    assert frames(read(datagrams)) == read_alone(datagrams, reader())


# --------------------------------------------------------------------------------------- against a naive twin

ENTRIES = st.one_of(
    st.just({}),
    st.builds(lambda n: {"transport": ["data", 0, 3, 0, 0, 0, 1, n]}, st.sampled_from(COUNTERS)),
    st.builds(
        lambda n, m: {"fragment": [7, 1280, 9_999_999, m], "transport": ["group", 0, 3, 0, 0, 0, 1, n]},
        st.sampled_from(COUNTERS),
        st.integers(0, 2000),
    ),
    st.just({"discovery": [5, 0, None, None, "announce"]}),
)
HEADER_CHANGES = [
    (b" ", b"\t"),
    (b",", b", "),
    (b"0", b"-0"),
    (b"]}\n", b" ]}"),
    (b"1", b"2"),
    (b"[", b"[["),
    (b'"', b"'"),
]


def mutated(datagrams: list[bytes], random: Random) -> list[bytes]:
    """The same with a few things gone wrong; still of one size, the last perhaps shorter."""
    size = len(datagrams[0])
    for _ in range(random.randrange(4)):
        place, other = random.randrange(len(datagrams)), random.randrange(len(datagrams))
        datagram = datagrams[place]
        at = random.randrange(len(datagram))
        match random.randrange(6):
            case 0 if len(datagrams) > 1:
                del datagrams[place]
            case 1:
                datagrams.insert(other, datagram)
            case 2:
                datagrams[place], datagrams[other] = datagrams[other], datagram
            case 3:
                datagrams[place] = datagram[:at] + random.randbytes(1) + datagram[at + 1 :]
            case 4:
                old, new = random.choice(HEADER_CHANGES)
                datagrams[place] = datagram.replace(old, new, random.choice([1, -1]))[:size]
            case 5:
                datagrams[-1] = datagrams[-1][: 1 + at]
    return [datagram.ljust(size, b".") for datagram in datagrams[:-1]] + datagrams[-1:]


@settings(max_examples=500)
@given(ENTRIES, st.sampled_from(COUNTERS), st.integers(1, 64), st.integers(0, 40), st.integers(0, 40), st.integers())
def test_whatever_happened_to_a_train_it_is_read_as_its_datagrams_alone(
    header: Header, counter: int, count: int, size: int, last: int, seed: int
) -> None:
    bodies = [*numbered(count - 1, size), b"z" * min(last, size)]
    datagrams = mutated(written(bodies, header, counter=counter), Random(seed))
    together, alone = reader(), reader()
    assert frames(read(datagrams, together)) == read_alone(datagrams, alone)
    assert together.statistics == alone.statistics


@settings(max_examples=300)
@given(ENTRIES, st.sampled_from(COUNTERS), st.integers(2, 40), st.integers(0, 20), st.integers())
def test_however_the_datagrams_of_a_run_are_spread_over_trains_they_are_read_as_alone(
    header: Header, counter: int, count: int, size: int, seed: int
) -> None:
    random = Random(seed)
    datagrams = written(numbered(count, size), header, counter=counter)
    if random.random() < 0.5:
        datagrams = mutated(datagrams, random)
    trains = []
    rest = datagrams
    while rest:
        together = random.choice([1, 1, 2, 5, 20])
        trains.append(train(rest[:together]))
        rest = rest[together:]
        if random.random() < 0.2:
            trains.append(random.choice([Train(ADDRESS, b"", 0), train(datagrams), Train(("10.0.0.2", 1), b"", 9)]))
    up, _ = reader().receive(0.0, trains)
    assert frames(up) == read_alone([datagram for one in trains for datagram in cut(one)], reader())


def test_a_run_that_goes_on_in_the_next_trains_is_read_as_one_run() -> None:
    datagrams = written(numbered(100), TRANSPORT, counter=950)
    up, _ = reader().receive(0.0, [train(datagrams[:40]), train(datagrams[40:80]), train(datagrams[80:])])
    assert [list(run.bodies) for run in up] == [numbered(100)]


@pytest.mark.parametrize("broken", [b"", b"x", b"}" * 10, b"x" * 50])
def test_a_run_does_not_go_on_behind_a_broken_datagram(broken: bytes) -> None:
    datagrams = written(numbered(4))
    following = [Train(ADDRESS, b"", 0), train(datagrams[2:])]
    up, _ = reader().receive(0.0, [train([*datagrams[:2], broken]), *following])
    assert [frame[-1] for frame in frames(up)] == numbered(4)


@pytest.mark.parametrize("counter", [9, 99, 9_999])
@pytest.mark.parametrize("count", [2, 3, 30])
def test_a_header_that_grew_at_the_expense_of_its_body_does_not_lend_it_its_newline(counter: int, count: int) -> None:
    bodies = [b"12345", *[b"1234"] * (count - 1)]
    datagrams = [written([body], counter=counter + number)[0] for number, body in enumerate(bodies)]
    assert len(set(map(len, datagrams))) == 1
    assert frames(read(datagrams)) == read_alone(datagrams, reader())


def test_datagrams_that_look_like_one_of_the_run_only_together_are_none() -> None:
    first, second, third = written(numbered(3))
    pieces = Train(ADDRESS, third, len(third) // 2)
    layer = reader()
    up, _ = layer.receive(0.0, [train([first, second]), pieces])
    assert [list(run.bodies) for run in up] == [numbered(2)]
    assert layer.statistics["malformed header"] >= 2


@settings(max_examples=100)
@given(st.lists(st.tuples(ENTRIES, st.integers(1, 50), st.integers(0, 30)), min_size=1, max_size=5))
def test_any_frames_arrive_as_they_were_sent(items: list[tuple[Header, int, int]]) -> None:
    sender, receiver = writer(counter=98), reader()
    sent = sender.send(0.0, [outbound(numbered(count, size), dict(header)) for header, count, size in items])
    up, _ = receiver.receive(0.0, sent)
    assert [body for run in up for body in run.bodies] == [b for _, count, size in items for b in numbered(count, size)]
    assert frames(up) == read_alone([datagram for one in sent for datagram in cut(one)], reader())
    assert receiver.statistics["datagrams received"] == sender.statistics["datagrams sent"]


def test_trains_are_read_from_memory_that_is_used_again() -> None:
    buffer = bytearray(b"".join(written(numbered(3), TRANSPORT)))
    up, _ = reader().receive(0.0, [Train(ADDRESS, memoryview(buffer), len(buffer) // 3)])
    buffer[:] = bytes(len(buffer))
    assert [list(run.bodies) for run in up] == [numbered(3)]


def test_a_run_is_not_looked_for_across_datagrams() -> None:
    first, second = written([b"x" * 20] * 2, TRANSPORT)
    size = first.index(b"\n") + 1
    (short,) = written([b""], {"transport": ["none"]})
    inside = short + second[: size - len(short)] + b"y" * 20  # what is between its header's end and the next datagram's
    datagrams = [first, inside, second[size - len(short) : size]]  # is the header that is expected
    assert frames(read(datagrams)) == read_alone(datagrams, reader())


def test_bodies_of_a_single_byte_are_staged_as_others_are() -> None:
    (sent,) = writer().send(0.0, [outbound_pieces(b"abc", 1)])
    assert [frame[-1] for frame in frames(read(cut(sent)))] == [b"a", b"b", b"c"]


def outbound_pieces(data: bytes, size: int) -> Outbound:
    return Outbound((), Pieces([memoryview(data)], size, -(-len(data) // size)), address=ADDRESS)


def test_long_runs_of_one_writer_may_differ_in_the_size_of_their_bodies() -> None:
    layer = writer()
    for size in (1000, 700, 1280, 700):
        whole = bytes(number % 251 for number in range(40 * size + 13))
        (sent,) = layer.send(0.0, [Outbound((), Pieces([whole], size, 41), TRANSPORT, address=ADDRESS)])
        assert [frame[-1] for frame in frames(read(cut(sent)))] == [
            whole[start : start + size] for start in range(0, len(whole), size)
        ]
