"""Addresses of receivers, their partitions, and the host that a partition should have.

An address is `kind/id`, or `subnet:kind/id` for a kind in another subnet. A subnet is a name space of kinds. The host
of a partition is chosen by rendezvous hashing (Thaler and Ravishankar, 1998): a host that joins or leaves moves only
its own share.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from glue.errors import ConfigurationError

PARTITIONS = 64
PARTITIONS_MOST = 4096
ADDRESS_LIMIT = 512
"""Characters of an address: as a key of the model it may be three times as long, and 1,024 bytes are the limit."""
FORBIDDEN = frozenset("/:+#$\0")
"""What subnets and kinds do not contain, since they are levels of topics and keys."""


class Address(NamedTuple):
    """A receiver's address; `kind` is with its subnet, as `subnet:kind`."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind.removeprefix(':')}/{self.id}"


def parse(text: str, subnet: str = "") -> Address:
    """Read an address; without a subnet in it, it is in `subnet`. Raises ConfigurationError."""
    if not isinstance(text, str):
        raise ConfigurationError(f"address {text!r:.80}: expected a text such as 'kind/id'")
    return _parse(text, subnet)


@lru_cache(4096)
def _parse(text: str, subnet: str) -> Address:
    head, slash, id = text.partition("/")
    first, colon, kind = head.rpartition(":")
    if not (slash and id and kind) or len(text) > ADDRESS_LIMIT:
        raise ConfigurationError(f"address {text!r:.80}: expected kind/id or subnet:kind/id, at most 512 characters")
    if not FORBIDDEN.isdisjoint(kind) or not FORBIDDEN.isdisjoint(first) or "\0" in id:
        raise ConfigurationError(f"address {text!r:.80}: subnet and kind have no '/', ':', '+', '#' or '$'")
    return Address(f"{first if colon else subnet}:{kind}", id)


def kind_key(kind: str, subnet: str) -> str:
    """The full name of a kind. Raises ConfigurationError."""
    return parse(f"{subnet}:{kind}/x").kind


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def partition_of(id: str, partitions: int) -> int:
    """The partition of a receiver."""
    return crc32(id.encode("utf-8", "surrogatepass")) % partitions


def choose(kind: str, partition: int, hosts: Iterable[str]) -> str:
    """The id of the endpoint that should own a partition, of these hosts; "" if there are none."""
    return max(hosts, key=lambda host: (_hash(f"{kind}/{partition}/{host}"), host), default="")
