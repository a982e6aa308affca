"""Hellos: two endpoints prove to each other that both are there now.

A replay is sealed as well as the original. Therefore an endpoint accepts nothing of a life before this life has
returned the endpoint's *challenge*, a random number of 8 bytes. Two endpoints that meet exchange:

    newcomer  announcement, by multicast            known: nothing; the other holds it back
    other     hello, asking, with its challenge
    newcomer  hello, asking, with its challenge and the other's as echo
    other     hello, telling, with the newcomer's challenge as echo; now the announcement passes up, and is answered

A hello goes to the source of the answered datagram, and is not longer than this. So no attacker can aim a flood at a
third host.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

import orjson

KIND: Final = 0x01
"""The first byte of a hello, where other sealed datagrams have the brace of their JSON header."""

CHALLENGE_SIZE: Final = 8
NO_ECHO: Final = bytes(CHALLENGE_SIZE)
ASKS: Final = 1
"""Flag: the sender wants its challenge returned."""

EPOCH_KIND: Final = 0x02
"""The first byte of an epoch that a member passes on."""

EPOCH_SIGNED: Final = b"glue1 epoch\0"
_EPOCH: Final = Struct(">BHI32s")
_SIGNATURE_SIZE: Final = 64
_BODY: Final = Struct(">BB8s8sH")


class Hello(NamedTuple):
    """One hello. `newest` is the number of the newest epoch of the sender; `proof` belongs to identities."""

    asks: bool
    challenge: bytes
    echo: bytes
    newest: int
    proof: bytes = b""

    def encode(self) -> bytes:
        """The body of the datagram, before it is sealed."""
        flags = ASKS if self.asks else 0
        return _BODY.pack(KIND, flags, self.challenge, self.echo, min(self.newest, 0xFFFF)) + self.proof

    @classmethod
    def parse(cls, body: bytes) -> Hello | None:
        """From a body; None if it is no hello."""
        if len(body) < _BODY.size or body[0] != KIND:
            return None
        _, flags, challenge, echo, newest = _BODY.unpack_from(body)
        return cls(bool(flags & ASKS), challenge, echo, newest, body[_BODY.size :])


class NewEpoch(NamedTuple):
    """The next epoch, passed on to a member with only the previous epoch: number, overlap (seconds) and root.

    Where members have identities, `revoked` names those that are members no more, and `grant` is the authority's
    signature.
    """

    number: int
    overlap: int
    root: bytes
    revoked: tuple[str, ...] = ()
    grant: bytes = b""

    @property
    def signed(self) -> bytes:
        """Return the bytes that the authority signs."""
        head = _EPOCH.pack(EPOCH_KIND, self.number, self.overlap, self.root)
        return EPOCH_SIGNED + head + orjson.dumps(list(self.revoked))

    def encode(self) -> bytes:
        """The body of the datagram, before it is sealed."""
        return self.signed[len(EPOCH_SIGNED) :] + self.grant

    @classmethod
    def parse(cls, body: bytes) -> NewEpoch | None:
        """From a body; None if it is none."""
        if len(body) < _EPOCH.size or body[0] != EPOCH_KIND:
            return None
        rest = body[_EPOCH.size :]
        end = rest.find(b"]") + 1  # names in JSON may hold the bracket, too
        if rest[-_SIGNATURE_SIZE - 1 : -_SIGNATURE_SIZE] == b"]":
            end = len(rest) - _SIGNATURE_SIZE
        try:
            revoked = orjson.loads(rest[:end])
        except ValueError:
            return None
        if type(revoked) is not list or not all(type(name) is str for name in revoked):
            return None
        _, number, overlap, root = _EPOCH.unpack_from(body)
        return cls(number, overlap, root, tuple(revoked), rest[end:])
