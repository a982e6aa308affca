"""Messages that come back are sent again in their order, and what is reported of them is bounded."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import glue
import glue.receivers.inbox as inbox_module
from glue.endpoint import receiver_running
from glue.endpoint.receiver_hosts import PENDING, Resume
from glue.endpoint.receiver_ops import Operation
from glue.endpoint.receiver_results import result_of
from glue.receivers.activation import settle
from glue.receivers.context import Mail
from glue.receivers.inbox import BEHIND, Inbox
from glue.receivers.outbox import PAUSE
from glue.receivers.wire import AGAIN, Report, Result, decode, decode_report, encode_report
from glue.simulation import World
from glue.simulation.receivers import SimulatedExecutor
from tests.receivers.desk import Shelf
from tests.receivers.test_parts import A, Box
from tests.receivers.test_runtime import Host


def handing_back(monkeypatch: pytest.MonkeyPatch, *refused: bool) -> Host:
    """A host whose receiver has no room for some messages, though other threads make room meanwhile."""

    class Room:
        """What is compared with the messages that wait."""

        left = iter([*refused, *[False] * 9])

        def __le__(self, waiting: int) -> bool:
            return next(self.left)

    host = Host(monkeypatch)
    monkeypatch.setattr(receiver_running, "ARRIVED", Room())
    return host


def send(host: Host, number: int, seq: int, *bodies: str) -> None:
    """Let a batch arrive and be handled."""
    host.deliver(host.batch(number, seq, *bodies))
    host.world.run(0.3)


def test_no_message_passes_one_that_was_handed_back_as_there_was_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    host = handing_back(monkeypatch, False, True)
    send(host, 1, 1, "a", "b", "c")
    send(host, 2, 2, "b", "c")
    assert host.got == ["a", "b", "c"]


def test_no_batch_on_its_way_passes_messages_that_were_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    host = handing_back(monkeypatch, False, True)
    send(host, 1, 1, "a", "b")
    send(host, 2, 3, "c")  # its sender does not know yet that b comes back
    assert host.got == ["a"]
    send(host, 3, 2, "b", "c")
    send(host, 4, 4, "d")
    assert host.got == ["a", "b", "c", "d"]


def test_messages_behind_one_that_its_sender_gave_up_are_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    host = handing_back(monkeypatch, True)
    send(host, 1, 1, "a")
    send(host, 2, 2, "b")  # after a was given up: the host cannot know it, and asks for it once more
    send(host, 3, 2, "b", "c")
    assert host.got == ["b", "c"]


def test_a_store_that_fails_now_and_then_costs_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a store is slow, and fails, further messages are on their way."""
    slow, saves, got, random = 0.001, iter(range(1, 1000)), [], Random(1)

    class Flaky(Shelf):
        def save(self, *change: Any) -> None:
            self.error = OSError("busy") if next(saves) % 20 == 0 else None
            super().save(*change)

        def load(self, *place: Any) -> Any:
            self.error = None
            return super().load(*place)

    def receive(context: glue.Context, message: int) -> None:
        got.append(message)
        context.state["last"] = message

    perform = SimulatedExecutor.perform

    def perform_slowly(self: SimulatedExecutor, operation: Operation, resume: Resume) -> Any:
        outcome = perform(self, operation, resume)
        if outcome is not PENDING:
            self.soon(lambda: resume(*outcome), slow)
        return PENDING

    monkeypatch.setattr(SimulatedExecutor, "perform", perform_slowly)
    world = World(3)
    host, sender = world.endpoint("host"), world.endpoint("sender")
    kind = host.receivers("sum", receive, host.model("plant", voters=1), partitions=2, store=Flaky())
    assert world.run_until(lambda: kind.owned == 2, 10)
    world.run(3.0)
    for number in range(100):
        sender.send("sum/x", number)
        world.run(random.uniform(0.5, 2.0) * slow)
    world.run(5.0)
    assert host.statistics["endpoint"]["receivers fenced off"] > 3
    assert sorted({*got}) == [*range(100)]
    assert got == sorted(got)


def test_a_sender_whose_messages_never_come_again_is_forgotten() -> None:
    inbox = Inbox(A, f"{A}/1", result_of, lambda: None)
    inbox.handed_back((":k", 0), 7)
    for _ in range(BEHIND):
        assert not inbox.is_empty
        inbox.remind()
    assert inbox.is_empty
    assert not inbox.is_ahead((":k", 0), 8)


def test_messages_that_come_back_in_another_order_are_sent_again_in_theirs() -> None:
    box = Box()
    box.hosts(A)
    for number in range(1, 4):
        box.put(b"%d" % number)
        if number != 2:
            box.flush(0.0)
            box.report(0.0, A, taken=[1] if number == 1 else [])
    box.report(0.0, A, results=[(2, Result(3, AGAIN)), (2, Result(2, AGAIN))])  # before it is told that it was taken
    box.report(0.0, A, results=[(1, Result(1, AGAIN))])
    assert box.flush(2 * PAUSE) == []
    box.report(0.0, A, taken=[2])
    assert box.flush(2 * PAUSE) == [(A, 3, [b"1", b"2", b"3"])]  # else a receiver takes the later ones for repeated


def test_messages_that_were_sent_again_take_no_room_once_they_are_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "WAITING", 3)
    inbox = Inbox(A, f"{A}/1", result_of, lambda: None)
    for number in range(1, 10, 2):  # each batch comes twice, the second time while its first message still waits
        first = inbox.open((":k", 0), number, 2)
        first.mails += [Mail(None, first, 1), Mail(None, first, 2)]
        waits, done = first.mails
        settle(done, None, None)
        inbox.report()
        second = inbox.open((":k", 0), number + 1, 2)
        inbox.take_over(waits, first, second)
        second.mails.append(Mail(None, second, 2))
        assert inbox.is_full
        for mail in second.mails:
            settle(mail, None, None)
        assert inbox.report() == Report([number + 1], [], [(number + 1, None)], [])
        assert not inbox.is_full


def test_batches_that_are_done_all_at_once_are_told_in_reports_that_their_sender_takes() -> None:
    inbox = Inbox(A, f"{A}/1", result_of, lambda: None)
    for number in range(1, 4098):
        settle(Mail(None, inbox.open((":k", number % 64), number, 1), number), None, None)
    inbox.taken.clear()
    told: list[int] = []
    while inbox.has_more or not told:
        report = inbox.report()
        assert report is not None
        told += [number for number, _ in decode_report(*decode(encode_report(report))).done]
    assert sorted(told) == [*range(1, 4098)]
    assert inbox.is_empty
