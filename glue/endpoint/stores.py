"""Stores of receivers' state by name: SQLite, Redis, or an entry point of the group `glue.stores`.

A store is given as an object with the four methods of `glue.receivers.Store`, or as text: "sqlite:PATH",
"redis://HOST:PORT/DB", or "NAME:REST" for an entry point NAME, which is called with REST.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, cast

from glue.errors import ConfigurationError
from glue.receivers.store import Store

METHODS = ("claim", "load", "save", "close")


def open_store(store: Store | str | None) -> Store | None:
    """Open a store; None stands for the model. Raises ConfigurationError, MissingExtraError, StorageError."""
    if store is None:
        return None
    if not isinstance(store, str):
        missing = [name for name in METHODS if not callable(getattr(store, name, None))]
        if missing:
            raise ConfigurationError(f"store={store!r:.80}: it has no method {missing[0]}; see glue.receivers.Store")
        return store
    scheme, _, rest = store.partition(":")
    if scheme == "sqlite":
        from glue.endpoint.store_sqlite import SqliteStore

        return SqliteStore(rest)
    if scheme in ("redis", "rediss"):
        from glue.endpoint.store_redis import RedisStore

        return RedisStore(store)
    found = [point for point in entry_points(group="glue.stores") if point.name == scheme]
    if not found:
        raise ConfigurationError(f"store={store!r:.80}: expected sqlite:PATH, redis://…, or an entry point")
    make: Any = found[0].load()
    return cast(Store, open_store(make(rest)))
