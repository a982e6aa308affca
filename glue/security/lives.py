"""The lives of other endpoints: keys, accepted datagrams, and whether each life has proved presence.

Nothing is kept of a datagram with a wrong tag. So only a holder of the key, or the replay of one, takes memory here.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final

from glue.contract import Address
from glue.contract.sealed import HEAD
from glue.security.granting import Granting
from glue.security.hello import CHALLENGE_SIZE, NO_ECHO
from glue.security.identity import Certificate
from glue.security.key import Epoch
from glue.security.runs import PREFIX_SIZE
from glue.security.suites import PAIR, SUITES, Cipher, cipher
from glue.security.window import ReplayWindow

LIFE_LIMIT: Final = 2048
"""Lives known at once: twice as many as discovery has peers. With two windows and keys, 3 kB each: 6 MB."""

UNPROVEN_LIMIT: Final = 256
"""Lives known at once that have not proved to be there now."""

HELD: Final = 8
"""Datagrams held for a life until it has proved to be there now, at most: 12 kB, for all such lives 3 MB."""

GROUP_INFO: Final = b"glue1 group "
PAIR_INFO: Final = b"glue1 pair "

Held = tuple[Address | None, bytes]
"""A datagram that waits, opened: its source and its content."""


class Life:
    """A life of another endpoint: from one draw of 16 random bytes to the next."""

    __slots__ = (
        "address",
        "ask_at",
        "asked",
        "beginning",
        "certificate",
        "challenge",
        "endpoint_id",
        "epoch_id",
        "granting",
        "heard",
        "held",
        "incarnation",
        "is_fresh",
        "newest",
        "public",
        "salt",
        "secret",
        "windows",
    )

    def __init__(self, salt: bytes) -> None:
        self.salt = salt
        self.windows = ReplayWindow(), ReplayWindow()  # of unicasts, of multicasts
        self.is_fresh = False  # whether it has returned this endpoint's challenge
        self.challenge = NO_ECHO  # its own
        self.ask_at = -math.inf  # from when on it may be asked again
        self.asked = 0  # how often it was, in vain
        self.heard = -math.inf
        self.address: Address | None = None  # where its latest hello came from
        self.epoch_id = -1  # of the epoch that it seals with
        self.newest = 0  # the number of the newest epoch that it has
        self.certificate: Certificate | None = None
        self.public: bytes | None = None  # its key of X25519
        self.secret: bytes | None = None  # shared with it by X25519, once computed
        self.endpoint_id = ""  # of the name in the certificate
        self.incarnation = 0  # of the endpoint, as it proved
        self.beginning = b"{"  # how its datagrams must begin: the id for the proved name
        self.held: deque[Held] = deque(maxlen=HELD)
        self.granting = Granting()


class Opener:
    """The opener of the datagrams of one prefix: the life, and the cipher of one epoch."""

    __slots__ = ("cipher", "life", "prefix")

    def __init__(self, prefix: bytes, life: Life, cipher: Cipher) -> None:
        self.prefix = prefix
        self.life = life
        self.cipher = cipher


class Lives:
    """The known lives, and the challenge that a life has to return."""

    def __init__(self, entropy: Callable[[int], bytes], statistics: Counter[str]) -> None:
        self.openers: dict[bytes, Opener] = {}  # by prefix
        self._lives: dict[bytes, Life] = {}  # by salt
        self._entropy = entropy
        self._statistics = statistics
        self.challenge = entropy(CHALLENGE_SIZE)

    def __iter__(self) -> Iterator[Life]:
        """Iterate over all known lives."""
        return iter(self._lives.values())

    @property
    def fresh(self) -> list[Life]:
        """The lives that have proved to be there now."""
        return [life for life in self._lives.values() if life.is_fresh]

    def candidate(self, prefix: bytes, epoch: Epoch) -> Opener:
        """Return what might open datagrams of this prefix; nothing is remembered."""
        format, _, _, salt, _ = HEAD.unpack(prefix + bytes(HEAD.size - PREFIX_SIZE))
        life = self._lives.get(salt) or Life(salt)
        return Opener(prefix, life, cipher(SUITES[format], epoch.root, salt, GROUP_INFO + prefix[2:4]))

    def candidate_of_pair(self, prefix: bytes, epoch: Epoch, secret: bytes, receiver: bytes) -> Opener:
        """Return what might open datagrams that a known life sealed for the life `receiver` alone."""
        format, _, _, salt, _ = HEAD.unpack(prefix + bytes(HEAD.size - PREFIX_SIZE))
        info = PAIR_INFO + prefix[2:4]
        return Opener(
            prefix, self._lives[salt], cipher(SUITES[format - PAIR], secret + epoch.root, salt + receiver, info)
        )

    def find(self, salt: bytes) -> Life | None:
        """Return the life with these random bytes."""
        return self._lives.get(salt)

    def learn(self, opener: Opener) -> None:
        """Remember a life after a tag held."""
        life = opener.life
        if life.salt not in self._lives:
            self._make_room()
            self._lives[life.salt] = life
        self.openers[opener.prefix] = opener

    def forget(self, life: Life) -> None:
        """Forget a life. Its echo counts no more from now on, as the record of accepted datagrams is lost."""
        del self._lives[life.salt]
        for prefix in [prefix for prefix, opener in self.openers.items() if opener.life is life]:
            del self.openers[prefix]
        if life.is_fresh:
            self.challenge = self._entropy(CHALLENGE_SIZE)

    def forget_pairs(self) -> None:
        """Forget all keys for two endpoints alone, as this endpoint begins another life."""
        for life in self._lives.values():
            life.secret = None
        for prefix in [prefix for prefix in self.openers if is_pair(prefix[0])]:
            del self.openers[prefix]

    def _make_room(self) -> None:
        """Forget the life that was silent for longest, if there are too many."""
        unproven = [life for life in self._lives.values() if not life.is_fresh]
        crowd = unproven if len(unproven) >= UNPROVEN_LIMIT else list(self._lives.values())
        if len(unproven) >= UNPROVEN_LIMIT or len(crowd) >= LIFE_LIMIT:
            self._statistics["lives forgotten: too many"] += 1
            self.forget(min(crowd, key=lambda life: life.heard))

    def drop_epochs(self, ids: set[int]) -> None:
        """Forget the keys of these epochs."""
        for prefix in [prefix for prefix in self.openers if prefix[1] in ids]:
            del self.openers[prefix]


def is_pair(format: int) -> bool:
    """Whether the first byte tells of a key for two endpoints alone."""
    return format - PAIR in SUITES
