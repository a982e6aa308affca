"""Addresses of a peer that has several: what proves them, what forged frames cannot do, and where data goes."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

from glue.contract import Address, GroupOn, Inbound, LinkChanged, Outbound, PathChanged, link_of
from glue.discovery import Discovery
from glue.discovery.paths import PATIENCE
from glue.discovery.peers import ASK_SPACING
from tests.discovery.lan import FRAME, data, endpoint_id

OWN, OTHER = endpoint_id(1), endpoint_id(2)
ETH: Address = ("10.0.0.2%eth0", 37319)
WLAN: Address = ("10.1.0.2%wlan0", 37319)
STRANGER: Address = ("10.9.9.9%wlan0", 9)
BODY = orjson.dumps(
    {"name": "other", "interval_ms": 1000, "epoch": 0, "version": 0, "previous": 0, "base": 0, "operations": []}
)


class Endpoint:
    """A discovery layer with two links that knows another endpoint at ETH; `sent` is what it sent in the last call."""

    def __init__(self, *links: str, own: str = OWN) -> None:
        self.layer = Discovery(endpoint_id=own, incarnation=1, name="own", random=Random(0), links=links)
        self.layer.fit(FRAME)
        self.now = 100.0
        self.up: list[Any] = []
        self.sent: list[Outbound] = []
        self.changes: list[tuple[Address, bool]] = []
        self.layer.receive(self.now, [])
        self.hear("announce", ETH, body=BODY)
        self.token = self.asked(ETH)[0]
        self.hear("want", ETH, echo=self.token)  # proof of the first address
        self.advance(1.0)

    def hear(
        self, kind: str, address: Address, token: int = 0, echo: int = 0, body: bytes = b"", life: int = 1
    ) -> None:
        header = {"discovery": [token, echo, None, None, kind]}
        self.take(Inbound(OTHER, life, address, header, [body]))

    def take(self, *items: Inbound) -> None:
        self.up, self.sent = self.layer.receive(self.now, [*items])
        self.changes += [(item.address, item.is_lost) for item in self.up if isinstance(item, PathChanged)]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.take()

    def order(self, *items: Any) -> None:
        self.sent = self.layer.send(self.now, list(items))

    def asked(self, address: Address) -> list[int]:
        """The tokens that were sent to an address."""
        return [item.header["discovery"][0] for item in self.paths(address) if item.header["discovery"][0]]

    def paths(self, address: Address) -> list[Outbound]:
        return [item for item in self.sent if item.address == address and "discovery" in item.header]

    @property
    def address(self) -> Address:
        return self.layer.table[OTHER].address

    @property
    def addresses(self) -> set[Address]:
        return {self.address, *self.layer.table[OTHER].aliases}

    def with_both(self) -> Endpoint:
        """Let the peer prove its second address."""
        self.hear("announce", WLAN, body=BODY)
        (token,) = self.asked(WLAN)
        self.hear("path", ETH, echo=token)
        assert self.addresses == {ETH, WLAN}
        return self


def linked() -> Endpoint:
    return Endpoint("eth0", "wlan0")


def test_a_new_address_counts_once_its_token_came_back_on_a_known_path() -> None:
    endpoint = linked()
    endpoint.hear("announce", WLAN, body=BODY)
    (question,) = endpoint.paths(WLAN)
    assert question.bodies == [b"2"]
    assert endpoint.addresses == {ETH}
    endpoint.hear("path", ETH, echo=question.header["discovery"][0] + 1)
    assert endpoint.addresses == {ETH}
    endpoint.hear("path", ETH, echo=question.header["discovery"][0])
    assert endpoint.addresses == {ETH, WLAN}
    assert endpoint.address == ETH


def test_a_stranger_takes_nothing_over_however_it_answers() -> None:
    endpoint = linked()
    for _ in range(200):
        endpoint.hear("announce", STRANGER, body=BODY)
        for token in endpoint.asked(STRANGER):
            endpoint.hear("path", STRANGER, echo=token)  # it is there, but not the peer
        endpoint.hear("path", STRANGER, token=7, body=b"1")
        endpoint.hear("want", ETH)  # the peer is alive
        endpoint.advance(0.01)
        assert endpoint.addresses == {ETH}
    assert endpoint.layer.statistics["paths changed"] == 0


def test_a_stranger_is_asked_at_most_twenty_times_a_second_and_answered_once_for_each_question() -> None:
    endpoint = linked()
    questions = answers = 0
    for _ in range(100):
        endpoint.hear("path", STRANGER, token=7)
        answers += len(endpoint.paths(STRANGER))
        questions += len(endpoint.asked(STRANGER))
        endpoint.advance(0.01)
    assert questions <= 21
    assert answers == 100


def test_frames_of_endpoints_or_lives_that_are_not_known_are_not_answered() -> None:
    endpoint = linked()
    endpoint.hear("path", STRANGER, token=7, body=b"2", life=2)
    assert endpoint.sent == []
    header = {"discovery": [7, 0, None, None, "path"]}
    endpoint.sent = endpoint.layer.receive(endpoint.now, [Inbound(endpoint_id(3), 1, STRANGER, header, [b"2"])])[1]
    assert endpoint.sent == []
    assert endpoint.layer.statistics["unknown peer"] == 1


@pytest.mark.parametrize("links", [("eth0", "wlan0"), ()])
def test_a_question_is_answered_where_it_came_from_and_for_a_proof_at_the_other_addresses(links: tuple[str]) -> None:
    endpoint = Endpoint(*links)
    endpoint.hear("path", ETH, token=7)
    ((answer,),) = [endpoint.paths(ETH)]
    assert answer.header["discovery"][:2] == [0, 7]
    endpoint.hear("path", WLAN, token=8, body=b"2")
    assert [item.header["discovery"][1] for item in endpoint.paths(WLAN)] == [8]
    assert [item.header["discovery"][:2] for item in endpoint.paths(ETH)] == [[0, 8]]


def test_a_link_that_goes_down_is_left_at_once_and_the_layers_above_are_told() -> None:
    endpoint = linked().with_both()
    endpoint.order(data(OTHER))
    assert endpoint.sent[-1].address == ETH
    endpoint.order(LinkChanged("eth0", False), data(OTHER))
    assert endpoint.sent[-1].address == WLAN
    assert endpoint.layer.deadline <= endpoint.now
    endpoint.advance(0.0)
    (change,) = [item for item in endpoint.up if isinstance(item, PathChanged)]
    assert (change.peer, change.address, change.is_lost) == (OTHER, WLAN, True)


def test_multicast_data_takes_the_links_of_the_peers_and_what_is_plain_stays_plain() -> None:
    endpoint = linked().with_both()
    endpoint.order(data())
    address = endpoint.sent[-1].address
    assert isinstance(address, GroupOn)
    assert address.links == {"eth0"}
    endpoint.order(LinkChanged("eth0", False), data())
    address = endpoint.sent[-1].address
    assert isinstance(address, GroupOn)
    assert address.links == {"wlan0"}
    single = Endpoint()
    single.order(data())
    assert single.sent[-1].address.__class__ is tuple


def test_a_silent_path_is_asked_and_left_when_the_other_one_carries_something() -> None:
    endpoint = linked().with_both()
    endpoint.order(data(OTHER))
    for _ in range(60):
        endpoint.now += 0.001
        endpoint.up, endpoint.sent = endpoint.layer.receive(endpoint.now, [])
        for token in endpoint.asked(WLAN):
            endpoint.hear("path", WLAN, echo=token)
            break
        if endpoint.address == WLAN:
            break
    assert endpoint.address == WLAN
    assert link_of(endpoint.address) == "wlan0"
    assert endpoint.layer.links.describe()["other"]["link"] == "wlan0"


def test_the_paths_of_a_peer_are_at_most_four() -> None:
    endpoint = linked().with_both()
    for number in range(3, 12):
        address = (f"10.0.0.{number}%eth0", 37319)
        endpoint.advance(0.1)
        endpoint.hear("announce", address, body=BODY)
        for token in endpoint.asked(address):
            endpoint.hear("path", endpoint.address, echo=token)
        assert len(endpoint.addresses) <= 4
        paths = endpoint.layer.table[OTHER].paths
        assert paths is not None
        assert set(paths.table) == endpoint.addresses
    assert endpoint.address == ETH


def test_a_peer_that_leaves_is_forgotten_with_its_paths() -> None:
    endpoint = linked().with_both()
    endpoint.hear("goodbye", ETH, echo=endpoint.layer.table[OTHER].token)
    assert endpoint.layer.table == endpoint.layer.direct == {}
    endpoint.advance(5.0)
    assert endpoint.asked(ETH) == endpoint.asked(WLAN) == []


def test_a_path_that_stays_silent_is_told_and_forgotten_in_the_end() -> None:
    endpoint = linked().with_both()
    layer, answers = endpoint.layer, list[list[bool]]()
    for _ in range(60):
        endpoint.advance(0.5)
        for token in endpoint.asked(ETH):
            endpoint.hear("path", ETH, echo=token)
        endpoint.hear("announce", ETH, body=BODY)
        answers.append([path["answers"] for path in layer.links.describe()["other"]["paths"]])
    assert answers[0] == [True, True]
    assert [True, False] in answers
    assert endpoint.addresses == {ETH}
    told = layer.links.describe()["other"]
    assert (told["link"], told["address"], told["paths"]) == ("eth0", ["10.0.0.2", 37319], [])
    assert layer.direct[OTHER] is layer.table[OTHER]
    endpoint.order(Outbound((OTHER,), [b"x"]))
    assert endpoint.paths(WLAN) == []


def test_data_from_a_new_address_is_counted_and_the_peer_asked_whether_it_is_its_own() -> None:
    endpoint = linked()
    for address, life in ((WLAN, 1), (WLAN, 2)):
        item = Inbound(OTHER, life, address, {"transport": ["data"]}, [b"x"])
        endpoint.advance(1.0)
        _, endpoint.sent = endpoint.layer.receive(endpoint.now, [item])
        assert len(endpoint.asked(address)) == (life == 1)
    assert endpoint.addresses == {ETH}
    assert endpoint.layer.statistics["doubtful address"] == 1


def test_an_announcement_with_another_interval_is_doubted_though_something_else_was_just_learned() -> None:
    endpoint = linked()
    news = orjson.loads(BODY) | {"version": 1, "operations": ["+t"]}
    endpoint.hear("announce", ETH, body=orjson.dumps(news))
    endpoint.hear("announce", ETH, body=BODY)  # it is merely late
    assert endpoint.layer.statistics["doubtful announcement"] == 0
    endpoint.hear("announce", ETH, body=orjson.dumps(news | {"interval_ms": 2000}))
    assert endpoint.layer.statistics["doubtful announcement"] == 1


def test_what_is_told_of_paths_and_questions_are_counted() -> None:
    endpoint = linked().with_both()
    told = endpoint.layer.links.describe()["other"]["paths"]
    assert [(path["link"], path["round_trip"], path["loss"], path["answers"]) for path in told] == [
        ("eth0", 0.01, 0.0, True), ("wlan0", 0.01, 0.0, True),
    ]  # fmt: skip
    endpoint.order(LinkChanged("wlan0", False))
    assert [path["answers"] for path in endpoint.layer.links.describe()["other"]["paths"]] == [True, False]
    assert endpoint.layer.statistics["path questions"] == 0
    endpoint.order(data(OTHER))
    endpoint.advance(PATIENCE)
    assert len(endpoint.asked(ETH)) == endpoint.layer.statistics["path questions"] == 1


@pytest.mark.parametrize("kind", ["announce", "data"])
def test_while_a_path_is_silent_whatever_comes_on_another_one_moves_the_data_there(kind: str) -> None:
    endpoint = linked().with_both()
    endpoint.order(data(OTHER))
    endpoint.advance(PATIENCE)
    endpoint.advance(1.0)
    assert endpoint.address == ETH
    if kind == "data":
        endpoint.take(Inbound(OTHER, 1, WLAN, {"transport": ["data"]}, [b"x"]))
    else:
        endpoint.hear("announce", WLAN, body=BODY)
    sent = endpoint.sent
    endpoint.advance(0.0)
    assert (endpoint.address, endpoint.layer.statistics["paths changed"]) == (WLAN, 1)
    assert endpoint.changes == [(WLAN, True)]
    (question,) = [item for item in [*sent, *endpoint.sent] if item.address == WLAN and item.bodies == [b"1"]]
    assert question.header["discovery"][0], "the peer is told, and asked for an answer"


@pytest.mark.parametrize("own", [OWN, endpoint_id(3)])
def test_a_peer_that_tells_its_path_is_followed_by_the_higher_id_at_once_and_is_told_nothing(own: str) -> None:
    endpoint = Endpoint("eth0", "wlan0", own=own).with_both()
    endpoint.hear("path", WLAN, token=5, body=b"1")
    assert endpoint.address == (ETH if own == OWN else WLAN)
    if own == OWN:
        endpoint.advance(PATIENCE)
        endpoint.hear("path", WLAN, token=5, body=b"1")
    assert [(item.header["discovery"][:2], item.bodies) for item in endpoint.paths(WLAN)] == [([0, 5], [b""])]
    assert endpoint.changes == [(WLAN, True)]


def test_a_better_path_is_taken_without_a_loss() -> None:
    endpoint = linked().with_both()
    paths = endpoint.layer.table[OTHER].paths
    assert paths is not None
    paths.table[WLAN].streak, paths.table[WLAN].smoothed, paths.table[ETH].smoothed = 9, 0.001, 1.0
    for _ in range(30):
        endpoint.order(data(OTHER))
        endpoint.hear("announce", ETH, body=BODY)
        endpoint.advance(0.1)
        for address, tokens in [(address, endpoint.asked(address)) for address in (ETH, WLAN)]:
            for token in tokens:
                endpoint.now += 0.0 if address == WLAN else 0.009
                endpoint.hear("path", address, echo=token)
    assert endpoint.changes == [(WLAN, False)]


@pytest.mark.parametrize("links", [("eth0", "wlan0"), ()])
def test_a_peer_of_several_addresses_is_asked_after_multicast_that_it_does_not_answer(links: tuple[str, ...]) -> None:
    endpoint = Endpoint(*links)
    if links:
        endpoint.with_both()
    else:
        endpoint.layer.table[OTHER].aliases = (WLAN,)
        endpoint.layer.links.follow(endpoint.layer.table[OTHER])
        assert endpoint.layer.direct == {}
    endpoint.order(data())
    endpoint.advance(PATIENCE / 2)
    assert endpoint.asked(ETH) == []
    endpoint.advance(PATIENCE / 2 + 1e-6)
    assert len(endpoint.asked(ETH)) == 1
    endpoint.layer.table[OTHER].aliases, changes = (), endpoint.layer._members.changes
    endpoint.layer.links.follow(endpoint.layer.table[OTHER])
    assert endpoint.layer._members.changes == changes + 1
    assert (endpoint.layer.table[OTHER].paths, [*endpoint.layer.direct]) == (None, [OTHER])
    assert endpoint.layer.links.is_used is bool(links)
    endpoint.order(data())
    endpoint.advance(0.5)
    assert endpoint.asked(ETH) == []


def test_a_link_that_is_up_again_is_used_and_announced_on_at_once() -> None:
    endpoint = linked().with_both()
    endpoint.order(LinkChanged("usb0", False), LinkChanged("wlan0", False))
    endpoint.order(data())
    assert isinstance(endpoint.sent[-1].address, GroupOn)
    endpoint.advance(0.3)
    endpoint.order(LinkChanged("wlan0", True))
    sent = endpoint.sent
    endpoint.advance(0.0)
    assert [item.header["discovery"][4] for item in [*sent, *endpoint.sent] if not item.peers] == ["announce"]
    endpoint.order(LinkChanged("eth0", False), data())
    address = endpoint.sent[-1].address
    assert isinstance(address, GroupOn)
    assert address.links == {"wlan0"}


def test_a_new_path_on_a_link_that_is_down_is_not_used() -> None:
    endpoint = linked()
    endpoint.order(LinkChanged("wlan0", False))
    endpoint.with_both()
    endpoint.order(LinkChanged("eth0", False), data(OTHER))
    assert endpoint.sent[-1].address == ETH


def test_an_answer_on_a_known_path_shows_that_the_peer_lives_and_a_doubted_one_is_asked_in_return() -> None:
    endpoint = linked().with_both()
    endpoint.advance(0.5)
    before = endpoint.layer.peers[OTHER].last_received
    endpoint.hear("path", WLAN, echo=9)
    assert endpoint.layer.peers[OTHER].last_received > before
    for _ in range(50):
        endpoint.advance(0.01)
    endpoint.hear("path", WLAN, token=4)
    assert [(item.header["discovery"][:2], item.bodies) for item in endpoint.paths(WLAN)] == [([0, 4], [b""])]
    endpoint.hear("path", STRANGER, token=4)
    ((answer,),) = [endpoint.paths(STRANGER)]
    assert (answer.header["discovery"][0] > 0, answer.header["discovery"][1], answer.bodies) == (True, 4, [b"2"])
    endpoint.advance(ASK_SPACING - 1e-6)
    endpoint.hear("path", STRANGER, token=4)
    assert [item.bodies for item in endpoint.paths(STRANGER)] == [[b""]]
    endpoint.advance(2e-6)
    endpoint.hear("path", STRANGER, token=4)
    assert [item.bodies for item in endpoint.paths(STRANGER)] == [[b"2"]]
    assert endpoint.layer.statistics["doubtful address"] == 3


def test_an_address_without_credit_gets_no_copy_of_a_proof() -> None:
    endpoint = linked()
    peer = endpoint.layer.table[OTHER]
    peer.is_verified, peer.credit = False, 0
    endpoint.hear("path", WLAN, token=8, body=b"2")
    assert [len(endpoint.paths(address)) for address in (WLAN, ETH)] == [1, 0]
