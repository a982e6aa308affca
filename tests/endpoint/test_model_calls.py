"""What each call of a model asks, and what it makes of each answer, blocking and asyncio, without replicas."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio.model
import glue.sync.model
from glue.endpoint import model_calls
from glue.endpoint.core import id_of
from glue.endpoint.model_calls import Entry, committed, found, lease_ms, locked
from glue.endpoint.owner import OwnerFunctions
from glue.model import CloseModel
from glue.model.mergeable import Prefixes
from glue.model.questions import (
    Committed,
    Found,
    Read,
    Refused,
    Remove,
    Synchronize,
    Transfer,
    Unknown,
    Unwatch,
    WatchPattern,
    Write,
)
from glue.model.state import ABSENT, AcquireLock, Change, Delete, Expect, ReleaseLock, Set, Update

PATIENCE = 10.0
FOUND = Found([Change("a", b"1", 7), Change("b", b"[2]", 8)])
DONE = Committed(9, 100.0)


class Driver:
    """A driver that answers each question as the test says; None: never."""

    closed = False

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.waited: list[float] = []

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append(request)
        if isinstance(request, CloseModel) or isinstance(request.question, Unwatch):
            return
        answer = self.answers.pop(0)
        if answer is not None:
            request.token.answered(answer)

    def wait_for(self, event: threading.Event, timeout: float) -> bool:
        self.waited.append(timeout)
        return event.is_set()

    def inspect(self, read: Callable[[], Any]) -> Any:
        return read()

    @property
    def questions(self) -> list[Any]:
        return [request.question for request in self.asked if not isinstance(request, CloseModel)]


def model(kind: str, driver: Driver, prefixes: dict[str, str] | None = None) -> Any:
    owner = OwnerFunctions(*[lambda *_: None] * 6)
    core = SimpleNamespace(identity=SimpleNamespace(name="n" * 80, incarnation=7))
    parts: Any = SimpleNamespace(core=core, endpoint="endpoint", owner=owner, subscriptions=set(), models={})
    module: Any = glue.aio.model if kind == "aio" else glue.sync.model
    parts.models["plant"] = made = module.Model("plant", Prefixes(prefixes or {}), parts, driver)
    return made


def result_of(kind: str, call: Callable[[], Any]) -> Any:
    """The result of a call, which is awaited in an event loop if it is asyncio's."""
    if kind == "sync":
        return call()

    async def main() -> Any:
        found = call()
        return await found if inspect.isawaitable(found) else found

    return asyncio.run(main())


CALLS: list[tuple[str, Callable[[Any], Any], Any, Any, Any]] = [
    ("get", lambda model: model.get("a"), Read("a"), Found([Change("a", b"1", 7)]), 1),
    ("get none", lambda model: model.get("a", 5), Read("a"), Found([]), 5),
    ("entry", lambda model: model.entry("a"), Read("a"), Found([Change("a", b"1", 7)]), Entry("a", 1, 7)),
    ("no entry", lambda model: model.entry("a"), Read("a"), Found([]), None),
    ("items", lambda model: model.items("+"), Read("+"), FOUND, {"a": 1, "b": [2]}),
    ("set", lambda model: model.set("a", 1), Write((Set("a", 1),)), DONE, 9),
    ("delete", lambda model: model.delete("a"), Write((Delete("a"),)), DONE, 9),
    ("update", lambda model: model.update("a", {"x": 1}), Write((Update("a", {"x": 1}),)), DONE, 9),
    ("add", lambda model: model.add("count/a", 2), Write((Update("count/a", 2),)), DONE, 9),
    ("add to a set", lambda model: model.add("set/a", "x"), Write((Update("set/a", {"x": True}),)), DONE, 9),
    ("discard", lambda model: model.discard("set/a", "x"), Write((Update("set/a", {"x": None}),)), DONE, 9),
    ("set if", lambda model: model.compare_and_set("a", 1, 2), Write((Expect("a", 1), Set("a", 2),)), DONE, 9),
    ("set new", lambda model: model.compare_and_set("a", ABSENT, 2), Write((Expect("a"), Set("a", 2),)), DONE, 9),
    ("transaction", lambda model: model.transaction(Set("a", 1), Delete("b")), Write((Set("a", 1), Delete("b"),)), DONE,
     9),
    ("synchronize", lambda model: model.synchronize(), Synchronize(), DONE, None),
    ("transfer", lambda model: model.transfer("b"), Transfer(id_of("b")), DONE, None),
    ("remove", lambda model: model.remove("b"), Remove(id_of("b")), DONE, None),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["sync", "aio"])
@pytest.mark.parametrize(
    ("call", "question", "answer", "expected"), [one[1:] for one in CALLS], ids=[one[0] for one in CALLS]
)
def test_a_call_asks_its_question_and_returns_what_the_answer_means(
    kind: str, call: Callable[[Any], Any], question: Any, answer: Any, expected: Any
) -> None:
    driver = Driver(answer)
    here = model(kind, driver, {"count/": "counter", "set/": "set"})
    assert result_of(kind, lambda: call(here)) == expected
    (asked,) = driver.asked
    assert (asked.question, asked.name, asked.timeout) == (question, "plant", model_calls.TIMEOUT)
    assert abs(asked.at - time.time()) < PATIENCE
    if kind == "sync":
        assert driver.waited == [model_calls.TIMEOUT + model_calls.GRACE]


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_refusal_of_each_call_is_raised(kind: str) -> None:
    for name, call, question, *_ in CALLS:
        for answer, error in (
            (Refused("no"), glue.RefusedError),
            (Refused("far", unreachable=True), glue.MinorityError),
        ):
            here = model(kind, Driver(answer), {"count/": "counter", "set/": "set"})
            with pytest.raises(error) as caught:
                result_of(kind, lambda call=call, here=here: call(here))  # type: ignore[misc]
            assert (str(caught.value), type(caught.value)) == (answer.reason, error), name
        assert question is not None


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_no_answer_in_time_is_an_unknown_outcome_of_a_write(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (glue.aio.model, glue.sync.model):
        monkeypatch.setattr(module, "GRACE", 0.001)
    here = model(kind, Driver(None, None))
    with pytest.raises(glue.UnknownOutcomeError, match=r"^no answer came in time$"):
        result_of(kind, lambda: here.set("a", 1, timeout=0.001))
    with pytest.raises(glue.MinorityError, match=r"^no answer came in time$"):
        result_of(kind, lambda: here.get("a", timeout=0.001))


def test_answers_mean_what_they_say() -> None:
    assert (committed(DONE), committed(FOUND), locked(DONE), locked(FOUND)) == (9, 0, (9, 100.0), (0, 0.0))
    with pytest.raises(glue.ForbiddenError, match=r"^not you$"):
        committed(Refused("not you", forbidden=True))
    with pytest.raises(glue.UnknownOutcomeError, match=r"^lost$"):
        committed(Unknown("lost"))
    with pytest.raises(glue.MinorityError, match=r"^no answer came in time$"):
        found(Unknown("lost"))
    assert found(FOUND) == FOUND.entries


@pytest.mark.parametrize(("lease", "expected"), [(0.001, 1), (1, 1000), (86_400, 86_400_000), (2.5, 2500)])
def test_a_lease_is_so_many_milliseconds(lease: float, expected: int) -> None:
    assert lease_ms(lease) == expected


@pytest.mark.parametrize("lease", [0, 0.0009, 86_400.1, "1", None])
def test_another_lease_is_refused(lease: Any) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        lease_ms(lease)
    assert str(caught.value) == f"lease={lease!r}: expected 0.001 to 86400 seconds"


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_only_counters_and_sets_are_added_to(kind: str) -> None:
    here = model(kind, Driver(), {"count/": "counter", "set/": "set", "register/": "register"})
    for call, words in (
        (lambda: here.add("a", 1), "'a' is no mergeable counter or set; see mergeable="),
        (lambda: here.add("register/a", 1), "'register/a' is no mergeable counter or set; see mergeable="),
        (lambda: here.discard("count/a", "x"), "'count/a' is no mergeable set; see mergeable="),
    ):  # fmt: skip
        with pytest.raises(glue.ModelError) as caught:
            result_of(kind, call)
        assert str(caught.value) == words


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_lock_is_taken_renewed_and_given_back_by_one_owner(kind: str) -> None:
    since = time.monotonic()
    driver = Driver(Committed(5, since), Committed(5), Committed(6), DONE, Committed(7, since - 100.0))
    here = model(kind, driver)

    def do(call: Callable[[], Awaitable[Any] | Any]) -> Any:
        return result_of(kind, call)

    lock = do(lambda: here.lock("door", 20.0))
    owner = f"{'n' * 64}/7/1"
    assert (lock.name, lock.token) == ("door", 5)
    assert 19.0 < lock.remaining <= 20.0
    do(lock.renew)
    assert 19.0 < lock.remaining <= 20.0
    do(lock.release)
    assert lock.remaining == 0.0
    with pytest.raises(glue.RefusedError) as caught:
        do(lambda: lock.renew(30.0))
    assert str(caught.value) == "lock 'door' was lost: its lease had ended"
    assert lock.remaining == 0.0
    take, renew = AcquireLock("door", owner, 20_000), AcquireLock("door", owner, 30_000)
    release = ReleaseLock("door", owner)
    assert driver.questions == [
        Write([take], patient=True), Write([take]), Write([release]), Write([renew]), Write([release]),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["sync", "aio"])
@pytest.mark.parametrize(
    ("answer", "is_given_back"), [(Committed(5, 0.0), True), (Unknown("no"), True), (Refused("no"), False)]
)
def test_a_lock_that_comes_when_nobody_waits_any_more_is_given_back(
    kind: str, answer: Any, is_given_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glue.aio.model, "GRACE", 0.001)
    driver = Driver(None, DONE)
    here = model(kind, driver)

    async def main() -> None:
        with pytest.raises(glue.UnknownOutcomeError):
            await here.lock("door", 20.0, timeout=0.001)
        driver.asked[0].token.answered(answer)

    if kind == "aio":
        asyncio.run(main())
    else:
        with pytest.raises(glue.UnknownOutcomeError):
            here.lock("door", 20.0, timeout=0.001)
        driver.asked[0].token.answered(answer)
    take, *others = driver.questions
    release = Write([ReleaseLock("door", take.operations[0].owner)])
    assert others == [release] * is_given_back


@pytest.mark.parametrize("is_there", [True, False])
def test_a_caller_that_is_cancelled_while_it_waits_for_a_lock_does_not_hold_it(is_there: bool) -> None:
    driver = Driver(None, DONE)
    here = model("aio", driver)

    async def main() -> None:
        task = asyncio.ensure_future(here.lock("door", 3600.0))
        await asyncio.sleep(0)
        granted = driver.asked[0].token.answered
        if is_there:
            granted(DONE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if not is_there:
            granted(DONE)

    asyncio.run(main())
    assert [type(one.operations[0]) for one in driver.questions] == [AcquireLock, ReleaseLock]


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_second_lock_has_another_owner_and_a_renewal_may_change_the_lease(kind: str) -> None:
    since = time.monotonic()
    driver = Driver(Committed(5, since - 5.0), Committed(6, since), Committed(6))
    here = model(kind, driver)

    first = result_of(kind, lambda: here.lock("a", 20.0))
    second = result_of(kind, lambda: here.lock("a", 20.0))
    assert 14.0 < first.remaining <= 15.0
    result_of(kind, lambda: second.renew(40.0))
    assert 39.0 < second.remaining <= 40.0
    owners = [question.operations[0].owner for question in driver.questions]
    assert [owner.rpartition("/")[2] for owner in owners] == ["1", "2", "2"]


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_after_an_unknown_outcome_a_lock_counts_as_held_only_for_what_is_certain(kind: str) -> None:
    driver = Driver(Committed(5, time.monotonic()), Committed(5), Unknown("no"), Unknown("no"))
    lock = result_of(kind, lambda: model(kind, driver).lock("door", 20.0))
    with pytest.raises(glue.ConfigurationError):
        result_of(kind, lambda: lock.renew(-5.0))
    result_of(kind, lock.renew)
    assert 19.0 < lock.remaining <= 20.0, "what is no lease changes nothing"
    with pytest.raises(glue.UnknownOutcomeError):
        result_of(kind, lambda: lock.renew(5.0))
    assert 4.0 < lock.remaining <= 5.0, "the shorter lease may have begun"
    with pytest.raises(glue.UnknownOutcomeError):
        result_of(kind, lock.release)
    assert lock.remaining == 0.0


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_the_end_of_a_lock_s_context_gives_it_back(kind: str) -> None:
    driver = Driver(Committed(5, time.monotonic()), DONE)
    here = model(kind, driver)

    async def main() -> None:
        async with await here.lock("a", 20.0) as lock:
            assert lock.remaining > 19.0

    if kind == "aio":
        asyncio.run(main())
    else:
        with here.lock("a", 20.0) as lock:
            assert lock.remaining > 19.0
    assert isinstance(driver.questions[-1].operations[0], ReleaseLock)


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_watch_ends_when_it_is_refused_and_when_it_is_closed(kind: str) -> None:
    driver = Driver(Refused("no"), DONE)
    here = model(kind, driver)
    with pytest.raises(glue.RefusedError, match=r"^no$"):
        result_of(kind, lambda: here.watch("a/+"))
    asked, ended = driver.questions
    assert (type(asked), type(ended)) == (WatchPattern, Unwatch)
    assert (asked.pattern, asked.token.pattern) == ("a/+", "a/+")
    assert ended.token is asked.token
    assert here._parts.subscriptions == set()
    with pytest.raises(glue.ModelError):
        result_of(kind, lambda: here.watch("#/a"))
    driver.answers.insert(0, Unknown("who knows"))
    with pytest.raises(glue.UnknownOutcomeError):
        result_of(kind, lambda: here.watch("a/+"))
    assert (type(driver.questions[3]), here._parts.subscriptions) == (Unwatch, set())
    del driver.asked[2:]
    watch = result_of(kind, lambda: here.watch("a/+"))
    assert watch.pattern == "a/+"
    assert len(here._parts.subscriptions) == 1
    watch.close()
    watch.close()
    assert len(driver.questions) == 4
    assert here._parts.subscriptions == set()
    driver.answers.append(DONE)
    watch = result_of(kind, lambda: here.watch("b"))
    driver.closed = True
    watch.close()
    assert len(driver.questions) == 5
    assert here._parts.subscriptions == set()


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_model_is_closed_once_and_belongs_to_its_endpoint(kind: str) -> None:
    driver = Driver()
    here = model(kind, driver)
    assert (here.endpoint, here.name) == ("endpoint", "plant")
    assert repr(here) == f"<Model plant at {'n' * 80}>"
    here.close()
    here.close()
    (asked,) = driver.asked
    assert isinstance(asked, CloseModel)
    assert asked.name == "plant"
    here._parts.models["plant"] = "opened again"
    here.close()
    assert (here._parts.models, len(driver.asked)) == ({"plant": "opened again"}, 1)
    other = model(kind, driver)
    driver.closed = True
    other.close()
    assert len(driver.asked) == 1
