"""Meeting other members: hellos and proofs until both have proved presence and identity; and new epochs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from hashlib import blake2s
from math import inf
from typing import Final

from glue.contract import Address, Train
from glue.contract.sealed import OWN_END, OWN_REVOKED, Tell
from glue.security.hello import NO_ECHO, Hello, NewEpoch
from glue.security.identity import Certificate
from glue.security.key import Epoch, Key, with_epoch
from glue.security.lives import Life, Lives
from glue.security.proof import FIRST_NUMBERS, Prover
from glue.security.rotation import Rotation
from glue.security.sealer import Seal, SealedTrain, Sealer
from glue.security.signing import is_signed

LIVES_OF_ONE: Final = 2
"""Lives kept of one identity: two endpoints may use the same by mistake, or one after the other."""

MEMBERS: Final = 4096
"""Certificates kept by endpoint id: of 1 kB at most, 4 MB. Twice as many as there are lives, so that only those of
members without a known life make room."""

ASK_SPACING: Final = 0.01
LONGEST_SPACING: Final = 4.0
"""Seconds between two hellos that ask the same life. At first several round trips, and less than a first round; each
hello that asks in vain doubles it, up to the longest, as the life may never prove what is asked."""


class Greeter:
    """Meets other members, for the security layer of one endpoint."""

    def __init__(
        self,
        lives: Lives,
        rotation: Rotation,
        sealer: Sealer,
        prover: Prover | None,
        statistics: Counter[str],
        network_id: int,
        tell: Tell,
    ) -> None:
        self._lives = lives
        self._rotation = rotation
        self._sealer = sealer
        self._prover = prover
        self._statistics = statistics
        self._network_id = network_id
        self._tell = tell
        self.members: dict[str, Certificate] = {}  # by endpoint id
        self.met: dict[str, tuple[Life, ...]] = {}  # likewise; the latest is the last
        self.ends_at = inf if prover is None else prover.certificate.end  # when the next certificate ends, or inf

    def take(
        self, now: float, life: Life, address: Address | None, plain: bytes, up: list[Train], down: list[Train]
    ) -> None:
        """Pass a datagram up; or hold it until its life has proved to be there now, and ask the life for this."""
        if life.is_fresh:
            if not plain.startswith(life.beginning):
                self._statistics["refused: not who it says"] += 1
                return
            self._statistics["datagrams opened"] += 1
            up.append(Train(address, plain, len(plain)))
            return
        if len(life.held) == life.held.maxlen:
            self._statistics["refused: not known to be fresh"] += 1
        life.held.append((address, plain))
        self.ask(now, life, address, down)

    def ask(self, now: float, life: Life, address: Address | None, down: list[Train]) -> None:
        """Ask an unproved life for proof of presence, unless the last request is too recent."""
        if address is not None and self._asks(now, life):
            down.append(self.hello(life, address, True))

    def _asks(self, now: float, life: Life) -> bool:
        """Whether to ask a life now; if so, it is noted."""
        if life.is_fresh or now < life.ask_at:
            return False
        life.ask_at = now + min(ASK_SPACING * 2**life.asked, LONGEST_SPACING)
        life.asked += 1
        return True

    def greet(self, now: float, life: Life, address: Address, hello: Hello, up: list[Train], down: list[Train]) -> None:
        """Take a hello; answer it if it asks."""
        self._statistics["hellos received"] += 1
        life.challenge, life.address, life.newest = hello.challenge, address, hello.newest
        if hello.echo == self._lives.challenge and not life.is_fresh and self._is_member(life, address, hello):
            life.is_fresh, life.asked = True, 0
            self._sealer.withdraw(address)
        if life.is_fresh and self._prover is not None:
            self._sealer.meet(address, life)
        is_asking = self._asks(now, life)
        if hello.asks or is_asking:
            down.append(self.hello(life, address, is_asking))
        if life.is_fresh:
            self._pass_on(life, address, down)
            if self._rotation.advance(now, self._lives.fresh):
                self.use_epochs()
            while life.held:
                self.take(now, life, *life.held.popleft(), up, down)

    def _is_member(self, life: Life, address: Address, hello: Hello) -> bool:
        """Whether a life has proved to be a member, where members have identities."""
        if self._prover is None:
            return True
        revoked = self._rotation.key.revoked
        proved = self._prover.check(hello.proof, life.salt, self._lives.challenge, revoked, address)
        if proved is None:
            return False
        life.certificate, life.public, life.incarnation = proved
        life.secret = None
        self.ends_at = min(self.ends_at, life.certificate.end)
        id = life.endpoint_id = blake2s(life.certificate.name.encode(), digest_size=8).hexdigest()
        if len(self._prover.first_numbers) > FIRST_NUMBERS:
            self._prover.forget_numbers({(one.endpoint_id, one.incarnation) for one in self._lives})
        if len(self.members) >= MEMBERS:
            self._forget_the_absent()
        self.members[id] = life.certificate
        self.met[id] = (*[one for one in self.met.get(id, ()) if one is not life], life)[-LIVES_OF_ONE:]
        life.beginning = b'{"glue":[1,%d,"%s",' % (self._network_id, id.encode())
        return True

    def _forget_the_absent(self) -> None:
        """Forget the members of whom no life is known; a life that is known proves itself only once."""
        find = self._lives.find
        for id in [*self.members]:
            if not any(find(life.salt) is life for life in self.met[id]):
                del self.members[id], self.met[id]

    def hello(self, life: Life, address: Address, asks: bool) -> Train:
        """A hello for a life."""
        self._statistics["hellos sent"] += 1
        proof, exchange = b"", self._sealer.exchange
        if self._prover is not None and exchange is not None and life.challenge != NO_ECHO:
            proof = self._prover.prove(self._sealer.salt, exchange.public, life.challenge)
        newest = self._rotation.key.newest.number
        body = Hello(asks, self._lives.challenge, life.challenge, newest, proof).encode()
        train = Train(address, body, len(body))
        epoch = self._rotation.by_id.get(life.epoch_id, self._sealer.epoch)  # the life may have missed a rotation
        if epoch is not self._sealer.epoch:
            return self._sealed_with(epoch, self._sealer.seal_for_group, train)
        return SealedTrain(self._sealer.seal_for_group, train)

    def _sealed_with(self, epoch: Epoch, seal: Seal, train: Train) -> Train:
        """A train, sealed with another epoch than others."""
        self._sealer.use(epoch)
        sealed = bytes(SealedTrain(seal, train).data)
        self._sealer.use(self._rotation.sealing)
        return Train(train.address, sealed, len(sealed))

    def end_certificates(self) -> None:
        """Forget the lives with a certificate that has ended, and tell of each; tell also of this endpoint's own."""
        prover, self.ends_at = self._prover, inf
        assert prover is not None
        if prover.has_ended(prover.certificate):
            self._statistics["own certificate ended"] += 1
            self._tell(f"{OWN_END}: {prover.certificate.name}", None)
        else:
            self.ends_at = prover.certificate.end
        for life in self._lives.fresh:
            if life.certificate is None:
                continue
            if prover.has_ended(life.certificate):
                prover.refuse(f"certificate of {life.certificate.name} is over", life.address)
                self.forget(life)
            else:
                self.ends_at = min(self.ends_at, life.certificate.end)

    # ---------------------------------------------------------------------------------------- rotation

    def set_key(self, key: Key) -> list[Train]:
        """Take a key with other epochs. Returns what tells the members of it."""
        self._rotation.take(key)
        self.use_epochs()
        if self._prover is not None and (name := self._prover.certificate.name) in key.revoked:
            self._statistics["own name revoked"] += 1
            self._tell(f"{OWN_REVOKED}: {name}", None)
        for life in self._lives.fresh:
            if life.certificate is not None and life.certificate.name in key.revoked:
                self.forget(life)
        told: list[Train] = []
        for life in self._lives.fresh:
            if life.address is not None:
                told.append(self.hello(life, life.address, False))
                self._pass_on(life, life.address, told)
        return told

    def forget(self, life: Life) -> None:
        """Forget a life, and what is sealed for it alone."""
        self._lives.forget(life)
        others = tuple(one for one in self.met.pop(life.endpoint_id, ()) if one is not life)
        if others:
            self.met[life.endpoint_id] = others
            if (certificate := others[-1].certificate) is not None:
                self.members[life.endpoint_id] = certificate
        else:
            self.members.pop(life.endpoint_id, None)
        for address in [address for address, other in self._sealer.partners.items() if other is life]:
            del self._sealer.partners[address]

    def use_epochs(self) -> None:
        """Open with the epochs of now, and seal with that of now."""
        self._lives.drop_epochs({*range(256)}.difference(self._rotation.by_id))
        self._sealer.use(self._rotation.sealing)

    def _pass_on(self, life: Life, address: Address, down: list[Train]) -> None:
        """Send a life the newest epoch, if it lacks no other and if members may pass it on."""
        key = self._rotation.key
        if not key.shares or self._rotation.is_over or not 0 < life.newest == key.epochs[-2].number:
            return
        body = NewEpoch(key.newest.number, round(key.overlap), key.newest.root, key.revoked, key.grant).encode()
        train = Train(address, body, len(body))
        down.append(self._sealed_with(key.epochs[-2], self._sealer.seal, train))  # the only one that it opens

    def take_epoch(self, epoch: NewEpoch, is_pair: bool, down: list[Train]) -> None:
        """Take the next epoch from a member; where members have identities, only one that the authority signed."""
        key = self._rotation.key
        if epoch.number != key.newest.number + 1:
            return
        authority = key.authority
        if authority is not None and not (is_pair and is_signed(authority, epoch.grant, epoch.signed)):
            self._statistics["refused: epoch without the authority's signature"] += 1
            return
        self._statistics["epochs taken"] += 1
        taken = with_epoch(key, Epoch(epoch.number, epoch.root))
        overlap = float(epoch.overlap)
        down += self.set_key(
            replace(taken, overlap=overlap, shares=True, revoked=epoch.revoked or key.revoked, grant=epoch.grant)
        )
