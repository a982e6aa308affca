"""Rights in models: what this endpoint may write, and which messages of other replicas are taken.

A replica needs the right to `read` the model, or others do not serve it. The right to `write` a key is asked for the
topic MODEL/KEY. A leader or a voter can write everything, and therefore needs the right to write MODEL/#. Mergeable
keys spread from any replica, with removals of others, and therefore need the right for their whole prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from glue.contract import Delivery
from glue.model.consensus.messages import (
    Append,
    Forward,
    InstallSnapshot,
    Offer,
    Prepare,
    Propose,
    RequestVote,
    TimeoutNow,
    Welcome,
)
from glue.model.consensus.wire import MalformedMessageError, decode
from glue.model.mergeable import MalformedDeltasError, Prefixes
from glue.model.mergeable.wire import ForeignError, Push
from glue.model.mergeable.wire import decode as decode_merge
from glue.model.questions import Question, Remove, Transfer, Write
from glue.model.state import AcquireLock, Delete, Operation, ReleaseLock, Set, Update, decode_entry
from glue.model.state.commands import MalformedEntryError

if TYPE_CHECKING:
    from glue.model.group import ModelGroup

LEADING = (Append, InstallSnapshot, Prepare, Propose, RequestVote, TimeoutNow, Welcome)
"""Messages of replicas that lead, want to lead, or found a group."""


class Rights(Protocol):
    """The rules in force."""

    def refusal(self, peer: str | None, action: str, topic: str) -> str:
        """Return the rule by which a peer, or with None this endpoint, may not do something; "" if it may."""


def refusal(rights: Rights, name: str, prefixes: Prefixes | None, question: Question) -> str:
    """Return why this endpoint may not ask this of a model; "" if it may."""
    topics: list[str] = []
    if isinstance(question, Write):
        topics = _topics(name, prefixes, question.operations)
    elif isinstance(question, Transfer | Remove):
        topics = [f"{name}/#"]
    return next((found for topic in topics if (found := rights.refusal(None, "write", topic))), "")


def permitted(rights: Rights, group: ModelGroup, delivery: Delivery) -> int:
    """Keep the payloads of a delivery that its sender may send; returns how many were left out."""
    part, count = group.mergeable, len(delivery.payloads)
    if part is not None and delivery.topic.startswith(part.topic):
        prefixes = part.store.prefixes
        kept = [one for one in delivery.payloads if _may_merge(rights, group.name, prefixes, delivery, one)]
    else:
        kept = [one for one in delivery.payloads if _may_send(rights, group.name, delivery.publisher_id, one)]
    delivery.payloads = kept
    return count - len(kept)


def _may_send(rights: Rights, name: str, sender: str, payload: object) -> bool:
    """Whether a peer may send a message of consensus. What is malformed is left to the group."""
    if payload.__class__ is not bytes:
        return True
    try:
        message = decode(payload)
        if isinstance(message, LEADING) or (isinstance(message, Offer) and message.seats):
            topics = [f"{name}/#"]
        elif isinstance(message, Forward):
            entries = [decode_entry(command)[1] for command in message.commands if command is not None]
            topics = [
                topic
                for commands in entries
                for command in commands
                for topic in _topics(name, None, command.operations)
            ]
        else:
            return True
    except (MalformedMessageError, MalformedEntryError):
        return True
    return not any(rights.refusal(sender, "write", topic) for topic in topics)


def _may_merge(rights: Rights, name: str, prefixes: Prefixes, delivery: Delivery, payload: object) -> bool:
    """Whether a peer may send a message about mergeable keys."""
    try:
        message = decode_merge(prefixes, payload) if isinstance(payload, bytes) else None
    except (MalformedDeltasError, ForeignError):
        return True
    if not isinstance(message, Push):
        return True
    return not any(rights.refusal(delivery.publisher_id, "write", f"{name}/{prefix}#") for prefix in prefixes.texts)


def _topics(name: str, prefixes: Prefixes | None, operations: Sequence[Operation]) -> list[str]:
    """The topics that a write needs rights for: of keys or their mergeable prefix, and of locks."""
    found = []
    for operation in operations:
        match operation:
            case Set(key) | Delete(key) | Update(key):
                prefix = [] if prefixes is None else [one for one in prefixes.texts if f"{key}/".startswith(one)]
                found.append(f"{name}/{prefix[0]}#" if prefix else f"{name}/{key}")
            case AcquireLock(lock) | ReleaseLock(lock):
                found.append(f"{name}/{lock}")
    return found
