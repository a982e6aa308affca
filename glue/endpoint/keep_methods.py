"""The methods to keep topics and to wait for keepers that every kind of endpoint has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from os.path import realpath
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from glue.contract import Delivery, Event, Publication, Subscribe, Unsubscribe
from glue.endpoint.core import EndpointCore, check_not_reserved
from glue.endpoint.durability import DISK, MEMORY, Acks, Durability, Expectation, check_acks
from glue.endpoint.options import Priority
from glue.endpoint.owner import OwnerFunctions, SubscriptionOwner
from glue.endpoint.receipt import Receipt
from glue.endpoint.receivers import Announcement, Receiver
from glue.endpoint.sealing import require
from glue.errors import ClosedError, ConfigurationError, NotDurableError
from glue.model import StackRequest
from glue.requests.directory import matches
from glue.topics import check_topic

if TYPE_CHECKING:  # imported when used: most programs keep nothing
    from glue.consumers.home import ConsumerAlert
    from glue.endpoint.keeper import Keeper
    from glue.endpoint.keeping import Keeping
    from glue.storage import Directory, FileLog, MemoryLog, Retention

SomeReceipt = TypeVar("SomeReceipt", bound=Receipt)

CLOSING = 1.0
"""Seconds that a keeper which cannot begin waits at most until its log is closed."""
OUTSTANDING = 1000
"""Messages of `publish_durable` that are unacknowledged at once, unless it says so."""


class Acknowledgements(Receiver):
    """Receives what keepers tell of this life's messages."""

    def __init__(self, durability: Durability, owner: SubscriptionOwner, counts: bool) -> None:
        """`counts`: it is this receiver that tells when a delivery is handled."""
        super().__init__()
        self._durability = durability
        self._owner = owner
        self._counts = counts

    def _deliver(self, event: Event) -> None:
        """Take acknowledgements."""
        if isinstance(event, Delivery):
            for message in event.payloads:
                self._durability.take(event.publisher_id, message)
            self._owner.settled("handled", len(event.payloads))
            if self._counts:
                self._owner.handled(event)


class KeepMethods(Generic[SomeReceipt]):
    """Keepers of an endpoint, and the acknowledgements that it waits for."""

    _core: EndpointCore
    _owner: OwnerFunctions
    _acknowledgements: Acknowledgements | None = None  # set by the first publication with acks
    _writers: dict[str | None, Any] | None = None  # what stores, by directory; set by the first keeper
    _keepers: tuple[Keeper, ...] = ()
    _COUNTS = True
    _is_asked = False  # whether members of consumers can ask this endpoint
    _delayed_receiver: Any = None  # receives delayed messages to hold

    def _running(self) -> Any:
        """The driver. Raises ClosedError."""
        raise NotImplementedError

    def _order_keeping(self, request: StackRequest) -> None:
        """Pass a request to the stack. Raises ClosedError."""
        self._running().order(request)

    def _open_directory(self, data_dir: Any) -> Directory:
        """Open the directory of a log. Raises StorageError."""
        raise NotImplementedError

    def _make_writer(self, keeping: Keeping) -> Any:
        """Return the receiver that stores deliveries, for this kind of endpoint."""
        raise NotImplementedError

    def _make_receipt(self, topic: str, count: int, acks: Acks) -> SomeReceipt:
        """A receipt of messages that are to be published."""
        raise NotImplementedError

    def _publish_quietly(self, publications: list[Publication]) -> None:
        """Publish acknowledgements, from the thread that stores; a closed endpoint drops them."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------- keepers

    @staticmethod
    def _check_keeping(
        pattern: str, age: float | str | None, size: int | str | None, count: int | None, replicas: int | None
    ) -> Retention:
        """Check what is given to `keep`. Raises TopicError, ConfigurationError."""
        from glue.endpoint.keeper import check_replicas, retention_of

        check_not_reserved(pattern)
        check_replicas(replicas)
        return retention_of(pattern, age, size, count)

    def _keep(
        self,
        pattern: str,
        data_dir: Any,
        age: float | str | None,
        size: int | str | None,
        count: int | None,
        replicas: int | None,
    ) -> Keeper:
        """Add a keeper: first what receives the messages, then what tells of it."""
        from glue.endpoint.keeper import Keeper
        from glue.endpoint.placed import PlacedKept

        retention = self._check_keeping(pattern, age, size, count, replicas)
        require(self._core.guard, "keep", [pattern])
        self._running()
        if not self._has_writer(data_dir):
            self._add_writer(data_dir, self._open_log(data_dir, retention.size))
        writer = (self._writers or {})[place_of(data_dir)]
        core, is_on_disk = self._core, writer.keeping.is_on_disk
        durability, id = core.durability, core.identity.endpoint_id
        place = DISK if is_on_disk else MEMORY
        lease = core.settings.announce_interval * core.settings.lease_intervals
        kept = PlacedKept(
            writer, self._owner, self._COUNTS,
            lambda topic: id in durability.keepers(topic, place) or writer.keeping.is_wanted(topic),
            core.requests.clock, lease,
        )  # fmt: skip
        announcement = Announcement(cast(Any, self)._drop_delivery)
        keeper = Keeper(pattern, writer, kept, announcement, retention, replicas, data_dir, self._close_keeper)
        writer.keeping.retentions = [*writer.keeping.retentions, retention]
        self._keepers = (*self._keepers, keeper)
        writer.call(lambda: writer.keeping.plan_cleaning(core.requests.clock()))
        self._order_keeping(Subscribe(kept, pattern))
        cast(Any, self)._serve_kept(keeper._interest, writer.keeping.log)
        self._order_keeping(Subscribe(announcement, keeper._interest))
        history = cast(Any, self)._history()
        cast(Any, self)._receive_pages(history)
        history.heal(
            writer.keeping.log, writer.store, pattern, lambda topic: id in durability.keepers(topic, place),
            lambda: has_room(writer.keeping), lambda peer, topic: durability.is_kept_by(peer, topic),
        )  # fmt: skip
        kept.on_missed = history.hurry
        durability.keeps(id, place, pattern, replicas)
        durability.on_placed.append(kept.placed)
        return keeper

    def _has_writer(self, data_dir: Any) -> bool:
        return place_of(data_dir) in (self._writers or {})

    def _open_log(self, data_dir: Any, size: int | None) -> FileLog | MemoryLog:
        """Open the log of a directory, which all keepers with this directory share. Raises StorageError."""
        from glue.endpoint.keeper import MEMORY
        from glue.storage import FileLog, MemoryLog

        luck = Random(self._core.identity.random.getrandbits(64))
        if data_dir is None:
            return MemoryLog(f"{luck.getrandbits(64):016x}", size or MEMORY)
        directory = self._core.at_rest(self._open_directory(data_dir))
        try:
            return FileLog(directory, luck)
        except BaseException:
            directory.close()
            raise

    def _add_writer(self, data_dir: Any, log: FileLog | MemoryLog) -> None:
        """Store in this log what the keepers of a directory receive."""
        from glue.endpoint.keeping import Keeping
        from glue.storage import FileLog

        durability = self._core.durability
        keeping = Keeping(log, durability, self._core.statistics, self._publish_quietly)
        writer = self._make_writer(keeping)
        try:
            if isinstance(log, FileLog):
                self._add_home(keeping, log)
            self._add_delayed(keeping, log)
        except BaseException:
            writer.close(CLOSING)
            raise
        writer.call(lambda: None)  # so that it looks when there is something to do
        self._writers = {**(self._writers or {}), place_of(data_dir): writer}
        durability.on_wanted.append(lambda publisher, life: writer.call(lambda: keeping.tell_all(publisher, life)))

    def _add_home(self, keeping: Keeping, log: FileLog) -> None:
        """Be the home of consumers, with their positions beside this log. Raises StorageError."""
        from glue.consumers.wire import ask_topic
        from glue.endpoint.homes import Asked, HomeRunner

        def kept() -> list[str]:
            return [keeper.pattern for keeper in self._keepers if keeper._writer.keeping is keeping]

        runner = HomeRunner(self._core, log, kept, self._publish_quietly, self._tell_alert)
        keeping.consumers = runner
        keeping.watchers.append(runner)
        if not self._is_asked:
            self._is_asked = True
            asked = Asked(lambda: [*(self._writers or {}).values()], self._owner, self._COUNTS)
            self._order_keeping(Subscribe(asked, ask_topic(self._core.identity.endpoint_id)))

    def _add_delayed(self, keeping: Keeping, log: FileLog | MemoryLog) -> None:
        """Hold delayed messages of what goes into this log. Raises StorageError."""
        from glue.delayed.wire import ask_topic
        from glue.endpoint.delaying import DelayedReceiver, DelayedRunner

        def is_mine(topic: str) -> bool:
            fitting = [one._writer.keeping for one in self._keepers if matches(one.pattern, topic)]
            on_disk = [one for one in fitting if one.is_on_disk]
            return bool(fitting) and (on_disk or fitting)[0] is keeping

        runner = DelayedRunner(self._core, log, is_mine, self._publish_quietly, keeping.tell_held)
        keeping.delayed = runner
        keeping.watchers.append(runner)
        if self._delayed_receiver is None:
            receiver = DelayedReceiver(lambda: [*(self._writers or {}).values()], self._owner, self._COUNTS)
            self._delayed_receiver = receiver
            self._order_keeping(Subscribe(receiver, ask_topic(self._core.identity.endpoint_id)))
            self._core.durability.on_placed.append(receiver.placed)

    if TYPE_CHECKING:  # without a body, as it would hide that of a class further back in the order of classes

        def _tell_alert(self, alert: ConsumerAlert) -> None:
            """Call `on_consumer_alert`, from the thread that stores."""

    def _close_keeper(self, keeper: Keeper) -> None:
        """Keep a pattern no more; what is stored stays."""
        if keeper._is_closed:
            return
        keeper._is_closed = True
        self._keepers = tuple(one for one in self._keepers if one is not keeper)
        with suppress(ClosedError):  # then all of them end
            self._order_keeping(Unsubscribe(keeper._announcement))
            if all(one._interest != keeper._interest for one in self._keepers):
                cast(Any, self)._serve_no_more(keeper._interest)
            self._order_keeping(Unsubscribe(keeper._kept))
        keeping = keeper._writer.keeping
        keeping.retentions = [one for one in keeping.retentions if one is not keeper._retention]
        durability = self._core.durability
        if all(one.pattern != keeper.pattern or one.log is not keeper.log for one in self._keepers):
            cast(Any, self)._history().heal_no_more(keeper.log, keeper.pattern)
        durability.on_placed.remove(cast(Any, keeper._kept).placed)
        if all(one.pattern != keeper.pattern or one._place != keeper._place for one in self._keepers):
            durability.lost_pattern(self._core.identity.endpoint_id, keeper._place, keeper.pattern)

    def _end_keeping(self, timeout: float) -> None:
        """Sync and close all logs, as the endpoint closes."""
        for writer in (self._writers or {}).values():
            writer.close(timeout)

    # --------------------------------------------------------------------------------------- expectations

    def _expect(self, topic: str, count: int, acks: Acks, ended: Callable[[], None]) -> Expectation:
        """Expect acknowledgements of messages that are to be published. Raises ConfigurationError, TopicError."""
        check_acks(acks)
        check_topic(topic)
        durability, identity = self._core.durability, self._core.identity
        if self._acknowledgements is None:
            self._acknowledgements = Acknowledgements(durability, self._owner, self._COUNTS)
            self._order_keeping(Subscribe(self._acknowledgements, durability.topic))
            durability.want(identity.endpoint_id, identity.incarnation)
        return durability.expect(topic, count, acks, ended)

    def _durable_receipt(
        self, topic: str, acks: Acks, receipt: bool, delay: float | None, deliver_at: float | None
    ) -> SomeReceipt:
        """Return the receipt of a message that is to be published. Raises ConfigurationError, TopicError."""
        if not receipt:
            raise ConfigurationError(f"acks={acks!r}: it is the receipt that tells; say receipt=True, too")
        if delay is None and deliver_at is None:
            return self._make_receipt(topic, 1, acks)
        check_topic(topic)
        made: SomeReceipt = cast(Any, self)._delayed_receipt(topic, acks)
        return made

    def _with_receipts(
        self, topic: str, payloads: list[Any], acks: Acks, priority: Priority
    ) -> Iterator[tuple[SomeReceipt, Publication]]:
        """Payloads as few publications as possible, each with a receipt for all of its messages."""
        for publication in self._core.publications(topic, payloads, self._unix_time(), priority):
            receipt = self._make_receipt(topic, len(publication.payloads), acks)
            publication.options = publication.options.replaced(receipt=receipt)
            yield receipt, publication

    def _unix_time(self) -> float:
        """The wall clock (Unix seconds)."""
        return self._core.requests.unix_time()

    def _drop(self, receipts: Iterable[Receipt | None]) -> None:
        """Expect these acknowledgements no more."""
        for receipt in receipts:
            if receipt is not None and receipt.expectation is not None:
                self._core.durability.drop(receipt.expectation)

    @contextmanager
    def _dropped_unless_published(self, receipt: Receipt | None) -> Iterator[None]:
        """Expect no acknowledgements of a message if publishing raises."""
        try:
            yield
        except BaseException:
            self._drop([receipt])
            raise


def has_room(keeping: Keeping) -> bool:
    """Whether old messages find a place in a log: not while it is as full as it may be, or fails."""
    from glue.endpoint.keeper import MEMORY

    limit: int | None = None
    if all(retention.size is not None for retention in keeping.retentions):
        limit = sum(retention.size or 0 for retention in keeping.retentions)
    elif not keeping.is_on_disk:
        limit = MEMORY
    return not keeping.failure and (limit is None or keeping.log.size < limit)


def not_durable(topic: str, done: int, receipt: Receipt) -> NotDurableError:
    """Return the error of a stream of which a message is not as durable as asked."""
    return NotDurableError(f"{done} messages on {topic!r:.80} were acknowledged; not the next: {receipt.failure}")


def place_of(data_dir: Any) -> Any:
    """Return a value that is different for different directories, and equal for two paths of one."""
    return realpath(data_dir) if data_dir and isinstance(data_dir, (str, PathLike)) else data_dir


def check_outstanding(outstanding: object) -> None:
    """Raise ConfigurationError unless this is a number of messages."""
    if type(outstanding) is not int or outstanding < 1:
        raise ConfigurationError(f"outstanding={outstanding!r}: expected a number of messages, at least 1")
