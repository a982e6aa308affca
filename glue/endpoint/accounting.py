"""Accounting of an endpoint: the outcome of each published message and of each received message.

All numbers come from the counters of the layers. A published message counts once for each peer with a known
interest. A received message counts once for each matching subscription.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from glue.contract.frozen import Frozen

OUTCOMES = {
    "handled": "messages handled",
    "expired": "messages expired unhandled",
    "overwritten": "messages overwritten",
    "refused": "messages refused",
    "disconnected": "messages refused at disconnection",
    "left out": "messages left out by quality of service",
    "unread": "messages unread at the end",
}
"""What becomes of a message that came to a subscription, and the counter of it."""

LOST = "messages lost: "
MISSED = "messages missed: "


class Accounting(Frozen):
    """The sums of one endpoint's life so far. A message without an outcome is on its way, or waits."""

    owed: int
    """Messages published, each counted once for each peer that it was for."""
    sent: Counter[str]
    """What became of those: "delivered", "repaired" (delivered, but only after a resend), "unconfirmed" (best effort),
    "lost: …" with the cause."""
    arrived: int
    """Messages that came, own ones too, each counted once for each subscription that it matched."""
    received: Counter[str]
    """What became of those: see `OUTCOMES`."""
    missed: Counter[str]
    """By cause: messages that subscriptions should have had, and that never came."""

    @property
    def sending(self) -> int:
        """How many of `owed` are on their way."""
        return self.owed - self.sent.total()

    @property
    def waiting(self) -> int:
        """How many of `arrived` wait to be handled or read."""
        return self.arrived - self.received.total()


def account(statistics: Mapping[str, Counter[str]]) -> Accounting:
    """The accounting of an endpoint with these counters by layer."""
    topics, transport, endpoint = (statistics.get(name, Counter[str]()) for name in ("topics", "transport", "endpoint"))
    sent = {outcome: transport[f"messages {outcome}"] for outcome in ("delivered", "repaired", "unconfirmed")}
    lost = {name.removeprefix("messages "): count for name, count in transport.items() if name.startswith(LOST)}
    return Accounting(
        owed=topics["messages owed"],
        sent=+Counter({**sent, **lost}),
        arrived=endpoint["messages arrived"],
        received=+Counter({outcome: endpoint[name] for outcome, name in OUTCOMES.items()}),
        missed=Counter(
            {name.removeprefix(MISSED): count for name, count in endpoint.items() if name.startswith(MISSED)}
        ),
    )
