"""Four processes in four network namespaces on one bridge: all hear all, and none needs any other."""

from __future__ import annotations

import signal

import pytest

from tests.namespaces.talkers import Talker
from tests.support.namespaces import needs_namespaces, segment

pytestmark = [pytest.mark.namespaces, needs_namespaces]

NAMES = ("attic", "cellar", "garden", "kitchen")
COUNT = 50


def test_four_processes_all_hear_each_other_once_and_in_order() -> None:
    with segment(4) as hosts:
        options = ("--send-messages", "--rate", "100", "--count", str(COUNT), "--wait-for", "3", "--duration", "60")
        talkers = [Talker(host, name, *options) for host, name in zip(hosts, NAMES, strict=True)]
        for talker in talkers:
            for name in NAMES:
                talker.wait_until(lambda: len(talker.heard(name)) >= COUNT, f"not all of {name}")  # noqa: B023
        assert [talker.finish() for talker in talkers] == [0, 0, 0, 0]
        for talker in talkers:
            assert {name: talker.heard(name) for name in NAMES} == {name: [*range(1, COUNT + 1)] for name in NAMES}
            assert talker.said("trouble") == []


def test_the_others_talk_on_when_any_is_killed() -> None:
    with segment(4) as hosts:
        options = ("--send-messages", "--rate", "20", "--wait-for", "3")
        left = [Talker(host, name, *options) for host, name in zip(hosts, NAMES, strict=True)]
        for talker in left:
            talker.wait_for_more(left)
        while len(left) > 2:
            victim = left.pop(0)
            victim.kill()
            for talker in left:
                talker.wait_for_more(left)
                talker.wait_until(lambda: gone(talker, victim), f"{victim.name} is not removed")  # noqa: B023
                talker.wait_for_more(left)
        for talker in left:
            assert talker.finish() == 0
            assert talker.said("trouble") == []


def test_a_stopped_process_expires_and_goes_on_in_the_same_life_when_it_is_continued() -> None:
    with segment(2) as hosts:
        options = ("--send-messages", "--rate", "20", "--wait-for", "1")
        talkers = [Talker(host, name, *options) for host, name in zip(hosts, NAMES, strict=False)]
        running, stopped = talkers
        for talker in talkers:
            talker.wait_for_more(talkers)
        stopped.process.send_signal(signal.SIGSTOP)
        running.wait_until(lambda: gone(running, stopped), "the stopped one is not removed")
        stopped.process.send_signal(signal.SIGCONT)
        for talker in talkers:
            talker.wait_for_more(talkers)
            assert [said["restarted"] for said in talker.said("peer_added")] == [False] * len(talker.said("peer_added"))
        assert [talker.finish() for talker in talkers] == [0, 0]
        assert [said["reason"] for said in stopped.said("peer_removed")] == ["goodbye"]


def gone(talker: Talker, victim: Talker) -> bool:
    """Whether it has seen that another one is no longer there."""
    return any(said["peer"] == victim.name and said["reason"] == "expired" for said in talker.said("peer_removed"))


def test_a_late_joiner_gets_the_retained_value_and_then_what_is_live() -> None:
    with segment(2) as (first, second):
        publisher = Talker(first, "early", "--send-messages", "--retain", "--rate", "20")
        publisher.wait_until(lambda: len(publisher.heard("early")) >= 3, "does not hear itself")
        late = Talker(second, "late")
        late.wait_until(lambda: len(late.heard("early")) >= 5, "hears nothing")
        assert (publisher.finish(), late.finish()) == (0, 0)
        heard = late.said("message")
        assert [said["retained"] for said in heard] == [True] + [False] * (len(heard) - 1)
        numbers = late.heard("early")
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] > 1
