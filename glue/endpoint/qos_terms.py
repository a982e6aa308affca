"""The policies that a publisher and a subscriber agree on, as interests tell them, and what becomes of differences.

The interest is `$glue/qos/WAY/CODE/PATTERN`, where WAY is `offer` or `request`. Nothing is published there. The code is
a letter for the reliability (`r`, `b`) and one for the durability (`v`, `l`, `t`, `p`). Optional terms follow: `k` with
the depth of the history; `d` with the deadline and `l` with the liveliness in milliseconds; `x` with the strength of an
exclusive publisher; `s` for strict.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from glue.endpoint.qos import DURABILITIES, QoS
from glue.errors import TopicError
from glue.topics import check_pattern

QOS: Final = "$glue/qos/"
OFFER, REQUEST = "offer", "request"
"""The two ways: of a publisher, and of a subscriber."""

_LETTERS = "vltp"
_CODE = re.compile(
    r"([rb])([vltp])(?:k([1-9][0-9]{0,9}))?(?:d([1-9][0-9]{0,9}))?(?:l([1-9][0-9]{0,9}))?(?:x([0-9]{1,10}))?(s?)",
    re.ASCII,
)


class Terms(NamedTuple):
    """The policies of one side. Times are in milliseconds, 0 for none; `depth` 0: all; `strength` -1: shared."""

    is_reliable: bool
    durability: int
    depth: int
    deadline: int
    liveliness: int
    strength: int
    is_strict: bool

    @property
    def code(self) -> str:
        """The policies as an interest tells them."""
        numbers = zip("kdl", (self.depth, self.deadline, self.liveliness), strict=True)
        tail = "".join(f"{letter}{number}" for letter, number in numbers if number)
        owned = "" if self.strength < 0 else f"x{self.strength}"
        return ("r" if self.is_reliable else "b") + _LETTERS[self.durability] + tail + owned + "s" * self.is_strict


class Statement(NamedTuple):
    """An interest that tells of a publisher or a subscriber."""

    way: str
    terms: Terms
    pattern: str

    @property
    def interest(self) -> str:
        """The interest."""
        return f"{QOS}{self.way}/{self.terms.code}/{self.pattern}"


class Difference(NamedTuple):
    """A policy of which less is offered than requested."""

    policy: str
    """The name of the policy."""
    offered: str
    """The offer of the publisher, in words."""
    requested: str
    """The request of the subscriber, in words."""
    agreed: str
    """What holds: the weaker one."""

    def __str__(self) -> str:
        return f"{self.policy} {self.offered} is offered, {self.requested} requested"


class Rank(NamedTuple):
    """An exclusive publisher of a topic; the smallest that keeps its deadline is the owner."""

    weakness: int
    peer: str
    deadline: float
    since: float


NOTHING: Final = (Difference("quality of service", "none", "strict", "none"),)
"""What differs if a publisher offers nothing and a request is strict."""


def terms_of(qos: QoS, lease: float | None = None) -> Terms:
    """Return the policies of a value; `lease` is that of the publisher's endpoint, in seconds."""
    return Terms(
        qos.reliability == "reliable",
        DURABILITIES.index(qos.durability),
        qos.history.depth or 0,
        _milliseconds(qos.deadline),
        _milliseconds(qos.liveliness if lease is None else lease),
        qos.strength if qos.ownership == "exclusive" else -1,
        qos.strict,
    )


def _milliseconds(seconds: float | None) -> int:
    return 0 if seconds is None else math.ceil(seconds * 1000)


def statement_of(interest: str) -> Statement | None:
    """Decode an interest below QOS; None if it is malformed."""
    parts = interest.removeprefix(QOS).split("/", 2)
    if len(parts) != 3 or parts[0] not in (OFFER, REQUEST) or (found := _CODE.fullmatch(parts[1])) is None:
        return None
    try:
        check_pattern(parts[2])
    except TopicError:
        return None
    reliability, durability, depth, deadline, liveliness, strength, strict = found.groups()
    terms = Terms(
        reliability == "r", _LETTERS.index(durability), int(depth or 0), int(deadline or 0), int(liveliness or 0),
        -1 if strength is None else int(strength), bool(strict),
    )  # fmt: skip
    return Statement(parts[0], terms, parts[2])


def differences(offered: Terms, requested: Terms) -> list[Difference]:
    """The policies of which less is offered than requested."""
    found = []
    if requested.is_reliable and not offered.is_reliable:
        found.append(Difference("reliability", "best-effort", "reliable", "best-effort"))
    if requested.durability > offered.durability:
        weaker = DURABILITIES[offered.durability]
        found.append(Difference("durability", weaker, DURABILITIES[requested.durability], weaker))
    if min(requested.durability, offered.durability) and offered.depth and not 0 < requested.depth <= offered.depth:
        found.append(Difference("history", _depth(offered), _depth(requested), _depth(offered)))
    for policy, offer, request in (
        ("deadline", offered.deadline, requested.deadline),
        ("liveliness", offered.liveliness, requested.liveliness),
    ):
        if request and not 0 < offer <= request:
            found.append(Difference(policy, _time(offer), _time(request), _time(offer)))
    if (requested.strength < 0) is not (offered.strength < 0):
        words = "shared", "exclusive"
        found.append(Difference("ownership", words[offered.strength >= 0], words[requested.strength >= 0], "shared"))
    return found


def fit(offered: Terms, requested: Terms) -> bool:
    """Whether a publisher and a subscriber match, perhaps at the weaker one."""
    return not (offered.is_strict or requested.is_strict) or not differences(offered, requested)


def _depth(terms: Terms) -> str:
    return f"keep_last({terms.depth})" if terms.depth else "keep_all"


def _time(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s" if milliseconds else "none"
