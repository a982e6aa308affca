"""Options of history, checked: where a subscription starts, and what is remembered."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import Any

from glue.contract.pattern import LazyPattern
from glue.errors import ConfigurationError
from glue.history import Limits
from glue.history.memory import SIZE
from glue.history.wire import EARLIEST, FROM, INTEGER_LIMIT, LAST, LATEST, SINCE
from glue.history.wire import Start as StartPair
from glue.topics import check_pattern

Start = str | int | datetime
"""Where a subscription starts: "earliest", "latest", "-10m" (s, m, h or d), a message's number, or a time."""

_AGO = LazyPattern(r"-([0-9]+(?:\.[0-9]+)?)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SIZE = LazyPattern(r"([0-9]+(?:\.[0-9]+)?) ?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB)?")
_FACTORS = {
    None: 1, "B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}  # fmt: skip


def start_of(start: Start | None, last: int | None, unix_time: float, name: str = "start") -> StartPair:
    """The start of a subscription, given by the option `name`. Raises ConfigurationError."""
    if last is not None:
        if start is not None:
            raise ConfigurationError(f"start={start!r}, last={last!r}: give one of them")
        if isinstance(last, bool) or not isinstance(last, int) or not 1 <= last <= INTEGER_LIMIT:
            raise ConfigurationError(f"last={last!r}: expected a number of messages of each topic, at least 1")
        return LAST, last
    if isinstance(start, datetime):
        try:
            at = start.timestamp()
        except (ValueError, OverflowError, OSError):  # too early or too late for local time
            raise ConfigurationError(f"{name}={start!r}: this time is out of range") from None
        if at > unix_time:
            raise ConfigurationError(f"{name}={start!r}: that is in the future; history begins in the past")
        return SINCE, int(at * 1e6)
    if isinstance(start, int) and not isinstance(start, bool):
        if not 1 <= start <= INTEGER_LIMIT:
            raise ConfigurationError(f"{name}={start!r}: expected the number of a message, 1 to {INTEGER_LIMIT}")
        return FROM, start
    if start in (EARLIEST, LATEST):
        return str(start), 0
    if isinstance(start, str) and (found := _AGO.fullmatch(start)):
        return SINCE, int((unix_time - float(found[1]) * _UNITS[found[2]]) * 1e6)
    raise ConfigurationError(
        f'{name}={start!r}: expected "earliest", "latest", the number of a message, a datetime, or a time ago such as '
        '"-10m" (s, m, h or d)'
    )


def limits_of(pattern: str, last: Any, age: Any, size: Any) -> Limits:
    """The limits of the history of a pattern. Raises TopicError, ConfigurationError."""
    check_pattern(pattern)
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
        raise ConfigurationError(f"last={last!r}: expected a number of messages of each topic, at least 1")
    return Limits(pattern, last, None if age is None else seconds_of(age), SIZE if size is None else bytes_of(size))


def seconds_of(age: Any) -> float:
    """Seconds, of a number or of text such as "10m" (s, m, h or d). Raises ConfigurationError."""
    if isinstance(age, str) and (found := _AGO.fullmatch(f"-{age}")):
        age = float(found[1]) * _UNITS[found[2]]
    if isinstance(age, bool) or not isinstance(age, int | float) or not 0 < age < inf:
        raise ConfigurationError(f'age={age!r}: expected a positive number of seconds, or text such as "10m" or "30d"')
    return float(age)


def bytes_of(size: Any) -> int:
    """Bytes, of a number or of text such as "64MB". Raises ConfigurationError."""
    if isinstance(size, str) and (found := _SIZE.fullmatch(size)):
        size = int(float(found[1]) * _FACTORS[found[2]])
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ConfigurationError(f'size={size!r}: expected a positive number of bytes, or text such as "64MB"')
    return int(size)
