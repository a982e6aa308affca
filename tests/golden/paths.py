"""An endpoint with two interfaces and one with a single one: the datagrams by which they find their paths."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from glue.contract import Address, GroupOn, Train, link_of
from tests.golden.scenario import Sent, datagrams, of, stack

LINKS = "eth0", "wlan0"
STEP = 0.05
"""Seconds from one turn to the next."""


def _source(name: str, link: str) -> Address:
    number = ("kitchen", "hall").index(name) + 1
    return f"10.{LINKS.index(link)}.0.{number}", 37319


def _links(train: Train) -> Iterable[str]:
    """The links by which a train of the kitchen leaves."""
    if isinstance(train.address, GroupOn):
        return sorted(train.address.links)
    return [link_of(train.address)] if train.address else LINKS


def path_datagrams() -> dict[str, bytes]:
    """What is kept as golden vectors of paths, by name."""
    kitchen, hall = stack("kitchen", interface=LINKS), stack("hall")
    to_kitchen, to_hall, sent, now = list[Train](), list[Train](), list[Sent](), 1000.0
    while now < 1005.0:
        now += STEP
        from_kitchen, from_hall = kitchen.turn(now, to_kitchen, [])[1], hall.turn(now, to_hall, [])[1]
        to_kitchen, to_hall = [], []
        for train in from_kitchen:
            for data in datagrams(train):
                sent.append(Sent("kitchen", data))
                to_hall += [Train(_source("kitchen", link), data, len(data)) for link in _links(train)]
        for train in from_hall:
            for data in datagrams(train):
                sent.append(Sent("hall", data))
                for link in LINKS:
                    if not train.address or train.address == _source("kitchen", link):
                        host, port = _source("hall", link)
                        to_kitchen.append(Train((f"{host}%{link}", port), data, len(data)))
        for each in (kitchen, hall):
            each.commit()
    frames = [data for name in ("kitchen", "hall") for data in of(sent, name, "discovery", "path")]
    kinds = [(*orjson.loads(data.partition(b"\n")[0])["discovery"][:2], data.partition(b"\n")[2]) for data in frames]

    def first(has_token: bool, has_echo: bool, body: bytes) -> bytes:
        return frames[[(token > 0, echo > 0, body) for token, echo, body in kinds].index((has_token, has_echo, body))]

    return {
        "path-question": first(True, False, b""),
        "path-proof": first(True, False, b"2"),
        "path-in-use": first(True, False, b"1"),
        "path-answer": first(False, True, b""),
    }
