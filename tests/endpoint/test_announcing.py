"""What an endpoint announces of itself, watches, and takes back, with a driver that only notes what it is asked."""

from __future__ import annotations

import asyncio
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio
from glue.contract import Alarm, Delivery, PeerInterest, Subscribe, Survey, Unsubscribe
from glue.endpoint.accounting import OUTCOMES
from glue.endpoint.owner import OwnerFunctions
from glue.topics.names import NAME_LIMIT
from tests.endpoint.owners import Owner


class Driver:
    """A driver that notes its orders."""

    def __init__(self) -> None:
        self.closed = False
        self.asked: list[Any] = []

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append(request)

    def take(self) -> list[Any]:
        """What was asked since the last look."""
        found, self.asked = self.asked, []
        return found


@pytest.fixture(params=[glue.Endpoint, glue.aio.Endpoint])
def endpoint(request: pytest.FixtureRequest) -> Any:
    made = request.param("a")
    made._driver, made.counted = Driver(), Owner()
    handled, settled = made.counted.handled, made.counted.settled
    made._owner = OwnerFunctions(print, handled, settled, print, print, made.unsubscribe)
    return made


# ------------------------------------------------------------------------------------------------------- publishers


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(None, 0), (0.001, 1), (0.0011, 2), (1, 1000), (2.5, 2500), (0.0015, 2), (1_000_000, 1_000_000_000)],
)
def test_a_publisher_is_announced_with_its_promise_in_milliseconds(
    endpoint: Any, seconds: float | None, milliseconds: int
) -> None:
    announcement = endpoint.announce("t/+", publish_every=seconds)
    (asked,) = endpoint._driver.take()
    assert (type(asked), asked.token, asked.patterns) == (
        Subscribe, announcement, (f"$glue/publisher/{milliseconds}/t/+",),
    )  # fmt: skip
    assert announcement.pattern == "t/+"


@pytest.mark.parametrize("seconds", [0, 0.0009, -1, 1_000_000.001, inf, True, "1", float("nan")])
def test_another_promise_is_refused(endpoint: Any, seconds: Any) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        endpoint.announce("t", publish_every=seconds)
    assert str(caught.value) == f"publish_every={seconds!r}: expected seconds, from 0.001 to 1000000"
    assert endpoint._driver.asked == []


def test_what_is_no_pattern_or_too_long_to_be_announced_is_refused(endpoint: Any) -> None:
    room = NAME_LIMIT - len("$glue/publisher/0/")
    endpoint.announce("t" * room)
    for wrong in ("#/t", "$glue/t", "t" * (room + 1), "t" * (NAME_LIMIT + 1)):
        with pytest.raises(glue.TopicError):
            endpoint.announce(wrong)
    assert len(endpoint._driver.asked) == 1
    asked: list[Any] = []
    endpoint._core.guard = SimpleNamespace(require=lambda *what: asked.append(what))
    endpoint.announce("t")
    assert asked == [("publish", "t")]


def test_an_announcement_ends_with_its_block_and_drops_what_comes(endpoint: Any) -> None:
    announcement = endpoint.announce("t")
    endpoint._driver.take()
    announcement._deliver(Delivery("t", [1, 2], None, "b", "id-b", 1, 1, 0.0, False, ()))
    assert endpoint.counted.counted == {"unread": 2, **({"done": 1} if endpoint._COUNTS else {})}
    assert "unread" in OUTCOMES
    with announcement as same:
        assert (same, endpoint._driver.asked) == (announcement, [])
    (asked,) = endpoint._driver.take()
    assert (type(asked), asked.token) == (Unsubscribe, announcement)

    async def main() -> None:
        async with announcement as same:
            assert (same, endpoint._driver.asked) == (announcement, [])

    asyncio.run(main())
    assert len(endpoint._driver.take()) == 1
    endpoint._driver.closed = True
    announcement.close()  # quietly
    with pytest.raises(glue.ClosedError):
        endpoint.announce("t")


# ---------------------------------------------------------------------------------------------- deadlines and presence


def test_a_deadline_is_watched_until_its_subscription_is_closed(endpoint: Any) -> None:
    driver, core = endpoint._driver, endpoint._core
    subscription = endpoint.subscribe(["t/+", "u"], deadline=2.0)
    first, watching, survey = driver.take()
    watch = watching.token
    assert (first.token, type(survey), survey.token) == (subscription, Survey, watch)
    assert (type(watching), watching.patterns, watching.local) == (Subscribe, ("t/+", "u"), False)
    assert [*endpoint._deadlines] == [subscription]
    assert core.observers
    silences: list[Any] = []
    endpoint.on_deadline = silences.append
    core.requests.clock = lambda: 10.0
    watch._clock = lambda: 10.0
    watch._names["id-b"] = "b"
    watch.note(7.0, PeerInterest("id-b", ["$glue/publisher/1000/u", "$glue/publisher/2001/t/1"], []))
    watch._deliver(Alarm(watch, 10.0))
    (silence,) = silences
    assert (silence.topic, silence.publisher, silence.seconds, silence.publisher_id) == ("u", "b", 3.0, "id-b")
    driver.take()
    subscription.close()
    alarm, gone, unsubscribed = driver.take()
    assert (type(alarm), alarm.token, alarm.due) == (Alarm, watch, inf)
    assert [(type(one), one.token) for one in (gone, unsubscribed)] == [
        (Unsubscribe, watch), (Unsubscribe, subscription),
    ]  # fmt: skip
    assert (endpoint._deadlines, bool(core.observers)) == ({}, False)
    endpoint._end_deadline(subscription)  # there is none any more
    assert driver.take() == []
    endpoint.subscribe("t")
    assert len(driver.take()) == 1


def test_who_subscribes_is_asked_of_a_topic_not_of_a_pattern(endpoint: Any) -> None:
    for wrong in ("a/#", "a/+", ""):
        with pytest.raises(glue.TopicError):
            endpoint.subscribers(wrong)


def test_a_watch_of_presence_begins_with_a_survey_for_itself(endpoint: Any) -> None:
    for wrong in ("#/t", ""):
        with pytest.raises(glue.TopicError):
            endpoint.watch_presence(wrong)
    assert endpoint._subscriptions == set()
    subscription = endpoint.watch_presence()
    (survey,) = endpoint._driver.take()
    assert (type(survey), survey.token, subscription.pattern) == (Survey, subscription, "#")
    assert endpoint._subscriptions == {subscription}
    assert endpoint._core.observers
    told: list[Any] = []
    handled = endpoint.watch_presence("t/#", told.append)
    handled._deliver(Delivery("$glue/presence", ["came"], None, "a", "id-a", 1, 1, 0.0, False, ()))
    assert (told, handled.pattern) == (["came"], "t/#")
