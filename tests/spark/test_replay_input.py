"""What a replay makes of captures: who is where, what reached an endpoint, what senders offered. No Spark needed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from glue.contract import Address, Subscribe, Unsubscribe
from glue.settings import effective
from spark.read import CaptureError
from spark.replay import engine
from spark.replay.engine import Captured, replay
from spark.replay.offered import Offer, Offered, _links, _read, _seconds
from spark.replay.trace import endpoints, inbound
from spark.replay.what_if import outcome
from tests.spark.captures import GOLDEN, interface, packet, section
from tests.spark.truth import GROUP, Frame, ethernet

HALL, YARD = "00000000000000a0", "00000000000000b0"
AT_HALL, AT_YARD = ("10.0.0.1", 5000), ("10.0.0.2", 6000)
OUT, IN = 2, 1
NS = 10**9


def announcement(
    sender: str, name: str | None, version: int | None = 0, operations: tuple[str, ...] = (), kind: str = "announce"
) -> bytes:
    head = b'{"glue":[1,1,"%s",5,1],"discovery":[0,0,null,null,"%s"]}\n' % (sender.encode(), kind.encode())
    body = {"name": name, "interval_ms": 1000, "version": version, "operations": operations}
    return head + json.dumps({key: value for key, value in body.items() if value is not None}).encode()


Seen = tuple[int, int, int | None, Address, Address, bytes]
"""Place of the capture point, time, direction, source, destination, datagram."""


def captured(directory: Path, points: list[str], seen: list[Seen]) -> list[str]:
    """A capture with these points."""
    described = b"".join(interface(description=f"glue capture point: {name}") for name in points)
    packets = [
        packet(ethernet(Frame(time, source, destination, data)), time, interface=point, flags=direction)
        for point, time, direction, source, destination, data in seen
    ]
    (directory / "trace.pcapng").write_bytes(section() + described + b"".join(packets))
    return [str(directory)]


@pytest.mark.parametrize(
    ("points", "places", "home"),
    [
        (["p", "q"], [(0, None)] * 2 + [(1, None)] * 3, "q"),
        (["p", "q"], [(0, None)] * 3 + [(1, None)] * 2, "p"),
        (["p", "q"], [(0, OUT)] + [(1, IN)] * 5, "p"),
        (["p", "q"], [(0, OUT)] + [(1, OUT)] * 2, "q"),
        (["p", "hall"], [(0, None), (1, None)], "hall"),
        (["q", "p"], [(0, None), (1, None)], "p"),
        (["p", "hall"], [(0, None), (0, None), (1, None)], "p"),
    ],
)
def test_an_endpoint_is_at_home_where_most_of_it_left_or_else_was_seen(
    tmp_path: Path, points: list[str], places: list[tuple[int, int | None]], home: str
) -> None:
    data = announcement(HALL, "hall")
    paths = captured(tmp_path, points, [(point, 1, way, AT_HALL, GROUP, data) for point, way in places])
    assert endpoints(paths) == {"hall": (HALL, home)}


def test_endpoints_have_their_latest_life_and_those_without_a_name_are_none(tmp_path: Path) -> None:
    data = [announcement(YARD, "hall"), announcement(HALL, "hall"), announcement(HALL, "attic"), GOLDEN["data"]]
    paths = captured(tmp_path, ["p"], [(0, 1, None, AT_HALL, GROUP, one) for one in data])
    assert endpoints(paths) == {"hall": (HALL, "p"), "attic": (HALL, "p")}
    with pytest.raises(CaptureError, match=r"'yard' announces itself; there are attic, hall$"):
        inbound(paths, "yard")
    nobody = captured(tmp_path, ["p"], [(0, 1, None, AT_HALL, GROUP, GOLDEN["data"])])
    with pytest.raises(CaptureError, match=r"no endpoint 'hall' announces itself; there are none$"):
        inbound(nobody, "hall")


def test_what_reached_an_endpoint_is_what_its_home_saw_for_it_by_time(tmp_path: Path) -> None:
    data, own = GOLDEN["data"], announcement(HALL, "hall", 3, ("+a", "-b"))
    elsewhere: Address = ("10.0.0.3", 5000)
    seen: list[Seen] = [
        (0, 70, IN, AT_YARD, GROUP, data),
        (0, 10, OUT, AT_HALL, GROUP, own),
        (0, 20, OUT, AT_HALL, GROUP, announcement(HALL, "hall", 3)),
        (0, 30, OUT, AT_HALL, AT_YARD, announcement(HALL, "hall", 3, ("+a",), "answer")),
        (0, 35, OUT, AT_HALL, GROUP, announcement(HALL, "hall", None)),
        (0, 40, IN, AT_YARD, AT_HALL, data),
        (0, 50, IN, AT_YARD, (AT_HALL[0], 5001), data),
        (0, 60, IN, AT_YARD, elsewhere, data),
        (1, 5, IN, AT_YARD, GROUP, data),
    ]
    assert inbound(captured(tmp_path, ["p", "q"], seen), "hall") == [
        Captured(10, AT_HALL, b"", (1, ("+a", "-b"))),
        Captured(20, AT_HALL, b"", (3, ())),
        Captured(40, AT_YARD, data),
        Captured(70, AT_YARD, data),
    ]


# ------------------------------------------------------------------------------------------------- engine


def test_an_endpoint_subscribes_once_to_what_it_announces_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, type, str]] = []
    turn = engine._turn

    def watched(core: Any, told: Any, zero: int, now: float, trains: Any, requests: Any) -> None:
        asked.extend((now, type(request), request.token) for request in requests)
        turn(core, told, zero, now, trains, requests)

    monkeypatch.setattr(engine, "_turn", watched)
    waited: list[int] = []
    own = [(0, ("+a", "+b")), (0, ("+a", "+b")), (1, ("+b", "-a")), (0, ("+a",)), (2, ("-a", "+c")), (9, ("+d", "-b"))]
    trace = [Captured(7 + number * NS // 2, AT_HALL, b"", one) for number, one in enumerate(own)]
    told = replay(trace, effective({"name": "hall"}, {}), waited.append)
    assert asked == [
        (0.0, Subscribe, "a"), (0.0, Subscribe, "b"), (1.0, Unsubscribe, "a"), (2.0, Subscribe, "c"),
        (2.5, Subscribe, "d"), (2.5, Unsubscribe, "b"),
    ]  # fmt: skip
    assert waited == [one.time for one in trace]
    assert (told.messages, told.peers, told.message_count) == ([], [], 0)


@pytest.mark.parametrize(("intervals", "expired"), [("5", 6), ("2", 3)])
def test_what_happens_is_told_with_the_time_of_the_trace(intervals: str, expired: int) -> None:
    first = 1_700_000_000_000_000_123
    trace = [
        Captured(first, AT_HALL, b"", (0, ("+t",))), Captured(first + NS, AT_YARD, GOLDEN["announcement"]),
        Captured(first + 60 * NS, AT_YARD, b"noise"), Captured(first + 61 * NS, AT_YARD, b""),
    ]  # fmt: skip
    told = replay(trace, effective({"name": "yard"}, {"GLUE_LEASE_INTERVALS": intervals}))
    assert told.peers == [(first + NS, "hall", "found"), (first + expired * NS, "hall", "expired")]
    assert told.statistics["serialization"]["malformed header"] == 2
    whole = outcome("yard", trace, {"lease_intervals": intervals})
    assert [whole[name] for name in ("found", "expired", "goodbye", "restarted", "messages")] == [1, 1, 0, 0, 0]


def test_only_so_many_timers_run_in_a_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = [Captured(0, AT_HALL, GOLDEN["announcement"]), Captured(3600 * NS, AT_HALL, b"noise")]
    sent = []
    for most in (4, 5):
        monkeypatch.setattr(engine, "MOST_TURNS", most)
        sent.append(replay(trace, effective({"name": "yard"}, {})).statistics["serialization"]["datagrams sent"])
    assert sent[0] < sent[1] < 20


# ------------------------------------------------------------------------------------------------- senders


def analysis(**given: Any) -> Any:
    """As much of an analysis as an offer is made of."""
    return SimpleNamespace(**{"points": ["p", "q"], "relations": {}, "start_ns": 100 * NS, "namesakes": {}, **given})


class Piece:
    """How much the second clock is ahead, up to a time of the first one."""

    def __init__(self, stop: float, ahead: int) -> None:
        self.stop, self.offset, self._ahead = stop, float(ahead), ahead

    def at(self, _: int) -> float:
        return float(self._ahead)


def test_times_are_seconds_of_the_first_clock_since_the_first_frame() -> None:
    pieces = (Piece(110 * NS, 5 * NS), Piece(120 * NS, 7 * NS))
    of = analysis(relations={(0, 1): pieces})
    assert [_seconds(of, 0, at * NS) for at in (99, 100, 103)] == [-1.0, 0.0, 3.0]
    assert [_seconds(of, 1, at * NS) for at in (105, 115, 116, 127)] == [0.0, 10.0, 9.0, 20.0]
    assert _seconds(of, 1, 128 * NS) == 28.0, "no relation is known then"
    assert _seconds(analysis(relations={(0, 1): (Piece(float("inf"), 5 * NS),)}), 1, 900 * NS) == 795.0


def test_links_repeat_losses_and_delays_between_homes_by_time() -> None:
    rows = [
        (0, 1, 102, 2_000_000, False), (0, 1, 101, None, True), (0, 1, 103, -5, False), (0, 1, 104, None, False),
        (1, 0, 105, 7_000_000, False), (2, 1, 106, 9, False),
    ]  # fmt: skip
    names = ("home", "receiver", "sent_ns", "under_way_ns", "lost")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    types = (pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.bool_())
    table = pa.table({name: pa.array(columns[name], of) for name, of in zip(names, types, strict=True)})
    asked: list[Any] = []

    class Deliveries:
        def where(self, condition: str) -> Any:
            asked.append(condition)
            return self

        def select(self, *names: str) -> Any:
            return SimpleNamespace(toArrow=lambda: table.select(names))

    of = analysis(points=["p", "q", "r"], tables={"deliveries": Deliveries()}, start_ns=100)
    found = _links(of, {"hall": "p", "yard": "q", "attic": "q"})
    there = ([1e-9, 2e-9, 3e-9, 4e-9], [None, 0.002, 0.0, 0.0005])
    assert found == {
        ("hall", "yard"): there, ("hall", "attic"): there, ("yard", "hall"): ([5e-9], [0.007]),
        ("attic", "hall"): ([5e-9], [0.007]),
    }  # fmt: skip
    assert asked == ["lost is not null"]


def test_messages_and_interests_are_offered_as_their_publishers_homes_saw_them(tmp_path: Path) -> None:
    data = GOLDEN["data"]  # of the endpoint e36…, on home/kitchen/temperature
    kitchen, other = "e36759dea8a54260", data.replace(b"home/kitchen", b"$glue/kitchn").replace(b",1,0]", b",1,1]")
    later = data.replace(b'"sequence":1', b'"sequence":2').replace(b",1,0]", b",1,2]")
    seen: list[Seen] = [
        (0, 109 * NS, None, AT_HALL, GROUP, later), (0, 102 * NS, None, AT_HALL, GROUP, data),
        (0, 103 * NS, None, AT_HALL, GROUP, data), (0, 104 * NS, None, AT_HALL, GROUP, other),
        (1, 101 * NS, None, AT_HALL, GROUP, data),
        (1, 107 * NS, None, AT_YARD, GROUP, announcement(YARD, "yard", 3, ("+a", "+$glue/x", "-a"))),
        (1, 108 * NS, None, AT_YARD, GROUP, announcement(YARD, "yard", 4, ("-a", "+b"))),
        (1, 106 * NS, None, AT_YARD, GROUP, announcement(YARD, "yard", 1, ("+a",))),
        (1, 109 * NS, None, AT_YARD, GROUP, announcement(YARD, "yard", 2, ("+a", "+$glue/x"))),
        (0, 105 * NS, None, AT_YARD, GROUP, announcement(YARD, "yard", 1, ("+elsewhere",))),
        (0, 105 * NS, None, AT_YARD, GROUP, announcement(HALL, "hall", 1, ("+nobody",))),
    ]  # fmt: skip
    offer = Offered(["kitchen", "yard"])
    homes = {kitchen: ("kitchen", "p"), YARD: ("yard", "q")}
    _read(offer, captured(tmp_path, ["p", "q"], seen), homes, analysis())
    topic = "home/kitchen/temperature"
    assert offer.messages == [
        Offer(2.0, "kitchen", topic, 4, True, False, None), Offer(9.0, "kitchen", topic, 4, True, False, None),
    ]  # fmt: skip
    assert offer.interests == [(6.0, "yard", "+a"), (7.0, "yard", "-a"), (8.0, "yard", "+b")]
    file = str(tmp_path / "trace.pcapng")
    renamed = Offered(["kitchen"])
    same = analysis(points=["p (1)"], namesakes={("p", file): "p (1)"})
    _read(renamed, [str(tmp_path)], {kitchen: ("kitchen", "p (1)")}, same)
    assert renamed.messages == offer.messages
