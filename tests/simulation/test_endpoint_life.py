"""The life of a simulated endpoint to the instant: closing, crashes within a handler, pauses, and late calls."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from glue import EVENT, SENSOR, ClosedError, Message, TopicError
from glue.endpoint.request import CURRENT
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.host import EPOCH

DELAY = 0.0005
"""Seconds that a datagram is on its way."""


def pair(**settings: Any) -> tuple[World, SimulatedEndpoint, SimulatedEndpoint]:
    """Two endpoints that know each other."""
    world = World()
    one, other = world.endpoint("one", **settings), world.endpoint("other")
    assert world.run_until(lambda: one.peers and other.peers, 5)
    world.run(0.2)
    return world, one, other


def ended(world: World, endpoint: SimulatedEndpoint, within: float) -> float:
    """Seconds until a life has ended."""
    began = world.time
    assert world.run_until(lambda: endpoint.host.machine is None, within)
    return world.time - began


def test_a_host_of_its_own_clock_and_address() -> None:
    world = World()
    world.run(3.0)
    there = ("10.7.7.7", 1234)
    endpoint = world.endpoint("one", address=there, offset=50.0, drift=0.5)
    assert (endpoint.host.address, endpoint.host.now) == (there, 54.5)
    heard = endpoint.subscribe("t")
    endpoint.publish("t", 1)
    world.run(2.0)
    assert endpoint.host.now == 57.5
    assert [message.published_at for message in heard.received] == [EPOCH + 3.0]


def test_a_request_that_waits_ends_as_its_endpoint_closes() -> None:
    world, one, other = pair()
    other.respond("ask", lambda request: request.later())
    world.run(0.2)
    call = one.request("ask", 1)
    world.run(0.5)
    assert not call.is_over
    one.close()
    world.run(0.5)
    assert [type(reply.error) for reply in call.replies] == [ClosedError]


def test_an_idle_endpoint_leaves_at_once_and_says_goodbye() -> None:
    world, one, other = pair()
    gone: list[float] = []
    other.on_peer_removed = lambda peer: gone.append(world.time)
    at = world.time
    one.close()
    assert not one.is_running
    assert ended(world, one, 1.0) == 0.0
    world.run(1.0)
    assert gone == [pytest.approx(at + DELAY)]
    one.close()
    world.run(1.0)
    assert len(gone) == 1, "closed already"


def test_an_endpoint_that_waits_in_vain_leaves_when_it_must() -> None:
    world, one, other = pair()
    other.subscribe("t")
    world.run(0.2)
    world.network.partition([one.host])
    one.publish("t", "lost")
    one.close(timeout=2.0)
    one.close(timeout=0.1)
    assert ended(world, one, 3.0) == pytest.approx(2.0)


def test_an_endpoint_leaves_as_soon_as_all_is_acknowledged() -> None:
    world, one, other = pair()
    heard = other.subscribe("t")
    world.run(0.2)
    one.publish("t", "last")
    one.close(timeout=30.0)
    assert ended(world, one, 1.0) < 0.3
    assert [message.payload for message in heard.received] == ["last"]


@pytest.mark.parametrize("when", [0.0, 1.0])
def test_the_end_of_a_former_life_does_not_end_the_next_one(when: float) -> None:
    world, one, other = pair()
    other.subscribe("t")
    world.run(0.2)
    if when:
        world.network.partition([one.host])
    one.publish("t", "lost")
    one.close(timeout=2.0)
    world.run(when)
    one.restart()
    world.network.heal()
    world.run(5.0)
    assert one.is_running
    assert [peer.name for peer in one.peers] == ["other"]


def test_a_crash_in_a_handler_ends_everything_that_was_to_be_delivered() -> None:
    world, one, other = pair()
    seen: list[str] = []

    def crash(message: Message) -> None:
        seen.append("first")
        other.crash()

    first, second = other.subscribe("t", crash), other.subscribe("+", lambda _: seen.append("second"))
    world.run(0.2)
    one.publish_many("t", [1, 2, 3])
    world.run(0.5)
    assert (seen, first.closed, second.closed) == (["first"], True, True)
    first.close()
    other.unsubscribe(second)
    other.restart()
    later = other.subscribe("t")
    world.run(0.5)
    one.publish("t", 4)
    world.run(0.5)
    assert ([message.payload for message in later.received], seen) == ([4], ["first"])


def test_a_restart_ends_a_life_that_is_in_use() -> None:
    world, one, other = pair()
    heard = one.subscribe("t")
    former, life = one.incarnation, one._lives
    world.run(0.2)
    one.restart()
    assert heard.closed
    assert (one.incarnation > former, one._lives) == (True, life + 1)
    world.run(1.0)
    other.publish("t", 1)
    world.run(1.0)
    assert heard.received == []


def test_a_later_life_follows_the_wall_clock_of_its_host() -> None:
    world, one, other = pair()
    come: list[bool] = []
    other.on_peer_added = lambda peer: come.append(peer.restarted)
    former = one.incarnation
    one.host.wall_offset = 1000.0
    one.restart()
    world.run(1.0)
    assert one.incarnation - former > 900e6, "microseconds, about"
    assert come == [True]


def test_presence_of_what_is_no_pattern_cannot_be_watched() -> None:
    _, one, _ = pair()
    with pytest.raises(TopicError):
        one.watch_presence("a#")
    seen: list[str] = []
    one.watch_presence("#", lambda presence: seen.append(presence.name)).close()
    assert seen == []
    one.crash()
    with pytest.raises(ClosedError):
        one.watch_presence("#")


def test_a_closed_subscription_gives_back_the_room_of_what_it_does_not_read() -> None:
    world, one, other = pair()
    subscription = other.subscribe("t", handling_time=1.0)
    world.run(0.2)
    one.publish_many("t", [bytes(1000)] * 5)
    world.run(0.5)
    subscription.close()
    subscription.close()
    world.run(5.0)
    assert subscription.received == []
    assert one.backlog == 0


def test_a_paused_endpoint_handles_nothing_and_goes_on_soon_after() -> None:
    world, one, other = pair()
    handled: list[float] = []
    other.subscribe("t", lambda _: handled.append(world.time))
    slow = other.subscribe("+", handling_time=0.5)
    world.run(0.2)
    one.publish("t", 1)
    world.run(0.1)
    assert (len(handled), slow.received) == (1, [])
    other.pause()
    world.run(3.0)
    assert slow.received == []
    at = world.time
    other.resume()
    assert world.run_until(lambda: slow.received, 2.0)
    assert world.time - at <= 0.5
    one.publish("t", 2)
    world.run(0.3)
    assert len(handled) == 2


@dataclass
class Old:
    celsius: float


@dataclass
class New:
    celsius: float
    place: str


@pytest.mark.parametrize("kind", ["type", "quality of service"])
def test_what_does_not_fit_is_logged_where_no_program_hears_it(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    for is_heard in (True, False):
        world, one, other = pair()
        told: list[Any] = []
        for endpoint in (one, other) if is_heard else (one,):
            endpoint.on_mismatch = endpoint.on_qos_mismatch = told.append
        caplog.clear()
        if kind == "type":
            other.topic("t", New).subscribe()
            one.topic("t", Old).publish(Old(1.0))
        else:
            other.topic("t", qos=EVENT).subscribe()
            one.topic("t", qos=SENSOR).publish(1)
        world.run(1.0)
        logged = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert (len(told) > 1, bool(told), bool(logged)) == (is_heard, True, not is_heard)


def test_a_request_that_nobody_answers_ends_after_its_timeout() -> None:
    world, one, other = pair()
    other.respond("never", lambda request: request.later())
    other.respond("soon", lambda request: request.payload + 1)
    assert world.run_until(lambda: one.responders("never") and one.responders("soon"), 1)
    ends: list[tuple[float, object]] = []
    at = world.time
    call = one.request("never", 1, 0.7, then=lambda reply: ends.append((world.time - at, reply)))
    every = one.request_all("never", 1, 0.9)
    quick = one.request("soon", 1)
    assert (call.is_over, call.replies, len(call.calls)) == (False, [], 1)
    world.run(0.2)
    assert (quick.is_over, [reply.payload for reply in quick.replies], quick.calls) == (True, [2], [])
    world.run(0.6)
    assert (call.is_over, every.is_over, call.calls) == (True, False, [])
    ((after, reply),) = ends
    assert after == pytest.approx(0.7, abs=0.002)
    assert call.replies == [reply]
    world.run(0.2)
    assert every.is_over


def test_a_handler_of_requests_sees_its_request_and_only_its_assertions_come_out_of_run() -> None:
    world, one, other = pair()
    seen: list[bool] = []

    def answer(request: Any) -> Any:
        seen.append(CURRENT.get(None) is request)
        if request.payload == "wrong":
            raise ValueError("no such thing")
        assert request.payload != "bad", "bad"
        return "good"

    other.respond("ask", answer)
    assert world.run_until(lambda: one.responders("ask"), 1)
    call = one.request("ask", "wrong")
    world.run(0.2)
    assert "no such thing" in str(call.replies[0].error)
    assert (seen, CURRENT.get(None)) == ([True], None)
    assert other.statistics["endpoint"]["messages handled"] == 1
    one.request("ask", "bad")
    with pytest.raises(AssertionError, match="bad"):
        world.run(0.2)
    assert CURRENT.get(None) is None


def test_an_answer_after_the_end_of_a_life_goes_nowhere() -> None:
    world, one, other = pair()
    open_: list[Any] = []

    def later(request: Any) -> None:
        request.later()
        open_.append(request)

    other.respond("ask", later)
    assert world.run_until(lambda: one.responders("ask"), 1)
    call = one.request("ask", 1, 60.0)
    world.run(0.2)
    other.restart()
    open_[0].reply("late")
    world.run(1.0)
    assert [reply.payload for reply in call.replies if reply.error is None] == []
    call = one.request_all("ask", 1, 1.0) if one.responders("ask") else call
    one.crash()
    world.run(2.0)
    assert one.host.machine is None
