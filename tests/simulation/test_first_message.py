"""What is published directly after a start reaches those who are there; what nobody gets is not told as delivered."""

from __future__ import annotations

import pytest

from glue.discovery.first_round import LATE, LONGEST
from glue.simulation import Conditions, SimulatedEndpoint, SimulatedSubscription, World

SECOND = 1.0


def established(world: World, count: int, pattern: str = "t") -> list[SimulatedSubscription]:
    """Endpoints that subscribe to this, and have known each other for some time."""
    subscriptions = [world.endpoint(f"subscriber-{number}").subscribe(pattern) for number in range(count)]
    world.run(3 * SECOND)
    return subscriptions


def payloads(subscription: SimulatedSubscription) -> list[object]:
    return [message.payload for message in subscription.received]


@pytest.mark.parametrize("subscribers", [1, 5, 50])
def test_what_is_published_at_once_reaches_all_who_are_there(subscribers: int) -> None:
    world = World(seed=subscribers)
    heard = established(world, subscribers)
    publisher = world.endpoint("publisher")
    receipt = publisher.publish("t", 1, receipt=True)
    publisher.publish_many("t", [2, 3])
    assert not receipt
    assert world.run_until(lambda: receipt.complete, SECOND)
    assert receipt
    assert len(receipt.delivered) == subscribers
    world.run(0.1)
    assert [payloads(each) for each in heard] == [[1, 2, 3]] * subscribers
    assert publisher.statistics["topics"]["messages to nobody"] == 0


@pytest.mark.parametrize("loss", [0.05, 0.2])
def test_what_is_published_at_once_survives_losses_or_its_receipt_is_false(loss: float) -> None:
    arrived = 0
    for seed in range(100):
        world = World(seed)
        (heard,) = established(world, 1)
        world.network.set_conditions(Conditions(loss=loss))
        publisher = world.endpoint("publisher")
        receipt = publisher.publish("t", 1, receipt=True)
        publisher.close(timeout=5.0)
        assert world.run_until(lambda: receipt.complete, 10 * SECOND)  # noqa: B023
        assert bool(receipt) == (payloads(heard) == [1])
        arrived += bool(receipt)
    assert arrived >= (99 if loss < 0.1 else 90)  # three tries: 0.1 % and 5 % of the rounds fail


@pytest.mark.parametrize("lag", [0.0, 0.003, 0.009, 0.03])
def test_a_subscriber_that_starts_at_the_same_time_is_heard_of(lag: float) -> None:
    world = World()
    publisher = world.endpoint("publisher")
    receipt = publisher.publish("t", 1, receipt=True)
    world.run(lag)
    heard = world.endpoint("subscriber").subscribe("t")
    world.run(SECOND)
    assert payloads(heard) == [1]
    assert receipt


@pytest.mark.parametrize("gap", [0.0, 0.003, 0.008])
def test_of_two_programs_that_start_at_once_one_may_subscribe_a_little_after_the_other_publishes(gap: float) -> None:
    world = World()
    publisher, subscriber = world.endpoint("publisher"), world.endpoint("subscriber")
    world.run(LONGEST)
    receipt = publisher.publish("t", 1, receipt=True)
    world.run(gap)
    heard = subscriber.subscribe("t")
    world.run(SECOND)
    assert payloads(heard) == [1]
    assert receipt


def test_what_nobody_wants_is_held_no_longer_than_that_and_its_receipt_is_false() -> None:
    world = World()
    publisher = world.endpoint("publisher")
    receipt = publisher.publish("t", bytes(1000), receipt=True)
    world.run(LATE - 0.001)
    assert (receipt.complete, bool(receipt), publisher.backlog) == (False, False, 1000)
    world.run(0.002)
    assert (receipt.complete, bool(receipt)) == (True, False)
    assert publisher.backlog == 0
    assert publisher.statistics["topics"]["messages to nobody"] == 1
    assert publisher.statistics["topics"]["messages to nobody at the start"] == 1
    publisher.publish("t", 2)
    world.run(0.001)
    assert publisher.statistics["topics"]["messages to nobody"] == 2
    assert publisher.statistics["topics"]["messages to nobody at the start"] == 1


def test_what_others_want_does_not_wait_for_what_nobody_wants() -> None:
    world = World()
    (heard,) = established(world, 1)
    publisher = world.endpoint("publisher")
    publisher.publish("to nobody", 1)
    publisher.publish("t", 2)
    world.run(0.01)
    assert payloads(heard) == [2]


def test_one_s_own_subscriptions_do_not_wait() -> None:
    world = World()
    publisher = world.endpoint("publisher")
    heard = publisher.subscribe("t")
    publisher.publish("t", 1)
    world.run(0.001)
    assert payloads(heard) == [1]
    world.run(SECOND)
    assert publisher.statistics["topics"]["messages to nobody"] == 0


def test_plain_and_retained_messages_of_the_start_come_once_and_in_order() -> None:
    world = World()
    (heard,) = established(world, 1)
    publisher = world.endpoint("publisher")
    publisher.publish("t", 1)
    publisher.publish("t", 2, retain=True)
    publisher.publish("t", 3)
    world.run(SECOND)
    assert payloads(heard) == [1, 2, 3]
    late = world.endpoint("late").subscribe("t")
    world.run(SECOND)
    assert payloads(late) == [2]


def test_what_expires_while_it_is_held_is_not_handed_over() -> None:
    world = World()
    publisher = world.endpoint("publisher")
    receipt = publisher.publish("t", 1, lifespan=0.02, receipt=True)
    world.run(0.03)
    heard = world.endpoint("subscriber").subscribe("t")
    world.run(SECOND)
    assert payloads(heard) == []
    assert receipt.complete
    assert not receipt


def test_who_wants_very_much_is_waited_for() -> None:
    world = World()
    subscriber = world.endpoint("subscriber")
    subscriptions = [subscriber.subscribe(f"a/rather/long/name/of/a/topic/{number}") for number in range(1000)]
    world.run(3 * SECOND)
    receipt = world.endpoint("publisher").publish(subscriptions[0].pattern, 1, receipt=True)
    world.run(SECOND)
    assert receipt
    assert payloads(subscriptions[0]) == [1]


@pytest.mark.parametrize("end", [SimulatedEndpoint.close, lambda endpoint: endpoint.close(timeout=0.0)])
def test_a_publisher_that_closes_at_once_has_its_message_delivered_if_it_may_wait(end: object) -> None:
    world = World()
    (heard,) = established(world, 1)
    publisher = world.endpoint("publisher")
    publisher.publish("t", 1)
    assert callable(end)
    end(publisher)
    world.run(2 * SECOND)
    assert payloads(heard) == ([1] if end is SimulatedEndpoint.close else [])


def test_where_the_queue_is_full_of_what_is_held_publishing_is_refused_until_it_has_left() -> None:
    world = World()
    (heard,) = established(world, 1)
    publisher = world.endpoint("publisher", queue_limit=10_000)
    publisher.publish("t", bytes(20_000))
    world.run(0.0005)
    assert publisher.backlog >= 20_000
    world.run(SECOND)
    assert publisher.backlog == 0
    assert len(heard.received) == 1
