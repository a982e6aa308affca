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
