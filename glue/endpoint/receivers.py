"""Receivers of alarms: tokens that act when a time has come."""

from __future__ import annotations

from collections.abc import Sequence

from glue.contract import Event, Publication
from glue.endpoint.responder import Receiver


class AlarmReceiver(Receiver):
    """A token of alarms. `rung` runs in the turn in which the time has come, `_deliver` where handlers run."""

    def rung(self, now: float) -> Sequence[Publication]:
        """The time has come; returns what to publish."""
        return ()

    def _deliver(self, event: Event) -> None:
        """Act where handlers run."""
