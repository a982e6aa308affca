"""Peers: seen to come, go, start again under the same name, and clash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import glue
from tests.support.lan import PATIENCE, Ear, Lan, listen

ROOT = Path(__file__).parents[2]
VICTIM = """
import sys, time
import glue
with glue.Endpoint(sys.argv[1], interface=sys.argv[2], multicast_address=sys.argv[3], network_id=int(sys.argv[4])):
    print("ready", flush=True)
    time.sleep(60)
"""


def kill_an_endpoint(lan: Lan, name: str, witness: Ear) -> None:
    """Run an endpoint of this name in a process of its own until the witness knows it, then kill it (-9)."""
    arguments = [name, *map(str, lan.settings.values())]
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            witness.wait(1)
        finally:
            process.send_signal(signal.SIGKILL)


def test_peers_know_each_other(lan: Lan) -> None:
    endpoints = [lan.start(name) for name in ("c", "a", "b")]
    for endpoint in endpoints:
        assert endpoint.wait_for_peers(2, PATIENCE)
        others = sorted(other.name for other in endpoints if other is not endpoint)
        assert [peer.name for peer in endpoint.peers] == others
    peer = endpoints[0].peers[0]
    assert (peer.id, peer.incarnation, peer.restarted) == (endpoints[1].id, endpoints[1].incarnation, False)
    assert peer.address[0] == "127.0.0.1"


def test_waiting_for_peers_or_subscribers_gives_up_in_time(lan: Lan) -> None:
    a = lan.start("a")
    assert not a.wait_for_peers(1, 0.01)
    assert not a.wait_for_subscribers("t", 1, 0.01)
    assert a.wait_for_peers(0, 0)


def test_coming_and_going_is_told(lan: Lan) -> None:
    a = lan.start("a")
    added, removed = Ear(), Ear()
    a.on_peer_added, a.on_peer_removed = added, removed
    b = lan.start("b")
    (peer,) = added.wait(1)
    assert (peer.name, peer.id, peer.incarnation, peer.restarted) == ("b", b.id, b.incarnation, False)
    b.close()
    (peer,) = removed.wait(1)
    assert (peer.name, peer.id, peer.reason) == ("b", b.id, "goodbye")
    assert a.peers == []


def test_a_handler_of_peers_may_publish_and_raise(lan: Lan, caplog: pytest.LogCaptureFixture) -> None:
    a = lan.make("a")
    ear = Ear()

    def greet(peer: glue.Peer) -> None:
        assert a.wait_for_subscribers("welcome", 1, PATIENCE)
        a.publish("welcome", peer.name)
        raise KeyError("my mistake")

    a.on_peer_added = greet
    a.start()
    lan.start("b").subscribe("welcome", ear)
    assert ear.wait(1)[0].payload == "b"
    lan.start("c").subscribe("welcome", ear)
    ear.wait_until(lambda heard: "c" in [message.payload for message in heard])
    assert "my mistake" in caplog.text


def test_endpoints_of_another_network_id_are_not_heard(lan: Lan) -> None:
    a = lan.start("a")
    stranger = lan.start("b", network_id=lan.settings["network_id"] ^ 1)
    ear = listen(a, "#")
    stranger.publish("t", 1)
    lan.start("c")
    assert a.wait_for_peers(1, PATIENCE)
    assert [peer.name for peer in a.peers] == ["c"]
    assert a.statistics["serialization"]["other network"] > 0
    assert ear.heard == []


def test_a_peer_that_was_killed_is_removed_after_its_lease(lan: Lan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUE_ANNOUNCE_INTERVAL", "0.05")
    added, removed = Ear(), Ear()
    watcher = lan.make("watcher")
    watcher.on_peer_added, watcher.on_peer_removed = added, removed
    watcher.start()
    kill_an_endpoint(lan, "victim", added)
    (peer,) = removed.wait(1)
    assert (peer.name, peer.reason) == ("victim", "expired")


def test_a_restart_under_the_same_name_is_a_new_life_at_once(lan: Lan) -> None:
    watcher = lan.make("watcher")
    added, removed = Ear(), Ear()
    watcher.on_peer_added, watcher.on_peer_removed = added, removed
    watcher.start()
    ear = listen(watcher, "t")
    kill_an_endpoint(lan, "phoenix", added)
    second = lan.start("phoenix")
    second.wait_for_subscribers("t", 1, PATIENCE)
    second.publish("t", "risen")
    first_life, second_life = added.wait(2)
    assert removed.wait(1)[0].reason == "restarted"
    assert first_life.id == second_life.id
    assert first_life.incarnation != second_life.incarnation == second.incarnation
    assert second_life.restarted
    assert ear.wait(1)[0].sequence == 1
    assert [peer.incarnation for peer in watcher.peers] == [second.incarnation]


def test_two_endpoints_of_one_name_are_told_of_each_other(lan: Lan, caplog: pytest.LogCaptureFixture) -> None:
    clashes = Ear(), Ear()
    twins = lan.make("twin", announce_interval=0.05), lan.make("twin", announce_interval=0.05)
    for twin, ear in zip(twins, clashes, strict=True):
        twin.on_name_clash = ear
        twin.start()
    for twin, other, ear in zip(twins, reversed(twins), clashes, strict=True):
        clash = ear.wait(1)[0]
        assert (clash.name, clash.id, clash.incarnation) == ("twin", twin.id, other.incarnation)
        assert twin.statistics["endpoint"]["name clashes"] == 1
    assert "uses the name 'twin'; give each endpoint a name of its own" in caplog.text
