"""A look of the doctor without a network: whom it asks, how often, and what it joins from the answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from glue.observing import machine, observer
from glue.observing.listening import Listener
from glue.observing.observer import Observer


def links(round: int, sent: int, came: int = 8) -> dict[str, Any]:
    pings = {"multicast": [came, 8], "large_multicast": [2, 2], "unicast": [8, 8], "large_unicast": [2, 2]}
    peer = {"id": "d", "pinged": True, "heard": round, **pings}
    return {"round": round, "sent": sent, "peers": [peer]}


@pytest.mark.parametrize(("answers", "asked", "busy", "stale"), [
    ([{}], 0, False, set()),  # nobody else is there
    ([links(5, 10)], 0, False, set()),
    ([links(5, 9), links(5, 10)], 1, True, set()),  # late, and then done
    ([links(4, 10), links(4, 10), links(4, 10), links(4, 10)], 2, False, set()),  # the round never came there
    ([links(4, 0), links(5, 10)], 1, False, set()),
    ([links(4, 0), links(5, 9), links(5, 10)], 2, True, set()),  # it had heard of the round after all
    ([links(5, 10, 3), links(5, 10, 3)], 1, False, set()),  # something is missing, and stays so
    ([links(5, 10, 3), links(5, 10, 8)], 1, False, set()),
    ([links(5, 9)] * 30, 22, True, {"b"}),  # never done
])  # fmt: skip
def test_who_may_be_late_is_asked_again(
    answers: list[dict[str, Any]], asked: int, busy: bool, stale: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(observer, "time", SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 0.0))
    own = links(5, 10)
    own["peers"][0]["id"] = "b"
    monkeypatch.setattr(observer, "_own", lambda endpoint: {"links": own})
    left = iter(answers[1:])
    questions: list[Any] = []

    def ask(endpoint: Any, sections: Any, timeout: float) -> list[Any]:
        questions.append((sections, timeout))
        found = next(left, None)
        return [] if found is None else [SimpleNamespace(id="b", sections={"links": found})]

    def pause(seconds: float) -> None:
        assert seconds == 0.2
        clock.now += seconds

    monkeypatch.setattr(observer, "ask_all", ask)
    look = Observer({}, pause)
    endpoint: Any = SimpleNamespace(id="d")
    told: dict[str, Any] = {"b": {"links": answers[0]}} if answers[0] else {}
    look._complete(endpoint, 5, 10, told)
    assert len(questions) == asked
    assert set(map(str, questions)) <= {"(['links'], 0.4)"}
    assert look._is_busy == busy
    assert look._stale == stale


def test_a_round_is_late_until_all_its_pings_are_sent() -> None:
    told = [None, {}, {"round": 4, "sent": 10}, {"round": 5, "sent": 9}, {"round": 5, "sent": 10}]
    assert [observer._is_late(one, 5, 10) for one in told] == [False, True, True, True, False]
    assert [observer._has_begun(one, 5) for one in told] == [False, False, False, True, True]


class Heard:
    """A listener that has heard the doctor, and one more on eth0."""

    hears = True

    def __init__(self, address: str) -> None:
        self.group = Listener(address).group
        self.stopped = False

    def start(self) -> bool:
        return self.hears

    def stop(self) -> None:
        self.stopped = True

    def heard_from(self, host: str, port: int) -> bool:
        return host == "10.0.0.3"

    def senders(self, own: str | None) -> Any:
        assert own == "d0"
        return ("a sender",), {"eth0": 4}, True


@pytest.mark.parametrize(("peers", "pings"), [(2, 30), (8, 30), (9, 20), (25, 20), (26, 8)])
def test_a_look_joins_all_that_was_seen(peers: int, pings: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    did: list[Any] = []

    def pause(seconds: float) -> None:
        did.append(round(seconds, 3))
        clock.now += seconds

    def pinged(id: str) -> dict[str, Any]:
        large = pings // 5
        came = {"multicast": [pings - large] * 2, "large_multicast": [large] * 2}
        return {
            "round": 77,
            "sent": pings,
            "peers": [{"id": id, "pinged": False, "heard": 77, "verified": True, **came}],
        }

    class Endpoint:
        name, id = "doctor", "d0"
        peers: Any = ()

        def __init__(self, **settings: Any) -> None:
            did.append(settings)
            self.statistics = {"network": {"not sent: EPERM": 3, "not sent: queue full": 9, "datagrams sent": 7}}

        def start(self) -> None:
            self.peers = [
                SimpleNamespace(name=f"p{number}", id=f"p{number}", address=(f"10.0.0.{number}", 37319))
                for number in range(2, 2 + peers)
            ]  # fmt: skip

        def close(self, timeout: float) -> None:
            did.append(("close", timeout))

    def ask(endpoint: Any, sections: Any, timeout: float) -> list[Any]:
        did.append((sections, timeout))
        clock.now += 0.5
        told = {"links": pinged("d0"), "report": {"version": "1.2", "unix_time": clock.now + 899.75}}
        return [SimpleNamespace(id="p2", sections=told)]

    monkeypatch.setattr(observer, "time", SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now + 900.0))
    monkeypatch.setattr("glue.Endpoint", Endpoint)
    monkeypatch.setattr(observer, "Listener", Heard)
    monkeypatch.setattr(observer, "ask_all", ask)

    def begin(endpoint: Any, count: int) -> int:
        did.append(count)
        return 77

    monkeypatch.setattr(observer, "begin_round", begin)
    own = {"links": pinged("p2"), "report": {"version": "9"}, "paths": {"links": {"eth0": True}}}
    monkeypatch.setattr(observer, "_own", lambda endpoint: own)
    waits = iter([0.0, 0.4])
    counts = iter([{"eth0": 5}, {"eth0": 9, "new": 3}])
    monkeypatch.setattr(machine, "processor_waits", lambda: next(waits))
    monkeypatch.setattr(machine, "error_counters", lambda: next(counts))
    monkeypatch.setattr(machine, "interfaces", lambda heard, errors: (
        SimpleNamespace(ipv4=("10.0.0.9/24",), ipv6=(), heard=heard, errors=errors),
    ))  # fmt: skip
    monkeypatch.setattr(machine, "firewall", lambda ports: ((f"a rule about {ports}",), False))
    monkeypatch.setattr(machine, "facts", lambda chosen: {"host": "vm", "may_capture": chosen == "eth0"})
    chosen = SimpleNamespace(interface=SimpleNamespace(name="eth0"), reason="it is good")
    monkeypatch.setattr(observer, "choose_interface", lambda name, family: chosen)
    settings = {"peers": ["10.0.0.2", "10.0.0.7"], "multicast_address": "239.1.1.1:777", "network_id": 5}
    seen: Any = Observer(settings, pause).look()
    assert did == [
        {"announce_interval": 0.25, **settings}, 1.0, pings, round(0.35 + pings * 0.035, 3),
        (("report", "links", "paths"), 1.0), ("close", 0.0),
    ]  # fmt: skip
    assert seen.seconds == pytest.approx(1.85 + pings * 0.035)
    assert (seen.network_id, seen.sealed, seen.senders, seen.busy) == (5, False, ("a sender",), False)
    assert seen.contacts == ("10.0.0.2", "10.0.0.7")
    assert seen.met == tuple(one for one in seen.contacts if int(one[-1]) < 2 + peers)
    here = seen.machine
    assert (here.port, here.group, here.chosen, here.reason, here.looped) == (
        777,
        "239.1.1.1",
        "eth0",
        "it is good",
        True,
    )
    assert (here.blocking, here.firewall_read) == (("a rule about (777, 37319)",), False)
    assert (here.unsent, here.may_capture, here.host, here.failure) == ({"not sent: EPERM": 3}, True, "vm", "")
    assert here.interfaces[0].errors == {"eth0": 4, "new": 0}
    assert here.interfaces[0].heard == {"eth0": 4}
    doctor, first, second = seen.endpoints[:3]
    assert (doctor.name, doctor.id, doctor.is_doctor, doctor.here, doctor.version) == ("doctor", "d0", True, True, "9")
    assert doctor.links == {"eth0": True}
    assert (first.name, first.version, first.answered, first.address, first.here) == (
        "p2",
        "1.2",
        True,
        "10.0.0.2",
        False,
    )
    assert first.clock_offset == 0.0, "within the time of asking"
    assert (second.answered, second.version, len(seen.endpoints)) == (False, "", 1 + peers)
    assert [one.here for one in seen.endpoints] == [True, *(number == 9 for number in range(2, 2 + peers))]
    assert {(way.source, way.target) for way in seen.ways} == {("d0", "p2"), ("p2", "d0")}
