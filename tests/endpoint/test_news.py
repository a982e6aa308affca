"""Which callback is called with what, and what an endpoint tells of itself, without a network."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio
from glue.contract import Awake, NameClash, PeerAdded, PeerRemoved, Undelivered
from glue.endpoint import notices
from glue.endpoint.activity import PEERS, paths
from glue.endpoint.deadlines import Silence
from glue.endpoint.healed import Healed, RetainedConflict, RetainedVersion
from glue.endpoint.message import Gap, Peer
from glue.endpoint.notices import WORDS, Notices
from glue.endpoint.paths import section_of_paths, told_of_paths
from glue.endpoint.sections import MOST_COUNTERS, SECTIONS, section_of
from glue.simulation import World

GAP = Gap("lost", 2, "t/+", "t/1", "b", "id-b")
SILENCE = Silence("t", "b", "id-b", 2.5, "t/+")
VERSION = RetainedVersion(1, "b", "id-b", 5.0)
CONFLICT = RetainedConflict("t", (VERSION,), VERSION)
HEALED = Healed(("b",), 5.0, 3, 2, 1, 0, ())
MISMATCH: Any = SimpleNamespace(topic="t")

NEWS: list[tuple[str, str, Any, tuple[Any, ...]]] = [
    ("on_gap", "_tell_gap", GAP, (GAP,)),
    ("on_deadline", "_tell_silence", SILENCE, (SILENCE,)),
    ("on_qos_mismatch", "_tell_qos_mismatch", MISMATCH, (MISMATCH,)),
    ("on_mismatch", "_tell_mismatch", MISMATCH, (MISMATCH,)),
    ("on_heal", "_tell_healed", HEALED, (HEALED,)),
    ("on_conflict", "_decide", CONFLICT, (CONFLICT,)),
    ("on_lost", "_tell", Undelivered("id-b", 3, "expired"), ("expired", 3)),
]


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
@pytest.mark.parametrize(("name", "teller", "event", "arguments"), NEWS)
def test_a_callback_is_called_with_its_news(
    kind: Any, name: str, teller: str, event: Any, arguments: tuple[Any, ...]
) -> None:
    endpoint = kind("a")
    tells = name in ("on_qos_mismatch", "on_mismatch")
    assert getattr(endpoint, teller)(event) is (False if tells else None)
    called: list[tuple[Any, ...]] = []

    def note(*news: Any) -> Any:
        called.append(news)
        return VERSION

    setattr(endpoint, name, note)
    result = getattr(endpoint, teller)(event)
    assert called == [arguments]
    assert result is (True if tells else VERSION if name in ("on_conflict", "on_lost") else None)
    assert endpoint._core.statistics["handler failed"] == 0


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
@pytest.mark.parametrize(("name", "teller", "event"), [one[:3] for one in NEWS[:-1]])
def test_a_callback_that_fails_is_logged_and_counted(
    kind: Any, name: str, teller: str, event: Any, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = kind("a")

    def fail(*news: Any) -> None:
        raise KeyError("mine")

    setattr(endpoint, name, fail)
    result = getattr(endpoint, teller)(event)
    assert result is (True if name in ("on_qos_mismatch", "on_mismatch") else None)
    assert endpoint._core.statistics["handler failed"] == 1
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "failed on" in record.getMessage()


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_news_of_peers_are_told_with_all_that_is_known(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    endpoint = kind("a")
    told: list[Any] = []
    events = (
        PeerAdded("id-b", 7, "b", ("::1", 5), True), PeerRemoved("id-b", 7, "b", "expired"),
        PeerRemoved("id-b", 7, "b", "goodbye"), NameClash("a", 9, ("::1", 6)),
    )  # fmt: skip
    for event in events:
        endpoint._tell(event)
    for name in ("on_peer_added", "on_peer_removed", "on_name_clash"):
        setattr(endpoint, name, lambda peer, name=name: told.append((name, peer)))
    for event in events:
        endpoint._tell(event)
    assert told == [
        ("on_peer_added", Peer("b", "id-b", 7, ("::1", 5), True)),
        ("on_peer_removed", Peer("b", "id-b", 7, (), False, "expired")),
        ("on_peer_removed", Peer("b", "id-b", 7, (), False, "goodbye")),
        ("on_name_clash", Peer("a", endpoint.id, 9, ("::1", 6))),
    ]
    assert [one.getMessage() for one in caplog.records] == [
        "another endpoint, at ('::1', 6), uses the name 'a'; give each endpoint a name of its own"
    ] * 2
    watch = endpoint._heals
    assert [*watch._lost] == ["id-b"]  # whose silence may be that of a split
    assert watch._lease == endpoint.settings.announce_interval * endpoint.settings.lease_intervals
    seen: list[Any] = []
    endpoint._heals = SimpleNamespace(gap=seen.append, found=seen.append)
    endpoint._tell_gap(GAP)
    endpoint._tell(events[0])
    assert seen == [GAP, events[0]]


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_an_endpoint_that_woke_up_tells_if_it_knows_of_its_sleep(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = kind("a")
    woken: list[Any] = []
    event = object.__new__(Awake)
    monkeypatch.setattr(endpoint, "_rise", lambda event: None)
    endpoint.on_wake = woken.append
    endpoint._tell(event)
    assert woken == []
    monkeypatch.setattr(endpoint, "_rise", lambda event: "woke")
    endpoint._tell(event)
    assert woken == ["woke"]


def test_what_did_not_heal_well_is_logged_where_nobody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    endpoint = glue.Endpoint("a")
    fine = Healed(("b",), 5.0, 2, 2, 0, 0, ())
    conflict = Healed(("b",), 5.0, 0, 0, 0, 0, (CONFLICT,))
    for healed in (fine, HEALED, conflict):
        endpoint._tell_healed(healed)
    endpoint.on_heal = lambda healed: None
    endpoint._tell_healed(fine)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", str(HEALED)), ("WARNING", str(conflict)), ("INFO", str(fine)),
    ]  # fmt: skip


def test_each_cause_is_told_once_for_each_host_and_not_for_ever() -> None:
    told: list[str] = []
    tell = Notices(42, told.append).tell
    causes = [*WORDS]
    tell(causes[0], ("::1", 5))
    tell(causes[0], ("::1", 6))
    tell(causes[0], ("::2", 6))
    tell(causes[1], None)
    tell(f"{causes[7]}: 'b' may not publish: here", ("::1", 5))
    assert told[:3] == [
        WORDS[causes[0]].format(address="::1:5", network=42), WORDS[causes[0]].format(address="::2:6", network=42),
        WORDS[causes[1]].format(address="an unknown address", network=42),
    ]  # fmt: skip
    assert told[3] == "refused by the rules: 'b' may not publish: here"
    assert notices.TOLD == 64
    for number in range(100):
        tell(causes[0], (f"::3:{number}", 5))
    assert len(told) == 64


# --------------------------------------------------------------------------------------------------------- sections


def test_an_endpoint_reports_who_it_is_and_what_waits() -> None:
    world = World()
    one, other = world.endpoint("one"), world.endpoint("other")
    assert world.run_until(lambda: one.peers and other.peers, 5)
    report = section_of(one, "report")
    expected = {
        "name": "one", "id": one.id, "incarnation": one.incarnation, "peers": 1, "waiting": 0, "sealed": False,
        "epoch": None, "network_id": one.settings.network_id, "receive_limit": one.settings.receive_limit,
        "announce_interval": one.settings.announce_interval, "version": glue.__version__,
        "multicast_address": one.settings.multicast_address, "unix_time": one.host.unix_time,
    }  # fmt: skip
    assert {name: report[name] for name in expected} == expected
    assert report["pid"] > 0
    assert report["load"] >= 0


def test_of_many_counters_of_a_layer_the_first_that_counted_are_reported() -> None:
    world = World()
    one: Any = world.endpoint("one")
    counted = {f"cause {number:02}": number for number in range(60)}
    subject: Any = SimpleNamespace(
        settings=one.settings, _core=one._core, _network=None, _clock_origin=None, name="one", id=one.id,
        incarnation=1, statistics={"discovery": counted, "topics": counted},
    )  # fmt: skip
    report = section_of(subject, "report")
    assert report["network"] is None
    assert report["counters"] == {"discovery": {f"cause {number:02}": number for number in range(1, 48)}}
    assert MOST_COUNTERS == 48


def test_an_unknown_section_is_none_and_every_section_can_be_told() -> None:
    world = World()
    one = world.endpoint("one")
    assert section_of(one, "nonsense") is None
    assert [name for name in SECTIONS if section_of(one, name) is None] == []


def test_the_load_of_a_machine_is_told_for_each_of_its_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    one = World().endpoint("one")
    monkeypatch.setattr("os.getloadavg", lambda: (3.14159, 0.0, 0.0))
    for processors, load in ((2, 1.57), (1, 3.14), (None, 3.14)):
        monkeypatch.setattr("os.cpu_count", lambda processors=processors: processors)
        assert section_of(one, "report")["load"] == load

    def unknown() -> Any:
        raise OSError

    monkeypatch.setattr("os.getloadavg", unknown)
    assert section_of(one, "report")["load"] == 0.0


def test_a_clock_that_was_set_is_told() -> None:
    world = World()
    one: Any = world.endpoint("one")
    one._clock_origin = None
    assert section_of(one, "report")["clock_moved"] == 0.0
    requests = one._core.requests
    one._clock_origin = requests.unix_time() - requests.clock() - 2.5
    assert section_of(one, "report")["clock_moved"] == 2.5


def core_with(*channels: dict[str, tuple[float, float | None, bool]]) -> Any:
    """A core whose channels have members with loss, round trip and whether unicast serves them."""
    from glue.transport import Transport

    transport: Any = object.__new__(Transport)
    transport.channels = {
        number: SimpleNamespace(
            members={
                peer: SimpleNamespace(
                    window=SimpleNamespace(loss=loss), detached=unicast,
                    round_trip=SimpleNamespace(measured=trip is not None, smoothed=trip),
                )
                for peer, (loss, trip, unicast) in members.items()
            }
        )
        for number, members in enumerate(channels)
    }  # fmt: skip
    return SimpleNamespace(stack=SimpleNamespace(layers={"transport": transport}))


def test_the_worst_of_several_channels_to_a_peer_counts() -> None:
    nan = float("nan")
    core = core_with(
        {"b": (0.01, 0.002, False), "c": (nan, None, False)},
        {"b": (0.12345678, 0.0012345678, True), "c": (nan, None, False)},
        {"b": (0.02, 0.001, False), "d": (0.5, 0.25, True)},
    )
    assert paths(core) == [
        {"peer": "b", "loss": 0.1235, "round_trip": 0.002, "unicast": True},
        {"peer": "c", "loss": None, "round_trip": None, "unicast": False},
        {"peer": "d", "loss": 0.5, "round_trip": 0.25, "unicast": True},
    ]
    assert paths(SimpleNamespace(stack=SimpleNamespace(layers={"transport": object()}))) == []  # type: ignore[arg-type]


def test_no_more_peers_are_told_of_than_fit() -> None:
    assert PEERS == 200
    core = core_with({f"{number:03}": (0.0, None, False) for number in range(201)}, {"000": (0.5, None, False)})
    found = paths(core)
    assert [one["peer"] for one in found] == [f"{number:03}" for number in range(200)]
    assert found[0]["loss"] == 0.5


def path(link: str, address: str, answers: bool = True) -> dict[str, Any]:
    return {"link": link, "address": (address, 5), "round_trip": 0.0125, "loss": 0.25, "answers": answers, "more": 1}


def test_paths_of_peers_are_told_with_the_one_in_use_first() -> None:
    used, other = path("eth1", "10.0.1.2"), path("eth0", "10.0.0.2", False)
    told = {
        "b": {"link": "eth1", "address": ("10.0.1.2", 5), "paths": [other, used]},
        "a": {"link": "eth0", "address": ("10.0.0.9", 5), "paths": [other]},
    }
    discovery: Any = SimpleNamespace(links=SimpleNamespace(names=["eth0", "eth1"], describe=lambda: told))
    assert [*told_of_paths(discovery)] == [
        ("a", "by eth0 to 10.0.0.9; or eth0 to 10.0.0.2 (12.5 ms, 25% loss, silent)"),
        ("b", "by eth1 to 10.0.1.2 (12.5 ms, 25% loss); or eth0 to 10.0.0.2 (12.5 ms, 25% loss, silent)"),
    ]
    network = SimpleNamespace(describe=lambda: {"links": {"eth0": {"up": 0}, "eth1": {"up": 1}, "eth2": {}}})
    section = section_of_paths(discovery, network)
    kept = [{name: one[name] for name in ("link", "round_trip", "loss", "answers")} for one in (other, used)]
    assert section == {
        "links": {"eth0": False, "eth1": True, "eth2": False},
        "peers": [{"name": "a", "link": "eth0", "paths": kept[:1]}, {"name": "b", "link": "eth1", "paths": kept}],
    }
    assert section_of_paths(discovery, None) == {}
    for nothing in (SimpleNamespace(links=None), SimpleNamespace(links=SimpleNamespace(names=[])), object()):
        assert [*told_of_paths(nothing)] == []
        assert section_of_paths(nothing, network) == {}


def test_of_many_peers_and_paths_the_first_are_told() -> None:
    many = [path("eth0", f"10.0.0.{number}") for number in range(9)]
    told = {f"{number:02}": {"link": "eth0", "address": ("10.0.0.0", 5), "paths": many} for number in range(65)}
    discovery: Any = SimpleNamespace(links=SimpleNamespace(names=["eth0"], describe=lambda: told))
    section = section_of_paths(discovery, SimpleNamespace(describe=dict))
    assert (section["links"], len(section["peers"]), len(section["peers"][0]["paths"])) == ({}, 64, 8)
    assert section["peers"][63]["name"] == "63"
