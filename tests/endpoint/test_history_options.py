"""Where a subscription to history starts, and what limits a memory has."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import Any

import pytest

import glue
from glue.endpoint.history_options import bytes_of, limits_of, seconds_of, start_of
from glue.history.memory import SIZE

NOW = 1_000_000.5


@pytest.mark.parametrize(
    ("start", "last", "found"),
    [
        ("earliest", None, ("earliest", 0)), ("latest", None, ("latest", 0)), (None, 1, ("last", 1)),
        (None, 2**53 - 1, ("last", 2**53 - 1)), (1, None, ("from", 1)), (2**53 - 1, None, ("from", 2**53 - 1)),
        ("-10m", None, ("since", 999_400_500_000)), ("-1.5h", None, ("since", 994_600_500_000)),
        ("-2d", None, ("since", 827_200_500_000)), ("-0.25s", None, ("since", 1_000_000_250_000)),
        (datetime.fromtimestamp(NOW, UTC), None, ("since", 1_000_000_500_000)),
    ],
)  # fmt: skip
def test_a_start_is_a_word_a_number_or_a_time(start: Any, last: int | None, found: tuple[str, int]) -> None:
    assert start_of(start, last, NOW) == found


@pytest.mark.parametrize("start", [None, "", "10m", "-m", "-1", 0, True, 1.5, 2**53, b"earliest"])
def test_another_start_is_refused_with_the_name_of_its_option(start: Any) -> None:
    with pytest.raises(glue.ConfigurationError, match=r"^to=.*: expected (\"earliest\"|the number of a message, 1 to)"):
        start_of(start, None, NOW, "to")


@pytest.mark.parametrize("last", [0, True, 1.0, "1", 2**53])
def test_another_number_of_messages_is_refused(last: Any) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        start_of(None, last, NOW)
    assert str(caught.value) == f"last={last!r}: expected a number of messages of each topic, at least 1"


@pytest.mark.parametrize(
    ("size", "found"),
    [
        (1, 1), ("5", 5), ("1B", 1), ("1 kB", 1000), ("1KB", 1000), ("1.5MB", 1_500_000), ("2GB", 2 * 10**9),
        ("1TB", 10**12), ("1KiB", 1024), ("2MiB", 1 << 21), ("1GiB", 1 << 30),
    ],
)  # fmt: skip
def test_a_size_is_a_number_of_bytes_or_a_text(size: Any, found: int) -> None:
    assert bytes_of(size) == found
    limits = limits_of("t", None, None, size)
    assert (limits.pattern, limits.last, limits.age, limits.size) == ("t", None, inf, found)


@pytest.mark.parametrize(("age", "found"), [(1, 1.0), (0.5, 0.5), ("10m", 600.0), ("1.5h", 5400.0), ("2d", 172_800.0)])
def test_an_age_is_a_number_of_seconds_or_a_text(age: Any, found: float) -> None:
    assert seconds_of(age) == found
    assert isinstance(seconds_of(age), float)
    limits = limits_of("t", 1, age, None)
    assert (limits.last, limits.age, limits.size) == (1, found, SIZE)


@pytest.mark.parametrize("wrong", [0, -1, True, "5x", "", [], "-5m"])
def test_another_size_or_age_is_refused(wrong: Any) -> None:
    with pytest.raises(glue.ConfigurationError, match=r"^size=.*expected a positive number of bytes"):
        bytes_of(wrong)
    with pytest.raises(glue.ConfigurationError, match=r"^age=.*expected a positive number of seconds"):
        seconds_of(wrong)
    with pytest.raises(glue.TopicError):
        limits_of("#/t", None, None, None)


@pytest.mark.parametrize("last", [0, True, 1.5, "1"])
def test_another_number_to_remember_is_refused(last: Any) -> None:
    with pytest.raises(glue.ConfigurationError, match="expected a number of messages of each topic, at least 1"):
        limits_of("t", last, None, None)
