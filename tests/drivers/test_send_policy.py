"""When a publisher's thread sends by itself, and for whom events are."""

from __future__ import annotations

from collections import deque

import pytest

from glue.contract import Delivery, Event, Missed, PeerRemoved
from glue.drivers import send_policy
from glue.drivers.dispatch import addressed
from glue.drivers.send_policy import BUSY, COALESCE, LATELY, SendPolicy


class Clock:
    """Stands for the module `time`."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(send_policy, "time", clock)
    return clock


def test_a_lone_message_leaves_at_once_and_what_follows_gathers(clock: Clock) -> None:
    policy = SendPolicy(4 << 20)
    assert policy.is_due(64, 0)
    policy.sent()
    assert not policy.is_due(64, 0)
    clock.now += 2 * COALESCE
    assert policy.is_due(64, 0)


def test_an_answer_leaves_at_once_however_fast_it_is_asked_for_and_only_the_first(clock: Clock) -> None:
    policy = SendPolicy(4 << 20)
    policy.sent()
    policy.arrived(clock.now)
    assert policy.is_due(64, 0)
    policy.sent()
    assert not policy.is_due(64, 0)


def test_an_exchange_is_where_something_digest_received_and_said_lately(clock: Clock) -> None:
    policy = SendPolicy(4 << 20)
    policy.arrived(10.0)
    assert not policy.is_exchange(10.0), "who only hears"
    policy.spoke(10.0 + LATELY / 2)
    assert policy.is_exchange(10.0 + 0.9 * LATELY)
    assert not policy.is_exchange(10.0 + 1.1 * LATELY), "what was heard is too long ago"
    policy.arrived(20.0)
    assert not policy.is_exchange(20.0), "what was said is"
    other = SendPolicy(4 << 20)
    other.spoke(10.0)
    assert not other.is_exchange(10.0), "who only publishes"


def test_while_the_line_is_busy_only_full_bundles_leave(clock: Clock) -> None:
    policy = SendPolicy(4 << 20)
    policy.arrived(clock.now)
    assert not policy.is_due(64, BUSY)
    assert not policy.is_due(512 << 10, BUSY)
    assert policy.is_due(1 << 20, BUSY)
    assert SendPolicy(8_000).is_due(2_000, BUSY), "a quarter of the queue"


class Hearer:
    """A receiver."""

    _busy = False

    def __init__(self) -> None:
        self._mailbox: deque[Event] = deque()

    def _deliver(self, event: Event) -> None:
        self._mailbox.append(event)


def test_each_event_goes_to_its_subscriptions_and_news_to_who_hears_the_news() -> None:
    one, two, news = Hearer(), Hearer(), Hearer()
    delivery = Delivery("t", [b"x"], None, "name", "id", 1, 1, 0.0, False, (one, two))
    missed = Missed("t", "name", "id", 1, "not sent", (two,))
    gone = PeerRemoved("id", 1, "name", "goodbye")
    assert addressed([delivery, missed, gone], news) == [(one, delivery), (two, delivery), (two, missed), (news, gone)]
