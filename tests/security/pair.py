"""Two security layers with a network between them that keeps everything, for tests."""

from __future__ import annotations

from random import Random

from glue.contract import Address, Train
from glue.security import AES_GCM, Key, Sealing, Suite, new_key
from glue.security.runs import OVERHEAD

KEY = new_key(Random(1).randbytes)
OTHER_KEY = new_key(Random(2).randbytes)
HEADER = b'{"glue":[1,1,"%s",1,0]}\n'

Sent = tuple[Address, bytes]


class Member:
    """One security layer at an address; `up` is what it opened, `told` what it told of others."""

    def __init__(
        self, name: str, key: Key = KEY, seed: int | None = None, suite: Suite = AES_GCM, network_id: int = 1
    ) -> None:
        self.address: Address = (f"10.0.0.{sum(name.encode()) % 250}", 7000)
        self.random = Random(name if seed is None else seed)
        self.told: list[str] = []
        self.up: list[bytes] = []
        self.sent: list[Sent] = []  # destination, () for the group; one datagram
        self.layer = Sealing(
            key=key,
            network_id=network_id,
            suite=suite,
            entropy=self.random.randbytes,
            tell=lambda cause, address: self.told.append(cause),
        )

    def send(self, *payloads: bytes, to: Member | None = None) -> list[Sent]:
        """Seal datagrams of one size, to one other or to all."""
        bodies = [HEADER % b"0123456789abcdef" + payload for payload in payloads]
        train = Train(None if to is None else to.address, b"".join(bodies), len(bodies[0]))
        sent = self._taken(self.layer.send(0.0, [train]))
        self.sent += sent
        return sent

    def receive(self, datagrams: list[Sent], source: Address, now: float = 0.0) -> list[Sent]:
        """Take datagrams, each on its own; return the hellos in return."""
        trains = [Train(source, data, len(data)) for _, data in datagrams]
        up, down = self.layer.receive(now, trains)
        self.up += [bytes(train.data).partition(b"\n")[2] for train in up]
        sent = self._taken(down)
        self.sent += sent
        return sent

    def _taken(self, trains: list[Train]) -> list[Sent]:
        found = []
        for train in trains:
            data = bytes(train.data)
            found += [(train.address or (), data[at : at + train.segment]) for at in range(0, len(data), train.segment)]
        return found


def deliver(sender: Member, receiver: Member, sent: list[Sent], now: float = 0.0) -> None:
    """Pass datagrams from one to another, and hellos to and fro until both are silent."""
    while sent:
        sent = receiver.receive(sent, sender.address, now)
        sender, receiver = receiver, sender


def acquainted(one: Member, other: Member) -> None:
    """Let two members prove to each other that they are there."""
    deliver(one, other, one.send(b"hello"))
    assert other.up == [b"hello"]
    other.up.clear()


def overhead(sent: list[Sent], payload: bytes) -> int:
    return len(sent[0][1]) - len(HEADER % b"0123456789abcdef" + payload)


assert OVERHEAD <= 40
