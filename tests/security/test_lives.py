"""What changes while members run: new lives, certificates that end, members that never prove themselves."""

from __future__ import annotations

from random import Random

import pytest

from glue.contract import Address, Train
from glue.contract.sealed import NO_IDENTITY, OWN_END
from glue.endpoint.core import id_of
from glue.security import AES_GCM, MemberIdentity, Sealing, new_key
from glue.security.proof import Exchange
from glue.security.signing import public_of

AUTHORITY = Random(1).randbytes(32)
KEY = new_key(Random(2).randbytes, authority=public_of(AUTHORITY))
NOW = 1_700_000_000.0


class Member:
    """A security layer with an identity, at an address; the test moves its wall clock."""

    def __init__(self, name: str, host: int, until: float | None = None, revoked: tuple[str, ...] = ()) -> None:
        self.name = name
        self.address: Address = (f"10.0.0.{host}", 7000)
        self.unix_time = NOW
        self.told: list[str] = []
        self.up: list[bytes] = []
        self.beginning = b'{"glue":[1,1,"%s",1,0]}\n' % id_of(name).encode()
        identity = MemberIdentity(name, Random(name).randbytes(32)).admitted(AUTHORITY, until, [])
        self.layer = Sealing(
            key=KEY, network_id=1, suite=AES_GCM, entropy=Random(host).randbytes, identity=identity,
            tell=lambda cause, address: self.told.append(cause), unix_time=lambda: self.unix_time,
        )  # fmt: skip

    def sent(self, payload: bytes, to: Member | None = None) -> list[Train]:
        """Seal a datagram."""
        data = self.beginning + payload
        return self._arriving(self.layer.send(0.0, [Train(None if to is None else to.address, data, len(data))]))

    def receive(self, now: float, trains: list[Train]) -> list[Train]:
        """Take what arrives; return the hellos in return."""
        up, down = self.layer.receive(now, trains)
        self.up += [bytes(train.data).partition(b"\n")[2] for train in up]
        return self._arriving(down)

    def _arriving(self, trains: list[Train]) -> list[Train]:
        return [Train(self.address, bytes(train.data), len(bytes(train.data))) for train in trains]


def passed(sender: Member, receiver: Member, payload: bytes, now: float = 0.0, to_all: bool = False) -> list[bytes]:
    """Send a datagram, and all hellos in return; return what the receiver opened of it."""
    receiver.up.clear()
    items, one, other = sender.sent(payload, None if to_all else receiver), sender, receiver
    while items:
        items = other.receive(now, items)
        one, other = other, one
    return list(receiver.up)


def met() -> tuple[Member, Member]:
    hall, kitchen = Member("hall", 1), Member("kitchen", 2)
    assert passed(hall, kitchen, b"hello", to_all=True) == [b"hello"]
    assert passed(kitchen, hall, b"hello", to_all=True) == [b"hello"]
    return hall, kitchen


def test_unicast_goes_on_after_the_receiver_has_begun_another_life() -> None:
    hall, kitchen = met()
    assert passed(hall, kitchen, b"one") == [b"one"]
    kitchen.layer.renew()
    assert passed(kitchen, hall, b"I", to_all=True) == [b"I"]
    assert passed(hall, kitchen, b"two") == [b"two"]


def test_forged_unicast_in_the_name_of_a_known_life_costs_no_key_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    hall, kitchen = met()
    exchanges: list[bytes] = []
    shared = Exchange.shared

    def counted(exchange: Exchange, public: bytes) -> bytes | None:
        exchanges.append(public)
        return shared(exchange, public)

    monkeypatch.setattr(Exchange, "shared", counted)
    true = bytes(hall.sent(b"one", kitchen)[0].data)
    exchanges.clear()
    for number in range(50):
        forged = true[:-1] + bytes([true[-1] ^ 1 + number])
        kitchen.receive(0.0, [Train(hall.address, forged, len(forged))])
    assert kitchen.layer.statistics["refused: bad tag"] == 50
    assert len(exchanges) <= 1


def test_members_that_never_prove_themselves_are_asked_ever_more_rarely() -> None:
    hall, late = Member("hall", 1, until=NOW - 1), Member("late", 2, until=NOW - 1)
    hellos = 0
    on_the_way: list[tuple[Member, list[Train]]] = []
    for step in range(5000):  # a millisecond each
        now = step * 0.001
        if step % 1000 == 0:
            on_the_way += [(hall, late.sent(b"I")), (late, hall.sent(b"I"))]
        arriving, on_the_way = on_the_way, []
        for receiver, items in arriving:
            answers = receiver.receive(now, items)
            hellos += len(answers)
            on_the_way += [(late if receiver is hall else hall, answers)] if answers else []
    assert 2 <= hellos <= 40
    assert hall.up == []


def test_a_member_is_heard_no_more_once_its_certificate_is_over() -> None:
    hall, kitchen = Member("hall", 1), Member("kitchen", 2, until=NOW + 60)
    assert passed(kitchen, hall, b"hello", to_all=True) == [b"hello"]
    hall.unix_time = kitchen.unix_time = NOW + 59
    assert passed(kitchen, hall, b"still", to_all=True) == [b"still"]
    hall.unix_time = kitchen.unix_time = NOW + 61
    for number in range(20):
        assert passed(kitchen, hall, b"over", now=float(number), to_all=True) == []
    assert f"{NO_IDENTITY}: certificate of kitchen is over" in hall.told
    assert kitchen.told == [f"{OWN_END}: kitchen"]


def test_the_other_members_go_on_when_a_certificate_ends() -> None:
    hall, kitchen, guest = Member("hall", 1), Member("kitchen", 2, until=NOW + 600), Member("guest", 3, until=NOW + 60)
    for member in (kitchen, guest):
        assert passed(member, hall, b"hello", to_all=True) == [b"hello"]
    hall.unix_time = NOW + 61
    assert passed(kitchen, hall, b"on", to_all=True) == [b"on"]
    assert passed(guest, hall, b"over", to_all=True) == []
    hall.unix_time = NOW + 601
    assert passed(kitchen, hall, b"over", to_all=True) == []


def test_of_two_lives_of_an_identity_the_certificate_that_still_holds_counts() -> None:
    hall, lasting, short = Member("hall", 1), Member("kitchen", 2), Member("kitchen", 3, until=NOW + 60)
    for member in (lasting, short):
        assert passed(member, hall, b"hello", to_all=True) == [b"hello"]
    hall.unix_time = NOW + 61
    assert passed(lasting, hall, b"on", to_all=True) == [b"on"]
    assert hall.layer.members[id_of("kitchen")].until is None
