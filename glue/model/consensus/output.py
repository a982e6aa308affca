"""The output of a call of a `Replica`, and the order in which the driver carries it out.

The driver passes messages and the time to a `Replica` and gets an `Output`. It carries out these steps in order:

1. Send `messages`. They depend on nothing that is not stored yet.
2. Restore the state machine from `restore`, if there is one, then apply `committed` in order.
3. Settle the tickets in `resolved`. All that they refer to is applied by then.
4. Call `storage.write(write)`, `storage.sync()` and `replica.synced(now, write.number)`. The Output of this last call
   holds the messages that waited for the disk. Several writes may share one sync: a number reports all before it.
"""

from __future__ import annotations

from glue.model.consensus.items import DurableWrite, LogEntry, Resolution, Snapshot, Status
from glue.model.consensus.messages import Message


class Output:
    """The requests of one call of a `Replica` to its driver; the module tells the order.

    * `messages`: pairs of the receiver's endpoint id and a message. The receiver None means all followers of this
      group, by multicast; each follower takes its part.
    * `write`: what must become durable, or None.
    * `restore`: the snapshot that the state machine must take on before `committed`, or None.
    * `committed`: the commands that are committed now. Each comes once in a life of the replica, in order of index.
      Indices have holes where entries carry no command. After a restart they begin again after the stored snapshot.
    * `resolved`: outcomes of tickets.
    * `status`: the new status if role, term or leader changed, or None.
    * `wants_snapshot`: true if the log is long enough for a snapshot. The driver should call `Replica.take_snapshot`
      with the state after `committed` was applied.
    """

    __slots__ = ("committed", "messages", "resolved", "restore", "status", "wants_snapshot", "write")

    def __init__(self) -> None:
        self.messages: list[tuple[str | None, Message]] = []
        self.write: DurableWrite | None = None
        self.restore: Snapshot | None = None
        self.committed: list[LogEntry] = []
        self.resolved: list[Resolution] = []
        self.status: Status | None = None
        self.wants_snapshot = False
