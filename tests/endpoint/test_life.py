"""From start to close: the with block, what a closed endpoint answers, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import glue
import glue.aio
from glue.model.direct import Direct
from tests.support.lan import PATIENCE, Ear, Lan, glue_threads, listen, open_sockets, wait_until_full

USES: dict[str, Callable[[glue.Endpoint], Any]] = {
    "publish": lambda endpoint: endpoint.publish("t", 1),
    "publish_many": lambda endpoint: endpoint.publish_many("t", [1]),
    "subscribe": lambda endpoint: endpoint.subscribe("t"),
    "wait_for_peers": lambda endpoint: endpoint.wait_for_peers(1, 1),
    "wait_for_subscribers": lambda endpoint: endpoint.wait_for_subscribers("t", 1, 1),
    "flush": lambda endpoint: endpoint.flush(1),
}


def test_it_starts_on_enter_and_closes_on_exit(lan: Lan) -> None:
    before = open_sockets()
    with lan.make("a") as a:
        assert glue_threads()
        assert open_sockets() > before
        a.publish("t", 1)
    assert glue_threads() == set()
    assert open_sockets() <= before


def test_it_closes_when_the_block_raises(lan: Lan) -> None:
    with pytest.raises(KeyError), lan.make("a"):
        raise KeyError
    assert glue_threads() == set()


def test_start_returns_the_endpoint_and_does_nothing_a_second_time(lan: Lan) -> None:
    a = lan.make("a")
    assert a.start() is a
    threads, sockets = glue_threads(), open_sockets()
    assert a.start() is a
    assert (glue_threads(), open_sockets()) == (threads, sockets)


def test_an_endpoint_that_was_never_started_touches_no_network(lan: Lan) -> None:
    before = open_sockets()
    lan.make("a").close()
    assert open_sockets() <= before
    assert glue_threads() == set()


def test_a_failed_start_leaves_nothing_open(lan: Lan) -> None:
    before = open_sockets()
    with pytest.raises(glue.InterfaceError), lan.make(interface="nowhere0"):
        pass
    assert open_sockets() <= before
    assert glue_threads() == set()


def test_a_start_that_fails_in_a_layer_leaves_nothing_open(lan: Lan) -> None:
    class Broken(Direct):
        def fit(self, size: int) -> int:
            raise KeyError(size)

    before = open_sockets()
    endpoint = lan.make("a", model=lambda who: Broken())
    with pytest.raises(KeyError):
        endpoint.start()
    with pytest.raises(KeyError):
        asyncio.run(glue.aio.Endpoint("a", **lan.settings, model=lambda who: Broken()).start())
    assert open_sockets() <= before
    assert glue_threads() == set()
    with pytest.raises(glue.ClosedError, match="not started"):
        endpoint.publish("t", 1)


def test_closing_twice_does_nothing(lan: Lan) -> None:
    a = lan.start("a")
    a.close()
    a.close()
    with pytest.raises(glue.ClosedError):
        a.publish("t", 1)


@pytest.mark.parametrize("use", USES)
def test_before_the_start_it_says_what_to_do(lan: Lan, use: str) -> None:
    with pytest.raises(glue.ClosedError, match=r"not started; call start\(\), or use it in a with block"):
        USES[use](lan.make("a"))


@pytest.mark.parametrize("use", USES)
def test_a_closed_endpoint_says_so(lan: Lan, use: str) -> None:
    with lan.make("a") as a:
        pass
    with pytest.raises(glue.ClosedError, match="closed and does not start again; make a new one"):
        USES[use](a)


def test_a_closed_endpoint_does_not_start_again(lan: Lan) -> None:
    with lan.make("a") as a:
        pass
    with pytest.raises(glue.ClosedError, match="closed and does not start again"):
        a.start()


def test_a_closed_endpoint_can_still_be_asked_who_it_was_and_what_it_did(lan: Lan) -> None:
    with lan.make("a") as a:
        a.publish("t", 1)
    assert a.name == "a"
    assert a.statistics["topics"]["messages published"] == 1
    assert {type(counter) for counter in a.statistics.values()} == {Counter}
    assert "endpoint a" in a.describe()
    assert repr(a) == "<Endpoint a>"


def test_closing_waits_until_what_was_published_has_arrived(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    a.publish("t", bytes(5_000_000))
    a.close(timeout=PATIENCE)
    assert len(ear.wait(1)[0].payload) == 5_000_000


def test_closing_does_not_wait_for_longer_than_asked(lan: Lan) -> None:
    a, b = lan.start("a"), lan.start("b", receive_limit=1000)
    unread = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for _ in range(70):  # more than the 5.2 MB of frames that were promised to be taken
        a.publish("t", bytes(100_000))
    assert not a.flush(0)
    a.close(timeout=0)
    assert not unread.closed


def test_closing_says_goodbye(lan: Lan) -> None:
    a, b = lan.pair()
    gone = Ear()
    b.on_peer_removed = gone
    assert b.wait_for_peers(1, PATIENCE)
    a.close()
    (peer,) = gone.wait(1)
    assert (peer.name, peer.reason) == ("a", "goodbye")
    assert b.peers == []


def test_a_handler_may_close_its_endpoint(lan: Lan) -> None:
    a, b = lan.pair()
    closed = threading.Event()

    def close(message: glue.Message) -> None:
        b.close()
        closed.set()

    b.subscribe("t", close)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish("t", "good night")
    assert closed.wait(PATIENCE)
    with pytest.raises(glue.ClosedError):
        b.publish("t", 1)


def test_an_endpoint_closes_while_a_handler_runs_and_that_ends_by_itself(lan: Lan) -> None:
    a, b = lan.pair()
    entered, released, refused = Ear(), threading.Event(), Ear()

    def linger(message: glue.Message) -> None:
        entered(threading.current_thread())
        assert released.wait(PATIENCE)
        try:
            b.publish("t", 1)
        except glue.ClosedError as error:
            refused(error)

    b.subscribe("t", linger)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish("t", 1)
    (thread,) = entered.wait(1)
    b.close()
    released.set()
    thread.join(PATIENCE)
    assert len(refused.heard) == 1


def test_several_threads_may_close_it_at_once(lan: Lan) -> None:
    a = lan.start("a")
    threads = [threading.Thread(target=a.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


def test_closing_releases_a_publisher_that_waits_for_room(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=100_000), lan.start("b", receive_limit=1000)
    b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    outcome = Ear()

    def publish() -> None:
        try:
            while True:
                a.publish("t", bytes(10_000))
        except glue.GlueError as error:
            outcome(error)

    publisher = threading.Thread(target=publish)
    publisher.start()
    wait_until_full(a)
    a.close(timeout=0)
    publisher.join(PATIENCE)
    assert isinstance(outcome.wait(1)[0], glue.ClosedError)


def test_twenty_endpoints_in_a_row_leave_nothing(lan: Lan) -> None:
    before = open_sockets()
    for number in range(20):
        with lan.make(f"number {number}") as endpoint:
            endpoint.subscribe("#", lambda message: None)
            endpoint.publish("t", number)
    assert open_sockets() <= before
    assert glue_threads() == set()
