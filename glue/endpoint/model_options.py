"""How a model is opened: its options are checked, and what its directory holds is read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random

from glue.endpoint.core import EndpointCore, id_of
from glue.endpoint.sealing import require
from glue.errors import ConfigurationError, CorruptStorageError
from glue.model import ModelOptions, Replicated
from glue.model.consensus import ConsensusSettings, Stored
from glue.model.consensus.agreement import Agreement, founded
from glue.model.mergeable import Delta, ForeignError, MalformedDeltasError, Prefixes, TooFarError, decode_stored
from glue.model.state import check_name
from glue.model.storage import DeltaFile, FileStorage, MemoryStorage, Storage
from glue.storage import Directory

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


def model_options(
    core: EndpointCore,
    name: str,
    *,
    voters: int | None,
    members: Sequence[str] | None,
    observer: bool,
    mergeable: Mapping[str, str] | None,
    open_directory: Callable[[], Directory | None],
    election_timeout: float,
) -> ModelOptions:
    """Check the options of a model, then open its storage in what `open_directory` returns; None: in memory.

    Raises ConfigurationError, ForbiddenError, ModelError, StorageError. The directory is closed again if opening fails.
    """
    layer = core.stack.layers["model"]
    if not isinstance(layer, Replicated):
        raise ConfigurationError(f"the model layer is {type(layer).__name__}, which has no models; leave out model=…")
    check_name(name)
    require(core.guard, "read", [name])
    if not observer:
        require(core.guard, "write", [f"{name}/#"])  # a voter can write everything
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
    directory = open_directory()
    if directory is not None:
        directory = core.at_rest(directory)
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


def _known_names(core: EndpointCore, members: Sequence[str]) -> dict[str, str]:
    """Return endpoint names by id: this endpoint, the reachable peers and `members`."""
    here = {peer: known.name for peer, known in core.peers.items()}
    return {**here, **{id_of(name): name for name in (*members, core.identity.name)}}


def open_storage(directory: Directory | None, rng: Random) -> tuple[Storage, Stored]:
    """Open the storage in a directory, or in memory without one; returns the storage and its content.

    A damaged storage is put aside and logged as an error. The replica then begins a new life: it fetches all state
    from the others before it votes again.
    """
    if directory is None:
        storage = MemoryStorage(rng)
        return storage, storage.load()
    files = FileStorage(directory, rng)
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
    """Open the file of mergeable keys in a directory; returns the file and its content.

    A damaged file is put aside. Raises ConfigurationError if the file was written with other prefixes.
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
    except (CorruptStorageError, MalformedDeltasError) as error:
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
