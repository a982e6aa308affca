"""A process that forks: its endpoint goes on undisturbed, and is closed in the child."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import glue
import glue.aio
from glue.endpoint.consuming import Consuming
from glue.endpoint.deadlines import DeadlineWatch
from glue.endpoint.delays import Delays
from glue.endpoint.durability import Durability
from glue.endpoint.fork import heirs
from glue.endpoint.placed import PlacedKept
from glue.endpoint.qos_matching import Matching
from glue.endpoint.requests import Requests
from glue.endpoint.wills import Holder
from glue.simulation import World
from tests.network.listening import free_port
from tests.support.lan import PATIENCE, Ear, Lan, listen

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(action: Callable[[], object]) -> int:
    """Fork, and let the child do something; returns the child's exit code, 0 if it did it."""
    child = os.fork()
    if child:
        watch = threading.Timer(PATIENCE, os.kill, (child, signal.SIGKILL))
        watch.start()
        _, status = os.waitpid(child, 0)
        watch.cancel()
        watch.join()
        return os.waitstatus_to_exitcode(status)
    try:
        action()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


@contextmanager
def lasting_child() -> Iterator[None]:
    """A child that has been forked, and does nothing until the end."""
    (born, birth), (end, life) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(life)
        os.write(birth, b"1")  # what it is told as a child has been done by now
        os.read(end, 1)
        os._exit(0)
    try:
        os.read(born, 1)
        yield
    finally:
        for descriptor in (born, birth, end, life):
            os.close(descriptor)
        os.waitpid(child, 0)


def use(endpoint: glue.Endpoint) -> None:
    """What a child should not do with its parent's endpoint."""
    endpoint.close()
    _ = endpoint.statistics
    with pytest.raises(glue.ClosedError, match="fork"):
        endpoint.publish("t", "of the child")


def test_an_endpoint_is_closed_in_a_forked_child_which_cannot_speak_for_its_parent(lan: Lan) -> None:
    a, b = lan.pair()
    ear, gone = listen(b, "t", a), Ear()
    b.on_peer_removed = gone
    for number in range(20):
        a.publish("t", number)
        assert in_child(lambda: use(a)) == 0
    a.publish("t", 20)
    assert [message.payload for message in ear.wait(21)] == list(range(21))
    assert gone.heard == []


class Stuck:
    """Something that a child cannot let go of."""

    def _after_fork(self) -> None:
        raise OSError(errno.EMFILE, "too many open files")


def test_what_a_child_cannot_let_go_of_keeps_nothing_else_open(lan: Lan) -> None:
    stuck = [Stuck() for _ in range(20)]
    heirs.update(stuck)
    a = lan.start("a")
    assert in_child(lambda: use(a)) == 0


def test_a_subscription_ends_in_a_forked_child(lan: Lan) -> None:
    a, b = lan.pair()
    subscription = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish("t", 1)
    first = next(subscription)
    assert in_child(lambda: list(subscription)) == 0
    a.publish("t", 2)
    assert [first.payload, next(subscription).payload] == [1, 2]


def test_a_forked_child_may_have_an_endpoint_of_its_own(lan: Lan) -> None:
    a = lan.start("a")
    ear = Ear()
    a.subscribe("t", ear)

    def say() -> None:
        with glue.Endpoint("of the child", **lan.settings) as child:
            assert child.wait_for_subscribers("t", 1, PATIENCE)
            child.publish("t", 1)
            assert child.flush(PATIENCE)

    assert in_child(say) == 0
    assert [message.payload for message in ear.wait()] == [1]


def test_an_endpoint_of_an_event_loop_is_closed_in_a_forked_child(lan: Lan) -> None:
    gone = Ear()
    a = lan.make("a")
    a.on_peer_removed = gone
    a.start()

    async def fork() -> int:
        async with glue.aio.Endpoint("b", **lan.settings) as b:
            assert a.wait_for_peers(1, PATIENCE)

            def close() -> None:
                assert b.closed
                with pytest.raises(StopIteration):
                    b.close().send(None)

            code = in_child(close)
            await b.publish("t", 1)
            assert a.peers
            return code

    assert asyncio.run(fork()) == 0
    assert [peer.reason for peer in gone.wait()] == ["goodbye"]


def test_a_child_that_lives_on_keeps_nothing_of_what_its_parent_closes(lan: Lan, tmp_path: Path) -> None:
    port = free_port()
    endpoint = lan.start("a", listen_port=port)
    endpoint.model("plant", voters=1, data_dir=tmp_path)
    with lasting_child():
        endpoint.close()
        again = lan.start("a", listen_port=port)
        assert again.model("plant", voters=1, data_dir=tmp_path).set("k", 1) > 0


def test_nor_does_one_of_an_event_loop(lan: Lan) -> None:
    port = free_port()

    async def fork() -> None:
        async with glue.aio.Endpoint("a", **lan.settings, listen_port=port) as first:
            with lasting_child():
                await first.close()
                async with glue.aio.Endpoint("b", **lan.settings, listen_port=port) as second:
                    assert not second.closed

    asyncio.run(fork())


def test_no_lock_that_a_thread_of_the_parent_holds_stops_its_child() -> None:
    any: Any = None
    core: Any = World().endpoint("a")._core
    identity = core.identity
    parts: list[Any] = [
        Consuming(core, any, any, True), DeadlineWatch([], 1.0, "", any, any, any, any, True), Delays(any, core),
        Durability(identity, any, core.statistics), PlacedKept(any, any, True, any, lambda: 0.0, 1.0),
        Matching(("a", "id", 1), any, core.statistics, any, any, True), Requests(identity, {}, core.statistics),
        Holder("id", any, any, any, any), core.open_history(any),
    ]  # fmt: skip
    held, over = threading.Event(), threading.Event()

    def lock_of(part: Any) -> Any:
        return part.lock if hasattr(part, "lock") else part._lock

    def hold() -> None:
        for part in parts:
            lock_of(part).acquire()
        held.set()
        over.wait(PATIENCE)
        for part in parts:
            lock_of(part).release()

    def use() -> None:
        assert [type(part).__name__ for part in parts if not lock_of(part).acquire(blocking=False)] == []

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(PATIENCE)
    assert [part for part in parts if lock_of(part).acquire(blocking=False)] == []
    code = in_child(use)
    over.set()
    thread.join()
    assert code == 0
