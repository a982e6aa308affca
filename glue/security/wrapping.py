"""Signatures of protected topics, and keys wrapped for one peer, by the lives of this endpoint and its peers.

A key is wrapped with HKDF of the X25519 secret of two lives, their salts and the id of the key. So it can be unwrapped
by the receiver alone, and each key that wraps is used once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from glue.security.lives import Life, Lives
from glue.security.proof import Prover
from glue.security.sealer import SALT_SIZE as SALT_SIZE
from glue.security.sealer import Sealer
from glue.security.signing import is_signed
from glue.security.suites import AES_GCM, KEY_SIZE, TAG_SIZE, cipher, invalid_tag

WRAPPED_SIZE: Final = KEY_SIZE + TAG_SIZE
_INFO: Final = b"glue1 wrap "
_NONCE: Final = bytes(12)


class Wrapper:
    """Signs, and wraps keys, for one endpoint with an identity."""

    def __init__(self, sealer: Sealer, lives: Lives, prover: Prover, met: Mapping[str, tuple[Life, ...]]) -> None:
        """`met` are the lives with a proved identity, by endpoint id."""
        self._sealer = sealer
        self._lives = lives
        self._prover = prover
        self._met = met

    @property
    def salt(self) -> bytes:
        """The random bytes of this life."""
        return self._sealer.salt

    def next_number(self) -> int:
        """Return the number of the next protected bundle."""
        self._prover.bundles += 1
        return self._prover.bundles

    def first_number(self, peer: str, incarnation: int) -> int | None:
        """Return the number that a peer's next bundle had when it was met; None if that life is not known."""
        return self._prover.first_numbers.get((peer, incarnation))

    def sign(self, data: bytes) -> bytes:
        """Sign with this endpoint's identity."""
        return self._prover.sign(data)

    def is_signed(self, peer: str, signature: bytes, data: bytes) -> bool:
        """Whether a peer signed this."""
        certificates = {life.certificate for life in self._met.get(peer, ()) if life.certificate is not None}
        return any(is_signed(certificate.public, signature, data) for certificate in certificates)

    def lives(self, peers: Sequence[str]) -> list[tuple[str, bytes]]:
        """Return the lives of these peers that are known now: each peer, and the random bytes of the life."""
        known = self._lives.find
        return [(peer, life.salt) for peer in peers for life in self._met.get(peer, ()) if known(life.salt) is life]

    def wrap(self, salt: bytes, key_id: bytes, key: bytes) -> bytes | None:
        """Wrap a key for a life with these random bytes; None if it cannot be."""
        life = self._lives.find(salt)
        secret = None if life is None else self._sealer.shared(life)
        if secret is None:
            return None
        return cipher(AES_GCM, secret, self.salt + salt + key_id, _INFO).encrypt(_NONCE, key, b"")

    def unwrap(self, peer: str, salt: bytes, key_id: bytes, wrapped: bytes) -> bytes | None:
        """Unwrap a key of a peer's life with this salt; None if it was not wrapped by it for this life."""
        life = self._lives.find(salt)
        if life is None or not life.is_fresh or life.endpoint_id != peer:
            return None
        secret = self._sealer.shared(life)
        if secret is None:
            return None
        try:
            return cipher(AES_GCM, secret, salt + self.salt + key_id, _INFO).decrypt(_NONCE, wrapped, b"")
        except invalid_tag():
            return None
