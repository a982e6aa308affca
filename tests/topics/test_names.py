"""Names and patterns: what is legal, and that the message says what is wrong where."""

from __future__ import annotations

import pytest

from glue.errors import ConfigurationError, TopicError
from glue.topics import check_pattern, check_topic
from glue.topics.names import check_type

LEGAL_TOPICS = ["a", "a/b", "/", "/a", "a/", "a//b", "$SYS/load", " ", "é/日本/🙂", "x" * 65_535, "é" * 32_767]
LEGAL_PATTERNS = [*LEGAL_TOPICS, "#", "+", "+/+", "/+", "+/", "a/#", "a/+/b", "+/a/#", "$SYS/#", "/#"]

BROKEN_NAMES = [
    ("", "is empty"),
    ("x" * 65_536, "65536 bytes"),
    ("é" * 32_768, "65536 bytes"),
    ("a\0b", "NUL at character 1"),
    ("ab\ud800", "lone surrogate at character 2"),
    (b"a", "expected a string"),
    (None, "expected a string"),
]
BROKEN_TOPICS = [
    *BROKEN_NAMES,
    ("a/+", "'+' at character 2"),
    ("a#+", "'#' at character 1"),
    ("#", "'#' at character 0"),
]
BROKEN_PATTERNS = [
    *BROKEN_NAMES,
    ("a/b+", "level 1 is 'b+'"),
    ("a#", "level 0 is 'a#'"),
    ("a/##", "level 1 is '##'"),
    ("+#", "level 0 is '+#'"),
    ("#/a", "'#' at level 0 must be the last"),
    ("a/#/#", "'#' at level 1 must be the last"),
]


@pytest.mark.parametrize("topic", LEGAL_TOPICS, ids=lambda name: name[:8])
def test_a_legal_topic_is_accepted(topic: str) -> None:
    check_topic(topic)


@pytest.mark.parametrize("pattern", LEGAL_PATTERNS, ids=lambda name: name[:8])
def test_a_legal_pattern_is_accepted(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(("topic", "complaint"), BROKEN_TOPICS, ids=lambda value: ascii(value)[:20])
def test_a_broken_topic_is_refused_with_its_fault(topic: str, complaint: str) -> None:
    with pytest.raises(TopicError, match=complaint.replace("+", r"\+")) as raised:
        check_topic(topic)
    assert len(str(raised.value)) < 250, "a long name does not flood the screen"


@pytest.mark.parametrize(("pattern", "complaint"), BROKEN_PATTERNS, ids=lambda value: ascii(value)[:20])
def test_a_broken_pattern_is_refused_with_its_fault(pattern: str, complaint: str) -> None:
    with pytest.raises(TopicError, match=complaint.replace("+", r"\+")) as raised:
        check_pattern(pattern)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize("tag", ["t", "x" * 255, "é" * 127])
def test_a_legal_type_is_accepted(tag: str) -> None:
    check_type(tag)


@pytest.mark.parametrize("tag", ["", "x" * 256, "é" * 128, "\ud800", 7])
def test_a_broken_type_is_refused(tag: str) -> None:
    with pytest.raises(ConfigurationError, match="1 to 255 bytes"):
        check_type(tag)
