"""What each method of an endpoint makes of each argument, right or wrong: `mistakes.txt` has every answer.

`pytest tests/endpoint/test_mistakes.py --rewrite` takes over a change that is meant. Both kinds of endpoints answer
alike; where they differ, a line with "asyncio" follows.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from datetime import datetime
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

import glue
import glue.aio
from tests.support.lan import Lan

RECORD = Path(__file__).with_name("mistakes.txt")
ADDRESS = re.compile("0x[0-9a-f]{6,}")
LONG = "l" * 70_000

SECONDS = (0, -1, 1e-9, 0.001, "1", None, True, nan, inf, 1e12)
WHOLE = (0, -1, 1, 1.5, True, "1", None, 1 << 40)
NAMES = ("", "a/b", "n" * 300, 5, "ä b")
TOPICS = ("", "a", "a/", "/a", "a//b", "a/#", "+", "#/a", "a#", "$glue/x", "$other", "a\0b", LONG, 5)
VALUES: dict[str, tuple[Any, ...]] = {
    "topic": TOPICS, "pattern": (*TOPICS, ["a", "b"], []), "timeout": (0, -1, 0.01, "1", True, nan),
    "payload": (None, b"", object(), {1: 2}, {"a": nan}, memoryview(b"x")), "type": ("", "t" * 300, 5, "ä"),
    "priority": ("urgent", "first", None), "reliability": ("best-effort", "maybe"), "lifespan": SECONDS, "key": NAMES,
    "properties": ({}, {"a": "b"}, {"a": 1}, {1: "a"}, {"": "b"}, {"$a": "b"}, {f"{n}": "" for n in range(65)},
    {"a": LONG}),
    "codec": ("cbor", "none", 5), "acks": ("sent", "disk", "replicas", 0, 1, 65, True, "x"), "delay": SECONDS,
    "receipt": (True,), "retain": (True,), "publish_every": SECONDS, "policy": ("drop_oldest", "x", None),
    "limit": WHOLE, "max_rate": (0, -1, 0.5, "1", nan, inf, True), "group": NAMES, "deadline": SECONDS,
    "start": ("earliest", "latest", "-10m", "10m", "-5x", "now", 0, 5, -1, True, 1.5, datetime(2020, 1, 1)),
    "last": WHOLE, "consumer": NAMES, "ordered": (True,), "by_hand": (True,), "qos": (glue.STATE, 5),
    "age": ("10m", "1.5h", "x", "", 0, -1, 5, None, True), "size": ("64MB", "1k", "x", 0, -1, 5000, None),
    "count": WHOLE, "replicas": WHOLE, "outstanding": WHOLE, "name": (*NAMES, "n"), "to": ("earliest", "now", 5, "-1h"),
    "handler": (5, print), "local": (False,), "payload_only": (True,),
    "address": ("", "kind", ":kind/id", ":k/a/b", "a:b", 5),
}  # fmt: skip
CALLS: dict[str, dict[str, Any]] = {
    "publish": {"topic": "t", "payload": 1}, "publish_many": {"topic": "t", "payloads": [1]},
    "subscribe": {"pattern": "t", "handler": print}, "remember": {"pattern": "t"}, "forget": {"pattern": "t"},
    "announce": {"pattern": "t"}, "keep": {"pattern": "t"}, "will": {"topic": "t", "payload": 1},
    "request": {"topic": "t", "payload": 1, "timeout": 0.01}, "respond": {"pattern": "t", "handler": print},
    "wait_for_subscribers": {"topic": "t", "count": 2, "timeout": 0}, "wait_for_peers": {"count": 2, "timeout": 0},
    "wait_for_keepers": {"topic": "t", "count": 2, "timeout": 0},
    "wait_for_responders": {"topic": "t", "count": 2, "timeout": 0},
    "subscribers": {"topic": "t"}, "responders": {"topic": "t"}, "watch_presence": {"pattern": "t"},
    "topic": {"pattern": "t"},
    "consumers": {"timeout": 0}, "move_consumer": {"name": "n", "pattern": "t", "to": "latest", "timeout": 0},
    "forget_consumer": {"name": "n", "pattern": "t", "timeout": 0}, "flush": {"timeout": 0}, "sleep": {"seconds": 0},
    "send": {"address": ":k/i", "payload": 1}, "ask": {"address": ":k/i", "payload": 1, "timeout": 0.01},
}  # fmt: skip
PAIRS: list[tuple[str, dict[str, Any]]] = [
    ("publish", {"receipt": True, "acks": 1}), ("publish", {"receipt": True, "reliability": "best-effort"}),
    ("publish", {"delay": 1, "lifespan": 1}), ("publish", {"delay": 1, "retain": True}),
    ("publish", {"retain": True, "lifespan": 5}),
    ("publish", {"reliability": "best-effort", "retain": True}), ("publish", {"payload": b"x", "codec": "cbor"}),
    ("publish", {"delay": 1, "deliver_at": 1}), ("publish", {"retain": True, "payload": b""}),
    ("subscribe", {"group": "g", "consumer": "c"}), ("subscribe", {"start": "latest", "last": 1}),
    ("subscribe", {"consumer": "c", "last": 1}), ("subscribe", {"consumer": "c", "max_rate": 1}),
    ("subscribe", {"group": "g", "max_rate": 1}), ("subscribe", {"group": "g", "local": False}),
    ("subscribe", {"qos": glue.STATE, "deadline": 1}), ("subscribe", {"qos": glue.STATE, "last": 1}),
    ("subscribe", {"policy": "drop_oldest", "limit": 1}), ("subscribe", {"policy": "disconnect", "consumer": "c"}),
    ("subscribe", {"group": "g", "start": "earliest"}), ("subscribe", {"pattern": ["a", "b"], "consumer": "c"}),
    ("subscribe", {"pattern": ["a", 5]}), ("subscribe", {"nonsense": 1}),
    ("subscribe", {"max_rate": 1, "start": "earliest"}),
]  # fmt: skip
BOUNDS: dict[tuple[str, str], tuple[Any, ...]] = {
    ("publish", "key"): ("k" * 1000, "k" * 1001), ("publish", "lifespan"): (1e-300, 1e300),
    ("publish", "delay"): (10**9, 10**9 + 1), ("publish", "deliver_at"): (5, "5", inf, True),
    ("will", "delay"): (10**6, 10**6 + 1), ("will", "payload"): (bytes(1 << 20), bytes((1 << 20) + 1)),
    ("announce", "publish_every"): (0.0009, 10**6, 10**6 + 1),
    ("subscribe", "group"): ("g" * 200, "g" * 201, "a+b", "a#b", "a\0b"),
    ("subscribe", "pattern"): (["a"] * 1024, ["a"] * 1025, 5),
    ("subscribe", "max_rate"): (1000, 1000.1, 0.001, 0.0002, 1e-7), ("subscribe", "deadline"): (0.0009, 0.001),
    ("subscribe", "start"): (datetime(2999, 1, 1), datetime(1, 1, 1), 2**53, 2**63, "-1.5d", "-1w", "--1s"),
    ("subscribe", "last"): (2**53, 2**63), ("remember", "age"): ("2m", "3.5d", inf, 1e-9),
    ("remember", "size"): ("1 KiB", "2GiB", "0.1B", 1.5), ("request", "timeout"): (inf, 10**12, 1e-9),
    ("move_consumer", "name"): ("n" * 200, "n" * 201),
    ("move_consumer", "to"): (datetime(2020, 1, 1), datetime(2999, 1, 1)),
    ("topic", "codec"): ("msgpack",), ("topic", "writable"): (True,), ("topic", "qos"): ("EVENT",),
}  # fmt: skip
TOGETHER: list[tuple[str, dict[str, Any]]] = [
    ("subscribe", {"pattern": ["a", "b"], "start": "latest"}), ("subscribe", {"pattern": ["a", "b"], "last": 1}),
    ("subscribe", {"group": "g", "deadline": 1}), ("subscribe", {"group": "g", "qos": glue.STATE}),
    ("subscribe", {"group": "g", "policy": "drop_oldest"}), ("subscribe", {"consumer": "c", "ordered": 5}),
    ("subscribe", {"consumer": "c", "by_hand": 5}), ("subscribe", {"consumer": "c", "policy": "drop_oldest"}),
    ("subscribe", {"consumer": "c", "limit": 5}), ("subscribe", {"consumer": "c", "start": 5}),
    ("subscribe", {"consumer": "c", "group": "g"}), ("subscribe", {"consumer": "c", "qos": glue.STATE}),
    ("subscribe", {"consumer": "c", "deadline": 1}), ("subscribe", {"consumer": "c", "local": False}),
    ("subscribe", {"start": "latest", "policy": "drop_oldest"}), ("subscribe", {"start": "latest", "limit": 5}),
    ("subscribe", {"policy": "block", "limit": 5}), ("subscribe", {"policy": "drop_oldest", "limit": 0}),
    ("subscribe", {"policy": "drop_newest", "limit": True}), ("subscribe", {"policy": "disconnect", "limit": "1"}),
    ("subscribe", {"local": 5}), ("subscribe", {"handler": None, "payload_only": True}),
    ("publish", {"acks": 1}), ("publish", {"receipt": True, "reliability": "best-effort", "acks": 1}),
    ("publish", {"receipt": True, "acks": "disk", "topic": "#"}),
    ("publish", {"delay": 1, "acks": "disk", "receipt": True, "topic": "#"}),
    ("topic", {"kind": int, "codec": "msgpack"}), ("topic", {"kind": dict, "codec": "none"}),
    ("topic", {"kind": dict, "writable": True}), ("topic", {"kind": object}), ("topic", {"pattern": "$glue/x"}),
]  # fmt: skip


def calls() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each call: the method, what is said about its arguments, and all of them."""
    for method, good in CALLS.items():
        names = {*inspect.signature(getattr(glue.Endpoint, method)).parameters, *good}
        if method == "subscribe":
            names |= {
                "max_rate",
                "group",
                "deadline",
                "start",
                "last",
                "consumer",
                "ordered",
                "by_hand",
                "qos",
                "local",
            }
        yield method, {}, good
        for name in sorted(names & VALUES.keys()):
            for value in VALUES[name]:
                given = {name: value, **({"receipt": True} if name == "acks" else {})}
                yield method, given, {**good, **given}
        if method in ("sleep",):
            for seconds in SECONDS[1:]:
                yield method, {"seconds": seconds}, {"seconds": seconds}
    for (method, name), values in BOUNDS.items():
        for value in values:
            yield method, {name: value}, {**CALLS[method], name: value}
    for method, given in (*PAIRS, *TOGETHER):
        yield method, given, {**CALLS[method], **given}


def words(method: str, given: dict[str, Any], answer: object) -> str:
    told = ", ".join(f"{name}={value!r:.60}" for name, value in given.items())
    return ADDRESS.sub("0x", f"{method}({told}): {answer!s:.170}").replace(LONG[:40], "…").rstrip()


def ended(method: str, found: Any) -> str:
    """What a call returned, which is closed. Whether `flush` was in time depends on how busy the machine is."""
    if method == "flush" and isinstance(found, bool):
        return "a bool"
    for name in ("cancel", "withdraw", "close"):
        if callable(getattr(found, name, None)):
            getattr(found, name)()
            break
    return repr(found) if isinstance(found, bool | int | str | list) or found is None else type(found).__name__


def failed(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def sync_answers(lan: Lan) -> list[str]:
    endpoint, found = lan.start("a"), []
    for method, given, arguments in calls():
        try:
            answer = ended(method, getattr(endpoint, method)(**arguments))
        except Exception as error:
            answer = failed(error)
        found.append(words(method, given, answer))
    return found


async def async_answers(lan: Lan) -> list[str]:
    found = []
    async with glue.aio.Endpoint("a", **lan.settings) as endpoint:
        for method, given, arguments in calls():
            try:
                answer = getattr(endpoint, method)(**arguments)
                if inspect.isawaitable(answer):
                    answer = await answer
                answer = ended(method, answer)
            except Exception as error:
                answer = failed(error)
            found.append(words(method, given, answer))
    return found


def test_each_argument_is_taken_or_refused_as_it_is_written_down(lan: Lan, pytestconfig: pytest.Config) -> None:
    lines = []
    for one, other in zip(sync_answers(lan), asyncio.run(async_answers(lan)), strict=True):
        lines += [one] if one == other else [one, f"  asyncio {other.partition('): ')[2]}"]
    if pytestconfig.getoption("--rewrite"):
        RECORD.write_text("\n".join(lines) + "\n")
    assert lines == RECORD.read_text().splitlines()


def test_a_reader_that_says_wrongly_how_long_it_waits_is_told(lan: Lan) -> None:
    endpoint = lan.start("a")
    subscription = endpoint.subscribe("t")
    endpoint.publish("t", 1)
    assert subscription.get(inf).payload == 1
    for wrong in (nan, "1", True):
        with pytest.raises(glue.ConfigurationError, match="expected a number of seconds, or None"):
            subscription.get(wrong)  # type: ignore[arg-type]
