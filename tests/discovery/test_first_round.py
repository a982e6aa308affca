"""The first round: a newcomer knows all who are there, and that it does; within a round trip where nothing is lost."""

from __future__ import annotations

import pytest

from glue.contract import FirstRoundOver, Outbound
from glue.discovery.first_round import ASK_AGAIN, LATE, LONGEST, SOONEST
from tests.discovery.lan import DELAY, Host, Lan, data


def add(lan: Lan, place: int) -> Host:
    """An endpoint whose id has a bit of its own, so that digests differ as those of real ids do."""
    return lan.add(1 << place)


def established(hosts: int) -> Lan:
    """A LAN whose endpoints have known each other for long."""
    lan = Lan()
    for number in range(hosts):
        add(lan, number)
    lan.run(5)
    return lan


def duration(lan: Lan, newcomer: Host) -> float:
    """Seconds until the first round of an endpoint is over."""
    began = lan.now
    while not newcomer.layer.is_first_round_over:
        lan.run(DELAY / 2)
        assert lan.now < began + 1.0
    return lan.now - began


def kinds(lan: Lan, source: Host) -> list[str]:
    """What a host has sent of discovery."""
    return [frame.header["discovery"][-1] for host, frame in lan.sent if host is source]


@pytest.mark.parametrize("peers", [1, 2, 5, 8])
def test_where_peers_answer_at_once_a_round_takes_a_round_trip(peers: int) -> None:
    lan = established(peers)
    newcomer = add(lan, peers)
    lan.sent.clear()
    assert duration(lan, newcomer) == pytest.approx(2 * DELAY, abs=DELAY)
    assert len(newcomer.known) == peers
    lan.run(0.05)
    assert kinds(lan, newcomer) == ["announce", *["want"] * peers]  # it asks nobody again, and returns their tokens


def test_where_nobody_is_there_it_takes_as_long_as_it_may() -> None:
    lan = Lan()
    assert duration(lan, add(lan, 1)) == pytest.approx(LONGEST, abs=DELAY)


def test_fifty_peers_whose_answers_are_spread_are_all_known() -> None:
    lan = established(50)
    newcomer = add(lan, 50)
    assert duration(lan, newcomer) <= 0.0125  # 0.2 ms for each of them, and a round trip
    assert len(newcomer.known) == 50


def test_those_above_are_told_once_when_it_is_over_and_until_when_who_is_late_may_come() -> None:
    lan = established(1)
    newcomer = add(lan, 1)
    began = lan.now
    lan.run(2)
    told = [item for item in newcomer.told if isinstance(item, FirstRoundOver)]
    assert [item.until for item in told] == [pytest.approx(began + LATE)]


@pytest.mark.parametrize("lag", [0.0, 0.003, 0.012])
def test_two_that_start_together_agree_once_both_have_asked_twice(lag: float) -> None:
    lan = Lan()
    one = add(lan, 1)
    lan.run(lag)
    other = add(lan, 2)
    lan.sent.clear()
    took = duration(lan, other)
    assert 2 * SOONEST <= took < 2 * SOONEST + 3 * DELAY  # two times two round trips
    assert kinds(lan, other).count("announce") == 2
    assert duration(lan, one) <= SOONEST
    assert [host.known for host in (one, other)] == [{other.id}, {one.id}]


def test_where_answers_take_long_two_that_start_together_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.discovery.lan.DELAY", 0.004)
    lan = Lan()
    one, _ = add(lan, 1), add(lan, 2)
    assert duration(lan, one) >= 2 * ASK_AGAIN - DELAY


def test_two_that_start_together_wait_for_a_peer_that_only_one_of_them_knows() -> None:
    lan = established(1)
    (present,) = lan.hosts
    until = lan.now + 0.005
    lan.is_dropped = lambda source, host, frame: {source, host} == {present, lan.hosts[-1]} and lan.now < until
    one, other = add(lan, 1), add(lan, 2)
    assert max(duration(lan, one), duration(lan, other)) > 2 * SOONEST
    assert present.id in one.known & other.known


def test_two_that_start_together_hardly_ever_miss_the_same_peer_at_five_percent_loss() -> None:
    missing = 0
    for seed in range(200):
        lan = Lan(seed=seed)
        present = add(lan, 1)
        lan.run(1)
        lan.loss = 0.05
        pair = add(lan, 2), add(lan, 3)
        for host in pair:
            duration(lan, host)
            missing += present.id not in host.known
    assert missing <= 1  # one in ten thousand


@pytest.mark.parametrize("lost", ["announcement", "answer"])
def test_a_lost_announcement_or_answer_is_made_up_for_within_the_round(lost: str) -> None:
    lan = established(3)
    newcomer = add(lan, 3)
    victim = lan.hosts[0]
    dropped: list[Outbound] = []

    def is_dropped(source: Host, host: Host, frame: Outbound) -> bool:
        ends = (newcomer, victim) if lost == "announcement" else (victim, newcomer)
        if (source, host) != ends or dropped:
            return False
        dropped.append(frame)
        return True

    lan.is_dropped = is_dropped
    took = duration(lan, newcomer)
    assert dropped
    assert SOONEST < took < LONGEST
    assert len(newcomer.known) == 3


def test_at_five_percent_loss_nobody_of_a_few_is_missing_after_nearly_every_round() -> None:
    missing = 0
    for seed in range(200):
        lan = Lan(seed=seed)
        add(lan, 1)
        lan.run(1)
        lan.loss = 0.05
        newcomer = add(lan, 2)
        duration(lan, newcomer)
        missing += not newcomer.known
    assert missing <= 1  # one in a thousand


def test_interests_that_do_not_fit_into_an_answer_are_waited_for() -> None:
    lan = established(1)
    (peer,) = lan.hosts
    patterns = {f"a/rather/long/topic/name/{number}" for number in range(500)}
    lan.want(peer, *patterns)
    lan.run(5)
    newcomer = add(lan, 1)
    took = duration(lan, newcomer)
    assert newcomer.interests(peer.id) == patterns
    assert 3 * DELAY < took < LONGEST


def test_a_dead_peer_that_others_still_know_costs_no_more_than_the_longest_round() -> None:
    lan = established(3)
    lan.crash(lan.hosts[0])
    newcomer = add(lan, 3)
    assert duration(lan, newcomer) == pytest.approx(LONGEST, abs=DELAY)
    assert len(newcomer.known) == 2


def test_where_multicast_is_blocked_a_newcomer_is_introduced_to_all_within_the_round() -> None:
    lan = Lan()
    lan.is_dropped = lambda source, host, frame: not frame.address
    contact, *others = [add(lan, number) for number in range(4)]
    for host in others:
        host.layer.contact(contact.address)
    lan.run(5)
    newcomer = add(lan, 4)
    newcomer.layer.contact(contact.address)
    assert duration(lan, newcomer) < LONGEST
    assert newcomer.known == {host.id for host in (contact, *others)}


def test_who_was_asked_again_answers_as_often_as_it_was_asked() -> None:
    lan = established(1)
    (peer,) = lan.hosts
    newcomer = add(lan, 1)
    lan.is_dropped = lambda source, host, frame: source is peer
    lan.sent.clear()
    lan.run(LONGEST + 2 * DELAY)
    assert kinds(lan, peer).count("answer") == kinds(lan, newcomer).count("announce") == 3


def test_a_goodbye_ends_it() -> None:
    lan = Lan()
    lonely = add(lan, 1)
    lan.run(DELAY)
    lan.leave(lonely)
    assert lonely.layer.is_first_round_over
    assert lonely.layer.deadline == float("inf")


def test_data_passes_during_the_round() -> None:
    lan = Lan()
    one, other = add(lan, 1), add(lan, 2)
    lan.run(3 * DELAY)
    lan.order(one, data(other.id))
    lan.run(2 * DELAY)
    assert len(other.data) == 1


@pytest.mark.parametrize("far", [0.003, 0.0075])
def test_two_that_start_together_wait_for_a_peer_that_answers_within_eight_milliseconds(far: float) -> None:
    lan = established(1)
    (present,) = lan.hosts
    lan.delay_of = lambda source, host: far / 2 if present in (source, host) else DELAY / 10
    one, other = add(lan, 1), add(lan, 2)
    assert max(duration(lan, one), duration(lan, other)) >= far
    assert present.id in one.known & other.known


@pytest.mark.parametrize("peers", [1, 5])
@pytest.mark.parametrize("lag", [0.0, 0.0005])
def test_two_that_start_together_beside_others_learn_at_once_that_nobody_is_missing(peers: int, lag: float) -> None:
    lan = established(peers)
    one = add(lan, peers)
    lan.run(lag)
    other = add(lan, peers + 1)
    lan.sent.clear()
    assert max(duration(lan, one), duration(lan, other)) < SOONEST + 3 * DELAY
    assert len(one.known) == len(other.known) == peers + 1
    lan.run(0.05)
    assert all(kinds(lan, host).count("answer") <= 4 for host in lan.hosts)
