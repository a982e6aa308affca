"""What an endpoint of receivers does as time passes, and how a receiver's messages run: on a desk, call by call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
from glue.contract import Alarm, Publication, Subscribe
from glue.endpoint import receiver_running, receiver_runtime
from glue.endpoint.receiver_hosts import BEAT_TOPIC
from glue.endpoint.receiver_kind import Kind
from glue.receivers.address import parse
from glue.receivers.context import AgainError
from glue.receivers.wire import FAILED, at_topic, decode, decode_batch, decode_report, encode, encode_batch
from tests.receivers.desk import HOST, PEER, Desk, Shelf

HERE, THERE = at_topic(HOST), at_topic(PEER)


def serving(desk: Desk, shelf: Shelf | None = None, idle: float = 1e9) -> Kind:
    """A host that serves its only partition."""
    kind = desk.host(shelf or Shelf(), 1, idle)
    desk.answer(desk.questions()[1], partitions=1)
    desk.answer(desk.questions()[0], owner_0={"host": HOST, "life": 7, "epoch": 3})
    desk.run()
    desk.asked.clear()
    return kind


def batch(number: int, seq: int, *messages: tuple[str, Any], within: float = 0.0) -> bytes:
    entries: Any = [
        SimpleNamespace(seq=seq + n, id=id, body=orjson.dumps(body), is_json=True, within=within, path=("a/b",))
        for n, (id, body) in enumerate(messages)
    ]
    return encode_batch(number, ":sum", 0, 1, entries)


def reports(desk: Desk) -> list[Any]:
    """The reports that were sent to the peer since the last look."""
    sent = [one for one in desk.orders(Publication) if one.topic == THERE]
    return [decode_report(*decode(payload)) for one in sent for payload in one.payloads]


def test_a_runtime_subscribes_says_hello_and_asks_to_be_rung() -> None:
    desk = Desk()
    assert [one.patterns for one in desk.orders(Subscribe)] == [(HERE,), (BEAT_TOPIC,)]
    (hello,) = desk.orders(Publication)
    assert (hello.topic, hello.published_at, hello.json) == (BEAT_TOPIC, 1100.0, False)
    assert decode(hello.payloads[0])[0] == {"hello": 1, "kinds": {}}
    assert hello.length == len(hello.payloads[0])
    (alarm,) = desk.orders(Alarm)
    assert (alarm.token, alarm.due) == (desk.runtime, 100.1)
    assert desk.runtime._limit == 100_000 - 65_536


def test_what_a_runtime_does_in_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    kind = serving(desk)
    times: dict[str, list[float]] = {"expire": [], "remind": [], "beat": [], "flush": [], "tick": []}

    def note(what: str, owner: Any, name: str) -> None:
        def noted(*arguments: Any) -> Any:
            times[what].append(round(desk.time - 100.0, 6))
            return real(*arguments)

        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, noted)

    desk.deliver(batch(1, 1, ("x", 1)))
    desk.alarms()
    (inbox,) = desk.runtime._inboxes.values()
    for what, owner, name in (
        ("expire", desk.runtime.outbox, "expire"), ("remind", inbox, "remind"), ("tick", kind, "tick"),
        ("beat", desk.runtime, "_beat"), ("flush", desk.runtime.outbox, "flush"),
    ):  # fmt: skip
        note(what, owner, name)
    for _ in range(30):
        desk.tick()
        assert desk.alarms() == [0.1]
    assert times == {
        "expire": [0.1, 1.1, 2.1], "remind": [0.1], "beat": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
        "flush": [tenth / 10 for tenth in range(1, 31)], "tick": [tenth / 10 for tenth in range(1, 31)],
    }  # fmt: skip
    assert desk.looks == 30
    assert desk.runtime._inboxes == {}  # all of it was told
    desk.runtime.hurry()
    desk.tick()
    assert (times["expire"][3:], desk.alarms()) == ([3.1], [0.1])
    desk.runtime.is_closed = True
    desk.tick()
    assert (len(times["tick"]), desk.alarms()) == (31, [])


def test_batches_that_are_still_handled_are_told_of_twice_a_second() -> None:
    desk, shelf = Desk(), Shelf()
    serving(desk, shelf)
    desk.held = []
    desk.deliver(batch(1, 1, ("x", 1)))
    desk.run()
    assert [one.taken for one in reports(desk)] == [[1]]
    told = []
    for tenth in range(1, 13):
        desk.tick()
        told += [(tenth, one.taken) for one in reports(desk)]
    assert told == [(1, [1]), (6, [1]), (11, [1])]
    desk.held.pop()(None, None)
    desk.run()
    (report,) = reports(desk)
    assert (report.taken, report.done) == ([], [(1, None)])
    desk.tick()
    assert desk.runtime._inboxes == {}


def test_silence_is_measured_from_the_last_beat_and_not_while_this_process_stood_still() -> None:
    for steps, is_there in (((1.0, 1.0), True), ((1.0, 0.9, 0.2), False), ((1.01, 1.01, 1.01), True)):
        desk = Desk()
        desk.deliver(encode({"kinds": {"other": 3}}), token=desk.runtime._beat_token)
        for step in steps:
            desk.tick(step)
        assert (PEER in desk.runtime.beats, desk.statistics["hosts that fell silent"]) == (is_there, 1 - is_there)


def test_a_delivery_counts_as_handled_with_its_malformed_payloads() -> None:
    for counts in (True, False):
        desk = Desk()
        serving(desk)
        desk.counts = counts
        desk.told.clear()
        first = desk.deliver(b"nothing", batch(1, 1, ("x", 5)))
        assert desk.told == [("handled", 2), *([first] if counts else [])]
        desk.told.clear()
        desk.runtime.watched(first)
        assert desk.told == ([first] if counts else [])
        desk.run()
        assert (desk.statistics["malformed receiver messages"], desk.got) == (1, [("x", 5)])


def test_many_results_are_told_in_one_report_and_large_ones_in_several() -> None:
    desk = Desk()
    serving(desk)
    desk.deliver(batch(1, 1, *(("x", n) for n in range(5))))
    assert [one.taken for one in reports(desk)] == [[1]]
    desk.run()
    (report,) = reports(desk)
    assert (report.done, report.results, desk.got) == ([(1, None)], [], [("x", n) for n in range(5)])
    inbox = next(iter(desk.runtime._inboxes.values()))
    for number in (7, 8):
        inbox.taken.append(number)
        desk.runtime._tell(inbox.sender)
    desk.runtime._tell("another")  # which is gone already
    assert len(desk.soon_called) == 1
    inbox.taken += range(100_000)
    desk.run()
    sizes = [len(one.taken) for one in reports(desk)]
    assert (sum(sizes), len(sizes) > 2, len(set(sizes[:-1]))) == (100_002, True, 1)


def test_messages_to_elsewhere_leave_in_one_publication_for_each_host() -> None:
    desk = Desk()
    desk.deliver(encode({"kinds": {":other": 2, ":more": 1}}), token=desk.runtime._beat_token)
    desk.run()
    desk.asked.clear()
    for id in ("a", "d", "c"):
        desk.runtime.send(parse(f"other/{id}"), {"id": id})
    desk.runtime.send(parse("more/x"), b"bytes", ("p/1",), 1.5, lambda error, answer: None)
    assert len(desk.soon_called) == 1
    entries = [
        entry for routes in desk.runtime.outbox._routes.values() for route in routes for entry in route.queue
    ]  # fmt: skip
    assert sorted((entry.id, entry.until, entry.within, entry.is_json) for entry in entries) == [
        ("a", 160.0, 0.0, True), ("c", 160.0, 0.0, True), ("d", 160.0, 0.0, True), ("x", 101.5, 1.5, False),
    ]  # fmt: skip
    desk.time = 100.5
    desk.run()
    (sent,) = desk.orders(Publication)
    batches = [decode_batch(*decode(payload)) for payload in sent.payloads]
    assert (sent.topic, sorted((one.kind, one.partition, one.partitions, one.ids) for one in batches)) == (
        THERE, [(":more", 0, 1, ["x"]), (":other", 0, 2, ["d"]), (":other", 1, 2, ["a", "c"])]
    )  # fmt: skip
    assert [one.asks for one in batches if one.kind == ":more"] == [{0: (1.0, ("p/1",))}]
    assert sent.length is None
    report = {"taken": [one.number for one in batches]}
    desk.deliver(encode(report))
    desk.runtime.send(parse("other/a"), 5)
    desk.run()
    (sent,) = desk.orders(Publication)
    assert sent.length == len(sent.payloads[0])


def test_a_refused_batch_is_sent_again_after_the_pause() -> None:
    desk = Desk()
    desk.deliver(encode({"kinds": {":other": 1}}), token=desk.runtime._beat_token)
    desk.runtime.send(parse("other/a"), 1)
    desk.run()
    (number,) = (
        decode_batch(*decode(one.payloads[0])).number for one in desk.orders(Publication) if one.topic == THERE
    )
    desk.alarms()
    desk.deliver(encode({"moved": [[number, ""]]}))
    desk.run()
    assert desk.alarms() == [0.02]
    desk.tick(0.019)
    assert desk.published() == []
    desk.tick(0.001)
    assert [topic for topic, _ in desk.published()] == [THERE]


def test_a_local_call_is_settled_in_time_or_not_at_all() -> None:
    desk = Desk()
    kind = serving(desk)
    settled: list[Any] = []
    for within in (2.0, 0.0):
        desk.runtime.send(parse("sum/x"), 5, ("p/1",), within, lambda error, answer: settled.append((error, answer)))
    calls = list(kind.activations["x"].mailbox or ())
    assert [(one.until, one.is_request, one.path) for one in calls] == [
        (102.0, True, ("p/1",)), (float("inf"), False, ("p/1",)),
    ]  # fmt: skip
    desk.run()
    assert settled == [(None, None)] * 2
    desk.runtime.send(parse("sum/x"), 6, (), 1.0)
    desk.runtime.send_text("sum/y", bytearray(b"copied"))
    desk.runtime.send_text("sum/y", [1])
    assert kind.activations["x"].is_direct
    desk.time += 1.0  # too late for the call
    desk.run()
    assert desk.got == [("x", 5), ("x", 5), ("y", b"copied"), ("y", [1])]


def test_receivers_take_turns_and_what_was_handled_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    kind = serving(desk)
    assert receiver_running.RUN == 64
    monkeypatch.setattr(receiver_running, "RUN", 2)
    for number in range(3):
        desk.runtime.send_text("sum/x", number)
        desk.runtime.send_text("sum/y", number)
    desk.run()
    assert desk.got == [("x", 0), ("x", 1), ("y", 0), ("y", 1), ("x", 2), ("y", 2)]
    assert (kind.handled, desk.statistics["messages to receivers handled"]) == (6, 6)
    assert all(one.mailbox is None and not one.is_scheduled for one in kind.activations.values())


def test_a_slow_message_is_counted_before_the_next_is_handled() -> None:
    desk = Desk()
    kind = serving(desk)
    counted = []

    class Slow:
        def receive(self, context: glue.Context, seconds: float) -> None:
            counted.append(kind.handled)
            desk.time += seconds

    kind.factory = Slow
    for seconds in (0.5, 0.25, 0.0, 0.00005, 0.001):
        desk.runtime.send_text("sum/x", seconds)
    desk.run()
    assert counted == [0, 1, 2, 2, 2]
    assert kind.handled == 5
    assert [(id, round(seconds, 9)) for id, seconds in kind.slowest_ones()] == [("x", 0.5)]


def test_an_idle_receiver_is_put_away_and_leaves_no_trace() -> None:
    desk, shelf = Desk(), Shelf()
    kind = serving(desk, shelf, idle=5.0)
    desk.tick(1.0)
    desk.runtime.send_text("sum/x", {"keep": 5})
    desk.run()
    assert kind.activations["x"].used_at == 101.0
    for _ in range(4):
        desk.tick(1.0)
    assert [*kind.activations] == ["x"]
    desk.tick(1.0)
    assert kind.activations == {}
    assert [*shelf.documents] == ["x"]
    assert shelf.calls[-1] == ("save", 0, "x", 3)


@pytest.mark.parametrize("change", ["stop", "reset"])
def test_a_durable_timer_rings_although_a_message_that_failed_took_it_back(change: str) -> None:
    desk, shelf, rung = Desk(), Shelf(), []

    class Alarmed:
        def receive(self, context: glue.Context, message: str) -> None:
            match message:
                case "set":
                    self.timer = context.after(5.0, "ring", durable=True)
                case "ring":
                    rung.append(desk.time)
                case _:
                    self.timer.stop() if message == "stop" else self.timer.reset(60.0)
                    raise ValueError("too late")

    kind = serving(desk, shelf)
    kind.factory = Alarmed
    for message in ("set", change):
        desk.runtime.send_text("sum/x", message)
        desk.run()
    assert shelf.documents["x"]["timers"] == [[1105.0, "ring"]]
    for _ in range(6):
        desk.tick(1.0)
    assert rung == [105.0]
    assert "timers" not in shelf.documents["x"]


def test_a_document_that_is_wrong_fails_its_message_and_a_store_that_is_away_sends_it_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk, shelf = Desk(), Shelf()
    kind = serving(desk, shelf)
    shelf.error = ValueError("no document")
    desk.deliver(batch(1, 1, ("x", 5)))
    desk.runtime.send_text("sum/x", 6)
    desk.run()
    assert [one.getMessage() for one in caplog.records] == ["sum/x: ValueError('no document')"] * 2
    failed = [(number, one.seq, one.status) for report in reports(desk) for number, one in report.results]
    assert failed == [(1, 1, FAILED)]
    assert (desk.statistics["receivers failed"], desk.runtime.outbox.count) == (2, 0)
    shelf.error = OSError("away")
    settled: list[Any] = []
    desk.runtime.send(parse("sum/x"), 7, (), 9.0, lambda error, answer: settled.append(error))
    desk.runtime.send_text("sum/x", 8)
    desk.run()
    entries = [entry for sent in desk.runtime.outbox._batches.values() for entry in sent.entries.values()]
    assert [(one.id, one.body, one.until, one.within) for one in entries] == [
        ("x", b"7", 109.0, 9.0), ("x", b"8", 160.0, 0.0),
    ]  # fmt: skip
    assert (desk.statistics["receivers fenced off"], settled, kind.activations) == (1, [], {})
    assert not kind.put("x", 9)  # it would overtake what is under way
    assert kind.put("y", 9) is False


def test_messages_for_another_partition_fail_and_those_that_came_before_are_answered_once() -> None:
    desk = Desk()
    kind = serving(desk)
    desk.deliver(batch(1, 1, ("x", 1), ("a\0b", 2), ("y", 3), within=2.0))
    calls = [mail for one in kind.activations.values() for mail in one.mailbox or ()]
    assert [(one.seq, one.until, one.path, one.is_request) for one in calls] == [
        (1, 102.0, ("a/b",), True), (3, 102.0, ("a/b",), True),
    ]  # fmt: skip
    desk.deliver(batch(2, 2, ("z", 2), ("y", 3)))
    (inbox,) = desk.runtime._inboxes.values()
    desk.run()
    assert desk.got == [("x", 1), ("y", 3), ("z", 2)]
    told = reports(desk)
    results = sorted((number, one.seq, one.status) for one in told for number, one in one.results)
    assert results == [(1, 1, 1), (1, 2, FAILED), (2, 3, 1)]
    assert sorted(done for one in told for done in one.done) == [(2, [2])]
    assert (inbox.is_empty, inbox._waiting) == (True, 0)
    desk.tick()
    assert desk.runtime._inboxes == {}


def test_what_is_too_much_or_too_large_is_refused_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    monkeypatch.setattr(desk.runtime, "_limit", 10)
    desk.runtime.send(parse("other/x"), bytes(10))
    with pytest.raises(glue.MessageTooLargeError):
        desk.runtime.send(parse("other/x"), bytes(11))
    monkeypatch.setattr(receiver_runtime, "WAITING", 1)
    with pytest.raises(glue.WouldBlockError):
        desk.runtime.send(parse("other/x"), 1)
    assert isinstance(receiver_running._kind_of(SimpleNamespace(), KeyError("a")), AgainError)  # type: ignore[arg-type]
