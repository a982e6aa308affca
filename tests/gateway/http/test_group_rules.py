"""The rules of the group decide about HTTP clients, too, beside their tokens."""

from __future__ import annotations

from glue.gateway.http.group_rules import within_group
from glue.gateway.http.tokens import EVERYTHING, Rights
from glue.gateway.rights import Rights as GroupRules
from glue.security.guard import Guard, Policy
from glue.security.identity import Certificate, public_of
from tests.security.test_identities import AUTHORITY

POLICY = [
    {"who": "http/anna", "may": ["publish", "subscribe"], "topics": ["home/#"]},
    {"who": "http/anna", "may": ["read"], "topics": ["plant/#"]},
    {"who": "http/", "may": ["subscribe"], "topics": ["public/#"]},
    {"who": "door", "may": ["publish", "subscribe", "read", "write"], "topics": ["home/#", "public/#", "plant/#"]},
]


def group() -> GroupRules:
    """The rules above, as a door of the group has them."""
    own = Certificate("door", b"", None, (), b"", b"")
    signed = Policy.make(AUTHORITY, 1, POLICY)
    return GroupRules(
        "http", Guard(own, public_of(AUTHORITY), signed, lambda peer: None, lambda *told: None, lambda policy: None)
    )


def test_a_client_may_what_both_its_token_and_the_group_allow() -> None:
    anna = within_group(Rights("anna", publish=("#",), subscribe=("home/+", "other/#", "$model/plant/#")), group())
    assert anna.may_publish("home/lamp")
    assert not anna.may_publish("public/lamp")  # the group does not
    assert anna.may_subscribe("home/+")
    assert not anna.may_subscribe("home/#")  # the token does not
    assert not anna.may_subscribe("other/x")  # the door itself may not
    assert anna.may_subscribe("$model/plant/#")
    assert not anna.may_publish("$model/plant/key")


def test_a_refusal_names_the_token_or_the_rule_of_the_group() -> None:
    anna = within_group(
        Rights("anna", publish=("#", "$model/#"), subscribe=("home/+", "other/#", "$model/plant/#")), group()
    )
    assert anna.refused_by("publish", "public/lamp") == "no rule allows http/anna to publish public/lamp"
    assert anna.refused_by("subscribe", "home/#") == "no subscribe pattern of its token covers it"
    assert anna.refused_by("subscribe", "other/x") == "no rule allows door to subscribe other/x"
    assert anna.refused_by("publish", "$model/plant/key") == "no rule allows http/anna to write plant/key"


def test_a_client_without_a_name_is_one_in_the_rules_of_the_group() -> None:
    nobody = within_group(EVERYTHING, group())
    assert (nobody.may_subscribe("public/x"), nobody.may_publish("public/x"), nobody.may_subscribe("home/x")) == (
        True, False, False,
    )  # fmt: skip
    assert nobody.admin


def test_without_rules_the_token_decides_alone() -> None:
    assert within_group(EVERYTHING, None) is EVERYTHING
