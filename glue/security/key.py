"""The key of a group: one secret root for each epoch, as text in a key file.

From the root of an epoch follow the keys of all lives of all members: HKDF of the root with 16 random bytes of the
life. A rotation adds an epoch. Members seal with one epoch and open all epochs of the file. So old and new are valid
side by side for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from glue.errors import ConfigurationError
from glue.security.hello import NewEpoch
from glue.security.signing import sign
from glue.security.suites import KEY_SIZE, derived

FORMAT: Final = 1
EPOCHS: Final = 3
"""Epochs in a file at most: the present one, the one before, and one to come."""

RETIRED: Final = 64
"""Ids of former epochs in a file at most, so that what they sealed is refused by its cause."""

OVERLAP: Final = 60.0
LONGEST: Final = 31 * 86400.0
"""Seconds for which an epoch stays valid after the next has come: as a rule, and at most."""

REVOKED: Final = 50
"""Revoked names at most, so that they fit into one datagram; later ones replace the oldest, which have lost the key."""

NOTE: Final = "Secret: this file makes its holder a member. Copy it to each endpoint; keep its mode 0600."


@dataclass(frozen=True)
class Epoch:
    """The secret of one epoch; `id` is the byte for it in datagrams."""

    number: int
    root: bytes

    @property
    def id(self) -> int:
        """A byte that follows from the root. It tells keys apart before a tag is checked."""
        return derived(self.root, b"", b"glue1 key id", 1)[0]

    def described(self) -> str:
        """Describe the epoch without its secret."""
        return f"epoch {self.number}, id {self.id:02x}"

    def __repr__(self) -> str:
        return f"<Epoch {self.number}>"


@dataclass(frozen=True)
class Key:
    """The key of a group. `str` and `repr` show no secret.

    * `epochs`: oldest first; the last is the newest.
    * `retired`: the ids of epochs that are over.
    * `overlap`: seconds for which the epoch before stays valid after a rotation.
    * `shares`: whether members with the newest epoch pass it on to members with only the previous epoch.
    * `revoked`: names of identities that are members no more.
    * `grant`: the authority's signature of the newest epoch, checked by members before use.
    * `rotated_at`: when the newest epoch was made or came (Unix seconds); 0 if that is not known.
    * `authority`: the public key (32 bytes) that signs the members' certificates; None if members have no identities.
    """

    epochs: tuple[Epoch, ...]
    retired: tuple[int, ...] = ()
    authority: bytes | None = None
    overlap: float = OVERLAP
    shares: bool = True
    revoked: tuple[str, ...] = ()
    grant: bytes = b""
    rotated_at: float = 0.0

    @property
    def newest(self) -> Epoch:
        """The epoch that datagrams are sealed with, once the peers have it."""
        return self.epochs[-1]

    def __repr__(self) -> str:
        epochs = "; ".join(epoch.described() for epoch in self.epochs)
        return f"<Key: {epochs}>"

    __str__ = __repr__

    def to_text(self) -> str:
        """The content of a key file. It is secret."""
        document: dict[str, Any] = {
            "glue key": FORMAT,
            "note": NOTE,
            "epochs": [{"epoch": epoch.number, "root": epoch.root.hex()} for epoch in self.epochs],
        }
        if self.retired:
            document["retired"] = list(self.retired)
        if len(self.epochs) > 1:
            document |= {"overlap": self.overlap, "shares": self.shares}
        if self.rotated_at:
            document["rotated_at"] = self.rotated_at
        if self.authority is not None:
            document |= {"authority": self.authority.hex(), "revoked": list(self.revoked), "grant": self.grant.hex()}
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"

    @classmethod
    def from_text(cls, text: str | bytes, source: str) -> Key:
        """Read the content of a key file. Raises ConfigurationError, with `source` as the name of the file."""
        wrong = (
            f"{source} is damaged, or no glue key: copy the key file of the group again from another endpoint; for a "
            "new group, make one with: glue key new FILE"
        )
        try:
            document = orjson.loads(text)
            if document["glue key"] != FORMAT:
                raise ConfigurationError(
                    f"{source}: a key of format {document['glue key']!r}; this glue reads {FORMAT}"
                )
            epochs = tuple(Epoch(one["epoch"], bytes.fromhex(one["root"])) for one in document["epochs"])
            retired = tuple(document.get("retired", ()))
            overlap, shares = document.get("overlap", OVERLAP), document.get("shares", True)
            rotated_at = document.get("rotated_at", 0.0)
            revoked, grant = tuple(document.get("revoked", ())), bytes.fromhex(document.get("grant", ""))
            authority = bytes.fromhex(document["authority"]) if document.get("authority") else None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigurationError(wrong) if not isinstance(error, ConfigurationError) else error from None
        numbers = [epoch.number for epoch in epochs]
        is_right = (
            1 <= len(epochs) <= EPOCHS
            and all(type(number) is int and number > 0 for number in numbers)
            and numbers == sorted({*numbers})
            and all(len(epoch.root) == KEY_SIZE for epoch in epochs)
            and all(type(id) is int and 0 <= id < 256 for id in retired)
            and (authority is None or len(authority) == KEY_SIZE)
        )
        is_right = is_right and type(shares) is bool and type(overlap) in (int, float) and 0 <= overlap <= LONGEST
        is_right = is_right and type(rotated_at) in (int, float) and rotated_at >= 0
        is_right = is_right and len(revoked) <= REVOKED and all(type(name) is str for name in revoked)
        if not is_right:
            raise ConfigurationError(wrong)
        return cls(epochs, retired[-RETIRED:], authority, float(overlap), shares, revoked, grant, rotated_at)


def new_key(entropy: Callable[[int], bytes], authority: bytes | None = None) -> Key:
    """Make the key of a new group."""
    return Key((Epoch(1, entropy(KEY_SIZE)),), (), authority)


def rotated(
    key: Key, entropy: Callable[[int], bytes], overlap: float = OVERLAP, shares: bool = True, at: float = 0.0
) -> Key:
    """Return the key with one more epoch, of another id than all before; the oldest epoch is retired.

    `at` is the time (Unix seconds), from which the overlap of a file is counted.
    """
    taken = {epoch.id for epoch in key.epochs} | {*key.retired}
    while (epoch := Epoch(key.newest.number + 1, entropy(KEY_SIZE))).id in taken:
        pass
    return replace(with_epoch(key, epoch), overlap=overlap, shares=shares, rotated_at=at)


def with_epoch(key: Key, epoch: Epoch) -> Key:
    """Return the key with a newer epoch; of the older ones, the newest stays valid."""
    return retire(replace(key, epochs=(*key.epochs, epoch)), keep=2)


def granted(key: Key, authority: bytes, without: Sequence[str] = ()) -> Key:
    """Return the key with the authority's signature of its newest epoch, and without these members."""
    revoked = (*[name for name in key.revoked if name not in without], *without)[-REVOKED:]
    epoch = NewEpoch(key.newest.number, round(key.overlap), key.newest.root, revoked)
    return replace(key, revoked=revoked, grant=sign(authority, epoch.signed))


def retire(key: Key, keep: int = 1) -> Key:
    """Return the key with the newest epochs alone; the ids of older epochs are refused from now on."""
    over: Sequence[Epoch] = key.epochs[:-keep]
    retired = (*key.retired, *[epoch.id for epoch in over])[-RETIRED:]
    kept = replace(key, epochs=key.epochs[-keep:], retired=retired)
    return kept if keep > 1 else replace(kept, overlap=OVERLAP, shares=True, rotated_at=0.0)
