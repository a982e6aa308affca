"""The common state of the parts of a broker: its clients, sessions, subscriptions, counters and timers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from random import Random

from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.plugins import Plugin
from glue.gateway.mqtt.retained import Retained
from glue.gateway.mqtt.session import Client, Session, Subscription
from glue.gateway.mqtt.subscriptions import Subscriptions
from glue.gateway.mqtt.timers import Action, Timers
from glue.gateway.refusals import Refusals

Log = Callable[[int, str], None]


class BrokerState:
    """The state of one broker, and the order of what is due."""

    def __init__(self, access: Access, random: Random, limits: Limits | None = None) -> None:
        """`random` draws client ids for clients that bring none."""
        self.limits = limits or Limits()
        self.access = access
        self.statistics: Counter[str] = Counter()
        self.log: Log = lambda level, text: None
        self.clients: dict[Hashable, Client] = {}
        self.handshakes = 0
        """Connections that are no clients yet, counted by the shell."""
        self.sessions: dict[str, Session] = {}
        self.absent: dict[Session, None] = {}
        """Sessions without a connection; the one that has been away longest is first."""
        self.subscriptions = Subscriptions()
        self.retained = Retained(self.limits.retained)
        self.changed: dict[Client, None] = {}
        self.asked: list[Client] = []
        self.published: list[Publish] = []
        self.highest_epoch = 0
        """The largest number of a connection, of all doors: the newest connection of a client id has the largest."""
        self.sought: list[Client] = []
        """Clients whose sessions may be at another door: the shell asks, and calls `settle`."""
        self.may_be_elsewhere: Callable[[], bool] = lambda: False
        """Whether there are other doors that may have a session."""
        self.fresh: list[Subscription] = []
        """New subscriptions that get the retained messages of other endpoints, too."""
        self.watchers: Sequence[Plugin] = ()
        """Plug-ins that see sessions and messages."""
        self.wall_clock: Callable[[], float] = lambda: 0.0
        self.refusals = Refusals(self.warn)
        """What clients are refused, for the log."""
        self._random = random
        self._timers = Timers()

    @property
    def deadline(self) -> float:
        """When `advance` is to be called, in the seconds of `now`; `inf` if nothing is due."""
        return self._timers.deadline

    def advance(self, now: float) -> None:
        """Do what is due."""
        self._timers.advance(now)

    def at(self, when: float, action: Action, about: Hashable = None) -> None:
        """Call an action at a time, instead of the one about the same client or session. See `Timers`."""
        self._timers.at(when, action, about)

    def call_off(self, *about: Hashable) -> None:
        """Forget what was to be done about clients or sessions."""
        for one in about:
            self._timers.call_off(one)

    def warn(self, text: str) -> None:
        """Log a loss or a fault; what may come often goes to `refusals`."""
        self.log(logging.WARNING, text)

    def note_session(self, session: Session, event: str) -> None:
        """Tell the plug-ins that a session is "connected", "disconnected" or "ended"."""
        for watcher in self.watchers:
            try:
                watcher.on_session(session.client_id, event)
            except Exception as error:
                self.warn(f"plug-in {type(watcher).__name__} failed: {error!r}")

    def note_publish(self, client_id: str, run: Publish) -> None:
        """Tell the plug-ins what a client published."""
        for watcher in self.watchers:
            try:
                watcher.on_publish(client_id, run)
            except Exception as error:
                self.warn(f"plug-in {type(watcher).__name__} failed: {error!r}")

    def tell(self, text: str) -> None:
        """Log a change."""
        self.log(logging.INFO, text)
