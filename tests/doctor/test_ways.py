"""What endpoints tell of their pings becomes ways; a peer that tells nonsense is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from glue.doctor import EndpointSeen, PathSeen, Seen
from glue.doctor.lanes import lanes, ways_of
from glue.doctor.seen import SenderSeen
from glue.observing.listening import Listener
from glue.observing.reports import endpoint_seen, with_paths
from tests.doctor.scenes import at_hall, healthy

NUMBER, PINGS = 77, 10


def told(*peers: dict[str, Any], sent: int = PINGS, number: int = NUMBER) -> dict[str, Any]:
    return {"round": number, "pings": PINGS, "sent": sent, "peers": list(peers)}


def peer(id: str, **changes: Any) -> dict[str, Any]:
    came = {"multicast": [8, 8], "large_multicast": [2, 2], "unicast": [8, 8], "large_unicast": [2, 2]}
    return {"id": id, "pinged": True, "heard": NUMBER, "announced": 0.5, "round_trip": 0.001, **came, **changes}


def test_each_direction_is_what_its_target_counted() -> None:
    there, back = ways_of(NUMBER, PINGS, {"a": told(peer("b", unicast=[3, 8])), "b": told(peer("a"))})
    assert (there.source, there.target, there.unicast, there.round_trip) == ("b", "a", (3, 8), 0.001)
    assert (back.source, back.target, back.unicast, back.large_unicast) == ("a", "b", (8, 8), (2, 2))


def test_pings_of_another_round_and_of_peers_that_sent_none_do_not_count() -> None:
    assert ways_of(NUMBER, PINGS, {"a": told(), "b": told(number=5)})[0].source == "a"
    assert [one.source for one in ways_of(NUMBER, PINGS, {"a": told(), "b": told(sent=0), "c": {}})] == ["a", "a"]
    (way, *_) = ways_of(NUMBER, PINGS, {"a": told(peer("b", heard=5)), "b": told()})
    assert (way.multicast, way.unicast, way.known) == ((0, 8), None, True)


def test_a_peer_that_is_not_known_gets_nothing() -> None:
    way = next(one for one in ways_of(NUMBER, PINGS, {"a": told(), "b": told(peer("a"))}) if one.source == "b")
    assert (way.known, way.multicast, way.unicast) == (False, (0, 8), (0, 8))


@pytest.mark.parametrize(
    "section",
    [None, 7, [], {}, {"round": NUMBER}, {"round": NUMBER, "sent": "x"}, {"round": NUMBER, "sent": 5, "peers": 3},
     {"round": NUMBER, "sent": 5, "peers": [3, {}, {"id": 7}, {"id": "b", "multicast": "x", "heard": NUMBER}]},
     {"round": NUMBER, "sent": 5, "peers": [{"id": "b", "unicast": [None], "heard": NUMBER, "round_trip": "fast"}]}],
)  # fmt: skip
def test_nonsense_of_a_peer_breaks_nothing(section: Any) -> None:
    ways = ways_of(NUMBER, PINGS, {"a": section, "b": told(peer("a"))})
    assert all(way.multicast[0] == 0 for way in ways if way.target == "a")


def test_pings_are_counted_within_what_was_asked_for() -> None:
    def counts(sent: Any, *pairs: Any, pings: int = PINGS) -> Any:
        section = told(peer("b", **dict(zip(("multicast", "large_multicast", "unicast"), pairs, strict=False))))
        found = ways_of(NUMBER, pings, {"a": section, "b": told(peer("a"), sent=sent)})
        return [(one.multicast, one.large_multicast, one.unicast) for one in found if one.source == "b"]

    assert counts(10, [8, 8], [2, 2], [0, 8]) == [((8, 8), (2, 2), (0, 8))]
    assert counts(99, [8, 8]) == [((8, 8), (2, 2), (8, 8))], "no more than were asked for"
    assert counts(5, [1], [0]) == [((1, 4), (0, 1), (8, 4))]
    assert counts(1, [1]) == [((1, 1), (2, 0), (8, 1))]
    for nothing in (0, -1, "5"):
        assert counts(nothing) == []
    for nonsense in ([], [-1, 8], ["3"], "x", None):
        assert counts(10, nonsense)[0][0] == (0, 8)


def test_a_peer_that_was_never_reached_counts_as_pinged_except_by_the_doctor() -> None:
    section = told(peer("b", pinged=False, verified=False))
    found = {
        doctor: next(w for w in ways_of(NUMBER, PINGS, {"a": section, "b": told(peer("a"))}, doctor) if w.source == "a")
        for doctor in ("", "b")
    }
    assert (found[""].unicast, found["b"].unicast) == ((8, 8), None)
    verified = told(peer("b", pinged=False, verified=True))
    assert ways_of(NUMBER, PINGS, {"a": verified, "b": told(peer("a"))})[1].unicast is None


def test_ways_within_a_machine_are_no_lane() -> None:
    found = lanes(healthy())
    assert [(lane.source, lane.target) for lane in found] == [("", "10.0.0.2"), ("10.0.0.2", "")]
    assert found[0].multicast == (48, 48)


def test_what_was_seen_can_be_written_and_read_again() -> None:
    seen = at_hall(links={"eth0": True}, paths=(PathSeen(peer="kitchen", link="eth0"),))
    assert Seen.from_dict(json.loads(json.dumps(seen.as_dict()))) == seen


@pytest.mark.parametrize(
    "report",
    [None, 3, [], {}, {"version": 7, "network": 3, "counters": 9, "unix_time": "late", "epoch": True},
     {"network": {"mtu": "x", "receive_buffer": {"granted": None}}, "counters": {"network": {"a": "b"}, "x": 3}}],
)  # fmt: skip
def test_nonsense_in_a_report_leaves_the_defaults(report: Any) -> None:
    bare = EndpointSeen(name="hall", id="b")
    found = endpoint_seen(bare, report, 1000.0, 0.5)
    assert (found.version, found.mtu, found.epoch, found.clock_offset) == ("", 1500, None, 0.0)


def test_a_report_is_taken_over() -> None:
    report = {
        "version": "0.1.0", "sealed": True, "epoch": 3, "unix_time": 1100.0, "waiting": 5,
        "network": {"mtu": 1280, "receive_buffer": {"asked": 9, "granted": 8}, "interface": "eth0"},
        "counters": {"network": {"a": 1}},
    }  # fmt: skip
    found = endpoint_seen(EndpointSeen(name="hall", id="b"), report, 1000.0, 0.5)
    assert (found.version, found.sealed, found.epoch, found.clock_offset, found.mtu) == ("0.1.0", True, 3, 100.0, 1280)
    assert (found.buffer_asked, found.buffer_granted, found.counted("network", "a")) == (9, 8, 1)


@pytest.mark.parametrize(
    "told", [None, 3, [], {}, {"links": 7}, {"links": {"eth0": 3}, "peers": [{"paths": [{"link": 5}]}, 9]}]
)
def test_nonsense_about_paths_is_left_out(told: Any) -> None:
    found = with_paths(EndpointSeen(name="hall", id="b"), told)
    assert not any(found.links.values())
    assert found.paths == ()


def test_paths_are_taken_over() -> None:
    path = {"link": "eth0", "round_trip": 0.5, "loss": 0.1, "answers": True}
    peer = {"name": "hall", "link": "eth0", "paths": [path, {**path, "link": "wlan0", "answers": False}]}
    found = with_paths(EndpointSeen(name="kitchen", id="a"), {"links": {"eth0": True, "wlan0": True}, "peers": [peer]})
    assert [(one.link, one.carries, one.answers) for one in found.paths] == [
        ("eth0", True, True),
        ("wlan0", False, False),
    ]
    assert found.links == {"eth0": True, "wlan0": True}


def test_senders_are_told_apart_by_what_they_send() -> None:
    listener = Listener("239.192.137.1:37320")
    plain = b'{"glue":[1,%d,"%s",%d,0],"discovery":[1,0,null,null,"announce"]}\n{"name":"hall"}'
    for incarnation in (7, 8, 7, 8):
        listener.take(plain % (1, b"b" * 16, incarnation), ("10.0.0.2", 1), "eth0", 1)
    listener.take(plain % (1, b"d" * 16, 1), ("10.0.0.1", 1), "eth0", 1)
    listener.take(plain % (9, b"c" * 16, 1), ("10.0.0.3", 1), "eth0", 1)
    listener.take(b"\xe1\x07\x00\x01" + bytes(60), ("10.0.0.4", 1), "eth0", 1)
    for junk in (b"", b"junk", b"{}", b'{"glue":7}', b'{"glue":["x",1]}', b"[1]\n"):
        listener.take(junk, ("10.0.0.5", 1), "eth0", 5)
    senders, heard, looped = listener.senders("d" * 16)
    assert looped
    assert heard == {"eth0": 12}
    assert senders[0] == SenderSeen(
        address="10.0.0.2", port=1, count=4, interface="eth0", id="b" * 16, name="hall", lives=3
    )
    assert [(one.network_id, one.sealed, one.key_id) for one in senders[1:3]] == [(9, False, None), (1, True, 7)]
    assert (senders[3].version, senders[3].count, senders[3].ttl) == (None, 6, 5)
