"""Addresses of a peer that has several: what proves them, what forged frames cannot do, and where data goes."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

from glue.contract import Address, GroupOn, Inbound, LinkChanged, Outbound, PathChanged, link_of
from glue.discovery import Discovery
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

    def __init__(self, *links: str) -> None:
        self.layer = Discovery(endpoint_id=OWN, incarnation=1, name="own", random=Random(0), links=links)
        self.layer.fit(FRAME)
        self.now = 100.0
        self.up: list[Any] = []
        self.sent: list[Outbound] = []
        self.layer.receive(self.now, [])
        self.hear("announce", ETH, body=BODY)
        self.token = self.asked(ETH)[0]
        self.hear("want", ETH, echo=self.token)  # proof of the first address
        self.advance(1.0)

    def hear(
        self, kind: str, address: Address, token: int = 0, echo: int = 0, body: bytes = b"", life: int = 1
    ) -> None:
        header = {"discovery": [token, echo, None, None, kind]}
        self.up, self.sent = self.layer.receive(self.now, [Inbound(OTHER, life, address, header, [body])])

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.up, self.sent = self.layer.receive(self.now, [])

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
    assert [item.header["discovery"][1] for item in endpoint.paths(ETH)] == [8]


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
    assert (told["link"], told["address"]) == ("eth0", ["10.0.0.2", 37319])
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
