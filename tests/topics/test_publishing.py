"""Going down: who gets a message, in what bundles, in what order; and what is announced."""

from __future__ import annotations

from math import inf

import pytest

from glue.contract import (
    BULK,
    LARGE,
    NORMAL,
    URGENT,
    Accept,
    Downward,
    Event,
    Flow,
    Interest,
    Layer,
    Leave,
    Request,
    Subscribe,
    Unsubscribe,
    Upward,
)
from glue.contract.pieces import Pieces
from glue.errors import ConfigurationError, TopicError
from glue.topics import Topics
from glue.topics.bundle import BUNDLE_MESSAGES, BUNDLE_SIZE, decode
from glue.topics.published import PUBLISHED_TOPICS
from tests.topics.parties import (
    WALL_CLOCK,
    added,
    endpoint_id,
    flow,
    groups,
    message,
    outbounds,
    removed,
    route,
    topics,
    wants,
    wants_no_more,
)


def publisher(**interests: str) -> Topics:
    """A layer with these peers, each interested in one pattern."""
    layer = topics()
    for name, pattern in interests.items():
        layer.receive(0.0, [added(name), wants(name, pattern)])
    return layer


def test_it_is_a_layer() -> None:
    layer: Layer[Upward, Event, Request, Downward] = topics()
    assert (layer.deadline, layer.backlog, layer.fit(1400)) == (inf, 0, 1400)
    assert layer.receive(0.0, []) == ([], [])
    assert layer.send(0.0, []) == []


def test_a_message_goes_to_the_peers_whose_interest_matches() -> None:
    layer = publisher(ann="a/+", bob="#", cid="b")
    (sent,) = outbounds(layer.send(0.0, [message("a/x", b"hello")]))
    assert (sent.peers, sent.reliable, sent.expires, sent.after) == (route("ann", "bob"), True, inf, ())
    assert list(layer.subscribers("a/x")) == list(route("ann", "bob"))
    assert list(layer.subscribers("b")) == list(route("bob", "cid"))


def test_a_message_that_nobody_wants_is_counted_and_not_sent() -> None:
    layer = publisher(ann="a")
    assert layer.send(0.0, [message("b", b"1", b"2")]) == []
    assert layer.statistics["messages to nobody"] == 2


def test_interests_come_and_go() -> None:
    layer = publisher(ann="a", bob="a")
    layer.receive(0.0, [wants_no_more("ann", "a", "never")])
    assert list(layer.subscribers("a")) == list(route("bob"))
    layer.receive(0.0, [removed("bob")])
    assert list(layer.subscribers("a")) == []
    layer.receive(0.0, [added("bob", incarnation=2)])
    assert list(layer.subscribers("a")) == []


def test_news_of_a_former_life_does_not_end_the_present_one() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann", incarnation=2), wants("ann", "a"), removed("ann", incarnation=1)])
    assert list(layer.subscribers("a")) == list(route("ann"))


def test_every_message_of_a_topic_has_its_number() -> None:
    layer = publisher(ann="a", bob="b")
    layer.send(0.0, [message("a", b"1", b"2")])
    layer.send(0.0, [message("b", b"1"), message("nobody", b"1")])
    layer.receive(0.0, [wants("ann", "nobody")])
    sent = groups(layer.send(0.0, [message("a", b"3"), message("b", b"2"), message("nobody", b"2")]))
    assert {(group.topic, group.sequence) for group in sent} == {("a", 3), ("b", 2), ("nobody", 2)}


def test_a_number_is_never_used_twice_even_for_forgotten_topics() -> None:
    layer = publisher(ann="a/#", bob="a/first")
    layer.send(0.0, [message("a/first", *[b""] * 7)])
    for number in range(2 * PUBLISHED_TOPICS):
        layer.send(0.0, [message(f"t/{number}", b"")])
    assert layer.statistics["topics forgotten"] > 0
    layer.receive(0.0, [wants_no_more("bob", "a/first")])
    (sent,) = outbounds(layer.send(0.0, [message("a/first", b"")]))
    assert groups([sent])[0].sequence == 8
    assert sent.after == (flow("ann", "bob"),)


def test_what_needs_no_order_waits_for_nobody_who_is_away() -> None:
    layer = publisher(ann="a", bob="a")
    layer.send(0.0, [message("a", b"1")])
    layer.receive(0.0, [wants_no_more("bob", "a")])
    (sent,) = outbounds(layer.send(0.0, [message("a", b"2", ordered=False)]))
    assert (sent.peers, sent.after) == (route("ann"), ())
    (sent,) = outbounds(layer.send(0.0, [message("a", b"3")]))
    assert sent.after == (flow("ann", "bob"),)


def test_one_call_makes_one_bundle_for_each_set_of_peers_and_reliability() -> None:
    layer = publisher(ann="a/#", bob="b/#", cid="#")
    items = [message(f"{first}/{number}", b"x") for number in range(3) for first in "ab"]
    sent = outbounds(layer.send(0.0, [*items, message("a/0", b"y", reliable=False)]))
    assert [(s.peers, s.reliable, [g.topic for g in groups([s])]) for s in sent] == [
        (route("ann", "cid"), True, ["a/0", "a/1", "a/2"]),
        (route("bob", "cid"), True, ["b/0", "b/1", "b/2"]),
        (route("ann", "cid"), False, ["a/0"]),
    ]


def test_messages_that_differ_only_in_payload_share_a_group() -> None:
    layer = publisher(ann="#")
    payloads = [b"1", b"2", b"33", b"4"]
    sent = groups(layer.send(0.0, [message("a", payload) for payload in payloads]))
    assert [(group.topic, group.sequence, group.payloads) for group in sent] == [("a", 1, payloads)]
    assert sent[0].at == WALL_CLOCK * 1e6
    unlike = [
        message("a", b"1"),
        message("a", b"1", json=True),
        message("a", b"1", type="T"),
        message("a", b"1", lifespan=1),
    ]
    assert [group.sequence for group in groups(layer.send(0.0, [*unlike]))] == [5, 6, 7, 8]


def test_what_the_caller_handed_down_stays_as_it_was() -> None:
    layer = publisher(ann="#")
    first = message("a", b"1")
    layer.send(0.0, [first, message("a", b"2")])
    assert first.payloads == [b"1"]


def test_bundles_close_when_they_are_full() -> None:
    layer = publisher(ann="#")
    payloads = [bytes([number % 256]) * 1000 for number in range(4000)]
    sent = outbounds(layer.send(0.0, [message("a", *payloads)]))
    assert len(sent) == 4
    assert all(len(item.bodies[0]) <= BUNDLE_SIZE for item in sent)
    assert [payload for group in groups([*sent]) for payload in group.payloads] == payloads
    empty = groups(layer.send(0.0, [message("b", *[b""] * (BUNDLE_MESSAGES + 1))]))
    assert [(group.sequence, len(group.payloads)) for group in empty] == [
        (1, BUNDLE_MESSAGES),
        (BUNDLE_MESSAGES + 1, 1),
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_large_payloads_stay_where_they_are_until_their_bundle_is_cut(count: int) -> None:
    layer = publisher(ann="#")
    payloads = [bytes([number]) * 40_000 for number in range(count)]
    for _ in range(2):  # the second lone message might take the express way
        (item,) = outbounds(layer.send(0.0, [message("a", *payloads)]))
        assert isinstance(item.bodies, Pieces)
        assert [part is payload for part, payload in zip(item.bodies.parts[1:], payloads, strict=True)] == [
            True
        ] * count
        assert [group.payloads for group in decode(item.bodies[0])] == [payloads]


def test_a_message_larger_than_a_bundle_is_one_alone() -> None:
    layer = publisher(ann="#")
    large = bytes(BUNDLE_SIZE + 1)
    sent = outbounds(layer.send(0.0, [message("a", b"1", large, b"3")]))
    assert [[group.payloads for group in groups([item])] for item in sent] == [[[b"1"]], [[large]], [[b"3"]]]


def test_best_effort_bundles_fit_one_frame() -> None:
    layer = publisher(ann="#")
    layer.fit(1400)
    payloads = [*[b"x" * 100] * 30, b"y" * 3000, *[b"z"] * 10]
    sent = outbounds(layer.send(0.0, [message("a", *payloads, reliable=False)]))
    assert [len(item.bodies[0]) > 1400 for item in sent] == [False, False, False, True, False]
    assert [payload for group in groups([*sent]) for payload in group.payloads] == payloads


def test_a_bundle_lives_as_long_as_its_longest_lived_message() -> None:
    layer = publisher(ann="#")
    (sent,) = outbounds(layer.send(10.0, [message("a", b"1", lifespan=2.0), message("b", b"2", lifespan=0.0005)]))
    assert sent.expires == 12.0
    assert [group.lifespan_ms for group in groups([sent])] == [2000, 1]
    (sent,) = outbounds(layer.send(10.0, [message("a", b"1", lifespan=1e300), message("b", b"2")]))
    assert sent.expires == inf


def test_a_topic_that_changes_its_peers_does_not_overtake_itself() -> None:
    layer = publisher(ann="a")
    alone, both = flow("ann"), flow("ann", "bob")

    def after(*topics: str) -> list[tuple[Flow, tuple[Flow, ...]]]:
        sent = outbounds(layer.send(0.0, [message(topic, b"") for topic in topics]))
        return [((item.peers, item.priority), item.after) for item in sent]

    assert after("a") == [(alone, ())]
    layer.receive(0.0, [added("bob"), wants("bob", "#")])
    assert after("a") == [(both, (alone,))]
    assert after("a") == [(both, ())]
    layer.receive(0.0, [wants_no_more("ann", "a")])
    assert after("a") == [(flow("bob"), (both,))]
    layer.receive(0.0, [wants("ann", "a"), wants_no_more("bob", "#")])
    assert after("a") == [(alone, (both,))], "ann's last messages went to both, however long ago"


def test_each_class_has_bundles_of_its_own() -> None:
    layer = publisher(ann="#")
    down = layer.send(0.0, [message(f"t/{number}", b"", priority=number % 2) for number in range(6)])
    assert [(item.priority, item.after) for item in outbounds(down)] == [(0, ()), (1, ())]


def test_a_topic_that_changes_its_class_waits_for_itself_and_follows_itself_also_within_a_turn() -> None:
    layer = publisher(ann="#")
    down = layer.send(
        0.0,
        [
            message("other", b"1", priority=URGENT),
            message("t", b"2", priority=BULK),
            message("t", bytes(BUNDLE_SIZE), priority=URGENT),
            message("t", b"4", priority=BULK),
        ],
    )
    urgent, bulk = flow("ann", priority=URGENT), flow("ann", priority=BULK)
    assert [(item.priority, item.after) for item in outbounds(down)] == [
        (BULK, ()),
        (URGENT, ()),
        (URGENT, (bulk,)),
        (BULK, (urgent,)),
    ]
    assert [group.payloads[0][:1] for group in groups(down) if group.topic == "t"] == [b"2", b"\0", b"4"]


def test_a_topic_of_large_messages_stays_one_until_it_is_given_a_class() -> None:
    layer = publisher(ann="#")
    classes = NORMAL, LARGE, NORMAL, NORMAL, URGENT, NORMAL
    sent = [outbounds(layer.send(0.0, [message("t", b"", priority=priority)]))[0] for priority in classes]
    assert [item.priority for item in sent] == [NORMAL, LARGE, LARGE, LARGE, URGENT, NORMAL]


def test_best_effort_waits_for_nothing() -> None:
    layer = publisher(ann="a")
    layer.send(0.0, [message("a", b"")])
    layer.receive(0.0, [added("bob"), wants("bob", "a")])
    (sent,) = outbounds(layer.send(0.0, [message("a", b"", reliable=False)]))
    assert sent.after == ()
    (sent,) = outbounds(layer.send(0.0, [message("a", b"")]))
    assert sent.after == (flow("ann"),)


def interests(down: list[Downward]) -> list[tuple[list[str], list[str]]]:
    return [(list(item.added), list(item.removed)) for item in down if isinstance(item, Interest)]


def test_the_first_and_the_last_subscription_of_a_pattern_are_announced() -> None:
    layer = topics()
    assert interests(layer.send(0.0, [Subscribe(1, "a"), Subscribe(2, "b/#")])) == [(["a", "b/#"], [])]
    assert interests(layer.send(0.0, [Subscribe(3, "a")])) == []
    assert interests(layer.send(0.0, [Unsubscribe(1)])) == []
    assert interests(layer.send(0.0, [Unsubscribe(3), Unsubscribe(3), Unsubscribe("never")])) == [([], ["a"])]


def test_a_pattern_that_comes_and_goes_at_once_is_not_announced() -> None:
    layer = topics()
    assert interests(layer.send(0.0, [Subscribe(1, "a"), Unsubscribe(1)])) == []
    layer.send(0.0, [Subscribe(1, "a")])
    assert interests(layer.send(0.0, [Unsubscribe(1), Subscribe(2, "a")])) == []


def test_a_token_in_use_moves_to_the_new_pattern() -> None:
    layer = topics()
    layer.send(0.0, [Subscribe(1, "a")])
    assert interests(layer.send(0.0, [Subscribe(1, "b")])) == [(["b"], ["a"])]


def test_orders_pass_in_their_place() -> None:
    layer = publisher(ann="a")
    accept, leave = Accept(False), Leave()
    down = layer.send(0.0, [message("a", b"1"), accept, Subscribe(1, "x"), message("a", b"2"), leave])
    assert [type(item).__name__ for item in down] == ["Outbound", "Accept", "Interest", "Outbound", "Leave"]
    assert down[1] is accept
    assert down[4] is leave


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (message("a/#", b""), TopicError),
        (message("", b""), TopicError),
        (message("a", b"", type="x" * 256), ConfigurationError),
        (message("a", b"", lifespan=0), ConfigurationError),
        (message("a", b"", lifespan=float("nan")), ConfigurationError),
        (Subscribe(1, "a/#/b"), TopicError),
    ],
)
def test_a_wrong_item_raises_before_any_other_has_an_effect(item: Request, error: type[Exception]) -> None:
    layer = publisher(ann="#")
    with pytest.raises(error):
        layer.send(0.0, [message("a", b"1"), Subscribe(2, "x"), item])
    assert [group.sequence for group in groups(layer.send(0.0, [message("a", b"1")]))] == [1]
    assert layer.receive(0.0, []) == ([], [])


def test_asking_for_the_subscribers_of_a_pattern_raises() -> None:
    with pytest.raises(TopicError):
        topics().subscribers("a/+")


def test_what_peers_announce_is_checked_and_bounded() -> None:
    layer = publisher(ann="a")
    layer.receive(0.0, [wants("ann", "a/#/b", "", "x+", "\ud800", "b"), wants("stranger", "a")])
    assert layer.statistics["malformed interest"] == 4
    assert layer.statistics["interest of an unknown peer"] == 1
    assert list(layer.subscribers("b")) == list(route("ann"))
    deep = [f"{number}/" + "/" * 16_000 + "+" for number in range(8)]
    layer.receive(0.0, [wants("ann", *deep)])
    assert layer.statistics["interest refused: too many"] == 8 - 1
    layer.receive(0.0, [wants_no_more("ann", *deep), wants("ann", *[f"t/{number}" for number in range(10_000)])])
    assert layer.statistics["interest refused: too many"] == 8 - 1, "there is room again, also for many short ones"
    assert list(layer.subscribers("t/9999")) == [endpoint_id("ann")]
