"""Announced roles."""

from __future__ import annotations

from glue.spying.roles import Announced, Roles


def test_roles_of_a_topic() -> None:
    roles = Roles()
    roles.change(Announced("home/#", "subscriber", "hall"), True)
    roles.change(Announced("home/+", "publisher", "kitchen"), True)
    roles.types([Announced("home/a", "publisher", "kitchen", "Temperature")])
    assert roles.names("home/a", "subscriber") == ["hall"]
    assert roles.names("home/a", "publisher") == ["kitchen"]
    assert roles.type_of("home/a") == "Temperature"
    roles.types([])
    roles.change(Announced("home/#", "subscriber", "hall"), False)
    roles.change(Announced("home/#", "subscriber", "hall"), False)
    assert (roles.type_of("home/a"), roles.names("home/a", "subscriber")) == ("", [])
    assert [*roles] == [Announced("home/+", "publisher", "kitchen")]


def test_each_announcement_counts_once_and_names_and_types_come_sorted() -> None:
    roles = Roles()
    for name in ("hall", "attic", "hall"):
        roles.change(Announced("home/a", "subscriber", name), True)
    roles.change(Announced("home/+", "subscriber", "hall"), True)
    assert roles.names("home/a", "subscriber") == ["attic", "hall"]
    assert len([*roles]) == 3
    for one in roles:  # each may change what is there
        roles.change(one, False)
        roles.change(one, False)
    assert (roles.of("home/a"), [*roles]) == ((), [])
    typed = [Announced("home/a", way, "k", kind) for way in ("publisher", "subscriber") for kind in ("T", "S")]
    roles.change(Announced("home/a", "subscriber", "hall"), True)
    roles.types(typed)
    roles.types([typed[0], typed[0], typed[3]])
    assert roles.type_of("home/a") == "S, T"
    assert roles.names("home/a", "publisher") == ["k"]
    assert roles.names("home/a", "subscriber") == ["hall", "k"]
    roles.types([])
    assert [*roles] == [Announced("home/a", "subscriber", "hall")]
