"""The common part of endpoints that keep topics: what receives deliveries, and what a program sees of it."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, Protocol

from glue.contract import Delivery, Event
from glue.endpoint.durability import DISK, MOST, keeper_interest
from glue.endpoint.durability import MEMORY as MEMORY_PLACE
from glue.endpoint.keeping import Keeping, LogWatcher
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.receivers import Announcement, Receiver
from glue.errors import ConfigurationError
from glue.storage import Log, Record, Retention
from glue.topics import check_pattern
from glue.topics.index import Index

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
PERIODS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}

MEMORY = 64 << 20
"""Bytes that a keeper without a directory keeps in memory, unless it is told another size."""


class DeliveryWriter(Protocol):
    """The receiver that stores deliveries, in a thread of its own for example."""

    def submit(self, delivery: Delivery) -> None:
        """Store a delivery."""


class Writer(DeliveryWriter, Protocol):
    """The receiver that stores deliveries for a keeper."""

    keeping: Keeping

    def call(self, function: Callable[[], object]) -> None:
        """Call a function where the log is written."""

    def store(self, records: list[Record]) -> None:
        """Store records that were fetched from another keeper."""


class Kept(Receiver):
    """Hands the deliveries of a pattern to what stores them."""

    def __init__(self, writer: DeliveryWriter, owner: SubscriptionOwner, counts: bool) -> None:
        """`counts`: the driver does not count a delivery as handled by itself."""
        super().__init__()
        self._writer = writer
        self._owner = owner
        self._counts = counts

    def _deliver(self, event: Event) -> None:
        """Take a delivery, which counts as unhandled until it is stored."""
        if isinstance(event, Delivery):
            own(event)
            self._owner.settled("handled", len(event.payloads))
            self._submit(event, is_counted=self._counts)

    def _submit(self, delivery: Delivery, is_counted: bool) -> None:
        """Store a delivery; `is_counted`: it counts as unhandled already."""
        if not is_counted:
            self._owner.keep(delivery)
        self._writer.submit(delivery)


def own(delivery: Delivery) -> None:
    """Copy the payloads of a delivery out of the buffer that they came in."""
    delivery.to_owned()
    if (encoded := getattr(delivery, "encoded", None)) is not None:
        delivery.encoded = [*map(bytes, encoded)]


class Keeper:
    """Topics that this endpoint keeps; made by `Endpoint.keep`. A context manager that ends the keeping.

    `pattern`, `data_dir` and `replicas` are as given. What is stored stays when the keeper ends.
    """

    def __init__(
        self,
        pattern: str,
        writer: Writer,
        kept: Kept,
        announcement: Announcement,
        retention: Retention,
        replicas: int | None,
        data_dir: str | PathLike[str] | None,
        close: Callable[[Keeper], None],
    ) -> None:
        """Use `Endpoint.keep`."""
        self.pattern = pattern
        self.replicas = replicas
        self.data_dir = data_dir
        self._is_closed = False
        self._writer = writer
        self._kept = kept
        self._announcement = announcement
        self._retention = retention
        self._place = DISK if writer.keeping.is_on_disk else MEMORY_PLACE
        self._interest = keeper_interest(pattern, replicas, writer.keeping.is_on_disk)
        self._close = close

    @property
    def log(self) -> Log:
        """The log, which all keepers of one directory share. Read it from any thread."""
        return self._writer.keeping.log

    @property
    def failure(self) -> str:
        """Why nothing is stored now, "" if all is well: a full disk, or one that failed for good."""
        return self._writer.keeping.failure

    def _watch(self, watcher: LogWatcher) -> None:
        """Show a watcher what is stored from now on."""
        self._writer.keeping.watchers.append(watcher)

    def _store(self, records: list[Record]) -> None:
        """Store records that were fetched from another keeper."""
        self._writer.store(records)

    def close(self) -> None:
        """Keep no more. A second call does nothing."""
        self._close(self)

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = "memory" if self.data_dir is None else str(self.data_dir)
        return f"<Keeper of {self.pattern!r} in {place}>"


def retention_of(pattern: str, age: float | str | None, size: int | str | None, count: int | None) -> Retention:
    """Check and convert what is given to `keep`. Raises TopicError, ConfigurationError."""
    check_pattern(pattern)
    if count is not None and (type(count) is not int or count < 1):
        raise ConfigurationError(f"count={count!r}: expected a number of messages of each topic, at least 1")
    index: Index[str] = Index()
    index.add(pattern, pattern)
    return Retention(lambda topic: bool(index.find(topic)), seconds(age), bytes_of(size), count)


def check_replicas(replicas: object) -> None:
    """Raise ConfigurationError unless this is a number of keepers, or None."""
    if replicas is not None and (type(replicas) is not int or not 1 <= replicas <= MOST):
        raise ConfigurationError(
            f"replicas={replicas!r}: expected a number of keepers from 1 to {MOST}, or None for all"
        )


def seconds(age: float | str | None) -> float | None:
    """Return an age in seconds: a number, or a text such as "30d", "12h", "10min" or "5s"."""
    return _quantity("age", age, PERIODS, '"30d", "12h", "10min" or "5s"')


def bytes_of(size: int | str | None) -> int | None:
    """Return a size in bytes: a number, or a text such as "2GB", "500MB" or "64kB" (powers of 1,000)."""
    found = _quantity("size", size, UNITS, '"2GB", "500MB" or "64kB"')
    return None if found is None else int(found)


def _quantity(name: str, value: Any, units: dict[str, Any], examples: str) -> float | None:
    if value is None:
        return None
    found: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str):
        number = value.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
        unit = value[len(number) :].strip()
        try:
            found = float(number) * units[unit]
        except (ValueError, KeyError):
            found = None
    if found is None or not 0 < found < float("inf"):
        raise ConfigurationError(f"{name}={value!r}: expected a positive number, or a text such as {examples}")
    return found
