"""Proofs: the part that identities add to a hello.

A proof is the certificate of the sender, its state, and a signature over the state, the sender's random bytes, and the
challenge of the receiver. The state is a fresh X25519 key of the life, the incarnation, and the number of the next
protected bundle. So the receiver knows the name of the life, and both can derive keys that the other members do not
have: unicast between two members is sealed with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from hashlib import blake2s
from struct import Struct
from typing import Any, Final

from glue.contract import Address
from glue.contract.sealed import NO_IDENTITY, Tell
from glue.security.identity import CERTIFICATE_SIZE, Certificate, MemberIdentity
from glue.security.signing import PUBLIC_SIZE, SIGNATURE_SIZE, is_signed, sign
from glue.security.suites import require

_LENGTH: Final = Struct(">H")
_STATE: Final = Struct(">QQ")  # behind the X25519 key: the incarnation, and the number of the next protected bundle
_HELLO: Final = b"glue1 proof\0"

FIRST_NUMBERS: Final = 8192
"""Numbers kept of others, 200 bytes each: 1.6 MB. Four times as many as there are lives, so that only those of lives
that are not known any more make room."""


class Exchange:
    """An X25519 key pair of one life."""

    __slots__ = ("_secret", "public")

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        require()
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._secret: Any = X25519PrivateKey.from_private_bytes(entropy(PUBLIC_SIZE))
        self.public: bytes = self._secret.public_key().public_bytes_raw()

    def shared(self, public: bytes) -> bytes | None:
        """Return the secret shared with the owner of a public key (RFC 7748); None for a malformed key."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            found: bytes = self._secret.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            return None
        return found


class Prover:
    """Makes this endpoint's proofs, and checks those of others."""

    def __init__(
        self,
        identity: MemberIdentity,
        authority: bytes,
        unix_time: Callable[[], float],
        statistics: Counter[str],
        tell: Tell,
        incarnation: int = 0,
    ) -> None:
        """`authority` is its public key. The certificate of `identity` must be there."""
        assert identity.certificate is not None
        self.certificate: Certificate = identity.certificate
        self._secret = identity.secret
        self._incarnation = incarnation
        self.bundles = 0  # protected so far (see `protection`)
        self.first_numbers: dict[tuple[str, int], int] = {}  # of the next bundle of each other, when it was met
        self._authority = authority
        self._unix_time = unix_time
        self._statistics = statistics
        self._tell = tell

    def prove(self, salt: bytes, public: bytes, challenge: bytes) -> bytes:
        """Return the proof for a receiver with this challenge."""
        document = self.certificate.document
        state = public + _STATE.pack(self._incarnation, self.bundles + 1)
        signature = self.sign(_HELLO + salt + state + challenge)
        return _LENGTH.pack(len(document)) + document + self.certificate.signature + state + signature

    def sign(self, data: bytes) -> bytes:
        """Sign with the secret of the identity."""
        return sign(self._secret, data)

    def check(
        self, proof: bytes, salt: bytes, challenge: bytes, revoked: tuple[str, ...], address: Address | None
    ) -> tuple[Certificate, bytes, int] | None:
        """Return certificate, X25519 key and incarnation of a life; None, counted and told, for a wrong proof."""
        found, cause = self._read(proof)
        if found is not None:
            certificate, state, signature = found
            name = certificate.name
            if not certificate.is_of(self._authority):
                cause = "certificate of another authority"
            elif name in revoked:
                cause = f"{name} is revoked"
            elif self.has_ended(certificate):
                cause = f"certificate of {name} is over"
            elif not is_signed(certificate.public, signature, _HELLO + salt + state + challenge):
                cause = f"not {name}"
            else:
                incarnation, number = _STATE.unpack_from(state, PUBLIC_SIZE)
                self._note(name, incarnation, number)
                return certificate, state[:PUBLIC_SIZE], incarnation
        self.refuse(cause, address)
        return None

    def has_ended(self, certificate: Certificate) -> bool:
        """Whether a certificate is over."""
        return self._unix_time() > certificate.end

    def refuse(self, cause: str, address: Address | None) -> None:
        """Count and tell that a life is not accepted as a member."""
        self._statistics["refused: no identity"] += 1
        self._tell(f"{NO_IDENTITY}: {cause}", address)

    def _note(self, name: str, incarnation: int, number: int) -> None:
        """Note from which bundle on this endpoint knows another life; a later meeting changes nothing."""
        known = blake2s(name.encode(), digest_size=8).hexdigest(), incarnation
        self.first_numbers.setdefault(known, number)

    def forget_numbers(self, known: Container[tuple[str, int]]) -> None:
        """Forget from which bundle on other lives than the `known` ones are known, by endpoint id and incarnation."""
        for life in [life for life in self.first_numbers if life not in known]:
            del self.first_numbers[life]

    def _read(self, proof: bytes) -> tuple[tuple[Certificate, bytes, bytes] | None, str]:
        """Return the certificate, the state of the life and the signature in a proof; or None and what is wrong."""
        if len(proof) < _LENGTH.size:
            return None, "no proof of identity"
        size = _LENGTH.unpack_from(proof)[0]
        place = _LENGTH.size + size
        if size > CERTIFICATE_SIZE or len(proof) != place + 2 * SIGNATURE_SIZE + PUBLIC_SIZE + _STATE.size:
            return None, "malformed proof"
        certificate = Certificate.parse(proof[_LENGTH.size : place], proof[place : place + SIGNATURE_SIZE])
        if certificate is None:
            return None, "malformed certificate"
        return (certificate, proof[place + SIGNATURE_SIZE : -SIGNATURE_SIZE], proof[-SIGNATURE_SIZE:]), ""
