"""Datagrams that are sealed alone: a few calls for a train, and for each datagram only the cipher's.

A sealed datagram is a head of 24 bytes (`glue.contract.sealed.HEAD`), the encrypted datagram, and a tag of 16 bytes.
The head without its number is the *prefix*, the same for all datagrams of a life with one key. The prefix is associated
data; the number makes the nonce.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import Final

from glue.contract.pieces import cut
from glue.contract.sealed import HEAD
from glue.security.suites import TAG_SIZE, Crypt

NUMBER_SIZE: Final = 4
PREFIX_SIZE: Final = HEAD.size - NUMBER_SIZE
OVERHEAD: Final = HEAD.size + TAG_SIZE
"""Bytes that sealing adds to a datagram."""

MULTICAST: Final = 1 << 31
"""Set in the numbers of multicasts, which arrive by another socket and are counted on their own."""

LAST: Final = MULTICAST - 1
"""The last number of a life, for unicasts and for multicasts. Then the life gets new random bytes, and so a new key."""

_LEADING = bytes(12 - NUMBER_SIZE)
nonce_of = _LEADING.__add__
"""Return the nonce with this number (bytes)."""


@lru_cache(maxsize=128)
def numbers_of(count: int) -> Struct:
    """Return a plan of `count` numbers."""
    return Struct(f">{count}I")


def count_up(data: bytearray, stride: int, first: int, count: int) -> None:
    """Write the numbers from `first` on into heads that stand at every `stride` bytes."""
    numbers = numbers_of(count).pack(*range(first, first + count))
    for place in range(NUMBER_SIZE):
        data[PREFIX_SIZE + place :: stride] = numbers[place::NUMBER_SIZE]


def seal(
    data: bytes | bytearray | memoryview, segment: int, first: int, prefix: bytes, encrypt: Crypt
) -> bytes | bytearray:
    """Seal a train of datagrams of `segment` bytes, numbered from `first` on."""
    if len(data) <= segment:
        number = first.to_bytes(NUMBER_SIZE, "big")
        return b"%b%b%b" % (prefix, number, encrypt(nonce_of(number), bytes(data), prefix))
    plain = cut(data, segment)
    count = len(plain)
    numbers = cut(numbers_of(count).pack(*range(first, first + count)), NUMBER_SIZE)
    texts = map(encrypt, map(nonce_of, numbers), plain, repeat(prefix))
    return b"".join(chain.from_iterable(zip(repeat(prefix), numbers, texts)))


def open_lone(datagram: bytes, decrypt: Crypt) -> bytes:
    """Open one datagram. Raises InvalidTag of `cryptography` if it was not sealed so."""
    return decrypt(nonce_of(datagram[PREFIX_SIZE : HEAD.size]), datagram[HEAD.size :], datagram[:PREFIX_SIZE])
