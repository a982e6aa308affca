"""A thread that waits for a multicast stream has SCHED_BATCH, unless its program has chosen another policy.

A handler, and what it starts, has the usual policy.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from glue.contract import Train
from glue.contract.train_buffer import STREAM
from glue.network import MulticastNetwork, batch_scheduling, list_interfaces
from glue.network.waiter import Waiter
from tests.network.listening import PATIENCE, free_port, heard, opened

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="SCHED_BATCH is Linux's")

LOOPBACK = next(interface.name for interface in list_interfaces() if interface.loopback)
Result = TypeVar("Result")


def in_a_thread(work: Callable[[], Result]) -> Result:
    """What this returns in a thread of its own, so that none of the tests has its policy changed."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def policy() -> int:
    """That of the calling thread."""
    return os.sched_getscheduler(0)


def become(wanted: int) -> None:
    """Give the calling thread another policy."""
    os.sched_setscheduler(0, wanted, os.sched_param(0))


def test_the_calling_thread_alone_has_it_until_it_leaves() -> None:
    def work() -> list[int]:
        found = []
        if batch_scheduling.enter():
            found.append(policy())
            batch_scheduling.leave()
        return [*found, policy()]

    assert in_a_thread(work) == [os.SCHED_BATCH, os.SCHED_OTHER]
    assert policy() == os.SCHED_OTHER


@pytest.mark.parametrize("chosen", [os.SCHED_BATCH, os.SCHED_IDLE] if sys.platform == "linux" else [])
def test_a_policy_that_a_program_was_given_is_left_alone(chosen: int) -> None:
    def work() -> tuple[bool, int]:
        become(chosen)
        return batch_scheduling.enter(), policy()

    assert in_a_thread(work) == (False, chosen)


def test_a_policy_that_was_given_meanwhile_is_left_alone() -> None:
    def work() -> int:
        assert batch_scheduling.enter()
        become(os.SCHED_IDLE)
        batch_scheduling.leave()
        return policy()

    assert in_a_thread(work) == os.SCHED_IDLE


@pytest.mark.parametrize("call", ["sched_getscheduler", "sched_setscheduler"])
def test_where_the_system_refuses_it_nothing_changes(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))  # as with musl; of a sandbox, EPERM

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refused)
        assert not batch_scheduling.enter()
        batch_scheduling.leave()
    assert policy() == os.SCHED_OTHER


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The policies of the threads that waited, as they did."""
    found: list[int] = []
    wait = Waiter.wait

    def watched(waiter: Waiter, timeout: float | None, patient: bool) -> Sequence[int]:
        found.append(policy())
        return wait(waiter, timeout, patient)

    monkeypatch.setattr(Waiter, "wait", watched)
    return found


def wait(network: MulticastNetwork, waited: list[int]) -> tuple[int, int]:
    """The policy while the calling thread waits, and after that."""
    network.wait(0)
    return waited[-1], policy()


@pytest.mark.parametrize("is_multicast", [True, False], ids=["multicast", "unicast"])
def test_only_a_thread_that_waits_for_more_of_a_multicast_stream_has_it(is_multicast: bool, waited: list[int]) -> None:
    group = f"239.192.137.77:{free_port()}"
    usual = os.SCHED_OTHER, os.SCHED_OTHER
    due = (os.SCHED_BATCH, os.SCHED_OTHER) if is_multicast else usual
    with opened(LOOPBACK, group) as sender, opened(LOOPBACK, group) as receiver:
        address = None if is_multicast else receiver.unicast_address
        for _ in range(2):
            for count, expected in ((STREAM // 1024, due), (4, usual), (1, usual)):
                sender.send([Train(address, bytes(1024 * count), 1024)])
                assert len(heard(receiver, count)) == count
                assert wait(receiver, waited) == expected
                assert wait(receiver, waited) == usual  # nothing came any more
                list(sender.receive())
                assert wait(sender, waited) == usual  # it heard nobody but itself


def test_no_thread_has_it_where_the_setting_says_so(waited: list[int]) -> None:
    group = f"239.192.137.77:{free_port()}"
    with opened(LOOPBACK, group) as sender, opened(LOOPBACK, group, sched_batch=False) as receiver:
        for _ in range(2):
            sender.send([Train(None, bytes(STREAM), 1024)])
            assert len(heard(receiver, STREAM // 1024)) == STREAM // 1024
            assert wait(receiver, waited) == (os.SCHED_OTHER, os.SCHED_OTHER)


@pytest.mark.parametrize("is_multicast", [True, False], ids=["multicast", "unicast"])
def test_a_thread_in_the_coalescing_wait_for_a_multicast_stream_has_it(
    is_multicast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies: list[int] = []

    class Nothing:
        """What is asked for more, and has none."""

        def poll(self, timeout: float) -> list[tuple[int, int]]:
            policies.append(policy())
            return []

    group = f"239.192.137.77:{free_port()}"
    with opened(LOOPBACK, group) as sender, opened(LOOPBACK, group) as receiver:
        if not receiver.describe()["offload"]["UDP_GRO"]:
            pytest.skip("this system has no UDP_GRO")
        for part in (receiver._unicast_receiver, receiver._multicast_receiver):
            monkeypatch.setattr(part, "_poll", Nothing())
        sender.send([Train(None if is_multicast else receiver.unicast_address, bytes(STREAM), 1024)])
        receiver.wait(PATIENCE)
        assert [len(train.data) for train in receiver.receive()] == [STREAM]
    assert {*policies} == {os.SCHED_BATCH if is_multicast else os.SCHED_OTHER}
    assert policy() == os.SCHED_OTHER
