"""The partitions of one kind that this endpoint owns, and the records to change.

The record of a partition is `{"host": id, "life": incarnation, "epoch": n}`, changed only by compare-and-set. A host
takes a partition without an owner, or of a lost owner, if rendezvous hashing gives it the partition. An owner hands a
partition over to the host given by hashing, once its receivers are put away. Safety does not depend on agreement about
lost hosts: writes of state are conditional on the record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from glue.receivers.address import choose


class Owner(NamedTuple):
    """The owner of a partition: an endpoint's life, and the number of the change that made it the owner."""

    host: str
    life: int
    epoch: int

    @property
    def record(self) -> dict[str, Any]:
        """As a value of the model."""
        return {"host": self.host, "life": self.life, "epoch": self.epoch}


class Change(NamedTuple):
    """A record to be changed; `before` None: there is none."""

    partition: int
    before: Owner | None
    after: Owner


def owner_of(record: Any) -> Owner | None:
    """Read a record; None for anything else."""
    if not isinstance(record, dict):
        return None
    host, life, epoch = record.get("host"), record.get("life"), record.get("epoch")
    if not isinstance(host, str) or not isinstance(life, int) or not isinstance(epoch, int):
        return None
    return Owner(host, life, epoch)


class Ownership:
    """The records of a kind, and the changes that one host makes."""

    def __init__(self, kind: str, partitions: int, host: str, life: int) -> None:
        self.kind = kind
        self.partitions = partitions
        self.records: dict[int, Owner] = {}
        self.is_known = False  # whether the records were read
        self._me = host, life
        self._hosts: dict[str, int] = {host: life}  # lives of the present hosts, this one included
        self._asked: set[int] = set()  # partitions with a record being changed
        self._wanted: dict[int, str] = {}  # as `wanted` found it, until the hosts change
        self._is_leaving = False

    @property
    def is_leaving(self) -> bool:
        """Whether this endpoint is to own nothing any more."""
        return self._is_leaving

    def leave(self) -> None:
        """Own nothing any more."""
        self._is_leaving = True
        self._wanted.clear()

    def set_hosts(self, others: dict[str, int]) -> None:
        """Take the other hosts of this kind that are present now, with their lives."""
        host, life = self._me
        self._hosts = {**others, host: life}
        self._wanted.clear()

    def note(self, partition: int, record: Any) -> bool:
        """Take a record that changed; return whether this endpoint lost the partition by that."""
        before = self.records.get(partition)
        owner = owner_of(record)
        if owner is None:
            self.records.pop(partition, None)
        else:
            self.records[partition] = owner
        return before is not None and before[:2] == self._me and owner != before

    def owned(self, partition: int) -> Owner | None:
        """The record of a partition if this endpoint owns it."""
        owner = self.records.get(partition)
        return owner if owner is not None and owner[:2] == self._me else None

    @property
    def all_owned(self) -> list[int]:
        """The partitions that this endpoint owns."""
        return [partition for partition, owner in self.records.items() if owner[:2] == self._me]

    def wanted(self, partition: int) -> str:
        """The id of the host that should own a partition; "" for none."""
        found = self._wanted.get(partition)
        if found is None:
            hosts = [host for host in self._hosts if not (self._is_leaving and host == self._me[0])]
            found = self._wanted[partition] = choose(self.kind, partition, hosts)
        return found

    def claims(self) -> list[Change]:
        """The records to change now so that this endpoint owns what it should; each is asked for once."""
        if not self.is_known or self.is_leaving:
            return []
        host, life = self._me
        found = []
        for partition in range(self.partitions):
            owner = self.records.get(partition)
            is_free = owner is None or self._hosts.get(owner.host) != owner.life
            if is_free and partition not in self._asked and self.wanted(partition) == host:
                found.append(Change(partition, owner, Owner(host, life, owner.epoch + 1 if owner else 1)))
        self._asked.update(change.partition for change in found)
        return found

    def surplus(self) -> list[int]:
        """The partitions that this endpoint owns and another host should have."""
        found = []
        for partition in self.all_owned:
            wanted = self.wanted(partition)
            if partition not in self._asked and wanted and wanted != self._me[0]:
                found.append(partition)
        return found

    def hand_over(self, partition: int) -> Change | None:
        """Return the change that gives a partition to its wanted host; None if no change is due."""
        owner, wanted = self.owned(partition), self.wanted(partition)
        if owner is None or not wanted or wanted == self._me[0] or partition in self._asked:
            return None
        self._asked.add(partition)
        return Change(partition, owner, Owner(wanted, self._hosts[wanted], owner.epoch + 1))

    def ask(self, partition: int) -> bool:
        """A record is to be changed for another reason; returns whether it may be, as no change is under way."""
        is_free = partition not in self._asked
        self._asked.add(partition)
        return is_free

    def answered(self, partition: int) -> None:
        """The change of a record was made, refused, or its outcome is unknown."""
        self._asked.discard(partition)
