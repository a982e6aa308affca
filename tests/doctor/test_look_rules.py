"""What a look of the doctor makes of what it was told: of peers, missing pings, time that is over, and failures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import ConfigurationError, PortInUseError
from glue.observing import machine, observer
from glue.observing.observer import Observer
from tests.doctor.test_look import Heard, links


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(observer, "time", SimpleNamespace(monotonic=lambda: found.now, time=lambda: 0.0))
    return found


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two addresses, on which nothing is wrong."""
    one = SimpleNamespace(ipv4=("10.0.0.9/24",), ipv6=("fe80::9/64",))
    monkeypatch.setattr(machine, "interfaces", lambda heard, errors: (one,))
    monkeypatch.setattr(machine, "error_counters", dict)
    monkeypatch.setattr(machine, "facts", lambda chosen: {})
    monkeypatch.setattr(machine, "processor_waits", lambda: 0.0)


def peer(id: str, address: Any) -> Any:
    return SimpleNamespace(name=f"name of {id}", id=id, address=address)


def test_each_peer_is_what_it_and_the_doctor_tell_of_it(here: None) -> None:
    told = [
        {"id": "b", "proven": True}, {"id": "c", "pongs": 2}, {"id": "d", "proven": False, "pongs": 0},
    ]  # fmt: skip
    own = {"links": {"peers": told}, "report": {"version": "9", "unix_time": 5.0}, "paths": {"links": {"eth0": True}}}
    answers = {
        "b": {"report": {"version": "1", "unix_time": 103.0}, "paths": {"links": {"eth1": True}}},
        "c": {"links": {}, "paths": {"links": {"eth2": True}}},
    }
    peers = [peer("b", ("fe80::9%eth0", 1)), peer("c", ("10.0.0.9", 1)), peer("d", ("10.0.0.1", 1)), peer("e", None)]
    endpoint: Any = SimpleNamespace(name="doctor", id="d0", peers=peers)
    doctor, *others = Observer({})._endpoints(endpoint, own, answers, 100.0, 2.0)
    assert (doctor.is_doctor, doctor.here, doctor.version, doctor.links) == (True, True, "9", {"eth0": True})
    assert doctor.clock_offset == 0.0, "its own clock is what others are compared with"
    assert [(one.name, one.id, one.address) for one in others] == [
        ("name of b", "b", "fe80::9"), ("name of c", "c", "10.0.0.9"), ("name of d", "d", "10.0.0.1"),
        ("name of e", "e", ""),
    ]  # fmt: skip
    assert [one.is_doctor for one in others] == [False] * 4
    assert [one.here for one in others] == [True, True, False, False]
    assert [one.proven for one in others] == [True, True, False, False]
    assert [one.answered for one in others] == [True, False, False, False]
    assert [one.version for one in others] == ["1", "", "", ""]
    assert [one.links for one in others] == [{"eth1": True}, {}, {}, {}], "paths come with a report"
    assert others[0].clock_offset == 3.0


@pytest.mark.parametrize(
    ("changed", "misses"),
    [
        ({}, False), ({"multicast": [0, 8]}, False), ({"multicast": [1, 8]}, True), ({"multicast": [7, 8]}, True),
        ({"unicast": [5, 8]}, True), ({"unicast": [0, 8]}, False), ({"large_multicast": [1, 2]}, True),
        ({"large_unicast": [1, 2]}, True), ({"large_unicast": [0, 2]}, False), ({"heard": 4}, False),
    ],
)  # fmt: skip
def test_a_way_misses_something_if_a_part_of_its_pings_came(changed: dict[str, Any], misses: bool) -> None:
    there, back = links(5, 10), links(5, 10)
    there["peers"][0]["id"] = "b"
    back["peers"][0] |= changed
    assert observer._misses(5, 10, {"d": there, "b": back}, "d") == misses
    there["peers"][0]["pinged"] = False
    is_unicast = any("unicast" in name for name in changed)
    assert observer._misses(5, 10, {"d": there, "b": back}, "d") == (misses and not is_unicast), "it sent none there"


@pytest.mark.parametrize(
    ("seconds", "answer", "asked", "busy", "stale"),
    [
        (4.75, links(5, 10, 3), 0, True, {"b"}),  # what is missing may be late
        (4.5, links(5, 10, 3), 1, False, set()),
        (4.75, links(5, 9), 0, True, {"b"}),
        (4.75, links(4, 10), 0, False, set()),  # the round did not reach it
        (4.75, links(5, 10), 0, False, set()),
    ],
)
def test_nobody_is_asked_again_when_the_time_is_over(
    seconds: float, answer: dict[str, Any], asked: int, busy: bool, stale: set[str], clock: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    looks: list[dict[str, Any]] = []

    def own(endpoint: Any) -> dict[str, Any]:
        looks.append({"links": links(5, 10)})
        looks[-1]["links"]["peers"][0]["id"] = "b"
        return looks[-1]

    def ask(endpoint: Any, sections: Any, timeout: float) -> list[Any]:
        return [SimpleNamespace(id="b", sections={"links": answer}), SimpleNamespace(id="new", sections={"links": {}})]

    monkeypatch.setattr(observer, "_own", own)
    monkeypatch.setattr(observer, "ask_all", ask)
    monkeypatch.setattr(observer, "LATEST", 4.5)
    look = Observer({}, lambda seconds: None)
    clock.now += seconds
    endpoint: Any = SimpleNamespace(id="d")
    answers: dict[str, Any] = {"b": {"links": answer}}
    told = look._complete(endpoint, 5, 10, answers)
    if asked:
        assert len(looks) > 1
        assert "new" in answers
    else:
        assert (len(looks), set(answers)) == (1, {"b"})
        assert (look._is_busy, look._stale) == (busy, stale)
    assert told is looks[-1], "what the doctor knows at the end"


def seen(look: Observer, endpoint: Any, told: dict[str, Any], **given: Any) -> Any:
    listener: Any = Heard("239.1.1.1:777")
    listener.senders = lambda own: ((), {}, True)
    joined: list[float] = []
    reader: Any = SimpleNamespace(join=joined.append)
    look._waited = 0.0
    found = look._seen(listener, endpoint, (), told, {}, reader, **given)
    assert joined == [1.0], "the rules of the firewall are waited for"
    return found


def test_the_doctor_s_own_multicast_is_judged_if_it_listened_and_has_no_key(here: None, clock: Any) -> None:
    endpoint: Any = SimpleNamespace(id="d0", peers=[], statistics={"network": {}})
    assert seen(Observer({}), endpoint, {}, own="d0").machine.looped is True
    assert seen(Observer({}), endpoint, {}).machine.looped is None
    sealed = Observer({})
    object.__setattr__(sealed.settings, "key", "secret")
    found = seen(sealed, endpoint, {}, own="d0")
    assert (found.machine.looped, found.sealed) == (None, True)


def test_why_no_endpoint_could_start_is_told(here: None, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str | None, family: Any) -> Any:
        raise ConfigurationError("nowhere")

    monkeypatch.setattr(observer, "choose_interface", refuse)
    for failure, is_port in ((PortInUseError("port 5 is in use"), True), (OSError("broken"), False)):
        found = seen(Observer({}), None, {}, failure=failure)
        assert (found.machine.failure, found.machine.port_taken) == (str(failure), is_port)
        assert (found.machine.chosen, found.machine.reason, found.machine.unsent) == (None, "", {})
        assert (found.ways, found.met, found.busy) == ((), (), False)


class Listening(Heard):
    """A listener that knows whether it runs."""

    is_running = False

    def start(self) -> bool:
        self.is_running = True
        return super().start()

    def stop(self) -> None:
        self.is_running = False

    def senders(self, own: str | None) -> Any:
        raise KeyboardInterrupt


@pytest.mark.parametrize("failing", ["make", "start", "start and look", "pause"])
def test_a_look_that_is_broken_off_leaves_nothing_running(
    failing: str, here: None, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners: list[Listening] = []
    closed: list[float] = []

    class Endpoint:
        close = staticmethod(closed.append)

        def __init__(self, **settings: Any) -> None:
            if failing == "make":
                raise KeyboardInterrupt

        def start(self) -> None:
            if failing.startswith("start"):
                raise PortInUseError("port 5 is in use")

    def listen(address: str) -> Listening:
        listeners.append(Listening(address))
        return listeners[-1]

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("glue.Endpoint", Endpoint)
    monkeypatch.setattr(observer, "Listener", listen)
    monkeypatch.setattr(machine, "firewall", lambda ports: ((), True))
    with pytest.raises(KeyboardInterrupt):
        Observer({}, interrupt if failing != "start and look" else lambda _: None).look()
    assert [one.is_running for one in listeners] == [False] * len(listeners)
    assert closed == ([] if failing == "make" else [0.0])


@pytest.mark.parametrize(("waits", "busy", "ways"), [(0.4, False, 2), (0.5, True, 1)])
def test_ways_to_an_endpoint_that_may_be_late_are_left_out_on_a_busy_machine(
    waits: float, busy: bool, ways: int, here: None, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "processor_waits", lambda: waits)
    there, back = links(5, 10), links(5, 10)
    there["peers"][0]["id"] = "b"
    endpoint: Any = SimpleNamespace(id="d", peers=[peer("b", ("fe80::1%eth0", 5))], statistics={"network": {}})
    look = Observer({"peers": ["10.0.0.3", "10.0.0.1"]})
    endpoint.peers.append(peer("c", ("10.0.0.1", 5)))
    look._round, look._pings, look._stale = 5, 10, {"b"}
    clock.now += 1.23456
    found = seen(look, endpoint, {"d": there, "b": back}, own="d")
    assert (found.busy, len(found.ways), found.seconds) == (busy, ways, 1.23)
    assert (found.contacts, found.met) == (("10.0.0.3", "10.0.0.1"), ("10.0.0.1",))
    look._is_busy = True
    assert seen(look, endpoint, {"d": there, "b": back}, own="d").busy
