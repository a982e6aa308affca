"""`glue play` without a network: what is selected, when it leaves, and what is told of it."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue import codecs
from glue.capture.messages import Published
from glue.cmd import common, play, played
from glue.cmd.played import Playable, Recordings, Selection, Trace
from glue.codecs import UnknownCodecError
from glue.contract.metadata import Metadata
from glue.endpoint.core import id_of
from tests.cmd.prepared import Calls, Time, people, programs

S = 10**9


def given(**changed: Any) -> Any:
    return Namespace(**{
        "topics": None, "publisher": None, "capture_point": None, "seek": 0.0, "speed": 1.0, "wait_for": None,
        "trace_network_id": None, **changed,
    })  # fmt: skip


def one(second: float, topic: str = "t", payload: bytes = b"1", **changed: Any) -> Playable:
    fields: dict[str, Any] = {
        "json": True, "codec": None, "properties": {}, "type": None, "retain": False, "lifespan": None,
        "reliable": True,
    }  # fmt: skip
    return Playable(int(second * S), topic, payload, **{**fields, **changed})


def test_topics_and_publishers_are_selected_by_pattern_and_by_name_or_id() -> None:
    every, some = Selection(given()), Selection(given(topics=["a/#", "b"], publisher=["hall"]))
    assert every.has("x", "any", None)
    assert [some.has(*told) for told in (
        ("a/x", "hall"), ("b", None, "hall"), ("b", id_of("hall"), None), ("c", "hall"), ("b", "attic"), ("b", None),
    )] == [True, True, True, False, False, False]  # fmt: skip
    for pattern in ("a#", "$glue/x"):
        with pytest.raises(glue.TopicError):
            Selection(given(topics=[pattern]))


class Reader:
    """A recording, from `start` on if it is asked for."""

    path = "a.mcap"

    def __init__(self, *seconds: float, indexed: bool = True, fault: str | None = None) -> None:
        self._seconds = seconds
        self.start_ns = int(seconds[0] * S) if indexed else 0
        self.stop_ns = int(seconds[-1] * S) if indexed else 0
        self.fault = fault
        self.asked: list[Any] = []

    def messages(self, start_ns: int | None) -> Any:
        self.asked.append(start_ns)
        for second in self._seconds:
            yield SimpleNamespace(
                time_ns=int(second * S), topic="$glue/x" if second == 7 else "t", payload=b"1", json=True, codec=None,
                properties={}, type="T", retained=True, publisher="hall", publisher_id="h",
            )  # fmt: skip


@pytest.mark.parametrize(("indexed", "seek", "start", "times", "left_out"), [
    (True, 0.0, None, [5, 6, 8, 9], 1), (True, 2.0, 7, [8, 9], 3), (False, 2.0, None, [8, 9], 3),
    (False, 0.0, None, [5, 6, 8, 9], 1),
])  # fmt: skip
def test_recordings_are_merged_from_where_they_are_to_begin(
    indexed: bool, seek: float, start: int | None, times: list[int], left_out: int
) -> None:
    readers: Any = [Reader(6, 9, indexed=indexed, fault="cut"), Reader(5, 7, 8, indexed=indexed)]
    source = Recordings(readers, given(seek=seek))
    shares, found = [source.share], []
    for message in source:
        found.append(message.time_ns // S)
        shares.append(source.share)
    assert (found, source.left_out) == (times, left_out)
    assert readers[0].asked == [None if start is None else start * S]
    if not indexed:
        assert source.share == 0.0
    else:
        assert shares == [0.0, *((second - 5) / 4 for second in times)]
    assert source.faults() == [("a.mcap", "cut")]
    assert source.counters() == Counter()
    first = next(iter(Recordings(readers, given())))
    assert (first.type, first.retain, first.lifespan, first.reliable) == ("T", True, None, True)
    assert [*Recordings(readers, given(publisher=["attic"]))] == []


def test_a_trace_has_a_share_and_faults() -> None:
    captures: Any = [SimpleNamespace(position=30, size=100, path="a", fault=None),
                     SimpleNamespace(position=10, size=60, path="b", fault="cut")]  # fmt: skip
    trace = Trace(captures, given(), 1, 1000)
    assert trace.share == 0.25
    smallest: Any = [SimpleNamespace(position=1, size=1)]
    assert Trace(smallest, given(), 1, 1000).share == 1.0
    assert trace.faults() == [("b", "cut")]
    assert Trace([], given(), 1, 1000).share == 0.0
    settings: Any = SimpleNamespace(network_id=7)
    assert [played.network_of(given(trace_network_id=number), settings) for number in (None, 0, 3)] == [7, 0, 3]


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({}, [5, 6, 7, 8]),
        ({"seek": 1.5}, [7, 8]),
        ({"seek": 2.0}, [7, 8]),
        ({"topics": ["a"]}, [6]),
        ({"publisher": ["hall"]}, [5, 8]),
    ],
)
def test_a_trace_gives_what_is_selected_from_a_time_on(options: dict[str, Any], times: list[int]) -> None:
    trace: Any = Trace([], given(**options), 7, 1000)
    hall, attic = id_of("hall"), id_of("attic")
    about = Metadata({"unit": "C"}, 3)
    trace._published = lambda: [
        Published(second * S, publisher, 1, topic, 1, b"1", True, "T", True, 2.0, False, 0, metadata)
        for second, publisher, topic, metadata in (
            (5, hall, "t", about), (6, attic, "a", None), (7, attic, "t", None), (8, hall, "u", None),
        )
    ]  # fmt: skip
    found = [*trace]
    assert ([one.time_ns // S for one in found], trace.left_out) == (times, 4 - len(times))
    last = found[-1]
    assert (last.type, last.retain, last.lifespan, last.reliable, last.json) == ("T", True, 2.0, False, True)
    assert [(one.properties, one.codec) for one in found] == [
        ({"unit": "C"}, 3) if time == 5 else ({}, None) for time in times
    ]


# ---------------------------------------------------------------------------------------------- publishing


def played_at(
    monkeypatch: pytest.MonkeyPatch, messages: list[Playable], done: play.Played | None = None, **options: Any
) -> tuple[list[Any], play.Played, Time, Any]:
    clock, left = Time(), list[Any]()
    monkeypatch.setattr(play, "time", clock)
    monkeypatch.setattr(common, "pause", clock.sleep)
    monkeypatch.setattr(play, "publish", lambda endpoint, *what, **how: left.append((clock.now - 1000.0, *what, how)))
    there: Any = Calls(wait_for_subscribers=True)
    progress: Any = Calls()
    counts = done or play.Played()

    class Messages:
        share = 0.5

        def __iter__(self) -> Any:
            return iter(messages)

    source: Any = Messages()
    play.play(there, source, given(**options), counts, progress)
    return left, counts, clock, (there, progress)


def test_messages_leave_when_they_did_with_all_that_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [one(5), one(6.5, "u", b"raw", json=False, retain=True, lifespan=2.0, reliable=False, type="T",
                            properties={"a": "b"})]  # fmt: skip
    left, counts, clock, (there, progress) = played_at(monkeypatch, messages)
    plain = {
        "type": None,
        "retain": False,
        "lifespan": None,
        "reliability": "reliable",
        "codec": None,
        "properties": None,
    }
    other = {"type": "T", "retain": True, "lifespan": 2.0, "reliability": "best-effort", "codec": None,
             "properties": {"a": "b"}}  # fmt: skip
    assert left == [(1.0, "t", 1, plain), (2.5, "u", b"raw", other)], "after a second to listen"
    assert clock.naps == [1.0, 0.5, 0.5, 0.5]
    assert (counts.messages, counts.bytes, counts.seconds, counts.behind) == (2, 4, 1.5, 0.0)
    assert there.calls == []
    assert progress.calls[0] == ("wait", "t")
    assert len([call for call in progress.calls if call[0] == "tell"]) == 5
    assert progress.calls[1] == ("tell", counts, 0.5)
    left, counts, clock, (there, _) = played_at(monkeypatch, messages, speed=2.0, wait_for=3)
    assert [entry[0] for entry in left] == [0.0, 0.75]
    assert there.calls == [("wait_for_subscribers", "t", 3, common.NAP)]
    left, counts, clock, _ = played_at(monkeypatch, messages, speed=0.0)
    assert [entry[0] for entry in left] == [1.0, 1.0]
    assert counts.behind == 0.0
    again = play.Played(messages=5, seconds=10.0)
    left, counts, _, (there, progress) = played_at(monkeypatch, messages, again)
    assert [entry[0] for entry in left] == [0.0, 1.5], "only the first round listens first"
    assert (counts.messages, counts.seconds) == (7, 11.5)
    assert ("wait", "t") not in progress.calls


def test_what_cannot_be_decoded_is_counted_by_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    left, counts, _, _ = played_at(monkeypatch, [one(5, payload=b"{"), one(6), one(7, codec=777)])
    assert [entry[0] for entry in left] == [1.0]
    assert sum(counts.counters.values()) == 2
    assert counts.counters["payloads that are not what they say"] == 1
    assert play.cause_of(UnknownCodecError("none")) == "payloads without their codec: none"
    assert play.cause_of(glue.MissingExtraError("x")) == "payloads without their codec: x"


def test_a_payload_is_published_as_the_value_that_it_was() -> None:
    value = {"a": [1, b"x"]}
    packed = bytes(codecs.codec_named("msgpack").encode(value))
    tag = codecs.tag_of("msgpack")
    assert play.payload_of(one(5, payload=packed, json=False, codec=tag)) == (value, "msgpack")
    assert play.payload_of(one(5, payload=b'{"a": 1}')) == ({"a": 1}, None)
    assert play.payload_of(one(5, payload=b'{"a": 1}', json=False)) == (b'{"a": 1}', None)


def test_a_progress_is_told_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(play, "time", clock)
    line: Any = Calls()

    def tell(output: Any) -> None:
        progress = play.ReplayProgress(output, line)
        for pause in (0.0, 0.4, 0.1, 0.6):
            clock.now += pause
            progress.tell(play.Played(messages=1234, bytes=5, seconds=1234.56), 0.25)
        progress.wait("a\x1b")

    event = {"event": "progress", "share": 0.25, "messages": 1234, "bytes": 5}
    assert programs(tell) == [event] * 3
    assert line.calls == [*[("tell", "1,234.6 s of the trace  1,234 messages", 0.25)] * 3,
                          ("tell", r"waiting for subscribers of a\x1b")]  # fmt: skip


def told(
    network_id: int | None = None, sealed: int = 0, key: str | None = None, seek: float = 0.0, **changed: Any
) -> Any:
    codes: list[int] = []
    counts = play.Played(**changed)
    text = people(lambda output: codes.append(play.report(given(seek=seek), output, counts, network_id, sealed, key)))
    return codes[0], text.splitlines()


def test_what_was_played_is_told() -> None:
    code, lines = told(
        7, messages=1234, bytes=5678, seconds=9.87, behind=1.2345, faults=[("a.pcap", "bad block")],
        counters=Counter(b=2, a=0),
    )  # fmt: skip
    assert (code, lines) == (0, [
        "1,234 messages, 5,678 bytes, of 9.9 s; at most 1,234 ms late", "a.pcap: read up to a fault: bad block",
    ])  # fmt: skip
    assert told(left_out=3)[0] == 0
    assert told()[1][1:] == ["there is no message in it"]
    assert told(7)[1][1] == "there is no message of network 7 in it; --trace-network-id names another"
    assert (
        told(7, seek=5.0)[1][1]
        == "there is no message of network 7 in it after --seek; --trace-network-id names another"
    )
    assert told(7, 1200)[1][1].endswith("in it; 1,200 frames of it are sealed: name their key with --key")
    assert told(7, 1, "k")[1][1].endswith("in it; 1 frames of it are sealed: k does not open them")
    assert told(7)[0] == 1
    counts = play.Played(counters=Counter(b=2, a=0), left_out=4, messages=1)
    (event,) = programs(lambda output: play.report(given(), output, counts, 7, 0, None))
    assert (event["counters"], event["left_out"]) == ({"b": 2}, 4)


def test_a_round_adds_what_it_left_out() -> None:
    counts = play.Played(left_out=2, counters=Counter(a=1))
    source: Any = SimpleNamespace(left_out=3, counters=lambda: Counter(a=1, b=1), faults=lambda: [("x", "y")])
    play.note(source, counts)
    assert (counts.left_out, counts.counters, counts.faults) == (5, Counter(a=2, b=1), [("x", "y")])


@pytest.mark.parametrize(("loop", "found", "rounds"), [("1", 1, 1), ("3", 1, 3), ("3", 0, 1)])
def test_rounds_are_played_as_often_as_asked_for(
    loop: str, found: int, rounds: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened, closed = list[Any](), list[int]()
    there: Any = Calls(flush=True)
    there.name = "me"
    source = SimpleNamespace(left_out=1, counters=Counter, faults=list)
    monkeypatch.setattr(play, "open_endpoint", lambda *_, **options: nullcontext(there))

    def open_source(stack: Any, arguments: Any, settings: Any) -> Any:
        assert len(closed) == len(opened), "one at a time"
        opened.append((arguments.captures, settings.network_id))
        stack.callback(closed.append, 1)
        return source

    def run(endpoint: Any, played_one: Any, arguments: Any, counts: play.Played, progress: Any) -> None:
        assert (endpoint, played_one, arguments.loop) == (there, source, int(loop))
        counts.messages += found
        progress.wait("t")
        progress.tell(counts, 0.5)

    monkeypatch.setattr(play, "open_source", open_source)

    monkeypatch.setattr(play, "play", run)
    assert play.main(["a", "b", "--loop", loop]) == 0
    assert len(opened) == rounds
    assert [call[0] for call in there.calls] == ["flush"]
    assert closed == [1] * rounds, "a round reads its own"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "playing a b as me; Ctrl-C ends"
    assert lines[1].startswith(f"{found * rounds} messages, ")


def test_a_round_that_is_ended_in_the_middle_tells_what_it_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there: Any = Calls(flush=True)
    there.name = "me"
    source = SimpleNamespace(left_out=4, counters=lambda: Counter(lost=2), faults=lambda: [("a", "cut off")])
    monkeypatch.setattr(play, "open_endpoint", lambda *_, **options: nullcontext(there))
    monkeypatch.setattr(play, "open_source", lambda *_: source)

    def run(*_: Any) -> None:
        raise common.Ended

    monkeypatch.setattr(play, "play", run)
    assert play.main(["a", "--json"]) == 0
    *_, told, fault = map(json.loads, capsys.readouterr().out.splitlines())
    assert (told["event"], told["left_out"], told["counters"]) == ("played", 4, {"lost": 2})
    assert (fault["event"], fault["file"], fault["fault"]) == ("fault", "a", "cut off")
