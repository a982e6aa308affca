"""Presence and deadlines of endpoints with threads, over real sockets."""

from __future__ import annotations

import pytest

import glue
from tests.support.lan import PATIENCE, Ear, Lan


def test_a_watch_calls_its_handler_or_is_iterated_over(lan: Lan) -> None:
    a, b = lan.pair()
    ear = Ear()
    a.watch_presence("t", ear)
    watch = a.watch_presence("t")
    b.announce("t")
    ear.wait(2)
    assert [(change.kind, change.name) for change in ear.heard] == [("endpoint", "b"), ("publisher", "b")]
    assert [watch.get(PATIENCE).payload for _ in range(2)] == ear.heard
    b.close()
    ear.wait(4)
    assert [(change.kind, change.reason) for change in ear.heard[2:]] == [
        ("publisher", "goodbye"), ("endpoint", "goodbye"),
    ]  # fmt: skip


def test_on_deadline_is_called_and_may_raise(lan: Lan) -> None:
    a, b = lan.pair()
    ear = Ear()

    def fail(silence: glue.Silence) -> None:
        ear(silence)
        raise ValueError

    a.on_deadline = fail
    subscription = a.subscribe("t", deadline=0.05)
    b.announce("t", publish_every=0.05)
    (silence, *_) = ear.wait()
    assert (silence.topic, silence.publisher, silence.pattern) == ("t", "b", "t")
    subscription.close()


def test_the_deadline_of_a_closed_subscription_is_watched_no_more(lan: Lan) -> None:
    a, b = lan.pair()
    ear = Ear()
    a.on_deadline = ear
    closed, kept = a.subscribe("t", deadline=0.05), a.subscribe("u", deadline=0.05)
    closed.close()
    b.announce("t", publish_every=0.05)
    b.announce("u", publish_every=0.05)
    assert {silence.topic for silence in ear.wait()} == {"u"}
    kept.close()
    assert not a._deadlines


@pytest.mark.parametrize("seconds", [0.0009, 0, -1, 1e12, float("inf"), float("nan"), True, "1"])
def test_a_promise_of_messages_that_no_clock_can_keep_is_refused(lan: Lan, seconds: object) -> None:
    endpoint = lan.start("a")
    with pytest.raises(glue.ConfigurationError, match="publish_every"):
        endpoint.announce("t", publish_every=seconds)  # type: ignore[arg-type]


def test_a_coroutine_function_is_refused(lan: Lan) -> None:
    async def coroutine(presence: glue.Presence) -> None:
        pass

    with pytest.raises(glue.ConfigurationError, match=r"glue\.aio\.Endpoint"):
        lan.start("a").watch_presence("t", coroutine)
