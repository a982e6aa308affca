"""Lone messages take the fast path; what they become must be what the ordinary way makes of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from glue.contract import BULK, HIGH, LARGE, NORMAL, Downward, Publication, Request, Subscribe, Unsubscribe, Upward
from glue.topics import Topics
from glue.topics.fastpath import TopicsFastPath
from tests.topics.parties import added, message, outbounds, removed, topics, wants, wants_no_more

NOTHING = Publication("any", [], 0.0)  # sends nothing; but who goes beside it does not go alone
TOPICS = ("a", 'b/"quoted"', "c/\u00e9")
OPTIONS: tuple[dict[str, Any], ...] = (
    *[{}] * 6, {"json": True}, {"retain": True}, {"type": "t"}, {"lifespan": 9.0}, {"reliable": False},
    {"receipt": "r"}, {"ordered": False}, {"priority": HIGH}, {"priority": LARGE}, {"priority": BULK},
)  # fmt: skip


def told(down: list[Downward]) -> list[tuple[Any, ...]]:
    """Everything that is to be seen of what goes down."""
    return [
        (item.peers, item.bodies, item.header, item.reliable, item.expires, item.after, item.messages, item.receipts,
         item.priority)
        for item in outbounds(down)
    ]  # fmt: skip


def sent_alone(layer: Topics, now: float, item: Request) -> list[Downward]:
    """What goes down for an item that is the only one."""
    lone = TopicsFastPath(layer).send_one(now, item)
    return layer.send(now, [item]) if lone is None else [lone]


def news(rng: Random) -> list[Upward]:
    """Something changes about the peers, or nothing."""
    name, pattern = rng.choice("xy"), rng.choice([*TOPICS, "#"])
    choices: list[list[Upward]] = [
        [], [], [], [wants(name, pattern)], [wants_no_more(name, pattern)], [removed(name), added(name)],
    ]  # fmt: skip
    return rng.choice(choices)


def request(rng: Random) -> Request:
    """A message, seldom anything else."""
    if rng.random() < 0.05:
        return Subscribe("token", rng.choice(TOPICS)) if rng.random() < 0.5 else Unsubscribe("token")
    return message(rng.choice(TOPICS), rng.randbytes(rng.randrange(20)), **rng.choice(OPTIONS))


@pytest.mark.parametrize("seed", range(20))
def test_a_lone_message_becomes_the_same_as_one_in_company(seed: int) -> None:
    rng = Random(seed)
    alone, in_company = topics(), topics()
    both: tuple[Topics, Topics] = (alone, in_company)
    for layer in both:
        layer.receive(0.0, [added("x"), added("y"), wants("x", "#")])
    for step in range(300):
        changes = news(rng)
        for layer in both:
            layer.receive(step / 100, changes)
        item = request(rng)
        assert told(sent_alone(alone, step / 100, item)) == told(in_company.send(step / 100, [item, NOTHING]))
    assert alone.statistics == in_company.statistics


def test_the_way_of_lone_messages_is_found_again_after_one_that_went_another() -> None:
    layer = topics()
    layer.receive(0.0, [added("x"), wants("x", "a")])
    for priority in (NORMAL, HIGH, NORMAL, NORMAL):
        (item,) = outbounds(sent_alone(layer, 0.0, message("a", b"1", priority=priority)))
    assert item.priority == NORMAL
    assert not item.after


@pytest.mark.parametrize("is_delivered_here", [True, False])
def test_a_topic_of_large_messages_stays_one_whether_the_large_one_went_to_anybody_or_not(
    is_delivered_here: bool,
) -> None:
    layer = topics()
    layer.receive(0.0, [added("x"), wants("x", "a")])
    sent_alone(layer, 0.0, message("a", b"1"))
    if is_delivered_here:
        sent_alone(layer, 0.0, message("a", b"2", priority=LARGE, ordered=False))
    else:
        layer.receive(0.0, [wants_no_more("x", "a")])
        sent_alone(layer, 0.0, message("a", b"2", priority=LARGE))
        layer.receive(0.0, [wants("x", "a")])
    for number in (b"3", b"4"):
        (item,) = outbounds(sent_alone(layer, 0.0, message("a", number)))
        assert item.priority == LARGE
