"""The public names of the objects that users hold. A name for the inside of glue starts with an underscore."""

from __future__ import annotations

import inspect
import re

import pytest

import glue
import glue.aio
from glue.endpoint.recorder import Recorder

ENDPOINT = """accounting announce ask close close_receivers consumers describe flush forget forget_consumer id
    incarnation keep model move_consumer name on_conflict on_consumer_alert on_deadline on_gap on_heal on_lost
    on_mismatch on_name_clash on_peer_added on_peer_removed on_qos_mismatch on_wake peers publish publish_durable
    publish_many receivers record remember request request_all request_many respond responder responders send
    settings sleep start statistics subscribe subscribers topic unsubscribe wait_for_keepers wait_for_peers
    wait_for_responders wait_for_subscribers watch_presence will"""

MODEL = """add close compare_and_set conflicts delete discard endpoint entry get items leader lock name remove set
    status synchronize transaction transfer update wait_until_ready watch"""

PUBLIC = [
    (glue.Endpoint, ENDPOINT),
    (glue.aio.Endpoint, f"{ENDPOINT} closed"),
    (glue.Subscription, "close closed get pattern"),
    (glue.aio.Subscription, "close closed get pattern"),
    (glue.Model, MODEL),
    (glue.aio.Model, MODEL),
    (glue.PlainTopic, "announce close pattern publish qos subscribe"),
    (Recorder, "bytes close failure left_out messages path pattern"),
    (glue.Keeper, "close data_dir failure log pattern replicas"),
    (glue.Lock, "name release remaining renew token"),
    (glue.aio.Lock, "name release remaining renew token"),
    (glue.Receivers, "active close counters kind owned wait_until_served"),
    (glue.Watch, "close get pattern"),
    (glue.aio.Watch, "close get pattern"),
]


def public(made: type) -> set[str]:
    """Return the public names of a class, and those that its methods assign to `self`."""
    bases = [base for base in made.__mro__ if base.__module__.startswith("glue.")]
    assigned = [name for base in bases for name in re.findall(r"\bself\.(\w+)(?::.+)? = ", inspect.getsource(base))]
    return {name for name in (*dir(made), *assigned) if not name.startswith("_")}


@pytest.mark.parametrize(("made", "names"), PUBLIC, ids=[made.__module__ + "." + made.__name__ for made, _ in PUBLIC])
def test_a_class_has_these_public_names(made: type, names: str) -> None:
    assert public(made) == set(names.split())


@pytest.mark.parametrize("kind", ["Endpoint", "Model", "Lock", "Watch", "Subscription"])
def test_methods_of_both_kinds_take_the_same_arguments_with_the_same_defaults(kind: str) -> None:
    one, other = getattr(glue, kind), getattr(glue.aio, kind)
    compared = 0
    for name, method in inspect.getmembers(one, inspect.isfunction):
        if name.startswith("_") or not inspect.isfunction(getattr(other, name, None)):
            continue
        parameters, others = (inspect.signature(made).parameters for made in (method, getattr(other, name)))
        assert [*parameters] == [*others], name
        for parameter in parameters:
            if (name, parameter) != ("sleep", "pause"):  # one waits, the other one is awaited
                assert parameters[parameter].default == others[parameter].default, (name, parameter)
                compared += 1
    assert compared > 0
