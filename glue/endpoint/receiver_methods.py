"""The methods for receivers, common to every kind of endpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from glue.endpoint.core import EndpointCore
from glue.endpoint.receiver_hosts import Executor
from glue.endpoint.receiver_kind import Kind
from glue.endpoint.receiver_payloads import decoders
from glue.endpoint.receiver_runtime import ReceiverRuntime
from glue.endpoint.stores import open_store
from glue.errors import ConfigurationError, GlueError, RemoteError
from glue.receivers.address import PARTITIONS_MOST, Address, kind_key
from glue.receivers.context import factory_of
from glue.receivers.store import Store
from glue.topics import check_topic

logger = logging.getLogger("glue")

MODEL = "receivers"
"""The model of receivers that name none."""


class BaseReceivers:
    """The receivers of one kind that an endpoint hosts."""

    def __init__(self, kind: Kind, runtime: ReceiverRuntime) -> None:
        self._kind = kind
        self._runtime = runtime

    @property
    def kind(self) -> str:
        """The kind, with its subnet if any."""
        return self._kind.kind.removeprefix(":")

    @property
    def owned(self) -> int:
        """How many partitions this endpoint serves now."""
        with self._runtime.lock:
            return sum(map(self._kind.serves, self._kind.ownership.all_owned))

    @property
    def active(self) -> int:
        """How many receivers are in memory."""
        return len(self._kind.activations)

    def counters(self) -> dict[str, Any]:
        """Partitions, active receivers, waiting and handled messages, and the slowest handler."""
        return self._kind.counters()

    def __repr__(self) -> str:
        return f"<Receivers {self.kind!r}: {self.active} active>"


def remote(error: BaseException, address: Address) -> BaseException:
    """Return the error for a caller on this endpoint, as from any other."""
    if isinstance(error, GlueError):
        return error
    return RemoteError(str(address), type(error).__name__, str(error))


def model_named(endpoint: Any, model: Any) -> str:
    """Return the name of the model of receivers; without one, this endpoint opens its own.

    Raises ConfigurationError for what is no model.
    """
    if model is not None and not isinstance(getattr(model, "name", None), str):
        raise ConfigurationError(f"model={model!r}: expected a model, such as endpoint.model('plant', voters=3)")
    name: str = model.name if model is not None else MODEL
    if model is None and name not in endpoint._models:
        endpoint.model(name, voters=1)
    return name


class ReceiverParts:
    """Make what receivers of an endpoint need, at first use."""

    def __init__(self, endpoint: Any, executor: Executor, order: Callable[[Any], None]) -> None:
        self._core: EndpointCore = endpoint._core
        self.runtime = ReceiverRuntime(self._core, endpoint._owner, order, executor)

    def add_kind(
        self, kind: str, factory: Any, partitions: int, subnet: str, model: str, store: Store | str | None,
        idle: float, dead_letters: str | None, messages: Sequence[type],
    ) -> Kind:  # fmt: skip
        """Host a kind. Raises ConfigurationError."""
        name = kind_key(kind, subnet)
        if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= PARTITIONS_MOST:
            raise ConfigurationError(f"partitions={partitions!r}: expected 1 to {PARTITIONS_MOST}, as at all hosts")
        make = factory_of(factory)
        if dead_letters is None and getattr(factory, "on_error", "drop") == "park":
            logger.warning("%r parks messages, but dead_letters names no topic for them: they are dropped", factory)
        if dead_letters is not None:
            check_topic(dead_letters)
        if store is not None and self._core.settings.storage_key is not None:
            logger.warning("storage_key does not seal the store %r of %r: protect the store itself", store, kind)
        types = decoders(messages or getattr(factory, "messages", ()))
        opened = open_store(store)
        found = Kind(self.runtime, name, make, partitions, model, opened, idle, dead_letters, types)
        try:
            self.runtime.add_kind(found)
        except ConfigurationError:
            if opened is not None and opened is not store:
                opened.close()
            raise
        return found
