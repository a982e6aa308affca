"""Decodes the messages of other replicas for one group. Malformed payloads are counted and dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from glue.contract import Delivery
from glue.model.consensus.messages import Forward, Message
from glue.model.consensus.wire import MalformedMessageError, decode
from glue.model.names import Names
from glue.model.state import State

MESSAGES = 16_384
"""Messages of consensus taken in one turn; more are dropped as if lost. A usual turn brings a few dozen."""

UNSTAMPED = b"[0,"
"""The first bytes of an entry without a time stamp."""


def messages_of(deliveries: Sequence[Delivery], names: Names, statistics: Counter[str]) -> list[tuple[str, Message]]:
    """Decode the messages in these deliveries, each with its sender's id, and learn names from them."""
    messages: list[tuple[str, Message]] = []
    for delivery in deliveries:
        sender = delivery.publisher_id
        for payload in delivery.payloads:
            if payload.__class__ is not bytes or len(messages) >= MESSAGES:
                statistics["messages dropped: not bytes, or too many"] += 1
                continue
            try:
                message = decode(payload)
            except MalformedMessageError:
                if not names.take(payload):
                    statistics["malformed messages of consensus"] += 1
                continue
            if message.__class__ is Forward:
                _strip_stamps(message, statistics)
            messages.append((sender, message))
    return messages


def _strip_stamps(message: Forward, statistics: Counter[str]) -> None:
    """Remove the time stamps from forwarded commands, because only the leader may stamp the log.

    A stamp far ahead would end all leases at once and leave no room for later stamps.
    """
    commands = message.commands
    if all(command is None or command.startswith(UNSTAMPED) for command in commands):
        return
    statistics["times stamped by others than the leader"] += 1
    message.commands = tuple(
        command if command is None else UNSTAMPED + command.partition(b",")[2] for command in commands
    )


def is_state(snapshot: bytes) -> bool:
    """Whether the state machine can be restored from a snapshot."""
    try:
        State.restore(snapshot)
    except ValueError:
        return False
    return True
