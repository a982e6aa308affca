"""What a transport owes, keeps or knows of a peer that is gone is not owed, kept or known of its next life."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random

import pytest

from glue.contract import Awake, Outbound, PeerAdded, PeerRemoved, PeerSleeps, Sleep
from glue.contract.counters import Counters
from glue.transport import layer
from glue.transport.acknowledger import Acknowledger
from glue.transport.incoming import GapBudget, IncomingChannel
from glue.transport.round_trip import ACK_DELAY
from glue.transport.wire import KEY
from tests.transport.network import Wire, endpoint_id
from tests.transport.sent import Sent
from tests.transport.test_receiving import ADDRESS, PEER, data, fill, receiver, refused


@pytest.mark.parametrize("reason", ["expired", "goodbye"])
def test_one_that_slept_and_is_back_without_sleep_is_served_at_once(reason: str) -> None:
    wire = Wire(2)
    sender, peer = wire.ids
    for cycle in (0, 1):
        wire.tell(sender, PeerSleeps(peer, cycle))
    wire.publish(0, [1], b"while it sleeps")
    wire.remove(sender, peer, reason)
    wire.tell(sender, PeerAdded(peer, 1, "peer", ADDRESS))
    wire.publish(0, [1], b"now")
    wire.run(1)
    assert wire.heard[peer] == [(sender, b"now")]


def owed(now: float, at_once: bool, members: int = 1) -> tuple[Acknowledger, IncomingChannel]:
    """One acknowledgement owed to a peer."""
    acknowledger, incoming = Acknowledger(Counters(), Random(1)), IncomingChannel(PEER, 1, GapBudget())
    incoming.members = members
    incoming.next = 5
    if members > 1:
        incoming.ranges.add(7, 8)
    acknowledger.taken(now, incoming, 1, at_once)
    return acknowledger, incoming


@pytest.mark.parametrize(("at_once", "members"), [(True, 1), (False, 1), (True, 9)])
def test_what_was_owed_to_a_life_that_is_over_is_not_told_to_the_next(at_once: bool, members: int) -> None:
    acknowledger, incoming = owed(5.0, at_once, members)
    acknowledger.forget("another")
    assert acknowledger.deadline <= 5.0 + ACK_DELAY
    acknowledger.forget(PEER)
    assert acknowledger.deadline == inf
    assert acknowledger.due(6.0) == []
    assert acknowledger.owing(PEER) is None
    acknowledger.taken(6.0, incoming, 1, at_once)  # it was lost for a moment only
    assert len(acknowledger.due(7.0)) == 1


def test_the_first_message_to_a_life_carries_no_acknowledgement_for_the_one_before() -> None:
    transport = receiver()
    transport.receive(1.0, [data(1, 0, b"x", b"y")])
    transport.receive(1.0, [PeerRemoved(PEER, 1, "peer", "restarted"), PeerAdded(PEER, 2, "peer", ADDRESS, True)])
    down = transport.send(1.0, [Outbound((PEER,), [b"hello"])])
    (first,) = [item for item in down if isinstance(item, Outbound)]
    assert first.header[KEY][:6] == ["data", 0, 0, 0, 0, 0]
    _, down = transport.receive(1.0 + ACK_DELAY, [])
    assert [item for item in down if isinstance(item, Outbound) and item.header[KEY][0] == "ack"] == []


def test_who_wakes_up_waits_for_no_peer_that_is_gone() -> None:
    transport = receiver()
    for cycle in (1, 2):
        transport.send(1.0, [Sleep(cycle)])
    up, _ = transport.receive(1.01, [PeerRemoved(PEER, 1, "peer", "goodbye")])
    (awake,) = [item for item in up if isinstance(item, Awake)]
    assert (awake.cycle, awake.waited, [*awake.silent]) == (2, 0, [])
    assert transport.deadline == inf


def test_who_wakes_up_wakes_no_peer_that_sleeps() -> None:
    transport = receiver()
    transport.receive(1.0, [PeerSleeps(PEER, 0), PeerSleeps(PEER, 1)])
    transport.send(1.0, [Outbound((PEER,), [b"later"])])
    down = [item for cycle in (1, 2) for item in transport.send(1.0, [Sleep(cycle)])]
    down += transport.receive(1.5, [])[1]
    assert {item.header[KEY][0] for item in down if isinstance(item, Outbound)} == {"wake"}
    assert transport.backlog == 0


def test_what_one_that_left_had_behind_gaps_is_given_back() -> None:
    transport = receiver()
    fill(transport)
    transport.receive(1.0, [PeerRemoved(PEER, 1, "peer", "goodbye"), PeerAdded(PEER, 2, "peer", ADDRESS)])
    fill(transport, incarnation=2)
    assert refused(transport) == 0


def test_what_a_lost_peer_had_behind_gaps_is_given_back_when_too_many_others_were_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layer, "ABSENT", 2)
    others = [endpoint_id(number) for number in (2, 3, 4)]
    transport = receiver(PEER, *others)
    fill(transport)
    for peer in (PEER, *others[:2]):
        transport.receive(1.0, [PeerRemoved(peer, 1, "peer", "expired")])
    fill(transport, others[2])
    assert refused(transport) == 0


def test_what_was_sent_again_in_vain_was_not_repaired() -> None:
    sent = Sent(2, 3)
    (flight,) = sent.channel.flights
    flight.repaired = frozenset(sent.ids)
    member = sent[0]
    member.detached = True
    member.skip_to(3)
    sent.channel.outcomes.given_up(sent.channel.flights, [], member, 0, "receiver too slow")
    sent[1].take(3, [])
    sent.channel.release()
    assert +sent.statistics == Counter({"messages lost: receiver too slow": 1, "messages repaired": 1})
    assert sent.channel.idle
