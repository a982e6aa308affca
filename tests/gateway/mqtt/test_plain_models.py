"""Parts of the broker against a plain model of the same thing, over random input."""

from __future__ import annotations

from random import Random

import pytest

from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.persisting import _ranges
from glue.gateway.mqtt.retained import Retained

LEVELS = ("a", "b", "", "$x", "+", "#")


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter matches a topic, as the specification says (4.7)."""
    wanted, found = topic_filter.split("/"), topic.split("/")
    if found[0].startswith("$") and wanted[0] in ("+", "#"):
        return False
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(found) or level not in ("+", found[place]):
            return False
    return len(wanted) == len(found)


@pytest.mark.parametrize("seed", range(40))
def test_retained_messages_are_found_as_by_a_plain_search(seed: int) -> None:
    random = Random(seed)
    retained, model = Retained(12), dict[str, bytes]()
    for number in range(60):
        topic = "/".join(random.choice(LEVELS[:4]) for _ in range(random.randint(1, 3)))
        payload = random.choice((b"", b"%d" % number))
        taken = retained.put(Publish(topic, [b"earlier", payload], 0, True))
        has_room = not payload or topic in model or len(model) < 12
        assert taken == has_room
        if not payload:
            model.pop(topic, None)
        elif has_room:
            model[topic] = payload
        assert len(retained) == len(model)
        levels = [random.choice(LEVELS[:5]) for _ in range(random.randint(1, 3))]
        wanted = "/".join([*levels, *random.choice(([], ["#"]))])
        found = {message.topic: message.payloads[-1] for message in retained.find(wanted)}
        assert found == {topic: value for topic, value in model.items() if matches(wanted, topic)}, wanted
        known = retained.get(topic)
        assert (None if known is None else known.payloads[-1]) == model.get(topic)
    assert {message.topic for message in retained} == set(model)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], []),
        ([5], [[5, 1]]),
        ([1, 2, 3], [[1, 3]]),
        ([3, 2, 1], [[3, 1], [2, 1], [1, 1]]),
        (range(4, 7), [[4, 3]]),
        ([1, 2, 4, 5, 9], [[1, 2], [4, 2], [9, 1]]),
        ([7, 7, 8], [[7, 1], [7, 2]]),
        ([2, 1, 2, 3], [[2, 1], [1, 3]]),
    ],
)
def test_packet_ids_are_stored_as_ranges(ids: list[int], expected: list[list[int]]) -> None:
    assert _ranges(ids) == expected
    assert [number for first, count in _ranges(ids) for number in range(first, first + count)] == [*ids]


def test_the_limits_are_those_of_the_pages() -> None:
    limits = Limits()
    assert (limits.clients, limits.sessions, limits.retained, limits.subscriptions) == (
        20_000,
        100_000,
        1_000_000,
        10_000,
    )
    assert (limits.inflight, limits.receive_maximum, limits.topic_aliases) == (1_024, 1_024, 256)
    assert (limits.queue_messages, limits.queue_bytes, limits.packet_size) == (100_000, 64 << 20, 268_435_455)
    assert (limits.session_expiry, limits.keep_alive, limits.connect_timeout) == (7 * 86_400.0, 65_535, 10.0)
    assert limits.stuck_after == 0.5
