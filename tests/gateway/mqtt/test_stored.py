"""What a door stores: the records of its log, the events of a snapshot, and what a session reads from the log."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

from glue.errors import CorruptStorageError, StorageError
from glue.gateway.mqtt import persisting
from glue.gateway.mqtt.packets import Publish, Will
from glue.gateway.mqtt.session import Session, Subscription
from glue.gateway.mqtt.store import Store
from glue.gateway.mqtt.stored import (
    Kept,
    event_record,
    lively,
    plain,
    read_record,
    read_run_value,
    read_will,
    run_record,
    run_value,
    will_value,
)
from glue.simulation.disk import SimulatedDisk
from glue.storage import Record
from tests.support import mqtt
from tests.support.mqtt import Bench

HOUR = b"\x11\x00\x00\x0e\x10"
FOREVER = float("inf")


def facts(run: Publish) -> dict[str, Any]:
    names = "topic", "qos", "retain", "properties", "expires", "at", "offset"
    return {"payloads": [*run.payloads], **{name: getattr(run, name) for name in names}}


def test_a_run_is_read_from_the_log_as_it_was_written() -> None:
    properties: dict[str, Any] = {
        "content_type": "x", "correlation_data": b"\0\xff", "user_property": [("a", "1"), ("a", "2")],
    }  # fmt: skip
    run = Publish("t/1", [b"a", b"bc"], 2, True, dict(properties))
    record = run_record(Kept(run, "p", "s", range(7, 9)), 40, 1_060.0, 1_000.0)
    assert (record.name, record.type, record.payloads) == ("p", "t/1", [b"a", b"bc"])
    assert (record.published_at, record.sequence) == (1_000.0, 41)
    assert record.properties == {
        "properties": '{"content_type":"x","correlation_data":["AP8="],"user_property":[["a","1"],["a","2"]]}',
        "expires": "1060.0", "to": "s", "ids": "[7,8]",
    }  # fmt: skip
    found = read_record(record, 40, -900.0)
    assert isinstance(found, Kept)
    assert (found.sender, found.to, found.ids) == ("p", "s", [7, 8])
    assert facts(found.run) == {
        "payloads": [b"a", b"bc"], "topic": "t/1", "qos": 2, "retain": True, "properties": properties,
        "expires": 160.0, "at": 1_000.0, "offset": 40,
    }  # fmt: skip
    for qos, retain in ((0, False), (1, False), (0, True), (1, True)):
        record = run_record(Kept(Publish("t", [b""], qos, retain)), 0, FOREVER, 5.0)
        assert record.properties == {}
        again = read_record(record, 0, 0.0)
        assert isinstance(again, Kept)
        assert (again.run.qos, again.run.retain, again.run.expires, again.run.properties) == (
            qos,
            retain,
            FOREVER,
            None,
        )
        assert (again.sender, again.to, again.ids) == ("", "", [])


def test_events_are_read_as_they_were_written_and_what_is_none_is_refused() -> None:
    events: list[Any] = [["open", "s", 60.0, 1], ["ack", "s", [[1, 2]]]]
    record = event_record(events, 9, 5.0)
    assert (record.sequence, record.published_at, read_record(record, 9, 0.0)) == (10, 5.0, events)
    wrong: list[dict[str, str]] = [{"properties": "{"}, {"expires": "soon"}, {"ids": "["}]
    for more in wrong:
        damaged = Record("0" * 16, "", 1, "mqtt", 3, [b""], 0.0, 0, 0, "t", None, more)
        with pytest.raises(CorruptStorageError, match="a record of the door at offset 2 is malformed"):
            read_record(damaged, 2, 0.0)


def test_values_of_wills_and_retained_messages_have_their_form() -> None:
    will = Will("gone", b"\xff", 2, True, {"will_delay_interval": 5, "correlation_data": b"\1"})
    value = will_value(will)
    assert value == ["gone", "/w==", 2, True, {"will_delay_interval": 5, "correlation_data": ["AQ=="]}]
    assert read_will(orjson.loads(orjson.dumps(value))) == will
    assert will_value(None) is None
    assert read_will(None) is None
    run = Publish("t", [b"old", b"\xff"], 1, True, {"user_property": [("a", "b")]})
    run.at, run.expires = 7.0, 100.0
    told = run_value(run, 900.0)
    assert told == ["t", "/w==", 1, {"user_property": [("a", "b")]}, 1_000.0, 7.0]
    found = read_run_value(orjson.loads(orjson.dumps(told)), -500.0)
    assert facts(found) == {**facts(run), "payloads": [b"\xff"], "expires": 500.0, "offset": found.offset}
    run = Publish("t", [b"x"], 0, True)
    assert run_value(run, 900.0) == ["t", "eA==", 0, {}, None, run.at]
    assert read_run_value(["t", "eA==", 0, {}, None, 3.0], 5.0).properties is None
    assert read_run_value(["t", "eA==", 0, {}, None, 3.0], 5.0).expires == FOREVER
    with pytest.raises(ValueError, match="topic 5"):
        read_run_value([5, "eA==", 0, {}, None, 3.0], 0.0)
    assert lively(plain({"a": 1})) == {"a": 1}


def everything(disk: SimulatedDisk) -> Bench:
    """A door with sessions in each state."""
    bench = Bench(directory=disk)
    publisher = bench.connect("p")
    here = bench.subscriber(("t", 2), ("u/+", 13), client_id="here", version=5, clean=False, raw=HOUR)
    away = bench.subscriber(("t", 1), client_id="away", version=5, clean=False, raw=HOUR)
    bench.connect("short", 5, will=("gone", b"w", 0, False))
    publisher.send(*(mqtt.publish("t", b"%d" % number, 2, number) for number in (1, 2, 3)))
    bench.sync()
    first, second, _ = here.messages()
    here.send(mqtt.acknowledge(5, first.number), mqtt.publish("x", b"", 2, 9, version=5))
    away.send(mqtt.acknowledge(4, away.messages()[0].number))
    bench.sync()
    away.leave()
    publisher.send(mqtt.publish("t", b"4", 1, 4), mqtt.publish("kept", b"k", retain=True))
    bench.sync()
    assert second.payload == b"2"
    return bench


def test_a_snapshot_says_all_that_a_restart_needs_and_says_it_again_after_one() -> None:
    disk = SimulatedDisk(Random(1))
    bench = everything(disk)
    session = bench.broker.sessions["here"]
    places = {number: parcel.run.offset + place for number, (parcel, place) in session.inflight.items()}
    shelved = bench.broker.sessions["away"].shelved
    at, end = bench.broker.sessions["away"].read_at, bench.broker.stored_to
    sessions = bench.broker.sessions
    since = {name: [one.since for one in sessions[name].subscriptions.values()] for name in ("here", "away")}
    assert (sorted(places), sorted(shelved)) == ([2, 3, 4], [2, 3])
    events = bench.broker.state_events(bench.now)
    assert events == [
        ["open", "here", 3_600.0, 2],
        ["sub", "here", "t", 2, since["here"][0]],
        ["sub", "here", "u/+", 13, since["here"][1]],
        ["next", "here", end],
        ["sent", "here", end, [[2, places[2], 1, 2], [3, places[3], 1, 2], [4, places[4], 1, 1]]],
        ["rec", "here", 1],
        ["in", "here", [9]],
        ["open", "away", 3_600.0, 3],
        ["away", "away", bench.now + 3_600.0 + 1e9],
        ["sub", "away", "t", 1, since["away"][0]],
        ["next", "away", at],
        ["sent", "away", at, [[2, shelved[2][0], 1, 1], [3, shelved[3][0], 1, 1]]],
        ["in", "away", []],
        ["will", "short", ["gone", "dw==", 0, False, {}]],
        ["retain", ["kept", "aw==", 0, {}, None, bench.broker.retained.get("kept").at]],  # type: ignore[union-attr]
    ]
    assert at is not None
    assert at < end
    assert bench.broker.needed_from() == min(*places.values(), *(offset for offset, _ in shelved.values()))
    bench.save()
    again = Bench(directory=disk, now=bench.now)
    away = [event for event in events if event[1] == "away"]
    assert [event for event in again.broker.state_events(again.now) if event[1] == "away"] == away
    here = [event for event in again.broker.state_events(again.now) if event[1] == "here"]
    assert [event[:2] for event in here].count(["away", "here"]) == 1, "nobody is connected any more"
    assert [event for event in here if event[0] in ("open", "sub", "rec", "in")] == [
        event for event in events if event[1] == "here" and event[0] in ("open", "sub", "rec", "in")
    ]
    assert again.broker.published[0].topic == "gone", "the client of the will counts as lost"
    assert [run.topic for run in again.broker.retained] == ["kept"]


def session_with(*subscriptions: tuple[str, int, bool, bool, int, int]) -> Session:
    session = Session("s", 10, 1_000)
    for topic_filter, qos, no_local, as_published, identifier, since in subscriptions:
        made = Subscription(session, topic_filter, qos, no_local, as_published, identifier)
        made.since = since
        session.subscriptions[topic_filter] = made
    return session


@pytest.mark.parametrize(
    ("subscriptions", "message", "expected"),
    [
        ([("t", 1, False, False, 0, 0)], (2, False, "p", ""), (1, False, ())),
        ([("t", 2, False, False, 0, 0)], (1, False, "p", ""), (1, False, ())),
        ([("t", 2, False, False, 0, 0)], (0, False, "p", ""), None),
        ([("t", 0, False, False, 0, 0)], (2, False, "p", ""), None),
        ([("u", 1, False, False, 0, 0)], (1, False, "p", ""), None),
        ([("t", 1, False, False, 0, 50)], (1, False, "p", ""), (1, False, ())),
        ([("t", 1, False, False, 0, 51)], (1, False, "p", ""), None),
        ([("t", 1, True, False, 0, 0)], (1, False, "s", ""), None),
        ([("t", 1, True, False, 0, 0)], (1, False, "p", ""), (1, False, ())),
        ([("t", 1, False, False, 0, 0)], (1, False, "s", ""), (1, False, ())),
        ([("$share/g/t", 1, False, False, 0, 0)], (1, False, "p", ""), None),
        ([("t", 1, False, True, 5, 0), ("+", 2, False, False, 6, 0), ("#", 0, False, False, 0, 0)],
         (2, True, "p", ""), (2, True, (5, 6))),
        ([("t", 1, False, False, 0, 0)], (1, True, "p", ""), (1, False, ())),
        ([("t", 1, False, True, 0, 0)], (1, False, "p", ""), (1, False, ())),
        ([], (2, True, "p", "s"), (2, True, ())),
        ([], (0, True, "p", "s"), None),
        ([("t", 1, False, False, 0, 0)], (1, False, "p", "other"), None),
    ],
)  # fmt: skip
def test_a_session_reads_from_the_log_what_it_would_have_got(
    subscriptions: list[Any], message: tuple[int, bool, str, str], expected: tuple[int, bool, Any] | None
) -> None:
    qos, retain, sender, to = message
    run = Publish("t", [b"x"], qos, retain)
    run.offset = 50
    found = Bench().broker.parcel_for(session_with(*subscriptions), Kept(run, sender, to))
    assert (None if found is None else (found.qos, found.retain, tuple(found.identifiers))) == expected


def test_a_session_that_reads_past_much_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(directory=SimulatedDisk(Random(1)))
    for name, topic in (("s", "t"), ("other", "u")):
        bench.subscriber((topic, 1), client_id=name, version=5, clean=False, raw=HOUR).leave()
    publisher = bench.connect("p")
    for number in range(1, 31):
        publisher.send(mqtt.publish("u", bytes(100), 1, number))
        bench.sync()
    publisher.send(*(mqtt.publish("t", b"%d" % number, 1, number) for number in (40, 41)))
    bench.sync()
    monkeypatch.setattr(persisting, "READ_SIZE", 1_000)
    back = bench.link(5)
    back.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    bench.sync()
    assert [one.kind for one in back.read()] == [2]
    session = bench.broker.sessions["s"]
    turns, before = 0, session.read_at
    while not (sent := back.read()):
        assert bench.broker.deadline <= bench.now
        bench.broker.advance(bench.now)
        turns += 1
        assert session.read_at is None or before is None or session.read_at > before
        before = session.read_at
    assert [mqtt.publication(one, 5).payload for one in sent] == [b"40", b"41"]
    assert 2 <= turns <= 4
    bench.pass_time(0)
    assert session.read_at is None


def test_messages_in_flight_that_the_log_has_lost_are_counted() -> None:
    bench = everything(SimulatedDisk(Random(1)))
    session = bench.broker.sessions["away"]
    session.shelved[9] = bench.broker.stored_to + 5, 1
    back = bench.link(5)
    back.send(mqtt.connect("away", 5, clean=False, raw=HOUR))
    bench.sync()
    _, *sent = back.read()
    assert [mqtt.publication(one, 5).payload for one in sent] == [b"2", b"3", b"4"]
    assert bench.broker.statistics["stored messages that are lost"] == 1


def test_what_is_not_durable_yet_is_read_from_memory_and_from_the_middle_of_a_run() -> None:
    store = Store(SimulatedDisk(Random(1)), Random(2), lambda: 1_000.0)
    first = store.add(5.0, Kept(Publish("t", [b"1", b"2", b"3"], 1), "p", "s"))
    store.note("open", "s", 60.0, 1)
    second = store.add(5.0, Kept(Publish("t", [b"4"], 1)))
    assert (first, second, store.end) == (0, 4, 5), "the event between them has a place of its own"

    def read(offset: int) -> list[tuple[int, list[bytes], str]]:
        runs, following = store.read(5.0, offset, 1_000)
        assert following == store.end
        return [(one.run.offset, [*one.run.payloads], one.to) for one in runs]

    expected = [[(0, [b"1", b"2", b"3"], "s"), (4, [b"4"], "")], [(1, [b"2", b"3"], "s"), (4, [b"4"], "")]]
    assert [read(0), read(1)] == expected
    assert [read(3), read(5)] == [[(4, [b"4"], "")], []]
    called: list[float] = []
    store.then(called.append)
    assert (store.deadline, store.is_pending) == (float("-inf"), True)
    store.write(5.0)
    assert (store.is_pending, called) == (False, [])
    ticket = store.begin_sync()
    store.then(called.append)
    assert store.deadline > float("-inf"), "a sync is under way"
    store.log.complete(ticket)
    store.end_sync(6.0, ticket)
    assert (called, [*store.recent]) == ([6.0], [])
    assert store.deadline == float("-inf"), "for what came meanwhile"
    store.sync(7.0)
    assert (called, store.deadline) == ([6.0, 7.0], FOREVER)
    runs, following = store.read(5.0, 0, 1_000)
    assert ([[*one.run.payloads] for one in runs], following) == ([[b"1", b"2", b"3"], [b"4"]], 5)


def test_a_snapshot_is_made_once_the_log_has_grown_by_twice_its_size() -> None:
    disk = SimulatedDisk(Random(1))
    store = Store(disk, Random(2), lambda: 1_000.0, segment_size=2_000)

    def is_wanted() -> bool:
        return store.wants_snapshot

    assert not is_wanted()
    sizes: list[int] = []
    while not is_wanted():
        store.add(0.0, Kept(Publish("t", [bytes(100)], 1)))
        store.sync(0.0)
        sizes.append(store._written)
    assert sizes[-2] <= 2_000 < sizes[-1]
    snapshot = store.snapshot([["will", f"client {number:03}", None] for number in range(100)])
    assert not is_wanted()
    store.save(snapshot)
    written, count = [0], 0
    while not is_wanted():
        store.add(0.0, Kept(Publish("t", [bytes(100)], 1)))
        store.sync(0.0)
        written.append(store._written)
        count += 1
    assert written[-2] <= 2 * len(snapshot) < written[-1]
    entries = list(Store(disk, Random(3), lambda: 1_000.0).replay(0.0))
    assert isinstance(entries[0], list)
    assert entries[0][0] == ["will", "client 000", None]
    assert sum(len(one) for one in entries if isinstance(one, list)) == 100
    assert sum(isinstance(one, Kept) for one in entries) == count, "what the snapshot covers is not read again"


def test_a_damaged_snapshot_is_refused_and_one_of_another_log_is_left_alone() -> None:
    disk = SimulatedDisk(Random(1))
    store = Store(disk, Random(2), lambda: 1_000.0)
    store.note("will", "s", None)
    store.sync(0.0)
    store.save(store.snapshot([["will", "of the snapshot", None]]))
    assert list(store.replay(0.0)) == [[["will", "of the snapshot", None]]]
    other = Store(SimulatedDisk(Random(5)), Random(6), lambda: 1_000.0)
    store.save(other.snapshot([["will", "of the other", None]]))
    assert list(store.replay(0.0)) == [[["will", "s", None]]]
    for damaged in (b"", b"garbage", store.snapshot([])[:-1]):
        store.save(damaged)
        with pytest.raises(StorageError, match="the snapshot of the sessions is damaged"):
            list(store.replay(0.0))


def test_a_snapshot_is_made_once_the_log_has_grown_by_more_than_a_segment_and_twice_the_last_one() -> None:
    event = ["open", "s", 60.0, 1]
    size = event_record([event], 0, 1_000.0).size

    def store(segment: int) -> Store:
        found = Store(SimulatedDisk(Random(1)), Random(2), lambda: 1_000.0, segment_size=segment)
        found.note(*event)
        assert not found.wants_snapshot
        found.write(0.0)
        return found

    assert [store(segment).wants_snapshot for segment in (size - 1, size)] == [True, False]
    found = store(size - 1)
    snapshot = found.snapshot([event] * 9)
    for _ in range(100):
        assert not found.wants_snapshot
        written = found._written
        found.note(*event)
        found.write(0.0)
        if found._written > 2 * len(snapshot):
            break
    assert written <= 2 * len(snapshot) < found._written
    assert found.wants_snapshot
