"""Known mistakes of a delivery machine, each planted by a small patch; the swarm must find every one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from glue.gateway.http import deliveries, lanes
from glue.gateway.http.deliveries import Deliveries
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.lanes import Lane, Slot
from glue.gateway.http.recent import RecentLog
from tests.gateway.http import swarm

Patch = pytest.MonkeyPatch
failed, settle, release, run_lane, read = (
    Deliveries._failed,
    Lane.settle,
    Lane.release,
    Deliveries._run,
    Deliveries._read,
)


def position_runs_ahead(patch: Patch) -> None:
    """The position says that what is under way was delivered."""

    def move(self: Lane) -> bool:
        before, self.position = self.position, self.cursor
        return self.position != before

    patch.setattr(Lane, "move", move)


def failure_is_success(patch: Patch) -> None:
    """A redirect counts as delivered."""
    finished = Deliveries.finished

    def wrong(self: Deliveries, now: float, attempt: Attempt, outcome: Outcome) -> None:
        finished(self, now, attempt, replace_status(outcome) if outcome.status == 302 else outcome)

    patch.setattr(Deliveries, "finished", wrong)


def replace_status(outcome: Outcome) -> Outcome:
    return outcome._replace(status=204)


def next_message_overtakes(patch: Patch) -> None:
    """A message that failed does not hold up the next one."""
    patch.setattr(Lane, "has_room", property(lambda self: len(self.slots) < self.subscription.parallel + 1))


def gives_up_without_a_grave(patch: Patch) -> None:
    """A message that is given up is dropped."""

    def bury(self: Deliveries, name: str, lane: Lane, slot: Slot) -> None:
        lane.settle(slot, False)

    patch.setattr(Deliveries, "_bury", bury)


def grave_is_not_awaited(patch: Patch) -> None:
    """The lane goes on although the dead letter could not be stored."""
    buried = Deliveries.buried
    patch.setattr(Deliveries, "buried", lambda self, now, burial, is_stored: buried(self, now, burial, True))


def never_looks_again(patch: Patch) -> None:
    """A lane that has caught up is not woken by a batch that only the log has."""
    stored = Deliveries.stored

    def wrong(self: Deliveries, now: float, before: int, records: Any) -> None:
        if records is not None:
            stored(self, now, before, records)

    patch.setattr(Deliveries, "stored", wrong)


def doubtful_take_all(patch: Patch) -> None:
    """Lanes whose subscribers hang may use every connection."""
    start = Deliveries._start

    def wrong(self: Deliveries, now: float, name: str, lane: Lane, slot: Slot, attempts: list[Attempt]) -> bool:
        self._limits = replace(self._limits, attempts=2)
        return start(self, now, name, lane, slot, attempts)

    patch.setattr(Deliveries, "_start", wrong)


def keeps_the_payload(patch: Patch) -> None:
    """A lane that fails holds what it has read."""
    patch.setattr(Lane, "release", lambda self: None)


def tells_each_time(patch: Patch) -> None:
    """A failing subscriber is reported at each failure."""

    def wrong(self: Deliveries, now: float, attempt: Attempt, lane: Lane, outcome: Outcome) -> None:
        lane.alerted = False
        failed(self, now, attempt, lane, outcome)

    patch.setattr(Deliveries, "_failed", wrong)


def forgets_who_was_away(patch: Patch) -> None:
    """A subscriber that is back is not reported."""
    succeeded = Deliveries._succeeded

    def wrong(self: Deliveries, name: str, lane: Lane, slot: Slot) -> None:
        lane.alerted = False
        succeeded(self, name, lane, slot)

    patch.setattr(Deliveries, "_succeeded", wrong)


def dead_hosts_are_hammered(patch: Patch) -> None:
    """Each lane tries a host that cannot be reached for itself."""
    patch.setattr(Deliveries, "_note_destination", lambda self, now, attempt, outcome: None)


def id_changes(patch: Patch) -> None:
    """The id of a message depends on the attempt."""
    numbers = iter(range(10**9))
    patch.setattr(swarm, "message_id", lambda name, item: f"{item.offset}-{next(numbers)}")


def reads_before_it_is_durable(patch: Patch) -> None:
    """What is in memory is delivered before the log has it."""
    add = RecentLog.add

    def wrong(self: RecentLog, begin: int, end: int, records: Any) -> None:
        add(self, begin, end, records)
        self.durable = end
        self._records.extend(self._waiting)
        self._waiting.clear()

    patch.setattr(RecentLog, "add", wrong)


def retries_stop(patch: Patch) -> None:
    """After eight attempts nothing happens any more."""
    delay = lanes.retry_delay
    patch.setattr(deliveries, "retry_delay", lambda n, luck: delay(n, luck) if n < 8 else 1e9)


def skips_a_part(patch: Patch) -> None:
    """A record is taken as one message."""
    next_item = Lane.next_item

    def wrong(self: Lane) -> Any:
        item = next_item(self)
        if item is not None and item.place == 0 and len(item.record.payloads) > 2:
            next_item(self)
        return item

    patch.setattr(Lane, "next_item", wrong)


def position_is_never_told(patch: Patch) -> None:
    """A position that has moved is not stored: a restart begins from an old one."""

    def wrong(self: Lane) -> bool:
        self.position = min(self.position, min(self.slots, default=self.cursor))
        return False

    patch.setattr(Lane, "move", wrong)


BUGS: list[Callable[[Patch], None]] = [
    position_runs_ahead, failure_is_success, next_message_overtakes, gives_up_without_a_grave, grave_is_not_awaited,
    never_looks_again, doubtful_take_all, keeps_the_payload, tells_each_time, forgets_who_was_away,
    dead_hosts_are_hammered, id_changes, reads_before_it_is_durable, retries_stop, skips_a_part,
    position_is_never_told,
]  # fmt: skip
