"""What one call of a `Replica` asks of its driver.

The driver of a `Replica` hands in messages and the time and gets an `Output`, which it obeys in this order:

1. send `messages` (they depend on nothing that is not yet stored);
2. restore the state machine from `restore`, if there is one, then apply `committed` in order;
3. settle the tickets in `resolved` (whatever they tell is applied by then);
4. `storage.write(write)` and `storage.sync()`, then `replica.synced(now, write.number)`, whose own Output holds what
   had to wait for the disk. Several writes may share one sync: reporting a number reports all before it.
"""

from __future__ import annotations

from glue.model.consensus.items import LogEntry, Resolution, Snapshot, Status, Write
from glue.model.consensus.messages import Message


class Output:
    """What one call of a `Replica` asks for; see the module for the order in which it is obeyed.

    - `messages`: (receiver's endpoint id, message); None as receiver means all that follow this group: one
      multicast, of which each receiver takes what concerns it.
    - `write`: what must become durable, or None.
    - `restore`: a snapshot that the state machine must take on before `committed`, or None.
    - `committed`: the commands committed now, each exactly once in a life of the replica and in order of index;
      indices have holes where entries carry no command. After a restart they begin again after the snapshot that
      storage held.
    - `resolved`: outcomes of tickets.
    - `status`: the new status if role, term or leader changed, or None.
    - `wants_snapshot`: the log has grown so long that the driver should call `Replica.take_snapshot` with what the
      state machine is after `committed` was applied.
    """

    __slots__ = ("committed", "messages", "resolved", "restore", "status", "wants_snapshot", "write")

    def __init__(self) -> None:
        self.messages: list[tuple[str | None, Message]] = []
        self.write: Write | None = None
        self.restore: Snapshot | None = None
        self.committed: list[LogEntry] = []
        self.resolved: list[Resolution] = []
        self.status: Status | None = None
        self.wants_snapshot = False
