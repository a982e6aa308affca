"""Endpoints with two interfaces on two bridges, with real sockets: links are cut in the middle of a stream."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import glue
from glue.doctor import diagnose
from glue.observing import Observer
from glue.security.key import new_key
from tests.namespaces.endpoints import endpoint
from tests.namespaces.talkers import PATIENCE, Talker
from tests.security.test_identities import KEY, identity
from tests.support.lan import Ear, listen
from tests.support.namespaces import Host, needs_namespaces
from tests.support.two_segments import cut, join, two_segments

pytestmark = [pytest.mark.namespaces, needs_namespaces]

BOTH = ["eth0", "eth1"]
COUNT = 300


def paths(of: glue.Endpoint, peer: glue.Endpoint) -> dict[str, Any]:
    discovery: Any = of._core.stack.layers["discovery"]
    return dict(discovery.links.describe().get(peer.name, {"link": "", "paths": []}))


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(0.01)


@contextmanager
def pair(hosts: list[Host], **settings: Any) -> Iterator[tuple[glue.Endpoint, glue.Endpoint, Ear]]:
    """Two endpoints that know both paths to each other, and what the second hears of the first."""
    with endpoint(hosts[0], BOTH, **settings) as a, endpoint(hosts[1], BOTH, **settings) as b:
        ear = listen(b, "t", a)
        wait_until(lambda: min(len(paths(a, b)["paths"]), len(paths(b, a)["paths"])) > 1)
        yield a, b, ear


def stream(a: glue.Endpoint, in_the_middle: Callable[[], object]) -> None:
    """Publish COUNT numbers, a thousand a second; a third of them before this is done, without a pause."""
    for number in range(COUNT):
        if number == COUNT // 3:
            in_the_middle()
        a.publish("t", number)
        time.sleep(0.001)


@pytest.mark.parametrize("how", ["here", "there", "unnoticed"])
def test_a_link_that_dies_in_a_stream_loses_and_doubles_nothing(how: str) -> None:
    with two_segments(2) as hosts, pair(hosts) as (a, b, ear):
        dead = paths(a, b)["link"]
        if how == "unnoticed":
            stream(a, lambda: cut(hosts[0], dead))
        else:
            stream(a, lambda: hosts[how == "there"].ip(f"link set {dead} down"))
        ear.wait(COUNT)
        assert a.flush(PATIENCE)
        assert ear.payloads == [*range(COUNT)]
        assert paths(a, b)["link"] in {*BOTH} - {dead}
        text = next(line for line in a.describe().splitlines() if line.startswith("peer "))
        assert f"by {paths(a, b)['link']} to 10.7" in text


def test_over_ipv6_too_with_large_messages_and_link_local_addresses() -> None:
    with two_segments(2) as hosts, pair(hosts, multicast_address="[ff15::1]:37320") as (a, b, ear):
        dead = paths(a, b)["link"]
        payloads = [bytes([number]) * 1_000_000 for number in range(20)]
        for number, payload in enumerate(payloads):
            if number == 5:
                cut(hosts[0], dead)
            a.publish("t", payload)
        ear.wait(len(payloads))
        assert ear.payloads == payloads
        assert paths(a, b)["link"] != dead


def test_with_a_key_too_and_a_link_that_comes_back_is_used_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(new_key(os.urandom).to_text())
    file.chmod(0o600)
    with two_segments(2) as hosts, pair(hosts, key=str(file)) as (a, b, ear):
        first = paths(a, b)["link"]
        stream(a, lambda: cut(hosts[0], first))
        ear.wait(COUNT)
        cut(hosts[0], first, is_cut=False)
        wait_until(lambda: all(path["answers"] for path in paths(a, b)["paths"]))
        second = paths(a, b)["link"]
        stream(a, lambda: hosts[0].ip(f"link set {second} down"))
        ear.wait(2 * COUNT)
        assert a.flush(PATIENCE)
        assert ear.payloads == 2 * [*range(COUNT)]
        assert second != first == paths(a, b)["link"]


def test_members_with_identities_lose_and_double_nothing_either(tmp_path: Path) -> None:
    texts = {"key": KEY.to_text(), **{name: identity(name).to_text() for name in ("kitchen", "hall")}}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    key = str(tmp_path / "key")
    with (
        two_segments(2) as hosts,
        endpoint(hosts[0], BOTH, "kitchen", key=key, identity=str(tmp_path / "kitchen")) as a,
        endpoint(hosts[1], BOTH, "hall", key=key, identity=str(tmp_path / "hall")) as b,
    ):
        ear = listen(b, "t", a)
        wait_until(lambda: min(len(paths(a, b)["paths"]), len(paths(b, a)["paths"])) > 1)
        stream(a, lambda: cut(hosts[0], paths(a, b)["link"]))
        ear.wait(COUNT)
        assert a.flush(PATIENCE)
        assert ear.payloads == [*range(COUNT)]


def test_the_doctor_tells_which_link_carries_what_and_which_is_dead() -> None:
    with two_segments(2) as hosts, pair(hosts) as (a, b, _):
        with hosts[0].entered():
            seen = Observer({"interface": BOTH}).look()
        assert diagnose(seen).is_healthy
        for one, peer in ((a, b), (b, a)):
            told = seen.endpoint(one.id)
            assert told is not None
            assert told.links == {"eth0": True, "eth1": True}
            found = {path.link: path for path in told.paths if path.peer == peer.name}
            assert set(found) == set(BOTH)
            assert [path.link for path in found.values() if path.carries] == [paths(one, peer)["link"]]
        cut(hosts[1], "eth1")
        wait_until(lambda: not all(path["answers"] for path in paths(a, b)["paths"]))
        with hosts[0].entered():
            findings = diagnose(Observer({"interface": BOTH}).look()).findings
        silent = [one.verdict for one in findings if one.rule == "path-silent"]
        assert any(f"not answer {a.name}" in text and "by eth1; eth0 carries" in text for text in silent), findings
        hosts[1].ip("link set eth1 down")
        wait_until(lambda: not b._network.describe()["links"]["eth1"]["up"])  # type: ignore[union-attr]
        with hosts[0].entered():
            findings = diagnose(Observer({"interface": BOTH}).look()).findings
        assert any("eth1 of" in one.verdict and one.rule == "link-down" for one in findings), findings


def test_an_interface_that_is_missing_at_the_start_is_used_once_it_is_there() -> None:
    with two_segments(2) as hosts:
        hosts[0].ip("link set eth1 name later0")
        with endpoint(hosts[0], BOTH) as a, endpoint(hosts[1], BOTH) as b:
            ear = listen(b, "t", a)
            assert paths(a, b)["link"] == "eth0"
            hosts[0].ip("link set later0 down", "link set later0 name eth1", "link set eth1 up")
            wait_until(lambda: len(paths(a, b)["paths"]) == len(paths(b, a)["paths"]) == 2)
            stream(a, lambda: hosts[0].ip("link set eth0 down"))
            ear.wait(COUNT)
            assert ear.payloads == [*range(COUNT)]
        with (
            hosts[0].entered(),
            pytest.raises(glue.InterfaceError, match=r"nix0.*nix1.*those that exist are lo, eth0, eth1"),
        ):
            glue.Endpoint(interface=["nix0", "nix1"]).start()


def test_an_address_that_changes_is_followed() -> None:
    with two_segments(2) as hosts, pair(hosts) as (a, b, ear):
        hosts[0].ip("addr flush dev eth1", "addr add 10.79.0.9/24 dev eth1")
        wait_until(lambda: ["10.79.0.9", 37319] in [path["address"] for path in paths(b, a)["paths"]])
        stream(a, lambda: hosts[1].ip("link set eth0 down"))
        ear.wait(COUNT)
        assert ear.payloads == [*range(COUNT)]


def test_two_links_to_one_segment_still_give_each_message_once() -> None:
    with (
        two_segments(2) as hosts,
        join(hosts),
        pair(hosts) as (a, b, ear),
        endpoint(hosts[1], "eth0", "single") as single,
    ):
        hosts[0].ip("route add 10.77.0.0/24 dev eth1 metric 200")  # to `single`, once eth0 is down
        other = listen(single, "t", a)
        wait_until(lambda: len(a.subscribers("t")) == 2)
        dead = paths(a, b)["link"]
        stream(a, lambda: hosts[0].ip(f"link set {dead} down"))
        for heard in (ear, other):
            heard.wait(COUNT)
            assert heard.payloads == [*range(COUNT)]


def test_the_commands_take_several_interfaces() -> None:
    with two_segments(2) as hosts:
        one = Talker(hosts[0], "one", "--interface", "eth0", "--interface", "eth1", "--send-messages", "--rate", "100")
        two = Talker(hosts[1], "two", "--interface", "eth0,eth1", "--wait-for", "1")
        two.wait_for_more([one])
        hosts[1].ip("link set eth0 down")
        two.wait_for_more([one])
        hosts[1].ip("link set eth0 up", "link set eth1 down")
        two.wait_for_more([one])
        numbers = two.heard("one")
        assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]
