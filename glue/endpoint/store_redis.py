"""Receivers' state in Redis. A save is durable if the server has `appendonly yes` and `appendfsync always`."""

from __future__ import annotations

from typing import Any

import orjson

from glue.errors import MissingExtraError, StorageError
from glue.receivers.store import Document, FencedError

CLAIM = """
if tonumber(redis.call('GET', KEYS[1]) or 0) > tonumber(ARGV[1]) then return false end
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('SMEMBERS', KEYS[2])
"""
SAVE = """
if tonumber(redis.call('GET', KEYS[1]) or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[3], ARGV[2])
if ARGV[4] == '1' then redis.call('SADD', KEYS[2], ARGV[3]) else redis.call('SREM', KEYS[2], ARGV[3]) end
return 1
"""
TIMEOUT = 10.0


class RedisStore:
    """A store in a Redis server; the epoch is compared and the document written by one script."""

    def __init__(self, url: str) -> None:
        """Raises MissingExtraError, StorageError."""
        try:
            import redis
        except ImportError:
            raise MissingExtraError.of("a store in Redis", "redis", "redis") from None
        self._errors = redis.RedisError
        client: Any = redis.Redis.from_url(url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
        self._client = client
        try:
            client.ping()
        except redis.RedisError as error:
            raise StorageError(f"store {url!r}: {error}") from error
        self._claim, self._save = client.register_script(CLAIM), client.register_script(SAVE)

    def _keys(self, kind: str, partition: int) -> tuple[str, str, str]:
        root = f"glue:{{{kind}/{partition}}}"
        return f"{root}:epoch", f"{root}:timed", f"{root}:state:"

    def _fenced(self, kind: str, partition: int) -> FencedError:
        return FencedError.of(kind, partition, int(self._client.get(self._keys(kind, partition)[0]) or 0))

    def claim(self, kind: str, partition: int, epoch: int) -> list[str]:
        """See `glue.receivers.Store`."""
        epochs, timed, _ = self._keys(kind, partition)
        found: Any = self._claim(keys=[epochs, timed], args=[epoch])
        if found is None:
            raise self._fenced(kind, partition)
        return [id.decode() for id in found]

    def load(self, kind: str, partition: int, id: str) -> Document | None:
        """See `glue.receivers.Store`."""
        found: Any = self._client.get(self._keys(kind, partition)[2] + id)
        return None if found is None else orjson.loads(found)

    def save(self, kind: str, partition: int, id: str, epoch: int, document: Document, has_timers: bool) -> None:
        """See `glue.receivers.Store`."""
        epochs, timed, states = self._keys(kind, partition)
        arguments = [epoch, orjson.dumps(document), id, int(has_timers)]
        if not self._save(keys=[epochs, timed, states + id], args=arguments):
            raise self._fenced(kind, partition)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
