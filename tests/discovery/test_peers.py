"""Who is there: newcomers, leases, goodbyes, as the layers above are told."""

from __future__ import annotations

from itertools import count
from random import Random

import orjson
import pytest

from glue.contract import TO_PEERS, Inbound, Outbound
from glue.discovery import Discovery
from glue.discovery.fastpath import DiscoveryFastPath
from glue.discovery.membership import HOST_LIMIT
from glue.errors import ConfigurationError
from tests.discovery.lan import DELAY, FRAME, Host, Lan, data, endpoint_id, pair

ROUND_TRIP = 2 * DELAY + 1e-6


@pytest.mark.parametrize("hosts", [2, 8])
def test_a_newcomer_and_its_peers_know_each_other_within_one_round_trip(hosts: int) -> None:
    lan = Lan()
    for number in range(hosts):
        lan.add(number)
    lan.run(10.3)
    newcomer = lan.add(99)
    lan.run(ROUND_TRIP)
    assert len(newcomer.known) == hosts
    assert all(newcomer.id in host.known for host in lan.hosts if host is not newcomer)
    assert newcomer.layer.peers[endpoint_id(0)].name == "host 0"


def test_many_peers_spread_their_answers_over_a_short_time() -> None:
    lan = Lan()
    for number in range(50):
        lan.add(number)
    lan.run(1)
    newcomer = lan.add(99)
    arrivals = []
    for _ in range(100):
        before = len(newcomer.known)
        lan.run(0.0005)
        arrivals.append(len(newcomer.known) - before)
    assert len(newcomer.known) == 50
    assert max(arrivals) < 15


def test_everyone_knows_everyone_after_all_start_at_once_with_loss() -> None:
    lan = Lan(loss=0.3)
    hosts = [lan.add(number) for number in range(20)]
    lan.run(5)
    assert all(len(host.known) == 19 for host in hosts)


def test_a_peer_that_falls_silent_expires_after_its_own_lease() -> None:
    lan = Lan()
    watcher, quick, slow = lan.add(1), lan.add(2, announce_interval=0.1), lan.add(3, announce_interval=4.0)
    lan.run(5)
    lan.crash(quick)
    lan.crash(slow)
    lan.run(1)
    assert watcher.known == {slow.id}
    lan.run(24)
    assert watcher.events[-2:] == [("removed", quick.id, "expired"), ("removed", slow.id, "expired")]


@pytest.mark.slow
def test_no_peer_is_lost_in_an_hour_at_twenty_percent_loss() -> None:
    lan = Lan(seed=3, loss=0.2)
    hosts = [lan.add(number) for number in range(10)]
    lan.run(3600)
    assert [event for host in hosts for event in host.events if event[0] == "removed"] == []


def test_without_loss_nothing_but_announcements_is_sent_once_all_is_known() -> None:
    lan, one, other = pair()
    lan.run(5)
    lan.sent.clear()
    lan.run(100)
    assert all(frame.address is None for _, frame in lan.sent)
    assert 180 < len(lan.sent) < 225
    assert one.layer.statistics == other.layer.statistics == {}


def cost(lan: Lan) -> int:
    """Bytes on the wire of all that was sent."""
    overhead = 170  # bytes: Ethernet, IP, UDP, and the part of the header that is serialization's
    return sum(len(orjson.dumps(frame.header)) + len(frame.bodies[0]) + overhead for _, frame in lan.sent)


@pytest.mark.parametrize(("hosts", "seconds"), [(50, 20), pytest.param(100, 4, marks=pytest.mark.slow)])
def test_many_endpoints_of_which_one_comes_and_one_goes_each_second_cost_little_and_lose_nobody(
    hosts: int, seconds: int
) -> None:
    lan = Lan(seed=2)
    for number in range(hosts):
        lan.add(number)
    lan.run(3)
    assert all(len(host.known) == hosts - 1 for host in lan.hosts)
    lan.loss = 0.2
    lan.sent.clear()
    for second in range(seconds):
        lan.leave(lan.hosts[0])
        lan.add(1000 + second)
        lan.run(1)
    present = {host.id for host in lan.hosts}
    lost = [event[1] for host in lan.hosts for event in host.events if event[0] == "removed"]
    assert present.isdisjoint(lost)
    assert cost(lan) / seconds / hosts < 2500


def test_a_peer_whose_announcements_do_not_arrive_is_kept_by_probing_it() -> None:
    lan = Lan()
    one, other = lan.add(1), lan.add(2)
    lan.run(DELAY)
    lan.is_dropped = lambda source, host, frame: source is other and frame.header["discovery"][-1] == "announce"
    lan.run(60)
    assert one.events == [("added", other.id)]


def test_data_alone_keeps_a_peer() -> None:
    lan, one, other = pair()
    lan.is_dropped = lambda source, host, frame: host is one and "discovery" in frame.header
    for _ in range(20):
        lan.order(other, data(one.id))
        lan.run(1)
    assert one.known == {other.id}
    lan.run(5)
    assert one.known == set()


def test_a_goodbye_removes_at_once_though_one_copy_is_lost() -> None:
    lan, one, other = pair()
    lost = count()
    lan.is_dropped = lambda source, host, frame: frame.header["discovery"][-1] == "goodbye" and next(lost) == 0
    lan.leave(other)
    lan.run(DELAY)
    assert one.events[-1] == ("removed", other.id, "goodbye")


def test_a_peer_cut_off_for_long_comes_back_in_the_same_life() -> None:
    lan, one, other = pair()
    lan.is_dropped = lambda source, host, frame: True
    lan.run(60)
    assert one.known == other.known == set()
    lan.is_dropped = None
    lan.run(1.2)
    assert one.events == [("added", other.id), ("removed", other.id, "expired"), ("added", other.id)]
    assert other.known == {one.id}


@pytest.mark.parametrize("seconds", [3, 100, 10_000])
def test_a_suspended_endpoint_loses_nobody(seconds: float) -> None:
    lan, one, other = pair()
    lan.suspend(one)
    lan.run(seconds)
    if seconds > 1000:
        one.queue = one.queue[-3:]  # what the socket's buffer held
    lan.resume(one)
    lan.run(20)
    assert one.events == [("added", other.id)]
    lan.crash(other)
    lan.run(5.1)
    assert one.events[-1] == ("removed", other.id, "expired")


def test_a_suspended_peer_expires_on_time_and_rejoins_when_it_wakes() -> None:
    lan, one, other = pair()
    lan.suspend(other)
    lan.run(5.1)
    assert one.known == set()
    lan.run(100)
    lan.resume(other)
    lan.run(DELAY)
    assert one.known == {other.id}


def test_where_the_clock_starts_does_not_matter() -> None:
    histories = []
    for start in (0.0, 1e9):
        lan = Lan(loss=0.3, start=start)
        hosts = [lan.add(number) for number in range(4)]
        lan.run(20)
        histories.append([host.events for host in hosts])
    assert histories[0] == histories[1]


def test_a_full_table_refuses_newcomers_and_keeps_those_it_has() -> None:
    lan, one, other = pair()
    body = next(frame.bodies for source, frame in lan.sent if source is other)
    header = {"discovery": [0, 0, None, None, "announce"]}
    strangers = [Inbound(endpoint_id(100 + n), 1, (f"10.1.0.{n}", 1), dict(header), body) for n in range(1500)]
    _, down = one.layer.receive(lan.now, strangers)
    assert len(one.known) == 1024
    assert other.id in one.known
    assert one.layer.statistics["peer table full"] == 1500 - 1023
    assert len(down) <= 1023


def forged(lan: Lan, number: int, host: str, interval_ms: int = 3_600_000) -> Inbound:
    """An announcement in the name of nobody, with the longest lease there is."""
    start = {"name": "forged", "interval_ms": interval_ms, "epoch": 0, "version": 0, "previous": 0, "base": 0}
    header = {"discovery": [0, 0, None, None, "announce"]}
    return Inbound(
        endpoint_id(number), 1, (host, 1 + number % 60_000), header, [orjson.dumps(start | {"operations": []})]
    )


def test_a_table_full_of_forged_peers_makes_room_for_a_newcomer_once_they_are_silent() -> None:
    lan, one, other = pair()
    one.layer.receive(lan.now, [forged(lan, 1000 + n, f"10.1.{n % 200}.{n // 200}") for n in range(1500)])
    assert len(one.known) == 1024
    lan.run(4)
    newcomer = lan.add(3)
    lan.run(1)
    assert {other.id, newcomer.id} <= one.known
    assert len(one.known) == 1024
    lan.run(60)
    assert {other.id, newcomer.id} <= one.known
    assert one.events.count(("removed", other.id, "evicted")) == 0


def test_one_machine_cannot_fill_the_table_with_its_forgeries() -> None:
    lan, one, other = pair()
    for second in range(10):
        one.layer.receive(lan.now, [forged(lan, 1000 + 1500 * second + n, "10.1.0.1") for n in range(1500)])
        lan.run(1)
    newcomer = lan.add(3)
    lan.run(0.1)
    assert {other.id, newcomer.id} <= one.known
    assert len(one.known) == 2 + HOST_LIMIT
    assert one.layer.statistics["too many peers on one host"] > 10_000


def test_peers_that_come_and_go_leave_their_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.discovery.follower.ALL_LIMIT", 4000)
    monkeypatch.setattr("glue.discovery.membership.HOST_LIMIT", 1)
    lan = Lan()
    one, wanted = lan.add(1), {f"topic/{number}" for number in range(20)}
    for number in range(2, 8):
        peer = lan.add(number)
        peer.address = ("10.9.0.1", 40000 + number)
        lan.want(peer, *wanted)
        lan.run(0.5)
        assert one.interests(peer.id) == wanted
        (lan.leave if number % 2 else lan.crash)(peer)
        lan.run(6)
        assert one.known == set()


def test_data_passes_unchanged_to_and_from_known_peers_only() -> None:
    lan, one, other = pair()
    item = Inbound(other.id, other.incarnation, other.address, {"transport": [1]}, [b"a", b"b"])
    assert one.layer.receive(lan.now, [item])[0] == [item]
    stranger = Inbound(endpoint_id(5), 1, ("10.0.0.5", 1), {"transport": [1]}, [b"a", b"b"])
    assert one.layer.receive(lan.now, [stranger])[0] == []
    to_peer, to_all, to_nobody = data(other.id), data(), data(endpoint_id(5))
    assert one.layer.send(lan.now, [to_peer, to_all, to_nobody]) == [to_peer, to_all]
    assert (to_peer.address, to_all.address) == (other.address, TO_PEERS)
    assert one.layer.statistics == {"unknown peer": 2, "unknown destination": 1}


def test_the_short_way_leads_to_the_same_addresses() -> None:
    lan, one, other = pair()
    to_peer, to_all = data(other.id), data()
    assert isinstance(one.layer, Discovery)
    path = DiscoveryFastPath(one.layer)
    one.layer.commit()
    assert one.layer.deadline > lan.now
    assert path.send_one(lan.now, to_peer) is to_peer
    assert path.send_one(lan.now, to_all) is to_all
    assert (to_peer.address, to_all.address) == (other.address, TO_PEERS)
    assert path.send_one(lan.now, data(endpoint_id(5))) is None


def test_a_peer_is_followed_to_another_address() -> None:
    lan, one, other = pair()
    other.address = ("10.0.9.9", 9)
    lan.run(1.5)  # an announcement, and the time in which it may say otherwise
    frame = data(other.id)
    one.layer.send(lan.now, [frame])
    assert frame.address == other.address
    assert len(one.events) == 1


@pytest.mark.parametrize("silence", [3.5, 4.0, 4.5, 4.55, 4.6, 4.65, 4.7])
def test_a_peer_that_is_back_at_another_address_just_before_its_lease_ends_is_not_lost(silence: float) -> None:
    lan, one, other = pair()
    lan.is_dropped = lambda source, host, frame: True
    lan.run(silence)
    other.address = ("10.0.9.9", 9)
    lan.is_dropped = None
    lan.run(3)
    assert len(one.events) == 1
    assert one.layer.peers[other.id].address == other.address


def test_nobody_is_sent_more_datagrams_than_came_in_their_name() -> None:
    lan, one, _ = pair()
    victim = ("10.9.9.9", 9)
    log = {"name": "x", "interval_ms": 10, "epoch": 3, "version": 9000, "previous": 0, "base": 9000, "operations": []}
    lan.want(one, *map(str, range(10_000)))
    lan.run(1)
    lan.sent.clear()
    for number, kind in enumerate(["announce", "probe", "want", "operations", "answer"] * 10):
        header = {"discovery": [0, 1234, 0, 0, one.id, kind]}
        forged = Inbound(endpoint_id(50), 1, victim, header, [orjson.dumps(log | {"interval_ms": 10 + number})])
        _, down = one.layer.receive(lan.now, [forged])
        lan.sent += [(one, frame) for frame in down]
        assert sum(len(frame.bodies) for _, frame in lan.sent if frame.address == victim) <= number + 1
    lan.run(60)
    assert sum(len(frame.bodies) for _, frame in lan.sent if frame.address == victim) <= 50


def test_a_known_peer_cannot_be_used_to_flood_a_victim() -> None:
    lan, one, other = pair()
    for _ in range(2):  # a probe is answered, which proves the address
        lan.is_dropped = lambda source, host, frame: frame.address is None
        lan.run(4)
    lan.is_dropped = None
    body = next(frame.bodies for source, frame in lan.sent if source is other)
    victim = ("10.9.9.9", 9)
    forged = Inbound(other.id, other.incarnation, victim, {"discovery": [0, 0, None, None, one.id, "probe"]}, body)
    lan.crash(other)
    _, down = one.layer.receive(lan.now, [forged])
    lan.sent = [(one, frame) for frame in down]
    lan.run(10)
    assert [frame.address for _, frame in lan.sent].count(victim) == 1


def test_peers_that_start_together_do_not_all_answer_each_other() -> None:
    lan = Lan()
    for number in range(30):
        lan.add(number)
    lan.run(5)
    answers = sum(frame.header["discovery"][-1] == "answer" for _, frame in lan.sent)
    assert answers < 0.75 * 30 * 29


def test_after_leaving_nothing_is_sent_any_more() -> None:
    lan, one, other = pair()
    one.layer.contact(("10.5.5.5", 1))
    lan.run(1.2)
    lan.leave(one)
    assert one.layer.deadline == float("inf")
    assert one.layer.send(lan.now, [data(other.id)])
    lan.add(3)
    lan.hosts.append(one)
    lan.sent.clear()
    lan.run(10)
    assert one not in [source for source, _ in lan.sent]


def test_a_name_that_fits_no_announcement_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="choose a shorter one"):
        Discovery(endpoint_id=endpoint_id(1), incarnation=1, name="\x01" * 255, random=Random(0))
    assert Discovery(endpoint_id=endpoint_id(1), incarnation=1, name="ü" * 127, random=Random(0)).fit(FRAME) == FRAME


def announcements(lan: Lan, host: Host) -> list[Outbound]:
    return [frame for source, frame in lan.sent if source is host and frame.address is None]


def test_an_announcement_that_is_nearly_due_goes_with_what_is_sent_anyway() -> None:
    lan = Lan()
    host, other = lan.add(1), lan.add(2)
    lan.run(5)
    lan.sent.clear()
    for _ in range(300):  # ten seconds
        lan.order(host, data(other.id))
        sent = len(announcements(lan, host))
        lan.run(1 / 30)
        assert len(announcements(lan, host)) == sent
    assert 10 <= sent <= 12


def test_an_endpoint_at_rest_wakes_for_its_announcements_alone() -> None:
    lan = Lan()
    host = lan.add(1)
    for number in range(2, 5):
        lan.add(number)
    lan.run(5)
    wakes = 0
    lan.sent.clear()
    end = lan.now + 60
    while lan.now < end:
        due = host.due
        lan.run(min(other.due for other in lan.hosts) - lan.now)
        wakes += due <= lan.now
    assert wakes <= len(announcements(lan, host)) + 3
