"""When an endpoint announces itself, with what, and what counts as told to its peers."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import orjson
import pytest

from glue.contract import Interest
from glue.discovery import announcer as module
from glue.discovery.announcer import Announcer
from glue.discovery.interests import SLACK, InterestLog
from glue.discovery.membership import Membership
from glue.discovery.wire import ANNOUNCE, ANSWER, CALL, Envelope
from tests.discovery.lan import endpoint_id


class Most:
    """Draws the most of each range."""

    def uniform(self, least: float, most: float) -> float:
        assert least == 1.0
        return most


def announcer(interval: float = 1.0, rest: int = 0) -> Announcer:
    chance: Any = Most()
    return Announcer("own", interval, chance, rest)


def calm(interval: float = 1.0) -> Announcer:
    """One that has announced its start three times, at 10.0, 10.1 and 10.3."""
    one = announcer(interval)
    for at in (10.0, 10.1, 10.3):
        one.announce(at)
    return one


def wanting(count: int) -> Interest:
    return Interest([f"topic/number/{number:03}" for number in range(count)], [])


def test_times_and_sizes_of_announcements() -> None:
    assert (module.START_REPEATS, module.CHANGE_REPEATS, module.SETTLED) == ((0.1, 0.2), (0.05, 0.1), 0.05)
    assert (module.MIN_GAP, module.JITTER, module.RIDE, [*module.IN_STEP]) == (0.01, 0.1, 0.15, [2, 3, 4, 5, 6, 7, 8])
    assert (module.FULL_BODY, module.CALM_BODY) == (1400, 512)


def test_a_start_is_announced_three_times_and_then_once_an_interval() -> None:
    one = announcer()
    assert (one.due, one.rides_from, one.is_fresh, one.calm_until) == (0.0, 0.0, True, -math.inf)
    for at, due in ((10.0, 10.1), (10.1, 10.3)):
        one.announce(at)
        assert one.due == one.rides_from == pytest.approx(due)
        assert one.is_fresh == (at == 10.0)
    for at in (10.3, 12.0):
        one.announce(at)
        assert one.due == pytest.approx(at + 1.1)
        assert not one.is_fresh
        assert one.calm_until == one.rides_from == pytest.approx(at + 1.1 - 0.15)
    short = announcer(0.05)
    short.announce(10.0)
    assert short.due == 10.05, "no later than an interval"


def test_a_change_is_announced_at_once_but_not_sooner_than_ten_milliseconds_after_another() -> None:
    one = calm()
    assert one.change(10.305, Interest(["a", "b"], ["c", "d"])) == 2
    assert (one.due, one.rides_from, one.is_fresh) == (10.3 + module.MIN_GAP, 10.3 + module.MIN_GAP, True)
    assert one.change(10.5, Interest([], ["a"])) == 0
    assert (one.due, one.rides_from) == (10.5, 10.5)
    assert orjson.loads(one.announce(10.5))["operations"] == ["+a", "+b", "-a"]
    assert one.due == 10.55
    one.announce(10.55)
    assert one.due == pytest.approx(10.65)


def test_it_is_hurried_slept_through_and_stopped() -> None:
    one = calm()
    one.hurry(10.5)
    assert (one.due, one.rides_from, one.is_fresh) == (10.5, 10.5, False)
    one = announcer(rest=60)
    for at in (10.0, 10.1, 10.3):
        body = one.announce(at)
    assert (orjson.loads(body)["rest"], "asleep" in orjson.loads(body)) == (60, True)
    one.sleep(11.0, 1)
    assert (one.due, one.rides_from, one.is_fresh, one.calm_until) == (11.0, 11.0, True, -math.inf)
    for at in (11.0, 11.1, 11.3):
        assert orjson.loads(one.announce(at))["asleep"] == 1
    assert (one.is_fresh, one.calm_until) == (False, -math.inf), "asleep, it is never calm"
    one.sleep(12.0, 2)
    assert orjson.loads(one.announce(12.0))["asleep"] == 2
    one.stop()
    assert (one.due, one.rides_from, one.is_fresh) == (math.inf, math.inf, False)
    one.hurry(13.0)
    assert one.due == math.inf
    one = calm()
    one.change(10.5, wanting(1))
    one.stop()
    assert one.told == (0, 1)


def test_what_an_announcement_leaves_out_is_not_told_by_it() -> None:
    one = calm()
    assert (one.told, one.settled) == ((0, 0), (0, 0))
    one.change(11.0, wanting(3))
    one.announce(11.0)
    assert one.told == (0, 3)
    one.change(11.02, wanting(200))
    assert len(one.announce(11.02)) <= module.FULL_BODY
    assert one.told == (0, 3), "its peers have to ask for the first of them"
    one.announce(11.07)
    one.announce(11.17)
    assert (one.is_fresh, one.told) == (False, (0, 200)), "and have done so by now"


def test_what_all_were_told_a_while_ago_is_settled() -> None:
    one = calm()
    one.change(11.0, wanting(3))
    one.announce(11.0)
    assert one.settled == (0, 0)
    one.change(11.02, wanting(5))
    one.announce(11.02)
    assert one.settled == (0, 0)
    one.announce(11.0 + module.SETTLED - 1e-6)
    assert one.settled == (0, 0)
    one.announce(11.0 + module.SETTLED)
    assert one.settled == (0, 3)
    one = calm()
    one.change(11.0, wanting(3))
    assert one.settled == (0, 0)
    for at in (11.0, 11.05, 11.15):
        one.announce(at)
    one.change(12.0, wanting(4))
    assert one.settled == (0, 3), "before the first change of several, all is settled"


def test_news_are_the_changes_since_a_position_in_as_many_bodies_as_may_be() -> None:
    one = announcer()
    one.change(10.0, wanting(3))
    ((is_announcement, body),) = one.news((0, 1), 500, 9)
    assert (is_announcement, b"number/001" in body, b"number/000" in body) == (False, True, False)
    assert one.news((0, 3), 500, 9) == []
    assert one.news((0, 1), 500, 0) == []
    one.change(11.0, Interest([], ["topic/number/000"]))
    for _ in range(SLACK):
        one.change(11.0, Interest(["x"], []))
        one.change(11.0, Interest([], ["x"]))
    assert one.log.epoch == 1
    told = one.news((0, 9), 1400, 9)
    assert [is_announcement for is_announcement, _ in told] == [True]
    one.change(12.0, wanting(99))
    told = one.news((0, 9), 400, 3)
    assert [is_announcement for is_announcement, _ in told] == [True, *[False] * (len(told) - 1)]


def test_bodies_are_no_larger_than_they_may_be_and_made_once() -> None:
    one = announcer()
    one.change(10.0, wanting(200))
    assert one.size == module.FULL_BODY
    assert module.CALM_BODY - 40 < len(one.calm_body) <= module.CALM_BODY
    assert one.calm_body is one.calm_body
    before = one.calm_body
    one.fit(9000)
    assert one.size == module.FULL_BODY
    one.fit(300)
    assert (one.size, 260 < len(one.calm_body) <= 300, len(one.announce(10.0)) <= 300) == (300, True, True)
    assert one.calm_body != before
    one.change(10.0, Interest(["new"], []))
    assert b'"+new"' in one.calm_body


def test_a_log_ends_its_epoch_once_most_of_it_is_history() -> None:
    log = InterestLog()
    assert (log.epoch, log.previous, log.base, log.version, SLACK) == (0, 0, 0, 0, 64)
    log.record(["a", "a", "b"], ["c"])
    assert (log.version, log.position) == (2, (0, 2))
    assert log.record([], ["a"]) == 0
    assert log.version == 2, "another one wants it still"
    while log.version < 2 * 2 + SLACK:
        log.record(["x"], [])
        log.record([], ["x"])
    log.record(["y"], [])
    assert log.position == (0, 2 * 2 + SLACK + 1)
    log.record([], ["y"])
    assert log.position == (0, 2 * 2 + SLACK + 2)
    log.record(["z"], [])
    assert (log.epoch, log.previous, log.base, log.version) == (1, 2 * 2 + SLACK + 2, 2, 3)


def membership(*peers: str) -> Membership:
    members = Membership(endpoint_id(12), Counter(), Random(1))
    for peer in peers:
        members.table[peer] = None  # type: ignore[assignment]
    return members


def test_the_digest_is_the_same_for_all_that_know_one_another() -> None:
    ids = [endpoint_id(number) for number in (12, 5, 9)]
    assert membership(*ids[1:]).digest == 12 ^ 5 ^ 9
    assert membership(ids[1]).digest != membership(ids[2]).digest


def test_who_announces_another_digest_or_calls_without_both_tokens_may_not_know_this_endpoint() -> None:
    members = membership()
    cases = [
        (Envelope(ANNOUNCE), False), (Envelope(ANNOUNCE, known=members.digest), False),
        (Envelope(ANNOUNCE, known=members.digest + 1), True), (Envelope(CALL, 1, 2), False), (Envelope(CALL, 1), True),
        (Envelope(CALL, 0, 2), True), (Envelope(ANSWER), False), (Envelope(ANSWER, known=7), False),
    ]  # fmt: skip
    assert [members.is_stranger(envelope) for envelope, _ in cases] == [is_stranger for _, is_stranger in cases]
