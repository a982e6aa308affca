"""The ciphers, from the package `cryptography`, which is imported when a key is first used."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from glue.errors import MissingExtraError

KEY_SIZE: Final = 32
TAG_SIZE: Final = 16

Crypt = Callable[[bytes, bytes, bytes], bytes]
"""Encrypts or decrypts: nonce (12 bytes), data, associated data."""


class Suite(NamedTuple):
    """A cipher with authentication: the name, the first byte of datagrams, and the class in `cryptography`."""

    name: str
    format: int
    kind: str


AES_GCM: Final = Suite("AES-256-GCM", 0xE1, "AESGCM")
CHACHA: Final = Suite("ChaCha20-Poly1305", 0xE2, "ChaCha20Poly1305")
PAIR: Final = 2
"""Added to the first byte of a datagram that is sealed with the key of a pair of endpoints."""

SUITES: Final = {suite.format: suite for suite in (AES_GCM, CHACHA)}


class Cipher(NamedTuple):
    """A key in use."""

    encrypt: Crypt
    decrypt: Crypt


def require() -> None:
    """Raise MissingExtraError if the package `cryptography` is missing."""
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("a key", "cryptography", "secure") from None


@lru_cache(maxsize=4)
def _primitive(kind: str) -> Any:
    from cryptography.hazmat.primitives.ciphers import aead

    return getattr(aead, kind)


@lru_cache(maxsize=1)
def invalid_tag() -> type[Exception]:
    """Return the exception class of `Cipher.decrypt` for data that the key did not seal."""
    from cryptography.exceptions import InvalidTag

    return InvalidTag


def derived(secret: bytes, salt: bytes, info: bytes, length: int = KEY_SIZE) -> bytes:
    """Derive a key by HKDF with SHA-256 (RFC 5869)."""
    require()
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt, info).derive(secret)


def cipher(suite: Suite, secret: bytes, salt: bytes, info: bytes) -> Cipher:
    """Derive a key of 32 bytes, and make the cipher with it."""
    key = derived(secret, salt, info + suite.name.encode())
    made = _primitive(suite.kind)(key)
    return Cipher(made.encrypt, made.decrypt)
