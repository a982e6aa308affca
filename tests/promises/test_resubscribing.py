"""Who subscribes, unsubscribes and subscribes again during traffic, over a bad network: the promises, exactly.

Each change of interest moves the topic to other flows, while much of what went before is still on its way.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from glue import Message
from glue.simulation import Conditions, World

SEEDS = (*range(8), 26, 34, 46, 48)  # in the last four a receiver was once mended far too slowly

BAD = Conditions(loss=0.2, duplicate=0.2, jitter=0.005, reorder=0.2)
STRETCH, PAUSE = 30, 10  # messages, 5 ms apart, during which it is subscribed, and is not


@pytest.mark.parametrize("seed", SEEDS)
def test_who_comes_and_goes_hears_once_and_in_order_what_is_sent_to_it_and_is_told_of_the_rest(seed: int) -> None:
    world = World(seed)
    world.network.set_conditions(BAD)
    publisher, steady, fickle = (world.endpoint(name) for name in ("publisher", "steady", "fickle"))
    always = steady.subscribe("t")
    assert world.run_until(lambda: len(publisher.peers) == 2 and steady.id in publisher.subscribers("t"), 10)
    world.run(0.1)  # from now on nothing is held for those who are not known yet
    stretches: list[list[Message]] = []
    gaps: Counter[int] = Counter()  # messages that it was told to have missed, by stretch
    fickle.on_gap = lambda gap: gaps.update({len(stretches) - 1: gap.count})
    owed: list[bool] = []  # of each message, whether the publisher knew that the fickle one wants it
    for number in range(10 * (STRETCH + PAUSE)):
        if number % (STRETCH + PAUSE) == 0:
            subscription = fickle.subscribe("t")
            stretches.append(subscription.received)
        if number % (STRETCH + PAUSE) == STRETCH:
            subscription.close()
        owed.append(fickle.id in publisher.subscribers("t"))
        publisher.publish("t", number)
        world.run(0.005)
    assert world.run_until(lambda: publisher.accounting.sending == 0, 10)

    assert [message.payload for message in always.received] == list(range(len(owed)))
    heard = [[message.sequence - 1 for message in stretch] for stretch in stretches]
    everything = list(chain(*heard))
    assert everything == sorted(set(everything))
    # What was on its way to one stretch may be heard by the next. Then what nobody wanted between them is a gap.
    for number, stretch in enumerate(heard):
        missed = set(range(stretch[0], stretch[-1])).difference(stretch) if stretch else set()
        assert not any(owed[message] for message in missed)
        assert gaps[number] == len(missed)
    arrived = fickle.statistics["topics"]
    assert arrived["messages received"] + arrived["messages not subscribed to"] == sum(owed) > 100
