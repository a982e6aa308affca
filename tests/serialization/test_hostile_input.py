"""What is broken, or for others, changes nothing but counters; what is merely written in another way is read."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.contract import Train
from glue.contract.sealed import HEAD
from glue.serialization import MAX_HEADER, Serialization
from tests.serialization.frames import ADDRESS, READER, SENDER, frames, outbound, read, reader, writer, written

START = b'{"glue":[1,1,"aaaaaaaaaaaaaaaa",77,'

MALFORMED = {
    "nothing": b"",
    "a newline only": b"\n",
    "a body only": b"hello\nthere\n",
    "no newline": START + b"5]}",
    "cut short": START + b"5]",
    "cut short before the newline": START + b"\n",
    "random bytes": bytes(range(255, 0, -1)),
    "over 192 bytes": START + b'5],"other":["%s"]}\n' % (b"x" * 150),
    "over 192 bytes of spaces": START + b" " * 160 + b"5]}\n",
    "lists 160 deep": b'{"glue":' + b"[" * 160 + b"\n",
    "lists 70 deep, closed": b'{"glue":' + b"[" * 70 + b"]" * 70 + b"}\n",
    "a million lists deep": b'{"glue":' + b"[" * 10**6 + b"]" * 10**6 + b"}\n",
    "an integer of a million digits": START + b"9" * 10**6 + b"]}\n",
    "an integer of 100 digits": START + b"9" * 100 + b"]}\n",
    "NaN": START + b"NaN]}\n",
    "Infinity": START + b'5],"other":[Infinity]}\n',
    "a float": START + b"5.0]}\n",
    "an exponent": START + b"1e400]}\n",
    "a leading zero": START + b"05]}\n",
    "a lone surrogate": START + b'5],"other":["\\ud800"]}\n',
    "a surrogate in UTF-8": START + b'5],"other":["\xed\xa0\x80"]}\n',
    "broken UTF-8": START + b'5],"other":["\xff"]}\n',
    "UTF-16": (START + b"5]}\n").decode().encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + START + b"5]}\n",
    "single quotes": START.replace(b'"', b"'") + b"5]}\n",
    "a comma too many": START + b"5,]}\n",
    "two objects": START + b"5]}{}\n",
    "a duplicate key, the last of which is wrong": START + b'5],"glue":[]}\n',
    "a list": b'["glue"]\n',
    "a number": b"5\n",
    "a string": b'"glue"\n',
    "null": b"null\n",
    "no entry": b"{}\n",
    "another layer's entry only": b'{"transport":["best",0,0]}\n',
    "an entry that is null": b'{"glue":null}\n',
    "an entry that is a string": b'{"glue":"12345"}\n',
    "an entry that is an object": b'{"glue":{"a":1,"b":1,"c":1,"d":1,"e":1}}\n',
    "an entry too short": b'{"glue":[1,1,"aaaaaaaaaaaaaaaa",77]}\n',
    "an entry too long": START + b"5,6]}\n",
    "a version that is a string": b'{"glue":["1",1,"aaaaaaaaaaaaaaaa",77,5]}\n',
    "a version that is true": b'{"glue":[true,1,"aaaaaaaaaaaaaaaa",77,5]}\n',
    "a network that is a list": b'{"glue":[1,[1],"aaaaaaaaaaaaaaaa",77,5]}\n',
    "an id too short": b'{"glue":[1,1,"aaaaaaaaaaaaaaa",77,5]}\n',
    "an id in upper case": b'{"glue":[1,1,"AAAAAAAAAAAAAAAA",77,5]}\n',
    "an id that is not hexadecimal": b'{"glue":[1,1,"gaaaaaaaaaaaaaaa",77,5]}\n',
    "an id that is a number": b'{"glue":[1,1,1234567890123456,77,5]}\n',
    "a negative incarnation": b'{"glue":[1,1,"aaaaaaaaaaaaaaaa",-1,5]}\n',
    "an incarnation that is inexact": b'{"glue":[1,1,"aaaaaaaaaaaaaaaa",9007199254740992,5]}\n',
    "a negative counter": START + b"-5]}\n",
    "a counter of 2^64": START + b"18446744073709551616]}\n",
    "an entry of another layer that is no list": START + b'5],"other":{}}\n',
    "an entry of another layer that is null": START + b'5],"other":null}\n',
}


def padded(datagram: bytes, size: int) -> bytes:
    return datagram.ljust(size, b".")


@pytest.mark.parametrize("datagram", MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_is_counted_and_dropped(datagram: bytes) -> None:
    layer = reader()
    assert layer.receive(0.0, [Train(ADDRESS, datagram, len(datagram))]) == ([], [])
    assert layer.statistics == Counter({"malformed header": 1})


@pytest.mark.parametrize("datagram", MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_within_a_train_harms_nothing_else(datagram: bytes) -> None:
    good = written([b"x"] * 4)
    size = max(len(datagram), len(good[0])) + 1
    layer = reader()
    arrived = [*good[:2], datagram, *good[2:], datagram]
    up = read([padded(one, size) for one in arrived], layer)
    assert [frame[3]["glue"][-1] for frame in frames(up)] == [0, 1, 2, 3]
    assert layer.statistics == Counter({"datagrams received": 4, "malformed header": 2})


@pytest.mark.parametrize(
    ("datagrams", "cause"),
    [
        (written([b"x"] * 3, network_id=2), "other network"),
        (written([b"x"] * 3, endpoint_id=READER, incarnation=1), "own datagrams received"),
        ([START.replace(b"[1,", b"[2,") + b"5]}\nbody"] * 3, "other version"),
        ([START.replace(b"[1,1,", b"[2,9,") + b"5]}\nbody"] * 3, "other version"),
    ],
)
def test_what_is_for_others_is_counted_by_its_cause(datagrams: list[bytes], cause: str) -> None:
    layer = reader()
    assert read(datagrams, layer) == []
    assert layer.statistics == Counter({cause: 3})


def test_another_life_under_the_own_id_is_passed_up_so_that_the_clash_is_seen() -> None:
    assert [run.peer for run in read(written([b"x"], endpoint_id=READER, incarnation=2))] == [READER]


@pytest.mark.parametrize(
    "head",
    [
        b'{ "glue" : [ 1, 1, "aaaaaaaaaaaaaaaa", 77, 5 ], "transport" : [ "best", 0, 6 ] }\n',
        b'{"transport":["best",0,6],"glue":[1,1,"aaaaaaaaaaaaaaaa",77,5]}\n',
        b'{"glue":[1,1,"aaaaaaaaaaaaaaaa",77,5],"transport":["best",0,6]}\r\n',
        b'{"glue":[1,1,"\\u0061aaaaaaaaaaaaaaa",77,5],"transport":["b\\u0065st",-0,6]}\n',
        b'{"glue":[1,1,"aaaaaaaaaaaaaaaa",77,    5]  ,  "transport":["best",0,\t6]}\n',
        b'{"glue":[],"glue":[1,1,"aaaaaaaaaaaaaaaa",77,5],"transport":["best",0,6]}\n',
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_the_same_header_in_the_hand_of_another_writer_is_read(head: bytes, count: int) -> None:
    header = {"glue": [1, 1, SENDER, 77, 5], "transport": ["best", 0, 6]}
    assert [(frame[3], frame[4]) for frame in frames(read([head + b"body"] * count))] == [(header, b"body")] * count


@pytest.mark.parametrize("number", [b"\t5", b"5 ", b" 5", b"-0", b"\r5", b"5\t"])
@pytest.mark.parametrize("following", [b" 6", b" 1", b"6 ", b" 5"])
def test_numbers_padded_in_another_way_do_not_confuse_what_follows(number: bytes, following: bytes) -> None:
    datagrams = [START + one + b"]}\nx" for one in (number, following, b" 7", b" 8", b"10")]
    counters = [frame[3]["glue"][-1] for frame in frames(read(datagrams))]
    assert counters == [int(number), int(following), 7, 8, 10]


def test_keys_that_are_not_known_are_kept_for_the_layers_above() -> None:
    (run,) = read([START + b'5],"seal":["later",{"deep":[1]}],"transport":["best",0,0]}\nbody'])
    assert run.header["seal"] == ["later", {"deep": [1]}]


@pytest.mark.parametrize(("format", "network", "size", "cause"), [
    (0xE1, 1, 30, "sealed"), (0xEC, 1, 24, "sealed"), (0xE1, 2, 30, "other network"), (0xE0, 1, 30, "malformed header"),
    (0xED, 1, 30, "malformed header"), (0xE1, 1, 23, "malformed header"),
])  # fmt: skip
@pytest.mark.parametrize("count", [1, 3])
def test_sealed_datagrams_are_counted_as_that_and_those_of_this_network_told(
    format: int, network: int, size: int, cause: str, count: int
) -> None:
    told: list[tuple[str, object]] = []
    datagram = HEAD.pack(format, 1, network, b"s" * 16, 5).ljust(30, b"c")[:size]
    for tell in (None, lambda *what: told.append(what)):
        layer = Serialization(endpoint_id=READER, incarnation=1, network_id=1, on_sealed=tell)
        assert layer.receive(0.0, [Train(ADDRESS, datagram * count, size)]) == ([], [])
        assert layer.statistics == Counter({cause: count})
    assert told == [("sealed", ADDRESS)] * (count if cause == "sealed" else 0)


@settings(max_examples=500)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(1, 400))
def test_no_bytes_raise(datagrams: list[bytes], segment: int) -> None:
    reader().receive(0.0, [Train(ADDRESS, datagram, segment) for datagram in datagrams])


@settings(max_examples=300)
@given(st.text('0123456789-+.eE "[]{},:nulltrue\\', max_size=30), st.integers(0, 4))
def test_no_value_in_the_place_of_another_raises(value: str, place: int) -> None:
    fields = ["1", "1", '"aaaaaaaaaaaaaaaa"', "77", "5"]
    fields[place] = value
    datagram = f'{{"glue":[{",".join(fields)}]}}\n'.encode()
    read([datagram] * 3)


# ------------------------------------------------------------------------------------------- the header's size

LARGEST = {
    "data": {
        "fragment": [999_999, 65_535, 2**40, 858_993_459],
        "transport": ["data", 999, 99_999_999, 0, 0, 0, 99_999_999, 10**14 - 100],
    },
    "group": {
        "fragment": [999_999, 65_535, 2**40, 858_993_459],
        "transport": ["group", 999, 99_999_999, 0, 0, 0, 99_999_999, 10**14 - 100],
    },
    "data that carries an acknowledgement": {
        "fragment": [999_999, 65_535, 2**40, 858_993_459],
        "transport": ["data", 0, 999, 12_345, 10**11 - 1, 99_999, 12_345, 10**11 - 100],
    },
    "acknowledgement": {"transport": ["ack", 99_999, 4096, 2**53 - 1, 2**53 - 100]},
    "best effort": {"transport": ["best", 99_999_999, 2**53 - 100]},
    "discovery": {"discovery": [2**31, 2**53, 2**53, 2**53, "operations"]},
}


@pytest.mark.parametrize("header", LARGEST.values(), ids=LARGEST)
def test_the_largest_header_that_the_layers_can_make_is_within_its_limit(header: dict[str, list[object]]) -> None:
    layer = writer(counter=10**14 - 100, network_id=65_535, incarnation=2**53 - 1)
    for count in (1, 42):
        (train,) = layer.send(0.0, [outbound([b"x"] * count, dict(header))])
        assert bytes(train.data).index(b"\n") < MAX_HEADER


def test_a_header_of_192_bytes_is_read_and_one_of_193_is_not() -> None:
    for size, count in ((192, 1), (193, 0)):
        head = (START + b"5]}").ljust(size - 1) + b"\n"
        assert len(read([head + b"body"])) == count


def test_a_header_that_is_too_long_is_the_mistake_of_a_layer() -> None:
    with pytest.raises(ValueError, match="192"):
        writer().send(0.0, [outbound([b"x"], {"other": ["x" * 200]})])
