"""The security layer: seals each datagram as a whole on its way down, and opens it on its way up.

It stands between serialization and network, if the endpoint has a key. Headers, acknowledgements and topics are sealed
with the payload. What is not sealed with a key of this group, was accepted before, or comes from a life that has not
proved to be there now (see `hello`), is counted with its cause and dropped. Nothing is sent in return before a tag
holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from glue.contract import Address, Train
from glue.contract.counters import Counters
from glue.contract.sealed import ANOTHER_KEY, HEAD, PLAIN, RETIRED, Tell, sealed_network
from glue.security.hello import Hello
from glue.security.key import Key
from glue.security.lives import GROUP_INFO, Life, Lives, Opener
from glue.security.runs import LAST, MULTICAST, OVERHEAD, PREFIX_SIZE, open_lone, open_run, seal
from glue.security.suites import SUITES, Suite, cipher, invalid_tag

ASK_SPACING: Final = 0.01
"""Seconds between two hellos that ask the same life: several round trips, and less than a first round."""

SALT_SIZE: Final = 16
_FORMAT, _ID = 0, 1  # bytes of the open part


class SealedTrain(Train):
    """A train that is sealed a chunk at a time, as it leaves."""

    __slots__ = ("_data", "_layer", "_train")

    def __init__(self, layer: Sealing, train: Train) -> None:
        self.address = train.address
        self.segment = train.segment + OVERHEAD
        self._layer = layer
        self._train = train
        self._data: bytes | None = None

    @property
    def data(self) -> bytes:  # type: ignore[override]  # it is never set
        """All datagrams in one piece, for callers other than the sending network."""
        if self._data is None:
            self._data = b"".join(self.chunks())
        return self._data

    def chunks(self) -> Iterator[bytes | bytearray]:
        """The data, a chunk at a time. Each chunk is sealed only once."""
        if self._data is not None:
            yield self._data
            return
        for chunk in self._train.chunks():
            yield self._layer.seal(chunk, self._train.segment, self.address)


class Sealing:
    """The security layer of one endpoint: Train below and above."""

    deadline = math.inf
    backlog = unfinished = 0

    def __init__(
        self, *, key: Key, network_id: int, suite: Suite, entropy: Callable[[int], bytes], tell: Tell, first: int = 0
    ) -> None:
        """`entropy` returns that many random bytes: `os.urandom`, outside of a simulation. `first` is for tests."""
        self.statistics = Counters()
        self.suite = suite
        self._entropy = entropy
        self._tell = tell
        self._network = network_id.to_bytes(2, "big")
        self._plain = b'{"glue":[1,%d,' % network_id
        self._first = first
        self._invalid_tag = invalid_tag()
        self.lives = Lives(entropy, self.statistics)
        self._set(key)
        self.renew()

    def set_key(self, key: Key) -> None:
        """Open with all epochs of this key from now on, and seal with its newest."""
        self._set(key)
        self.lives.drop_epochs({*range(256)}.difference(self._epochs))
        self._derive()

    def _set(self, key: Key) -> None:
        self.key = key
        self._epochs = {epoch.id: epoch for epoch in key.epochs}

    def renew(self) -> None:
        """Begin another life, with new random bytes and so with a new key: after a fork, and when the numbers end."""
        self.salt = self._entropy(SALT_SIZE)
        self._numbers = [self._first, self._first]  # of the next unicast, and of the next multicast
        self._derive()

    def _derive(self) -> None:
        """Take the newest epoch for this life's key. The numbers go on."""
        epoch = self.key.newest
        self.prefix = bytes([self.suite.format, epoch.id]) + self._network + self.salt
        self._encrypt = cipher(self.suite, epoch.root, self.salt, GROUP_INFO + self._network).encrypt

    def commit(self) -> None:
        """Nothing is deferred."""

    def fit(self, size: int) -> int:
        """A datagram of `size` bytes leaves this much for what is sealed in it."""
        return size - OVERHEAD

    # -------------------------------------------------------------------------------------------- down

    def send(self, now: float, items: list[Train]) -> list[Train]:
        """Each train, sealed as it leaves."""
        return [SealedTrain(self, train) for train in items]

    def seal(self, data: bytes | bytearray | memoryview, segment: int, address: Address | None) -> bytes | bytearray:
        """Seal datagrams that leave now for this address; none, or an empty one, is the group."""
        count = -(-len(data) // segment)
        kind = 0 if address else 1
        if self._numbers[kind] + count > LAST:
            self.statistics["lives begun: numbers used up"] += 1
            self.renew()
        first = self._numbers[kind]
        self._numbers[kind] += count
        self.statistics["datagrams sealed"] += count
        return seal(data, segment, first + kind * MULTICAST, self.prefix, self._encrypt)

    # ---------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: Iterable[Train]) -> tuple[list[Train], list[Train]]:
        """The trains, opened, and hellos in return."""
        up: list[Train] = []
        down: list[Train] = []
        for train in items:
            opened = self.open_train(now, train)
            if opened is not None:
                up.append(opened)
                continue
            data, segment = train.data, train.segment
            for start in range(0, len(data), segment or 1):
                self._receive_datagram(now, train.address, bytes(data[start : start + segment]), up, down)
        return up, down

    def open_train(self, now: float, train: Train) -> Train | None:
        """Open a train of a fresh life in which each datagram follows the one before; None for any other train.

        Without a result, nothing was done.
        """
        data, segment = train.data, train.segment
        opener = self.lives.openers.get(bytes(data[:PREFIX_SIZE]))
        if opener is None or not opener.life.is_fresh or segment <= OVERHEAD:
            return None
        count = -(-len(data) // segment)
        first = int.from_bytes(data[PREFIX_SIZE : HEAD.size], "big")
        window = opener.life.windows[first >= MULTICAST]
        number = first & LAST
        if number + count > LAST or not window.is_new(number, count):
            return None
        try:
            opened = open_run(data, segment, first, opener.prefix, opener.cipher.decrypt)
        except self._invalid_tag:
            return None
        if not opened or opened[0][:1] != b"{":
            return None
        window.accept(number, count)
        opener.life.heard = now
        self.statistics["datagrams opened"] += count
        plain = opened[0] if count == 1 else b"".join(opened)
        return Train(train.address, plain, min(segment - OVERHEAD, len(plain)))

    def peek(self, datagram: bytes) -> bytes | None:
        """Open the next lone datagram of a fresh life, without a change of state; None for any other."""
        opener = self.lives.openers.get(datagram[:PREFIX_SIZE])
        if opener is None or not opener.life.is_fresh or len(datagram) <= OVERHEAD:
            return None
        number = int.from_bytes(datagram[PREFIX_SIZE : HEAD.size], "big")
        if not opener.life.windows[number >= MULTICAST].is_new(number & LAST):
            return None
        try:
            return open_lone(datagram, opener.cipher.decrypt)
        except self._invalid_tag:
            return None

    def accept(self, datagram: bytes) -> None:
        """Count a datagram that `peek` opened as received."""
        number = int.from_bytes(datagram[PREFIX_SIZE : HEAD.size], "big")
        self.lives.openers[datagram[:PREFIX_SIZE]].life.windows[number >= MULTICAST].accept(number & LAST)
        self.statistics["datagrams opened"] += 1

    def is_own(self, data: bytes | bytearray | memoryview) -> bool:
        """Whether this endpoint sent a datagram."""
        if bytes(data[:PREFIX_SIZE]) != self.prefix:
            return False
        number = int.from_bytes(data[PREFIX_SIZE : HEAD.size], "big")
        return (number & LAST) < self._numbers[number >= MULTICAST]

    def _receive_datagram(
        self, now: float, address: Address | None, data: bytes, up: list[Train], down: list[Train]
    ) -> None:
        """Open one datagram, or count why not; append what goes up, and a hello in return."""
        opener = self._opener(address, data)
        if opener is None:
            return
        life, number = opener.life, int.from_bytes(data[PREFIX_SIZE : HEAD.size], "big")
        window = life.windows[number >= MULTICAST]
        if not window.is_new(number & LAST):
            cause = "refused: too late" if window.is_old(number & LAST) else "refused: replayed"
            self.statistics[cause] += 1
            return
        try:
            plain = open_lone(data, opener.cipher.decrypt)
        except self._invalid_tag:
            self.statistics["refused: bad tag"] += 1
            return
        if life.salt == self.salt:
            self._meet_clone()
            return
        self.lives.learn(opener)
        window.accept(number & LAST)
        life.heard = now
        if plain[:1] == b"{":
            self._take(now, life, address, plain, up, down)
        elif (hello := Hello.parse(plain)) is not None and address is not None:
            self._greet(now, life, address, hello, up, down)
        else:
            self.statistics["malformed"] += 1

    def _opener(self, address: Address | None, data: bytes) -> Opener | None:
        """What may open a datagram; None, counted and told, for what no key of this endpoint opens."""
        network = sealed_network(data)
        if network is None:
            is_plain = data.startswith(self._plain)
            self.statistics["refused: plain" if is_plain else "malformed"] += 1
            if is_plain:
                self._tell(PLAIN, address)
        elif data[2 : 2 + len(self._network)] != self._network:
            self.statistics["other network"] += 1
        elif len(data) <= OVERHEAD:
            self.statistics["malformed"] += 1
        elif self.is_own(data):
            self.statistics["own datagrams heard"] += 1
        elif opener := self.lives.openers.get(data[:PREFIX_SIZE]):
            return opener
        elif (epoch := self._epochs.get(data[_ID])) is not None and data[_FORMAT] in SUITES:
            return self.lives.candidate(data[:PREFIX_SIZE], epoch)
        else:
            is_retired = data[_ID] in self.key.retired
            self.statistics["refused: epoch is over" if is_retired else "refused: another key"] += 1
            self._tell(RETIRED if is_retired else ANOTHER_KEY, address)
        return None

    def _meet_clone(self) -> None:
        """Begin another life, because a copy of this process seals with the same key: a cloned virtual machine."""
        self.statistics["lives begun: cloned"] += 1
        self.renew()

    # -------------------------------------------------------------------------------------- freshness

    def _take(
        self, now: float, life: Life, address: Address | None, plain: bytes, up: list[Train], down: list[Train]
    ) -> None:
        """Pass a datagram up; or hold it until its life has proved to be there now, and ask the life for this."""
        if life.is_fresh:
            self.statistics["datagrams opened"] += 1
            up.append(Train(address, plain, len(plain)))
            return
        if len(life.held) == life.held.maxlen:
            self.statistics["refused: not known to be fresh"] += 1
        life.held.append((address, plain))
        if address is not None and now >= life.asked_at + ASK_SPACING:
            life.asked_at = now
            down.append(self._hello(life, address, True))

    def _greet(
        self, now: float, life: Life, address: Address, hello: Hello, up: list[Train], down: list[Train]
    ) -> None:
        """Take a hello; answer it if it asks."""
        self.statistics["hellos received"] += 1
        life.challenge, life.address, life.newest = hello.challenge, address, hello.newest
        if hello.echo == self.lives.challenge and not life.is_fresh:
            life.is_fresh = True
        is_asking = not life.is_fresh and now >= life.asked_at + ASK_SPACING
        if hello.asks or is_asking:
            if is_asking:
                life.asked_at = now
            down.append(self._hello(life, address, not life.is_fresh))
        if life.is_fresh:
            while life.held:
                self._take(now, life, *life.held.popleft(), up, down)

    def _hello(self, life: Life, address: Address, asks: bool) -> Train:
        """A hello for a life."""
        self.statistics["hellos sent"] += 1
        body = Hello(asks, self.lives.challenge, life.challenge, self.key.newest.number).encode()
        return SealedTrain(self, Train(address, body, len(body)))
