"""Delayed messages at their publisher, and the part of a keeper that gives them time, topics and a log."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.contract import Options, Publication
from glue.contract.metadata import PROPERTIES, Metadata
from glue.delayed.wire import Id, Put, Told, encode_ids, encode_puts, parse
from glue.endpoint import delays as module
from glue.endpoint.delaying import CLOCKS, SETTLE, DelayedRunner
from glue.endpoint.delays import Delayed, Delays, seconds_of
from glue.endpoint.message import MESSAGE_COST
from glue.endpoint.receipt import Receipt
from glue.simulation.disk import SimulatedDisk
from glue.storage import FileLog, MemoryLog, Record
from glue.topics.bundle import KEEP, LIVE, MessageGroup

ME, YOU, OTHER = "0" * 16, "1" * 16, "2" * 16


class Around:
    """What delayed messages need of an endpoint: its clocks, its rules, the keepers that it knows, and its turns."""

    def __init__(self) -> None:
        self.now = 10.0
        self.statistics: Counter[str] = Counter()
        self.identity = SimpleNamespace(endpoint_id=ME, incarnation=7, name="me")
        self.requests = SimpleNamespace(clock=lambda: self.now, unix_time=lambda: 1000.0 + self.now)
        self.settings = SimpleNamespace(announce_interval=2.0, lease_intervals=3)
        self.peers = {YOU: SimpleNamespace(incarnation=3)}
        self.guard: Any = None
        self.at: dict[str, list[str]] = {}
        self.durability = SimpleNamespace(
            holders=lambda topic: self.at.get(topic, []), known=lambda: [ME, YOU], on_placed=[]
        )
        self.ordered: list[Any] = []
        self.outbox = SimpleNamespace(order=self.ordered.append)


# ------------------------------------------------------------------------------------------------- at the publisher


class Sender(Around):
    """An endpoint with delayed messages, and what it orders."""

    def __init__(self) -> None:
        super().__init__()
        core: Any = self
        self.delays = Delays(self.ordered.append, core)

    def add(self, seconds: float = 5.0, payload: bytes = b"abc", topic: str = "t", **options: Any) -> Delayed:
        publication = Publication(topic, [payload], 1010.0, False, len(payload), 1, Options(**options))
        return self.delays.add(publication, seconds, self.now, None)

    def told(self, found: Any = None) -> list[tuple[str, Told]]:
        """What was ordered, or what is published in a turn, for keepers."""
        some = [*self.ordered] if found is None else found
        self.ordered.clear()
        told = [one for one in some if isinstance(one, Publication) and one.topic.startswith("$glue/delayed/")]
        for one in told:
            assert (one.json, one.length, one.published_at) == (False, len(one.payloads[0]), 1000.0 + self.now)
        return [(one.topic.removeprefix("$glue/delayed/"), parse(one.payloads[0])) for one in told]


def test_a_message_is_published_at_its_time_and_once() -> None:
    sender = Sender()
    first, second = sender.add(), sender.add(0.0)
    assert [(one.token, one.due) for one in sender.ordered] == [(first, 15.0), (second, 10.0)]
    assert (first.topic, first.receipt, first.waiting, repr(first)) == ("t", None, True, "<Delayed 't' waiting>")
    (published,) = first.rung(15.0)
    assert (published.topic, published.payloads, published.published_at) == ("t", [b"abc"], 1015.0)
    assert (first.waiting, first.rung(15.0), first.cancel(), repr(first)) == (False, (), False, "<Delayed 't'>")
    sender.ordered.clear()
    assert (second.cancel(), second.cancel(), second.rung(16.0)) == (True, False, ())
    (taken_back,) = sender.ordered
    assert (taken_back.token, taken_back.due) == (second, inf)


def test_so_many_messages_and_bytes_wait_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (module.DELAYED, module.DELAYED_SIZE, module.LONGEST, module.ENDED) == (65_536, 64 << 20, 10**9, 16_384)
    monkeypatch.setattr(module, "DELAYED", 3)
    monkeypatch.setattr(module, "DELAYED_SIZE", 3 * (3 + MESSAGE_COST) + 1)
    sender = Sender()
    first, second, _ = (sender.add() for _ in range(3))
    with pytest.raises(glue.WouldBlockError) as caught:
        sender.add()
    size = 3 * (3 + MESSAGE_COST)
    assert str(caught.value) == (
        f"3 delayed messages of {size} bytes wait; the limits are 3 messages and {size + 1} bytes"
    )
    first.rung(15.0)
    with pytest.raises(glue.WouldBlockError, match=rf"^2 delayed messages of {2 * size // 3} bytes wait; "):
        sender.add(payload=b"abcde")
    assert second.cancel()
    sender.add(payload=b"abcd")
    with pytest.raises(glue.WouldBlockError):
        sender.add(payload=b"abcd")
    sender.add()


def test_keepers_hold_a_message_as_it_will_be_published() -> None:
    sender = Sender()
    sender.at["t"] = [YOU, OTHER]
    metadata = Metadata({"p": "q"}, "packed")
    sender.add(4.9999, type="kind", retain=True, lifespan=1.5, reliable=False, ordered=False, metadata=metadata)
    told = sender.told()
    assert [keeper for keeper, _ in told] == [YOU, OTHER]
    for _, one in told:
        (put,) = one.puts
        assert (put.id, put.name, put.wait, put.priority, put.reliable) == (Id(ME, 7, 1), "me", 5000, 1, False)
        group = put.group
        assert (group.topic, group.payloads, group.type, group.retain) == ("t", [b"abc"], "kind", KEEP)
        assert (group.at, group.lifespan_ms, group.ordered, group.json) == (1_014_999_900, 1500, False, False)
        assert group.metadata is not None
        assert (group.metadata.codec, group.metadata.properties) == (
            "packed", {"p": "q", "$delayed": f"{ME}/7/1"},
        )  # fmt: skip
    sender.add(topic="u")
    assert sender.told() == []
    sender.at["v"] = [YOU]
    sender.add(1.0, topic="v")
    ((_, one),) = sender.told()
    (put,) = one.puts
    assert (put.id.number, put.wait, put.reliable) == (3, 1000, True)
    assert (put.group.retain, put.group.lifespan_ms, put.group.ordered, put.group.type) == (LIVE, None, True, None)


def test_a_keeper_that_comes_gets_what_waits_and_learns_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDED", 2)
    sender = Sender()
    sender.at["t"] = [YOU]
    waiting, cancelled, published, late = (sender.add() for _ in range(4))
    sender.told()
    assert cancelled.cancel()
    assert sender.told() == [(YOU, Told([], [], [Id(ME, 7, 2)], [], []))]
    (message, *done) = published.rung(15.0)
    assert message.topic == "t"
    metadata = message.options.metadata  # by which receivers know a second copy, of a keeper
    assert metadata is not None
    assert metadata.properties == {"$delayed": f"{ME}/7/3"}
    assert sender.told(done) == [(YOU, Told([], [Id(ME, 7, 3)], [], [], []))]
    (tell,) = sender.durability.on_placed
    tell(True)
    (alarm,) = sender.ordered
    assert (alarm.token, alarm.due) == (sender.delays, 0.0)
    sender.at["t"] = [YOU, OTHER]
    told = sender.told(sender.delays.rung(12.0))
    assert [(keeper, [(put.id.number, put.wait) for put in one.puts]) for keeper, one in told if one.puts] == [
        (OTHER, [(1, 3000), (4, 3000)])
    ]
    over = [(keeper, [id.number for id in one.gone], [id.number for id in one.done]) for keeper, one in told]
    assert sorted(one for one in over if one[1] or one[2]) == [
        (YOU, [], [3]), (YOU, [2], []), (OTHER, [], [3]), (OTHER, [2], []),
    ]  # fmt: skip
    sender.at["t"] = [OTHER]
    sender.delays.rung(13.0)
    sender.ordered.clear()
    assert late.cancel()
    assert [keeper for keeper, _ in sender.told()] == [YOU, OTHER]  # YOU had it, too
    told = sender.told(sender.delays.rung(14.0))
    assert sorted(id.number for _, one in told for id in [*one.done, *one.gone]) == [3, 4]  # the oldest was forgotten
    sender.at["t"] = [YOU, OTHER]
    told = sender.told(sender.delays.rung(20.0))
    assert [(keeper, put.wait) for keeper, one in told for put in one.puts] == [(YOU, 0)]  # it is due, and came back
    assert waiting.waiting


def test_what_no_keeper_may_read_or_has_no_room_for_its_identity_waits_here_alone() -> None:
    sender = Sender()
    sender.at["t"] = sender.at["sealed"] = [YOU]
    marks = {"t": (False, False), "sealed": (False, True)}
    sender.guard = SimpleNamespace(rules=SimpleNamespace(marks_of=marks.__getitem__))
    sealed = sender.add(topic="sealed")
    sender.add(metadata=Metadata({str(number): "" for number in range(PROPERTIES)}, None))
    assert sender.told() == []
    assert sender.statistics == {"delayed messages not handed to keepers": 2}
    sender.add()
    assert len(sender.told()) == 1
    assert sealed.rung(15.0)[0].options.metadata is None


def test_with_a_receipt_keepers_count_as_the_publisher_does() -> None:
    sender = Sender()
    sender.at["t"] = [YOU]
    expectation: Any = SimpleNamespace(first=5, reason="", keepers={}, is_durable=False, is_over=False, count=1)
    receipt = Receipt(expectation)
    delayed = sender.delays.add(Publication("t", [b"abc"], 1010.0), 5.0, 10.0, receipt)
    assert delayed.receipt is receipt
    assert [put.id.number for _, one in sender.told() for put in one.puts] == [5]


@pytest.mark.parametrize(
    ("delay", "deliver_at", "seconds"),
    [(None, None, 0.0), (0, None, 0.0), (2.5, None, 2.5), (10**9, None, 10**9), (None, 100.5, 0.5), (None, 99.0, 0.0),
     (None, 100 + 10**9, 10**9)],
)  # fmt: skip
def test_a_delay_is_in_seconds_or_until_a_time_of_the_wall_clock(delay: Any, deliver_at: Any, seconds: float) -> None:
    assert seconds_of(delay, deliver_at, 100.0) == seconds


@pytest.mark.parametrize(
    ("delay", "deliver_at", "words"),
    [
        (1.0, 2.0, "delay and deliver_at: give only one of them"),
        (True, None, "delay=True: expected a number of seconds"),
        (None, "1", "deliver_at='1': expected a number of seconds"),
        (inf, None, "delay=inf: expected a number of seconds"),
        (-0.1, None, "-0.1 seconds of delay: expected 0 to 1000000000"),
        (10**9 + 1, None, "1000000001 seconds of delay: expected 0 to 1000000000"),
    ],
)
def test_another_delay_is_refused(delay: Any, deliver_at: Any, words: str) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        seconds_of(delay, deliver_at, 100.0)
    assert str(caught.value) == words


# ---------------------------------------------------------------------------------------------------- at a keeper


class Holder(Around):
    """A keeper's runner, with what it publishes and acknowledges."""

    def __init__(self, log: Any = None) -> None:
        super().__init__()
        self.at["t"] = [ME]
        self.published: list[Publication] = []
        self.acknowledged: list[Any] = []
        core: Any = self
        self.log: Any = log or MemoryLog("0" * 16, 1 << 20)

        def tell(*told: Any) -> None:
            self.acknowledged.append(told)

        self.runner = DelayedRunner(core, self.log, lambda topic: topic == "t", self.published.extend, tell)

    def give(self, *payloads: Any, peer: str = YOU) -> None:
        self.runner.take_all(peer, [one for some in payloads for one in some])


def put(number: int = 1, wait: int = 5000, topic: str = "t", at: float = 1015.0, **fields: Any) -> Put:
    given = {"type": "kind", "retain": KEEP, "lifespan_ms": 1500, "ordered": False, **fields}
    group = MessageGroup(
        topic, 1, int(at * 1e6), [b"abc"], 3, given["type"], False, given["retain"], given["lifespan_ms"], 0,
        given["ordered"], Metadata({"$delayed": f"{YOU}/3/{number}"}, 5),
    )  # fmt: skip
    return Put(Id(YOU, 3, number), "you", wait, 1, False, group)


def test_a_keeper_asks_its_endpoint_who_is_there_and_who_may_what() -> None:
    holder = Holder()
    runner = holder.runner
    assert (runner.me, runner.keepers("t"), runner.keepers("u")) == (ME, [ME], [])
    for publisher, life, is_there in (
        (ME, 7, True),
        (ME, 3, False),
        (YOU, 3, True),
        (YOU, 4, False),
        (OTHER, 3, False),
    ):
        assert runner.is_present(publisher, life) is is_there
    assert [runner.may_keep(peer, "t") for peer in (ME, YOU)] == [True, False]
    assert runner.may_publish(YOU, "t")
    for own, said, peer, expected in (
        (True, True, YOU, True), (False, True, YOU, False), (True, False, YOU, False), (True, False, ME, True),
        (False, False, ME, False),
    ):  # fmt: skip
        decided = SimpleNamespace(allowed=own)
        holder.guard = SimpleNamespace(
            decide_own=lambda verb, topic, decided=decided: decided if (verb, topic) == ("publish", "t") else None,
            lets_say=lambda peer, topic, said=said: (peer, topic) == (YOU, "t") and said,
        )
        assert runner.may_publish(peer, "t") is expected


def test_a_keeper_releases_what_a_lost_publisher_left_as_it_was_given() -> None:
    holder = Holder()
    holder.give(encode_puts([put(), put(2, type=None, retain=LIVE, lifespan_ms=None, ordered=True), put(3, topic="u")]))
    assert (holder.published, holder.acknowledged, holder.runner.deadline) == ([], [], 15.0)
    del holder.peers[YOU]
    holder.runner.advance(14.9)
    assert holder.published == []
    holder.runner.advance(15.0)
    first, second = holder.published
    assert (first.topic, first.payloads, first.length, first.json, first.priority) == ("t", [b"abc"], 3, False, 1)
    assert (first.published_at, second.published_at) == (0.0, 0.0)
    tag = Metadata({"$delayed": f"{YOU}/3/1"}, 5)
    assert first.options == Options("kind", True, 1.5, False, False, metadata=tag)
    tag = Metadata({"$delayed": f"{YOU}/3/2"}, 5)
    assert second.options == Options(None, False, None, False, True, metadata=tag)


def test_on_a_disk_a_message_is_acknowledged_and_another_life_waits_for_all_peers() -> None:
    assert SETTLE == 1.0
    disk = SimulatedDisk(Random(1))
    holder = Holder(FileLog(disk, Random(1)))
    holder.give(encode_puts([put(1), put(2, 1000)]))
    assert holder.acknowledged == [("held", [(Id(YOU, 3, 1), "t"), (Id(YOU, 3, 2), "t")], "")]
    holder.give(encode_ids("gone", [Id(YOU, 3, 1)]))
    holder.runner.close(10.0)
    holder.log.close()
    again = Holder(FileLog(disk, Random(2)))
    assert sorted(again.runner.store.held) == [Id(YOU, 3, 2)]  # the end of the other is on disk as well
    del again.peers[YOU]
    again.runner.advance(10.0 + 6.0 + SETTLE - 0.01)
    assert again.published == []
    again.runner.advance(10.0 + 6.0 + SETTLE)
    assert [one.topic for one in again.published] == ["t"]


def test_a_keeper_refuses_and_tells_other_keepers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.delayed.store.MESSAGES", 1)
    holder = Holder()
    holder.give(encode_puts([put(1), put(2)]))
    assert holder.acknowledged == [
        ("unheld", [(Id(YOU, 3, 2), "t")], f"1 delayed messages of {put().size} bytes wait there already")
    ]
    holder.runner.placed()  # of ME and YOU, the other one
    (told,) = holder.published
    assert (told.topic, told.length, told.json) == (f"$glue/delayed/{YOU}", len(told.payloads[0]), False)
    assert parse(told.payloads[0]).have == [Id(YOU, 3, 1)]
    holder.runner.placed()
    assert len(holder.published) == 1


class Stored:
    """A log with records at offsets 0, 1, 2, … that is read in steps."""

    def __init__(self, records: list[Record], durable: int, is_stuck: bool = False) -> None:
        self.records = records
        self.durable = durable
        self.is_stuck = is_stuck
        self.asked: list[Any] = []

    def offset_at(self, unix_time: float) -> int:
        self.asked.append(unix_time)
        return 0

    def read(self, wanted: Any, offset: int) -> Any:
        self.asked.append((offset, [topic for topic in "tu" if wanted(topic)]))
        record = self.records[offset]
        return [(offset, record)], offset + (not self.is_stuck)


def record(number: int, **fields: Any) -> Record:
    properties = fields.get("properties", {"$delayed": f"{YOU}/3/{number}"})
    return Record(YOU, "you", 3, "t", number, [b"abc"], properties=properties)


def test_what_is_in_the_log_already_is_not_released_again() -> None:
    assert CLOCKS == 60.0
    log = Stored([record(9, properties={}), record(9, properties={"$delayed": "x"}), record(1), record(2)], 3)
    holder = Holder(log)
    assert log.asked == []
    holder.at["t"] = [ME, OTHER]
    holder.peers.clear()
    holder.give(encode_puts([put(1, 0, at=900.0), put(2, 0, at=800.0), put(3, 5000, at=1.0)]), peer=OTHER)
    assert log.asked == [800.0 - CLOCKS, *((offset, ["t"]) for offset in range(3))]
    assert sorted(holder.runner.store.held) == [Id(YOU, 3, 2), Id(YOU, 3, 3)]
    holder.give(encode_puts([put(2, 0)]), peer=OTHER)
    assert len(log.asked) == 4  # it is known, and was looked for
    stuck = Holder(Stored([record(1)], 3, is_stuck=True))
    stuck.at["t"] = [ME, OTHER]
    stuck.give(encode_puts([put(1, 0)]), peer=OTHER)
    assert len(stuck.log.asked) == 2
    assert sorted(stuck.runner.store.held) == []


def test_what_is_kept_is_over_once_it_is_durable() -> None:
    holder = Holder()
    holder.give(encode_puts([put(1), put(2)]))
    holder.runner.appended(0, 1, [record(1)])
    assert len(holder.runner.store.held) == 2
    holder.runner.synced(1)
    assert sorted(holder.runner.store.held) == [Id(YOU, 3, 2)]
