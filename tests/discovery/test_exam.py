"""The exam: questions, answers in parts, pings of each direction, and what is refused; in virtual time."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest

from glue.contract import Inbound
from glue.discovery import exam_round
from glue.discovery import exam_wire as wire
from glue.discovery.exam import PARTS_AT_ONCE, Exam
from glue.discovery.inquiry import Inquiry
from glue.discovery.wire import EXAMINE, Envelope
from tests.discovery.lan import DELAY, FRAME, Host, Lan, endpoint_id


def exam(host: Host) -> Exam:
    return host.layer.examined.exam


def ready(count: int, seed: int = 0) -> tuple[Lan, list[Host]]:
    """Endpoints that know each other and tell who they are."""
    lan = Lan(seed)
    hosts = [lan.add(number) for number in range(1, count + 1)]
    for host in hosts:
        exam(host).sections = lambda section, host=host: {"id": host.id} if section == "report" else None
    lan.run(1.5)
    return lan, hosts


def asked(lan: Lan, host: Host, *sections: str, timeout: float = 1.0, seconds: float = 1.5) -> Inquiry:
    """Ask all, and let time pass."""
    inquiry = exam(host).ask(sections, timeout)
    host.due = -math.inf
    lan.run(seconds)
    return inquiry


def pinged(lan: Lan, host: Host, pings: int = 20) -> None:
    exam(host).start_round(pings)
    host.due = -math.inf
    lan.run(1.5)


def link(of: Host, peer: Host) -> dict[str, Any]:
    """What one endpoint knows of the way from a peer."""
    return next(found for found in exam(of).describe_links()["peers"] if found["id"] == peer.id)


def test_all_peers_are_asked_with_one_datagram_and_answer_with_one_each() -> None:
    lan, (one, *others) = ready(4)
    before = len(lan.sent)
    inquiry = asked(lan, one, "report", timeout=0.5, seconds=2.5 * DELAY)
    assert inquiry.is_over
    assert inquiry.answers == {other.id: {"report": {"id": other.id}} for other in others}
    assert inquiry.names == {other.id: f"host {number}" for number, other in enumerate(others, 2)}
    examined = [frame for _, frame in lan.sent[before:] if frame.header["discovery"][-1] == EXAMINE]
    assert len(examined) == 1 + 3


def test_a_section_that_is_not_known_is_null_and_the_others_come() -> None:
    lan, (one, other) = ready(2)
    assert asked(lan, one, "report", "moon").answers[other.id] == {"report": {"id": other.id}, "moon": None}


def test_a_long_section_comes_in_parts_and_too_long_a_one_is_counted() -> None:
    lan, (one, other) = ready(2)
    documents = {"long": list(range(3000)), "too long": "x" * 30_000, "no JSON": object()}
    exam(other).sections = documents.get
    inquiry = asked(lan, one, *documents)
    assert inquiry.answers[other.id] == {"long": documents["long"]}
    assert inquiry.is_over
    assert other.layer.statistics["exam failed"] >= 2


@pytest.mark.parametrize("seed", range(5))
def test_at_30_per_cent_loss_all_of_ten_answer(seed: int) -> None:
    lan, (one, *others) = ready(10, seed)
    lan.loss = 0.3
    assert len(asked(lan, one, "report", timeout=2.0, seconds=2.5).answers) >= len(others) - 2


def test_a_peer_that_is_not_open_tells_nothing_and_the_question_ends_with_its_time() -> None:
    lan, (one, other, closed) = ready(3)
    exam(closed).is_open = False
    inquiry = asked(lan, one, "report", seconds=0.9)
    states = [inquiry.is_over]
    lan.run(0.2)
    assert [*states, inquiry.is_over] == [False, True]
    assert [*inquiry.answers] == [other.id]
    assert closed.layer.statistics["exam refused"] > 0
    pinged(lan, one)
    assert "heard" not in link(one, closed)


def test_the_last_endpoint_alone_asks_nobody_and_is_done_at_once() -> None:
    lan, (one,) = ready(1)
    inquiry = asked(lan, one, "report", seconds=0.001)
    assert inquiry.is_over
    assert inquiry.answers == {}


def test_answers_are_limited_a_second() -> None:
    lan, (one, other) = ready(2)
    exam(other).sections = lambda section: "x" * 15_000
    for _ in range(20):
        asked(lan, one, "report", timeout=0.05, seconds=0.06)
    sent = [frame for source, frame in lan.sent if source is other and b'"answer"' in frame.bodies[0]]
    assert len(sent) <= 2 * PARTS_AT_ONCE + 64 * 20 * 0.06
    assert other.layer.statistics["reply withheld"] > 0


def test_each_direction_is_measured_by_multicast_and_unicast_small_and_large() -> None:
    lan, (one, other, third) = ready(3)
    pinged(lan, third)
    for host in one, other:
        (peer,) = {one, other} - {host}
        found = link(host, peer)
        assert [found[way] for way in ("multicast", "large_multicast", "unicast", "large_unicast")] == [
            [16, 16], [4, 4], [16, 16], [4, 4],
        ]  # fmt: skip
        assert (found["pongs"], found["round_trip"]) == (20, pytest.approx(2 * DELAY))
        assert (found["pinged"], found["proven"], found["remote"]) == (True, True, False)
    assert exam(one).describe_links()["round"] == exam(third).links.sent_number


def test_one_way_without_multicast_and_large_datagrams_shows_in_that_direction_only() -> None:
    lan, (one, other) = ready(2)
    lan.is_dropped = lambda source, host, frame: (
        source is one and (not frame.address or len(frame.bodies[0]) > FRAME // 2)
    )
    pinged(lan, other)
    there, back = link(other, one), link(one, other)
    assert (there["multicast"], there["unicast"], there["large_unicast"]) == ([0, 16], [16, 16], [0, 4])
    assert (back["multicast"], back["unicast"], back["large_unicast"]) == ([16, 16], [16, 16], [4, 4])


def test_a_question_for_proof_that_was_lost_is_repeated_during_the_round() -> None:
    lan = Lan(0)
    one, other = lan.add(1), lan.add(2)
    lan.is_dropped = lambda source, host, frame: source is one and bool(frame.address)
    lan.run(1.5)
    exam(one).start_round(20)
    one.due = -math.inf
    lan.run(exam_round.PROOF + 0.01)
    lan.is_dropped = lambda source, host, frame: False
    assert not link(one, other)["verified"]
    lan.run(0.5)
    assert (link(one, other)["verified"], link(one, other)["pinged"]) == (True, False)


def test_many_endpoints_ping_only_some_of_their_peers() -> None:
    lan, hosts = ready(60)
    lan.sent.clear()
    pinged(lan, hosts[0], 6)
    pings = [frame for _, frame in lan.sent if frame.bodies[0].startswith(b'{"ping"')]
    assert len(pings) <= 60 * 6 * (1 + 640 // 59)
    assert all(len(frame.bodies[0]) <= FRAME for frame in pings)


def test_rounds_are_spaced() -> None:
    lan, (one, other) = ready(2)
    for _ in range(5):
        exam(one).start_round(2)
    one.due = -math.inf
    lan.run(0.3)
    assert other.layer.statistics["reply withheld"] >= 4


def test_a_stranger_and_what_is_damaged_is_counted_and_dropped() -> None:
    lan, (one, other) = ready(2)
    bodies = [
        b"", b"{", b"[]", b"7", b'"ask"', b"\xff\xfe", b"{}", b'{"ask":-1,"sections":["a"]}', b'{"ask":1}',
        b'{"ask":1,"sections":[]}', b'{"ask":1,"sections":["%s"]}' % (b"x" * 33), b'{"ask":1,"sections":[7]}',
        b'{"ask":1,"sections":%s}' % orjson.dumps([str(number) for number in range(9)]),
        b'{"ask":true,"sections":["a"]}', b'{"answer":1,"section":"a","part":1,"parts":1}\n',
        b'{"answer":1,"section":"a","part":0,"parts":17}\n', b'{"answer":1,"section":"a","part":0}\n',
        b'{"round":1,"pings":33}', b'{"round":1,"pings":0}', b'{"ping":1,"place":2,"of":2,"by":"unicast"}',
        b'{"ping":1,"place":0,"of":2,"by":"air"}', b'{"pong":1,"place":32}', b'{"pong":1,"place":-1}',
    ]  # fmt: skip
    header = Envelope(EXAMINE).header()
    item = Inbound(other.id, other.incarnation, other.address, dict(header), bodies)
    up, down = one.layer.receive(lan.now, [item])
    assert (up, down) == ([], [])
    assert one.layer.statistics["malformed body"] == len(bodies)
    unasked = [b'{"answer":1,"section":"a","part":0,"parts":1}\n1', b'{"pong":1,"place":0}']
    one.layer.receive(lan.now, [Inbound(other.id, other.incarnation, other.address, dict(header), unasked)])
    assert one.layer.statistics["answer to no question"] == 2
    forged = [b'{"ask":1,"sections":["report"]}']
    for sender, incarnation, address in (
        (endpoint_id(9), 1, ("10.9.9.9", 1)),
        (other.id, other.incarnation, ("10.9.9.9", 1)),
        (other.id, other.incarnation + 1, other.address),
    ):
        assert one.layer.receive(lan.now, [Inbound(sender, incarnation, address, dict(header), forged)]) == ([], [])
    counts = one.layer.statistics
    assert counts["unknown peer"] == counts["other address"] == counts["unannounced life"] == 1


def test_an_answer_that_is_no_json_is_counted() -> None:
    lan, (one, other) = ready(2)
    inquiry = exam(one).ask(["report"], 1.0)
    one.layer.receive(lan.now, [])
    part = wire.Part(inquiry.number, "report", 0, 1, b"{")
    header = Envelope(EXAMINE).header()
    one.layer.receive(lan.now, [Inbound(other.id, other.incarnation, other.address, header, [part.body])])
    assert one.layer.statistics["malformed body"] == 1
    assert inquiry.answers == {}


def test_an_answer_about_what_was_not_asked_is_counted_and_dropped() -> None:
    lan, (one, other) = ready(2)
    inquiry = exam(one).ask(["report"], 1.0)
    one.layer.receive(lan.now, [])
    bodies = [wire.Part(inquiry.number, section, 0, 1, b"{}").body for section in ("activity", "report")]
    header = Envelope(EXAMINE).header()
    one.layer.receive(lan.now, [Inbound(other.id, other.incarnation, other.address, header, bodies)])
    assert one.layer.statistics["answer to no question"] == 1
    assert inquiry.answers == {other.id: {"report": {}}}


def test_the_pings_of_so_many_peers_are_counted_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exam_round, "PEERS", 2)
    links = exam_round.Links()
    for peer in ("a", "b", "b", "c"):
        links.receive(0.0, peer, wire.Ping(1, 0, 5, wire.UNICAST))
    assert ["heard" in links.of(peer) for peer in ("a", "b", "c")] == [False, True, True]


def test_without_multicast_peers_are_asked_by_unicast() -> None:
    lan = Lan()
    one, other = [lan.add(number, multicast=False) for number in (1, 2)]
    exam(other).sections = lambda section: 7
    lan._transmit(one, one.layer.contact(other.address))
    one.due = one.layer.deadline
    lan.run(2.0)
    assert asked(lan, one, "report").answers == {other.id: {"report": 7}}
    pinged(lan, one)
    assert (link(other, one)["multicast"], link(other, one)["unicast"]) == ([0, 16], [16, 16])


def test_who_leaves_ends_its_questions() -> None:
    lan, (one, _) = ready(2)
    inquiry = exam(one).ask(["report"], 10.0)
    one.layer.receive(lan.now, [])
    lan.leave(one)
    assert inquiry.is_over
    assert one.layer.deadline == math.inf
