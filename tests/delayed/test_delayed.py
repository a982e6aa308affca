"""The form of messages about delayed messages, and a keeper's store on a disk that fails."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from random import Random
from typing import Any

import orjson
import pytest

from glue.contract.heads import MalformedError
from glue.contract.metadata import Metadata
from glue.delayed import store as room
from glue.delayed.store import NAME, STEP, DelayedStore
from glue.delayed.wire import NAME_LIMIT, Id, Put, ask_topic, encode_ids, encode_puts, id_of_tag, parse, tagged
from glue.simulation.disk import SimulatedDisk
from glue.topics.bundle import KEEP, MessageGroup

ME, PEER = "0123456789abcdef", "fedcba9876543210"


def put(number: int = 1, wait: int = 1000, payload: bytes = b"x", topic: str = "t") -> Put:
    group = MessageGroup(
        topic, 1, 5, [payload], len(payload), "kind", False, KEEP, 70, metadata=Metadata({"a": "b"}, 3)
    )
    return Put(Id(PEER, 7, number), "name", wait, 2, True, group)


class Alone:
    """A keeper without others, and without rules."""

    me = ME

    def __init__(self, is_there: bool) -> None:
        self.is_there = is_there

    def keepers(self, topic: str) -> list[str]:
        return [ME]

    def is_present(self, publisher: str, life: int) -> bool:
        return self.is_there

    def may_publish(self, peer: str, topic: str) -> bool:
        return True

    def may_keep(self, peer: str, topic: str) -> bool:
        return peer == ME


def store(disk: SimulatedDisk | None, is_present: bool = False, now: float = 0.0) -> DelayedStore:
    made = DelayedStore(Alone(is_present), Counter(), now)
    if disk is not None:
        made.open(disk, now, 1000.0 + now)
    return made


def give(to: DelayedStore, *puts: Put, now: float = 0.0) -> None:
    for payload in encode_puts(puts):
        to.take(now, 1000.0 + now, PEER, payload, lambda topic: True)


def test_messages_come_back_as_they_were() -> None:
    (payload,) = encode_puts([put(1), put(2, payload=bytes(300))])
    told = parse(payload)
    assert [(one.id, one.name, one.wait, one.priority, one.reliable) for one in told.puts] == [
        (Id(PEER, 7, number), "name", 1000, 2, True) for number in (1, 2)
    ]
    assert [one.group.entry() for one in told.puts] == [put(1).group.entry(), put(2, payload=bytes(300)).group.entry()]
    ids = [Id(PEER, 7, number) for number in range(1, 5001)]
    parts = [parse(one).have for one in encode_ids("have", ids)]
    assert [len(part) for part in parts] == [4096, 904]
    assert [id for part in parts for id in part] == ids
    assert len([*encode_puts(put(number, payload=bytes(200 << 10)) for number in range(3))]) == 3


@pytest.mark.parametrize(
    "head",
    [{"put": 1}, {"put": [[PEER, 7, 1, "name", 1, 2, 1]]}, {"gone": [[PEER, 7]]}, {"gone": [[PEER, -1, 1]]},
     {"have": {}}, {"want": [[PEER, 7, 0]]}, {"done": [[PEER + "0", 7, 1]]}, {"done": [[PEER, 7, 1.0]]},
     {"gone": [[PEER, 7, 1]] * 5000}],
)  # fmt: skip
def test_what_is_malformed_is_refused(head: dict[str, object]) -> None:
    with pytest.raises(MalformedError):
        parse(orjson.dumps(head) + b"\n")


def changed(place: int, value: object, topic: str = "t") -> bytes:
    """A message with another value at a place of its entry."""
    (payload,) = encode_puts([put(topic=topic)])
    line, _, group = payload.partition(b"\n")
    head = orjson.loads(line)
    head["put"][0][place] = value
    return bytes(orjson.dumps(head) + b"\n" + group)


def test_the_names_of_a_message_have_bounds() -> None:
    (told,) = parse(changed(3, "n" * NAME_LIMIT)).puts
    assert (told.name, told.reliable) == ("n" * NAME_LIMIT, True)
    assert not parse(changed(6, 0)).puts[0].reliable
    for place, wrong in ((3, "n" * (NAME_LIMIT + 1)), (3, 7), (0, PEER[1:]), (0, PEER + "0"), (0, 7)):
        with pytest.raises(MalformedError):
            parse(changed(place, wrong))
    for topic in ("a/+", "#", "", "$glue/x"):
        with pytest.raises(MalformedError):
            parse(changed(3, "name", topic))


@pytest.mark.parametrize("cut", [0, 10, 60, 100, 130])
def test_no_part_of_a_message_is_taken_for_one(cut: int) -> None:
    (payload,) = encode_puts([put()])
    with pytest.raises(MalformedError):
        parse(payload[:-1] if not cut else payload[:cut])


def test_identities_are_properties_with_bounds() -> None:
    id = Id(PEER, 7, 1)
    assert id_of_tag(id.tag) == id
    assert [id_of_tag(tag) for tag in ("", "a/1/2", f"{PEER}/x/1", f"{PEER}/1", f"{PEER}/{'1' * 30}/1")] == [None] * 5
    found = tagged(Metadata({"a": "b"}, 3), id)
    assert found == Metadata({"a": "b", "$delayed": id.tag}, 3)
    assert tagged(Metadata({str(number): "" for number in range(64)}), id) is None


def test_messages_are_released_when_due_and_survive_a_restart() -> None:
    disk = SimulatedDisk(Random(1))
    first = store(disk)
    give(first, put(1, 5000), put(2, 1000))
    turn = first.turn(0.0)
    assert [one.id.number for one in turn.held] == [1, 2]
    assert [one.id.number for one in first.turn(1.5).released] == [2]
    assert first.deadline == 5.0
    disk.crash()
    second = store(disk, now=2.0)
    assert sorted(id.number for id in second.held) == [1, 2]  # the second was not seen in the log
    assert second.size == first.size
    second.kept(2.0, Id(PEER, 7, 2))
    second.synced(2.0)
    assert second.turn(3.0).released == []
    disk.crash()
    third = store(disk, now=4.0)
    assert [id.number for id in third.held] == [1]
    assert [one.id.number for one in third.turn(5.0).released] == [1]


def test_nothing_is_released_while_the_publisher_is_there() -> None:
    here = store(None, is_present=True)
    give(here, put(1, 1000))
    assert here.turn(60.0).released == []
    assert 60.0 < here.deadline <= 61.0


def test_a_failing_disk_acknowledges_nothing_and_a_full_one_tries_again() -> None:
    disk = SimulatedDisk(Random(1))
    here = store(disk)
    disk.is_full = True
    give(here, put(1))
    turn = here.turn(0.0)
    assert turn.held == []
    assert "no room" in turn.refused[0][1]
    disk.is_full = False
    give(here, put(1), now=2.0)  # the publisher tries again
    assert [one.id.number for one in here.turn(2.0).held] == [1]
    disk.fails_to_sync = True
    give(here, put(2), now=3.0)
    assert "cannot be stored" in here.turn(3.0).refused[0][1]
    assert [one.id.number for one in here.turn(10.0).released] == [2]  # it is held all the same, in memory


def test_damage_in_the_file_is_counted_and_leaves_what_is_before_it() -> None:
    disk = SimulatedDisk(Random(1))
    here = store(disk)
    for number in range(1, 4):
        give(here, put(number))
        here.turn(0.0)
    disk.flip(NAME, (disk.size(NAME) - 30) * 8)
    again = store(disk)
    assert [id.number for id in again.held] == [1, 2]
    assert again._statistics["damaged files of delayed messages"] == 1


def test_a_keeper_tells_what_is_over_and_wants_what_it_lacks() -> None:
    here = store(None, is_present=True)
    give(here, put(1), put(2))
    here.turn(0.0)
    here.end(0.0, Id(PEER, 7, 1))
    (payload,) = encode_ids("have", [Id(PEER, 7, number) for number in (1, 2, 3)])
    here.take(1.0, 1001.0, ME, payload, lambda topic: True)
    told = [parse(payload) for _, payload in here.turn(1.0).told]
    assert [(one.gone, one.want) for one in told] == [([Id(PEER, 7, 1)], []), ([], [Id(PEER, 7, 3)])]


def test_a_keeper_asks_the_others_whether_a_message_is_over_that_its_publisher_should_have_published() -> None:
    around = Alone(is_there=True)
    around.keepers = lambda topic: [ME, "b" * 16]  # type: ignore[method-assign]
    here = DelayedStore(around, Counter(), 0.0)
    give(here, put(1, wait=1000))
    asked = [now for now in (1.0, 3.0, 6.0, 7.0, 11.0, 12.0) if here.turn(now).told]
    assert asked == [6.0, 12.0]
    here.turn(20.0)
    (payload,) = encode_ids("have", [Id(PEER, 7, 1)])
    assert here.turn(26.0).told == [(ask_topic("b" * 16), payload)]


@pytest.mark.parametrize(
    ("sender", "wait", "is_late"), [(ME, 0, True), (ME, 1, False), (PEER, 0, False), (PEER, 1, False)]
)
def test_what_another_keeper_had_to_release_before_is_asked_for_first(sender: str, wait: int, is_late: bool) -> None:
    made = store(None)
    (payload,) = encode_puts([put(wait=wait)])
    made.take(0.0, 1000.0, sender, payload, lambda topic: True)
    (held,) = made.held.values()
    assert ([one.put.id for one in made.late], held.is_direct) == ([held.put.id] * is_late, sender == PEER)


def test_the_next_keeper_waits_anew_for_a_publisher_that_was_back_in_between() -> None:
    here = store(None)
    around: Any = here._around
    around.keepers = lambda topic: [ME, PEER]
    number = next(number for number in range(1, 100) if here._rank(put(number).id, [ME, PEER]) == 1)
    give(here, put(number))
    released = []
    for now, around.is_there in ((1.0, False), (1.0 + STEP, True), (2.0, False), (2.0 + STEP, False)):
        released.append(len(here.turn(now).released))
    assert released == [0, 0, 0, 1]


def test_what_is_over_stays_over_however_often_a_keeper_begins_anew() -> None:
    disk = SimulatedDisk(Random(1))
    here = store(disk)
    give(here, put(1), put(2))
    here.turn(0.0)
    here.end(0.0, put(1).id)
    here.turn(0.1)
    for number in (3, 4):
        disk.crash()
        here = store(disk)
        give(here, put(number))
        here.turn(0.0)
    (payload,) = encode_ids("have", [put(1).id, put(2).id, put(9).id])
    here.take(0.0, 1000.0, ME, payload, lambda topic: True)
    told = [parse(payload) for _, payload in here.turn(0.0).told]
    assert [(one.gone, one.want) for one in told] == [([put(1).id], []), ([], [put(9).id])]


def test_a_message_that_is_put_off_again_and_again_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ENDED", 16)
    monkeypatch.setattr(room, "SPARE", 16)
    here = store(None, is_present=True)
    give(here, put(1, wait=60_000))
    tracemalloc.start()
    for number in range(2, 1_000):  # as of a watchdog: cancelled, and put anew
        give(here, put(number, wait=3_600_000))
        here.turn(0.0)
        here.end(0.0, put(number).id)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 100_000
    assert here.deadline == 60.0
