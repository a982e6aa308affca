"""A keeper of delayed messages: gives `glue.delayed.DelayedStore` time, topics and the thread of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from glue.contract import Delivery, Event, Options, Publication
from glue.contract.metadata import DELAYED
from glue.delayed.store import DelayedStore
from glue.delayed.wire import Id, Put, id_of_tag
from glue.endpoint.core import EndpointCore
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.receivers import Receiver
from glue.storage import FileLog, Log, Record
from glue.topics.bundle import LIVE

if TYPE_CHECKING:
    from glue.endpoint.keeper import Writer

SETTLE = 1.0
"""Seconds more than a lease until all peers are known that are there."""
CLOCKS = 60.0
"""Seconds that the clocks of publishers may be behind that of a keeper."""


class DelayedRunner:
    """Runs a `DelayedStore` in the thread that stores. `publish` may be called from there."""

    def __init__(
        self,
        core: EndpointCore,
        log: Log,
        is_mine: Callable[[str], bool],
        publish: Callable[[list[Publication]], None],
        tell: Callable[[str, Sequence[tuple[Id, str]], str], None],
    ) -> None:
        """`log`: where the topics are kept. `is_mine`: whether a topic is kept there.

        `tell` acknowledges messages, or refuses them with a cause.

        Raises StorageError.
        """
        self._core = core
        self._is_mine = is_mine
        self._publish = publish
        self._tell = tell
        settings, requests = core.settings, core.requests
        settle = settings.announce_interval * settings.lease_intervals + SETTLE
        self.store = DelayedStore(self, core.statistics, requests.clock() + settle)
        if isinstance(log, FileLog):
            self.store.open(log.directory, requests.clock(), requests.unix_time())
        self._log = log
        self._find_kept()

    def _find_kept(self) -> None:
        """Look whether messages that are due already were published and stored before. Raises StorageError."""
        late, self.store.late = self.store.late, []
        if not late:
            return
        topics = {one.put.group.topic for one in late}
        offset = self._log.offset_at(min(one.put.group.at for one in late) / 1e6 - CLOCKS)
        while offset < self._log.durable:
            records, stop = self._log.read(topics.__contains__, offset)
            self.appended(0, 0, [record for _, record in records])
            if stop <= offset:
                break
            offset = stop
        self.synced(self._log.durable)

    # ------------------------------------------------------------------------------------ around the store

    @property
    def me(self) -> str:
        """The id of this keeper."""
        return self._core.identity.endpoint_id

    def keepers(self, topic: str) -> list[str]:
        """Return the ids of the keepers of a topic, this one too."""
        return self._core.durability.holders(topic)

    def is_present(self, publisher: str, life: int) -> bool:
        """Whether this life of a publisher is known."""
        if publisher == self.me:
            return life == self._core.identity.incarnation
        peer = self._core.peers.get(publisher)
        return peer is not None and peer.incarnation == life

    def may_publish(self, peer: str, topic: str) -> bool:
        """Whether a peer, and this endpoint in its place, may publish on a topic."""
        guard = self._core.guard
        return guard is None or (
            guard.decide_own("publish", topic).allowed and (peer == self.me or guard.lets_say(peer, topic))
        )

    def may_keep(self, peer: str, topic: str) -> bool:
        """Whether a peer is a keeper of a topic."""
        return peer in self.keepers(topic)

    # ------------------------------------------------------------------------------------------- the thread

    @property
    def deadline(self) -> float:
        """When `advance` is due (monotonic seconds)."""
        return self.store.deadline

    def take_all(self, peer: str, payloads: Sequence[Any]) -> None:
        """Take what publishers and other keepers tell."""
        now, unix_time = self._core.requests.clock(), self._core.requests.unix_time()
        for payload in payloads:
            self.store.take(now, unix_time, peer, payload, self._is_mine)
        self._find_kept()
        self.advance(now)

    def placed(self) -> None:
        """A keeper has come or gone."""
        self.store.placed([keeper for keeper in self._core.durability.known() if keeper != self.me])
        self.advance(self._core.requests.clock())

    def advance(self, now: float) -> None:
        """Do what is due."""
        told, released, held, refused = self.store.turn(now)
        publications = [Publication(topic, [payload], 0.0, False, len(payload)) for topic, payload in told]
        publications = [*map(publication_of, released), *publications]
        if held:
            self._tell("held", [(put.id, put.group.topic) for put in held], "")
        for put, cause in refused:
            self._tell("unheld", [(put.id, put.group.topic)], cause)
        if publications:
            self._publish(publications)

    def appended(self, begin: int, end: int, records: Sequence[Record]) -> None:
        """Note delayed messages that were released: they are kept like any other."""
        for record in records:
            if record.properties and (tag := record.properties.get(DELAYED)) is not None:
                id = id_of_tag(tag)
                if id is not None:
                    self.store.kept(self._core.requests.clock(), id)

    def synced(self, durable: int) -> None:
        """Delayed messages that have become durable, or are over."""
        self.store.synced(self._core.requests.clock())

    def close(self, now: float) -> None:
        """Store what is over."""
        self.store.close(now)


def publication_of(put: Put) -> Publication:
    """A delayed message as this keeper publishes it."""
    group = put.group
    options = Options(
        group.type, group.retain != LIVE, None if group.lifespan_ms is None else group.lifespan_ms / 1000,
        put.reliable, group.ordered, metadata=group.metadata,
    )  # fmt: skip
    return Publication(group.topic, group.payloads, 0.0, group.json, group.size, put.priority, options)


class DelayedReceiver(Receiver):
    """Receives what is told of delayed messages, and hands it to the threads that store."""

    def __init__(self, writers: Callable[[], Sequence[Writer]], owner: SubscriptionOwner, counts: bool) -> None:
        """`counts`: this receiver tells when a delivery is handled."""
        super().__init__()
        self._writers = writers
        self._owner = owner
        self._counts = counts

    def placed(self, is_more: bool) -> None:
        """A keeper has come or gone."""
        for writer in self._writers():
            if writer.keeping.delayed is not None:
                writer.call(writer.keeping.delayed.placed)

    def _deliver(self, event: Event) -> None:
        """Take a delivery."""
        if not isinstance(event, Delivery):
            return
        peer, payloads = event.publisher_id, [*event.to_owned()]
        for writer in self._writers():
            if writer.keeping.delayed is not None:
                writer.call(partial(writer.keeping.delayed.take_all, peer, payloads))
        self._owner.settled("handled", len(payloads))
        if self._counts:
            self._owner.handled(event)
