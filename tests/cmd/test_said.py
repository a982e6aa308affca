"""What commands say of peers, messages and counters, what they send, and which numbers their options take."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from glue import Peer
from glue.cmd import common, session, traffic
from glue.cmd.output import CommandOutput


def both(say: Callable[[CommandOutput], object]) -> tuple[str, dict[str, Any]]:
    """What people and programs are told."""
    texts = []
    for as_json in (False, True):
        stream = io.StringIO()
        say(CommandOutput(stream, json=as_json, unread=lambda: None))
        texts.append(stream.getvalue())
    fields = json.loads(texts[1])
    return texts[0], {name: value for name, value in fields.items() if name not in ("glue", "format")}


@pytest.mark.parametrize(
    ("option", "taken", "refused"),
    [
        (common.positive_number, {"1e-9": 1e-9, "1000000000": 1e9}, ["0", "-1", "1000000001", "nan"]),
        (common.rate, {"0": 0.0, "0.5": 0.5}, ["-0.1", "inf"]),
        (common.count, {"1": 1, "2": 2}, ["0", "-1"]),
        (common.size, {"0": 0, "7B": 7, "3k": 3000, "3kB": 3000, "10M": 10**7, "2GB": 2 * 10**9}, ["-1", "-1k"]),
    ],
)
def test_numbers_of_options(option: Callable[[str], float], taken: dict[str, float], refused: list[str]) -> None:
    assert {text: option(text) for text in taken} == taken
    for text in refused:
        with pytest.raises(argparse.ArgumentTypeError, match="out of range"):
            option(text)


def test_a_message_of_a_size_says_whose_it_is_and_is_whole() -> None:
    assert traffic.numbered("me", 7, None) == "message 7 from me"
    for size in (0, 1, 7, 8, 9, 40, 1000):
        message = traffic.numbered("me", 7, size)
        assert isinstance(message, bytes)
        assert len(message) == size
        assert traffic.is_intact(message)
        assert traffic.size_of(message) == size
        for place in range(0, size, 7):
            damaged = message[:place] + bytes([message[place] ^ 1]) + message[place + 1 :]
            assert not traffic.is_intact(damaged)
    assert b" message 7 from me 1 2 3 4 " in bytes(traffic.numbered("me", 7, 200))  # type: ignore[arg-type]
    assert not traffic.is_intact("text")
    assert traffic.size_of({"a": 1}) == 8
    assert traffic.size_of({"a": b"1"}) == len("{'a': b'1'}"), "of another program, with a codec"


def test_addresses_as_people_write_them() -> None:
    assert session.address_text(("10.0.0.1", 80)) == "10.0.0.1:80"
    assert session.address_text(("fe80::1", 80, 0, 3)) == "[fe80::1]:80"
    assert session.address_text(None) == ""


def peer(**changed: Any) -> Peer:
    fields: dict[str, Any] = {"name": "hall", "id": "00aa", "incarnation": 3, "address": ("10.0.0.1", 80)}
    return Peer(**{**fields, **changed})


def test_peers_that_come_and_go() -> None:
    text, fields = both(lambda output: session.report_added(output, peer(restarted=True)))
    assert text == f"+ {'hall':{session.NAME_WIDTH}} 10.0.0.1:80 again, restarted\n"
    identity = {"peer": "hall", "id": "00aa", "address": "10.0.0.1:80", "incarnation": 3}
    assert fields == {"event": "peer_added", **identity, "restarted": True}
    assert both(lambda output: session.report_added(output, peer()))[0].endswith("10.0.0.1:80\n")
    text, fields = both(lambda output: session.report_removed(output, peer(reason="expired")))
    assert text == f"- {'hall':{session.NAME_WIDTH}} expired\n"
    assert fields == {"event": "peer_removed", **identity, "reason": "expired"}


def test_counters_are_told_by_name_without_those_that_are_zero() -> None:
    statistics = {"topics": {"zero": 0, "messages": 1234, "a": 1}, "other": {}}
    text, fields = both(lambda output: session.report_statistics(output, "topics", statistics))
    assert text == "\ntopics counted\n  a         1\n  messages  1,234\n"
    assert fields == {"event": "statistics", "layer": "topics", "counters": {"messages": 1234, "a": 1}}
    assert (
        both(lambda output: session.report_statistics(output, "other", statistics))[0] == "\nother counted\n  nothing\n"
    )


def test_a_paced_count_begins_with_one_and_ends() -> None:
    assert list(common.paced(0, 3)) == [1, 2, 3]
    assert list(common.paced(1e6, 2)) == [1, 2]


def test_waiting_for_a_condition_ends_when_it_holds_or_in_time() -> None:
    asked: list[float] = []

    def third(timeout: float) -> bool:
        asked.append(timeout)
        return len(asked) == 3

    assert common.wait_for(third)
    assert asked == [common.NAP] * 3
    assert not common.wait_for(lambda _: False, 0.0)
