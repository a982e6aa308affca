"""How long a sender waits for members that are silent or behind, and how soon it takes them back: in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from glue.contract import Accept, Inbound
from glue.transport.slow_receivers import PATIENCE, SILENCE, TRIAL
from glue.transport.wire import KEY, WINDOW
from tests.transport.network import Wire
from tests.transport.streams import BODY, silence, stream


def pauses(wire: Wire, seconds: float) -> float:
    """Publish as fast as may be for so long; the longest time in which another receiver got nothing."""
    longest, since = 0.0, wire.now
    heard, until = wire.heard[wire.ids[1]], wire.now + seconds
    while wire.now < until:
        before = len(heard)
        stream(wire, 0.01)
        if len(heard) > before:
            since = wire.now
        longest = max(longest, wire.now - since)
    return longest


def test_the_others_wait_for_a_silent_member_no_longer_than_its_patience_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.transport.slow_receivers.KEPT", 1 << 20)
    wire = Wire(4)
    stream(wire, 0.1)
    silence(wire, 3)
    longest = pauses(wire, 2)
    assert SILENCE < longest < PATIENCE + 0.05
    assert wire.transports[wire.ids[0]].statistics["frames given up for detached members"] > 0


def test_the_others_wait_for_a_member_that_never_catches_up_for_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers all the while, so it is never silent again."""
    monkeypatch.setattr("glue.transport.slow_receivers.KEPT", 1 << 20)
    wire = Wire(4)
    late = wire.ids[3]
    stream(wire, 0.1)
    silence(wire, 3)
    stream(wire, 0.2)
    wire.cut = set()
    last = [0.0]

    def loses(destination: str, entry: list[Any]) -> bool:
        if destination != late or entry[0] not in ("data", "group") or wire.now - last[0] > 0.05:
            last[0] = wire.now if destination == late else last[0]
            return False
        return True

    wire.loses = loses
    assert pauses(wire, 3) < 2 * PATIENCE + 0.1


def test_a_member_of_a_quiet_group_that_was_silent_for_a_moment_is_taken_back() -> None:
    """So little is sent that nobody's share of loss is known."""
    wire = Wire(4)
    statistics = wire.transports[wire.ids[0]].statistics
    count = 0
    for second in range(40):
        if second == 5:
            silence(wire, 3)
        elif second == 10:
            wire.cut = set()
        wire.publish(0, [1, 2, 3], b"%d" % count)
        count += 1
        wire.run(0.1)
    assert statistics["members detached: silent"] == 1
    assert statistics["members attached again"] == 1
    assert len(wire.heard[wire.ids[3]]) == count


def test_a_member_is_taken_back_once_its_trial_is_over_and_not_before() -> None:
    wire = Wire(4)
    statistics = wire.transports[wire.ids[0]].statistics
    for trial in range(3):
        wire.publish(0, [1, 2, 3], BODY)
        wire.run(0.2)
        silence(wire, 3)
        wire.publish(0, [1, 2, 3], BODY)
        wire.run(SILENCE + 0.2)
        assert statistics["members detached: silent"] == trial + 1
        wire.cut = set()
        for _ in range(int((TRIAL * 2**trial - 0.4) / 0.1)):
            wire.publish(0, [1, 2, 3], BODY)
            wire.run(0.1)
        assert statistics["members attached again"] == trial
        for _ in range(10):
            wire.publish(0, [1, 2, 3], BODY)
            wire.run(0.1)
        assert statistics["members attached again"] == trial + 1


def test_what_was_promised_is_taken_although_something_was_skipped_before_it() -> None:
    """The receiver accepts nothing new meanwhile, so it promises no more than it had."""
    wire = Wire(2)
    first, second = wire.ids
    wire.publish(0, [1], b"begin")
    wire.run(0.1)
    wire.send(second, Accept(False))
    skip = Inbound(first, 1, None, {KEY: ["skip", 1, 10]}, [b""])
    frames = Inbound(first, 1, None, {KEY: ["data", 0, 0, 0, 0, 0, 1, 10]}, [b"next"] * 100)
    wire.tell(second, skip, frames)
    assert [body for _, body in wire.heard[second]] == [b"begin"] + [b"next"] * 100


def test_after_a_skip_beyond_what_was_promised_no_less_than_nothing_is_promised() -> None:
    wire = Wire(2)
    first, second = wire.ids
    wire.publish(0, [1], b"begin")
    wire.run(0.1)
    wire.send(second, Accept(False))
    wire.sent.clear()
    wire.tell(second, Inbound(first, 1, None, {KEY: ["skip", 1, 2 * WINDOW]}, [b""]))
    (answer,) = [item.header[KEY] for source, _, item in wire.sent if source == second]
    assert (answer[0], answer[2], answer[4]) == ("ack", 0, 2 * WINDOW)
    wire.send(second, Accept(True))
    frames = Inbound(first, 1, None, {KEY: ["data", 0, 0, 0, 0, 0, 1, 2 * WINDOW]}, [b"next"])
    wire.run(0.1)
    wire.tell(second, frames)
    assert [body for _, body in wire.heard[second]] == [b"begin", b"next"]


def test_frames_that_waited_for_what_is_skipped_are_delivered_and_counted() -> None:
    wire = Wire(2)
    first, second = wire.ids
    wire.publish(0, [1], b"begin")
    wire.run(0.1)
    statistics = wire.transports[second].statistics
    before = statistics["frames received"]
    wire.tell(second, Inbound(first, 1, None, {KEY: ["data", 0, 0, 0, 0, 0, 1, 5]}, [b"late"] * 3))
    assert statistics["frames received"] == before
    wire.tell(second, Inbound(first, 1, None, {KEY: ["skip", 1, 5]}, [b""]))
    assert [body for _, body in wire.heard[second]] == [b"begin"] + [b"late"] * 3
    assert statistics["frames received"] == before + 3
