"""The dispatcher of a group and its wire: splitting, credit, skipped messages, forged and malformed input."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pytest

from glue.contract import Acknowledge, Subscribe
from glue.topics.bundle import MessageGroup, encode
from glue.topics.shared import dispatcher as module
from glue.topics.shared import sharing
from glue.topics.shared.credit import MOST, Credit
from glue.topics.shared.dispatcher import Dispatcher
from glue.topics.shared.wire import decode_done, encode_done, interest_of, member_id, parse_interest, topic_of
from tests.topics.parties import added, deliveries, endpoint_id, groups, inbound, message, topics, wants

PEER = endpoint_id("peer")
MEMBER = member_id(PEER, 1, 1)


class Numbers:
    """Content of numbered messages of a byte each."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    @property
    def size(self) -> int:
        return len(self.numbers)

    def part(self, start: int, stop: int) -> Numbers:
        return Numbers(*self.numbers[start:stop])


def assigned(dispatcher: Dispatcher, now: float = 0.0) -> list[tuple[str, tuple[int, ...], bool]]:
    """What goes to members now; their lanes number on."""
    found = []
    for member, job in dispatcher.assign(now):
        content: Numbers = job.content
        dispatcher.sent(now, member, "lane", content.numbers[0], job)
        found.append((member, content.numbers, job.is_again))
    return found


def test_a_run_is_split_among_members_by_their_credit() -> None:
    dispatcher = Dispatcher(Counter())
    dispatcher.join("a")
    dispatcher.join("b")
    dispatcher.offer(Numbers(*range(10)), 10)
    assert assigned(dispatcher) == [
        ("a", (0, 1, 2, 3), False), ("b", (4, 5, 6), False), ("b", (7,), False),
    ]  # fmt: skip
    dispatcher.acknowledge(0.01, "a", "lane", 0, 1)
    assert assigned(dispatcher, 0.01) == [("a", (8,), False), ("a", (9,), False)]
    assert dispatcher.count == dispatcher.size == 8


def test_what_is_given_up_waits_for_nobody_any_more() -> None:
    dispatcher = Dispatcher(Counter())
    dispatcher.offer(Numbers(1, 2, 3), 3)
    assert (dispatcher.give_up(), dispatcher.count, dispatcher.size) == (3, 0, 0)
    dispatcher.join("a")
    dispatcher.offer(Numbers(4), 1)
    assert assigned(dispatcher) == [("a", (4,), False)]
    assert (dispatcher.count, dispatcher.size) == (1, 1)


def test_what_a_member_skipped_comes_again_but_not_for_ever() -> None:
    dispatcher = Dispatcher(counts := Counter[str]())
    dispatcher.join("a")
    dispatcher.offer(Numbers(1, 2, 3), 3)
    assigned(dispatcher)
    dispatcher.acknowledge(0.0, "a", "lane", 3, 3)
    for _ in range(module.SKIPS):
        assert assigned(dispatcher) == [("a", (1, 2), True)]
        dispatcher.acknowledge(0.0, "a", "lane", 3, 3)
    assert assigned(dispatcher) == []
    assert dispatcher.count == 0
    assert counts["shared messages lost: unreadable"] == 2


def test_part_of_a_job_may_be_acknowledged_and_the_rest_goes_to_others() -> None:
    dispatcher = Dispatcher(Counter())
    dispatcher.join("a")
    dispatcher.offer(Numbers(1, 2, 3, 4), 4)
    assigned(dispatcher)
    dispatcher.acknowledge(0.0, "a", "lane", 1, 2)
    dispatcher.acknowledge(0.0, "a", "other lane", 1, 9)
    dispatcher.acknowledge(0.0, "stranger", "lane", 1, 9)
    dispatcher.join("b")
    dispatcher.leave("a")
    dispatcher.leave("a")
    assert assigned(dispatcher) == [("b", (3, 4), True)]
    dispatcher.acknowledge(0.0, "b", "lane", 3, 9)
    assert dispatcher.count == 0


def test_what_a_member_had_when_it_left_comes_first_and_in_its_old_order() -> None:
    dispatcher = Dispatcher(Counter())
    dispatcher.join("a")
    for first in (1, 3, 5):
        dispatcher.offer(Numbers(first, first + 1), 2)
    assert assigned(dispatcher) == [("a", (1, 2), False), ("a", (3, 4), False)]
    dispatcher.join("b")
    dispatcher.leave("a")
    assert assigned(dispatcher) == [("b", (1, 2), True), ("b", (3, 4), True)]
    dispatcher.acknowledge(0.0, "b", "lane", 1, 4)
    assert assigned(dispatcher) == [("b", (5, 6), False)]


def test_expired_jobs_are_dropped() -> None:
    dispatcher = Dispatcher(counts := Counter[str]())
    dispatcher.offer(Numbers(1), 1, None, 5.0)
    dispatcher.offer(Numbers(2), 1, "key", 5.0)
    dispatcher.join("a")
    assert assigned(dispatcher, 6.0) == []
    assert counts["shared messages expired"] == 2
    assert dispatcher.count == 0


def test_a_job_with_a_key_that_expires_while_its_member_has_no_room_is_dropped() -> None:
    dispatcher = Dispatcher(counts := Counter[str]())
    dispatcher.join("a")
    for number in range(6):
        dispatcher.offer(Numbers(number), 1, "key", 5.0 + number)
    assert [numbers for _, numbers, _ in assigned(dispatcher)] == [(0,), (1,), (2,), (3,)]
    dispatcher.acknowledge(9.5, "a", "lane", 0, 4)
    assert [numbers for _, numbers, _ in assigned(dispatcher, 9.5)] == [(5,)]
    assert (counts["shared messages expired"], dispatcher.count, dispatcher.size) == (1, 1, 1)


def test_a_key_that_was_forgotten_gets_a_member_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEYS", 2)
    dispatcher = Dispatcher(Counter())
    dispatcher.join("a")
    for number, key in enumerate("xyzx"):
        dispatcher.offer(Numbers(number), 1, key)
    assert [numbers for _, numbers, _ in assigned(dispatcher)] == [(0,), (1,), (2,), (3,)]
    dispatcher.offer(Numbers(4, 5), 2, "x")
    dispatcher.acknowledge(0.0, "a", "lane", 0, 3)
    assert [numbers for _, numbers, _ in assigned(dispatcher)] == [(4,), (5,)]


def test_credit_follows_the_time_that_a_member_takes() -> None:
    credit = Credit()
    for _ in range(20):
        credit.learn(0.001, credit.window)
    assert credit.window == MOST
    credit.learn(0.05, MOST)
    assert credit.window == MOST
    credit.learn(1000.0, MOST)
    assert credit.window == 1
    credit.learn(1000.0, 1)
    assert credit.window == 2
    credit.use(1, 2 << 20)
    assert credit.room == 0


@pytest.mark.parametrize(
    ("there_and_back", "handling"),
    [(0.001, 0.01), (0.001, 0.3), (0.06, 0.0005), (0.3, 0.01), (0.3, 0.2), (1.0, 0.005)],
)
def test_a_member_has_enough_to_do_over_a_slow_network_and_not_too_much(there_and_back: float, handling: float) -> None:
    credit, now, free_at, busy, waited = Credit(), 0.0, 0.0, 0.0, 0.0
    sent: deque[tuple[int, float, float]] = deque()  # place of each message, when it was sent, and is acknowledged
    while now < 10.0:
        while credit.room > 0:
            credit.use(1, 1)
            begin = max(free_at, now + there_and_back / 2)
            if begin > 7.0:
                waited = max(waited, begin - now - there_and_back / 2)
                busy += handling
            free_at = begin + handling
            sent.append((credit.count, now, free_at + there_and_back / 2))
        place, since, now = sent.popleft()
        credit.release(1, 1)
        credit.learn(now - since, place)
    assert busy > 2.3, "it has little to do although messages wait"
    assert waited < 0.25 + 2 * handling + there_and_back, "it has too much"


@pytest.mark.parametrize(
    "interest",
    [
        "$glue/share/g", "$glue/share//x-1/+/a", f"$glue/share/g/{PEER}/+/a", f"$glue/share/g/{PEER}-1-x/+/a",
        f"$glue/share/g/{MEMBER}/0/a", f"$glue/share/g/{MEMBER}/+/a+", f"$glue/share/+/{MEMBER}/+/a",
        f"$glue/share/g/{PEER}-1/+/a",
        interest_of("g", member_id(endpoint_id("other"), 1, 1), "a"), f"$glue/share/g/{PEER}-12345678901234567-1/+/a",
    ],
)  # fmt: skip
def test_malformed_interests_are_counted(interest: str) -> None:
    assert parse_interest(PEER, interest) is None
    layer = topics()
    layer.receive(0.0, [added("peer"), wants("peer", interest)])
    assert layer.statistics["malformed interest"] == 1
    assert groups(layer.send(0.0, [message("a", b"1")])) == []


@pytest.mark.parametrize(
    "payload",
    [b"", b"{}", b"[1]", b'[["a",1]]', b'[["a","1",1]]', b'[["a",0,1]]', b'[["a",2,1]]', b'[["a",1,1125899906842625]]',
     b"[" + b",".join([b'["a",1,1]'] * 4097) + b"]", b'[["$glue/share/g",1,1]]',
     encode_done([(topic_of("g", member_id("0" * 16, 1, 1), False, "a"), 1, 1)])[0]],
)  # fmt: skip
def test_malformed_acknowledgements_are_counted(payload: bytes) -> None:
    layer = topics()
    layer.receive(0.0, [added("peer"), wants("peer", interest_of("g", MEMBER, "a"))])
    (sent,) = groups(layer.send(0.0, [message("a", b"1")]))
    assert (sent.topic, sent.payloads) == (topic_of("g", MEMBER, False, "a"), [b"1"])
    done = encode([MessageGroup("$glue/done/" + endpoint_id("self"), 1, 0, [payload], len(payload))])
    layer.receive(0.0, [inbound("peer", done)])
    assert layer.statistics["malformed acknowledgement of shared messages"] == 1
    assert layer.unfinished == 1


def test_groups_and_members_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "GROUPS", 1)
    monkeypatch.setattr(sharing, "MEMBERS", 2)
    layer = topics()
    interests = [interest_of("g", member_id(PEER, 1, number), "a") for number in (1, 2, 3)]
    layer.receive(0.0, [added("peer"), wants("peer", interests[0], interest_of("h", MEMBER, "a"), *interests[1:])])
    assert layer.statistics["members of groups refused: too many"] == 2


def test_a_member_acknowledges_to_the_publisher_alone() -> None:
    layer = topics()
    own = member_id(endpoint_id("self"), 1, 1)
    layer.receive(0.0, [added("peer"), added("other")])
    layer.send(0.0, [Subscribe("token", interest_of("g", own, "a/#"))])
    bundle = encode([MessageGroup(topic_of("g", own, True, "a/b"), 7, 0, [b"x", b"y"], 1)])
    up, _ = layer.receive(0.0, [inbound("peer", bundle)])
    (delivery,) = deliveries(up)
    assert (delivery.topic, delivery.wrapped) == ("a/b", topic_of("g", own, True, "a/b"))
    done: list[Any] = [Acknowledge(delivery.wrapped, PEER, number, number) for number in (7, 8)]
    down: list[Any] = layer.send(0.0, done)
    (item,) = [one for one in down if hasattr(one, "peers")]
    assert item.peers == (PEER,)
    (answer,) = groups(down)
    assert answer.topic == "$glue/done/" + PEER
    assert decode_done(answer.payloads[0]) == [(delivery.wrapped, 7, 8)]
