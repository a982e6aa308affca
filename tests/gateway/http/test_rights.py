"""Who may what: the file of tokens, stored subscriptions, and what a door's files have after each step."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from glue.errors import ConfigurationError, TopicError
from glue.gateway.http.limits import Limits
from glue.gateway.http.store import FileStore
from glue.gateway.http.subscriptions import Subscription, changed, subscription_of
from glue.gateway.http.tokens import (
    EVERYTHING,
    Access,
    Rights,
    add_token,
    hashed,
    read_entries,
    remove_token,
    rights_of,
)

ENTRY = {"name": "hall", "hash": "", "publish": ["a"], "subscribe": ["b/#"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def test_a_token_is_new_each_time_long_and_without_more_than_was_asked_for(path: Path) -> None:
    first, second = (add_token(path, "kitchen", ["a"], ["b"]) for _ in range(2))
    assert first != second
    assert {len(token) for token in (first, second)} == {len("glue_") + 43}
    assert read_entries(path) == [
        {"name": "kitchen", "hash": hashed(second), "publish": ["a"], "subscribe": ["b"], "admin": False}
    ], "the second replaces the first"
    add_token(path, "boss", [], [], admin=True)
    assert [(entry["name"], entry["admin"]) for entry in read_entries(path)] == [("kitchen", False), ("boss", True)]
    assert sorted(one.name for one in path.parent.iterdir()) == ["tokens"]


def test_a_wrong_pattern_writes_nothing_and_a_name_that_is_not_there_is_told(path: Path) -> None:
    for publish, subscribe in (("a/#/b", "a"), ("a", "a/#/b")):
        with pytest.raises(TopicError):
            add_token(path, "kitchen", [publish], [subscribe])
    assert not path.exists()
    with pytest.raises(ConfigurationError, match=r"tokens: no token 'kitchen'$"):
        remove_token(path, "kitchen")
    add_token(path, "hall", ["a"], [])
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=r"tokens: no token 'kitchen'$"):
        remove_token(path, "kitchen")
    assert path.read_bytes() == before
    remove_token(path, "hall")
    assert read_entries(path) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"publish": "a"}, "publish is no list"), ({"subscribe": None}, "subscribe is no list"),
        ({"publish": ["a/#/b"]}, "a/#/b"), ({"subscribe": [""]}, ""), ({"hash": 5}, "no hash"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_entry_is_told_with_its_number(path: Path, change: dict[str, Any], words: str) -> None:
    wrong = json.dumps({**ENTRY, **change})
    path.write_text(f"{json.dumps(ENTRY)}\n\n  \n{wrong}\n")
    with pytest.raises(
        ConfigurationError, match=f"tokens, line 4: .*{words}.*; `glue http token new` writes such lines"
    ):
        read_entries(path)
    path.write_text(f"{json.dumps(ENTRY)}\n\n  \n")
    assert read_entries(path) == [ENTRY]


@pytest.mark.parametrize("name", ["name", "hash", "publish", "subscribe"])
def test_an_entry_has_all_its_members(path: Path, name: str) -> None:
    path.write_text(json.dumps({key: value for key, value in ENTRY.items() if key != name}))
    with pytest.raises(ConfigurationError, match=f"tokens, line 1: '{name}'"):
        Access(path)


def test_rights_are_what_an_entry_says_and_no_more() -> None:
    assert rights_of(ENTRY) == Rights("hall", ("a",), ("b/#",), False)
    assert rights_of({**ENTRY, "admin": True}).admin
    assert Rights() == Rights("", (), (), False)
    assert (EVERYTHING.may_publish("$x"), EVERYTHING.may_subscribe("#"), EVERYTHING.admin) == (True, True, True)
    boss = Rights("boss", admin=True)
    assert (boss.may_publish("a"), boss.may_subscribe("a/#")) == (True, True)
    assert [str(one) for one in (boss, Rights())] == ["client 'boss'", "a client without a token"]
    assert Rights().refused_by("publish", "a") == "no publish pattern of clients without a token covers it"


def test_clients_are_remote_unless_the_door_says_otherwise(path: Path) -> None:
    access = Access(local=EVERYTHING)
    assert access.rights(None) is None
    path.write_text(json.dumps(ENTRY))
    access = Access(path, anonymous=Rights("all"), local=EVERYTHING)
    assert access.rights(None) == Rights("all")
    assert access.rights(None, "hall", True) == Rights("hall", ("a",), ("b/#",))
    assert access.rights("", "hall", True) is None, "an entry of a certificate has no token"
    assert access.describe() == f"open to clients with a token of {path} and everybody"


def test_a_file_is_read_again_whatever_has_changed_about_it(path: Path) -> None:
    path.write_text(json.dumps(ENTRY))
    access = Access(path)
    other = path.with_name("other")
    other.write_text(json.dumps({**ENTRY, "name": "hill"}))
    other.replace(path)
    for _ in range(2):
        access.check()
        assert (access.revision, access.rights(None, "hall"), access.rights(None, "hill")) == (
            2, None, Rights("hill", ("a",), ("b/#",)),
        )  # fmt: skip


# --------------------------------------------------------------------------------------------------- subscriptions


def test_a_subscription_that_says_little_is_delivered_one_by_one_and_without_end() -> None:
    found = subscription_of({"id": "s", "topic": "t", "url": "http://h/", "future": 1})
    assert found == Subscription("s", "t", "http://h/", (), 1, 15.0, None, "raw", "", "active", 0.0)
    assert subscription_of(found.stored()) == found
    with pytest.raises(ConfigurationError, match=r"^a stored subscription is malformed: "):
        subscription_of({"id": "s"})


def test_a_change_that_is_too_small_or_too_much_is_told() -> None:
    known = Subscription("s", "t", "http://h/")
    for wanted, words in (
        ({"give_up_after": 5e-7}, "give_up_after=5e-07: expected seconds, at least 1e-06 and at most 3.16224e"),
        ({"timeout": 61}, "timeout=61: expected seconds, at least 0.1 and at most 60"),
        ({"parallel": 65}, "parallel=65: expected a whole number from 1 to 64"),
        ({"state": "gone"}, "state='gone': expected active or paused"),
        ({"format": "x"}, "format='x': expected raw or carrier"),
        ({"x": 1}, "'x': no such member; there are url, secret, parallel, timeout, give_up_after, state"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            changed(known, wanted, Limits())
        assert str(caught.value).startswith(words)
    assert changed(known, {"give_up_after": None, "start": "10m"}, Limits()) == known
    found = changed(known, {"topic": "u/#", "format": "carrier", "timeout": 5}, Limits())
    assert (found.topic, found.format, found.timeout, type(found.timeout)) == ("u/#", "carrier", 5.0, float)


def test_each_step_is_in_the_files_at_once(tmp_path: Path) -> None:
    def stored() -> Any:
        async def program() -> Any:
            copy = FileStore(other)
            await copy.open()
            found = copy.subscriptions, copy.topics, await copy.position("s")
            copy.close()
            return found

        other = tmp_path / "copy"
        other.mkdir(exist_ok=True)
        for one in (tmp_path / "door").iterdir():
            if one.suffix == ".json":
                (other / one.name).write_bytes(one.read_bytes())
        return asyncio.run(program())

    store = FileStore(tmp_path / "door")
    asyncio.run(store.create("t"))
    assert stored() == ({}, {"t"}, None)
    asyncio.run(store.put("s", {"id": "s"}))
    assert stored() == ({"s": {"id": "s"}}, {"t"}, None)
    asyncio.run(store.save({"s": {"offset": 5}}))
    assert stored() == ({"s": {"id": "s"}}, {"t"}, {"offset": 5})
    asyncio.run(store.put("s", None))
    assert stored()[0] == {}
    store.close()
