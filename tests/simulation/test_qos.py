"""Quality of service in virtual time: what presets do, what is told of differences, which publisher owns a topic."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.endpoint.deadlines import Silence
from glue.endpoint.qos_terms import QOS, Difference, differences, terms_of
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk


def party(*names: str, **settings: Any) -> tuple[World, list[SimulatedEndpoint], dict[str, list[glue.QoSMismatch]]]:
    """Endpoints that know each other, and the mismatches told to each."""
    world, told = World(), {}
    endpoints = [world.endpoint(name, **settings) for name in names]
    for endpoint in endpoints:
        told[endpoint.name] = list[glue.QoSMismatch]()
        endpoint.on_qos_mismatch = told[endpoint.name].append
    assert world.run_until(lambda: all(len(one.peers) == len(names) - 1 for one in endpoints), 5)
    return world, endpoints, told


def payloads(subscription: Any) -> list[Any]:
    return [message.payload for message in subscription.received]


def test_a_mismatch_that_no_program_hears_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world, (one, other), told = party("one", "other")
    other.on_qos_mismatch = None
    one.topic("t", qos=glue.SENSOR).publish(1)
    other.topic("t", qos=glue.EVENT).subscribe()
    world.run(2)
    assert len(told["one"]) == 1
    (logged,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "one" in logged


# -------------------------------------------------------------------------------------------------------- presets


def test_a_late_subscriber_gets_the_last_state_and_at_most_100_events() -> None:
    world, (one, other), told = party("one", "other")
    state, event = one.topic("door/+/state", qos=glue.STATE), one.topic("door/+/event", qos=glue.EVENT)
    for number in range(150):
        state.publish(number, "door/1/state")
        event.publish(number, "door/1/event")
    world.run(1)
    states = other.topic("door/+/state", qos=glue.STATE).subscribe()
    events = other.topic("door/+/event", qos=glue.EVENT).subscribe()
    volatile = other.topic("door/+/state", qos=glue.QoS()).subscribe()
    plain = other.subscribe("door/+/state")
    world.run(1)
    assert (payloads(states), payloads(events)) == ([149], [*range(50, 150)])
    assert (payloads(volatile), payloads(plain)) == ([], [149])
    state.publish("now", "door/1/state")
    world.run(1)
    assert payloads(states) == payloads(plain) == [149, "now"]
    assert payloads(volatile) == ["now"]
    assert told == {"one": [], "other": []}
    assert not other.accounting.waiting


def test_sensor_readings_are_not_sent_again_and_a_slow_reader_gets_the_newest() -> None:
    world, (one, other), _ = party("one", "other")
    slow = other.subscribe("t", handling_time=1.0, qos=glue.SENSOR)
    world.run(0.1)
    topic = one.topic("t", qos=glue.SENSOR)
    world.network.set_conditions(Conditions(loss=0.5))
    for number in range(200):
        topic.publish(number)
        world.run(0.005)
    world.run(5)
    assert payloads(slow)[-1] > 180
    assert len(slow.received) < 5
    assert one.statistics["transport"]["frames resent"] == 0
    assert other.statistics["endpoint"]["messages overwritten"] > 50


def test_a_log_is_on_the_disks_of_keepers_and_survives_its_publisher() -> None:
    world, (one, other, keeper), _ = party("one", "other", "keeper")
    keeper.keep("log/#", directory=SimulatedDisk(world.random("disk")))
    world.run(1)
    log = one.topic("log/+", qos=glue.LOG)
    receipts = [log.publish(number, "log/a") for number in range(300)]
    world.run(1)
    assert all(receipts)
    assert receipts[0] is not None
    assert receipts[0].durable == ["keeper"]
    one.crash()
    world.run(10)
    late = other.topic("log/+", qos=glue.LOG).subscribe()
    world.run(1)
    assert payloads(late) == [*range(300)]


def test_a_log_without_a_keeper_says_so() -> None:
    world, (one,), _ = party("one")
    receipt = one.topic("log", qos=glue.LOG).publish(1)
    world.run(1)
    assert receipt is not None
    assert "0 of 1 keepers" in receipt.failure


# ---------------------------------------------------------------------------------------------------- differences


@pytest.mark.parametrize("publisher_first", [True, False])
def test_a_weaker_offer_is_told_at_both_ends_once_and_holds(publisher_first: bool) -> None:
    world, (one, other), told = party("one", "other")
    topic = one.topic("t/+", qos=glue.SENSOR)
    if publisher_first:
        topic.publish(0, "t/1")
        world.run(1)
    received = [other.topic("t/#", qos=glue.EVENT).subscribe() for _ in range(2)]
    world.run(0.1)
    for number in (1, 2):
        topic.publish(number, "t/1")
    world.run(3)
    assert [payloads(each) for each in received] == [[1, 2]] * 2
    (here,), (there,) = told["one"], told["other"]
    assert (here.here, here.peer, here.pattern) == ("publisher", "other", "t/+")
    assert (there.here, there.peer, there.pattern) == ("subscriber", "one", "t/#")
    assert (
        here.differences
        == there.differences
        == (
            Difference("reliability", "best-effort", "reliable", "best-effort"),
            Difference("durability", "volatile", "transient_local", "volatile"),
        )
    )
    assert not here.refused
    assert "reliability best-effort is offered, reliable requested" in str(here)


def test_a_stronger_offer_is_no_event() -> None:
    world, (one, other), told = party("one", "other")
    received = other.topic("t", qos=glue.SENSOR).subscribe()
    one.topic("t", qos=glue.LOG.replace(durability="transient_local")).publish(1)
    world.run(1)
    assert payloads(received) == [1]
    assert told == {"one": [], "other": []}


@pytest.mark.parametrize("strict", ["publisher", "subscriber"])
def test_a_strict_side_refuses_and_others_go_on(strict: str) -> None:
    world, (one, two, other), told = party("one", "two", "other")
    weak = glue.SENSOR.replace(strict=strict == "publisher")
    request = glue.EVENT.replace(strict=strict == "subscriber")
    received = other.topic("t", qos=request).subscribe()
    volatile = other.topic("t", qos=glue.QoS(reliability="best-effort", strict=strict == "subscriber")).subscribe()
    one.topic("t", qos=weak).publish("weak")
    two.topic("t", qos=glue.EVENT).publish("good")
    world.run(1)
    assert payloads(received) == ["good"]
    assert sorted(payloads(volatile)) == ["good", "weak"]
    assert [mismatch.refused for mismatch in told["one"] + told["other"]] == [True, True]
    assert other.statistics["endpoint"]["messages left out by quality of service: strict"] == 1
    assert other.statistics["endpoint"]["messages left out by quality of service"] == 1
    assert not other.accounting.waiting


@pytest.mark.parametrize("wanted", [glue.QoS(strict=True), glue.EVENT.replace(strict=True)])
def test_a_strict_subscriber_refuses_who_offers_nothing_until_it_does(wanted: glue.QoS) -> None:
    world, (one, other), told = party("one", "other")
    received = other.topic("t", qos=wanted).subscribe()
    world.run(0.1)
    for _ in range(2):
        one.publish("t", "plain")
        world.run(1)
    one.topic("t", qos=glue.EVENT).publish("offered")
    world.run(1)
    assert payloads(received) == ["offered"]
    assert [*map(str, told["other"])] == [
        "t: subscriber here and one there: quality of service none is offered, strict requested; they do not match"
    ]


def test_statements_end_with_topics_and_subscriptions() -> None:
    world, (one, other), told = party("one", "other")
    topic, received = one.topic("t", qos=glue.SENSOR), other.topic("t", qos=glue.SENSOR).subscribe()
    topic.publish(1)
    topic.close()
    received.close()
    world.run(1)
    other.topic("t", qos=glue.EVENT).subscribe()
    topic2 = one.topic("u", qos=glue.EVENT)
    topic2.announce()
    world.run(1)
    assert told == {"one": [], "other": []}
    assert not any(QOS in interest for interest in (*one._core.offers.interests,))


@pytest.mark.parametrize(
    ("offered", "requested", "policies"),
    [
        (glue.STATE, glue.EVENT, ["history"]),
        (glue.LOG, glue.EVENT, []),
        (glue.EVENT, glue.LOG, ["durability", "history"]),
        (glue.SENSOR, glue.LOG, ["reliability", "durability"]),
        (glue.EVENT, glue.EVENT.replace(history=glue.keep_all), ["history"]),
        (glue.QoS(), glue.QoS(deadline=1), ["deadline"]),
        (glue.QoS(deadline=2), glue.QoS(deadline=1), ["deadline"]),
        (glue.QoS(deadline=0.5), glue.QoS(deadline=1), []),
        (glue.QoS(liveliness=9), glue.QoS(liveliness=8), ["liveliness"]),
        (glue.QoS(), glue.QoS(ownership="exclusive"), ["ownership"]),
        (glue.QoS(ownership="exclusive", strength=1), glue.QoS(ownership="exclusive"), []),
        (glue.QoS(priority="bulk", lifespan=1), glue.QoS(priority="urgent"), []),
    ],
)
def test_these_policies_differ(offered: glue.QoS, requested: glue.QoS, policies: list[str]) -> None:
    assert [one.policy for one in differences(terms_of(offered), terms_of(requested))] == policies


def test_the_lease_of_the_publisher_is_its_liveliness() -> None:
    world, (one, other), told = party("one", "other")
    one.topic("t", qos=glue.QoS()).announce()
    other.topic("t", qos=glue.QoS(liveliness=5)).subscribe()
    world.run(1)
    assert told["other"] == []
    other.topic("t", qos=glue.QoS(liveliness=2)).subscribe()
    world.run(1)
    assert told["other"][0].differences == (Difference("liveliness", "5 s", "2 s", "5 s"),)
    with pytest.raises(glue.ConfigurationError, match=r"announce_interval=0\.4"):
        one.topic("t", qos=glue.QoS(liveliness=2)).publish(1)


def test_a_slower_promise_is_watched_at_its_own_rate() -> None:
    world, (one, other), told = party("one", "other")
    silences: list[Silence] = []
    other.on_deadline = silences.append
    other.topic("t", qos=glue.QoS(deadline=1)).subscribe()
    topic = one.topic("t", qos=glue.QoS(deadline=2))
    for _ in range(5):
        topic.publish(1)
        world.run(1.9)
    assert silences == []
    assert told["other"][0].differences[0].agreed == "2 s"
    world.run(3)
    assert [silence.publisher for silence in silences] == ["one"]


# ------------------------------------------------------------------------------------------------------ ownership


def standby(deadline: float | None = None) -> tuple[World, list[SimulatedEndpoint], list[Any], Any]:
    """Two exclusive publishers, the first one stronger, that publish ten times a second, and a subscription."""
    world, (main, spare, other), _ = party("main", "spare", "other", announce_interval=0.2)
    qos = glue.QoS(ownership="exclusive", deadline=deadline)
    received = other.topic("t", qos=qos).subscribe()
    topics = [one.topic("t", qos=qos.replace(strength=strength)) for one, strength in ((main, 2), (spare, 1))]

    def beat(number: int) -> None:
        for one, topic in zip((main, spare), topics, strict=True):
            if one.is_running and not one.host.is_paused:
                topic.publish(number)
        world.after(0.1, lambda: beat(number + 1))

    beat(0)
    return world, [main, spare], topics, received


def publishers(received: Any) -> set[str]:
    found = {message.publisher for message in received.received}
    received.received.clear()
    return found


def test_the_stronger_publisher_owns_a_topic_and_the_standby_takes_over_within_a_lease() -> None:
    world, (main, _), topics, received = standby()
    world.run(2)
    assert publishers(received) == {"main"}
    main.crash()
    died = world.time
    assert world.run_until(lambda: any(message.publisher == "spare" for message in received.received), 3)
    assert world.time - died <= 5 * 0.2 * 1.2
    world.run(1)
    received.received.clear()
    main.restart()
    topics[0] = again = main.topic("t", qos=glue.QoS(ownership="exclusive", strength=2))
    world.run(0.01)
    assert publishers(received) <= {"spare"}
    again.publish("back")
    world.run(0.05)
    received.received.clear()
    world.run(0.3)
    assert publishers(received) == {"main"}
    main.close()
    world.run(0.05)
    received.received.clear()
    world.run(0.3)
    assert publishers(received) == {"spare"}


def test_an_owner_that_misses_its_deadline_is_passed_over_until_it_publishes_again() -> None:
    world, (main, spare), _, received = standby(deadline=0.2)
    world.run(1)
    assert publishers(received) == {"main"}
    main.host.pause()
    world.run(0.5)
    received.received.clear()
    world.run(0.5)
    assert publishers(received) == {"spare"}
    main.host.resume()
    world.run(0.05)
    received.received.clear()
    world.run(0.5)
    assert publishers(received) == {"main"}
    assert spare.is_running


def test_each_topic_has_an_owner_of_its_own_also_with_history() -> None:
    world, (one, two, other), told = party("one", "two", "other")
    qos = glue.EVENT.replace(ownership="exclusive")
    for endpoint, pattern, strength in ((one, "t/#", 1), (two, "t/b", 2)):
        topic = endpoint.topic(pattern, qos=qos.replace(strength=strength))
        topic.publish(endpoint.name, "t/b")
        if pattern == "t/#":
            topic.publish(endpoint.name, "t/a")
    world.run(1)
    received = other.topic("t/#", qos=qos).subscribe()
    shared = other.topic("t/#", qos=glue.EVENT).subscribe()
    world.run(1)
    assert sorted((message.topic, message.payload) for message in received.received) == [("t/a", "one"), ("t/b", "two")]
    assert len(shared.received) == 3
    assert {mismatch.differences[0].agreed for mismatch in told["other"]} == {"shared"}
    assert not other.accounting.waiting


def test_a_shared_publisher_is_always_received() -> None:
    world, (one, two, other), _ = party("one", "two", "other")
    received = other.topic("t", qos=glue.QoS(ownership="exclusive")).subscribe()
    one.topic("t", qos=glue.QoS(ownership="exclusive", strength=9)).publish("owner")
    two.publish("t", "plain")
    world.run(1)
    assert sorted(payloads(received)) == ["owner", "plain"]


# ------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ({"reliability": "best"}, "expected one of reliable, best-effort"),
        ({"durability": "forever"}, "expected one of volatile"),
        ({"history": 5}, "expected glue.keep_last"),
        ({"deadline": 0}, "expected seconds"),
        ({"lifespan": True}, "expected seconds"),
        ({"count": 0}, "expected a whole number"),
        ({"strength": 1}, 'that is for ownership="exclusive"'),
        ({"durability": "transient", "overflow": "drop_oldest"}, "goes on from history"),
        ({"durability": "persistent", "reliability": "best-effort"}, "acknowledged"),
        ({"age": "soon"}, "expected a positive number of seconds"),
        ({"size": -1}, "expected a positive number of bytes"),
        ({"ownership": "mine"}, "expected one of shared, exclusive"),
        ({"strict": 1}, "expected True or False"),
        ({"overflow": "none"}, "expected one of block"),
    ],
)
def test_a_mistake_is_refused_with_what_is_expected(policies: dict[str, Any], words: str) -> None:
    with pytest.raises(glue.ConfigurationError, match=words):
        glue.QoS(**policies)
    with pytest.raises(glue.ConfigurationError, match=words):
        glue.QoS().replace(**policies)


def test_other_mistakes_are_refused() -> None:
    _, (one,), _ = party("one")
    wrong: Any = "EVENT"
    with pytest.raises(glue.ConfigurationError, match=r"expected a glue\.QoS"):
        one.topic("t", qos=wrong)
    with pytest.raises(glue.ConfigurationError, match=r"expected a glue\.QoS"):
        one.subscribe("t", qos=wrong)
    with pytest.raises(glue.ConfigurationError, match="there is no policy 'color'"):
        glue.EVENT.replace(color="red")
    with pytest.raises(glue.ConfigurationError, match="expected a number of messages"):
        glue.keep_last(0)
    with pytest.raises(glue.ConfigurationError, match="group"):
        one.subscribe("t", group="workers", qos=glue.QoS())
    with pytest.raises(glue.ConfigurationError, match="for a topic with a type"):
        getattr(one, "topic")("t", codec="msgpack")  # noqa: B009  # which mypy refuses
    with pytest.raises(glue.TopicError, match="does not match"):
        one.topic("t/+", qos=glue.QoS()).publish(1, "u")
