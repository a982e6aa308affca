"""The guard of an endpoint: the signed rules in force, and what each peer may do by them.

The policy is one JSON document with a version, signed by the authority. An endpoint takes any newer version that comes
from the bus, and never an older one. Without a policy, a member with rules in its certificate may do what these allow,
and any other member everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import orjson

from glue.contract.sealed import FORBIDDEN, TWO_POLICIES, Tell
from glue.errors import ForbiddenError
from glue.security.identity import Certificate
from glue.security.rules import Decision, Mark, Rule, Rules, Subject, read_policy
from glue.security.signing import is_signed, sign

POLICY_SIZE: Final = 1 << 20
"""Bytes of a policy at most: a thousand rules of a thousand characters."""

TOPIC: Final = "$glue/rules"
"""Where members publish the policy, retained."""

REFUSED: Final = "$glue/refused/"
"""Where a member is told what others refuse it: this and its id."""

REFUSALS: Final = 256
"""Refusals that are told to their causers at most, each once; some 300 bytes each."""

TOLD_SIZE: Final = 2000
"""Bytes of a refusal that are read at most."""

DURABLE: Final = "$glue/durable/"
"""Where keepers acknowledge what they have stored."""

TOLD: Final = ("durable", "refused", "held", "unheld")
"""The keys of an acknowledgement with topics in their lists."""

ACKNOWLEDGED: Final = 4096
"""Topics of one acknowledgement that are looked at."""

_POLICY: Final = b"glue1 policy\0"
_MODEL: Final = "$glue/model/"
_WRAPPED: Final = {
    "$glue/limited/": ("subscribe", 3),
    "$glue/sample/": ("subscribe", 4),
    "$glue/share/": ("subscribe", 5),
    "$glue/responder/": ("respond", 2),
    "$glue/request/": ("respond", 3),
    "$glue/publisher/": ("publish", 3),
    "$glue/will/": ("publish", 6),
    "$glue/keeper/": ("keep", 4),
    "$glue/qos/offer/": ("publish", 4),
    "$glue/qos/request/": ("subscribe", 4),
}
"""Topics of glue itself that stand for others: what an interest in them is, and the levels before the topic inside."""


@dataclass(frozen=True)
class Policy:
    """Signed rules; `document` is what the authority signed."""

    version: int
    rules: tuple[Rule, ...]
    document: bytes
    signature: bytes
    marks: tuple[Mark, ...] = ()

    @classmethod
    def make(cls, authority: bytes, version: int, rules: list[Any]) -> Policy:
        """Sign rules with the secret of the authority. Raises ValueError that names a wrong rule."""
        read, marks = read_policy(rules)
        document = orjson.dumps({"version": version, "rules": rules})
        return cls(version, read, document, sign(authority, _POLICY + document), marks)

    def to_text(self) -> str:
        """The content of a file of rules. It is not secret."""
        values = {"glue rules": 1, "document": self.document.decode(), "signature": self.signature.hex()}
        return orjson.dumps(values, option=orjson.OPT_INDENT_2).decode() + "\n"

    @classmethod
    def from_text(cls, text: str | bytes, authority: bytes) -> Policy | None:
        """Read the content of a file of rules; None if it is malformed, or not signed by this authority."""
        if len(text) > POLICY_SIZE:
            return None
        try:
            values = orjson.loads(text)
            document, signature = values["document"].encode(), bytes.fromhex(values["signature"])
            if not is_signed(authority, signature, _POLICY + document):
                return None
            inner = orjson.loads(document)
            version, (rules, marks) = inner["version"], read_policy(inner["rules"])
        except (ValueError, LookupError, TypeError, AttributeError):
            return None
        return cls(version, rules, document, signature, marks) if type(version) is int and version > 0 else None


class Guard:
    """The rights of this endpoint and its peers."""

    def __init__(
        self,
        own: Certificate,
        authority: bytes,
        policy: Policy | None,
        members: Callable[[str], Certificate | None],
        tell: Tell,
        on_policy: Callable[[Policy], None],
    ) -> None:
        """`members` returns the certificate of a peer by its id. `on_policy` is called with each newer policy."""
        self.policy = policy
        self.rules = Rules(policy.rules, policy.marks) if policy else Rules()
        self.changes = 0
        self.refusals: list[tuple[str, str]] = []  # to be told: the id of a peer, and what it may not
        self._told: set[tuple[str, str]] = set()
        self._own = own
        self._authority = authority
        self._members = members
        self._tell = tell
        self._on_policy = on_policy

    def take(self, text: bytes) -> bool:
        """Take a policy that came from the bus, if it is signed and newer."""
        policy = Policy.from_text(text, self._authority)
        if policy is None or not self._is_newer(policy):
            return False
        self.policy, self.rules = policy, Rules(policy.rules, policy.marks)
        self.changes += 1
        self._on_policy(policy)
        return True

    def _is_newer(self, policy: Policy) -> bool:
        """Whether a policy replaces that in force. Of two with the same version, all endpoints choose the same."""
        own = self.policy
        if own is None or policy.version != own.version:
            return own is None or policy.version > own.version
        if policy.document == own.document:
            return False
        self._tell(f"{TWO_POLICIES}: {policy.version}", None)
        return policy.document > own.document

    def decide_own(self, action: str, topic: str) -> Decision:
        """Whether this endpoint may do something with a topic or a pattern."""
        return self.decide(self._own, action, topic)

    def decide(self, subject: Subject, action: str, topic: str) -> Decision:
        """Whether a member may do something with a topic or a pattern."""
        if not self.rules.rules and not subject.rules:
            return Decision(True, "there are no rules")
        return self.rules.decide(subject, action, topic)

    def require(self, action: str, topic: str) -> None:
        """Raise ForbiddenError if this endpoint may not do something."""
        if action == "subscribe":
            action, topic = asked_by(topic) or (action, topic)
        decision = self.decide_own(action, topic)
        if not decision.allowed:
            raise ForbiddenError(f"{self._own.name} may not {action} {topic!r:.80}: {decision.rule}")

    def lets_hear(self, peer: str, interest: str) -> bool:
        """Whether a peer may have an interest; a refusal is told."""
        asked = asked_by(interest)
        return asked is None or self._lets(peer, *asked)

    def lets_say(self, peer: str, topic: str) -> bool:
        """Whether a peer may publish on a topic; a refusal is told."""
        if topic.startswith("$glue/"):
            asked = asked_by(topic)
            if asked is None or asked[0] == "read":
                return asked is None or self._lets(peer, *asked)
            return self._lets(peer, "publish", asked[1])
        return self._lets(peer, "publish", topic)

    def lets_acknowledge(self, peer: str, payload: Any) -> bool:
        """Whether a peer may report messages as stored or refused; see `glue.endpoint.durability`."""
        if type(payload) is not dict:
            return True  # malformed, which is counted where it is read
        parts = [part for kind in TOLD if type(part := payload.get(kind)) is list]
        told = chain.from_iterable(parts)
        topics = {one[0] for one in told if type(one) is list and one and type(one[0]) is str}
        return all(self._lets(peer, "keep", topic) for topic in sorted(topics)[:ACKNOWLEDGED])

    def _lets(self, peer: str, action: str, topic: str) -> bool:
        member = self._members(peer)
        if member is None:
            return False
        return not self._refused(member, peer, action, topic)

    def refusal(self, peer: str | None, action: str, topic: str) -> str:
        """Return the rule by which a peer, or with None this endpoint, may not do something; "" if it may."""
        if peer is None:
            decision = self.decide_own(action, topic)
            return "" if decision.allowed else f"{self._own.name} may not {action} {topic!r:.80}: {decision.rule}"
        member = self._members(peer)
        return "not a member" if member is None else self._refused(member, peer, action, topic)

    def _refused(self, member: Certificate, peer: str, action: str, topic: str) -> str:
        """Return why a peer may not do something, told at both ends; "" if it may."""
        decision = self.decide(member, action, topic)
        if decision.allowed:
            return ""
        refusal = f"{member.name} may not {action} {topic!r:.80}: {decision.rule}"
        self._tell(f"{FORBIDDEN}: {refusal}", None)
        if (peer, refusal) not in self._told and len(self._told) < REFUSALS:
            self._told.add((peer, refusal))
            self.refusals.append((peer, refusal))
        return refusal

    def hear(self, publisher: str, refusal: bytes) -> None:
        """Tell what another member refuses this endpoint."""
        text = "".join(one for one in refusal[:TOLD_SIZE].decode(errors="replace") if one.isprintable())
        self._tell(f"{FORBIDDEN}: {publisher} says that {text}", None)

    def recheck(self, interests: Iterable[str]) -> None:
        """Tell which of this endpoint's interests the rules do not allow any more."""
        for interest in interests:
            asked = asked_by(interest)
            if asked is not None and (refusal := self.refusal(None, *asked)):
                self._tell(f"{FORBIDDEN}: {refusal}; what was subscribed ends", None)


def asked_by(interest: str) -> tuple[str, str] | None:
    """Return what an interest stands for: the action and the topic; None for one that any member may have."""
    if not interest.startswith("$glue/"):
        return "subscribe", interest
    if interest.startswith(_MODEL):
        return "read", interest[len(_MODEL) :].partition("/")[0]
    for beginning, (action, levels) in _WRAPPED.items():
        if interest.startswith(beginning):
            inner = interest.split("/", levels)
            return (action, inner[levels]) if len(inner) > levels else None
    return None


def explain(rules: Sequence[Rule], subject: Certificate, action: str, topic: str) -> Decision:
    """Return what these rules, and those of a certificate, decide."""
    if not rules and not subject.rules:
        return Decision(True, "there are no rules")
    return Rules(rules).decide(subject, action, topic)
