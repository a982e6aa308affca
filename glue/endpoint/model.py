"""What the models of all kinds of endpoint have in common: how they are opened, and what their answers mean.

A call ends in one of three ways. It returns: committed, and nothing acknowledged is ever lost again. It raises
RefusedError (MinorityError where the voters are out of reach): nothing was changed, for certain. Or it raises
UnknownOutcomeError: it may have happened, or happen yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import orjson

from glue.endpoint.core import Core, id_of
from glue.errors import (
    ConfigurationError,
    CorruptStorageError,
    MinorityError,
    ModelError,
    RefusedError,
    UnknownOutcomeError,
)
from glue.model import ModelOptions, Replicated
from glue.model.consensus import ConsensusSettings, Role, Stored
from glue.model.consensus.agreement import Agreement, founded
from glue.model.mergeable import KINDS, Delta, ForeignError, MalformedError, Prefixes, TooFarError, decode_stored
from glue.model.questions import Committed, Ending, Found, Refused, Unknown
from glue.model.state import (
    ABSENT,
    Change,
    Command,
    Conflict,
    Expect,
    Operation,
    Pattern,
    Set,
    Update,
    check_key,
    check_name,
    encode_command,
)
from glue.model.storage import DeltaFile, Directory, FileStorage, MemoryStorage, Storage

TIMEOUT = 10.0
"""Seconds that a call waits: some elections."""

GRACE = 2.0
"""Seconds that an answer may be late, on a busy machine, before the outcome is taken to be unknown."""

HEARTBEATS = 3
"""Heartbeats in an election timeout; each costs CPU also at rest. Two in a row may be lost; a voter that misses a third
only asks whether it would be elected, which those that hear the leader deny."""

OTHER_CONTENT = (
    "data_dir holds {} of a model of another name, network or mergeable=; open it with those it was made with, "
    "or give this one a directory of its own"
)

OTHER_VOTERS = (
    "data_dir holds the state of {}, but voters={}, members={} were given; open it with those it was founded with, "
    "or give this one a directory of its own"
)

logger = logging.getLogger("glue")


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's value, its revision (the log index of its last change) and how old that knowledge may be.

    `age` is 0.0 for a linearizable read; for a stale one, seconds since this endpoint last heard a leader. A mergeable
    key has neither revision nor age: it is what this endpoint knows.
    """

    key: str
    value: Any
    revision: int
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What this endpoint's replica is now; `leader` is a name, None while none is known; `voters` are names.

    `failure` says why it takes no part, or which others do not: its disk is full or has failed, or they were given
    other mergeable keys, or other voters; "" if all is well.
    """

    role: str
    term: int
    leader: str | None
    commit_index: int
    voters: tuple[str, ...]
    age: float
    keys: int
    failure: str


def model_options(
    core: Core,
    name: str,
    *,
    voters: int | None,
    members: Sequence[str] | None,
    observer: bool,
    mergeable: Mapping[str, str] | None,
    directory: Directory | None,
    election_timeout: float,
) -> ModelOptions:
    """Check the options of a model and open its storage; `directory` is where to store, None: in memory.

    Raises ConfigurationError, ModelError, StorageError.
    """
    layer = core.stack.layers["model"]
    if not isinstance(layer, Replicated):
        raise ConfigurationError(f"the model layer is {type(layer).__name__}, which has no models; leave out model=…")
    check_name(name)
    if isinstance(members, str):
        raise ConfigurationError(f"members={members!r}: expected a list of endpoint names")
    if name in layer.groups:
        raise ConfigurationError(f"model {name!r} is open at this endpoint already")
    consensus = ConsensusSettings(
        voters=voters,
        members=None if members is None else tuple(id_of(member) for member in members),
        observer=observer,
        election_timeout=election_timeout,
        heartbeat=election_timeout / HEARTBEATS,
        ticket_timeout=2 * election_timeout,
    )
    prefixes = Prefixes(mergeable or {})
    storage, stored = open_storage(directory, core.identity.random)
    try:
        if stored.vital.group and not stored.vital.group.startswith(layer.scope(name, prefixes) + "/"):
            raise ConfigurationError(OTHER_CONTENT.format("state"))
        if stored.vital.value and not Agreement(consensus).fits(stored.vital.value):
            raise ConfigurationError(OTHER_VOTERS.format(founded(stored.vital.value), voters, members))
        delta_file, deltas = open_deltas(directory, prefixes)
    except BaseException:
        storage.close()
        raise
    return ModelOptions(
        consensus=consensus, storage=storage, stored=stored, mergeable=prefixes, delta_file=delta_file, deltas=deltas,
        names=_known_names(core, members or ()),
    )  # fmt: skip


def _known_names(core: Core, members: Sequence[str]) -> dict[str, str]:
    """The names of endpoints by id: this one, those in reach, those that were given."""
    here = {peer: known.name for peer, known in core.peers.items()}
    return {**here, **{id_of(name): name for name in (*members, core.identity.name)}}


def open_storage(directory: Directory | None, luck: Random) -> tuple[Storage, Stored]:
    """The storage in this directory, or in memory, with what it holds.

    One that is damaged is put aside (the log says so), and the replica begins a new life: it fetches everything
    from the others before it votes again.
    """
    if directory is None:
        storage = MemoryStorage(luck)
        return storage, storage.load()
    files = FileStorage(directory, luck)
    try:
        return files, files.load()
    except CorruptStorageError as error:
        logger.error("%s; what is stored is put aside, and this replica begins anew", error)
    except BaseException:
        files.close()
        raise
    try:
        return files, files.begin_anew()
    except BaseException:
        files.close()
        raise


def open_deltas(directory: Directory | None, prefixes: Prefixes) -> tuple[DeltaFile | None, list[Delta]]:
    """The file of mergeable keys in this directory with what it holds; one that is damaged is put aside.

    Raises ConfigurationError if it was written with other prefixes.
    """
    if directory is None:
        return None, []
    file = DeltaFile(directory)
    try:
        if not prefixes and not file.exists:
            return None, []
        return file, _decoded(prefixes, file.load())
    except ForeignError:
        raise ConfigurationError(OTHER_CONTENT.format("mergeable keys")) from None
    except (CorruptStorageError, MalformedError) as error:
        logger.error("%s; it is put aside, and the mergeable keys are fetched from the others", error)
        file.begin_anew()
        return file, []


def _decoded(prefixes: Prefixes, records: list[bytes]) -> list[Delta]:
    """The deltas in these records, without those that no honest replica can have written."""
    deltas = []
    for record in records:
        try:
            deltas.append(decode_stored(prefixes, record))
        except TooFarError as error:
            logger.error("what is stored of a mergeable key is left out: %s", error)
    return deltas


# ------------------------------------------------------------------------------------------------ answers


def committed(ending: Ending | None) -> int:
    """The log index of a write. Raises RefusedError, MinorityError or UnknownOutcomeError."""
    match ending:
        case Committed(index):
            return index
        case Refused(reason, unreachable):
            raise (MinorityError if unreachable else RefusedError)(reason)
        case Found():
            return 0
    raise UnknownOutcomeError(ending.reason if isinstance(ending, Unknown) else "no answer came in time")


def locked(ending: Ending | None) -> tuple[int, float]:
    """The token of a lock, and a time (monotonic seconds) from which others count its lease, or from later.

    That is not when the call was made: it may have waited for somebody else for longer than the lease. Raises as
    `committed` does.
    """
    return committed(ending), ending.since if isinstance(ending, Committed) else 0.0


def found(ending: Ending | None) -> list[Change]:
    """What a read found. Raises MinorityError or RefusedError; a read never changes anything."""
    if isinstance(ending, Found):
        return ending.entries
    if isinstance(ending, Refused):
        raise (MinorityError if ending.unreachable else RefusedError)(ending.reason)
    raise MinorityError("no answer came in time")


def checked(operations: Sequence[Operation]) -> Sequence[Operation]:
    """The operations, if they can be logged. Raises ModelError."""
    encode_command(Command(0, 0, 0, list(operations)))
    return operations


def compare_and_set(key: str, expected: Any, value: Any) -> Sequence[Operation]:
    """The operations of that name."""
    condition = Expect(key) if expected is ABSENT else Expect(key, expected)
    return checked([condition, Set(key, value)])


def lease_ms(lease: float) -> int:
    """A lease in the log's unit. Raises ConfigurationError."""
    if not isinstance(lease, (int, float)) or not 0.001 <= lease <= 86_400:
        raise ConfigurationError(f"lease={lease!r}: expected 0.001 to 86400 seconds")
    return int(lease * 1000)


class BaseModel:
    """The part of a model that does not wait: what this endpoint has, without asking anybody."""

    def __init__(self, name: str, core: Core, mergeable: Prefixes, now: Callable[[], float]) -> None:
        self.name = name
        self._core = core
        self._mergeable = mergeable
        self._now = now
        self._locks_taken = 0

    def _local_entries(self, pattern: str) -> list[Entry]:
        group = self._group()
        age = group.age(self._now())
        return [
            Entry(change.key, change.value, change.index, age if change.index else 0.0)
            for change in group.local(pattern)
        ]

    def _local_entry(self, key: str) -> Entry | None:
        return next(iter(self._local_entries(key)), None)

    def _local_conflicts(self, pattern: str) -> dict[str, Conflict]:
        part = self._group().mergeable
        found = {} if part is None else part.conflicts(pattern)
        return {key: Conflict(map(orjson.loads, values)) for key, values in found.items()}

    def _addition(self, key: str, what: Any, there: bool | None) -> Update:
        """The update that puts something into a counter or a set, or if not to be `there`, out of it."""
        kind = self._mergeable.kind(check_key(key))
        if kind is KINDS["set"]:
            return Update(key, {what: there})
        if kind is KINDS["counter"] and there:
            return Update(key, what)
        raise ModelError(f"{key!r:.80} is no mergeable {'counter or set' if there else 'set'}; see mergeable=")

    def _group(self) -> Any:
        group = cast(Replicated, self._core.stack.layers["model"]).groups.get(self.name)
        if group is None:
            raise ConfigurationError(f"model {self.name!r} is closed")
        return group

    def _read_status(self) -> ModelStatus:
        group = self._group()
        status = group.status
        names = group.names
        role = "observer" if status.role is Role.FOLLOWER and not group.is_voter else status.role.value
        return ModelStatus(
            role=role,
            term=status.term,
            leader=names.of(status.leader) if status.leader else None,
            commit_index=status.commit_index,
            voters=tuple(sorted(map(names.of, group.replica.configuration.voters))),
            age=group.age(self._now()),
            keys=group.size,
            failure=group.failure(self._now()),
        )

    def _owner(self) -> str:
        """A new owner of locks: unique, and telling for others who it is."""
        self._locks_taken += 1
        return f"{self._core.identity.name[:64]}/{self._core.identity.incarnation}/{self._locks_taken}"

    def __repr__(self) -> str:
        return f"<Model {self.name} at {self._core.identity.name}>"


def check_pattern(pattern: str) -> str:
    """The pattern. Raises ModelError if it is malformed."""
    return Pattern(pattern).text
