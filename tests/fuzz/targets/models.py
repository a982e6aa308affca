"""Replicated state: messages of replicas, entries, snapshots and mergeable keys."""

from __future__ import annotations

from collections import Counter
from typing import Any

from glue.model.consensus import Stored, Vital
from glue.model.consensus.configuration import Configuration
from glue.model.consensus.messages import Forward
from glue.model.consensus.wire import MalformedMessageError, decode, encode
from glue.model.mergeable import Prefixes
from glue.model.mergeable import wire as mergeable
from glue.model.mergeable.store import Store
from glue.model.state import Set, Update
from glue.model.state.commands import Command, MalformedEntryError, decode_command, encode_command, encode_entry
from glue.model.state.machine import State
from tests.fuzz.registry import joined, split, target
from tests.model.member import GROUP, Member, configuration, life
from tests.model.mergeable.test_wire import messages as mergeable_messages
from tests.model.test_forged import OF_INDICES, OF_TERMS

PREFIXES = Prefixes({"c/": "counter", "s/": "set", "r/": "register", "m/": "multi"})


def raft_messages() -> list[bytes]:
    """Messages of every kind."""
    found: list[Any] = [*OF_TERMS, *OF_INDICES]
    return [encode(message) for message in found]


@target("raft-message", raft_messages, MalformedMessageError)
def raft_message(data: bytes) -> None:
    """A message of a replica; what was understood is written as it came, but for spaces."""
    message = decode(data)
    assert decode(encode(message)) is not None


def raft_conversations() -> list[bytes]:
    """Several messages each."""
    found = raft_messages()
    forward = encode(Forward(GROUP, life("b"), 1, (1,), (b"x",)))
    return [joined([*found[at : at + 4], forward]) for at in range(0, len(found), 4)]


@target("raft-replica", raft_conversations, MalformedMessageError)
def raft_replica(data: bytes) -> None:
    """A member of a group that takes messages in the names of the others; some time passes between them."""
    member = Member("a", terms=(1, 1))
    for number, part in enumerate(split(data)):
        try:
            message = decode(part)
        except MalformedMessageError:
            continue
        member.get(("b" if number % 2 else "c", message))
        if number % 3 == 2:
            member.wait(0.5)


@target("raft-founding", raft_conversations, MalformedMessageError)
def raft_founding(data: bytes) -> None:
    """A replica without a group."""
    member = Member("a", stored=Stored(Vital(life("a"))))
    for part in split(data):
        try:
            member.get(("b", decode(part)))
        except MalformedMessageError:
            continue


def commands() -> list[bytes]:
    """Entries of a state."""
    operations = [Set("a/b", {"x": [1, None]}), Update("a/b", {"x": 2}), Set("c", 1)]
    command = encode_command(Command(1, 2, 1, operations))  # type: ignore[arg-type]  # a list of some operations
    return [joined([encode_entry(1000, [command]), encode_entry(2000, [command, command])]), joined([command])]


@target("model-entry", commands, MalformedEntryError)
def model_entry(data: bytes) -> None:
    """Entries that a state applies; the state is written and read again."""
    state = State()
    for index, part in enumerate(split(data), 1):
        state.apply(index, part)
    again = State.restore(state.snapshot())
    assert again.digest == state.digest
    decode_command(data[2:])


def snapshots() -> list[bytes]:
    """Snapshots of states."""
    state = State()
    for index, part in enumerate(split(commands()[0]), 1):
        state.apply(index, part)
    return [State().snapshot(), state.snapshot()]


@target("model-snapshot", snapshots, ValueError)
def model_snapshot(data: bytes) -> None:
    """A snapshot from a peer; a state that was taken over can be used and written."""
    state = State.restore(data)
    state.snapshot()
    state.apply(10, split(commands()[0])[0])


@target("configuration", lambda: [configuration().encode(), configuration("ab", "c").encode()], ValueError)
def configurations(data: bytes) -> None:
    """A configuration of a group."""
    Configuration.decode(data).encode()


def deltas() -> list[bytes]:
    """Messages about mergeable keys."""
    return [mergeable.encode(PREFIXES, message) for message in mergeable_messages()]


@target("mergeable", lambda: [joined(deltas()), *(joined([one]) for one in deltas())], mergeable.MalformedDeltasError,
        mergeable.ForeignError)  # fmt: skip
def mergeables(data: bytes) -> None:
    """Messages about mergeable keys, merged into a store that is written to afterwards."""
    store = Store(PREFIXES, f"{9:016x}", Counter())
    store.write(5, [Update("c/x", 1), Set("s/1", ["a"])])
    for part in split(data):
        try:
            message = mergeable.decode(PREFIXES, part)
        except (mergeable.MalformedDeltasError, mergeable.ForeignError):
            continue
        if isinstance(message, mergeable.Push):
            store.merge(message.delta, 1000)
            store.reading("c/x")
        elif isinstance(message, mergeable.Pull):
            store.since(message.context)
    store.write(6, [Update("c/x", 1)])
    mergeable.decode(PREFIXES, mergeable.encode(PREFIXES, mergeable.Push(store.whole())))
