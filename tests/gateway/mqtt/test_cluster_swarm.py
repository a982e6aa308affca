"""The cluster under a swarm of seeds, and known mistakes, each planted by a small patch, which the swarm must find."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from glue.gateway.mqtt.cluster import sweeping
from glue.gateway.mqtt.cluster.broker import ClusterBroker
from glue.gateway.mqtt.cluster.keys import Owner
from glue.gateway.mqtt.cluster.replica import Replica
from glue.gateway.mqtt.cluster.shared import Shared
from glue.gateway.mqtt.cluster.units import SessionUnit, Unit
from glue.gateway.mqtt.session import Client
from tests.gateway.mqtt.cluster_swarm import swarm

Patch = pytest.MonkeyPatch
note, prepare = SessionUnit.note, SessionUnit.__init__


@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_lost_whatever_happens_to_doors(seed: int) -> None:
    swarm(seed)


def acknowledges_before_the_commit(patch: Patch) -> None:
    """PUBACK and PUBREC do not wait."""

    def promise(self: ClusterBroker, client: Client, data: bytes, is_stored: bool) -> None:
        client.out.append(data)

    patch.setattr(ClusterBroker, "promise", promise)


def changes_are_not_guarded(patch: Patch) -> None:
    """A door that lost a session goes on to change it."""

    def make(self: SessionUnit, hash: str, owner: Owner) -> None:
        prepare(self, hash, owner)
        self.guards.clear()

    patch.setattr(SessionUnit, "__init__", make)


def event_is_not_noted(name: str, patch: Patch) -> None:
    """A change of a session is not in the log."""
    patch.setattr(SessionUnit, "note", lambda self, event, more: None if event == name else note(self, event, more))


def burials_are_not_guarded(patch: Patch) -> None:
    """Whoever takes a door for dead publishes its wills, also when another door did before."""
    patch.setattr(sweeping, "guarded", lambda hash, present, will: Unit([]))


def messages_are_removed_too_early(patch: Patch) -> None:
    """The log forgets messages that wait for a client that is away."""
    patch.setattr(Replica, "is_done", lambda self, now, entry: True)


def a_claim_ignores_newer_ones(patch: Patch) -> None:
    """A connection that was forgotten takes the session back, and publishes what it had waiting."""

    def again(self: ClusterBroker, client: Client, client_id: str, expected: Any, tries: int, now: float) -> None:
        self.at(now + 0.05, partial(self._claim, client, client_id, tries - 1))

    patch.setattr(ClusterBroker, "_claim_again", again)


def the_order_of_the_past_counts(patch: Patch) -> None:
    """A door that starts takes what is in the log by the time of the last change of each key."""
    apply = Replica.apply

    def wrong(self: Replica, now: float, changes: Any) -> Any:
        for change in sorted(changes, key=lambda one: one.index):
            yield from apply(self, now, [change])

    patch.setattr(Replica, "apply", wrong)


def a_lost_session_lives_on(patch: Patch) -> None:
    """A door does not heed that another one has claimed its session."""
    patch.setattr(ClusterBroker, "_moved", lambda *_: None)
    patch.setattr(Shared, "_refused", lambda *_: None)


PLANTED: dict[str, Callable[[Patch], None]] = {
    "it acknowledges before the commit": acknowledges_before_the_commit,
    "changes of sessions are not guarded": changes_are_not_guarded,
    "packet ids in flight are not in the log": partial(event_is_not_noted, "sent"),
    "PUBLISH of QoS 2 is not remembered": partial(event_is_not_noted, "in"),
    "PUBREC is not remembered": partial(event_is_not_noted, "rec"),
    "burials are not guarded": burials_are_not_guarded,
    "messages are removed too early": messages_are_removed_too_early,
    "a claim ignores newer ones": a_claim_ignores_newer_ones,
    "the order of the past counts": the_order_of_the_past_counts,
    "a lost session lives on": a_lost_session_lives_on,
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_swarm_finds_planted_bugs(name: str, monkeypatch: Patch) -> None:
    PLANTED[name](monkeypatch)
    with pytest.raises(AssertionError):
        swarms(60)


def swarms(count: int) -> None:
    for seed in range(count):
        swarm(seed)
