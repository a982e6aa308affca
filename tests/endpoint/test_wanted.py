"""What a subscription asks for: the interests that it announces, its queue, and which options exclude each other."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

import glue
from glue.contract import Delivery
from glue.endpoint.message import Message
from glue.endpoint.queues import Kept, MessageBuffer
from glue.endpoint.shared import SharedDeliveries, SharedMessages
from glue.endpoint.wanted import GROUP_NAME, PATTERNS, Wanted
from tests.endpoint.owners import Owner

ME = "a" * 16
KEPT = glue.QoS(durability="transient_local", history=glue.keep_last(5), deadline=2.0)

DROPPED = glue.QoS(history=glue.keep_last(5), overflow="drop_oldest")


def wanted(pattern: Any, /, **asking: Any) -> Wanted:
    numbers = count(3)
    core: Any = SimpleNamespace(
        guard=None, identity=SimpleNamespace(endpoint_id=ME, incarnation=7), next_member=lambda: next(numbers)
    )
    return Wanted(pattern, cast(Any, asking), core)


@pytest.mark.parametrize(
    ("pattern", "asking", "interests"),
    [
        ("a/+", {}, ["a/+"]),
        ("a", {"deadline": 0.001}, ["a"]),
        (("a", "b/#"), {}, ["a", "b/#"]),
        (["a", "b"], {"local": False, "deadline": 1}, ["a", "b"]),
        ("a", {"max_rate": 1000}, ["$glue/limited/1/a"]),
        ("a", {"max_rate": 3}, ["$glue/limited/334/a"]),
        (["a", "#"], {"max_rate": 0.5}, ["$glue/limited/2000/a", "$glue/limited/2000/#"]),
        ("a", {"max_rate": 1e-6}, [f"$glue/limited/{10**9}/a"]),
        ("a/#", {"group": "g"}, [f"$glue/share/g/{ME}-7-3/+/a/#"]),
        (["a", "b"], {"group": "g"}, [f"$glue/share/g/{ME}-7-3/+/a", f"$glue/share/g/{ME}-7-3/+/b"]),
        ("a/#", {"consumer": "billing"}, ["$glue/consumer/member/billing/a/#"]),
        ("a", {"consumer": "c", "start": "earliest", "ordered": True, "by_hand": True}, ["$glue/consumer/member/c/a"]),
        ("a", {"start": "earliest"}, ["a"]),
        ("a", {"qos": glue.EVENT, "max_rate": 10}, None),
        ("a", {"qos": glue.SENSOR, "max_rate": 10}, ["$glue/limited/100/a"]),
    ],
)
def test_what_is_announced(pattern: Any, asking: dict[str, Any], interests: list[str] | None) -> None:
    if interests is None:
        with pytest.raises(glue.ConfigurationError, match="that is for a subscription without start and last"):
            wanted(pattern, **asking)
        return
    made = wanted(pattern, **asking)
    assert made.interests == interests
    request = made.subscribe("token")
    assert [*request.patterns] == interests
    assert (request.token, request.local) == ("token", asking.get("local", True))
    assert made.name == (pattern if isinstance(pattern, str) else ", ".join(pattern))
    assert (made.deadline, made.has_history) == (asking.get("deadline"), "start" in asking)


@pytest.mark.parametrize(
    ("pattern", "asking", "words"),
    [
        (["a", "b"], {"start": "earliest"}, "start and last are for a single pattern"),
        (["a", "b"], {"last": 1}, "start and last are for a single pattern"),
        (["a", "b"], {"qos": KEPT}, "start and last are for a single pattern"),
        (["a", "b"], {"consumer": "c"}, "consumer=… is for a single pattern"),
        ("a", {"ordered": True}, "ordered and by_hand are for a subscription with consumer=…"),
        ("a", {"by_hand": True}, "ordered and by_hand are for a subscription with consumer=…"),
        *[
            ("a", {"group": "g", **more}, r"group=…: such a subscription has no max_rate, local, deadline, start")
            for more in ({"max_rate": 1}, {"local": False}, {"deadline": 1}, {"last": 1}, {"qos": glue.SENSOR})
        ],
        ("a", {"consumer": "c", "group": "g", "local": True}, "consumer=…: such a subscription has no group"),
        ("a", {"consumer": "c", "max_rate": 1, "last": 1}, "consumer=…: such a subscription has no last"),
        ("a", {"consumer": "c", "ordered": 1}, "ordered=1: expected True or False"),
        ("a", {"consumer": "c", "by_hand": None}, "by_hand=None: expected True or False"),
        ("a", {"max_rate": 2, "start": "latest"}, "max_rate=2: that is for a subscription without start and last"),
        ("a", {"max_rate": 1001}, r"max_rate=1001: expected messages a second, from 1e-06 to 1000"),
        ("a", {"max_rate": 9e-7}, "expected messages a second"),
        ("a", {"max_rate": True}, "expected messages a second"),
        ("a", {"local": 1}, "local=1: expected True or False"),
        *[
            ("a", {"group": name}, f"expected 1 to {GROUP_NAME} characters without / . and #")
            for name in ("", "n" * (GROUP_NAME + 1), "a+", "a#", "a/", "\0", 7)
        ],
        ("a", {"consumer": "a/b"}, r"^consumer='a/b': expected 1 to 200 characters without / \+ and #$"),
        ("a", {"qos": "EVENT"}, r"^qos='EVENT': expected a glue.QoS, such as glue.EVENT$"),
        *[
            ("a", {"deadline": wrong}, f"^deadline={wrong!r}: expected seconds, at least 0.001$")
            for wrong in (0.0009, True, "1", float("inf"))
        ],
    ],
)
def test_options_that_do_not_fit_are_refused_in_words(pattern: Any, asking: dict[str, Any], words: str) -> None:
    with pytest.raises(glue.ConfigurationError, match=words):
        wanted(pattern, **asking)


def test_patterns_are_one_to_many_and_not_glue_s_own() -> None:
    assert len(wanted([f"t/{number}" for number in range(PATTERNS)]).interests) == PATTERNS
    assert wanted(frozenset({"a"})).patterns == ["a"]
    for wrong in ([], ["t"] * (PATTERNS + 1), 7, None, ["a", ""], ["a", "$glue/x"], "a/#/b"):
        with pytest.raises(glue.TopicError):
            wanted(wrong)
    with pytest.raises(glue.TopicError):  # the interest would be too long
        wanted("t" * 65_530, max_rate=1)
    with pytest.raises(TypeError, match="no option 'lokal'"):
        wanted("a", lokal=True)
    assert wanted("a", group="n" * GROUP_NAME).group == "n" * GROUP_NAME


@pytest.mark.parametrize(
    ("asking", "deadline", "start", "last"),
    [
        ({"qos": KEPT}, 2.0, None, 5),
        ({"qos": KEPT, "deadline": 1}, 1, None, 5),
        ({"qos": KEPT, "deadline": None}, None, None, 5),
        ({"qos": KEPT, "last": 2}, 2.0, None, 2),
        ({"qos": KEPT, "start": "latest"}, 2.0, "latest", None),
        ({"qos": KEPT.replace(history=glue.keep_all)}, 2.0, "earliest", None),
        ({"qos": KEPT.replace(durability="volatile")}, 2.0, None, None),
    ],
)
def test_a_quality_of_service_stands_for_options_that_are_not_given(
    asking: dict[str, Any], deadline: float | None, start: Any, last: int | None
) -> None:
    made = wanted("a", **asking)
    assert (made.deadline, made.start, made.last) == (deadline, start, last)


@pytest.mark.parametrize(
    ("pattern", "qos", "given", "queue"),
    [
        ("a", None, ("block", None), ("block", None)),
        ("a", None, ("drop_oldest", 3), ("drop_oldest", 3)),
        ("a", KEPT, ("block", None), ("block", None)),
        ("a", DROPPED, ("block", None), ("drop_oldest", 5)),
        ("a", DROPPED, ("block", 9), ("drop_oldest", 9)),
        ("a", DROPPED, ("drop_newest", None), ("drop_newest", None)),
        ("a/+", DROPPED, ("block", None), ("drop_oldest", None)),
        (["a", "a/+"], DROPPED, ("block", None), ("drop_oldest", None)),
        (["a", "b"], DROPPED, ("block", None), ("drop_oldest", 5)),
    ],
)
def test_a_quality_of_service_makes_the_queue_if_nothing_else_does(
    pattern: Any, qos: glue.QoS | None, given: tuple[str, int | None], queue: tuple[str, int | None]
) -> None:
    assert wanted(pattern, **({} if qos is None else {"qos": qos})).queueing(*given) == queue


def read(made: Wanted, handler: Any, payload_only: bool, queue: Any, *more: bool) -> tuple[Any, bool, Any]:
    return made.reader(handler, payload_only, queue, lambda told: None, lambda: 0.0, *more)


def test_each_kind_of_subscription_reads_from_its_own_queue() -> None:
    owner: Any = Owner()
    kept, got = Kept(owner, lambda: 0.0), list[Any]()
    assert read(wanted("a"), got.append, True, kept) == (got.append, True, kept)
    assert read(wanted("a"), None, False, kept) == (None, False, kept)
    room: Any = SimpleNamespace(around=lambda handler, payload_only: (handler, payload_only))
    assert read(wanted("a", consumer="c"), print, True, room) == ((print, True), False, room)
    group = wanted("a", group="g")
    handler, payload_only, queue = read(group, None, True, kept)
    assert (handler, payload_only, type(queue)) == (None, False, SharedMessages)
    handler, payload_only, queue = read(group, print, True, kept, True)
    assert (handler, payload_only, type(queue)) == (print, True, SharedDeliveries)
    for payload_only, more in ((True, ()), (False, (True,)), (False, ())):
        handler, gets_payloads, queue = read(group, got.append, payload_only, kept, *more)
        assert (gets_payloads, queue) == (False, kept)
        handler(Message(5, 1, Delivery("t", [5], None, "b", "id-b", 1, 1, 0.0, False, ())))
        assert (got.pop() == 5) is payload_only
    buffer = MessageBuffer("drop_oldest", 1, 1 << 20, owner, lambda: 0.0)
    with pytest.raises(glue.ConfigurationError) as caught:
        read(group, None, False, buffer)
    assert str(caught.value) == 'group=…: a shared subscription has the policy "block", as it loses nothing'
