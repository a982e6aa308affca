"""Rules: rights of identities on topics, one decision for all doors.

A rule allows or denies actions on topic patterns to identities. The last rule that matches decides; without one, the
answer is no. Endpoints with certificates, and doors for others (passwords, tokens, TLS clients), ask in the same way:
their `Subject` has a name and perhaps rules of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from glue.contract.matching import covers, meet

ACTIONS: Final = ("publish", "subscribe", "respond", "keep", "read", "write")
"""What a rule is about: topics for the first four, keys of models (model/key) for the last two."""

RULE_LIMIT: Final = 1000
MARKS: Final = frozenset({"signed", "private"})
PATTERN_LIMIT: Final = 1024  # characters
DECISIONS: Final = 10_000
"""Decisions kept, some 200 bytes each: 2 MB."""


_covers = partial(covers, every_level=True)  # a rule for # is for topics that begin with $, too
_meet = partial(meet, every_level=True)


class Decision(NamedTuple):
    """Whether it is allowed, and by which rule."""

    allowed: bool
    rule: str


class Subject(Protocol):
    """Something with an identity: a member with a certificate, or a client of a door."""

    @property
    def name(self) -> str:
        """The name that was proved."""

    @property
    def rules(self) -> Sequence[Rule]:
        """Rules of the subject; the rules of the policy overrule them."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: `who` and `topics` are patterns with `+` and `#` as in topics, `may` are actions."""

    who: str
    may: tuple[str, ...]
    topics: tuple[str, ...]
    allow: bool = True

    def __str__(self) -> str:
        word = "may" if self.allow else "may not"
        return f"{self.who} {word} {' and '.join(self.may)} {' '.join(self.topics)}"

    def matches(self, name: str, action: str, topic: str) -> bool:
        """Whether the rule is about this; the wildcards of `topic`, a pattern to subscribe to, must be covered."""
        return action in self.may and _covers(self.who, name) and any(_covers(one, topic) for one in self.topics)

    def touches(self, name: str, action: str, topic: str) -> bool:
        """Whether the rule is about a part of the topics of a pattern."""
        return action in self.may and _covers(self.who, name) and any(_meet(one, topic) for one in self.topics)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of topics for all identities: `signed` by publishers, `private` to allowed subscribers."""

    topics: tuple[str, ...]
    signed: bool = False
    private: bool = False


def read_rules(values: Any) -> tuple[Rule, ...]:
    """Read rules from JSON values. Raises ValueError that names the wrong rule."""
    if type(values) is not list or len(values) > RULE_LIMIT:
        raise ValueError(f"rules={values!r:.100}: expected a list of at most {RULE_LIMIT}")
    return tuple(_rule(value) for value in values)


def read_policy(values: Any) -> tuple[tuple[Rule, ...], tuple[Mark, ...]]:
    """Read the rules and the marks of topics of a policy. Raises ValueError that names the wrong one."""
    if type(values) is not list or len(values) > RULE_LIMIT:
        raise ValueError(f"rules={values!r:.100}: expected a list of at most {RULE_LIMIT}")
    marks = [value for value in values if type(value) is dict and not MARKS.isdisjoint(value)]
    rules = [value for value in values if type(value) is not dict or MARKS.isdisjoint(value)]
    return read_rules(rules), tuple(_mark(value) for value in marks)


def _mark(value: dict[str, Any]) -> Mark:
    signed, private, topics = value.get("signed", False), value.get("private", False), value.get("topics")
    if not value.keys() <= MARKS | {"topics"} or type(signed) is not bool or type(private) is not bool:
        raise ValueError(
            f"{value!r:.200}: expected an object with topics, and signed or private, which are true or false"
        )
    return Mark(_topics(topics, value), signed, private)


def _topics(topics: Any, value: Any) -> tuple[str, ...]:
    if (
        type(topics) is not list
        or not topics
        or not all(type(one) is str and 0 < len(one) <= PATTERN_LIMIT for one in topics)
    ):
        raise ValueError(f"{value!r:.200}: expected topics to be a list of patterns")
    return tuple(topics)


def _rule(value: Any) -> Rule:
    wrong = ValueError(
        f"{value!r:.200}: expected an object with who, may or may_not (of {', '.join(ACTIONS)}), and topics"
    )
    if type(value) is not dict or not value.keys() <= {"who", "may", "may_not", "topics"}:
        raise wrong
    who, topics = value.get("who"), value.get("topics")
    allow = "may" in value
    may = value.get("may") if allow else value.get("may_not")
    if type(who) is not str or not who or allow is ("may_not" in value):
        raise wrong
    if type(may) is not list or not may or not all(action in ACTIONS for action in may):
        raise wrong
    return Rule(who, tuple(may), _topics(topics, value), allow)


class Rules:
    """The rules in force, asked by `decide`. Decisions are remembered."""

    def __init__(self, rules: Iterable[Rule] = (), marks: Sequence[Mark] = ()) -> None:
        """`marks` say which topics are signed, and which private."""
        self.rules = tuple(rules)
        self._marks = tuple(marks)
        self.has_marks = bool(marks)
        self._marked: dict[str, tuple[bool, bool]] = {}
        self._known: dict[tuple[str, str, str], tuple[Sequence[Rule], Decision]] = {}  # with the subject's own rules

    def decide(self, subject: Subject, action: str, topic: str) -> Decision:
        """Whether a subject may do something with a topic or, to subscribe, with all topics of a pattern."""
        key = subject.name, action, topic
        rules, found = subject.rules, self._known.get(key)
        if found is None or not (found[0] is rules or found[0] == rules):  # it was admitted anew, with other rights
            if len(self._known) >= DECISIONS:
                self._known.clear()
            found = self._known[key] = rules, self._decided(subject, action, topic)
        return found[1]

    def _decided(self, subject: Subject, action: str, topic: str) -> Decision:
        name = subject.name
        for rule in reversed((*subject.rules, *self.rules)):
            if rule.matches(name, action, topic) or (not rule.allow and rule.touches(name, action, topic)):
                return Decision(rule.allow, str(rule))
        return Decision(False, f"no rule allows {name} to {action} {topic}")

    def marks_of(self, topic: str) -> tuple[bool, bool]:
        """Whether a topic is signed, and whether it is private."""
        found = self._marked.get(topic)
        if found is None:
            if len(self._marked) >= DECISIONS:
                self._marked.clear()
            marks = [mark for mark in self._marks if any(_covers(one, topic) for one in mark.topics)]
            found = any(mark.signed for mark in marks), any(mark.private for mark in marks)
            self._marked[topic] = found
        return found
