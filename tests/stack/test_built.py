"""The stack of an endpoint as its settings have it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from glue.contract.metadata import Metadata
from glue.settings import effective
from glue.stack import LAYERS, Identity, Stack, bundle_limit
from glue.topics import BUNDLE_SIZE
from glue.topics.bundle import KEEP, SEQUENCE_LIMIT, MessageGroup, encode

CONTROL = "\x01"  # six bytes in JSON, more than any other


def identity(**keywords: Any) -> Identity:
    return Identity("kitchen", "0123456789abcdef", 5, effective(keywords, {}), Random(1))


def first_turn(**keywords: Any) -> list[tuple[Any, bytes]]:
    """Address and bytes of all that a new endpoint sends at once."""
    stack = Stack.build(identity(**keywords), {})
    stack.fit(1472)
    events, trains = stack.turn(100.0, (), [])
    assert events == []
    return [(train.address, bytes(train.data)) for train in trains]


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({}, b'"interval_ms":1000,'), ({"announce_interval": 0.25}, b'"interval_ms":250,'),
        ({"network_id": 7}, b'{"glue":[1,7,"0123456789abcdef",5,0]'), ({"sleep": 2.0}, b'"rest":2,'),
        ({"sleep": 2.1}, b'"rest":3,'), ({}, b'"name":"kitchen"'),
    ],
)  # fmt: skip
def test_an_endpoint_announces_what_its_settings_say(keywords: dict[str, Any], expected: bytes) -> None:
    ((address, data),) = first_turn(**keywords)
    assert address is None
    assert expected in data
    assert (b'"rest"' in data) == ("sleep" in keywords)


def test_the_addresses_of_peers_are_called_beside_the_multicast() -> None:
    sent = first_turn(peers=["10.0.0.5:7000", "10.0.0.6"])
    assert [address for address, _ in sent] == [None, ("10.0.0.5", 7000), ("10.0.0.6", 37319)]
    assert all(b'"call"' in data for address, data in sent if address)


def test_layers_have_their_counters_and_nothing_waits_at_first() -> None:
    stack = Stack.build(identity(), {})
    stack.commit()
    assert [*stack.statistics] == [*stack.layers] == [*LAYERS]
    assert (stack.backlog, stack.unfinished) == (0, 0)


def test_the_largest_message_fits_whatever_topic_type_codec_and_properties_it_has() -> None:
    properties = {f"{number:02}": CONTROL * 126 for number in range(64)}
    metadata = Metadata(properties, CONTROL * 64)
    group = MessageGroup(
        CONTROL * 65_535, SEQUENCE_LIMIT, 2**53 - 1, [b"x" * BUNDLE_SIZE], BUNDLE_SIZE, CONTROL * 255, False, KEEP,
        2**53 - 1, SEQUENCE_LIMIT - 1, False, metadata,
    )  # fmt: skip
    assert len(encode([group])) <= bundle_limit(BUNDLE_SIZE)
    assert bundle_limit(1) == bundle_limit(BUNDLE_SIZE) == bundle_limit(BUNDLE_SIZE + 1) - 1
