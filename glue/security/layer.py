"""The security layer: seals each whole datagram on the way down, and opens it on the way up.

It stands between serialization and network, if the endpoint has a key. Headers, acknowledgements and topics are sealed
with the payload. The layer drops, and counts by cause: datagrams without a seal of this group, replays, and datagrams
of lives without proved presence (see `hello`). Nothing is sent in return before a tag holds. Where members have
identities, unicast is sealed for its receiver alone, and each life has a proved name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from glue.contract import Address, Train
from glue.contract.counters import Counters
from glue.contract.sealed import ANOTHER_KEY, HEAD, PLAIN, RETIRED, Tell, sealed_network
from glue.security.blocks import BLOCKS, LEAST, TrainOpener, base_prefix, parts_of
from glue.security.granting import Grant
from glue.security.greeter import Greeter
from glue.security.hello import Hello, NewEpoch
from glue.security.identity import Certificate, MemberIdentity
from glue.security.key import Key
from glue.security.lives import Life, Lives, Opener, is_pair
from glue.security.proof import Prover
from glue.security.rotation import Rotation
from glue.security.runs import LAST, MULTICAST, OVERHEAD, PREFIX_SIZE, open_lone
from glue.security.sealer import SealedTrain, Sealer
from glue.security.suites import PAIR, SUITES, Suite, invalid_tag
from glue.security.wrapping import Wrapper

LOOK: Final = 0.9
"""Seconds between two looks for another key, which cost a call of `stat`; they go with an announcement."""

_FORMAT, _ID = 0, 1  # bytes of the open part


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
        identity: MemberIdentity | None = None,
        unix_time: Callable[[], float] = lambda: 0.0,
        first: int = 0,
        incarnation: int = 0,
    ) -> None:
        """`entropy` returns that many random bytes: `os.urandom`, outside of a simulation. `first` is for tests.

        `on_key` is called with the key after a rotation. `new_key` is called about once a second, and returns a key
        that replaces this key. `identity` has a certificate of the key's authority. `unix_time` tells whether a
        certificate is still valid.
        """
        self.statistics = Counters()
        self._tell = tell
        self._network = network_id.to_bytes(2, "big")
        self._plain = b'{"glue":[1,%d,' % network_id
        self._invalid_tag = invalid_tag()
        self._new_key = new_key
        self.look_at = -inf if new_key else inf
        self._trains = TrainOpener()
        self.lives = Lives(entropy, self.statistics)
        self.rotation = Rotation(key, on_key)
        prover = None
        if identity is not None and key.authority is not None:
            prover = Prover(identity, key.authority, unix_time, self.statistics, tell, incarnation)
        self._has_identities = prover is not None
        self.granted: dict[Address, Life] = {}  # to be told that blocks are granted, or that they end
        self._unix_time = unix_time
        self.sealer = Sealer(
            suite, self._network, entropy, self.statistics, self.rotation.sealing, first, self._has_identities,
            self.lives.forget_pairs,
        )  # fmt: skip
        self._greeter = Greeter(self.lives, self.rotation, self.sealer, prover, self.statistics, network_id, tell)
        self.wrapper = None if prover is None else Wrapper(self.sealer, self.lives, prover, self._greeter.met)

    @property
    def members(self) -> dict[str, Certificate]:
        """The certificates of members by endpoint id."""
        return self._greeter.members

    @property
    def key(self) -> Key:
        """The key with its epochs of now."""
        return self.rotation.key

    @property
    def suite(self) -> Suite:
        """The cipher to seal with."""
        return self.sealer.suite

    @property
    def deadline(self) -> float:
        """When a rotation goes on (monotonic seconds)."""
        return self.rotation.deadline

    def set_key(self, key: Key) -> list[Train]:
        """Take a key with other epochs. Returns what tells the members of it."""
        return self._greeter.set_key(key)

    def renew(self) -> None:
        """Begin another life, with new random bytes and so with new keys: after a fork."""
        self.sealer.renew()

    def fit(self, size: int) -> int:
        """A datagram of `size` bytes leaves this much for what is sealed in it."""
        return size - OVERHEAD

    # -------------------------------------------------------------------------------------------- down

    def send(self, now: float, items: list[Train]) -> list[Train]:
        """Each train, sealed as it leaves."""
        told: list[Train] = []
        self._end_certificates()
        if now >= self.look_at and self._new_key is not None:
            self.look_at = now + LOOK
            key = self._new_key()
            if key is not None and key.newest.number > self.key.newest.number:
                told = self.set_key(key)
        if self.granted:
            told += self._grants()
        return told + [SealedTrain(self.seal, train) for train in items]

    def seal(self, data: bytes | bytearray | memoryview, segment: int, address: Address | None) -> bytes | bytearray:
        """Seal datagrams that leave now for this address; none, or an empty one, is the group."""
        return self.sealer.seal(data, segment, address)

    # ---------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: Iterable[Train]) -> tuple[list[Train], list[Train]]:
        """The trains, opened, and hellos in return."""
        up: list[Train] = []
        down: list[Train] = []
        self._end_certificates()
        if now >= self.rotation.deadline and self.rotation.advance(now, self.lives.fresh):
            self._greeter.use_epochs()
        for train in items:
            opened = self.open_train(now, train)
            if opened is not None:
                up.append(opened.to_owned())
                continue
            self._receive_parts(now, train, up, down)
        if self.granted:
            down += self._grants()
        return up, down

    def _grants(self) -> list[Train]:
        """Messages that grant blocks to lives."""
        found: list[Train] = []
        for address, life in self.granted.items():
            body = Grant(life.salt, life.granting.told()).encode()
            found.append(SealedTrain(self.seal, Train(address, body, len(body))))
        self.granted.clear()
        return found

    def _end_certificates(self) -> None:
        if self._greeter.ends_at < inf and self._unix_time() > self._greeter.ends_at:
            self._greeter.end_certificates()

    def open_train(self, now: float, train: Train) -> Train | None:
        """Open a train of a fresh life in which each datagram follows the one before; None for any other train.

        The datagrams may be sealed alone or in blocks. What is opened is valid until the next train is. Without a
        result, nothing was done.
        """
        data, segment = train.data, train.segment
        prefix = bytes(data[:PREFIX_SIZE])
        opener = self.lives.openers.get(prefix)
        if opener is None and prefix and prefix[0] in BLOCKS:
            opener = self.lives.openers.get(base_prefix(prefix))
        if opener is None or not opener.life.is_fresh or segment <= OVERHEAD:
            return None
        count = -(-len(data) // segment)
        first = int.from_bytes(data[PREFIX_SIZE : HEAD.size], "big")
        window = opener.life.windows[first >= MULTICAST]
        number = first & LAST
        if number + count > LAST or not window.is_new(number, count):
            return None
        if self._has_identities and (not self._is_right(opener, first) or train.address not in self.sealer.partners):
            return None
        try:
            opened = self._open(train, first, opener)
        except self._invalid_tag:
            return None
        if opened is None or not self._is_of(opened[0], opener.life.beginning):
            return None
        window.accept(number, count)
        opener.life.heard = now
        self.statistics["datagrams opened"] += count
        granting = opener.life.granting
        is_told = granting.is_ending
        if count >= LEAST and first < MULTICAST:
            is_told |= (granting.opened if opened[1] else granting.arrived)(number + count, count)
        if is_told and train.address:
            self.granted[train.address] = opener.life
        return opened[0]

    def _open(self, train: Train, first: int, opener: Opener) -> tuple[Train, bool] | None:
        """Open a train, and tell whether it has blocks; see `TrainOpener.open`."""
        if len(train.data) > train.segment:
            return self._trains.open(train, first, opener.prefix, opener.cipher.decrypt)
        if len(train.data) <= OVERHEAD or train.data[_FORMAT] in BLOCKS:
            return None
        plain = open_lone(bytes(train.data), opener.cipher.decrypt)
        return Train(train.address, plain, len(plain)), False

    def _is_of(self, train: Train, beginning: bytes) -> bool:
        """Whether a train begins so; where members have identities, whether each of its datagrams does."""
        data, size = train.data, len(beginning)
        if not self._has_identities or len(data) <= train.segment:
            return bytes(data[:size]) == beginning
        last = (len(data) - 1) // train.segment
        if len(data) - last * train.segment < size:
            return False
        return train.columns(range(size)) == [beginning[at : at + 1] * (last + 1) for at in range(size)]

    def _receive_parts(self, now: float, train: Train, up: list[Train], down: list[Train]) -> None:
        """Open each block and each other datagram of a train on its own."""
        data, segment = train.data, train.segment or 1
        parts = parts_of(data, segment)
        for start, stop, is_block in parts:
            if is_block and not self.is_own(data[start:stop]):
                block = Train(train.address, data[start:stop], segment)
                opened = self.open_train(now, block) if len(parts) > 1 else None
                if opened is None:
                    self._refuse_block(block)
                else:
                    up.append(opened.to_owned())
                continue
            for at in range(start, stop, segment):
                self._receive_datagram(now, train.address, bytes(data[at : min(at + segment, stop)]), up, down)

    def _refuse_block(self, train: Train) -> None:
        """Count the datagrams of a block that does not open; grant no blocks for a while if it is not a replay."""
        data = train.data
        self.statistics["refused: not a whole block"] += -(-len(data) // (train.segment or 1))
        opener = self.lives.openers.get(base_prefix(bytes(data[:PREFIX_SIZE])))
        number = int.from_bytes(data[PREFIX_SIZE : HEAD.size], "big")
        if opener is not None and number < MULTICAST and opener.life.windows[0].is_new(number):
            opener.life.granting.failed(number)

    def _may_grant(self, address: Address, opener: Opener) -> bool:
        """Whether a grant that came from this address speaks for who is there: one member does not for another."""
        if not self._has_identities:
            return True
        return is_pair(opener.prefix[_FORMAT]) and self.sealer.partners.get(address) is opener.life

    def _is_right(self, opener: Opener, number: int) -> bool:
        """Whether a datagram may be sealed so: a multicast with the group's key, a unicast with that of the pair."""
        return is_pair(opener.prefix[_FORMAT]) is (number < MULTICAST)

    def peek(self, datagram: bytes) -> bytes | None:
        """Open the next lone datagram of a fresh life, without a change of state; None for any other."""
        opener = self.lives.openers.get(datagram[:PREFIX_SIZE])
        if opener is None or not opener.life.is_fresh or len(datagram) <= OVERHEAD:
            return None
        number = int.from_bytes(datagram[PREFIX_SIZE : HEAD.size], "big")
        if not opener.life.windows[number >= MULTICAST].is_new(number & LAST):
            return None
        if self._has_identities and not self._is_right(opener, number):
            return None
        try:
            opened = open_lone(datagram, opener.cipher.decrypt)
        except self._invalid_tag:
            return None
        return opened if opened.startswith(opener.life.beginning) else None

    def accept(self, datagram: bytes) -> None:
        """Count a datagram that `peek` opened as received."""
        number = int.from_bytes(datagram[PREFIX_SIZE : HEAD.size], "big")
        self.lives.openers[datagram[:PREFIX_SIZE]].life.windows[number >= MULTICAST].accept(number & LAST)
        self.statistics["datagrams opened"] += 1

    def is_own(self, data: bytes | bytearray | memoryview) -> bool:
        """Whether this endpoint sent a datagram."""
        return self.sealer.is_own(data)

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
        if life.salt == self.sealer.salt:
            self.statistics["lives begun: cloned"] += 1  # a copy of this process seals with the same key
            self.renew()
            return
        self.lives.learn(opener)
        if self.rotation.met(now, data[_ID]):
            self.sealer.use(self.rotation.sealing)
        window.accept(number & LAST)
        life.heard, life.epoch_id = now, data[_ID]
        if life.granting.is_ending and address:
            self.granted[address] = life
        if plain[:1] == b"{":
            if self._has_identities and not self._is_right(opener, number):
                self.statistics["refused: not sealed for this endpoint alone"] += 1
                self._greeter.ask(now, life, address, down)
                return
            if self._has_identities and life.is_fresh and address is not None:
                self.sealer.meet(address, life)
            self._greeter.take(now, life, address, plain, up, down)
        elif (hello := Hello.parse(plain)) is not None and address is not None:
            self._greeter.greet(now, life, address, hello, up, down)
        elif life.is_fresh and (epoch := NewEpoch.parse(plain)) is not None:
            self._greeter.take_epoch(epoch, is_pair(data[_FORMAT]), down)
        elif life.is_fresh and (grant := Grant.parse(plain)) is not None:
            is_for_now = grant.salt == self.sealer.salt and data[_ID] == self.sealer.epoch.id
            if address and is_for_now and self._may_grant(address, opener):
                self.sealer.grant(address, grant.until)
        else:
            self.statistics["malformed"] += 1

    def _opener(self, address: Address | None, data: bytes) -> Opener | None:
        """Return the opener to try for a datagram; None, counted and told, if no key of this endpoint opens it."""
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
            self.statistics["own datagrams received"] += 1
        else:
            return self.lives.openers.get(data[:PREFIX_SIZE]) or self._candidate(address, data[:PREFIX_SIZE])
        return None

    def _candidate(self, address: Address | None, prefix: bytes) -> Opener | None:
        """Return the opener to try for a new prefix; None, counted and told, if no key of this endpoint does."""
        epoch = self.rotation.by_id.get(prefix[_ID])
        if epoch is None:
            is_retired = prefix[_ID] in self.key.retired
            self.statistics["refused: epoch is over" if is_retired else "refused: another key"] += 1
            self._tell(RETIRED if is_retired else ANOTHER_KEY, address)
            return None
        if prefix[_FORMAT] in SUITES:
            return self.lives.candidate(prefix, epoch)
        life = self.lives.find(prefix[4:])
        secret = None if life is None else self.sealer.shared(life)
        if secret is None or prefix[_FORMAT] - PAIR not in SUITES:
            self.statistics["refused: sealed for a pair that is unknown"] += 1
            return None
        return self.lives.candidate_of_pair(prefix, epoch, secret, self.sealer.salt)
