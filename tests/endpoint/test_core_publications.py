"""What is published, as the core of an endpoint checks and encodes it, and what it knows of the layers below."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy
import orjson
import pytest

import glue
from glue.contract import BULK, HIGH, LARGE, NORMAL, PLAIN, URGENT, AnnotatedPublication, Options, Publication
from glue.endpoint.core import EndpointCore
from glue.endpoint.options import CENTURY, KEY, LARGE_MESSAGE, waiting_time
from glue.settings import Settings
from glue.topics.held import NOT_FOUND

LIMIT = 100_000


def core_of(**settings: Any) -> Any:
    return EndpointCore(Settings(name="ann", message_limit=LIMIT, **settings), Random(0), 0.0, {})


@pytest.mark.parametrize(
    ("payload", "options", "body", "json"),
    [
        (b"ab", {}, b"ab", False), (b"", {"retain": True}, b"", False), ("", {"retain": True}, b"", False),
        ("", {}, b"\"\"", True), ("a", {"retain": True}, b"\"a\"", True), ([1], {}, b"[1]", True),
        (None, {}, b"null", True),
        (bytearray(b"ab"), {}, b"ab", False),
    ],
)  # fmt: skip
def test_a_payload_is_bytes_or_json_and_an_empty_text_clears(
    payload: Any, options: Any, body: bytes, json: bool
) -> None:
    found = core_of().publication("t", payload, 5.0, **options)
    assert (type(found), found.topic, found.published_at, found.length) == (Publication, "t", 5.0, len(body))
    assert ([bytes(one) for one in found.payloads], found.json, found.priority) == ([body], json, NORMAL)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, PLAIN), ({"type": "k"}, Options("k")), ({"retain": True}, Options(retain=True)),
        ({"lifespan": 2.5}, Options(lifespan=2.5)), ({"reliability": "best-effort"}, Options(reliable=False)),
        ({"receipt": "token"}, Options(receipt="token")), ({"key": "k"}, Options(key="k")),
        ({"key": "k" * KEY, "lifespan": 1}, Options(key="k" * KEY, lifespan=1)),
    ],
)  # fmt: skip
def test_options_go_with_the_publication(given: dict[str, Any], expected: Options) -> None:
    found = core_of().publication("t", b"x", 5.0, **given)
    assert found.options == expected
    assert (found.options is PLAIN) is not bool(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reliability": "sure"}, "reliability='sure': expected one of reliable, best-effort"),
        *[({"lifespan": wrong}, f"lifespan={wrong!r}: expected a positive number of seconds")
          for wrong in (0, -1.0, True, "1", float("inf"), float("nan"))],
        ({"receipt": 1, "reliability": "best-effort"},
         "receipt=True: best effort is never acknowledged; leave reliability out"),
        ({"key": 5}, "key=5: expected a string of at most 1000 characters"),
        ({"key": "k" * (KEY + 1)}, f"key={'k' * 79!r:.79}k: expected a string of at most 1000 characters"),
        ({"priority": "low"}, "priority='low': expected one of urgent, high, normal, bulk"),
        ({"priority": []}, "priority=[]: expected one of urgent, high, normal, bulk"),
    ],
)  # fmt: skip
def test_another_option_is_refused_in_words(given: dict[str, Any], words: str) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        core_of().publication("t", b"x", 5.0, **given)
    assert str(caught.value) == words


def test_only_a_normal_message_is_of_another_class_if_it_is_large() -> None:
    core = core_of()
    assert LARGE_MESSAGE == 32 << 10
    for name, small, large in (
        ("urgent", URGENT, URGENT), ("high", HIGH, HIGH), ("normal", NORMAL, LARGE), ("bulk", BULK, BULK)
    ):  # fmt: skip
        for size, level in ((LARGE_MESSAGE - 1, small), (LARGE_MESSAGE, large)):
            assert core.publication("t", bytes(size), 5.0, priority=name).priority == level
            assert [one.priority for one in core.publications("t", [b"", bytes(size)], 5.0, name)] == [level]
            found = core.publications("t", ["a", bytes(size)], 5.0, name)
            assert [one.priority for one in found] == [small, level]


def test_a_message_is_as_large_as_its_limit() -> None:
    core = core_of()
    words = f"message of {LIMIT + 1} bytes on 't'; message_limit is {LIMIT}"
    fitting: list[list[Any]] = [[bytes(LIMIT)], [b"x", bytes(LIMIT)], ["x", bytes(LIMIT)]]
    too_large: list[list[Any]] = [[bytes(LIMIT + 1)], [b"x", bytes(LIMIT + 1)], ["x" * (LIMIT - 1)]]
    for payloads in fitting:
        assert sum(len(one.payloads) for one in core.publications("t", payloads, 5.0)) == len(payloads)
    for payloads in too_large:
        with pytest.raises(glue.MessageTooLargeError) as caught:
            core.publications("t", payloads, 5.0)
        assert str(caught.value) == words


def test_many_payloads_become_as_few_publications_as_they_can() -> None:
    core = core_of()
    (one,) = core.publications("t", iter([b"ab", b"cd"]), 5.0)
    assert (one.payloads, one.length, one.json, one.published_at, one.topic) == ([b"ab", b"cd"], 2, False, 5.0, "t")
    (one,) = core.publications("t", [b"ab", b"c"], 5.0)
    assert (one.payloads, one.length) == ([b"ab", b"c"], None)
    found = core.publications("t", [b"ab", "c"], 5.0)
    assert [(one.payloads, one.json) for one in found] == [([b"ab"], False), ([b'"c"'], True)]
    assert core.publications("t", [], 5.0) == []


class Text(str):
    """A text of a class of its own."""

    __slots__ = ()


def test_each_topic_is_checked_and_asked_for_anew_as_the_rules_may_change() -> None:
    asked: list[Any] = []
    core = core_of()
    calls: list[Any] = [
        lambda topic: core.publication(topic, b"x", 5.0), lambda topic: core.publications(topic, [b"x"], 5.0),
    ]  # fmt: skip
    for topic in ("a/+", "", "$glue/x", 5, Text("a/#")):
        for publish in calls:
            with pytest.raises(glue.TopicError):
                publish(topic)
    core.publication("a", b"x", 5.0)
    core.guard = SimpleNamespace(require=lambda action, topic: asked.append((action, topic)))
    for _ in range(2):
        core.publication("b", b"x", 5.0)
        core.publications("b", [b"x"], 5.0)
    assert asked == [("publish", "b")] * 4


def test_a_codec_and_properties_go_with_each_message() -> None:
    core = core_of()
    plain = core.publication("t", {"a": 1}, 5.0, properties={})
    assert type(plain) is Publication
    found = core.publication("t", {"a": 1}, 5.0, properties={"p": "q"})
    assert (type(found), found.json, found.payloads) == (AnnotatedPublication, True, [b'{"a":1}'])
    assert (dict(found.options.metadata.properties), found.options.metadata.codec) == ({"p": "q"}, None)
    found = core.publication("t", {"a": 1}, 5.0, type="k", codec="msgpack")
    assert (type(found), found.json, found.options.type) == (AnnotatedPublication, False, "k")
    assert (found.payloads, found.length) == ([b"\x81\xa1a\x01"], 4)
    assert found.options.metadata.codec is not None
    array = core.publication("t", numpy.arange(3), 5.0)  # which is no JSON, and has a codec of its own
    assert (type(array), array.json) == (AnnotatedPublication, False)
    assert array.options.metadata.codec not in (None, found.options.metadata.codec)
    assert orjson.loads(plain.payloads[0]) == {"a": 1}


def test_waiting_for_more_than_a_century_is_waiting_for_ever() -> None:
    assert [waiting_time(one) for one in (None, 0, 2.5, CENTURY - 1, CENTURY, float("inf"))] == [
        None, 0, 2.5, CENTURY - 1, None, None,
    ]  # fmt: skip
    for wrong in ("1", True, float("nan")):
        with pytest.raises(glue.ConfigurationError) as caught:
            waiting_time(wrong)
        assert str(caught.value) == f"timeout={wrong!r}: expected a number of seconds, or None to wait for ever"


# ------------------------------------------------------------------------------------------------ layers below


def test_a_layer_that_is_none_is_refused_with_those_that_are() -> None:
    wrong: Any = {"transprot": None, "zoo": None}
    with pytest.raises(glue.ConfigurationError) as caught:
        EndpointCore(Settings(name="ann"), Random(0), 0.0, wrong)
    assert str(caught.value).startswith("unknown layer 'transprot'; the layers are network, ")
    assert "transport" in str(caught.value)


def test_a_reader_of_history_gets_live_messages_if_its_interest_is_known() -> None:
    core = core_of()
    known: list[Any] = []

    def knows(*one: Any) -> bool:
        known.append(one)
        return True

    core.stack.layers["topics"] = SimpleNamespace(peers=SimpleNamespace(knows=knows))
    assert core._knows(core.identity.endpoint_id, 1, "t")
    assert known == []
    assert core._knows("b", 7, "t")
    assert known == [("b", 7, "t")]
    core.stack.layers["topics"] = SimpleNamespace(peers=SimpleNamespace(knows=lambda *one: False))
    assert not core._knows("b", 7, "t")
    core.stack.layers["topics"] = SimpleNamespace()  # in place of ours
    assert not core._knows("b", 7, "t")


def test_what_was_not_found_at_the_start_is_told_once() -> None:
    core = core_of()
    counted = core.stack.layers["topics"].statistics
    assert core.has_found_all()
    counted[NOT_FOUND] += 2
    assert not core.has_found_all()
    assert core.has_found_all()
    counted[NOT_FOUND] += 1
    assert not core.has_found_all()


def test_an_endpoint_is_done_when_nothing_waits_anywhere() -> None:
    core = core_of()
    assert core.is_done
    core.outbox.add(Publication("t", [b"abc"], 5.0, length=3))
    assert (core.is_done, core.backlog > 3) == (False, True)
    core.outbox.take()
    for unsent in (True, False):
        core.receivers = SimpleNamespace(has_unsent=unsent)
        assert core.is_done is not unsent
    deadline = core.deadline
    core.history = SimpleNamespace(deadline=deadline - 1.0)
    assert core.deadline == deadline - 1.0
    core.history.deadline = deadline + 1.0
    assert core.deadline == deadline
    core.stack.layers["discovery"] = SimpleNamespace()  # in place of ours
    assert core.is_first_round_over
    core.stack.layers["discovery"] = SimpleNamespace(is_first_round_over=False)
    assert not core.is_first_round_over


def test_a_forked_child_goes_on_with_numbers_and_locks_of_its_own() -> None:
    core, renewed = core_of(), list[str]()
    core.stack.layers["security"] = SimpleNamespace(renew=lambda: renewed.append("security"))
    core.outbox = SimpleNamespace(renew_lock=lambda: renewed.append("outbox"))
    core._counting.acquire()
    was_counting = core.is_counting()
    core.renew_locks()
    assert (was_counting, core.is_counting(), renewed) == (True, False, ["outbox", "security"])
