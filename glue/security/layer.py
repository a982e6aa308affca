"""The security layer: seals each datagram as a whole on its way down, and opens it on its way up.

It stands between serialization and network, if the endpoint has a key. Headers, acknowledgements and topics are sealed
with the payload. What is not sealed with a key of this group, was accepted before, or comes from a life that has not
proved to be there now (see `hello`), is counted with its cause and dropped. Nothing is sent in return before a tag
holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import inf
from typing import Final

from glue.contract import Address, Train
from glue.contract.counters import Counters
from glue.contract.sealed import ANOTHER_KEY, HEAD, PLAIN, RETIRED, Tell, sealed_network
from glue.security.hello import Hello, NewEpoch
from glue.security.key import Epoch, Key, with_epoch
from glue.security.lives import GROUP_INFO, Life, Lives, Opener
from glue.security.rotation import Rotation
from glue.security.runs import LAST, MULTICAST, OVERHEAD, PREFIX_SIZE, open_lone, open_run, seal
from glue.security.suites import SUITES, Suite, cipher, invalid_tag

ASK_SPACING: Final = 0.01
"""Seconds between two hellos that ask the same life: several round trips, and less than a first round."""

LOOK: Final = 0.9
"""Seconds between two looks for another key, which cost a call of `stat`; they go with an announcement."""

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

    backlog = unfinished = 0

    def __init__(
        self,
        *,
        key: Key,
        network_id: int,
        suite: Suite,
        entropy: Callable[[int], bytes],
        tell: Tell,
        on_key: Callable[[Key], None] | None = None,
        new_key: Callable[[], Key | None] | None = None,
        first: int = 0,
    ) -> None:
        """`entropy` returns that many random bytes: `os.urandom`, outside of a simulation. `first` is for tests.

        `on_key` is called with a key that a rotation has changed. `new_key` is called about once a second; it returns
        a key that was put in place of this one.
        """
        self.statistics = Counters()
        self.suite = suite
        self._entropy = entropy
        self._tell = tell
        self._network = network_id.to_bytes(2, "big")
        self._plain = b'{"glue":[1,%d,' % network_id
        self._first = first
        self._invalid_tag = invalid_tag()
        self.lives = Lives(entropy, self.statistics)
        self.rotation = Rotation(key, on_key)
        self._new_key = new_key
        self.look_at = -inf if new_key else inf
        self.renew()

    @property
    def key(self) -> Key:
        """The key with its epochs of now."""
        return self.rotation.key

    @property
    def deadline(self) -> float:
        """When a rotation goes on (monotonic seconds)."""
        return self.rotation.deadline

    def set_key(self, key: Key) -> list[Train]:
        """Take a key with other epochs. Returns what tells the members of it."""
        self.rotation.take(key)
        self._use_epochs()
        told: list[Train] = []
        for life in self.lives.fresh:
            if life.address is not None:
                told.append(self._hello(life, life.address, False))
                self._pass_on(life, life.address, told)
        return told

    def _use_epochs(self) -> None:
        """Open with the epochs of now, and seal with that of now."""
        self.lives.drop_epochs({*range(256)}.difference(self.rotation.by_id))
        self._derive()

    def renew(self) -> None:
        """Begin another life, with new random bytes and so with a new key: after a fork, and when the numbers end."""
        self.salt = self._entropy(SALT_SIZE)
        self._numbers = [self._first, self._first]  # of the next unicast, and of the next multicast
        self._derive()

    def _derive(self) -> None:
        """Derive this life's key from the epoch to seal with. The numbers go on."""
        epoch = self.rotation.sealing
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
        told: list[Train] = []
        if now >= self.look_at and self._new_key is not None:
            self.look_at = now + LOOK
            key = self._new_key()
            if key is not None and key.newest.number > self.key.newest.number:
                told = self.set_key(key)
        return told + [SealedTrain(self, train) for train in items]

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
        if now >= self.rotation.deadline and self.rotation.advance(now, self.lives.fresh):
            self._use_epochs()
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
        if self.rotation.met(now, data[_ID]):
            self._derive()
        window.accept(number & LAST)
        life.heard = now
        if plain[:1] == b"{":
            self._take(now, life, address, plain, up, down)
        elif (hello := Hello.parse(plain)) is not None and address is not None:
            self._greet(now, life, address, hello, up, down)
        elif life.is_fresh and (epoch := NewEpoch.parse(plain)) is not None:
            self._take_epoch(epoch, down)
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
        elif (epoch := self.rotation.by_id.get(data[_ID])) is not None and data[_FORMAT] in SUITES:
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
            self._pass_on(life, address, down)
            if self.rotation.advance(now, self.lives.fresh):
                self._use_epochs()
            while life.held:
                self._take(now, life, *life.held.popleft(), up, down)

    def _pass_on(self, life: Life, address: Address, down: list[Train]) -> None:
        """Send a life the newest epoch, if it lacks only this one, and if members may pass it on."""
        key = self.key
        if key.shares and not self.rotation.is_over and 0 < life.newest == key.epochs[-2].number:
            newest = key.newest
            body = NewEpoch(newest.number, round(key.overlap), newest.root).encode()
            before, self.rotation.sealing = self.rotation.sealing, key.epochs[-2]  # the only one that it opens
            self._derive()
            sealed = bytes(SealedTrain(self, Train(address, body, len(body))).data)
            self.rotation.sealing = before
            self._derive()
            down.append(Train(address, sealed, len(sealed)))

    def _take_epoch(self, epoch: NewEpoch, down: list[Train]) -> None:
        """Take the next epoch from a member."""
        if epoch.number == self.key.newest.number + 1 and self.key.authority is None:
            self.statistics["epochs taken"] += 1
            key = with_epoch(self.key, Epoch(epoch.number, epoch.root))
            down += self.set_key(replace(key, overlap=float(epoch.overlap), shares=True))

    def _hello(self, life: Life, address: Address, asks: bool) -> Train:
        """A hello for a life."""
        self.statistics["hellos sent"] += 1
        body = Hello(asks, self.lives.challenge, life.challenge, self.key.newest.number).encode()
        return SealedTrain(self, Train(address, body, len(body)))
