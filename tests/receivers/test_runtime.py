"""What an endpoint does with messages to receivers: limits on both sides, hosts that fall silent, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
from glue.contract import Alarm, Delivery, PeerRemoved, Publication
from glue.endpoint import receiver_kind, receiver_running, receiver_runtime
from glue.endpoint.receiver_hosts import BEAT, BEAT_TOPIC, HEARD_OF, SILENT, Beat
from glue.receivers import inbox as inboxes
from glue.receivers import outbox as outboxes
from glue.receivers.address import parse
from glue.receivers.wire import AGAIN, FAILED, at_topic, decode, encode, encode_batch
from glue.simulation import World

PEER = "f" * 16


class Host:
    """A simulated host of "sum", which may be held up, with its runtime and what it publishes from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partitions: int = 2, **options: Any) -> None:
        self.world = World(5)
        self.host = self.world.endpoint("host")
        self.got: list[Any] = []
        self.patch = monkeypatch
        self.kind_of = self.host.receivers(
            "sum", self.receive, self.host.model("plant", voters=1), partitions=partitions, **options
        )
        assert self.world.run_until(lambda: self.kind_of.owned == partitions, 10)
        self.runtime: Any = self.host._parts().runtime
        self.kind: Any = self.runtime.kinds[":sum"]
        self.asked: list[Any] = []
        self._order = self.runtime.order
        monkeypatch.setattr(self.runtime, "order", self.order)

    def order(self, request: Any) -> None:
        self.asked.append(request)
        self._order(request)

    def receive(self, context: glue.Context, message: Any) -> Any:
        self.got.append(message)
        if message == "fail":
            raise KeyError("as asked")
        return message

    def published(self, topic: str) -> list[tuple[dict[str, Any], bytes]]:
        """Head and body of what was published on a topic since the last look."""
        found, self.asked = self.asked, []
        return [
            decode(payload)
            for one in found if isinstance(one, Publication) and one.topic == topic for payload in one.payloads
        ]  # fmt: skip

    def deliver(self, *payloads: bytes, token: Any = None, topic: str = "", life: int = 1) -> None:
        delivery = Delivery(topic, payloads, None, "peer", PEER, life, 1, 0.0, False, ())
        (token or self.runtime)._deliver(delivery)

    def batch(self, number: int, seq: int, *bodies: Any, partition: int | None = None, partitions: int = 2) -> bytes:
        place = self.partition if partition is None else partition
        entries: Any = [
            SimpleNamespace(seq=seq + index, id="x", body=orjson.dumps(body), is_json=True, within=0.0, path=())
            for index, body in enumerate(bodies)
        ]
        return encode_batch(number, ":sum", place, partitions, entries)

    @property
    def partition(self) -> int:
        from glue.receivers.address import partition_of

        return partition_of("x", 2)


def test_a_batch_is_taken_handled_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    host.deliver(host.batch(1, 1, "a", "fail"))
    ((head, _),) = host.published(at_topic(PEER))
    assert head == {"taken": [1]}
    host.world.run(0.3)
    told = host.published(at_topic(PEER))
    assert [head["results"] for head, _ in told if head.get("results")] == [[[1, 2, FAILED, len(told[0][1]), 1]]]
    assert orjson.loads(told[0][1]) == ["KeyError", "'as asked'"]
    assert host.got == ["a", "fail"]
    assert host.host.statistics["endpoint"]["handler failed"] == 1


@pytest.mark.parametrize("wrong", [{"partitions": 3}, {"partition": 9, "partitions": 2}])
def test_a_batch_of_what_is_not_served_here_is_sent_elsewhere(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> None:
    host = Host(monkeypatch)
    partition = wrong.get("partition", host.partition) % wrong["partitions"]
    del host.kind._ready[partition]
    host.deliver(host.batch(1, 1, "a", partition=partition, partitions=wrong["partitions"]))
    ((head, _),) = host.published(at_topic(PEER))
    assert head == {"moved": [[1, host.host.id]]}
    assert host.got == []


def test_a_full_host_takes_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    assert (inboxes.WAITING, receiver_running.MAILBOX) == (200_000, 65_536)
    monkeypatch.setattr(inboxes, "WAITING", 2)
    host.deliver(host.batch(1, 1, "a", "b"), host.batch(2, 3, "c"))
    ((head, _),) = host.published(at_topic(PEER))
    assert head == {"taken": [1], "moved": [[2, ""]]}
    assert host.host.statistics["endpoint"]["batches to a full host"] == 1
    host.world.run(0.3)
    host.deliver(host.batch(3, 3, "c"))
    host.world.run(0.3)
    assert host.got == ["a", "b", "c"]


def test_a_full_receiver_hands_messages_of_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    assert receiver_running.ARRIVED == 4 * 65_536
    monkeypatch.setattr(receiver_running, "ARRIVED", 2)
    host.deliver(host.batch(1, 1, "a", "b", "c"))
    host.world.run(0.3)
    told = [result for head, _ in host.published(at_topic(PEER)) for result in head.get("results", [])]
    assert [(number, seq, status) for number, seq, status, *_ in told] == [(1, 3, AGAIN)]
    assert host.got == ["a", "b"]
    assert host.host.statistics["endpoint"]["messages to full receivers"] == 1


def test_so_many_messages_of_this_program_wait_at_one_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    monkeypatch.setattr(receiver_running, "MAILBOX", 2)
    monkeypatch.setattr(receiver_runtime, "MAILBOX", 2)
    for number in range(2):
        host.runtime.check_room(parse("sum/x"))
        host.runtime.send_text("sum/x", number)
    full = "2 messages wait at sum/x; send fewer at once"
    calls: list[Callable[[], None]] = [
        lambda: host.runtime.send_text("sum/x", 2), lambda: host.runtime.send(parse("sum/x"), 2),
        lambda: host.runtime.check_room(parse("sum/x")),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(glue.WouldBlockError) as caught:
            call()
        assert str(caught.value) == full
    host.runtime.check_room(parse("sum/y"))
    host.kind.send("sum/x", "forced")  # its room was looked at
    host.world.run(0.3)
    assert host.got == [0, 1, "forced"]


def test_so_many_receivers_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    assert receiver_running.ACTIVE == 500_000
    monkeypatch.setattr(receiver_running, "ACTIVE", 1)
    host.runtime.send_text("sum/x", 1)
    with pytest.raises(glue.WouldBlockError, match=r"1 receivers of ':sum' are in memory"):
        host.runtime.send_text("sum/y", 1)
    assert host.host.statistics["endpoint"]["messages to too many receivers"] == 1
    assert host.kind_of.active == 1


def test_so_many_messages_wait_for_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    assert outboxes.WAITING == 100_000
    monkeypatch.setattr(receiver_runtime, "WAITING", 2)
    for number in range(2):
        host.runtime.check_room(parse("other/x"))
        host.runtime.send(parse("other/x"), number)
    assert host.runtime.has_unsent
    calls: list[Callable[[], None]] = [
        lambda: host.runtime.check_room(parse("other/x")), lambda: host.runtime.send(parse("other/x"), 2),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(glue.WouldBlockError) as caught:
            call()
        assert str(caught.value) == "2 messages to receivers wait to be handled; send fewer at once"
    host.runtime.send(parse("other/x"), 2, is_forced=True)
    assert host.runtime.outbox.count == 3


def test_a_message_is_as_large_as_a_batch_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    limit = host.host.settings.message_limit - (64 << 10)
    host.patch.setattr(host.runtime, "_limit", 100)
    assert host.runtime._limit == 100 < limit
    host.runtime.send(parse("other/x"), bytes(100))
    with pytest.raises(glue.MessageTooLargeError) as caught:
        host.runtime.send(parse("other/x"), bytes(101))
    assert str(caught.value) == "other/x: the message has 101 bytes, more than 100"


def test_a_cycle_of_requests_is_refused_with_its_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    path = ("a/1", "sum/x", "b/2")
    with pytest.raises(glue.RequestCycleError) as caught:
        host.runtime.ask(parse("sum/x"), 1, 5.0, path, lambda error, answer: None)
    assert str(caught.value) == "a cycle of requests: sum/x → b/2 → sum/x"


def test_a_silent_host_is_taken_for_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    beat = encode({"kinds": {"other": 3}})
    assert (BEAT, SILENT) == (0.5, 2.0)
    host.deliver(beat, token=host.runtime._beat_token)
    assert host.runtime.outbox.hosts["other"] == (3, {PEER})
    host.world.run(1.5)
    host.deliver(beat, token=host.runtime._beat_token)
    host.world.run(1.9)
    assert PEER in host.runtime.beats
    host.world.run(0.3)
    assert PEER not in host.runtime.beats
    assert "other" not in host.runtime.outbox.hosts
    assert host.host.statistics["endpoint"]["hosts that fell silent"] == 1


def test_after_this_process_stood_still_no_host_was_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    host.deliver(encode({"kinds": {"other": 3}}), token=host.runtime._beat_token)
    host.runtime.beats[PEER].at -= 1.95
    host.runtime._ticked_at -= 1.01
    host.world.run(0.5)
    assert PEER in host.runtime.beats
    host.runtime.beats[PEER].at -= 1.95
    host.world.run(0.5)
    assert PEER not in host.runtime.beats


def test_what_a_lost_host_had_goes_to_another_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    beat, other = encode({"kinds": {":other": 1}}), "d" * 16
    host.deliver(beat, token=host.runtime._beat_token)
    token = host.runtime._beat_token
    token._deliver(Delivery(BEAT_TOPIC, [beat], None, "second", other, 1, 1, 0.0, False, ()))
    host.runtime.send(parse("other/x"), 1)
    host.world.run(0.05)
    sent = {at_topic(peer): peer for peer in (PEER, other)}
    (first,) = [one.topic for one in host.asked if isinstance(one, Publication) and one.topic in sent]
    host.asked.clear()
    host.runtime.note(PeerRemoved(sent[first], 1, "b", "expired"))
    host.world.run(0.05)
    (second,) = [one.topic for one in host.asked if isinstance(one, Publication) and one.topic in sent]
    assert {first, second} == sent.keys()


def test_a_hello_is_answered_by_a_beat_and_beats_come_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    host.world.run(0.45)
    host.published(BEAT_TOPIC)
    host.deliver(encode({"kinds": {}, "hello": 1}), token=host.runtime._beat_token)
    host.world.run(0.11)
    assert host.published(BEAT_TOPIC) == [({"kinds": {":sum": 2}}, b"")]
    host.world.run(2.05)
    assert len(host.published(BEAT_TOPIC)) == 3


def test_malformed_beats_are_counted_and_the_next_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    good = encode({"kinds": {":sum": 3, "other": 0, "more": 2, "most": 2_000_000}})
    host.deliver(b"no beat", encode({"kinds": {"a": "b"}}), good, token=host.runtime._beat_token)
    assert host.host.statistics["endpoint"]["malformed receiver messages"] == 2
    assert host.host.statistics["endpoint"]["hosts with other partitions"] == 1
    assert host.runtime.outbox.hosts == {":sum": (2, {host.host.id}), "more": (2, {PEER})}
    own = Delivery(BEAT_TOPIC, [good], None, "host", host.host.id, 1, 1, 0.0, False, ())
    host.runtime._beat_token._deliver(own)
    assert [*host.runtime.beats] == [PEER]


def test_who_was_heard_of_once_did_not_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    error = host.runtime.unanswered(parse("other/x"))
    assert isinstance(error, glue.NoResponderError)
    assert str(error) == "other/x: no host of kind 'other' was heard of; is that its name, and does one run?"
    host.deliver(encode({"kinds": {":other": 3}}), token=host.runtime._beat_token)
    host.runtime.note(PeerRemoved(PEER, 1, "peer", "goodbye"))
    error = host.runtime.unanswered(parse("other/x"))
    assert isinstance(error, glue.RequestTimeoutError)
    assert str(error) == "other/x did not answer in time; it may have acted"
    assert HEARD_OF == 4096


def test_what_is_done_is_told_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    host.runtime.send_text("sum/x", 1)
    host.world.run(0.3)
    host.published("")
    host.deliver(encode({"status": 1}))
    ((head, body),) = host.published(at_topic(PEER))
    assert head == {"counters": 1}
    (counters,) = orjson.loads(body)
    expected = {"kind": ":sum", "partitions": 2, "of": 2, "active": 1, "waiting": 0, "handled": 1, "failed": 0}
    assert {name: counters[name] for name in expected} == expected
    assert counters["longest"] == []
    told: list[Any] = []
    host.deliver(encode({"counters": 1}, b"[5]"))
    host.runtime.beats[PEER] = Beat(1, host.runtime.now(), {})
    host.runtime.ask_hosts(lambda name, counters: told.append((name, counters)))
    assert host.published(at_topic(PEER)) == [({"status": 1}, b"")]
    host.deliver(encode({"counters": 1}, b"[5]"))
    assert told == [("peer", [5])]


def test_a_closed_endpoint_is_noticed_by_what_publishes_and_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(request: Any) -> None:
        raise glue.ClosedError("closed")

    acts: list[Callable[[Any], None]] = [
        lambda runtime: runtime._publish("t", [b""]),
        lambda runtime: runtime.wake_at(-1.0),
    ]
    for act in acts:
        host = Host(monkeypatch)
        host.patch.setattr(host.runtime, "order", closed)
        assert not host.runtime.is_closed
        act(host.runtime)
        assert host.runtime.is_closed


def test_a_runtime_wakes_up_for_the_earliest(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    now = host.runtime.now()
    host.asked.clear()
    for due in (now + 0.05, now + 0.07, now + 0.05, now + 0.02):
        host.runtime.wake_at(due)
    assert [one.due for one in host.asked if isinstance(one, Alarm)] == [now + 0.05, now + 0.02]
    host.runtime.is_closed = True
    host.runtime.wake_at(now)
    assert len(host.asked) == 2


def test_what_was_not_handled_is_told_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(monkeypatch)
    host.runtime.send(parse("other/x"), 1)
    host.runtime.close()
    assert [record.getMessage() for record in caplog.records] == [
        "1 messages to receivers were not handled before the end: they are lost"
    ]
    assert not host.runtime.has_unsent


def test_parked_messages_tell_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    for payload, told in (({"a": 1}, {"a": 1}), (b"\xff\x01", "ff01")):
        host.asked.clear()
        host.runtime.park("dead", "sum/x", payload, ValueError("m" * 3000))
        (letter,) = [one for one in host.asked if isinstance(one, Publication)]
        assert (letter.topic, letter.json, letter.length) == ("dead", True, len(letter.payloads[0]))
        assert orjson.loads(letter.payloads[0]) == {
            "receiver": "sum/x", "error": "ValueError", "message": "m" * 2000, "payload": told,
        }  # fmt: skip
    assert host.host.statistics["endpoint"]["messages parked"] == 2


def test_timers_that_were_taken_back_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    assert (receiver_kind.TIMERS_LEAST, receiver_kind.IDLE_LOOK) == (1024, 1.0)
    monkeypatch.setattr(host.kind, "_timers_most", 4)
    monkeypatch.setattr(receiver_kind, "TIMERS_LEAST", 4)
    timers = [SimpleNamespace(due=host.runtime.now() + 100.0 - number) for number in range(4)]
    for timer in timers[:3]:
        host.kind.arm(timer)
    assert host.kind.due == timers[2].due
    for timer in timers[1:3]:
        timer.due = float("inf")
    host.kind.arm(timers[3])
    assert len(host.kind._timers) == 4
    host.kind.arm(timers[3])
    assert [one[2] for one in sorted(host.kind._timers)[:2]] == [timers[3], timers[3]]
    assert len(host.kind._timers) == 3
    assert host.kind.due == timers[3].due
    host.kind._timers_most = 3
    host.kind.arm(timers[0])
    assert host.kind._timers_most == 6


def test_the_slowest_messages_of_three_receivers_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    assert (receiver_running.SLOW, receiver_running.SLOWEST) == (0.0001, 3)
    assert host.kind.slowest == 0.0
    for id, seconds in (("a", 0.0001), ("b", 0.2), ("c", 0.1), ("b", 0.15), ("d", 0.3), ("e", 0.05), ("f", 0.4)):
        host.kind._note_slow(id, seconds)
    assert host.kind.slowest_ones() == [("f", 0.4), ("d", 0.3), ("b", 0.2)]
    assert host.kind.slowest == 0.4
    counters = host.kind.counters()
    assert counters["slowest"] == [["f", 400.0], ["d", 300.0], ["b", 200.0]]
    assert counters["slowest_ms"] == 400.0
    host.kind._note_slow("g", 0.2)
    assert len(host.kind.slowest_ones()) == 3


def test_the_longest_mailboxes_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    for id, count in (("a", 1), ("b", 3), ("c", 2), ("d", 4)):
        for number in range(count):
            host.runtime.send_text(f"sum/{id}", number)
    counters = host.kind.counters()
    assert (counters["waiting"], counters["longest"]) == (10, [["d", 4], ["b", 3], ["c", 2]])
