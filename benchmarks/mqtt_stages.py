"""A door that writes down the stages of a takeover: elections, votes, slow disks, claims of sessions.

`benchmarks.mqtt_takeover --stages` runs its doors by this module instead of `glue.cmd.mqtt`. Each line on the standard
error output begins with the time (monotonic seconds), so the lines of several doors can be put in order.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from glue.cmd import mqtt
from glue.gateway.mqtt.cluster.broker import ClusterBroker
from glue.model.consensus.candidate import Candidate
from glue.model.consensus.core import ReplicaCore
from glue.model.consensus.follower import Follower
from glue.model.consensus.part import Part
from glue.model.disk import Disk

MARK = "stage"
"""The second word of each line."""

SLOW = 0.03
"""Seconds of a write to the disk that is told."""


def tell(text: str) -> None:
    """Write a line."""
    sys.stderr.write(f"{time.monotonic():.3f} {MARK} {text}\n")
    sys.stderr.flush()


def around(owner: type, name: str, line: Callable[..., str]) -> None:
    """Tell `line(*arguments)` before each call of a method, unless it is empty."""
    method = getattr(owner, name)

    @wraps(method)
    def told(*arguments: Any, **more: Any) -> Any:
        text = line(*arguments, **more)
        if text:
            tell(text)
        return method(*arguments, **more)

    setattr(owner, name, told)


def role(core: ReplicaCore, now: float, actor: Any) -> str:
    """Tell the new role of a replica, and how long the leader has been silent here."""
    former = getattr(core, "actor", None)
    silent = f", {now - former._received_at:.3f} s after the leader's last message" if type(former) is Follower else ""
    return f"becomes {actor.role.value} in term {core.term} under {core.leader[:8] or 'nobody'}{silent}"


def vote(candidate: Candidate, now: float, sender: str, message: Any) -> str:
    """Tell the answer to a candidate: the kind of vote, whether it was granted, and the voter."""
    return f"gets {'pre-' * message.pre}vote {'granted' if message.granted else 'denied'} by {sender[:8]}"


def request(part: Part, now: float, sender: str, message: Any) -> str:
    """Tell that a vote is asked for: by which replica, and how long the leader has been silent here."""
    silent = f", {now - part._received_at:.3f} s after the leader's last message" if type(part) is Follower else ""
    return f"is asked for a {'pre-' * message.pre}vote by {sender[:8]} as {part.role.value}{silent}"


def timed(owner: type, name: str) -> None:
    """Tell each call of a method that takes long."""
    method = getattr(owner, name)

    @wraps(method)
    def measured(*arguments: Any) -> Any:
        begun = time.monotonic()
        try:
            return method(*arguments)
        finally:
            if time.monotonic() - begun > SLOW:
                tell(f"{owner.__name__}.{name} took {time.monotonic() - begun:.3f} s")

    setattr(owner, name, measured)


def main() -> None:
    """Run `glue mqtt` with all of this told."""
    around(ReplicaCore, "_become", role)
    around(Candidate, "_begin", lambda self, now, pre: f"asks for {'pre-' * pre}votes of term {self.core.term + 1}")
    around(Part, "on_request_vote", request)
    for handlers in (part.HANDLERS for part in (Candidate, Follower)):
        for kind, handler in list(handlers.items()):
            if handler is Candidate.on_vote:
                around(Candidate, "on_vote", vote)
                handlers[kind] = Candidate.on_vote
            elif handler.__name__ == "on_request_vote":
                handlers[kind] = Part.on_request_vote
    timed(Disk, "flush")
    around(ClusterBroker, "_claim", lambda self, client, client_id, *_: f"claims {client_id}")
    around(ClusterBroker, "_claim_again", lambda self, client, client_id, *_: f"has a claim of {client_id} refused")
    around(ClusterBroker, "_claimed", lambda self, client, client_id, *_: f"has the claim of {client_id}")
    around(ClusterBroker, "_reject", lambda self, now, client, refusal: f"refuses a client: {refusal.reason}")
    around(ClusterBroker, "cut_off", lambda self, now: "is cut off")
    mqtt.main()


if __name__ == "__main__":
    main()
