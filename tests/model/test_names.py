"""Names of the members of a group: what is told of them, what is believed, and what people read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from glue.model.names import KNOWN, NAME_LIMIT, TOLD, Names, disagreement, id_of, missing, who_votes

PEOPLE = ("attic", "cellar", "kitchen")


def known(*people: str) -> Names:
    names = Names()
    names.learn_all({id_of(name): name for name in people})
    return names


def votes(voters: int | None = None, *members: str) -> Any:
    """Settings of a group by number, or by names."""
    return SimpleNamespace(voters=voters, members=[id_of(name) for name in members] if members else None)


def test_names_are_told_and_learned() -> None:
    told = known(*PEOPLE).told([id_of("kitchen"), id_of("stranger"), id_of("attic")])
    assert told == b'["names",["kitchen","attic"]]'
    names = Names()
    assert names.take(told)
    assert [names.of(id_of(name)) for name in ("kitchen", "attic")] == ["kitchen", "attic"]
    assert names.of(id_of("cellar")) == id_of("cellar")
    many = [f"host{number}" for number in range(TOLD + 1)]
    assert orjson.loads(known(*many).told(map(id_of, many)))[1] == many[:TOLD]


@pytest.mark.parametrize(
    ("content", "is_right", "learned"),
    [
        (["a"] * TOLD, True, ["a"]),
        (["a"] * (TOLD + 1), False, []),
        (["n" * NAME_LIMIT, "n" * (NAME_LIMIT + 1), 7, None, "ü"], True, ["n" * NAME_LIMIT, "ü"]),
        ({}, False, []),
        (7, False, []),
    ],
)
def test_names_from_others_are_bounded(content: Any, is_right: bool, learned: list[str]) -> None:
    names = Names()
    assert names.take(orjson.dumps(["names", content])) == is_right
    assert [*names._known.values()] == learned
    for payload in (b'["name",["a"]]', b'["names",["a"]', b'["names",["a"],1]', b""):
        assert not names.take(payload)


def test_the_names_learned_first_make_room_and_one_that_is_learned_again_stays() -> None:
    names = known(*(f"host{number}" for number in range(KNOWN)))
    names.learn(id_of("host0"), "host0")
    names.learn(id_of("late"), "late")
    names.learn(id_of("later"), "later")
    there = [name for name in ("host0", "host1", "host2", "host3", "late", "later") if names.of(id_of(name)) == name]
    assert there == ["host0", "host3", "late", "later"]
    assert len(names._known) == KNOWN == 4096


def test_a_name_that_is_known_is_not_learned_from_others() -> None:
    names = Names()
    names.learn(id_of("attic"), "the attic")
    assert names.take(b'["names",["attic"]]')
    assert names.of(id_of("attic")) == "the attic"


def test_who_votes_and_what_differs_is_told_in_names() -> None:
    names = known(*PEOPLE)
    assert (who_votes(votes(3), names), who_votes(votes(None, "attic", "x"), names)) == (
        "voters=3", f"members={['attic', id_of('x')]}",
    )  # fmt: skip
    assert disagreement(votes(3), {}, names) == ""
    assert disagreement(votes(3), {id_of("kitchen"): "voters=2", id_of("attic"): "voters=1"}, names) == (
        "who votes must be given alike at all endpoints, but here: voters=3; "
        "at attic: voters=1; at kitchen: voters=2"
    )  # fmt: skip


def test_who_is_missing_is_told_by_name_or_number() -> None:
    names, there = known(*PEOPLE), [id_of("attic")]
    assert missing(votes(3), there, names) == "1 of 3 are there"
    assert missing(votes(None), there, names) == ""
    assert missing(votes(None, *PEOPLE), there, names) == "missing: cellar, kitchen"
    assert missing(votes(None, "attic"), there, names) == ""
