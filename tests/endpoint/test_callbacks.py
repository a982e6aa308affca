"""Callbacks of an endpoint: what is refused when one is set, and what becomes of one that fails."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest

import glue
import glue.aio
from glue.endpoint.callbacks import Failures
from glue.errors import DISTRIBUTION
from glue.simulation import World
from tests.support.lan import Ear, Lan

PATIENCE = 10.0


async def awaited(*arguments: Any) -> None:
    """A coroutine function."""


@pytest.mark.parametrize("name", ["on_peer_aded", "on_gaps", "on_message"])
@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_a_misspelt_name_is_refused(kind: type[Any], name: str) -> None:
    with pytest.raises(
        glue.ConfigurationError, match=f"no callback '{name}'; there are on_.*on_deadline, on_gap, on_heal, on_lost"
    ):
        setattr(kind("a"), name, print)


@pytest.mark.parametrize(
    ("name", "wrong", "complaint"),
    [
        ("on_peer_added", 3, "expected a function of peer, or None"),
        ("on_peer_removed", lambda: None, "expected a function of peer; too many positional"),
        ("on_gap", lambda cause, count: None, "expected a function of gap; missing"),
        ("on_lost", lambda lost: None, "expected a function of cause and count; too many"),
        ("on_name_clash", awaited, "a coroutine function is for glue.aio.Endpoint"),
    ],
)
def test_what_could_never_be_called_is_refused(name: str, wrong: Any, complaint: str) -> None:
    endpoint = glue.Endpoint("a")
    with pytest.raises(glue.ConfigurationError, match=f"{name}=.*{complaint}"):
        setattr(endpoint, name, wrong)
    assert getattr(endpoint, name) is None


def test_whatever_takes_the_arguments_is_accepted() -> None:
    endpoint, news = glue.Endpoint("a"), list[Any]()
    for handler in (print, news.append, lambda *_: None, partial(print, "peer"), lambda peer, more=1: None, None):
        endpoint.on_peer_added = handler
        assert endpoint.on_peer_added == handler
    glue.aio.Endpoint("b").on_peer_added = awaited


def test_what_does_not_tell_its_arguments_is_accepted() -> None:
    class Silent:
        __signature__ = "none"

        def __call__(self, peer: Any) -> None:
            pass

    endpoint, silent = glue.Endpoint("a"), Silent()
    endpoint.on_peer_added = silent
    assert endpoint.on_peer_added is silent


def test_callbacks_of_two_endpoints_are_their_own() -> None:
    a, b = glue.Endpoint("a"), glue.Endpoint("b")
    a.on_gap = print
    assert (a.on_gap, b.on_gap) == (print, None)


def test_a_handler_that_goes_on_failing_is_logged_by_powers_of_ten(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures("the handler of 't'")
    for number in range(1, 251):
        try:
            raise KeyError("my mistake")
        except KeyError:
            failures.note(number)
    assert [record.getMessage() for record in caplog.records] == [
        "the handler of 't' failed on 1; further failures are counted",
        "the handler of 't' has failed 10 times, the last time on 10",
        "the handler of 't' has failed 100 times, the last time on 100",
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]
    assert all(record.levelno == logging.ERROR for record in caplog.records)
    assert failures.count == 250


def test_failures_of_handlers_and_callbacks_are_counted(lan: Lan, caplog: pytest.LogCaptureFixture) -> None:
    a, b = lan.make("a"), lan.make("b")
    ear = Ear()

    def fail(message: glue.Message) -> None:
        ear(message)
        raise KeyError("my mistake")

    a.on_peer_added = lambda peer: 1 / 0
    a.start()
    b.start()
    b.subscribe("t", fail)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish_many("t", range(30))
    ear.wait(30)
    b.close()
    assert b.statistics["endpoint"]["handler failed"] == 30
    a.close()
    assert a.statistics["endpoint"]["handler failed"] == 1
    tracebacks = [record.getMessage() for record in caplog.records if record.exc_info]
    assert len(tracebacks) == 2


def test_a_simulated_endpoint_refuses_alike() -> None:
    with pytest.raises(glue.ConfigurationError, match="on_gapp"):
        setattr(World().endpoint("a"), "on_gapp", print)  # noqa: B010 - the type checker refuses it, too


def test_the_name_of_the_distribution_is_that_of_the_metadata() -> None:
    import importlib.metadata

    assert "glue" in importlib.metadata.packages_distributions()
    assert DISTRIBUTION in importlib.metadata.packages_distributions()["glue"]
