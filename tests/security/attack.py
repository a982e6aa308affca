"""A swarm of attacks on sealed endpoints: the attacker has everything but the key.

It hears all, and sends what the attacker of `tests.simulation.attack` sends, mostly in the names of the parties: plain
forgeries, and mutated, truncated, spliced, reordered and reflected copies of sealed datagrams, and replays of this
minute, of former lives and of clones. Promised is more than against plain endpoints: nobody else is ever known, and
nothing of the attacker passes the security layer. No nonce is used twice with one key.

    python -m tests.security.attack 0 1000    # hunt through these seeds
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from random import Random
from typing import Any
from unittest import mock

from glue import Peer
from glue.contract import Address
from glue.contract.sealed import HEAD
from glue.security import granting, new_key
from glue.security.blocks import base_prefix
from glue.security.runs import PREFIX_SIZE
from glue.simulation import Conditions, Crossing
from tests.simulation.attack import Attack

RESTARTS = 2


class Nonces:
    """All datagrams that endpoints sent: the same key and number never seals two different texts, in blocks or not."""

    def __init__(self) -> None:
        self.texts: dict[bytes, bytes] = {}

    def note(self, data: bytes) -> None:
        assert data[:1] != b"{", "a datagram is not sealed"
        head, text = base_prefix(data[:PREFIX_SIZE]) + data[PREFIX_SIZE : HEAD.size], data[HEAD.size :]
        assert self.texts.setdefault(head, text) == text, f"nonce {head.hex()} is used twice"


class SealedAttack(Attack):
    """A world with sealed parties and an attacker; a party restarts now and then."""

    def __init__(self, seed: int) -> None:
        self.nonces = Nonces()
        self.key = new_key(Random(seed).randbytes)
        self.former: list[bytes] = []
        self.crossings: Counter[Address] = Counter()  # of honest datagrams, by receiver
        super().__init__(seed)
        self.world.network.observer = self.overhear
        kinds = [*self.kinds, self.reflected, self.spliced, self.flipped, self.old]
        self.kinds = self.random.sample(kinds, self.random.randint(1, len(kinds)))
        self.spoofed = [*self.spoofed, self.replayed, self.flipped, self.reflected, self.old, self.mutated]
        bystander = self.world.endpoint("bystander", key=self.key)
        for number in range(RESTARTS):
            self.world.after(0.5 + number, bystander.restart)
        self.world.after(3.5, bystander.close)
        self.bystander = bystander
        self.clashes: list[Peer] = []
        bystander.on_name_clash = self.clashes.append

    def settings(self) -> dict[str, Any]:
        return {"key": self.key}

    def overhear(self, crossing: Crossing) -> None:
        super().overhear(crossing)
        if crossing.source != self.attacker.address:
            self.crossings[crossing.receiver] += 1
            self.nonces.note(crossing.data)
            if crossing.source == self.bystander.host.address and len(self.former) < 200:
                self.former.append(crossing.data)

    def flipped(self) -> bytes:
        data = bytearray(self.replayed())
        data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        return bytes(data)

    def reflected(self) -> bytes:
        return self.overheard[-1]

    def old(self) -> bytes:
        """What a former life sent."""
        return self.random.choice(self.former or self.overheard)

    def spliced(self) -> bytes:
        one, two = self.replayed(), self.replayed()
        cut = self.random.choice((2, 4, PREFIX_SIZE, HEAD.size, len(one) - 16))
        return one[:cut] + two[cut:]

    def run(self) -> str:
        hash = super().run()
        assert not self.clashes, f"{self.clashes}: a replay of a former life was believed"
        for party in self.parties:
            names = {peer.name for peer in party.endpoint.peers}
            assert names <= {other.name for other in self.parties}, f"{party.name} knows {names}"
            counted = party.endpoint.statistics
            assert counted["serialization"]["malformed header"] == 0, counted
            assert counted["discovery"].get("malformed header", 0) == 0, counted
            opened = counted["security"]["datagrams opened"]
            assert opened <= self.crossings[party.endpoint.host.address], f"{opened} opened: replays are among them"
            lives = list(party.endpoint._core.security.lives)
            assert len(lives) <= len(self.parties) + RESTARTS + 2, "the attacker takes memory"
        return hash


class BlockAttack(SealedAttack):
    """The same with longer messages, which two parties seal in blocks, as trains arrive in one piece.

    Blocks begin anew soon after each failure.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.size = 15_000
        self.world.network.set_conditions(Conditions(delay=0.0005))

    @property
    def in_blocks(self) -> int:
        """Datagrams of the parties that were sealed in blocks."""
        return sum(party.endpoint.statistics["security"]["datagrams sealed in blocks"] for party in self.parties)

    def run(self) -> str:
        with mock.patch.object(granting, "PATIENCE", 1), mock.patch.object(granting, "SETBACK", 1):
            return super().run()


def main(first: int, stop: int) -> None:
    """Hunt through seeds."""
    for seed in range(first, stop):
        try:
            SealedAttack(seed).run()
            BlockAttack(seed).run()
        except Exception:
            print(f"seed {seed}", flush=True)
            traceback.print_exc(limit=-2)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
