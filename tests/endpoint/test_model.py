"""Shared state over real sockets: what a program sees of a model, blocking and asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glue
import glue.aio
from glue import ABSENT, Delete, Expect, Set
from tests.support.lan import PATIENCE, Ear, Lan, private_network

FAST: dict[str, Any] = {"election_timeout": 0.3}


def opened(lan: Lan, count: int = 3, **options: Any) -> list[glue.Model]:
    """A model at so many endpoints, all of them voters, with a leader."""
    endpoints = [lan.start(f"e{number}") for number in range(count)]
    models = [endpoint.model("plant", voters=count, **FAST, **options) for endpoint in endpoints]
    assert all(model.wait_until_ready(PATIENCE) for model in models)
    return models


def test_what_one_endpoint_sets_all_others_get(lan: Lan) -> None:
    one, other, third = opened(lan)
    revision = one.set("valve/1", {"open": True})
    assert other.get("valve/1") == {"open": True}
    other.update("valve/1", {"open": None, "by": "other"})
    assert third.items("valve/+") == {"valve/1": {"by": "other"}}
    entry = third.entry("valve/1")
    assert entry is not None
    assert (entry.value, entry.age) == ({"by": "other"}, 0.0)
    assert entry.revision > revision
    third.delete("valve/1")
    assert one.get("valve/1", "nothing") == "nothing"


def test_a_condition_that_does_not_hold_refuses_the_write(lan: Lan) -> None:
    (model,) = opened(lan, 1)
    model.compare_and_set("n", ABSENT, 1)
    with pytest.raises(glue.RefusedError, match="'n' has another value"):
        model.compare_and_set("n", 2, 3)
    with pytest.raises(glue.RefusedError):
        model.transaction(Delete("n"), Set("m", 1), Expect("m", 2))
    assert model.items() == {"n": 1}


def test_a_watcher_gets_the_present_state_and_then_each_change_once(lan: Lan) -> None:
    one, other, _ = opened(lan)
    one.set("a/1", 0)
    ear = Ear()
    assert other.get("a/1") == 0
    watch = other.watch("a/#", ear)
    for number in range(1, 20):
        one.set("a/1", number)
    ear.wait(20)
    assert [change.value for change in ear.heard] == list(range(20))
    assert [change.live for change in ear.heard] == [False] + [True] * 19
    indices = [change.index for change in ear.heard]
    assert indices == sorted(set(indices))
    watch.close()
    one.set("a/1", 20)
    assert len(ear.heard) == 20


def test_a_watch_is_an_iterator_too(lan: Lan) -> None:
    (model,) = opened(lan, 1)
    with model.watch("k") as watch:
        model.set("k", 1)
        model.delete("k")
        assert (watch.get(PATIENCE).value, watch.get(PATIENCE).deleted) == (1, True)
    assert list(watch) == []


def test_a_handler_may_use_the_model(lan: Lan) -> None:
    one, other, _ = opened(lan)
    done = Ear()

    def copy(change: glue.Change) -> None:
        other.set("copy", change.value)
        done(other.get("copy"))

    other.watch("original", copy)
    one.set("original", 5)
    assert done.wait() == [5]


def test_a_lock_has_one_holder_at_a_time(lan: Lan) -> None:
    models = opened(lan)
    inside: list[str] = []
    most: list[int] = []
    tokens: list[int] = []

    def work(model: glue.Model) -> None:
        for _ in range(5):
            with model.lock("door", lease=30, timeout=PATIENCE) as lock:
                inside.append(model.name)
                tokens.append(lock.token)
                most.append(len(inside))
                assert 0 < lock.remaining <= 30
                inside.pop()

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert most == [1] * 15
    assert tokens == sorted(set(tokens))


def test_a_lock_whose_holder_is_gone_is_free_after_its_lease(lan: Lan) -> None:
    one, other, _ = opened(lan)
    held = one.lock("door", lease=0.2)
    with pytest.raises(glue.RefusedError, match="somebody else holds"):
        other.lock("door", timeout=0.05)
    with other.lock("door", lease=30, timeout=PATIENCE) as lock:
        assert lock.token > held.token
        assert held.remaining == 0.0
        with pytest.raises(glue.RefusedError):
            held.renew()


def test_a_minority_says_so_and_still_serves_stale_reads(lan: Lan) -> None:
    models = opened(lan)
    models[0].set("k", 1)
    assert models[2].get("k") == 1
    for model in models[:2]:
        model.endpoint.close(timeout=0)
    with pytest.raises((glue.MinorityError, glue.UnknownOutcomeError)):
        models[2].set("k", 2, timeout=1.5)
    with pytest.raises(glue.MinorityError, match="majority"):
        models[2].set("k", 3, timeout=0.3)
    with pytest.raises(glue.MinorityError, match="majority"):
        models[2].get("k", timeout=0.3)
    entry = models[2].entry("k", stale=True)
    assert entry is not None
    assert entry.value == 1
    assert entry.age > 0.3


def test_before_all_voters_are_found_a_call_says_so(lan: Lan) -> None:
    model = lan.start("alone").model("plant", voters=3, **FAST)
    with pytest.raises(glue.MinorityError, match="not founded"):
        model.set("k", 1, timeout=0.2)
    assert model.status.role == "founding"


def test_a_new_leader_goes_on_where_the_old_one_was_killed(lan: Lan) -> None:
    models = opened(lan)
    models[0].set("k", 1)
    leader = models[0].leader
    assert leader is not None
    gone = next(model for model in models if model.endpoint.name == leader)
    gone.endpoint.close(timeout=0)
    for model in models:
        if model is not gone:
            assert model.get("k") == 1
            assert model.status.leader != leader


def test_an_observer_follows_and_may_write(lan: Lan) -> None:
    models = opened(lan)
    watcher = lan.start("watcher").model("plant", voters=3, observer=True, **FAST)
    models[0].set("k", 1)
    assert watcher.get("k", timeout=PATIENCE) == 1
    watcher.set("k", 2)
    assert models[0].get("k") == 2
    assert watcher.status.role == "observer"


def test_what_was_acknowledged_survives_a_restart_of_all(lan: Lan, tmp_path: Path) -> None:
    for life in range(2):
        endpoints = [lan.start(f"e{number}") for number in range(3)]
        models = [
            endpoint.model("plant", voters=3, data_dir=tmp_path / endpoint.name, **FAST) for endpoint in endpoints
        ]
        if life == 0:
            models[0].set("k", {"kept": True})
        else:
            assert models[2].get("k", timeout=PATIENCE) == {"kept": True}
        for endpoint in endpoints:
            endpoint.close()


def test_the_same_under_asyncio() -> None:
    async def run() -> None:
        settings = private_network()
        async with (
            glue.aio.Endpoint("a", **settings) as a,
            glue.aio.Endpoint("b", **settings) as b,
            glue.aio.Endpoint("c", **settings) as c,
        ):
            one, other, third = (endpoint.model("plant", voters=3, **FAST) for endpoint in (a, b, c))
            assert await one.wait_until_ready(PATIENCE)
            watch = await third.watch("k")
            await asyncio.gather(*(one.set(f"many/{number}", number) for number in range(100)))
            assert len(await other.items("many/#")) == 100
            await one.set("k", 1)
            await other.update("k", {"n": 2})
            assert await third.get("k") == {"n": 2}
            assert [(await watch.get(PATIENCE)).value for _ in range(2)] == [1, {"n": 2}]
            async with await one.lock("door") as lock:
                with pytest.raises(glue.RefusedError):
                    await other.lock("door", timeout=0.1)
                assert lock.remaining > 0
            with pytest.raises(glue.RefusedError):
                await one.compare_and_set("k", 5, 6)
            assert (await third.items("k", stale=True)).keys() == {"k"}

    asyncio.run(run())


def test_mistakes_are_told_at_once(lan: Lan) -> None:
    (model,) = opened(lan, 1)
    with pytest.raises(glue.ConfigurationError, match="voters"):
        model.endpoint.model("other")
    with pytest.raises(glue.ConfigurationError, match="open at this endpoint already"):
        model.endpoint.model("plant", voters=1)
    with pytest.raises(glue.ModelError, match="wildcards"):
        model.set("a/#", 1)
    with pytest.raises(glue.ModelError, match="JSON"):
        model.set("a", {1, 2})
    with pytest.raises(glue.ModelError):
        model.watch("a#")
    with pytest.raises(glue.ConfigurationError, match="lease"):
        model.lock("a", lease=0)
    with pytest.raises(glue.TopicError, match="for glue itself"):
        model.endpoint.subscribe("$glue/#")
    with pytest.raises(glue.TopicError, match="for glue itself"):
        model.endpoint.publish("$glue/model/plant/all", b"")


def test_closing_a_model_ends_its_calls_and_its_messages(lan: Lan) -> None:
    endpoint = lan.start("alone")
    model = endpoint.model("plant", voters=3, **FAST)
    ended = Ear()

    def call() -> None:
        try:
            model.set("k", 1)
        except glue.MinorityError as error:
            ended(error)

    thread = threading.Thread(target=call)
    thread.start()
    while endpoint.flush(0.01):  # until the call has begun
        pass
    model.close()
    ended.wait()
    thread.join(PATIENCE)
    assert endpoint.model("plant", voters=1, **FAST).set("k", 1) > 0


MERGEABLE = {"stats/": "counter", "tags/": "set", "seen/": "register", "notes/": "multi"}


def test_the_status_tells_the_latest_commit_index(lan: Lan) -> None:
    model = lan.start("alone").model("plant", voters=1, **FAST)
    assert all(model.set("k", number) == model.status.commit_index for number in range(3))


def test_mergeable_keys_are_written_without_a_majority_and_watched_like_others(lan: Lan) -> None:
    one, other = (lan.start(name).model("plant", voters=3, mergeable=MERGEABLE, **FAST) for name in "ab")
    ear = Ear()
    other.watch("#", lambda change: ear((change.key, change.value, change.index)))
    one.update("stats/parts", 5)
    one.add("stats/parts", -2)
    one.add("tags/parts", "red")
    one.update("tags/parts", {"blue": True, "red": None})
    one.set("seen/door", {"open": True, "by": "a"})
    one.update("seen/door", {"by": None})
    one.transaction(Set("notes/1", "a"), Set("notes/2", "b"))
    one.delete("notes/2")
    one.synchronize(PATIENCE)
    assert (other.get("stats/parts"), other.get("tags/parts"), other.get("seen/door")) == (3, ["blue"], {"open": True})
    assert other.items("notes/#") == {"notes/1": "a"}
    assert other.entry("notes/1") == glue.Entry("notes/1", "a", 0, 0.0)
    assert other.get("tags/none", ["nothing"]) == ["nothing"]
    ear.wait_until(lambda heard: ("notes/1", "a", 0) in heard and ("stats/parts", 3, 0) in heard)
    with pytest.raises(glue.MinorityError):
        one.items("#", timeout=0.1)
    assert one.items("#", stale=True).keys() == {"stats/parts", "tags/parts", "seen/door", "notes/1"}


def test_mistakes_with_mergeable_keys_are_told(lan: Lan) -> None:
    model = lan.start("alone").model("plant", voters=1, mergeable=MERGEABLE, **FAST)
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: model.set("stats/n", 5), "not set but added to"),
        (lambda: model.update("stats/n", 0.5), "an integer to add"),
        (lambda: model.update("tags/n", {"a": 1}), "True to add it"),
        (lambda: model.set("tags/n", [1]), "strings of up to"),
        (lambda: model.compare_and_set("seen/n", ABSENT, 1), "needs a majority"),
        (lambda: model.transaction(Set("seen/n", 1), Set("other", 2)), "change one without another"),
        (lambda: model.transaction(Set("seen/n", 1), Set("seen/n", 2)), "each key once"),
        (lambda: model.set("seen/n", "x" * (2 << 20)), "at most"),
        (lambda: model.add("other", 1), "counter or set"),
        (lambda: model.discard("stats/n", "a"), "is no mergeable set"),
    ]
    for wrong, words in mistakes:
        with pytest.raises((glue.RefusedError, glue.ModelError), match=words):
            wrong()
    with pytest.raises(glue.MinorityError, match="no other endpoint"):
        model.synchronize(timeout=0.1)
    plain = lan.start("plain").model("other", voters=1, **FAST)
    with pytest.raises(glue.RefusedError, match="no keys of the model are mergeable"):
        plain.synchronize(timeout=0.1)
    with pytest.raises(glue.ConfigurationError, match="whole levels"):
        plain.endpoint.model("third", voters=1, mergeable={"stats": "counter"})


def test_a_data_dir_that_cannot_be_used_is_a_storage_error_and_another_one_may_be_tried(
    lan: Lan, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "odd" / "log").mkdir(parents=True)
    endpoint = lan.start("alone")
    for unusable in ("file", "file/below", "odd"):
        with pytest.raises(glue.StorageError, match=r"data_dir|disk"):
            endpoint.model("plant", voters=1, data_dir=tmp_path / unusable, **FAST)
    model = endpoint.model("plant", voters=1, data_dir=tmp_path / "well", **FAST)
    assert model.set("k", 1) > 0

    async def open_one() -> None:
        async with glue.aio.Endpoint("other", **private_network()) as other:
            with pytest.raises(glue.StorageError, match="data_dir"):
                other.model("garden", voters=1, data_dir=tmp_path / "file")

    asyncio.run(open_one())


def test_a_refused_model_leaves_its_data_dir_to_the_next_try(lan: Lan, tmp_path: Path) -> None:
    endpoint = lan.start("alone")
    endpoint.model("first", voters=1, **FAST)
    refused: list[dict[str, Any]] = [
        {"name": "first", "voters": 1},  # open already
        {"name": "x", "members": "alone"},  # a string is no list of names
        {"name": "x", "voters": 1, "mergeable": {"a": "heap"}},  # no such kind
        {"name": "x"},  # neither voters nor members
    ]
    for options in refused:
        with pytest.raises(glue.GlueError):
            endpoint.model(data_dir=tmp_path, **options, **FAST)
    assert endpoint.model("x", voters=1, data_dir=tmp_path, **FAST).set("k", 1) > 0

    async def open_two() -> None:
        async with glue.aio.Endpoint("other", **private_network()) as other:
            with pytest.raises(glue.ConfigurationError):
                other.model("y", data_dir=tmp_path / "other")
            other.model("y", voters=1, data_dir=tmp_path / "other")

    asyncio.run(open_two())


def test_mergeable_keys_survive_a_restart_with_a_data_dir(lan: Lan, tmp_path: Path) -> None:
    for life in range(1, 4):
        endpoint = lan.start("alone")
        model = endpoint.model("plant", voters=3, mergeable=MERGEABLE, data_dir=tmp_path, **FAST)
        model.add("stats/lives", 1)
        assert model.get("stats/lives") == life
        endpoint.close()


def test_mergeable_keys_under_asyncio() -> None:
    async def run() -> None:
        settings = private_network()
        async with glue.aio.Endpoint("a", **settings) as a, glue.aio.Endpoint("b", **settings) as b:
            one, other = (each.model("plant", voters=3, mergeable=MERGEABLE, **FAST) for each in (a, b))
            watch = await other.watch("stats/#")
            await asyncio.gather(*(one.add("stats/n", 1) for _ in range(100)))
            await one.add("tags/n", "red")
            await one.discard("tags/n", "red")
            await other.set("seen/n", 1)
            await one.synchronize(PATIENCE)
            assert (await other.get("stats/n"), await other.get("tags/n"), other.conflicts()) == (100, None, {})
            assert (await one.entry("seen/n", stale=True)) == glue.Entry("seen/n", 1, 0, 0.0)
            value = 0
            while value < 100:
                value = (await watch.get(PATIENCE)).value

    asyncio.run(run())
