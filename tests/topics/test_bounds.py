"""What just fits and what just does not: topics of wills, names of sections, metadata, digests of streams."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from glue.contract import Metadata
from glue.contract.metadata import MEMORY_CODECS
from glue.discovery import exam_wire
from glue.history import eras
from glue.storage import Stream
from glue.topics import bundle
from glue.topics.metadata import metadata_of
from glue.topics.wills import parse_will, will_topic

DIGESTS = ("0b54047b48bc02cc", "5b25d37149afe617", "962a339c8b7450d8")
NAMES_64 = [str(number) for number in range(64)]
OWNER = ("kit/chen ü", "0123456789abcdef", 10**19 - 1)


def test_the_topic_of_a_will_is_read_back_up_to_the_largest_numbers() -> None:
    for number in (0, 1, 10**19 - 1):
        assert parse_will(will_topic(OWNER, number, "a/b")) == (OWNER, number, "a/b")
    for number, incarnation in ((10**19, 1), (1, 10**19), (-1, 1), (1, -1)):
        assert parse_will(will_topic((OWNER[0], OWNER[1], incarnation), number, "a/b")) is None
    assert parse_will(will_topic(("a", "short", 1), 1, "a")) is None
    assert parse_will(will_topic(("a", OWNER[1], 1), 1, "")) is None
    assert parse_will("$glue/will") is None


@pytest.mark.parametrize(
    ("sections", "is_right"),
    [
        (["a"], True), (["a"] * exam_wire.MOST_SECTIONS, True), ([], False),
        (["a"] * (exam_wire.MOST_SECTIONS + 1), False),
        (["a", "n" * exam_wire.MOST_NAME], True), (["a", "n" * (exam_wire.MOST_NAME + 1)], False), (["a", ""], False),
        (["ä", "a"], False), (["a", "\n"], False), (["a", 5], False),
    ],
)  # fmt: skip
def test_sections_to_ask_for_have_names(sections: list[Any], is_right: bool) -> None:
    if is_right:
        assert exam_wire.names(sections) == tuple(dict.fromkeys(sections))
        return
    with pytest.raises(ValueError, match="expected 1 to"):
        exam_wire.names(sections)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, None), ({"properties": {}}, None), ({"codec": "cbor"}, Metadata(None, "cbor")),
        ({"properties": {"a": "b"}}, Metadata({"a": "b"}, None)),
        ({"properties": {"a": "b"}, "codec": "cbor"}, Metadata({"a": "b"}, "cbor")),
        ({"codec": 1}, Metadata(None, 1)), ({"codec": 65_535}, Metadata(None, 65_535)),
        ({"codec": "ü" * 32}, Metadata(None, "ü" * 32)),
        ({"properties": dict.fromkeys(NAMES_64, "")}, Metadata(dict.fromkeys(NAMES_64, ""), None)),
        ({"properties": {"a": "ü" * 4095, "b": ""}}, Metadata({"a": "ü" * 4095, "b": ""}, None)),
    ],
)  # fmt: skip
def test_metadata_of_an_entry(entry: dict[str, Any], expected: Metadata | None) -> None:
    found = metadata_of(entry)
    assert (None if found is None else (dict(found.properties or {}), found.codec)) == (
        None if expected is None else (dict(expected.properties or {}), expected.codec)
    )
    assert (found is None) == (expected is None)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"properties": []}, "properties"), ({"properties": {"a": 1}}, "properties"), ({"codec": "n" * 300}, "codec"),
        ({"codec": "cbor", "json": 1}, "codec"), ({"codec": ""}, "codec"), ({"codec": 0}, "codec"),
        ({"codec": 65_536}, "codec"), ({"codec": True}, "codec"), ({"codec": 1.0}, "codec"), ({"codec": []}, "codec"),
        ({"codec": "ü" * 32 + "a"}, "codec"), ({"codec": "\ud800"}, "codec"),
        ({"properties": {"a": "ü" * 4095, "b": "c"}}, "properties"), ({"properties": {"": "a"}}, "properties"),
        ({"properties": dict.fromkeys([*NAMES_64, "a"], "")}, "properties"),
        ({"properties": {"a": "\ud800"}}, "properties"), ({"properties": {1: "a"}}, "properties"),
    ],
)  # fmt: skip
def test_malformed_metadata_is_named(entry: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        metadata_of(entry)


@pytest.mark.parametrize("codec", [None, "own", 1, 2, 3, 4, 5])
def test_a_large_payload_stays_in_the_memory_of_its_bundle_only_where_its_decoder_takes_that(codec: Any) -> None:
    metadata = None if codec is None else Metadata(None, codec)
    for size, letters in product((bundle.VIEW_FROM - 1, bundle.VIEW_FROM), range(1, bundle.ALIGNMENT + 1)):
        group = bundle.MessageGroup("t" * letters, 1, 0, [bytes(size)], size, metadata=metadata)
        (found,) = bundle.decode(b"".join(bundle.parts([group])))
        (payload,) = found.payloads
        may_stay = size == bundle.VIEW_FROM and codec in MEMORY_CODECS
        assert isinstance(payload, memoryview if may_stay else bytes)
        assert bytes(payload) == bytes(size)


class State:
    """Which messages of a stream are on disk, and when the last one was published."""

    def __init__(self, last_at: float, *durable: tuple[int, int]) -> None:
        self.last_at = last_at
        self.durable = durable


def test_digests_are_those_of_other_versions() -> None:
    limits = eras.borders(1e9)
    assert limits == (int((1e9 - eras.HOT) * 1e6), int((1e9 - eras.WARM) * 1e6))
    assert eras.borders(0.0) == (1, 1)
    assert eras.EraSums(limits).digests == ("0" * 16,) * 3
    streams = [(Stream("0" * 16, 1, f"t/{number}"), State(1e9 - 10**number, (1, 5), (7, 9))) for number in range(9)]
    empty = (Stream("0" * 16, 1, "empty"), State(1e9))
    for order in ([[*streams, empty]], [streams[4:], [], [empty], streams[:4]], [streams[::-1]]):
        sums = eras.EraSums(limits)
        for some in order:
            sums.add(some, {})
        assert sums.digests == DIGESTS
    assert eras.era_of(limits[0] / 1e6, limits) == 0
    assert eras.era_of(limits[1] / 1e6, limits) == 1
    assert eras.era_of(limits[1] / 1e6 - 1, limits) == 2
