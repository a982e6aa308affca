"""The callbacks of an endpoint, checked when they are set, and the handling of their exceptions.

A misspelt name, a value that is not callable and a function with a wrong number of arguments are refused at once.
Otherwise the mistake would show only when the callback is needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from glue.contract.logs import lazy_logger
from glue.errors import ConfigurationError

PREFIX = "on_"

Handler = TypeVar("Handler", bound=Callable[..., Any])

logger = lazy_logger("glue")


class Callback(Generic[Handler]):
    """An attribute that holds a function or None; `arguments` name what the function is called with."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Callback[Handler]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Handler | None: ...

    def __get__(self, instance: object, owner: type) -> Handler | Callback[Handler] | None:
        return self if instance is None else instance.__dict__.get(self._name)

    def __set__(self, instance: object, handler: Handler | None) -> None:
        if handler is not None:
            self._check(handler, bool(getattr(instance, "_AWAITS_CALLBACKS", False)))
        instance.__dict__[self._name] = handler

    def _check(self, handler: object, may_be_awaited: bool) -> None:
        wanted = f"a function of {' and '.join(self._arguments)}"
        if not callable(handler):
            raise ConfigurationError(f"{self._name}={handler!r}: expected {wanted}, or None")
        if is_coroutine_function(handler) and not may_be_awaited:
            raise ConfigurationError(f"{self._name}={handler!r}: a coroutine function is for glue.aio.Endpoint")
        try:
            signature = inspect.signature(handler)
        except (TypeError, ValueError):  # some functions that are written in C do not tell
            return
        try:
            signature.bind(*self._arguments)
        except TypeError as error:
            raise ConfigurationError(f"{self._name}={handler!r}: expected {wanted}; {error}") from None


def check_name(owner: type, name: str) -> None:
    """Raise ConfigurationError for a name that looks like a callback of `owner` and is none."""
    if not hasattr(owner, name):
        known = sorted(one for one in dir(owner) if isinstance(getattr(owner, one), Callback))
        raise ConfigurationError(f"there is no callback {name!r}; there are {', '.join(known)}")


def is_coroutine_function(handler: object) -> bool:
    """Whether calling the handler, a function or an object, gives something to await."""
    return any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__)))


class Failures:
    """The errors that a handler raised: the 1st is logged with a traceback, the 10th, 100th, … by number only.

    Otherwise a handler that fails on each message of a stream would log thousands of tracebacks a second. `count` is
    the number of all errors.
    """

    __slots__ = ("_next", "count", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        """The handler for people, such as "the handler of 'home/#'"."""
        self.count = 0
        self._next = 10

    def note(self, event: object) -> None:
        """The handler failed on `event`; to be called where the error is handled."""
        self.count += 1
        if self.count == 1:
            logger.exception("%s failed on %r; further failures are counted", self.what, event)
        elif self.count == self._next:
            self._next *= 10
            logger.error("%s has failed %d times, the last time on %r", self.what, self.count, event)
