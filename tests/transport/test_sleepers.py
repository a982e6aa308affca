"""What waits for peers that are awake for moments only: when it goes on, what is told, and what gives way."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from glue.contract import Outbound, Undelivered
from glue.transport import sleepers as module
from glue.transport.channel_state import PEER_ASLEEP
from glue.transport.outcomes import Outcomes
from glue.transport.sleepers import ASLEEP, Sleepers
from glue.transport.wire import KEY

A, B, C = "a" * 16, "b" * 16, "c" * 16


class Queue:
    """A channel of which only the queue is there: messages with a size, a time and, perhaps, an end."""

    def __init__(self, number: int, *peers: str) -> None:
        self.number = number
        self.peers = peers
        self.paused = ""
        self.queue: list[Any] = []
        self.did: list[Any] = []
        self.attached: list[Any] = []

    def put(self, size: int, since: float, expires: float = 1e9, receipts: Any = ()) -> None:
        item = Outbound(self.peers, [bytes(size)], {}, expires=expires)
        item.messages, item.receipts = 1, receipts
        self.queue.append(SimpleNamespace(item=item, since=since))

    @property
    def size(self) -> int:
        return sum(len(pending.item.bodies[0]) for pending in self.queue)

    @property
    def messages(self) -> int:
        return len(self.queue)

    @property
    def idle(self) -> bool:
        return not self.queue

    @property
    def end(self) -> int:
        return 100 * self.number + len(self.queue)

    def barrier(self) -> Any:
        return SimpleNamespace(stop=None)

    @property
    def droppable(self) -> Any:
        return self.queue[0] if self.queue else None

    @property
    def newest(self) -> Any:
        return self.queue[-1]

    def drop(self, pending: Any) -> Any:
        self.queue.remove(pending)
        return pending.item

    def drop_expired(self, now: float) -> int:
        before = len(self.queue)
        self.queue = [pending for pending in self.queue if pending.item.expires >= now]
        return before - len(self.queue)

    def resume(self, now: float) -> None:
        self.paused = ""
        self.did.append(("resume", now))

    def hurry(self, now: float) -> None:
        self.did.append(("hurry", now))


class Beds:
    """Sleepers of three channels: two to one peer, one to another; and one to both, which is nobody's."""

    def __init__(self) -> None:
        self.statistics: Counter[str] = Counter()
        self.channels = [Queue(1, A), Queue(2, A), Queue(3, B), Queue(4, A, B)]
        self.outcomes = Outcomes(self.statistics)
        table: Any = {channel.number: channel for channel in self.channels}
        self.sleepers = Sleepers(table, self.outcomes)

    def note(self, now: float, peer: str, cycle: int) -> list[Any]:
        return [*self.sleepers.note(now, peer, cycle)]

    def lost(self) -> list[tuple[str, int, str]]:
        found = [(one.peer, one.count, one.cause) for one in self.outcomes.news if isinstance(one, Undelivered)]
        self.outcomes.news.clear()
        return found

    def told(self, peer: str) -> tuple[list[int], dict[str, int]] | None:
        report = self.sleepers.report(peer)
        if report is None:
            return None
        assert report.peers == (peer,)
        cycle, waited, dropped = report.header[KEY][1:4]
        return orjson.loads(report.bodies[0]), {"cycle": cycle, "waited": waited, "dropped": dropped}


def test_the_channels_of_a_sleeper_stop_and_go_on_with_its_cycles() -> None:
    beds = Beds()
    one, two, three, both = beds.channels
    assert beds.note(1.0, A, 0) == [one, two]
    assert [channel.did for channel in beds.channels] == [[("hurry", 1.0)]] * 2 + [[]] * 2
    assert not beds.sleepers.is_asleep((A,))
    assert beds.note(2.0, A, 1) == []
    assert [channel.paused for channel in beds.channels] == [PEER_ASLEEP, PEER_ASLEEP, "", ""]
    assert (beds.sleepers.is_asleep((A,)), beds.sleepers.is_asleep((B,))) == (True, False)
    assert beds.note(3.0, A, 2) == [one, two]
    assert beds.note(4.0, A, 2) == [one, two]
    assert one.did == two.did == [("hurry", 1.0), ("resume", 3.0), ("hurry", 4.0)]
    assert not beds.sleepers.is_asleep((A,))
    assert (three.did, both.did) == ([], [])
    allowed = [beds.sleepers.may_wake(peer, cycle) for peer, cycle in ((A, 2), (A, 4), (A, 3), (A, 0), (B, 2))]
    assert allowed == [True, True, False, False, False]


def test_a_sleeper_is_told_what_waited_for_it_and_what_was_given_up() -> None:
    beds = Beds()
    one, two, *_ = beds.channels
    beds.note(1.0, A, 0)
    assert beds.told(A) is None  # it has never slept
    beds.note(2.0, A, 1)
    assert beds.told(A) is None
    one.put(10, 2.0, expires=2.5)
    one.put(10, 2.0)
    two.put(10, 2.0, expires=2.9)
    two.put(10, 2.0)
    two.put(10, 2.0)
    beds.note(3.0, A, 2)
    assert beds.told(A) == ([1, 101, 2, 202], {"cycle": 2, "waited": 3, "dropped": 2})
    beds.note(3.5, A, 2)
    assert beds.told(A) == ([1, 101, 2, 202], {"cycle": 2, "waited": 3, "dropped": 2})
    one.queue.clear()
    beds.note(4.0, A, 3)
    beds.note(5.0, A, 4)
    assert beds.told(A) == ([2, 202], {"cycle": 4, "waited": 2, "dropped": 0})


def test_a_peer_that_answers_nothing_for_two_seconds_or_five_doublings_is_asleep() -> None:
    def member(backoff: int, answered_at: float) -> Any:
        return SimpleNamespace(
            round_trip=SimpleNamespace(doublings=lambda backoff: backoff - 1), backoff=backoff, answered_at=answered_at
        )

    assert (module.SILENT, module.SILENCE) == (5, 2.0)
    for backoff, answered_at, is_silent in (
        (1, 8.01, False), (1, 8.0, True), (0, 1.0, False), (5, 9.0, False), (6, 9.0, True),
    ):  # fmt: skip
        beds = Beds()
        one, two, *_ = beds.channels
        one.attached = [member(0, 1.0), member(backoff, answered_at)]
        beds.sleepers.check(one, 10.0)  # type: ignore[arg-type]  # that is no sleeper
        assert one.paused == ""
        beds.note(1.0, A, 0)
        beds.sleepers.check(one, 10.0)  # type: ignore[arg-type]
        assert [one.paused, two.paused] == ([PEER_ASLEEP] * 2 if is_silent else ["", ""])
        beds.sleepers.check(one, 10.0)  # type: ignore[arg-type]
        assert beds.statistics["sleepers found silent"] == is_silent
        beds.note(11.0, A, 0)
        assert (one.did[-1][0], beds.sleepers.is_asleep((A,))) == ("resume" if is_silent else "hurry", False)


def test_the_oldest_of_one_sleeper_gives_way_to_what_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (module.HELD_FOR_ONE, module.HELD_FOR_ALL) == (16 << 20, 64 << 20)
    monkeypatch.setattr(module, "HELD_FOR_ONE", 100)
    beds = Beds()
    one, two, *_ = beds.channels
    beds.note(1.0, A, 0)
    beds.note(1.0, A, 1)
    one.put(40, 3.0, receipts=["first"])
    two.put(60, 2.0)
    beds.sleepers.bound(one)  # type: ignore[arg-type]
    assert beds.lost() == []
    one.put(60, 4.0)
    beds.sleepers.bound(one)  # type: ignore[arg-type]
    assert beds.lost() == [(A, 1, ASLEEP)]
    assert [channel.size for channel in (one, two)] == [100, 0]
    two.put(101, 5.0)
    beds.sleepers.bound(two)  # type: ignore[arg-type]
    assert beds.lost() == [(A, 1, ASLEEP)]
    assert [channel.size for channel in (one, two)] == [100, 0]  # it would have thrown out all others
    one.put(1, 6.0)
    beds.sleepers.bound(one)  # type: ignore[arg-type]
    assert [getattr(news, "receipt", "") for news in beds.outcomes.news] == ["", "first"]
    assert beds.statistics == {f"messages lost: {ASLEEP}": 3}
    beds.note(7.0, A, 2)
    told = beds.told(A)
    assert told is not None
    assert told[1] == {"cycle": 2, "waited": 2, "dropped": 3}


def test_what_waited_for_a_peer_before_it_slept_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_FOR_ALL", 100)
    beds = Beds()
    one, _, three, _ = beds.channels
    one.put(60, 1.0)
    for peer in (A, B):
        beds.note(2.0, peer, 1)
    three.put(50, 3.0)
    beds.sleepers.bound(three)  # type: ignore[arg-type]
    assert beds.lost() == [(A, 1, ASLEEP)]
    assert (one.size, three.size) == (0, 50)


def test_of_all_sleepers_the_one_with_the_most_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_FOR_ALL", 100)
    beds = Beds()
    one, _, three, _ = beds.channels
    three.put(1000, 1.0)
    beds.sleepers.bound(three)  # type: ignore[arg-type]  # it is awake
    three.queue.clear()
    for peer in (A, B):
        beds.note(1.0, peer, 1)
    for size in (30, 30):
        one.put(size, 1.0)
        beds.sleepers.bound(one)  # type: ignore[arg-type]
    three.put(40, 2.0)
    beds.sleepers.bound(three)  # type: ignore[arg-type]
    assert beds.lost() == []
    three.put(1, 3.0)
    beds.sleepers.bound(three)  # type: ignore[arg-type]
    assert beds.lost() == [(A, 1, ASLEEP)]
    assert (one.size, three.size, beds.sleepers._held) == (30, 41, 71)
    beds.sleepers.forget(B)
    assert beds.sleepers._held == 30
    beds.sleepers.forget(B)
    one.queue.clear()
    beds.note(4.0, A, 2)
    assert beds.sleepers._held == 0


def test_a_message_is_split_for_those_who_sleep_now_and_then() -> None:
    beds = Beds()
    beds.note(1.0, A, 0)
    beds.note(1.0, B, 1)
    item = Outbound((A, B, C), [b"x"], {"t": [1]}, expires=9.0, priority=2)
    item.messages, item.receipts = 3, ["r"]
    item.after = (((A, C), 1), ((B,), 0), ((C,), 0))
    parts: list[Any] = [
        (one.peers, one.bodies, one.header, one.expires, one.priority, one.messages, one.receipts, one.after)
        for one in beds.sleepers.split(item)
    ]
    same = [b"x"], {"t": [1]}, 9.0, 2, 3, ["r"]
    assert parts == [
        ((A,), *same, (((A,), 1),)), ((B,), *same, (((B,), 0),)), ((C,), *same, (((C,), 1), ((C,), 0))),
    ]  # fmt: skip
    assert [one.peers for one in beds.sleepers.split(Outbound((A,), [b"x"], {}))] == [(A,)]
    quick = Outbound((A, B, C), [b"x"], {})
    quick.messages = 2
    assert [one.peers for one in beds.sleepers.without(quick)] == [(A, C)]
    assert beds.lost() == [(B, 2, ASLEEP)]
    assert [*beds.sleepers.without(Outbound((B,), [b"x"], {}))] == []
