"""Where multicast is blocked: endpoints that know one address find each other, and need nobody to stay in touch."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from glue.contract import TO_PEERS, Address, Inbound, Leave, Outbound
from glue.discovery.rendezvous import CALL_SPACING, CALLS_BETWEEN, CONTACT_LIMIT, PROSPECT_CALLS, Rendezvous
from glue.discovery.wire import Introductions
from tests.discovery.lan import DELAY, Host, Lan, endpoint_id


def no_multicast(source: Host, host: Host, frame: Outbound) -> bool:
    return frame.address is None


def meeting(hosts: int, loss: float = 0.0, seed: int = 0) -> tuple[Lan, list[Host]]:
    """A LAN without multicast, and endpoints of which all but the first know the address of the first."""
    lan = Lan(seed=seed, loss=loss)
    lan.is_dropped = no_multicast
    made = [lan.add(number) for number in range(hosts)]
    for host in made[1:]:
        assert isinstance(host.layer.contact(made[0].address), list)
    return lan, made


def is_mesh(hosts: list[Host]) -> bool:
    return all(host.known == {other.id for other in hosts if other is not host} for host in hosts)


@pytest.mark.parametrize("hosts", [2, 3, 20])
def test_endpoints_that_know_one_address_find_each_other_within_half_a_second(hosts: int) -> None:
    lan, made = meeting(hosts)
    lan.run(0.5)
    assert is_mesh(made)


@pytest.mark.parametrize("seed", range(20))
def test_they_find_each_other_at_thirty_percent_loss_too_and_nobody_is_taken_for_gone(seed: int) -> None:
    lan, made = meeting(20, loss=0.3, seed=seed)
    lan.run(10)
    assert is_mesh(made)
    assert not [event for host in made for event in host.events if event[0] == "removed"]


def test_where_nobody_is_a_contact_is_soon_called_once_an_interval_only() -> None:
    lan = Lan()
    lan.add(1).layer.contact(("10.9.9.9", 9))
    lan.run(3)
    lan.sent.clear()
    lan.run(100)
    assert 90 < sum(frame.address is not None for _, frame in lan.sent) < 101


def test_the_introducer_may_come_later() -> None:
    lan = Lan()
    lan.is_dropped = no_multicast
    one, other = lan.add(1), lan.add(2)
    late = ("10.0.3.3", 40003)  # the third life of this LAN
    one.layer.contact(late)
    other.layer.contact(late)
    lan.run(60)
    assert one.known == other.known == set()
    introducer = lan.add(3)
    assert introducer.address == late
    lan.run(3)
    assert is_mesh([one, other, introducer])


def test_once_introduced_they_stay_together_without_the_introducer() -> None:
    lan, made = meeting(5, loss=0.1)
    lan.run(10)
    lan.crash(made[0])
    lan.run(600)
    assert is_mesh(made[1:])
    removed = [event for host in made[1:] for event in host.events if event[0] == "removed"]
    assert removed == [("removed", made[0].id, "expired")] * 4


def test_what_is_for_several_goes_to_each_by_unicast_and_by_multicast_to_nobody_twice() -> None:
    lan, (introducer, one, other) = meeting(3)
    lan.run(5)
    item = Outbound((), [b"for all"], {"transport": [1]})
    sent = one.layer.send(lan.now, [item])
    assert sorted(frame.address for frame in sent if frame.address) == sorted([introducer.address, other.address])
    lan.is_dropped = None
    lan.run(1.2)
    sent = one.layer.send(lan.now, [Outbound((), [b"for all"], {"transport": [1]})])
    assert [frame.address for frame in sent] == [TO_PEERS]


def test_where_multicast_works_a_contact_costs_one_more_datagram_an_interval() -> None:
    lan = Lan()
    one, other = lan.add(1), lan.add(2)
    one.layer.contact(other.address)
    lan.run(30)
    lan.sent.clear()
    lan.run(100)
    unicast = [frame for _, frame in lan.sent if frame.address is not None]
    assert 90 < len(unicast) < 112
    assert 180 < len(lan.sent) - len(unicast) < 225


def test_a_goodbye_reaches_those_whom_multicast_does_not() -> None:
    lan, made = meeting(3)
    lan.run(2)
    lan.leave(made[1])
    lan.run(DELAY)
    assert made[0].known == {made[2].id}
    assert made[2].events[-1] == ("removed", made[1].id, "goodbye")


def test_who_was_cut_off_for_long_is_back_within_three_intervals() -> None:
    lan, made = meeting(4)
    lan.run(2)
    lan.is_dropped = lambda source, host, frame: frame.address is None or made[2] in (source, host)
    lan.run(60)
    assert made[2].known == set()
    lan.is_dropped = no_multicast
    lan.run(3)
    assert is_mesh(made)


def test_introductions_by_anyone_but_a_contact_are_counted_and_ignored() -> None:
    lan, (introducer, one, other) = meeting(3)
    lan.run(2)
    victim: Address = ("10.9.9.9", 9)
    (body,) = Introductions.encode([(endpoint_id(9), victim)], 1000, 1)
    header = {"discovery": [0, 0, None, None, "introduce"]}
    for host, is_invited in ((other, False), (introducer, True)):
        _, down = one.layer.receive(lan.now, [Inbound(host.id, host.incarnation, host.address, dict(header), [body])])
        assert (victim in [frame.address for frame in down]) == is_invited
    assert one.layer.statistics["introduction by a stranger"] == 1


def test_an_address_where_nobody_answers_is_not_called_for_long() -> None:
    lan, (introducer, one) = meeting(2)
    lan.run(2)
    victim: Address = ("10.9.9.9", 9)
    (body,) = Introductions.encode([(endpoint_id(9), victim)], 1000, 1)
    header = {"discovery": [0, 0, None, None, "introduce"]}
    item = Inbound(introducer.id, introducer.incarnation, introducer.address, header, [body])
    for _ in range(5):  # and introducing it again and again does not help
        lan.sent += [(one, frame) for frame in one.layer.receive(lan.now, [item])[1]]
    lan.run(30)
    assert [frame.address for _, frame in lan.sent].count(victim) == PROSPECT_CALLS


def test_an_introducer_sends_no_list_to_an_address_that_has_not_proved_itself() -> None:
    lan, made = meeting(10)
    lan.run(2)
    victim: Address = ("10.9.9.9", 9)
    body = next(frame.bodies for source, frame in lan.sent if source is made[1] and frame.bodies[0])
    for asked in range(20):
        header = {"discovery": [0, 0, None, None, asked, "call"]}
        _, down = made[0].layer.receive(lan.now, [Inbound(endpoint_id(50), 1, victim, header, body)])
        assert sum(frame.address == victim for frame in down) <= 1


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b'{"peers":{}}', b'{"peers":[1]}', b'{"peers":[["a","10.0.0.1"]]}',
        b'{"peers":[[1,"10.0.0.1",1]]}', b'{"peers":[["01234567890123456","10.0.0.1",1]]}', b'{"peers":' + b"[" * 9999,
    ],
)  # fmt: skip
def test_a_malformed_introduction_is_counted(body: bytes) -> None:
    lan, (introducer, one) = meeting(2)
    lan.run(2)
    header = {"discovery": [0, 0, None, None, "introduce"]}
    one.layer.receive(lan.now, [Inbound(introducer.id, introducer.incarnation, introducer.address, header, [body])])
    assert one.layer.statistics == {"malformed body": 1}


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("239.192.137.1", 9), ("0.0.0.0", 9), ("127.0.0.1", 9), ("255.255.255.255", 9), ("fd00::1", 9), ("host", 9),
        ("10.0.0.1", 0), ("10.0.0.1", 65536), ("10.0.0.1", True), (None, 9), ("10.0.0.1", "9"),
    ],
)  # fmt: skip
def test_what_is_no_address_of_one_other_machine_is_not_called(host: object, port: object) -> None:
    body = orjson.dumps({"peers": [["a", host, port], ["b", "10.0.0.7", 7]]})
    assert Introductions.parse(body, ("10.0.0.1", 1)) == [("b", ("10.0.0.7", 7))]


def test_a_link_local_address_is_that_of_the_introducers_link() -> None:
    body = Introductions.encode([("a", ("fe80::7%eth0", 7, 0, 5)), ("b", ("fd00::7", 7, 0, 0))], 1000, 1)[0]
    introduced = Introductions.parse(body, ("fe80::1%en0", 1, 0, 3))
    assert introduced == [("a", ("fe80::7", 7, 0, 3)), ("b", ("fd00::7", 7, 0, 0))]


def test_introductions_fill_frames_and_stop_at_the_limit() -> None:
    peers = [(endpoint_id(number), (f"10.0.0.{number}", 37319)) for number in range(100)]
    bodies = Introductions.encode(peers, 1000, 8)
    assert all(len(body) <= 1000 for body in bodies)
    parsed = [entry for body in bodies for entry in Introductions.parse(body, ("10.0.0.1", 1)) or ()]
    assert parsed == peers
    assert len(Introductions.encode(peers, 1000, 2)) == 2


def test_contacts_are_bounded() -> None:
    lan = Lan()
    one = lan.add(1)
    for number in range(CONTACT_LIMIT + 5):
        one.layer.contact(("10.0.0.1", 1 + number))
    assert one.layer.statistics["contact refused"] == 5


def test_after_leaving_nobody_is_called() -> None:
    lan, (_, one) = meeting(2)
    lan.run(2)
    lan.order(one, Leave())
    lan.sent.clear()
    lan.run(5)
    assert one not in [source for source, _ in lan.sent]


def test_introduced_addresses_are_bounded_and_each_is_called_soon_and_a_few_times() -> None:
    statistics = Counter[str]()
    rendezvous = Rendezvous(statistics)
    assert rendezvous.add(("10.0.0.1", 1))
    assert not rendezvous.add(("10.0.0.1", 1))
    assert not rendezvous.meet(5.0, ("10.0.0.1", 1)), "a contact is called anyway"
    for number in range(CONTACT_LIMIT):
        assert rendezvous.meet(5.0, ("10.0.0.2", 1 + number))
    assert not rendezvous.meet(5.0, ("10.0.0.2", 1))
    assert not rendezvous.meet(5.0, ("10.0.0.3", 1))
    assert not rendezvous.meet(5.0, ("10.0.0.3", 2))
    assert statistics == {"introduction refused": 2}
    assert rendezvous.call_at == 5.0 + CALL_SPACING
    assert rendezvous.knows(("10.0.0.2", 1))
    assert not rendezvous.knows(("10.0.0.3", 1))
    assert rendezvous.is_contact(("10.0.0.1", 1))
    assert not rendezvous.is_contact(("10.0.0.2", 1))


def test_a_new_contact_is_called_soon_and_no_earlier_call_is_put_off() -> None:
    rendezvous = Rendezvous(Counter())
    for now, at in ((5.0, 5.0 + CALL_SPACING), (4.0, 4.0 + CALL_SPACING), (6.0, 4.0 + CALL_SPACING)):
        rendezvous.hurry(now)
        assert rendezvous.call_at == at


def test_a_new_contact_is_called_at_once_with_an_announcement() -> None:
    lan = Lan()
    host = lan.add(1)
    lan.run(1)
    (called,) = host.layer.contact(("10.9.9.9", 7))
    assert called.address == ("10.9.9.9", 7)
    assert orjson.loads(called.bodies[0])["name"] == "host 1"
    assert host.layer.contact(("10.9.9.9", 7)) == []


def test_who_is_introduced_late_is_called_as_often_between_announcements_as_the_first() -> None:
    rendezvous = Rendezvous(Counter())
    for number, now in ((1, 100.0), (2, 500.0)):
        assert rendezvous.meet(now, ("10.0.0.1", number))
        calls = 0
        while rendezvous.call_at < float("inf"):
            rendezvous.due(rendezvous.call_at)
            calls += 1
        assert calls == CALLS_BETWEEN + 1
