"""Whoever has something to do is woken for it: on a network that brings nothing, no later turn makes up for it.

Its waits end when they are ended, and by themselves only after a minute. What a thread waits for is given a third of
that, so a wake-up that is lost fails the test on any machine, and one that is not is no matter of time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import glue
from tests.drivers.calm import LONG, Calm, ends, started
from tests.support.lan import PATIENCE, Ear


@pytest.fixture
def network() -> Calm:
    return Calm()


@pytest.fixture
def endpoint(network: Calm) -> Iterator[glue.Endpoint]:
    with glue.Endpoint("a", network=lambda settings: network, announce_interval=600.0, receive_limit=1000) as made:
        made.subscribe("nothing")
        network.until_asleep()
        yield made


def full(endpoint: glue.Endpoint) -> glue.Subscription:
    """A subscription that has yet to read more of what its endpoint published than that keeps."""
    subscription, ear = endpoint.subscribe("t"), Ear()
    endpoint.subscribe("t", ear)
    for _ in range(4):
        endpoint.publish("t", bytes(500))
    ear.wait(4)
    return subscription


def test_a_leader_that_sleeps_is_woken_for_what_its_endpoint_says_to_itself(
    network: Calm, endpoint: glue.Endpoint
) -> None:
    ear = Ear()
    endpoint.subscribe("t", ear)
    for number in range(1, 4):
        network.until_asleep()
        endpoint.publish("t", number)
        assert [message.payload for message in ear.wait(number)] == list(range(1, number + 1))


def test_a_leader_that_sleeps_is_woken_for_what_a_handler_said_after_it_had_stepped_down(
    network: Calm, endpoint: glue.Endpoint
) -> None:
    ear, waited = Ear(), threading.Event()

    def handle(message: glue.Message) -> None:
        waited.wait(0.1)  # longer than a leader has for a handler
        network.until_asleep()
        endpoint.publish("answer", 1)

    endpoint.subscribe("t", handle)
    endpoint.subscribe("answer", ear)
    network.until_asleep()
    endpoint.publish("t", 1)
    ear.wait(1)


def test_who_reads_is_woken_by_what_arrives(network: Calm, endpoint: glue.Endpoint) -> None:
    subscription = endpoint.subscribe("t")
    heard: list[Any] = []
    for number in range(3):
        reader = started(lambda: heard.append(subscription.get(LONG).payload))
        network.until_asleep()
        endpoint.publish("t", number)
        assert ends(reader)
    assert heard == [0, 1, 2]


def test_who_reads_is_woken_by_the_end_of_its_subscription(network: Calm, endpoint: glue.Endpoint) -> None:
    subscription = endpoint.subscribe("t")
    read: list[int] = []
    reader = started(lambda: read.append(len(list(subscription))))
    network.until_asleep()
    subscription.close()
    assert ends(reader)
    assert read == [0]


@pytest.mark.parametrize("gives_room", ["reads", "closes its subscription"])
def test_who_waits_for_room_is_woken_by_who_reads(network: Calm, endpoint: glue.Endpoint, gives_room: str) -> None:
    subscription = full(endpoint)
    publisher = started(lambda: endpoint.publish("t", b"one more"))
    publisher.join(0.2)
    assert publisher.is_alive()
    network.until_asleep()
    if gives_room == "reads":
        for _ in range(4):
            subscription.get(PATIENCE)
    else:
        subscription.close()
    assert ends(publisher)


def test_who_waits_until_all_is_done_is_woken_by_the_last_handler(network: Calm, endpoint: glue.Endpoint) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def handle(message: glue.Message) -> None:
        begun.set()
        go_on.wait(PATIENCE)

    endpoint.subscribe("t", handle)
    network.until_asleep()
    endpoint.publish("t", 1)
    assert begun.wait(PATIENCE)
    waiter = started(lambda: endpoint.flush(LONG))
    go_on.set()
    assert ends(waiter)


@pytest.mark.parametrize(
    "wait",
    [
        lambda endpoint, subscription: endpoint.wait_for_peers(1, LONG),
        lambda endpoint, subscription: endpoint.wait_for_subscribers("t", 1, LONG),
        lambda endpoint, subscription: list(endpoint.subscribe("u")),
        lambda endpoint, subscription: endpoint.publish("t", b"one more"),
    ],
    ids=["wait_for_peers", "wait_for_subscribers", "iterator", "publish"],
)
def test_closing_wakes_all_who_wait_and_ends_all_threads(network: Calm, wait: Callable[..., Any]) -> None:
    endpoint = glue.Endpoint("a", network=lambda settings: network, announce_interval=600.0, receive_limit=1000).start()
    subscription = full(endpoint)

    def waits() -> None:
        with contextlib.suppress(glue.ClosedError):
            wait(endpoint, subscription)

    thread = started(waits)
    thread.join(0.2)
    network.until_asleep()
    own = [other for other in threading.enumerate() if other.name.startswith("glue")]
    assert own
    endpoint.close(timeout=0)
    assert ends(thread)
    assert all(not other.is_alive() for other in own), "closing has waited for them in vain"
