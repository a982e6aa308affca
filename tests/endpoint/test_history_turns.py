"""History at an endpoint, turn by turn: how many pages leave when, who is offered what, and where pages go."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import BULK, NORMAL, Delivery, PeerInterest, PeerRemoved, Publication
from glue.endpoint import history as module
from glue.endpoint.history import History
from glue.endpoint.message import Peer
from glue.endpoint.offers import Offers
from glue.history import Limits, Reader
from glue.history.names import OWN, ask_topic, page_topic
from glue.history.wire import EARLIEST, LAST, LATEST, Page, Request, decode_page, decode_request
from glue.storage import MemoryLog
from glue.topics.bundle import MessageGroup

ME, ONE, TWO = "0" * 16, "1" * 16, "2" * 16


class Place:
    """The history of an endpoint that knows two peers; the test has the clock."""

    def __init__(self) -> None:
        self.time = 100.0
        self.step = 0.0  # how much each look at the clock takes
        self.statistics: Counter[str] = Counter()
        self.did: list[Any] = []
        identity = SimpleNamespace(name="me", endpoint_id=ME, incarnation=5)
        peers = {one: Peer(f"peer {one[0]}", one, 7, ("a", 1)) for one in (ONE, TWO)}
        self.offers = Offers(self.statistics)
        clocks: Any = SimpleNamespace(clock=self.clock, unix_time=lambda: self.time + 1000.0)
        owner: Any = SimpleNamespace(settled=lambda what, count: self.did.append((what, count)))
        self.owner = owner
        self.history = History(
            identity, peers, self.statistics, self.offers, clocks,
            lambda reader, life, pattern: (reader, life, pattern) == (ONE, 7, "known"), Random(1),
            lambda: self.did.append("wake"), lambda count: self.did.append(count), lambda coded: [], 1099.5,
        )  # fmt: skip

    def clock(self) -> float:
        self.time += self.step
        return self.time

    def remember(self, count: int, size: int = 100, topic: str = "a") -> None:
        self.history.memory.remember(Limits("#"))
        for number in range(1, count + 1):
            group = MessageGroup(topic, number, number * 1_000_000, [bytes(size)], size)
            self.history.record(self.time, group, inf)

    def ask(self, *requests: Request, peer: str = ONE) -> list[Publication]:
        payloads = [request.encode() for request in requests]
        return self.history.take_requests(Delivery("", payloads, None, "", peer, 7, 1, 0.0, False, ()))

    def page(self, page: Page, peer: str = ONE, life: int = 7) -> Any:
        return self.history.take_pages(Delivery("", [page.encode()], None, "", peer, life, 1, 0.0, False, ()))

    def offer(self, peer: str, *interests: str, ended: bool = False) -> None:
        self.history.note(PeerInterest(peer, () if ended else interests, interests if ended else ()))

    def room(self, pattern: str, start: tuple[str, int] = (EARLIEST, 0), local: bool = True) -> Any:
        return self.history.room(pattern, start, 1 << 20, self.owner, local)

    def asked(self) -> list[tuple[str, Request]]:
        """The requests that are due, with their topics."""
        found = self.history.requests(self.time)
        assert all((one.priority, one.published_at) == (NORMAL, self.time + 1000.0) for one in found)
        return [(one.topic, decode_request(one.payloads[0])) for one in found]


def ids(publications: list[Publication]) -> list[int]:
    return [decode_page(one.payloads[0]).id for one in publications]


def test_pages_leave_in_bursts_and_one_by_one_while_much_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    place.remember(20)
    assert (module.UNDER_WAY, module.PACE, module.BURST, module.SLICE) == (4 << 20, 0.005, 8, 0.002)
    found = place.ask(*(Request(number, "a") for number in range(12)))
    assert ids(found) == [*range(8)]
    for one in found:
        assert (one.topic, one.priority, one.json) == (page_topic(ONE, 7), BULK, False)
        assert (one.length, one.published_at) == (len(one.payloads[0]), 1100.0)
    assert place.history.deadline == 100.005
    place.time = 100.0049
    assert place.history.advance(place.time, 0) == []
    place.time = 100.005
    assert ids(place.history.advance(place.time, 0)) == [8, 9, 10, 11]
    assert place.history.deadline == inf
    place.time = 101.0
    assert place.history.advance(place.time, 0) == []
    monkeypatch.setattr(module, "UNDER_WAY", 4000)
    assert ids(place.ask(*(Request(number, "a") for number in range(20, 26)))) == [20, 21]  # of some 2,900 bytes each
    assert place.history.deadline == 101.005
    place.time = 101.004
    assert place.history.advance(place.time, 4000) == []
    assert ids(place.history.advance(place.time, 3999)) == [22]
    assert place.history.deadline == 101.009
    place.time = 101.009
    assert ids(place.history.advance(place.time, 1 << 30)) == [23]  # one, however much is under way
    place.time = 101.014
    assert ids(place.history.advance(place.time, 1 << 30)) == [24]


def test_a_turn_ends_its_pages_after_two_milliseconds_and_the_next_turn_goes_on() -> None:
    place = Place()
    place.remember(5)
    place.step = 0.0011
    assert ids(place.ask(*(Request(number, "a") for number in range(9)))) == [0, 1]
    place.step = 0.0
    assert place.history.deadline == -inf
    assert ids(place.history.advance(100.004, 0)) == [2, 3, 4, 5, 6, 7]
    assert place.history.deadline == pytest.approx(100.0061)
    place.step = 0.00201
    assert ids(place.history.advance(100.0062, 0)) == [8]
    assert place.history.deadline == inf


def test_what_is_too_old_is_served_no_more_and_rules_may_forbid_it() -> None:
    place = Place()
    place.history.memory.remember(Limits("#", age=10.0))
    place.history.record(100.0, MessageGroup("a", 1, 1, [b"old"], 3), inf)
    place.time = 108.0
    place.history.record(108.0, MessageGroup("a", 2, 2, [b"new"], 3), inf)
    place.time = 110.5
    (page,) = place.ask(Request(1, "a"))
    assert [group.payloads for group in decode_page(page.payloads[0]).groups] == [[b"new"]]
    place.history.may_read = lambda peer, topic: (peer, topic) == (TWO, "a")
    assert place.ask(Request(1, "a")) == []
    assert len(place.ask(Request(1, "a"), peer=TWO)) == 1
    assert place.statistics["requests for history refused: rules"] == 1


def test_a_page_says_whether_the_readers_interest_is_known() -> None:
    place = Place()
    place.remember(1)
    told = {}
    for peer, pattern in ((ONE, "known"), (ONE, "a"), (TWO, "known")):
        (page,) = place.ask(Request(1, pattern), peer=peer)
        told[peer, pattern] = decode_page(page.payloads[0]).known
    assert told == {(ONE, "known"): True, (ONE, "a"): False, (TWO, "known"): False}


def test_a_peer_that_leaves_is_answered_no_more() -> None:
    place = Place()
    place.remember(20)
    place.ask(*(Request(number, "a") for number in range(10)))
    place.ask(Request(99, "a"), peer=TWO)
    place.history.note(PeerRemoved(ONE, 7, "peer 1", "goodbye"))
    assert ids(place.history.advance(100.005, 0)) == [99]


def test_readers_ask_who_offers_what_overlaps_and_whom_this_endpoint_knows() -> None:
    place = Place()
    place.offer(ONE, f"{OWN}a/#", f"{OWN}b")
    place.offer(TWO, f"{OWN}b")
    place.offer("3" * 16, f"{OWN}a/#")  # not known as a peer
    place.room("a/+")
    assert [(topic, request.pattern) for topic, request in place.asked()] == [(ask_topic(ONE), "a/+")]
    place.offer(TWO, f"{OWN}a/x")
    assert [topic for topic, _ in place.asked()] == [ask_topic(TWO)]
    place.room("b", (LAST, 5))
    (first, request), (second, _) = place.asked()
    assert ({first, second}, request.start) == ({ask_topic(ONE), ask_topic(TWO)}, (LAST, 5))
    place.offer(TWO, f"{OWN}b", ended=True)
    place.history.note(PeerRemoved(ONE, 7, "peer 1", "goodbye"))
    place.time += 1.0
    assert [topic for topic, _ in place.asked()] == [ask_topic(TWO)]  # of the first room, again
    assert place.statistics["requests for history repeated"] == 1
    assert place.offers.interests == {TWO: {f"{OWN}a/x": None}, "3" * 16: {f"{OWN}a/#": None}}


def test_what_this_endpoint_offers_itself_is_read_unless_it_is_left_out() -> None:
    for local in (True, False):
        place = Place()
        place.history.changed(ME, [f"{OWN}a"], [])
        place.offers.add(ME, f"{OWN}a")
        place.room("a", local=local)
        assert [topic for topic, _ in place.asked()] == ([ask_topic(ME)] if local else [])


def test_who_reads_a_second_after_the_start_has_met_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for time, is_late in ((100.4, False), (100.5, True)):
        place = Place()
        place.time = time
        told: list[str] = []
        monkeypatch.setattr(Reader, "has_met_all", lambda self, told=told: told.append("met"))
        place.room("b", (LATEST, 0))
        assert told == (["met"] if is_late else [])


def test_pages_go_to_the_reader_that_asked_and_others_are_counted() -> None:
    place = Place()
    place.offer(ONE, f"{OWN}a")
    rooms = [place.room("a") for _ in range(3)]
    requests = [request for _, request in place.asked()]
    assert len({request.id for request in requests}) == 3
    group = MessageGroup("a", 1, 1, [b"x", b"y"], 1)
    page = Page(requests[1].id, 2, 2, True, [group])
    assert place.page(page, TWO) == place.page(page, ONE, 6) == []
    assert place.statistics["pages of history not asked for"] == 2
    assert place.page(page) == [rooms[1]]
    assert place.did == [2]  # messages that arrived
    assert [rooms[1].take().payload, rooms[1].take().payload, rooms[1].take()] == [b"x", b"y", None]
    assert place.did[1:] == [("handled", 2), ("expired", 0)]
    assert place.history.poked() == []
    delivery = Delivery("", [b"nothing", page.encode()], None, "", ONE, 7, 1, 0.0, False, ())
    assert place.history.take_pages(delivery) == []
    assert place.statistics["malformed pages of history"] == 1
    assert place.statistics["pages of history not asked for"] == 3  # it was asked for once
    rooms[0].close()
    assert [*place.history._rooms] == rooms[1:]


def test_keepers_fetch_from_those_whom_they_meet_and_store_what_comes() -> None:
    place, stored = Place(), list[Any]()
    log = MemoryLog("0" * 16)
    keeper = f"$glue/keeper/{'5' * 16}/2/"
    place.offer(ONE, f"{keeper}t/#", f"{OWN}t/a")
    place.history.heal(log, stored.extend, "t/#", lambda topic: True, lambda: True, lambda peer, topic: True)
    place.offer(TWO, f"{keeper}t/#")
    place.offer("3" * 16, f"{keeper}t/#")  # not known as a peer
    assert place.history._compared(place.time, "t/#") == 0
    ((healer, _),) = place.history._healers.values()
    assert [*healer._partners] == [(ONE, True), (ONE, False), (TWO, True)]
    place.time += 0.05
    ((topic, request),) = place.asked()
    assert topic in (ask_topic(ONE), ask_topic(TWO))
    peer = topic.rpartition("/")[2]
    if request.digest:
        page = Page(request.id, 0, 0, False, digests=("1" * 16, "0" * 16, "0" * 16))
        assert place.page(page, peer) == []
        ((_, request),) = place.asked()
    page = Page(request.id, 1, 1, False, heads=[("t/a", 2, TWO, 9, 1)] if request.kept else [("t/a", 2, "", 0, 0)])
    assert place.page(page, peer) == []
    ((_, request),) = place.asked()
    group = MessageGroup("t/a", 1, 1_000_000, [b"x", b"y"], 1)
    origins = [(TWO, "two", 9, 1)] if request.kept else []
    assert place.page(Page(request.id, 1, 1, False, [group], origins, 1), peer) == []
    assert [(one.topic, one.sequence, one.payloads) for one in stored] == [("t/a", 1, [b"x", b"y"])]
    assert place.statistics["pages of history not asked for"] == 0
    place.offer(TWO, f"{keeper}t/#", ended=True)
    assert {*healer._partners} == {(ONE, True), (ONE, False)}
    place.history.note(PeerRemoved(ONE, 7, "peer 1", "goodbye"))
    assert [*healer._partners] == []
    place.offer(TWO, f"{keeper}t/#")
    place.history.hurry()
    assert place.did[-1] == "wake"
    assert place.time < place.history.deadline <= place.time + 0.05
    place.history.heal_no_more(log, "t/#")
    place.history.heal_no_more(log, "t/#")
    assert healer.patterns == {}
