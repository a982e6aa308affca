"""Signatures by Ed25519, from the package `cryptography`."""

from __future__ import annotations

from typing import Final

from glue.security.suites import require

SIGNATURE_SIZE: Final = 64
PUBLIC_SIZE: Final = 32
"""Bytes of a public key and of a secret."""


def sign(secret: bytes, data: bytes) -> bytes:
    """Sign with Ed25519 (RFC 8032); `secret` has 32 bytes."""
    require()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret).sign(data)


def public_of(secret: bytes) -> bytes:
    """Return the public key of a secret of Ed25519."""
    require()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def is_signed(public: bytes, signature: bytes, data: bytes) -> bool:
    """Whether a signature of Ed25519 holds. Never raises."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
