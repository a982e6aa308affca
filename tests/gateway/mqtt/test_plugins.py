"""Plug-ins of the door: how they are found, in which order they are asked, and what happens when one fails."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.errors import ConfigurationError
from glue.gateway.mqtt import plugins
from glue.gateway.mqtt.access import Access, Everybody
from glue.gateway.mqtt.codes import IMPLEMENTATION_ERROR
from glue.gateway.mqtt.group_rules import GroupAccess
from glue.gateway.mqtt.identity import Identity, Refusal, Remote, Rule
from glue.gateway.mqtt.packets import Connect
from glue.gateway.mqtt.plugins import Plugin, PluginAccess, load_plugins
from glue.gateway.rights import Rights
from tests.support import mqtt
from tests.support.mqtt import Bench

FAR = Remote("10.0.0.7:5")


class First(Plugin):
    """Decides about "first" alone, and fails for "broken"."""

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        if connect.client_id == "broken":
            raise RuntimeError("the database is away")
        return Identity("by first") if connect.client_id == "first" else None

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool | None:
        if name == "broken":
            raise RuntimeError("the database is away")
        return {"first": True, "never": False}.get(name)


class Second(Plugin):
    """Would decide about everything that the first one leaves, but what begins with "left"."""

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        return None if connect.client_id.startswith("left") else Refusal(reason="by second")

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool | None:
        return None if name.startswith("left") else name == "second"


class Files:
    """The access behind the plug-ins: it must look a password up, and has one rule."""

    has_changed = False

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        return None if connect.username else Identity("at once")

    def check(self, connect: Connect, remote: Remote) -> Identity | Refusal:
        return Identity(f"checked {connect.username}")

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        return (identity.user, client_id, action, name) == ("u", "c", "read", "left/allowed")

    def refused_by(self, identity: Identity, client_id: str, action: str, name: str) -> str:
        return f"the file: {identity.user} {client_id} {action} {name}"

    def narrows(self, identity: Identity, client_id: str, name: str) -> bool:
        return name == "left/#"

    def changed(self) -> bool:
        return self.has_changed

    def knows(self, identity: Identity) -> bool:
        return identity.user == "u"


def made(name: str, user: str | None = None) -> Connect:
    return Connect(5, name, True, 0, username=user)


def test_plug_ins_are_asked_in_order_and_then_the_files() -> None:
    access = PluginAccess([First(), Second()], Files())
    assert access.authenticate(made("left"), FAR) is None, "a plug-in may take time"
    found = [access.check(made(*one), FAR) for one in (("first",), ("x",), ("left",), ("left", "kitchen"), ("broken",))]
    assert found == [
        Identity("by first"), Refusal(reason="by second"), Identity("at once"), Identity("checked kitchen"),
        Refusal(IMPLEMENTATION_ERROR, "a plug-in of the gateway failed"),
    ]  # fmt: skip
    asked = [
        (name, access.authorize(Identity("u"), "c", "read", name), access.refused_by(Identity("u"), "c", "read", name))
        for name in ("first", "never", "second", "x", "broken", "left/allowed", "left/x")
    ]
    assert asked == [
        ("first", True, "plug-in First"),
        ("never", False, "plug-in First"),
        ("second", True, "plug-in Second"),
        ("x", False, "plug-in Second"),
        ("broken", False, "plug-in First failed"),
        ("left/allowed", True, "the file: u c read left/allowed"),
        ("left/x", False, "the file: u c read left/x"),
    ]


def test_a_plug_in_that_overrides_nothing_changes_nothing() -> None:
    files = Files()
    access = PluginAccess([Plugin()], files)
    assert access.check(made("x", "kitchen"), FAR) == Identity("checked kitchen")
    assert access.authorize(Identity("u"), "c", "read", "left/allowed")
    assert [access.knows(Identity(user)) for user in ("u", "other")] == [True, False]
    assert [access.narrows(Identity("u"), "c", name) for name in ("left/#", "x")] == [True, False]
    assert not access.changed()
    files.has_changed = True
    assert access.changed()


def test_a_watcher_that_fails_is_told_and_keeps_nobody_from_anything() -> None:
    class Broken(Plugin):
        def on_session(self, client_id: str, event: str) -> None:
            raise ValueError(f"{client_id} {event}")

        def on_publish(self, client_id: str, run: object) -> None:
            raise ValueError(f"{client_id} publishes")

    bench = Bench()
    bench.broker.watchers = [Broken(), Plugin()]
    lines: list[str] = []
    bench.broker.log = lambda level, line: lines.append(line)
    subscriber = bench.subscriber(("t", 0))
    subscriber.send(mqtt.publish("t", b"x"))
    assert subscriber.payloads() == [b"x"]
    assert [line for line in lines if "plug-in" in line] == [
        "plug-in Broken failed: ValueError('s connected')",
        "plug-in Broken failed: ValueError('s publishes')",
    ]


def test_plug_ins_are_found_among_the_entry_points_in_the_order_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[str] = []
    here = "tests.gateway.mqtt.test_plugins"

    def installed(*entries: tuple[str, str]) -> list[Plugin]:
        found = [EntryPoint(name, f"{here}:{value}", "glue.mqtt") for name, value in entries]

        def look_up(group: str) -> list[EntryPoint]:
            groups.append(group)
            return found

        monkeypatch.setattr(plugins, "entry_points", look_up)
        return load_plugins()

    assert installed() == []
    assert [type(one) for one in installed(("b", "First"), ("a", "Second"), ("c", "First"))] == [Second, First, First]
    assert {*groups} == {"glue.mqtt"}
    with pytest.raises(ConfigurationError, match=rf"plug-in x \({here}:Missing\) cannot be loaded: .*Missing"):
        installed(("a", "First"), ("x", "Missing"))
    with pytest.raises(ConfigurationError, match=rf"plug-in x \({here}:Files\) is no glue.gateway.mqtt.Plugin"):
        installed(("x", "Files"))


def test_all_are_let_in_by_their_name_and_only_an_identity_may_have_rules() -> None:
    access: Access = Everybody()
    assert access.authenticate(made("x", "kitchen"), Remote("10.0.0.7:5", "device")) == Identity("device")
    assert access.authenticate(made("x", "kitchen"), FAR) == access.check(made("x", "kitchen"), FAR)
    assert access.check(made("x", "kitchen"), FAR) == Identity("kitchen")
    assert access.check(made("x"), FAR) == Identity()
    ruled = Identity("u", (Rule("read", "a/%u/%c"),))
    tries = [("read", "a/u/c"), ("read", "$share/g/a/u/c"), ("write", "a/u/c"), ("read", "a/u/d")]
    assert [access.authorize(ruled, "c", *one) for one in tries] == [True, True, False, False]
    assert access.authorize(Identity("u"), "c", "write", "anything")
    assert access.refused_by(ruled, "c", "write", "x") == "no rule of the user allows it"
    assert (access.changed(), access.knows(ruled)) == (False, True)


def test_the_group_and_the_door_must_both_allow() -> None:
    asked: list[tuple[str, str, str]] = []

    def decide(visitor: str, what: str, topic: str) -> Any:
        asked.append((visitor, what, topic))
        return SimpleNamespace(allowed=topic != "left/denied", rule="rule 7")

    rights = cast(Rights, SimpleNamespace(visitor="mqtt/{}".format, decide=decide, changed=lambda: False))
    files = Files()
    access = GroupAccess(rights, files)
    u = Identity("u")
    assert access.authenticate(made("x", "kitchen"), FAR) is None
    assert access.authenticate(made("x"), FAR) == Identity("at once")
    assert access.check(made("x", "kitchen"), FAR) == Identity("checked kitchen")
    assert [access.knows(Identity(user)) for user in ("u", "other")] == [True, False]
    assert access.authorize(u, "c", "read", "left/allowed")
    assert not access.authorize(u, "c", "write", "left/allowed")
    assert access.refused_by(u, "c", "write", "left/allowed") == "the file: u c write left/allowed"
    assert asked == [("mqtt/u", "subscribe", "left/allowed")]
    allowing = GroupAccess(rights, Everybody())
    names = ("$share/g/left/denied", "$SYS/x", "x")
    assert [allowing.authorize(u, "c", "write", name) for name in names] == [False, True, True]
    assert asked[1:] == [("mqtt/u", "publish", "left/denied"), ("mqtt/u", "publish", "x")]
    assert allowing.refused_by(u, "c", "write", "left/denied") == "rule 7"
    assert not access.changed()
    files.has_changed = True
    assert access.changed()
