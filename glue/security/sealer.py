"""The sending side of security: this life's random bytes and numbers, its keys, and sealing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from glue.contract import Address, Train
from glue.contract.sealed import HEAD
from glue.security.blocks import LEAST, MOST, BlockSealer
from glue.security.key import Epoch
from glue.security.lives import GROUP_INFO, PAIR_INFO, Life
from glue.security.proof import Exchange
from glue.security.runs import LAST, MULTICAST, OVERHEAD, PREFIX_SIZE, seal
from glue.security.suites import PAIR, Crypt, Suite, cipher

CALL: Final = 65_507
"""Bytes of datagrams that leave in one system call at most (see `glue.serialization.lazy_train`)."""

SALT_SIZE: Final = 16

PARTNERS: Final = 4096
"""Addresses of partners at most: twice as many as there are lives. Each takes 200 bytes and a cipher."""

Seal = Callable[[bytes | bytearray | memoryview, int, Address | None], bytes | bytearray]
Way = tuple[bytes, Crypt]
"""How datagrams to one address are sealed: their prefix, and the cipher."""


class SealedTrain(Train):
    """A train that is sealed a chunk at a time, as it leaves."""

    __slots__ = ("_data", "_seal", "_train")

    def __init__(self, seal: Seal, train: Train) -> None:
        self.address = train.address
        self.segment = train.segment + OVERHEAD
        self._seal = seal
        self._train = train
        self._data: bytes | None = None

    @property
    def data(self) -> bytes:  # type: ignore[override]  # it is never set
        """All datagrams in one piece, for callers other than the sending network."""
        if self._data is None:
            self._data = b"".join(self.chunks())
        return self._data

    def chunks(self, extra: int = 0) -> Iterator[bytes | bytearray]:
        """The data, a chunk at a time. Each chunk is sealed only once."""
        if self._data is not None:
            yield self._data
            return
        segment = self._train.segment
        step = max(CALL // self.segment, 1) * segment  # to be sent while in a near cache
        for chunk in self._train.chunks(OVERHEAD):
            if len(chunk) <= step:
                yield self._seal(chunk, segment, self.address)
                continue
            view = memoryview(chunk)
            for start in range(0, len(chunk), step):
                yield self._seal(view[start : start + step], segment, self.address)


class Sealer:
    """Seals datagrams of this life with `epoch` of the key.

    `partners` are the lives, by address, that share a key with this life alone.
    """

    def __init__(
        self,
        suite: Suite,
        network: bytes,
        entropy: Callable[[int], bytes],
        statistics: Counter[str],
        epoch: Epoch,
        first: int,
        has_identity: bool,
        on_renew: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_renew` is called when another life begins: no peer knows its X25519 key yet."""
        self.suite = suite
        self.partners: dict[Address, Life] = {}
        self._network = network
        self._entropy = entropy
        self._statistics = statistics
        self._first = first
        self._has_identity = has_identity
        self._on_renew = on_renew
        self._ways: dict[Address, Way] = {}
        self._blocks = BlockSealer()
        self._granted: dict[Address, int] = {}  # blocks may be sealed up to this number
        self.epoch = epoch
        self.renew()

    def renew(self) -> None:
        """Begin another life, with new random bytes and so with new keys: after a fork, and when the numbers end."""
        self.salt = self._entropy(SALT_SIZE)
        self.numbers = [self._first, self._first]  # of the next unicast, and of the next multicast
        self.exchange = Exchange(self._entropy) if self._has_identity else None
        self.partners.clear()
        self._on_renew()
        self.use(self.epoch)

    def use(self, epoch: Epoch) -> None:
        """Seal with this epoch of the key from now on. The numbers go on."""
        self.epoch = epoch
        self.prefix = bytes([self.suite.format, epoch.id]) + self._network + self.salt
        self._encrypt = cipher(self.suite, epoch.root, self.salt, GROUP_INFO + self._network).encrypt
        self._ways.clear()
        self._granted.clear()  # a receiver first has to know the new key from other datagrams

    def meet(self, address: Address, life: Life) -> None:
        """Seal for this life alone what goes to the address."""
        if self.partners.get(address) is not life:
            if len(self.partners) >= PARTNERS:
                self.partners.clear()  # they are met again, one by one
            self.partners[address] = life
            self._ways.pop(address, None)

    def grant(self, address: Address, until: int) -> None:
        """Seal trains to this address as blocks, with numbers below `until`."""
        if len(self._granted) >= PARTNERS:
            self._granted.clear()
        self._granted[address] = until

    def withdraw(self, address: Address) -> None:
        """Seal each datagram to this address alone, as another life is there."""
        self._granted.pop(address, None)

    def seal(self, data: bytes | bytearray | memoryview, segment: int, address: Address | None) -> bytes | bytearray:
        """Seal datagrams that leave now for this address; none, or an empty one, is the group."""
        if address and address in self._granted and LEAST * segment <= len(data) <= MOST * segment:
            count, life = -(-len(data) // segment), self.partners.get(address)
            is_met = not self._has_identity or life is not None  # else the receiver has to see that it is to be met
            if is_met and self.numbers[0] + count <= self._granted[address]:
                way = (self.prefix, self._encrypt) if life is None else self._way(address, life)
                self._statistics["datagrams sealed in blocks"] += count
                return self._blocks.seal(data, segment, self._take(count, 0), *way)
        if address and self.partners and (life := self.partners.get(address)) is not None:
            first = self._take(-(-len(data) // segment), 0)
            return seal(data, segment, first, *self._way(address, life))
        return self.seal_for_group(data, segment, address)

    def seal_for_group(
        self, data: bytes | bytearray | memoryview, segment: int, address: Address | None
    ) -> bytes | bytearray:
        """Seal datagrams with the key of the group, whatever their address."""
        kind = 0 if address else 1
        first = self._take(-(-len(data) // segment), kind)
        return seal(data, segment, first + kind * MULTICAST, self.prefix, self._encrypt)

    def _take(self, count: int, kind: int) -> int:
        """Take so many numbers, and return the first."""
        if self.numbers[kind] + count > LAST:
            self._statistics["lives begun: numbers used up"] += 1
            self.renew()
        first = self.numbers[kind]
        self.numbers[kind] += count
        self._statistics["datagrams sealed"] += count
        return first

    def _way(self, address: Address, life: Life) -> Way:
        if address in self._ways:
            return self._ways[address]
        secret = self.shared(life)
        if secret is None:
            return self.prefix, self._encrypt
        prefix = bytes([self.suite.format + PAIR]) + self.prefix[1:]
        made = cipher(self.suite, secret + self.epoch.root, self.salt + life.salt, PAIR_INFO + self._network)
        way = self._ways[address] = prefix, made.encrypt
        return way

    def shared(self, life: Life) -> bytes | None:
        """Return the secret that only this life and another have; None without one.

        It is computed once, so that forged datagrams in the name of the other life do not cost a computation each.
        """
        if self.exchange is None or life.public is None:
            return None
        if life.secret is None:
            life.secret = self.exchange.shared(life.public)
        return life.secret

    def is_own(self, data: bytes | bytearray | memoryview) -> bool:
        """Whether this life sent a datagram, in whatever epoch: copies of multicasts may come back after a rotation."""
        if bytes(data[2:PREFIX_SIZE]) != self.prefix[2:]:
            return False
        number = int.from_bytes(data[PREFIX_SIZE : HEAD.size], "big")
        return (number & LAST) < self.numbers[number >= MULTICAST]
