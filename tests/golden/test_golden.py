"""The wire format stays what it is: the golden datagrams are still what the layers send, and still mean the same.

Where one of these fails, either the layers broke the format for everyone who speaks it, or it was changed on purpose:
then it is a new version of it, and `python -m tests.golden.make` writes the files anew.
"""

from __future__ import annotations

import pytest

from glue.contract import Delivery, PeerAdded, Subscribe, Train
from glue.serialization import MAX_HEADER
from tests.golden.make import DOCUMENT, EXAMPLE, VECTORS, current, stored, vectors, with_examples
from tests.golden.scenario import DATAGRAM, address, endpoint_id, stack

NAMES = sorted(stored())


@pytest.fixture(scope="module")
def sent() -> dict[str, bytes]:
    return current()


def test_there_is_a_file_for_each_datagram_of_the_scenario(sent: dict[str, bytes]) -> None:
    assert sorted(sent) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_layers_send_what_is_in_the_file(name: str, sent: dict[str, bytes]) -> None:
    assert sent[name] == stored()[name]


def test_the_files_mean_what_is_stated() -> None:
    assert vectors(stored()) == VECTORS.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_datagram_and_its_header_stay_within_their_limits(name: str) -> None:
    datagram = stored()[name]
    assert len(datagram) <= DATAGRAM
    assert datagram.index(b"\n") < MAX_HEADER


def test_an_endpoint_that_gets_the_files_hears_their_messages() -> None:
    datagrams = stored()
    order = ("answer", "data", "json", "fragment-1", "fragment-3", "fragment-2-again", "bundle", "retained")
    hall = stack("hall")
    hall.turn(1000.0, [], [Subscribe("token", "home/#")])
    trains = [Train(address("kitchen"), datagrams[name], len(datagrams[name])) for name in order]
    events, _ = hall.turn(1000.0, trains, [])
    assert [event.peer for event in events if isinstance(event, PeerAdded)] == [endpoint_id("kitchen")]
    heard = [event for event in events if isinstance(event, Delivery)]
    assert [(one.topic, one.sequence, list(one.payloads)) for one in heard] == [
        ("home/kitchen/temperature", 1, [b"\x00\x80\xfe\xff"]),
        ("home/kitchen/temperature", 2, [{"celsius": 21.5}]),
        ("home/kitchen/temperature", 3, [b"".join(b"%05d " % number for number in range(100))]),
        ("home/kitchen/temperature", 4, [b"21.5", b"21.6", b"21.7"]),
        ("home/kitchen/lamp", 1, [b"on", b"", b"off"]),
        ("home/kitchen/lamp", 4, [b"on"]),
    ]


def test_the_examples_of_the_documentation_are_the_golden_datagrams() -> None:
    text = DOCUMENT.read_text()
    assert with_examples(text, stored()) == text
    assert sorted({found["name"] for found in EXAMPLE.finditer(text)}) == NAMES
