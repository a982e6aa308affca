"""A stream of trains from one member to another, which goes over to blocks."""

from __future__ import annotations

from glue.contract import Train
from glue.security.blocks import BLOCKS, PARTS
from glue.security.granting import PATIENCE
from glue.security.runs import OVERHEAD, PREFIX_SIZE
from tests.security.pair import HEADER, Member, acquainted

BEGINNING = HEADER % b"0123456789abcdef"
SIZE = 200
COUNT = 20
NUMBERS = slice(PREFIX_SIZE, PREFIX_SIZE + 4)


class Stream:
    """Trains from the kitchen to the hall, each in one piece. Each datagram inside is another one."""

    def __init__(self) -> None:
        self.kitchen, self.hall = Member("kitchen"), Member("hall")
        acquainted(self.kitchen, self.hall)
        self.made = 0

    def plain(self, count: int = COUNT) -> bytes:
        """The next train, before it is sealed. Its last datagram is shorter."""
        self.made += count
        found = [(b"%b%d" % (BEGINNING, self.made - left)).ljust(SIZE) for left in range(count, 0, -1)]
        return b"".join(found)[:-20]

    def sealed(self, plain: bytes) -> bytes:
        """A train, as it leaves."""
        return bytes(self.kitchen.layer.send(0.0, [Train(self.hall.address, plain, SIZE)])[0].data)

    def arrives(self, data: bytes, segment: int = SIZE + OVERHEAD) -> bytes:
        """What the hall opens of a train; what it sends in return arrives, too."""
        up, down = self.hall.layer.receive(0.0, [Train(self.kitchen.address, data, segment)])
        for train in down:
            self.kitchen.layer.receive(0.0, [Train(self.hall.address, bytes(train.data), train.segment)])
        return b"".join(bytes(train.data) for train in up)

    def go_on_until_blocks(self, patience: int = PATIENCE) -> None:
        """Send trains until blocks are granted."""
        for _ in range(patience):
            plain = self.plain()
            sealed = self.sealed(plain)
            assert sealed[0] not in BLOCKS
            assert self.arrives(sealed) == plain

    def block(self) -> tuple[bytes, bytes]:
        """A train, and the block that it is sealed as."""
        plain = self.plain()
        sealed = self.sealed(plain)
        assert sealed[0] in PARTS
        return plain, sealed
