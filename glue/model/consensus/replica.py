"""One replica of a group: messages and the time in, an `Output` out.

A replica owns no clock, socket, thread or file: see `items.py` for what its driver does. Each call takes all that
there is (a batch of messages, any number of proposals before it) and gives one Output, so that a batch costs one
multicast, one write and one sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from glue.model.consensus.items import Output, Status, Stored
from glue.model.consensus.messages import Message
from glue.model.consensus.settings import ConsensusSettings


class Replica:
    """A member, or an observer, of one group.

        replica = Replica("ab…", scope, settings, storage.load(), random, now)
        output = replica.receive(now, [(sender, message), …])

    `peer` is this endpoint's id. `scope` names what is to be one group: network id and model, whatever is not of
    it is counted and dropped. `stored` is what the storage held; one that was just made holds a new life only.
    """

    def __init__(
        self, peer: str, scope: str, settings: ConsensusSettings, stored: Stored, random: Random, now: float
    ) -> None: ...

    @property
    def deadline(self) -> float:
        """When `receive` must be called even without messages (monotonic seconds); the past if there is work."""
        raise NotImplementedError

    @property
    def status(self) -> Status:
        """Role, term, leader and commit index as of now."""
        raise NotImplementedError

    def receive(self, now: float, messages: Sequence[tuple[str, Message]]) -> Output:
        """Take messages, each with its sender's endpoint id, and do what is due at this time. Never raises."""
        raise NotImplementedError

    def synced(self, now: float, number: int) -> Output:
        """All writes up to this number are durable."""
        raise NotImplementedError

    def propose(self, now: float, command: bytes) -> int:
        """Have a command committed; the ticket's outcome comes with a later Output (the next call of `receive`).

        Callable on any replica: one that follows forwards it, once, to the leader.
        """
        raise NotImplementedError

    def read(self, now: float) -> int:
        """Ask from when on reading the state machine is linearizable; the ticket becomes READABLE (or REFUSED)."""
        raise NotImplementedError

    def take_snapshot(self, now: float, index: int, data: bytes) -> Output:
        """The state machine's state after the entry at `index`, which was the last one committed: compact the log."""
        raise NotImplementedError

    def remove(self, now: float, peer: str) -> int:
        """Take a member out of the group; its seat goes with it. Only the leader can; the ticket tells."""
        raise NotImplementedError

    def transfer(self, now: float, peer: str) -> int:
        """Hand the leadership to another voter; committed once it leads, refused if it did not work in time."""
        raise NotImplementedError
