"""What a keeper stores, holds, refuses and tells, without endpoints."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
from glue.contract import Delivery
from glue.contract.metadata import Metadata
from glue.endpoint.durability import Durability
from glue.endpoint.keep_methods import has_room
from glue.endpoint.keeper import MEMORY, bytes_of, check_replicas, retention_of, seconds
from glue.endpoint.keeping import JOINED, Keeping, joined, record_of
from glue.errors import StorageError, StorageFullError
from glue.simulation.disk import SimulatedDisk
from glue.storage import JSON, RETAINED, FileLog, MemoryLog, Stream

ME, YOU = "0" * 16, "1" * 16


def delivery(
    topic: str = "t", sequence: int = 1, *payloads: Any, at: float = 50.0, peer: str = YOU, **more: Any
) -> Delivery:
    found = Delivery(
        topic, [*(payloads or (b"x",))], more.get("type"), "you", peer, 3, sequence, at, more.get("retained", False), ()
    )
    if "metadata" in more:
        found.metadata = more["metadata"]
    if "encoded" in more:
        found.encoded = more["encoded"]
    return found


# ------------------------------------------------------------------------------------------------------- quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), (5, 5), (0.5, 0.5), ("30d", 2_592_000), ("12h", 43_200), ("10min", 600), ("1.5 s", 1.5)],
)
def test_an_age_is_a_number_or_a_text(text: Any, expected: float | None) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None), (5, 5), (1.9, 1), ("1B", 1), ("64kB", 64_000), ("500MB", 500_000_000), ("2GB", 2 * 10**9),
        ("1.5TB", 15 * 10**11),
    ],
)  # fmt: skip
def test_a_size_is_a_number_or_a_text(text: Any, expected: int | None) -> None:
    assert bytes_of(text) == expected


@pytest.mark.parametrize("wrong", [0, -1, True, "5", "x5s", "5m", "", inf, "nan s", [], "-5 s"])
def test_another_quantity_is_refused(wrong: Any) -> None:
    for function, name, examples in (
        (seconds, "age", '"30d", "12h", "10min" or "5s"'), (bytes_of, "size", '"2GB", "500MB" or "64kB"'),
    ):  # fmt: skip
        with pytest.raises(glue.ConfigurationError) as caught:
            function(wrong)
        assert str(caught.value) == f"{name}={wrong!r}: expected a positive number, or a text such as {examples}"


def test_what_is_retained_is_checked() -> None:
    found = retention_of("t/+", "1min", "1kB", 1)
    assert (found.age, found.size, found.count) == (60.0, 1000, 1)
    assert [found.topics(topic) for topic in ("t/1", "t", "u/1")] == [True, False, False]
    for count in (0, True, 1.0):
        with pytest.raises(glue.ConfigurationError) as caught:
            retention_of("t", None, None, count)  # type: ignore[arg-type]
        assert str(caught.value) == f"count={count!r}: expected a number of messages of each topic, at least 1"
    with pytest.raises(glue.TopicError):
        retention_of("#/t", None, None, None)
    for good in (None, 1, 64):
        check_replicas(good)
    for replicas in (0, 65, True, 1.0):
        with pytest.raises(glue.ConfigurationError) as caught:
            check_replicas(replicas)
        assert str(caught.value) == f"replicas={replicas!r}: expected a number of keepers from 1 to 64, or None for all"


# ---------------------------------------------------------------------------------------------------------- records


def test_a_delivery_becomes_a_record_with_all_that_it_says() -> None:
    record = record_of(delivery("t", 5, {"a": 1}, [2], type="kind", retained=True, metadata=Metadata({"p": "q"}, None)))
    assert (record.origin, record.name, record.life, record.topic, record.sequence) == (YOU, "you", 3, "t", 5)
    assert (record.payloads, record.published_at, record.flags) == ([b'{"a":1}', b"[2]"], 50.0, JSON | RETAINED)
    assert (record.type, record.codec, record.properties) == ("kind", None, {"p": "q"})
    record = record_of(delivery("t", 5, {"a": 1}, metadata=Metadata(None, "packed"), encoded=[memoryview(b"packed")]))
    assert (record.payloads, record.flags, record.codec, record.properties) == ([b"packed"], 0, "packed", {})
    assert (record_of(delivery("t", 5, b"raw")).flags, record.clock) == (0, 0)


def test_messages_that_follow_each_other_soon_are_joined() -> None:
    def count_of(sequence: int, *payloads: Any, topic: str = "t", at: float = 0.0, **more: Any) -> int:
        records = [record_of(delivery("t", 1, at=0.0)), record_of(delivery(topic, sequence, *payloads, at=at, **more))]
        found = joined(records)
        assert sum(len(record.payloads) for record in found) == 1 + max(1, len(payloads))
        return len(found)

    assert [count_of(2), count_of(2, at=0.005), count_of(2, at=-0.005), count_of(2, b"y", b"z")] == [1] * 4
    assert [count_of(2, at=0.0051), count_of(2, at=-0.0051), count_of(3), count_of(2, topic="u")] == [2] * 4
    assert [count_of(2, peer=ME), count_of(2, type="kind"), count_of(2, retained=True)] == [2] * 3
    assert [count_of(2, "text"), count_of(2, metadata=Metadata({"p": "q"}, None))] == [2] * 2
    assert count_of(2, metadata=Metadata(None, "packed"), encoded=[b"x"]) == 2
    for size, count in ((JOINED - 1, 1), (JOINED, 2)):
        assert (
            len(joined([record_of(delivery("t", 1, *[b""] * size)), record_of(delivery("t", size + 1, b""))])) == count
        )
    assert JOINED == 1024


# ---------------------------------------------------------------------------------------------------------- keeping


class Disk:
    """A keeper's log on a disk in memory, with what it told to publishers."""

    def __init__(self, on_disk: bool = True) -> None:
        self.statistics: Counter[str] = Counter()
        self.published: list[tuple[str, Any]] = []
        identity = SimpleNamespace(endpoint_id=ME, incarnation=7, name="me")
        self.durability = Durability(identity, lambda peer: peer, self.statistics)
        self.own: list[Any] = []
        self.directory = SimulatedDisk(Random(1))
        log = FileLog(self.directory, Random(1)) if on_disk else MemoryLog("0" * 16, 1 << 20)
        self.keeping = Keeping(log, self.durability, self.statistics, self.publish)
        self.seen: list[Any] = []
        watcher: Any = SimpleNamespace(
            appended=lambda begin, end, records: self.seen.append((begin < end, len(records))),
            synced=lambda durable: self.seen.append(durable),
        )
        self.keeping.watchers.append(watcher)

    def publish(self, publications: list[Any]) -> None:
        for one in publications:
            assert (one.json, one.length, one.published_at) == (True, len(one.payloads[0]), 0.0)
            self.published.append((one.topic, orjson.loads(one.payloads[0])))

    def told(self) -> list[tuple[str, Any]]:
        found, self.published = self.published, []
        return found


TOPIC = f"$glue/durable/{YOU}/3"


def test_publishers_that_want_to_know_are_told_after_the_sync() -> None:
    disk = Disk()
    disk.durability.want(YOU, 3)
    disk.keeping.store(10.0, [delivery("t", 1), delivery("t", 2), delivery("t", 5, b"x", b"y"), delivery("u", 1)])
    disk.keeping.store(10.0, [delivery("v", 1, peer="2" * 16)])
    assert disk.statistics["messages kept"] == 6
    assert disk.seen == [(True, 3), (True, 1)]
    assert disk.told() == []
    due = disk.keeping.deadline
    assert due <= 10.1
    disk.keeping.commit(due, 1e9)
    assert disk.told() == [(TOPIC, {"durable": [["t", 1, 3], ["t", 5, 7], ["u", 1, 2]]})]
    assert disk.statistics["syncs"] == 1
    assert disk.seen[2:] == [disk.keeping.log.durable]
    assert disk.keeping.log.durable > 0
    disk.keeping.tell_all(YOU, 3)
    ((topic, told),) = disk.told()
    assert (topic, sorted(told["durable"])) == (TOPIC, [["t", 1, 3], ["t", 5, 7], ["u", 1, 2]])
    disk.keeping.tell_all(YOU, 4)
    disk.keeping.tell_all(ME, 3)
    assert disk.told() == []


def test_this_endpoint_itself_is_told_without_a_message() -> None:
    disk = Disk()
    disk.durability.want(ME, 3)
    disk.durability.keeps(ME, "disk", "#", None)
    ended: list[str] = []
    expectation = disk.durability.expect("t", 1, "disk", lambda: ended.append("t"))
    disk.durability.addressed(expectation, 1)
    disk.keeping.store(10.0, [delivery("t", 1, peer=ME)])
    disk.keeping.sync(10.0)
    assert (ended, disk.told()) == (["t"], [])


def test_a_keeper_in_memory_acknowledges_nothing() -> None:
    disk = Disk(on_disk=False)
    disk.durability.want(YOU, 3)
    disk.keeping.store(10.0, [delivery("t", 1)])
    disk.keeping.sync(10.0)
    disk.keeping.tell_all(YOU, 3)
    id = SimpleNamespace(publisher=YOU, life=3, number=4)
    disk.keeping.tell_held("held", [(id, "t")], "")
    assert disk.told() == []
    assert not disk.keeping.is_on_disk
    disk.keeping.close(10.0)


def test_publishers_of_delayed_messages_are_told_if_they_want_to_know() -> None:
    disk = Disk()
    disk.durability.want(YOU, 3)
    ids = [(SimpleNamespace(publisher=YOU, life=life, number=number), "t") for life, number in ((3, 4), (3, 5), (2, 6))]
    disk.keeping.tell_held("held", ids, "")
    disk.keeping.tell_held("unheld", ids[:1], "no room")
    disk.keeping.tell_held("unheld", ids[2:], "no room")
    assert disk.told() == [(TOPIC, {"held": [["t", 4, 6]]}), (TOPIC, {"unheld": [["t", 4, 5]], "cause": "no room"})]


def test_many_ranges_are_told_in_parts() -> None:
    disk = Disk()
    ranges = [(Stream(YOU, 3, "t"), 2 * number, 2 * number + 1) for number in range(1, 4099)]
    disk.keeping._tell("durable", ranges)
    assert [len(told["durable"]) for _, told in disk.told()] == [4096, 2]


def test_only_ranges_of_one_topic_that_follow_each_other_are_told_as_one() -> None:
    disk = Disk()
    ranges = [("t", 1, 2), ("u", 5, 6), ("t", 6, 7), ("t", 9, 10), ("t", 7, 8), ("t", 8, 9)]
    disk.keeping._tell("durable", [(Stream(YOU, 3, topic), first, stop) for topic, first, stop in ranges])
    ((_, told),) = disk.told()
    assert told == {"durable": [["t", 1, 2], ["u", 5, 6], ["t", 6, 7], ["t", 9, 10], ["t", 7, 9]]}


def failing(monkeypatch: pytest.MonkeyPatch, disk: Disk, name: str, error: StorageError | None) -> None:
    if error is None:
        monkeypatch.undo()
        return

    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(disk.keeping._log, name, fail)


def test_a_full_disk_refuses_at_once_and_is_tried_once_a_second(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()
    disk.durability.want(YOU, 3)
    failing(monkeypatch, disk, "append", StorageFullError("no room"))
    disk.keeping.store(10.0, [delivery("t", 1, b"x", b"y")])
    refused = [(TOPIC, {"refused": [["t", 1, 3]], "cause": "no room"})]
    assert (disk.keeping.failure, disk.told()) == ("no room", refused)
    failing(monkeypatch, disk, "append", None)
    disk.keeping.store(10.9, [delivery("t", 1, b"x", b"y")])
    assert disk.told() == refused
    assert disk.statistics == {"messages not kept": 4, "times that the disk was full": 1}
    disk.keeping.store(11.0, [delivery("t", 3)])
    assert disk.keeping.failure == ""
    disk.keeping.sync(11.0)
    assert disk.told() == [(TOPIC, {"durable": [["t", 3, 4]]})]
    assert [record.getMessage() for record in caplog.records] == [
        "keeper me stores nothing: no room", "keeper me: there is room on the disk again",
    ]  # fmt: skip
    assert not has_room(SimpleNamespace(retentions=[], is_on_disk=True, failure="no room"))  # type: ignore[arg-type]


def test_a_disk_that_stays_full_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()
    failing(monkeypatch, disk, "append", StorageFullError("no room"))
    for now in (10.0, 11.0, 12.0):
        disk.keeping.store(now, [delivery("t", 1)])
    assert disk.statistics == {"messages not kept": 3, "times that the disk was full": 1}
    assert len(caplog.records) == 1
    failing(monkeypatch, disk, "append", StorageError("broken"))
    disk.keeping.store(13.0, [delivery("t", 1)])
    assert disk.statistics["storage failures"] == 1
    assert disk.keeping.failure == "broken"
    failing(monkeypatch, disk, "append", None)
    disk.keeping._log.failure = "broken"
    disk.keeping.store(1000.0, [delivery("t", 1)])
    assert disk.statistics["messages not kept"] == 5


def test_what_a_sync_does_not_bring_to_the_disk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    disk.durability.want(YOU, 3)
    disk.keeping.store(10.0, [delivery("t", 1)])
    failing(monkeypatch, disk, "sync", StorageError("broken"))
    disk.keeping.sync(10.0)
    refused = [(TOPIC, {"refused": [["t", 1, 2]], "cause": "broken"})]
    assert (disk.told(), disk.statistics["syncs"], disk.statistics["storage failures"]) == (refused, 0, 1)
    disk.keeping.sync(10.0)
    assert disk.told() == []


def test_a_disk_that_has_failed_is_neither_synced_nor_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    disk.durability.want(YOU, 3)
    disk.keeping.store(10.0, [delivery("t", 1)])
    disk.keeping.failure = disk.keeping._log.failure = "broken"
    for name in ("sync", "retain", "repair"):
        failing(monkeypatch, disk, name, StorageError("touched"))
    disk.keeping.commit(70.0, 1e9)
    assert disk.told() == [(TOPIC, {"refused": [["t", 1, 2]], "cause": "broken"})]
    assert (disk.keeping.failure, disk.keeping.deadline) == ("broken", inf)
    assert (disk.statistics["syncs"], disk.statistics["storage failures"], disk.seen) == (0, 0, [(True, 1)])
    memory = Disk(on_disk=False)
    memory.keeping.store(10.0, [delivery("t", 1)])
    memory.keeping.commit(70.0, 1e9)  # there is nothing to clean
    assert (memory.keeping.failure, memory.keeping.deadline) == ("", inf)
    assert memory.statistics == {"messages kept": 1, "syncs": 1}


def test_old_messages_are_removed_a_minute_after_something_was_stored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()
    asked: list[Any] = []

    def retain(retentions: Any, now: float) -> int:
        asked.append((retentions, now))
        return 500

    disk.keeping.store(10.0, [delivery("t", 1)])
    disk.keeping.store(20.0, [delivery("t", 2)])
    disk.keeping.sync(20.0)
    assert disk.keeping.deadline == 70.0
    monkeypatch.setattr(disk.keeping._log, "retain", retain)
    monkeypatch.setattr(disk.keeping._log, "repair", lambda: [(Stream(YOU, 3, "t"), 1, 4)])
    disk.keeping.commit(69.0, 1e9)
    assert asked == []
    disk.keeping.commit(70.0, 1e9)
    assert asked == [(disk.keeping.retentions, 1e9)]
    assert disk.statistics["bytes removed by retention"] == 500
    assert disk.statistics["messages damaged on disk"] == 3
    assert caplog.records[0].getMessage() == "keeper me: 3 messages are damaged on its disk"
    assert disk.keeping.deadline == inf
    monkeypatch.setattr(FileLog, "damaged", 2)
    disk.keeping.commit(71.0, 1e9)
    disk.keeping.commit(72.0, 1e9)
    assert disk.statistics["damaged places on disk"] == 2
    assert caplog.records[1].getMessage() == "keeper me: 2 damaged places on its disk; what was there is gone here"


def test_a_failed_cleaning_is_a_failure_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    disk.keeping.store(10.0, [delivery("t", 1)])
    disk.keeping.sync(10.0)
    failing(monkeypatch, disk, "retain", StorageError("broken"))
    disk.keeping.commit(70.0, 1e9)
    assert disk.keeping.failure == "broken"


def test_parts_beside_the_log_have_their_turn_and_end_with_it() -> None:
    disk, did = Disk(), list[Any]()
    for name, due in (("consumers", 30.0), ("delayed", 20.0)):
        part = SimpleNamespace(
            deadline=due, advance=lambda now, name=name: did.append((name, now)), close=lambda now: did.append(now),
            wants=lambda topic: topic == "t",
        )  # fmt: skip
        assert disk.keeping.is_wanted("t") is (name != "consumers")
        setattr(disk.keeping, name, part)
    assert disk.keeping.deadline == 20.0
    disk.keeping.delayed.deadline = 40.0
    assert disk.keeping.deadline == 30.0
    disk.keeping.commit(29.9, 1e9)
    assert did == []
    disk.keeping.commit(30.0, 1e9)
    disk.keeping.commit(40.0, 1e9)
    assert did == [("consumers", 30.0), ("consumers", 40.0), ("delayed", 40.0)]
    assert [disk.keeping.is_wanted(topic) for topic in ("t", "u")] == [True, False]
    disk.keeping.store(40.0, [delivery("t", 1)])
    disk.keeping.close(41.0)
    assert did[3:] == [41.0, 41.0]
    assert disk.statistics["syncs"] == 1


@pytest.mark.parametrize(
    ("sizes", "is_on_disk", "size", "expected"),
    [
        ([10], True, 9, True), ([10], True, 10, False), ([10, 5], True, 14, True), ([10, 5], True, 15, False),
        ([10, None], True, 1 << 40, True), ([None], False, MEMORY - 1, True), ([None], False, MEMORY, False),
    ],
)  # fmt: skip
def test_a_log_has_room_for_what_is_old(sizes: list[Any], is_on_disk: bool, size: int, expected: bool) -> None:
    assert MEMORY == 64 << 20
    keeping: Any = SimpleNamespace(
        retentions=[SimpleNamespace(size=one) for one in sizes], is_on_disk=is_on_disk, failure="",
        log=SimpleNamespace(size=size),
    )  # fmt: skip
    assert has_room(keeping) is expected
