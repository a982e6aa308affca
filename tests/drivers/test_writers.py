"""The threads that store and record, and the send policy, without a network."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.contract import Delivery
from glue.drivers import log_writer, send_policy
from glue.drivers.directory import FileDirectory, open_directory
from glue.drivers.log_writer import LogWriter
from glue.drivers.recorder import RecordingThread
from glue.drivers.send_policy import SendPolicy
from glue.endpoint.core import STREAM_SHARE
from tests.support.lan import PATIENCE


def delivery(sequence: int) -> Delivery:
    return Delivery("t", [b"x"], None, "you", "id-you", 1, sequence, 0.0, False, ())


class Keeping:
    """What a writer stores, with faults that the test orders."""

    def __init__(self) -> None:
        self.deadline = math.inf
        self.did: list[Any] = []
        self.fails: dict[str, Exception] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.seen: Callable[[], None] = lambda: None

    def _do(self, name: str, what: Any) -> None:
        assert self.gate.wait(PATIENCE)
        self.did.append((name, what))
        if name in self.fails:
            raise self.fails.pop(name)

    def store(self, now: float, deliveries: list[Delivery]) -> None:
        self._do("store", [one.sequence for one in deliveries])

    def store_records(self, now: float, records: Any) -> None:
        self._do("records", records)

    def commit(self, now: float, unix_time: float) -> None:
        assert unix_time > 1e9
        self.deadline = math.inf
        self._do("commit", None)
        self.seen()

    def close(self, now: float) -> None:
        self._do("close", None)


def writer_of(keeping: Keeping) -> tuple[LogWriter, list[int]]:
    handled: list[int] = []
    there: Any = keeping
    return LogWriter(there, lambda delivery: handled.append(delivery.sequence)), handled


def done(writer: LogWriter) -> None:
    """Wait until all that was given to a writer is done."""
    event = threading.Event()
    writer.call(event.set)
    assert event.wait(PATIENCE)


def test_what_waits_is_stored_together_and_then_called_and_committed_when_it_is_due() -> None:
    keeping = Keeping()
    keeping.gate.clear()
    writer, handled = writer_of(keeping)
    writer.submit(delivery(1))
    for number in (2, 3):
        writer.submit(delivery(number))
    writer.store([])
    writer.submit(delivery(4))
    keeping.gate.set()
    done(writer)
    stored = [number for name, numbers in keeping.did if name == "store" for number in numbers]
    assert stored == handled == [1, 2, 3, 4]
    assert [name for name, _ in keeping.did].count("records") == 1
    assert ("commit", None) not in keeping.did
    writer.call(lambda: setattr(keeping, "deadline", 0.0))
    done(writer)
    assert keeping.did[-1] == ("commit", None)
    writer.close(PATIENCE)
    writer.close(PATIENCE)
    assert [one for one in keeping.did if one[0] == "close"] == [("close", None)]
    assert not writer._thread.is_alive()


def test_a_commit_that_becomes_due_is_done_without_anything_new() -> None:
    keeping = Keeping()
    committed = threading.Event()
    keeping.seen = committed.set
    writer, _ = writer_of(keeping)
    writer.call(lambda: setattr(keeping, "deadline", time.monotonic() + 0.01))
    assert committed.wait(PATIENCE)
    writer.close(PATIENCE)


def test_a_writer_goes_on_after_a_fault_and_what_could_not_be_stored_is_handled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keeping = Keeping()
    keeping.gate.clear()
    writer, handled = writer_of(keeping)
    keeping.fails = {"store": ValueError("1"), "commit": ValueError("2"), "close": OSError("no disk")}
    writer.call(lambda: setattr(keeping, "deadline", 0.0))
    writer.store([])
    writer.submit(delivery(1))
    writer.call(lambda: 1 / 0)
    keeping.gate.set()
    done(writer)  # also what is called together with what could not be stored
    writer.submit(delivery(2))
    done(writer)
    assert handled == [1, 2]
    keeping.fails["store"] = ValueError("3")
    writer.submit(delivery(3))
    writer.close(PATIENCE)
    assert not writer._thread.is_alive()
    assert [record.getMessage() for record in caplog.records] == [*["storing failed"] * 4, "the log was not closed"]


@pytest.mark.parametrize(("items", "deadline", "steps"), [
    ([*range(300), None], math.inf, [[("store", [*range(256)])], [("store", [*range(256, 300)])], False]),
    ([1, 2, "call", 3, "call", "call"], math.inf, [
        [("store", [1, 2]), "called"], [("store", [3]), "called"], ["called"],
    ]),
    ([1, None, 2], math.inf, [[("store", [1])], False]),
    ([], 100.0, [[("commit", None)]]), ([], 99.0, [[("commit", None)]]),
    ([1], 100.0, [[("store", [1]), ("commit", None)]]), ([1], 100.001, [[("store", [1])]]),
])  # fmt: skip
def test_each_step_stores_then_calls_and_then_commits_what_is_due(
    items: list[Any], deadline: float, steps: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step ends with what is called, at the end, or with 256 deliveries; False: it was the last."""
    monkeypatch.setattr(log_writer, "time", SimpleNamespace(monotonic=lambda: 100.0, time=lambda: 2e9))
    keeping, handled = Keeping(), list[int]()
    keeping.deadline = deadline
    lone = LogWriter.__new__(LogWriter)
    lone._queue, lone._handled = SimpleQueue(), lambda delivery: handled.append(delivery.sequence)

    def call() -> None:
        keeping.did.append("called")

    for item in items:
        lone._queue.put(delivery(item) if isinstance(item, int) else call if item else None)
    there: Any = keeping
    found: list[Any] = []
    for _ in [step for step in steps if step is not False]:
        is_open = lone._step(there)
        found += [keeping.did, *([False] * (not is_open))]
        keeping.did = []
    assert found == steps
    assert handled == [number for step in steps if step for one in step if one[0] == "store" for number in one[1]]


def test_a_writer_may_be_closed_by_what_it_calls() -> None:
    keeping = Keeping()
    writer, handled = writer_of(keeping)
    writer.call(lambda: writer.close(PATIENCE))
    writer.submit(delivery(1))
    writer._thread.join(PATIENCE)
    assert not writer._thread.is_alive()
    assert keeping.did[-1] == ("close", None)
    assert len(handled) <= 1


class File:
    """A file of recorded messages, with faults that the test orders."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.left_out = 0
        self.is_abandoned = False
        self.is_closed = False
        self.fails: list[Exception | None] = []
        self.close_fails: Exception | None = None

    def write(self, messages: Any) -> None:
        error = self.fails.pop(0) if self.fails else None
        if error is not None:
            raise error
        self.written += [*messages]

    def abandon(self) -> None:
        self.is_abandoned = True

    def close(self) -> None:
        self.is_closed = True
        if self.close_fails is not None:
            raise self.close_fails


def recording(file: File) -> tuple[RecordingThread, list[int]]:
    handled: list[int] = []
    there: Any = file
    return RecordingThread(there, lambda delivery: handled.append(delivery.sequence)), handled


def test_a_recording_writes_all_and_ends_its_file() -> None:
    file = File()
    thread, handled = recording(file)
    assert thread._thread.daemon  # it keeps no program from ending
    for number in (1, 2):
        thread.submit(delivery(number))
    thread.close(PATIENCE)
    thread.close(PATIENCE)
    assert (len(file.written), handled, file.is_closed, thread.failure) == (2, [1, 2], True, "")
    assert not thread._thread.is_alive()


@pytest.mark.parametrize(("error", "told"), [(OSError("no disk"), "no disk"), (KeyError(), "KeyError")])
def test_a_recording_that_failed_writes_nothing_more(
    error: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = File()
    file.fails, file.close_fails = [None, error], OSError("later")
    thread, handled = recording(file)
    for number in (1, 2, 3):
        thread.submit(delivery(number))
    thread.close(PATIENCE)
    assert (len(file.written), handled, thread.failure) == (1, [1, 2, 3], told)
    assert [record.getMessage() for record in caplog.records] == [f"the recording ended: {told}"]
    file = File()
    file.close_fails = OSError("at the end")
    thread, _ = recording(file)
    thread.close(PATIENCE)
    assert thread.failure == "at the end"


def test_a_recording_that_leaves_messages_out_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    file = File()
    thread, _ = recording(file)
    for number in (1, 2, 3):
        thread.submit(delivery(number))
        while not thread._queue.empty():
            time.sleep(0)
        file.left_out = number
    thread.close(PATIENCE)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "begin another" in caplog.text
    assert thread.failure == ""


@pytest.mark.parametrize("make", [lambda: writer_of(Keeping())[0], lambda: recording(File())[0]])
def test_in_a_forked_child_nothing_is_left_to_close(make: Callable[[], Any]) -> None:
    thread = make()
    thread.close(PATIENCE)
    thread._is_closed = False
    thread._after_fork()
    thread.close(0.0)
    assert thread._queue.empty()


# -------------------------------------------------------------------------------------------------------- directories


def test_a_directory_says_why_it_cannot_be_used(tmp_path: Path) -> None:
    for wrong in (5, "", b""):
        with pytest.raises(glue.ConfigurationError) as caught:
            FileDirectory(wrong)  # type: ignore[arg-type]
        assert str(caught.value) == f"data_dir={wrong!r}: expected the path of a directory, or None for memory"
    assert open_directory(None) is None
    (tmp_path / "file").write_text("")
    with pytest.raises(glue.StorageError) as refused:
        FileDirectory(tmp_path / "file")
    place = str(tmp_path / "file")
    assert str(refused.value) == f"data_dir={place!r}: File exists ({place}); give a directory that can be written"
    with_it = FileDirectory(tmp_path / "deep" / "er")
    with pytest.raises(glue.StorageError) as used:
        FileDirectory(tmp_path / "deep" / "er")
    assert str(used.value) == f"data_dir={str(with_it.path)!r}: another process uses it; give each its own"
    with_it.close()
    with_it.close()
    open_directory(with_it.path).close()  # type: ignore[union-attr]


def test_a_directory_that_cannot_be_locked_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(glue.StorageError) as caught:
        FileDirectory(tmp_path)
    assert str(caught.value) == f"data_dir={str(tmp_path)!r}: it cannot be locked: No locks available"


# -------------------------------------------------------------------------------------------------------- send policy


class Clock:
    """The time that a send policy reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(send_policy, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_an_idle_line_sends_at_once_and_a_busy_one_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    policy = SendPolicy(100 << 20)
    assert policy.bundle == send_policy.BUNDLE
    assert SendPolicy(1000).bundle == 1000 // STREAM_SHARE
    assert policy.is_due(1, 0)
    policy.sent()
    assert not policy.is_due(1, 0)
    assert policy.is_due(policy.bundle, 10 * send_policy.BUSY)
    assert not policy.is_due(policy.bundle - 1, 0)
    clock.now += send_policy.COALESCE * 1.01
    assert policy.is_due(1, send_policy.BUSY - 1)
    assert not policy.is_due(1, send_policy.BUSY)
    policy.sent()
    policy.arrived(clock.now)
    assert policy.is_due(1, 0)  # it may be an answer
    policy.answered(clock.now)
    assert not policy.is_due(1, 0)
    policy.arrived(clock.now)
    policy.sent()
    assert not policy.is_due(1, 0)


def test_an_exchange_is_what_came_and_went_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    policy = SendPolicy(1 << 20)
    now, lately = clock.now, send_policy.LATELY
    assert not policy.is_exchange(now)
    policy.arrived(now)
    assert not policy.is_exchange(now)
    policy.spoke(now)
    assert policy.is_exchange(now)
    assert policy.is_exchange(now + 0.99 * lately)
    assert not policy.is_exchange(now + 1.01 * lately)
    policy.arrived(now + lately)
    assert not policy.is_exchange(now + 1.5 * lately)
    policy.answered(now + lately)
    assert policy.is_exchange(now + 1.5 * lately)
