"""Delayed messages: every limit of what travels and of what a keeper holds, at its value and one beyond."""

from __future__ import annotations

from collections import Counter, OrderedDict
from hashlib import blake2s
from random import Random
from typing import Any

import orjson
import pytest

from glue.contract.heads import MalformedError
from glue.contract.metadata import PROPERTIES, PROPERTIES_SIZE, Metadata
from glue.delayed.store import NAME, DelayedStore
from glue.delayed.wire import Id, Put, ask_topic, encode_ids, encode_puts, id_of_tag, parse, tagged
from glue.simulation.disk import SimulatedDisk
from glue.storage.journal import Journal
from glue.topics.bundle import KEEP, MessageGroup
from tests.delayed.test_delayed import ME, PEER, Alone, changed, give, put, store
from tests.support.bounds import Limit, check_limit

GREATEST = (1 << 53) - 1
OTHER = "b" * 16


def ids(*entry: Any, kind: str = "gone") -> list[Id]:
    """The identities in a message with this one."""
    found: list[Id] = getattr(parse(orjson.dumps({kind: [[*entry]]}) + b"\n"), kind)
    return found


def padded(size: int) -> Any:
    """A message with a JSON object of so many bytes."""
    return parse(b'{"x":"' + b"x" * (size - 8) + b'"}\n')


def message(payloads: int = 1, topic: str = "t") -> Any:
    """A message that is put, with so many payloads."""
    group = MessageGroup(topic, 1, 0, [b"x"] * payloads, 1)
    (payload,) = encode_puts([Put(Id(PEER, 7, 1), "name", 0, 2, True, group)])
    return parse(payload)


LIMITS: list[Limit] = [
    ("publisher", lambda id: ids(id, 7, 1), [PEER], [PEER[1:], PEER + "0", "", 7, None]),
    ("integer", lambda life: ids(PEER, life, 1), [0, GREATEST], [-1, GREATEST + 1, True, 1.0]),
    ("integer", lambda number: ids(PEER, 7, number), [1, GREATEST], [0, GREATEST + 1, "1"]),
    ("row", lambda width: ids(*[PEER, 7, 1, 1][:width], kind="want"), [3], [0, 2, 4]),
    ("rows", lambda count: parse(orjson.dumps({"have": [[PEER, 7, 1]] * count}) + b"\n"), [0, 4096], [4097]),
    ("rows", lambda value: parse(orjson.dumps({"done": value}) + b"\n"), [[]], [{}, "x", None]),
    ("no line feed", padded, [9, (1 << 20) - 1], [1 << 20]),
    ("no line feed", parse, [b"{}\n"], [b"", b"{}"]),
    ("not JSON", parse, [], [b"\n", b"{\n"]),
    ("no bundle", parse, [], [b"{}\nx"]),
    ("no object", parse, [], [b"[]\n"]),
    ("a JSON document", parse, [], ["{}\n", None, {}]),
    ("as many messages as entries", parse, [], [b'{"put":[["%b",7,1,"n",0,2,1]]}\n' % PEER.encode()]),
    ("integer", lambda wait: parse(changed(4, wait)), [0, 10**13], [-1, 10**13 + 1, 1.0]),
    ("integer", lambda priority: parse(changed(5, priority)), [0, 4], [-1, 5]),
    ("integer", lambda reliable: parse(changed(6, reliable)), [0, 1], [-1, 2, True]),
    ("name", lambda name: parse(changed(3, name)), ["", "n" * 65_535], ["n" * 65_536, 7]),
    ("message", lambda count: message(count), [1], [2]),
    ("message", lambda topic: message(topic=topic), ["$glu/x"], ["$glue/x"]),
    ("no bundle", lambda topic: message(topic=topic), ["a/b"], ["a/+", ""]),
]


@pytest.mark.parametrize("limit", LIMITS)
def test_what_keeps_the_limits_is_taken_and_what_is_beyond_is_malformed(limit: Limit) -> None:
    check_limit(limit, MalformedError)


def sized(size: int, number: int = 1) -> Put:
    """A message of so many bytes."""
    return Put(Id(PEER, 7, number), "name", 1000, 2, True, MessageGroup("t", 1, 0, [bytes(size)], size))


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [([1] * 257, [256, 1]), ([1] * 256, [256]), ([128 << 10] * 3, [2, 1]), ([(128 << 10) + 1, 128 << 10], [1, 1]),
     ([300 << 10, 1], [1, 1]), ([], []), ([128 << 10, 127 << 10, 1 << 10, 1], [3, 1])],
)  # fmt: skip
def test_256_messages_or_256_kilobytes_are_put_at_once(sizes: list[int], parts: list[int]) -> None:
    payloads = [*encode_puts(sized(size, number) for number, size in enumerate(sizes, 1))]
    assert [len(parse(payload).puts) for payload in payloads] == parts
    assert [one.id.number for payload in payloads for one in parse(payload).puts] == [*range(1, len(sizes) + 1)]


def test_ids_travel_4096_at_once_and_properties_count_as_bytes() -> None:
    for count, parts in ((0, []), (1, [1]), (4096, [4096]), (4097, [4096, 1])):
        found = [parse(one).done for one in encode_ids("done", [Id(PEER, 7, number + 1) for number in range(count)])]
        assert [len(part) for part in found] == parts
    plain, marked = sized(10), put(payload=bytes(10))
    assert plain.size == 10
    assert marked.size == 10 + Metadata({"a": "b"}, 3).size > 10


@pytest.mark.parametrize(
    ("tag", "found"),
    [(f"{PEER}/7/1", Id(PEER, 7, 1)), (f"{PEER}/{'9' * 19}/1", Id(PEER, int("9" * 19), 1)),
     (f"{PEER}/{'9' * 20}/1", None),
     (f"{PEER}/1/{'9' * 20}", None), (f"{PEER}0/7/1", None), (f"{PEER[1:]}/7/1", None), (f"{PEER}/٣/1", None),
     (f"{PEER}/1/-1", None), (f"{PEER}/1/1/1", None), (PEER, None)],
)  # fmt: skip
def test_the_identity_of_a_message_is_read_of_its_property(tag: str, found: Id | None) -> None:
    assert id_of_tag(tag) == found


def test_a_tag_needs_room_among_the_properties() -> None:
    id = Id(PEER, 7, 1)
    assert tagged(None, id) == Metadata({"$delayed": f"{PEER}/7/1"}, None)
    full = {f"{number:02}": "" for number in range(PROPERTIES - 1)}
    assert tagged(Metadata(full), id) is not None
    assert tagged(Metadata({**full, "x": ""}), id) is None
    rest = PROPERTIES_SIZE - Metadata({"$delayed": id.tag, "x": ""}).size
    assert tagged(Metadata({"x": "y" * rest}), id) is not None
    assert tagged(Metadata({"x": "y" * (rest + 1)}), id) is None


def test_a_keeper_holds_65536_messages_and_64_megabytes_at_most() -> None:
    for taken, size, more in ((65_535, 0, 2), (1, (64 << 20) - 20, 3)):
        here = store(None)
        here.held = dict.fromkeys(range(taken))  # type: ignore[assignment, arg-type]  # others
        here.size = size
        puts = [sized(10, number) for number in range(1, more + 1)]
        give(here, *puts)
        turn = here.turn(0.0)
        assert len(here.held) == taken + more - 1
        ((refused, why),) = turn.refused
        assert refused.id == puts[-1].id
        assert why == f"{len(here.held)} delayed messages of {here.size} bytes wait there already"
        assert here._statistics == {
            "delayed messages refused: too many": 1,
            "delayed messages released for their publishers": 0,
        }


def test_65536_ends_are_remembered() -> None:
    here = store(None)
    here._ended = OrderedDict.fromkeys([put(1).id, put(2).id, *range(65_533)])  # others
    for number, forgotten in ((3, []), (4, [1]), (5, [1, 2])):
        here.kept(0.0, put(number).id)
        give(here, put(1), put(2), put(3))
        assert [id.number for id in here.held] == forgotten


class Others(Alone):
    """A keeper with another one, whose rights and neighbours a test sets."""

    def __init__(self, is_there: bool = False) -> None:
        super().__init__(is_there)
        self.of_topic = [ME, OTHER]
        self.may: set[tuple[str, str]] = set()

    def keepers(self, topic: str) -> list[str]:
        return self.of_topic

    def may_publish(self, peer: str, topic: str) -> bool:
        return ("publish", peer) in self.may

    def may_keep(self, peer: str, topic: str) -> bool:
        return ("keep", peer) in self.may


def test_who_may_neither_publish_nor_keep_puts_nothing() -> None:
    around = Others()
    here = DelayedStore(around, Counter(), 0.0)
    for peer, right, is_taken in (
        (PEER, "keep", False),
        (PEER, "publish", True),
        (OTHER, "publish", False),
        (OTHER, "keep", True),
    ):
        here.held.clear()
        here._statistics.clear()
        around.may = {(right, peer)}
        (payload,) = encode_puts([put()])
        here.take(0.0, 1000.0, peer, payload, lambda topic: True)
        assert bool(here.held) is is_taken
        assert here._statistics["delayed messages refused: no right"] == (not is_taken)


def test_only_the_publisher_or_a_keeper_ends_a_message() -> None:
    around = Others()
    around.may = {("publish", PEER), ("keep", OTHER)}
    for peer, is_held, knows, ends in (
        (PEER, True, False, True), (OTHER, True, False, True), ("c" * 16, True, True, False),
        (PEER, False, False, True), ("c" * 16, False, True, True), ("c" * 16, False, False, False),
    ):  # fmt: skip
        here = DelayedStore(around, Counter(), 0.0)
        if is_held:
            give(here, put())
        if knows:
            here.placed(["c" * 16])
        here.turn(0.0)
        (payload,) = encode_ids("gone", [put().id])
        here.take(0.0, 1000.0, peer, payload, lambda topic: True)
        give(here, put())
        assert (put().id not in here.held) is ends, (peer, is_held, knows)


def test_the_first_keeper_releases_and_the_next_three_tenths_later() -> None:
    around = Others()
    around.may = {("publish", PEER)}
    for of_topic, at in (([ME], 1.0), ([ME, OTHER], None), ([OTHER, "c" * 16], None)):
        around.of_topic = of_topic
        here = DelayedStore(around, Counter(), 0.0)
        give(here, put(1, wait=1000))
        now, released = 1.0, None
        while released is None and now < 9.0:
            if here.turn(now).released:
                released = now
            else:
                now = here.deadline
        tag = put().id.tag
        ranks = sorted(of_topic, key=lambda keeper: blake2s(f"{keeper}/{tag}".encode(), digest_size=8).digest())
        rank = ranks.index(ME) if ME in of_topic else len(of_topic)
        expected = 1.0 + 0.3 * rank if ME in of_topic else 1.5 + 0.3 * rank
        assert at is None or released == at
        assert released == pytest.approx(expected)
        assert (put().id in here.held) is (ME in of_topic), "who does not keep the topic will not find it in the log"


def test_what_the_publisher_published_is_released_only_if_it_does_not_come_within_three_seconds() -> None:
    here = store(None, is_present=True)
    give(here, put(1, wait=1000), put(2, wait=1000))
    (payload,) = encode_ids("done", [put(1).id, put(2).id])
    here.take(1.0, 1001.0, "c" * 16, payload, lambda topic: True)
    assert here.turn(1.0).released == [], "another one cannot say so"
    here.take(1.0, 1001.0, PEER, payload, lambda topic: True)
    here.take(2.0, 1002.0, PEER, payload, lambda topic: True)
    here.kept(3.0, put(2).id)
    assert here.turn(3.99).released == []
    assert [one.id.number for one in here.turn(4.0).released] == [1]
    assert here._statistics["delayed messages released for their publishers"] == 1
    assert here.turn(9.0).released == []


def test_another_that_says_that_a_message_was_published_changes_nothing() -> None:
    here = store(None)
    give(here, put(1, wait=1000), put(2, wait=60_000))
    (payload,) = encode_ids("done", [put(1).id, put(2).id])
    here.take(0.5, 1000.5, "c" * 16, payload, lambda topic: True)
    assert [one.id.number for one in here.turn(1.0).released] == [1]
    assert here.turn(59.9).released == []
    assert [one.id.number for one in here.turn(60.0).released] == [2]


def test_an_absent_publisher_is_waited_for_from_when_it_is_missed_and_not_before_all_are_known() -> None:
    around = Alone(is_there=False)
    here = DelayedStore(around, Counter(), 5.0)
    give(here, put(1, wait=1000))
    assert [one.id.number for one in here.turn(1.0).released] == [1], "it came from the publisher itself"
    other = DelayedStore(around, Counter(), 5.0)
    (payload,) = encode_puts([put(1, wait=1000)])
    other.take(0.0, 1000.0, ME, payload, lambda topic: True)
    assert other.turn(4.9).released == []
    assert other.deadline == 5.0
    assert [one.id.number for one in other.turn(5.0).released] == [1]
    third = DelayedStore(around, Counter(), 0.0)
    give(third, put(1, wait=1000))
    around.is_there = True
    assert third.turn(1.0).released == []
    assert third.deadline == 1.5
    around.is_there = False
    assert [one.id.number for one in third.turn(1.5).released] == [1]


def test_4096_absent_publishers_are_remembered_that_have_no_message() -> None:
    here = store(None)
    here._absent = {(str(number), 1): 0.0 for number in range(4096)}
    give(here, put(1, wait=1000))
    here.turn(1.0)
    assert len(here._absent) == 4097
    give(here, put(2, wait=1000), now=2.0)
    here.turn(3.0)
    assert [*here._absent] == [(PEER, 7)]


def test_new_keepers_are_told_what_is_held_and_get_what_they_want() -> None:
    here = store(None)
    give(here, put(1, wait=5000), put(2, wait=7000))
    here.turn(0.0)
    here.placed([OTHER])
    here.placed([OTHER])
    assert here.deadline < 0.0, "it has something to tell"
    assert [(topic, parse(payload).have) for topic, payload in here.turn(0.0).told] == [
        (ask_topic(OTHER), [put(1).id, put(2).id])
    ]
    (payload,) = encode_ids("want", [put(2).id, put(9).id])
    here.take(1.5, 1001.5, OTHER, payload, lambda topic: True)
    ((topic, payload),) = here.turn(1.5).told
    assert topic == ask_topic(OTHER)
    (told,) = parse(payload).puts
    assert (told.id, told.wait, told.group.retain) == (put(2).id, 5500, KEEP)
    (payload,) = encode_ids("want", [put(1).id])
    here.take(6.0, 1006.0, OTHER, payload, lambda topic: True)
    assert [parse(payload).puts[0].wait for _, payload in here.turn(1.5).told] == [0], "it is late"
    here.end(1.5, put(1).id)
    give(here, put(1))
    assert [(topic, parse(payload).gone) for topic, payload in here.turn(1.5).told] == [(ask_topic(PEER), [put(1).id])]
    here.placed([])
    here.placed([OTHER])
    assert len(here.turn(2.0).told) == 1, "it came anew"
    assert here.turn(2.0).told == []


def test_what_is_not_kept_in_this_place_is_not_taken_and_what_is_malformed_is_counted() -> None:
    here = store(None)
    (payload,) = encode_puts([put(1, topic="t"), put(2, topic="u")])
    here.take(0.0, 1000.0, PEER, payload, lambda topic: topic == "u")
    assert [id.number for id in here.held] == [2]
    here.take(0.0, 1000.0, PEER, b"x", lambda topic: True)
    assert here._statistics == {"malformed messages about delayed messages": 1}


def test_the_end_of_a_message_is_on_disk_soon_and_a_full_disk_is_tried_again_after_a_second() -> None:
    disk = SimulatedDisk(Random(1))
    here = store(disk)
    assert here.deadline > 1e9
    give(here, put(1), put(2), put(3))
    assert here.deadline < 0.0, "the publisher waits"
    assert len(here.turn(0.0).held) == 3
    assert here.deadline == 1.0
    here.end(0.5, put(1).id)
    assert here.deadline == 0.55
    here.end(0.52, put(2).id)
    assert here.deadline == 0.55, "the first one counts"
    here.end(0.52, put(2).id)
    here.turn(0.55)
    disk.crash()
    assert [id.number for id in store(disk).held] == [3]
    here = store(disk)
    disk.is_full = True
    give(here, put(4), now=0.2)
    assert [why for _, why in here.turn(0.2).refused]
    assert here.deadline == 1.0, "message 3 is due"
    give(here, put(5), now=0.3)
    assert [(one.id.number, why) for one, why in here.turn(0.3).refused] == [(5, "no room on the disk")]
    here.turn(1.0)
    assert here.deadline == 1.2
    disk.is_full = False
    assert here.turn(1.2).refused == []
    disk.crash()
    assert sorted(id.number for id in store(disk).held) == [3, 4, 5]


def test_closing_stores_what_waits_even_after_a_full_disk() -> None:
    disk = SimulatedDisk(Random(1))
    here = store(disk)
    disk.is_full = True
    give(here, put(1))
    here.turn(0.0)
    disk.is_full = False
    here.close(0.1)
    disk.crash()
    assert [id.number for id in store(disk).held] == [1]


def test_a_file_tells_what_is_held_what_is_late_and_that_it_is_damaged() -> None:
    disk = SimulatedDisk(Random(1))
    here = store(disk)
    assert (here.size, here._statistics) == (0, {})
    give(here, put(1, wait=1000), put(2, wait=9000))
    here.turn(0.0)
    for now, late, due in ((0.5, [], 1.0), (1.0, [1], 1.0), (4.0, [1], 4.0)):
        disk.crash()
        here = store(disk, now=now)
        assert [held.put.id.number for held in here.late] == late
        assert [held.due for held in here.held.values()] == [due, 9.0]
        assert (here.size, here._statistics) == (put(1).size + put(2).size, {})
    stored = encode_puts([put(1, wait=1_001_000), put(2, wait=1_009_000)])
    entries = [*stored, b"x", *encode_ids("gone", [put(1).id])]
    journal = Journal(disk, NAME, lambda: iter(entries))
    journal.load()
    journal.replace()
    here = store(disk)
    assert [id.number for id in here.held] == [1, 2], "what follows the damage is not read"
    assert here._statistics == {"damaged files of delayed messages": 1}
    give(here, put(3))
    here.turn(0.0)
    disk.crash()
    here = store(disk)
    assert ([id.number for id in here.held], here._statistics) == ([1, 2, 3], {}), "it was written anew"
    for number in (1, 2, 3):
        here.end(0.0, put(number).id)
    assert here.size == 0
