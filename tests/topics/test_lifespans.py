"""Until when a delivery is worth something: counted from when it was handed to its sender's transport."""

from __future__ import annotations

import pytest

from glue.contract import Subscribe
from glue.topics.bundle import KEEP, LIVE, MessageGroup, encode
from tests.topics.parties import added, deliveries, inbound, topics


@pytest.mark.parametrize("retain", [LIVE, KEEP])
def test_the_age_of_a_message_is_taken_off_its_lifespan(retain: int) -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe(1, "a")])
    item = inbound("ann", encode([MessageGroup("a", 1, 0, [b"x"], 1, None, False, retain, 5000)]), age=2.0)
    (heard,) = deliveries(layer.receive(100.0, [item])[0])
    assert heard.expires == pytest.approx(103.0)


def test_a_retained_value_that_digest_received_expires_for_late_subscriptions_too() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe(1, "a")])
    layer.receive(
        100.0, [inbound("ann", encode([MessageGroup("a", 1, 0, [b"x"], 1, None, False, KEEP, 5000)]), age=2.0)]
    )
    layer.send(102.9, [Subscribe(2, "a")])
    (heard,) = deliveries(layer.receive(102.9, [])[0])
    assert (heard.payloads, heard.retained) == ([b"x"], True)
    assert heard.expires == pytest.approx(103.0)
    layer.send(103.1, [Subscribe(3, "a")])
    assert deliveries(layer.receive(103.1, [])[0]) == []
