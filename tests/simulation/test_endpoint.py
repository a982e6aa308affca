"""A simulated endpoint behaves as `glue.Endpoint` does, but that its time is virtual and its faults are chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glue import ClosedError, ConfigurationError, Message, Peer, TopicError, WouldBlockError
from glue.simulation import Conditions, SimulatedEndpoint, SimulatedSubscription, World

ROOT = Path(__file__).parents[2]


def pair(world: World) -> tuple[SimulatedEndpoint, SimulatedEndpoint]:
    """Two endpoints that know each other."""
    one, other = world.endpoint("one"), world.endpoint("other")
    assert world.run_until(lambda: one.peers and other.peers, 5)
    return one, other


def test_what_is_published_between_runs_arrives_after_the_delay_of_the_link() -> None:
    world = World()
    one, other = pair(world)
    heard = other.subscribe("t")
    world.run(0.1)
    published_at = world.time
    one.publish("t", {"celsius": 21.5}, type="Temperature")
    assert heard.received == []
    assert world.run_until(lambda: heard.received, 1)
    assert world.time == pytest.approx(published_at + Conditions().delay)
    (message,) = heard.received
    assert (message.payload, message.type, message.publisher) == ({"celsius": 21.5}, "Temperature", "one")
    assert message.published_at == one.host.unix_time - Conditions().delay


def test_it_hears_itself_and_handlers_may_publish_and_close() -> None:
    world = World()
    endpoint = world.endpoint()
    heard: list[object] = []

    def echo(message: Message) -> None:
        heard.append(message.payload)
        if message.payload == 3:
            subscription.close()
        else:
            endpoint.publish("t", message.payload + 1)

    subscription = endpoint.subscribe("t", echo)
    endpoint.publish("t", 0)
    world.run(1)
    assert heard == [0, 1, 2, 3]


def test_what_a_handler_raises_comes_out_of_run() -> None:
    world = World()
    endpoint = world.endpoint()

    def fail(message: Message) -> None:
        raise AssertionError(f"{message.payload} is wrong")

    endpoint.subscribe("t", fail)
    endpoint.publish("t", 7)
    with pytest.raises(AssertionError, match="7 is wrong"):
        world.run(1)


def test_each_subscription_gets_every_message_until_it_is_closed() -> None:
    world = World()
    one, other = pair(world)
    first, second = other.subscribe("t"), other.subscribe("+")
    world.run(0.1)
    one.publish("t", 1)
    world.run(0.1)
    first.close()
    other.unsubscribe(second)
    third = other.subscribe("t")
    world.run(0.1)
    one.publish("t", 2)
    world.run(0.1)
    assert [[m.payload for m in subscription.received] for subscription in (first, second, third)] == [[1], [1], [2]]


def test_what_comes_for_a_subscription_that_a_handler_has_closed_is_accounted_for_as_unread() -> None:
    world = World()
    one, other = pair(world)
    closing: list[SimulatedSubscription] = []

    def close(message: Message) -> None:
        for each in closing:
            each.close()

    closing += [other.subscribe("t", close), other.subscribe("t", close)]
    world.run(2.0)
    one.publish("t", 1)
    world.run(1.0)
    assert (other.accounting.waiting, other.accounting.received["unread"]) == (0, 1)


def test_a_handler_that_takes_its_time_handles_one_message_after_the_other() -> None:
    world = World()
    endpoint = world.endpoint()
    handled: list[float] = []
    endpoint.subscribe("t", lambda _: handled.append(world.time), handling_time=0.5)
    endpoint.publish_many("t", range(4))
    world.run(1.2)
    endpoint.pause()
    world.run(10)
    endpoint.resume()
    world.run(1)
    assert handled == pytest.approx([0.5, 1.0, 11.5, 12.0])


def test_publishing_into_a_full_queue_is_refused_until_there_is_room() -> None:
    world = World()
    one, other = world.endpoint(queue_limit=1000), world.endpoint()
    heard = other.subscribe("t")
    world.run(1)
    one.publish("t", bytes(1001))
    with pytest.raises(WouldBlockError, match="queue_limit=1000"):
        one.publish("t", b"")
    assert world.run_until(lambda: one.backlog == 0, 1)
    one.publish("t", b"")
    world.run(1)
    assert [len(message.payload) for message in heard.received] == [1001, 0]


def test_a_callers_mistake_raises() -> None:
    world = World()
    endpoint = world.endpoint()
    with pytest.raises(TopicError):
        endpoint.publish("a/#", b"")
    with pytest.raises(TopicError):
        endpoint.subscribe("a#")
    with pytest.raises(ConfigurationError, match="wrong"):
        world.endpoint(wrong=1)
    with pytest.raises(ConfigurationError, match="its world's network"):
        world.endpoint(network=print)
    with pytest.raises(ConfigurationError, match="multicast only"):
        world.endpoint(discovery="dns-sd")


def test_settings_count_and_environment_variables_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUE_NETWORK_ID", "7")
    monkeypatch.setenv("GLUE_NAME", "from the environment")
    world = World()
    one, other, apart = world.endpoint(), world.endpoint("other"), world.endpoint("apart", network_id=2)
    world.run(1)
    assert (one.name, one.settings.network_id) == ("endpoint-1", 1)
    assert [peer.name for peer in other.peers] == ["endpoint-1"]
    assert apart.peers == []
    assert apart.statistics["discovery"].total() == 0


@pytest.mark.parametrize("how", ["close", "crash"])
def test_after_its_end_it_cannot_be_used_until_it_is_restarted(how: str) -> None:
    world = World()
    one, other = pair(world)
    gone: list[tuple[str, str]] = []
    come: list[tuple[str, bool]] = []
    other.on_peer_removed = lambda peer: gone.append((peer.name, peer.reason))
    other.on_peer_added = lambda peer: come.append((peer.name, peer.restarted))
    subscription = one.subscribe("#")
    getattr(one, how)()
    world.run(10)
    assert subscription.closed
    assert gone == [("one", {"close": "goodbye", "crash": "expired"}[how])]
    for use in (lambda: one.publish("t", b""), lambda: one.subscribe("t"), lambda: one.publish_many("t", [])):
        with pytest.raises(ClosedError, match="restart"):
            use()
    former = one.incarnation
    one.restart()
    assert one.is_running
    assert one.incarnation > former
    world.run(1)
    assert come == [("one", False)]
    assert [peer.name for peer in one.peers] == ["other"]


def test_closing_waits_for_acknowledgements_as_long_as_it_may() -> None:
    world = World()
    one, other = pair(world)
    heard = other.subscribe("t")
    world.run(0.1)
    gone: list[Peer] = []
    other.on_peer_removed = gone.append
    world.network.block(one.host, other.host)
    one.publish("t", "late")
    one.close(timeout=2.0)
    world.after(1.5, world.network.heal)
    assert world.run_until(lambda: gone, 1.9)
    assert [message.payload for message in heard.received] == ["late"]
    assert world.time > 1.5


def test_handlers_of_news_stay_when_it_restarts() -> None:
    world = World()
    one, _ = pair(world)
    seen: list[str] = []
    one.on_peer_added = lambda peer: seen.append(peer.name)
    one.restart()
    world.run(1)
    assert seen == ["other"]


def test_a_run_repeats_in_another_interpreter_with_another_hash_seed() -> None:
    program = "from tests.simulation.swarm import Swarm; print(Swarm(5).run())"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(hashes) == 1
