"""How publishers and subscribers of two endpoints are matched by quality of service, without endpoints."""

from __future__ import annotations

from collections import Counter
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import Delivery, PeerAdded, PeerInterest, PeerRemoved, Surveyed
from glue.endpoint import qos_matching
from glue.endpoint.qos_matching import LEFT_OUT, PEER_STATEMENTS, TOPIC, Departure, Matching, QoSMismatch, Requested
from glue.endpoint.qos_terms import NOTHING, OFFER, QOS, REQUEST, Difference, Statement, Terms

PLAIN = Terms(True, 0, 0, 0, 0, -1, False)
WEAK = PLAIN._replace(is_reliable=False)
STRICT = PLAIN._replace(is_strict=True)
TOLD = "mismatched qualities of service"
REFUSED = "qualities of service refused: too many"
RELIABILITY = (Difference("reliability", "best-effort", "reliable", "best-effort"),)


class Side:
    """The matching of one endpoint "me", with what it told and counted."""

    def __init__(self, counts: bool = True, has_callback: bool = True) -> None:
        self.now = 0.0
        self.told: list[QoSMismatch] = []
        self.settled: Counter[str] = Counter()
        self.handled: list[Any] = []
        self.statistics: Counter[str] = Counter()
        owner: Any = SimpleNamespace(
            settled=lambda outcome, count: self.settled.update({outcome: count}), handled=self.handled.append
        )
        self.matching = Matching(
            ("me", "id-me", 7), owner, self.statistics, lambda: self.now, self.tell(has_callback), counts
        )

    def tell(self, has_callback: bool) -> Any:
        def tell(mismatch: QoSMismatch) -> bool:
            self.told.append(mismatch)
            return has_callback

        return tell

    def note(self, event: Any, now: float | None = None) -> list[Delivery]:
        found = [*self.matching.note(self.now if now is None else now, event)]
        for delivery in found:
            if isinstance(delivery.payloads[0], QoSMismatch):
                self.matching._deliver(delivery)
        return found

    def meet(self, peer: str, *statements: Statement, now: float | None = None) -> list[Delivery]:
        """A peer tells something new."""
        return self.note(PeerInterest(peer, [one.interest for one in statements], []), now)

    def part(self, peer: str, *statements: Statement) -> list[Delivery]:
        """A peer takes something back."""
        return self.note(PeerInterest(peer, [], [one.interest for one in statements]))

    def subscribe(self, terms: Terms, *patterns: str) -> Requested:
        requested = Requested(terms, patterns, self.matching)
        self.matching.begin(object(), requested)
        return requested


def offer(terms: Terms = PLAIN, pattern: str = "t") -> Statement:
    return Statement(OFFER, terms, pattern)


def request(terms: Terms = PLAIN, pattern: str = "t") -> Statement:
    return Statement(REQUEST, terms, pattern)


def delivery(
    peer: str, topic: str = "t", sequence: int = 1, count: int = 1, life: int = 1, old: bool = False
) -> Delivery:
    return Delivery(topic, ["x"] * count, None, f"{peer}'s name", peer, life, sequence, 0.0, old, ())


def test_a_mismatch_tells_who_differs_in_what() -> None:
    side = Side()
    assert side.matching.add(request(pattern="t/#"))
    side.note(PeerAdded("b", 1, "b's name", ("::1", 1)))
    found = side.meet("b", offer(WEAK, "t/+"), offer(WEAK, "u"), request(WEAK, "t/+"))
    (mismatch,) = side.told
    assert mismatch == QoSMismatch("t/#", "subscriber", "b's name", "b", RELIABILITY, False)
    assert str(mismatch) == (
        "t/#: subscriber here and b's name there: reliability best-effort is offered, reliable requested; "
        "the weaker one holds"
    )
    (event,) = found
    assert (event.topic, event.payloads, event.publisher, event.publisher_id) == (TOPIC, side.told, "me", "id-me")
    assert (event.incarnation, event.sequence, event.published_at, event.retained) == (7, 1, 0.0, False)
    assert event.tokens == (side.matching,)
    assert (side.statistics, side.settled, side.handled) == ({TOLD: 1}, {"handled": 1}, [event])
    assert side.matching.add(offer(WEAK, "q"))
    side.meet("b", request(STRICT, "q"))
    assert side.told[1] == QoSMismatch("q", "publisher", "b's name", "b", RELIABILITY, True)
    assert str(side.told[1]).endswith("; they do not match")


def test_without_a_callback_a_mismatch_is_logged_and_a_driver_may_count(caplog: pytest.LogCaptureFixture) -> None:
    side = Side(counts=False, has_callback=False)
    side.matching.add(request())
    side.meet("b", offer(WEAK))
    assert [record.getMessage() for record in caplog.records] == [str(side.told[0])]
    assert (side.handled, side.settled) == ([], {"handled": 1})


def test_an_offer_of_this_endpoint_is_compared_with_its_own_and_with_what_is_known() -> None:
    side = Side()
    side.meet("b", request())
    assert side.matching.add(offer(WEAK))
    assert [(one.here, one.peer) for one in side.told] == [("publisher", "b")]
    assert not side.matching.add(offer(WEAK))
    assert side.matching.add(request())
    assert [(one.here, one.peer) for one in side.told[1:]] == [("subscriber", "me")]
    assert not side.matching.remove(offer(WEAK))
    assert side.matching.remove(offer(WEAK))
    side.matching.add(request(STRICT))
    assert len(side.told) == 2  # its own offer is gone


def test_a_survey_of_this_matching_tells_of_all_that_were_there_before() -> None:
    side = Side()
    side.matching.add(request())
    peers = [("b", "b's name", [offer(WEAK).interest]), ("c", "c's name", ["t", offer(WEAK).interest])]
    side.note(Surveyed("another", peers))
    assert side.told == []
    side.note(Surveyed(side.matching, peers))
    assert [one.peer for one in side.told] == ["b's name", "c's name"]
    side.part("b", offer(WEAK))
    side.meet("b", offer(WEAK))
    assert len(side.told) == 2  # each pair is told once


def test_what_is_malformed_is_counted_and_the_next_is_read() -> None:
    side = Side()
    side.matching.add(request())
    side.note(PeerInterest("b", ["t", QOS + "offer/zz/t", offer(WEAK).interest, offer(WEAK).interest], []))
    assert side.statistics == {"malformed qualities of service": 1, TOLD: 1}
    side.note(PeerInterest("b", [], ["t", QOS + "offer/zz/t", offer(PLAIN).interest]))
    side.note(PeerInterest("c", [], [offer(WEAK).interest]))
    assert side.statistics == {"malformed qualities of service": 1, TOLD: 1}


def test_a_peer_has_a_limit_of_statements_and_all_peers_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Side()
    many = [offer(PLAIN, f"t/{number}") for number in range(PEER_STATEMENTS + 1)]
    side.meet("b", *many[:-1])
    assert REFUSED not in side.statistics
    side.meet("b", *many[1:3], many[-1])  # two that are known, and one more
    assert side.statistics[REFUSED] == 1
    assert (PEER_STATEMENTS, qos_matching.STATEMENTS) == (1024, 16_384)
    monkeypatch.setattr(qos_matching, "STATEMENTS", PEER_STATEMENTS + 2)
    side.meet("c", *many[:2], *many[:2])
    assert side.statistics[REFUSED] == 1
    side.meet("c", many[2])
    assert side.statistics[REFUSED] == 2
    side.part("c", many[0], many[3])
    side.meet("c", many[2])
    assert side.statistics[REFUSED] == 2
    side.meet("d", many[2])
    assert side.statistics[REFUSED] == 3
    side.note(PeerRemoved("b", 1, "b", "expired"))
    side.meet("d", *many[:PEER_STATEMENTS])
    assert side.statistics[REFUSED] == 3
    side.meet("e", many[0])
    assert side.statistics[REFUSED] == 4


def test_a_full_table_of_told_pairs_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert qos_matching.MET == 16_384
    monkeypatch.setattr(qos_matching, "MET", 2)
    side = Side()
    side.matching.add(request())
    for peer, told in (("b", 1), ("c", 2), ("b", 2), ("d", 3), ("b", 4)):
        side.part(peer, offer(WEAK))
        side.meet(peer, offer(WEAK))
        assert len(side.told) == told


def test_a_strict_request_refuses_who_offers_nothing_and_tells_it_once() -> None:
    side = Side()
    requested = side.subscribe(STRICT, "t", "u/+")
    assert requested.judge(delivery("b")) == "strict"
    assert not requested.admits(delivery("b", count=3))
    assert side.statistics == {LEFT_OUT + "strict": 3}
    for topic in ("t", "t", "u/1", "u/2"):
        side.matching.left_out(requested.statements, delivery("b", topic))
    assert side.told == [QoSMismatch(pattern, "subscriber", "b's name", "b", NOTHING, True) for pattern in ("t", "u/+")]
    side.meet("c", offer(WEAK))
    side.matching.left_out(requested.statements, delivery("c"))
    side.matching.left_out([request(PLAIN)], delivery("d"))
    assert len(side.told) == 2  # the others differ otherwise, or may
    side.meet("b", offer(PLAIN))
    assert requested.judge(delivery("b")) == ""
    (event,) = side.part("b", offer(PLAIN))
    assert requested.judge(delivery("b")) == ""
    requested.handle(event.payloads[0])
    assert requested.judge(delivery("b")) == "strict"


def test_a_verdict_is_made_anew_once_something_was_told_or_taken_back() -> None:
    side = Side()
    requested = Requested(STRICT, ["t"], side.matching)

    def judged() -> str:
        return requested.judge(delivery("b")) or requested.judge(delivery("id-me"))

    assert judged() == "strict"
    side.meet("b", offer())
    side.matching.add(offer())
    assert judged() == ""
    side.matching.remove(offer())
    assert judged() == "strict"
    side.matching.add(offer())
    assert judged() == ""
    side.part("b", offer())
    assert judged() == "strict"
    side.meet("b", offer())
    assert judged() == ""
    side.note(PeerRemoved("b", 1, "b", "expired"))
    assert judged() == "strict"


def test_a_request_without_durability_takes_nothing_that_was_retained() -> None:
    side = Side()
    volatile, kept = side.subscribe(PLAIN, "t"), side.subscribe(PLAIN._replace(durability=1), "t")
    assert volatile.judge(delivery("b", old=True)) == "older than the subscription"
    assert (volatile.judge(delivery("b")), kept.judge(delivery("b", old=True))) == ("", "")
    assert kept.admits(delivery("b", old=True))


def owned(*offers: tuple[str, int, int]) -> tuple[Side, Requested]:
    """A side that knows exclusive publishers with strengths and deadlines (milliseconds), and its subscription."""
    side = Side()
    requested = side.subscribe(PLAIN._replace(strength=0), "t")
    for peer, strength, deadline in offers:
        side.meet(peer, offer(PLAIN._replace(strength=strength, deadline=deadline)))
    return side, requested


def test_the_strongest_owns_a_topic_and_of_equal_ones_the_lower_id() -> None:
    _, requested = owned(("b", 1, 0), ("c", 2, 0), ("d", 2, 0))
    assert [requested.judge(delivery(peer)) for peer in "bcd"] == ["not of the owner", "", "not of the owner"]
    _, requested = owned(("b", 0, 0), ("c", 1, 0))
    assert [requested.judge(delivery(peer)) for peer in "bc"] == ["not of the owner", ""]


def test_shared_offers_and_requests_ask_for_no_owner() -> None:
    side, requested = owned(("b", 1, 0), ("c", 2, 0), ("d", -1, 0))
    assert requested.judge(delivery("d")) == ""
    side.meet("b", offer(PLAIN))  # beside its exclusive one
    assert requested.judge(delivery("b")) == ""
    assert side.subscribe(PLAIN, "t").judge(delivery("b")) == ""
    strict = side.subscribe(STRICT._replace(strength=0), "t")
    assert strict.judge(delivery("d")) == "strict"


def test_an_owner_is_passed_over_after_one_and_a_quarter_of_its_deadline() -> None:
    side, requested = owned(("b", 1, 0), ("c", 2, 1000))
    assert [requested.judge(delivery(peer)) for peer in "cb"] == ["", "not of the owner"]
    side.now = 1.25
    assert requested.judge(delivery("b", sequence=2)) == "not of the owner"
    side.now = 1.26
    assert requested.judge(delivery("b", sequence=3)) == ""
    assert requested.judge(delivery("c", sequence=2)) == ""
    assert requested.judge(delivery("b", sequence=4)) == "not of the owner"


def test_a_new_offer_counts_as_if_its_publisher_had_just_come() -> None:
    side, requested = owned(("b", 1, 0))
    side.meet("c", offer(PLAIN._replace(strength=2, deadline=1000)), now=10.0)
    side.now = 11.25
    assert requested.judge(delivery("b")) == "not of the owner"
    side.now = 11.26
    assert requested.judge(delivery("b", sequence=2)) == ""


def test_where_all_are_late_the_one_that_comes_owns() -> None:
    side, requested = owned(("b", 1, 1000), ("c", 2, 1000))
    side.now = 100.0
    assert requested.judge(delivery("b")) == ""
    assert requested.judge(delivery("x")) == ""  # offers nothing, so it is shared


def test_what_was_passed_over_stays_so_until_its_publisher_restarts() -> None:
    side, requested = owned(("b", 1, 0), ("c", 2, 0))
    assert requested.judge(delivery("b", sequence=5, count=3)) == "not of the owner"
    side.part("c", offer(PLAIN._replace(strength=2)))
    requested.departures.clear()
    requested._version = -1
    assert requested.judge(delivery("b", sequence=6, count=2)) == "not of the owner"
    assert requested.judge(delivery("b", sequence=6, count=3)) == ""
    assert requested.judge(delivery("b", sequence=7)) == "not of the owner"
    assert requested.judge(delivery("b", sequence=1, life=2)) == ""


def test_an_old_owner_is_forgotten_where_too_many_topics_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    assert qos_matching.VERDICTS == 16_384
    monkeypatch.setattr(qos_matching, "VERDICTS", 3)
    side = Side()
    requested = side.subscribe(PLAIN._replace(strength=0), "t/#")
    for peer, strength in (("b", 1), ("c", 2)):
        side.meet(peer, offer(PLAIN._replace(strength=strength, deadline=1000), "t/#"))
    side.now = 5.0
    for topic in ("t/1", "t/2"):
        assert requested.judge(delivery("c", topic)) == ""
    assert requested.judge(delivery("b", "t/1")) == "not of the owner"
    assert requested.judge(delivery("c", "t/1", 2)) == ""  # the latest again
    assert requested.judge(delivery("b", "t/3")) == ""
    assert requested.judge(delivery("b", "t/2")) == ""  # that of c went first, so c has been silent there
    assert len(requested._heard) <= 3
    assert len(requested._verdicts) <= 3


def test_departures_wait_until_a_subscription_has_handled_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert qos_matching.DEPARTURES == 1024
    monkeypatch.setattr(qos_matching, "DEPARTURES", 2)
    side, requested = owned(("b", 1, 0), ("c", 2, 0))
    other = side.subscribe(PLAIN, "u")
    strong = offer(PLAIN._replace(strength=2))
    (event,) = side.part("c", strong)
    (departure,) = event.payloads
    assert departure == Departure("c", {strong: 0.0})
    assert (event.topic, event.publisher, event.publisher_id, event.incarnation) == (TOPIC, "me", "id-me", 7)
    assert (event.sequence, event.published_at, event.retained) == (1, 0.0, False)
    assert set(event.tokens) == set(side.matching._requests)
    assert requested.judge(delivery("b")) == "not of the owner"
    assert (requested.departures, other.departures) == ([departure], [departure])
    requested.handle(departure)
    assert (requested.departures, other.departures) == ([], [departure])
    assert requested.judge(delivery("b", sequence=2)) == ""
    assert side.part("b", request()) == []
    (event,) = side.note(PeerRemoved("b", 1, "b", "expired"))
    assert len(event.tokens) == 2
    side.meet("b", offer())
    (event,) = side.part("b", offer())
    assert [side.matching._requests[token] for token in event.tokens] == [requested]
    side.meet("b", offer())
    assert side.part("b", offer()) == []  # both have as many as they can have
    assert side.note(PeerRemoved("unknown", 1, "x", "expired")) == []


def test_a_closed_subscription_is_told_of_no_departure_and_a_lost_peer_has_no_name() -> None:
    side = Side()
    token, requested = object(), Requested(PLAIN, ["t"], side.matching)
    side.matching.begin(token, requested)
    side.note(PeerAdded("b", 1, "b's name", ("::1", 1)))
    side.meet("b", offer())
    side.matching.end(token)
    side.matching.end(token)
    assert side.part("b", offer()) == []
    assert requested.departures == []
    side.note(PeerRemoved("b", 1, "b's name", "expired"))
    side.matching.add(request())
    side.meet("b", offer(WEAK))
    assert side.told[0].peer == "b"


def test_ranks_are_those_of_fitting_exclusive_offers() -> None:
    side, _ = owned(("b", 1, 0), ("c", 2, 2000), ("d", -1, 0))
    side.meet("e", offer(WEAK._replace(strength=9, is_strict=True)))
    gone = Departure("f", {offer(PLAIN._replace(strength=3)): 4.0, offer(PLAIN._replace(strength=3), "u"): 4.0})
    ranks = side.matching.ranks(PLAIN._replace(strength=0), "t", [gone])
    assert ranks == [(-3, "f", inf, 4.0), (-2, "c", 2.5, 0.0), (-1, "b", inf, 0.0)]
