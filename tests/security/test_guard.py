"""The guard on its own: which policies it takes, what it decides, and what it tells of, once."""

from __future__ import annotations

from typing import Any

import pytest

from glue.contract.sealed import FORBIDDEN, TWO_POLICIES
from glue.errors import ForbiddenError
from glue.security import guard as module
from glue.security.guard import ACKNOWLEDGED, POLICY_SIZE, REFUSALS, TOLD_SIZE, Guard, Policy, asked_by, explain
from glue.security.identity import Certificate
from glue.security.rules import Rules, read_policy
from glue.security.signing import public_of

SECRET, OTHER = bytes(range(32)), bytes(range(1, 33))
RULES: list[dict[str, Any]] = [
    {"who": "pump", "may": ["publish", "subscribe"], "topics": ["home/#"]},
    {"who": "pump", "may_not": ["publish"], "topics": ["home/secret"]},
    {"who": "hall", "may": ["keep"], "topics": ["log/a"]},
    {"who": "hall", "may": ["read"], "topics": ["plant"]},
]


def certificate(name: str, *rules: dict[str, Any]) -> Certificate:
    return Certificate.make(SECRET, name, bytes(32), None, list(rules))


class Door:
    """A guard of the endpoint `pump`, and what it told; peers are known by id."""

    def __init__(self, version: int = 0, rules: list[Any] = RULES) -> None:
        self.told: list[str] = []
        self.taken: list[int] = []
        members = {"p" * 16: certificate("pump"), "h" * 16: certificate("hall")}
        self.guard = Guard(
            certificate("pump"), public_of(SECRET), Policy.make(SECRET, version, rules) if version else None,
            members.get, lambda text, address: self.told.append(text), lambda policy: self.taken.append(policy.version),
        )  # fmt: skip


def text(version: int, rules: list[Any] = RULES, secret: bytes = SECRET) -> bytes:
    return Policy.make(secret, version, rules).to_text().encode()


def test_only_a_signed_and_newer_policy_is_taken() -> None:
    door = Door()
    guard = door.guard
    assert (guard.policy, guard.changes, guard.decide_own("publish", "x").rule) == (None, 0, "there are no rules")
    for wrong in (text(5, secret=OTHER), text(5)[:-9], b"[]", b"junk", text(0), text(-1)):
        assert not guard.take(wrong)
    assert guard.take(text(1))
    assert (guard.changes, door.taken, [rule.who for rule in guard.rules.rules]) == (
        1,
        [1],
        ["pump", "pump", "hall", "hall"],
    )
    assert not guard.take(text(1))
    assert (guard.changes, door.told) == (1, [])
    assert guard.take(text(3, []))
    assert not guard.take(text(2))
    assert (guard.changes, door.taken, guard.rules.rules) == (2, [1, 3], ())
    assert guard.policy is not None
    assert guard.policy.version == 3


def test_of_two_policies_of_a_version_the_same_wins_in_whatever_order() -> None:
    kept = set()
    for first, second in ((RULES, []), ([], RULES)):
        door = Door(4, first)
        door.guard.take(text(4, second))
        assert door.told == [f"{TWO_POLICIES}: 4"]
        assert door.guard.policy is not None
        kept.add(door.guard.policy.document)
    assert len(kept) == 1


def test_a_file_of_rules_has_a_size_at_most() -> None:
    assert POLICY_SIZE == 1 << 20
    right = text(1)
    padded = right + b" " * (POLICY_SIZE - len(right))
    assert Policy.from_text(padded, public_of(SECRET)) == Policy.make(SECRET, 1, RULES)
    assert Policy.from_text(padded + b" ", public_of(SECRET)) is None
    assert Policy.from_text(right, public_of(OTHER)) is None


def test_this_endpoint_is_told_by_which_rule_it_may_not() -> None:
    guard = Door(1).guard
    guard.require("publish", "home/lamp")
    guard.require("subscribe", "home/lamp")
    guard.require("subscribe", "$glue/limited/5/home/lamp")
    with pytest.raises(ForbiddenError, match=r"^pump may not publish 'home/secret': pump may not publish home/secret$"):
        guard.require("publish", "home/secret")
    with pytest.raises(ForbiddenError, match=r"^pump may not keep 'home/lamp': no rule allows pump to keep home/lamp$"):
        guard.require("subscribe", f"$glue/keeper/1/{'p' * 16}/home/lamp")
    assert guard.refusal(None, "publish", "home/lamp") == ""
    told = guard.refusal(None, "publish", "home/secret")
    assert told == "pump may not publish 'home/secret': pump may not publish home/secret"
    assert guard.refusals == [], "nobody else is told of it"
    free = Door().guard
    free.require("publish", "anything")
    assert free.refusal("h" * 16, "publish", "anything") == ""


def test_a_refusal_of_a_peer_is_told_to_it_once_and_to_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert REFUSALS == 256
    door = Door(1)
    guard, pump, hall = door.guard, "p" * 16, "h" * 16
    assert guard.lets_say(pump, "home/lamp")
    assert not guard.lets_say("x" * 16, "home/lamp")
    assert guard.refusal("x" * 16, "publish", "home/lamp") == "not a member"
    assert (door.told, guard.refusals) == ([], [])
    refused = "hall may not publish 'home/lamp': no rule allows hall to publish home/lamp"
    for _ in range(3):
        assert not guard.lets_say(hall, "home/lamp")
    assert guard.refusals == [(hall, refused)]
    assert door.told == [f"{FORBIDDEN}: {refused}"] * 3
    guard.refusals.clear()  # they were told
    assert guard.refusal(hall, "publish", "home/lamp") == refused
    assert guard.refusals == []
    monkeypatch.setattr(module, "REFUSALS", 2)
    for topic in "abc":
        assert not guard.lets_say(hall, topic)
    assert [refusal.split("'")[1] for _, refusal in guard.refusals] == ["a"]


def test_wrapped_topics_stand_for_what_they_carry() -> None:
    guard, pump = Door(1).guard, "p" * 16
    assert guard.lets_hear(pump, "home/lamp")
    assert not guard.lets_hear(pump, "cellar/lamp")
    assert guard.lets_hear(pump, "$glue/rules")
    assert guard.lets_say(pump, "$glue/rules")
    assert guard.lets_hear(pump, "$glue/limited/5/home/lamp")
    assert not guard.lets_hear(pump, "$glue/limited/5/cellar/lamp")
    assert guard.lets_say(pump, "$glue/will/a/b/c/d/home/lamp")
    assert not guard.lets_say(pump, "$glue/will/a/b/c/d/home/secret")
    assert not guard.lets_say(pump, "$glue/model/plant/all")
    assert guard.lets_say("h" * 16, "$glue/model/plant/all"), "its replica is looked at by the model"
    assert not guard.lets_say("h" * 16, "$glue/model/other/all")
    assert not guard.lets_say(pump, "$glue/request/5/home/secret"), "a request is a publication of its topic"
    assert asked_by("$glue/model/plant/to/x") == ("read", "plant")
    assert asked_by("$glue/model/plant") == ("read", "plant")
    assert asked_by("$glue/limited/5") is None
    assert asked_by("$glue/responder/a/b") == ("respond", "a/b")


@pytest.mark.parametrize(
    ("wrapper", "levels", "verb"),
    [
        ("limited", 1, "subscribe"), ("sample", 2, "subscribe"), ("share", 3, "subscribe"), ("responder", 0, "respond"),
        ("request", 1, "respond"), ("publisher", 1, "publish"), ("will", 4, "publish"), ("keeper", 2, "keep"),
        ("qos/offer", 1, "publish"), ("qos/request", 1, "subscribe"),
    ],
)  # fmt: skip
def test_of_a_wrapped_topic_the_rules_see_the_one_inside(wrapper: str, levels: int, verb: str) -> None:
    before = "".join(f"/{number}" for number in range(levels))
    assert asked_by(f"$glue/{wrapper}{before}/home/+/lamp") == (verb, "home/+/lamp")
    assert asked_by(f"$glue/{wrapper}{before}/x") == (verb, "x")
    assert asked_by(f"$glue/{wrapper}{before}") is None


def test_only_keepers_of_a_topic_acknowledge_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ACKNOWLEDGED == 4096
    guard, hall = Door(1).guard, "h" * 16
    for kind in ("durable", "refused", "held", "unheld"):
        assert guard.lets_acknowledge(hall, {kind: [["log/a", 1, 2]]})
        assert not guard.lets_acknowledge(hall, {kind: [["log/a", 1, 2], ["log/b", 1, 2]]})
    assert not guard.lets_acknowledge(hall, {"durable": [["log/a", 1]], "held": [["log/b"]]})
    for malformed in (7, [["log/b"]], {"durable": "log/b"}, {"durable": ["log/b", [], [1]]}, {"other": [["log/b"]]}):
        assert guard.lets_acknowledge(hall, malformed), "counted where it is read"
    monkeypatch.setattr(module, "ACKNOWLEDGED", 1)
    assert guard.lets_acknowledge(hall, {"durable": [["log/b"], ["log/a"]]})
    assert not guard.lets_acknowledge(hall, {"durable": [["log/0"], ["log/a"]]})


def test_what_others_refuse_is_told_in_printable_text_of_a_size() -> None:
    door = Door(1)
    door.guard.hear("hall", b"no\x1b[31m way\n")
    door.guard.hear("hall", b"x" * (TOLD_SIZE + 1))
    assert door.told == [
        f"{FORBIDDEN}: hall says that no[31m way",
        f"{FORBIDDEN}: hall says that {'x' * 2000}",
    ]


def test_interests_that_newer_rules_end_are_told() -> None:
    door = Door(1)
    door.guard.recheck(["home/lamp", "$glue/rules", "cellar/lamp", "$glue/limited/5/cellar/x"])
    assert [one.partition(": ")[2].split(":")[0] for one in door.told] == [
        "pump may not subscribe 'cellar/lamp'",
        "pump may not subscribe 'cellar/x'",
    ]
    assert all(one.endswith("; what was subscribed ends") for one in door.told)


def test_a_decision_is_explained_by_rules_and_certificate() -> None:
    rules, _ = read_policy(RULES)
    free = explain((), certificate("hall"), "publish", "x")
    assert (free.allowed, free.rule) == (True, "there are no rules")
    own = certificate("hall", {"may": ["publish"], "topics": ["x"]})
    assert [explain((), own, "publish", topic).allowed for topic in "xy"] == [True, False]
    assert explain(rules, certificate("pump"), "publish", "home/secret").allowed is False
    assert explain(rules, certificate("pump"), "publish", "home/lamp").allowed is True


def test_a_topic_has_the_marks_of_all_that_cover_it() -> None:
    _, marks = read_policy([{"topics": ["a/#", "b"], "signed": True}, {"topics": ["a/b"], "private": True}])
    rules = Rules((), marks)
    found = {topic: rules.marks_of(topic) for topic in ("a/b", "a/c", "b", "b/c")}
    assert found == {"a/b": (True, True), "a/c": (True, False), "b": (True, False), "b/c": (False, False)}
    assert (rules.has_marks, Rules().has_marks) == (True, False)
