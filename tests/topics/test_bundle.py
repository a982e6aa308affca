"""The wire format: what it looks like, that it comes back as it went, and that nothing else is taken."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.contract import NORMAL, Metadata
from glue.topics.bundle import (
    BUNDLE_MESSAGES,
    BUNDLE_SIZE,
    INDEX_LIMIT,
    INTEGER_LIMIT,
    KEEP,
    KEPT,
    LIVE,
    SEQUENCE_LIMIT,
    VIEW_FROM,
    MalformedBundleError,
    MessageGroup,
    common_length,
    decode,
    encode,
    encode_lone,
)
from glue.topics.outbox import BundleOutbox, cost

AT = 1_700_000_000_000_000


def group_of(topic: str, payloads: list[bytes], sequence: int = 1, **options: Any) -> MessageGroup:
    return MessageGroup(topic, sequence, AT, payloads, common_length(payloads), **options)


def content(group: MessageGroup) -> tuple[Any, ...]:
    return (
        group.topic,
        group.sequence,
        group.at,
        group.payloads,
        group.type,
        group.json,
        group.retain,
        group.lifespan_ms,
        group.ordered,
    )


def test_a_bundle_reads_as_documented() -> None:
    equal = group_of("t/16", [b"ab", b"cd"], sequence=100)
    mixed = group_of("é", [b"1", b"", b"[]"], type="T", json=True, retain=KEEP, lifespan_ms=1500)
    assert encode([equal, mixed]).decode() == (
        '{"groups":[{"topic":"t/16","sequence":100,"at":1700000000000000,"length":2,"count":2},'
        '{"topic":"é","sequence":1,"at":1700000000000000,"lengths":[1,0,2],"type":"T","json":1,"retain":1,'
        '"lifespan":1500}]}\nabcd1[]'
    )


def test_a_lone_small_message_gets_less_than_100_bytes_of_index() -> None:
    assert len(encode([group_of("t/16", [bytes(64)], sequence=100)])) < 64 + 100


@given(st.text(min_size=1), st.binary(), st.integers(1, 2**53), st.integers(-(2**53), 2**53))
def test_a_lone_message_is_encoded_as_any_other_group(topic: str, payload: bytes, sequence: int, at: int) -> None:
    for json in (False, True):
        group = MessageGroup(topic, sequence, at, [payload], len(payload), json=json)
        assert encode_lone(orjson.dumps(topic), sequence, at, payload, json) == encode([group])


texts = st.text(st.characters(blacklist_characters="+#\0", blacklist_categories=["Cs"]), min_size=1, max_size=8)
payload_lists = st.one_of(
    st.lists(st.binary(max_size=20), min_size=1, max_size=100),
    st.builds(lambda payload, count: [payload] * count, st.binary(max_size=20), st.integers(1, 200)),
)
lone = st.builds(
    lambda topic, payload: group_of(topic, [payload], retain=KEPT, json=True), texts, st.binary(max_size=20)
)
groups_of_any_kind = st.one_of(
    lone,
    st.builds(
        group_of,
        texts,
        payload_lists,
        st.integers(1, 2**50 - 1000),
        type=st.none() | texts,
        json=st.booleans(),
        retain=st.sampled_from([LIVE, KEEP]),
        lifespan_ms=st.none() | st.integers(0, 2**53 - 1),
        ordered=st.booleans(),
    ),
)


@given(st.lists(groups_of_any_kind, min_size=1, max_size=6))
def test_what_is_encoded_comes_back(groups: list[MessageGroup]) -> None:
    assert [content(group) for group in decode(encode(groups))] == [content(group) for group in groups]


@given(st.lists(groups_of_any_kind, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_a_damaged_bundle_raises_nothing_but_its_own_error(groups: list[MessageGroup], rng: random.Random) -> None:
    body = bytearray(encode(groups))
    for _ in range(rng.randint(1, 8)):
        position = rng.randrange(len(body))
        kind = rng.randrange(3)
        if kind == 0:
            body[position] = rng.randrange(256)
        elif kind == 1:
            del body[position : position + rng.randint(1, 20)]
        else:
            body[position:position] = rng.choice([b"-", b"9", b"null", b"]", b"{", b'"', b"\n", b"1e9", b"\xff"])
        body = body or bytearray(b"x")
    try:
        decoded = decode(bytes(body))
    except MalformedBundleError:
        return
    assert sum(len(payload) for group in decoded for payload in group.payloads) < len(body)


def bundle(entry: dict[str, Any], payload: bytes = b"abcd") -> bytes:
    """A bundle of one group that is sound but for what `entry` says; None takes a key away."""
    sound = {"topic": "t", "sequence": 1, "at": AT, "length": 4}
    return orjson.dumps({"groups": [{k: v for k, v in (sound | entry).items() if v is not None}]}) + b"\n" + payload


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "no newline": b'{"groups":[]}',
    "not JSON": b"hello\n",
    "not an object": b"[]\n",
    "no groups": b"{}\n",
    "empty groups": b'{"groups":[]}\n',
    "groups no list": b'{"groups":{"topic":1}}\n',
    "group no object": b'{"groups":[[]]}\n',
    "deep": b"[" * 100_000 + b"\n",
    "NaN": b'{"groups":[{"topic":"t","sequence":NaN,"at":1,"length":0}]}\n',
    "lone surrogate": b'{"groups":[{"topic":"\\ud800","sequence":1,"at":1,"length":0}]}\n',
    "index too long": b" " * INDEX_LIMIT + bundle({}),
    "too many groups": b'{"groups":[' + b"1," * BUNDLE_MESSAGES + b"1]}\n",
    "no topic": bundle({"topic": None}),
    "topic a number": bundle({"topic": 1}),
    "topic empty": bundle({"topic": ""}),
    "topic with wildcard": bundle({"topic": "a/#"}),
    "topic with NUL": bundle({"topic": "a\0"}),
    "topic too long": bundle({"topic": "x" * 65_536}),
    "sequence zero": bundle({"sequence": 0}),
    "sequence true": bundle({"sequence": True}),
    "unordered two": bundle({"unordered": 2}),
    "unordered true": bundle({"unordered": True}),
    "sequence float": bundle({"sequence": 1.0}),
    "sequence huge": b'{"groups":[{"topic":"t","sequence":' + b"9" * 100_000 + b',"at":1,"length":0}]}\n',
    "sequence past the end": bundle({"sequence": 2**50 - 1, "length": 1, "count": 4}),
    "no time": bundle({"at": None}),
    "time a float": bundle({"at": 1.5}),
    "no length": bundle({"length": None}),
    "length negative": bundle({"length": -4}),
    "length too small": bundle({"length": 3}),
    "length too large": bundle({"length": 5}),
    "length 2**64 - 1": bundle({"length": 2**64 - 1}),
    "count zero": bundle({"count": 0}),
    "count negative": bundle({"length": -2, "count": -2}),
    "count huge": bundle({"length": 0, "count": 2**63}, b""),
    "count of nothing": bundle({"length": 0, "count": BUNDLE_MESSAGES + 1}, b""),
    "count a string": bundle({"count": "1"}),
    "lengths empty": bundle({"lengths": []}, b""),
    "lengths no list": bundle({"lengths": 4}),
    "lengths negative": bundle({"lengths": [5, -1]}),
    "lengths true": bundle({"lengths": [3, True]}),
    "lengths nested": bundle({"lengths": [[4]]}),
    "lengths short": bundle({"lengths": [1, 2]}),
    "lengths long": bundle({"lengths": [1, 4]}),
    "lengths huge": bundle({"lengths": [2**63, 2**63]}),
    "lengths too many": bundle({"lengths": [0] * (BUNDLE_MESSAGES + 1)}, b""),
    "type empty": bundle({"type": ""}),
    "type too long": bundle({"type": "é" * 128}),
    "type a number": bundle({"type": 1}),
    "json 2": bundle({"json": 2}),
    "json true": bundle({"json": True}),
    "retain 3": bundle({"retain": 3}),
    "retain negative": bundle({"retain": -1}),
    "several kept values": bundle({"retain": KEPT, "length": 2, "count": 2}),
    "lifespan negative": bundle({"lifespan": -1}),
    "lifespan a float": bundle({"lifespan": 0.5}),
    "trailing bytes": bundle({}) + b"x",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_bundle_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBundleError):
        decode(body)


def test_the_sound_bundle_that_the_hostile_ones_are_made_of_is_taken() -> None:
    assert decode(bundle({}))[0].payloads == [b"abcd"]
    assert decode(bundle({"sequence": 2**50 - 3, "length": 1, "count": 4}))[0].sequence == 2**50 - 3
    assert len(decode(bundle({"length": 0, "count": BUNDLE_MESSAGES}, b""))[0].payloads) == BUNDLE_MESSAGES


def test_messages_claimed_by_many_groups_are_bounded_together() -> None:
    entry = {"topic": "t", "sequence": 1, "at": AT, "length": 0, "count": BUNDLE_MESSAGES // 2}
    assert len(decode(orjson.dumps({"groups": [entry] * 2}) + b"\n")) == 2
    with pytest.raises(MalformedBundleError):
        decode(orjson.dumps({"groups": [entry] * 2 + [entry | {"count": 1}]}) + b"\n")


def test_unknown_keys_of_a_later_version_are_ignored() -> None:
    assert decode(bundle({"colour": {"deep": [1]}}))[0].payloads == [b"abcd"]


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 64, 100, BUNDLE_MESSAGES])
@pytest.mark.parametrize("length", [0, 1, 16])
def test_equal_payloads_are_cut_apart_whatever_their_number(count: int, length: int) -> None:
    payloads = [number.to_bytes(length, "big") if length > 1 else bytes(length) for number in range(count)]
    assert decode(encode([group_of("t", payloads)]))[0].payloads == payloads


@given(st.lists(st.tuples(groups_of_any_kind, st.integers(1, 3)), min_size=1, max_size=12), st.integers(200, 3000))
def test_a_best_effort_bundle_fits_its_frame_and_keeps_the_order(
    published: list[tuple[MessageGroup, int]], frame_size: int
) -> None:
    outbox = BundleOutbox()
    outbox.frame_size = frame_size
    sent: dict[str, list[bytes]] = {}
    for group, copies in published:
        for copy in range(copies):
            payloads = list(group.payloads)
            more = MessageGroup(group.topic, copy * len(payloads) + 1, AT, payloads, group.length, group.type)
            sent.setdefault(group.topic, []).extend(payloads)
            outbox.add((("peer",), NORMAL), False, more, 1.0, ())
    arrived: dict[str, list[bytes]] = {}
    for outbound in outbox.flush():
        body = outbound.bodies[0]
        groups = decode(body)
        assert len(body) <= frame_size or sum(len(group.payloads) for group in groups) == 1
        for group in groups:
            arrived.setdefault(group.topic, []).extend(group.payloads)
    assert arrived == sent
    assert outbox.flush() == []


def test_the_longest_index_of_an_honest_bundle_is_taken() -> None:
    outbox = BundleOutbox()
    topics = [f"{number:02}" + letter * (65_535 - 2) for letter in "x\1" for number in range(50)]
    for topic in topics:
        outbox.add((("peer",), NORMAL), True, group_of(topic, [b""]), 1.0, ())
    bodies = [item.bodies[0] for item in outbox.flush()]
    assert [group.topic for body in bodies for group in decode(body)] == topics
    assert 0.99 * BUNDLE_SIZE < max(map(len, bodies)) < INDEX_LIMIT


@pytest.mark.parametrize("count", [5, BUNDLE_MESSAGES])
def test_a_bundle_is_whole_and_no_larger_than_estimated_with_the_largest_numbers(count: int) -> None:
    sequence, position = SEQUENCE_LIMIT - count, SEQUENCE_LIMIT - 2 * BUNDLE_MESSAGES
    payloads = [bytes(BUNDLE_SIZE // BUNDLE_MESSAGES)] * count
    group = MessageGroup(
        "t",
        sequence,
        -INTEGER_LIMIT,
        payloads,
        len(payloads[0]),
        "T",
        True,
        KEEP,
        INTEGER_LIMIT,
        position,
        ordered=False,
    )
    assert len(encode([group])) <= cost(group, None)
    outbox = BundleOutbox()
    outbox.add((("peer",), NORMAL), True, group, 1.0, ())
    arrived = [payload for item in outbox.flush() for payload in decode(item.bodies[0])[0].payloads]
    assert arrived == payloads


@pytest.mark.parametrize("codec", [1, 3, "own"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_lone_large_array_stays_in_the_memory_of_its_bundle_at_a_multiple_of_64(codec: Any, count: int) -> None:
    payload = bytes(range(256)) * (VIEW_FROM // 256)
    group = group_of("array", [payload] * count, metadata=Metadata({"unit": "K"}, codec))
    body = encode([group])
    (back,) = decode(body)
    assert content(back) == content(group)
    stays = isinstance(back.payloads[0], memoryview)
    assert stays == (codec == 3 and count == 1)
    if stays:
        assert memoryview(back.payloads[0]).obj is body
        assert (body.index(b"\n") + 1) % 64 == 0
        assert isinstance(decode(body.replace(b"\n", b" \n", 1))[0].payloads[0], bytes)  # elsewhere, it is copied
