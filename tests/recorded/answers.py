"""What public functions and classes without side effects answer when they are called with arguments that a seed draws.

Arguments are drawn by their annotations and names. A line stands for a function, or for objects of a class whose
methods are called in any order: how often it raised what, and a hash of all answers. A function whose arguments cannot
be drawn is left out. `python -m tests.recorded.answers ROOM NAME` shows each call of one line.
"""

from __future__ import annotations

import collections
import enum
import importlib
import inspect
import pkgutil
import re
import sys
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

from tests.recorded.forms import facts

ROOMS: dict[str, tuple[str, ...]] = {
    "lower": ("glue.contract", "glue.serialization", "glue.discovery", "glue.transport", "glue.fragmentation"),
    "topics": ("glue.topics", "glue.history", "glue.delayed", "glue.requests", "glue.consumers", "glue.receivers"),
    "model": ("glue.model", "glue.storage", "glue.security", "glue.schema"),
    "tools": ("glue.doctor", "glue.spying", "glue.metrics"),
    "mqtt": (
        *(f"glue.gateway.mqtt.{name}" for name in (
            "access", "codes", "connecting", "decoder", "encoder", "identity", "leaving", "limits", "moving", "packets",
            "properties", "retained", "routing", "runs", "session", "state", "stored", "subscribing", "subscriptions",
            "translation", "cluster.keys", "cluster.sweeping",
        )), "glue.gateway.refusals", "glue.gateway.descriptors",
    ),
    "http": tuple(f"glue.gateway.http.{name}" for name in (
        "carrier", "dead_letters", "deliveries", "descriptions", "destinations", "group_rules", "guard", "items",
        "lanes", "limits", "paths", "places", "problems", "recent", "records", "signing", "sources", "subscriptions",
        "tail", "tokens", "topics", "typed",
    )),
    "commands": tuple(f"glue.cmd.{name}" for name in (
        "consumers", "doctor", "facts", "losses", "peers", "receivers", "simulate", "spy_tree", "tally", "top",
        "topic_list", "traffic", "words",
    )),
    "network": (
        "glue.capture.filter", "glue.capture.packets", "glue.network.addresses", "glue.network.choice",
        "glue.network.group", "glue.network.loopback", "glue.observing.machine",
        "glue.observing.reports", "glue.recording",
    ),
    "simulation": ("glue.simulation", "glue.capture.ordering", "glue.capture.pcapng", "glue.settings"),
    "endpoint": ("glue.endpoint",),
    "spark": ("spark.report", "spark.read", "spark.measures", "spark.analyze"),
}  # fmt: skip
LEFT_OUT = re.compile(
    r"\.(secrets|recording|model_options|keeping|files|__main__|seeds?)$|\.(sleep|pause|check|wait_for_end|prepare_streams"
    r"|request_end|interruptible|file_log|opening|at_rest|plot|LazyPattern|MetricsServer|Acknowledger|Ahead|id_of|processor_waits|train_buffer|_digits|_load|Reception|swarm|multicast_network|read_open|read_capture|run|main|parser)\b"
)
FILES = re.compile(r"path$|paths$|file|folder|director|capture|output")
CALLS, OBJECTS, METHODS = 24, 5, 12

TEXTS = (
    "", "a", "b", "a/b", "a/b/c", "a/+", "a/#", "#", "+/b", "$glue/x", "$share/g/a/#", "x y", "ü/é", "10.0.0.5",
    "10.0.0.5:7400", "fe80::1%eth0", "eth0", "lo", "http://h:80/a?b", "0123456789abcdef", "f" * 16, "7", "-3", "1.5",
    "1e3", "10k", "5s", "2m", '{"a":1}', "[1,2]", "null", "true", "text/plain", "a" * 70, "line\nline", "a=1,b=2",
    "udp",
)  # fmt: skip
NAMED: dict[str, tuple[str, ...]] = {
    "pattern": ("a/b", "a/+", "a/#", "#", "+/b", "b", "+", "a/+/c"),
    "topic": ("a/b", "a", "b", "a/b/c", "x/b", "a/c/c"),
    "peer": ("0" * 16, "1" * 16, "f" * 16), "id": ("0" * 16, "1" * 16, "f" * 16), "origin": ("0" * 16, "1" * 16),
    "name": ("pump", "valve", "a", "x y", "ü"), "kind": ("data", "ack", "open", "x"),
}  # fmt: skip
INTEGERS = (0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 10, 16, 31, 60, 100, 127, 128, 255, 256, 999, 1000, 1200, 1500, 4096, -1)
FLOATS = (0.0, 0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 60.0, 100.0, -1.0, 1e9)
ANYTHING: tuple[Any, ...] = (
    None, True, 0, 1, 2.5, "a/b", b"abc", [1], [], {"a": 1}, [[1, 2], ["a", 1], [3]], {"a": [1, 2], "b": {"c": "d"}},
    ["a", 1, None], "x",
)  # fmt: skip
PAYLOADS = (b"", b"a", b"abc", b"1", b'{"a":1}', b"[1]", b"null", bytes(20), bytes(300), b"\xff\xfe", b"x\ny")


class UnknownError(Exception):
    """There is no value for an annotation."""


class Answerer:
    """A function that answers with one of four values, as its arguments say; it ends a program that asks for ever."""

    def __init__(self, answers: list[Any]) -> None:
        self._answers = answers
        self._left = 300

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Answer."""
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("asked too often")
        return self._answers[crc32(facts((values, named), 2).encode("utf-8", "replace")) % 4]


class Draw:
    """Draws values by annotations."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def value(self, hint: Any, name: str = "", depth: int = 3) -> Any:
        """Return a value; raises UnknownError."""
        choice, origin, inner = self.random.choice, typing.get_origin(hint), typing.get_args(hint)
        if hint in (Any, object, inspect.Parameter.empty):
            return choice(ANYTHING)
        if hint is None or hint is type(None):
            return None
        if hint is bool:
            return choice((True, False))
        if hint is int:
            return choice(INTEGERS)
        if hint is float:
            return choice(FLOATS) if choice((0, 1, 1)) else round(self.random.uniform(0, 20), 3)
        if hint is str:
            named = [texts for key, texts in NAMED.items() if key in name]
            return choice(named[0] if named and self.random.random() < 0.75 else TEXTS)
        if hint in (bytes, bytearray, memoryview) or str(hint).endswith("Buffer"):
            return (hint if isinstance(hint, type) and hint is not bytes else bytes)(choice(PAYLOADS))
        if hint is Random:
            return Random(choice(INTEGERS))
        if isinstance(hint, typing.TypeVar):
            return self.value(hint.__bound__ or Any, name, depth)
        if origin in (typing.Union, types.UnionType):
            return self.value(choice(inner), name, depth)
        if origin is typing.Literal:
            return choice(inner)
        if origin in (collections.abc.Callable,) or hint is collections.abc.Callable:
            answer = inner[1] if len(inner) == 2 else Any
            return Answerer([self.value(answer, "", depth - 1) for _ in range(4)])
        return self._container(hint, origin or hint, inner, depth)

    def _container(self, hint: Any, kind: Any, inner: tuple[Any, ...], depth: int) -> Any:
        size = self.random.choice((0, 1, 1, 2, 3, 5)) if depth > 0 else 0
        if kind is tuple:
            if len(inner) == 2 and inner[1] is ...:
                return tuple(self.value(inner[0], "", depth - 1) for _ in range(size))
            return tuple(self.value(one, "", depth - 1) for one in inner)
        first, *rest = inner or (Any,)
        if kind in (list, collections.deque) or kind in LISTS:
            made = [self.value(first, "", depth - 1) for _ in range(size)]
            return collections.deque(made) if kind is collections.deque else made
        if kind in (set, frozenset) or kind in (collections.abc.Set, collections.abc.Collection):
            return (frozenset if kind is frozenset else set)(self.value(first, "", depth - 1) for _ in range(size))
        if kind is Counter:
            return Counter()
        if kind in (dict, collections.OrderedDict, collections.defaultdict) or kind in MAPS:
            second = rest[0] if rest else Any
            pairs = [(self.value(first, "topic", depth - 1), self.value(second, "", depth - 1)) for _ in range(size)]
            return collections.OrderedDict(pairs) if kind is collections.OrderedDict else dict(pairs)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self.random.choice(list(kind))
        if isinstance(kind, type) and kind.__module__.startswith(OURS) and depth > 0:
            return self.made(kind, depth - 1)
        raise UnknownError(f"{hint}")

    def made(self, kind: type, depth: int = 3) -> Any:
        """Return an object of a class; raises UnknownError."""
        if getattr(kind, "_is_protocol", False) or inspect.isabstract(kind) or issubclass(kind, BaseException):
            raise UnknownError(kind.__name__)
        last: Exception | None = None
        for _ in range(4):
            positional, named = self.arguments(kind, depth)
            try:
                return kind(*positional, **named)
            except UnknownError:
                raise
            except Exception as error:
                last = error
        raise UnknownError(f"{kind.__name__}: {last!r}")

    def arguments(self, function: Any, depth: int = 3) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments for a call; raises UnknownError."""
        try:
            signature = inspect.signature(function)
            hints = typing.get_type_hints(vars(function).get("__init__", function))
        except (TypeError, ValueError, NameError, AttributeError) as error:
            raise UnknownError(f"{error}") from None
        positional, named = [], {}
        for name, parameter in signature.parameters.items():
            is_left_out = parameter.default is not parameter.empty and self.random.random() < 0.4
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or is_left_out:
                if parameter.kind is parameter.VAR_POSITIONAL:
                    positional += [
                        self.value(hints.get(name, Any), name, depth) for _ in range(self.random.randrange(3))
                    ]
                elif parameter.kind is parameter.POSITIONAL_ONLY:
                    break
                continue
            if FILES.search(name) and any(word in str(hints.get(name)) for word in ("str", "Path", "IO", "None")):
                raise UnknownError(f"{name} may be a file")
            value = self.value(hints.get(name, parameter.empty), name, depth)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[name] = value
        return positional, named


LISTS = (
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.MutableSequence,
    collections.abc.Collection,
)
MAPS = (collections.abc.Mapping, collections.abc.MutableMapping)


class Line:
    """The answers of one function or class."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.draw = Draw(name)
        self.ends: Counter[str] = Counter()
        self.hash = 0
        self.calls: list[str] = []

    def call(self, function: Callable[..., Any], label: str) -> None:
        """Call it with some arguments and note the answer; raises UnknownError."""
        positional, named = self.draw.arguments(function)
        asked = facts((positional, named), 5)
        try:
            answer = function(*positional, **named)
            if isinstance(answer, collections.abc.Iterator):
                answer = [one for one, _ in zip(answer, range(50), strict=False)]
            told, end = facts(answer, 5), "answers"
            if inspect.isfunction(answer):
                told = f"{[self.tried(answer, value) for value in (None, 3, 1.7e18, 'a/b', 'b', [1])]}"
        except Exception as error:
            told = end = type(error).__name__
        self.ends[end] += 1
        self.note(f"{label}{asked} -> {told}, {facts((positional, named), 5)}")

    def tried(self, function: Callable[..., Any], value: Any) -> str:
        """What a function that was returned answers."""
        try:
            return facts(function(value), 3)
        except Exception as error:
            return type(error).__name__

    def note(self, text: str) -> None:
        """Add something to the hash."""
        self.calls.append(text)
        self.hash = crc32(ADDRESS.sub("", text).encode("utf-8", "backslashreplace"), self.hash)

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(f'{end} {n}' for end, n in sorted(self.ends.items()))}, {self.hash:08x}"


OURS = ("glue.", "spark.")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def of_function(name: str, function: Callable[..., Any]) -> Line:
    """Call a function."""
    line = Line(name)
    for number in range(CALLS):
        try:
            line.call(function, "")
        except UnknownError:
            if number == CALLS // 2 and not line.calls:
                raise
    return line


def of_class(name: str, kind: type) -> Line:
    """Make objects, and call their public methods in any order."""
    line = Line(name)
    members = [(key, value) for key, value in inspect.getmembers(kind) if key[:2] != "__"]
    values = [key for key, value in members if isinstance(value, property)]
    usable = {key for key, value in members if str(getattr(value, "__module__", "")).startswith(OURS)}
    usable -= {key for key, value in members if not inspect.isroutine(value)}
    for number in range(OBJECTS):
        try:
            one = line.draw.made(kind)
        except UnknownError:
            if number == OBJECTS - 1 and not line.calls:
                raise
            continue
        line.note(facts(one, 5))
        for _ in range(METHODS if usable else 0):
            method = line.draw.random.choice(sorted(usable))
            try:
                line.call(getattr(one, method), method)
            except UnknownError:
                usable.discard(method)
                if not usable:
                    break
            for value in values:
                try:
                    line.note(f"{value} {facts(getattr(one, value), 4)}")
                except Exception as error:
                    line.note(f"{value} {type(error).__name__}")
            line.note(facts(one, 3))
        line.note(facts(one, 5))
    return line


def subjects(room: str) -> Iterator[tuple[str, Any]]:
    """The public functions and classes of a room, by name."""
    for package in ROOMS[room]:
        module = importlib.import_module(package)
        names = [package]
        if hasattr(module, "__path__"):
            names += sorted(found.name for found in pkgutil.walk_packages(module.__path__, f"{package}."))
        for name in names:
            if LEFT_OUT.search(name) or (room == "endpoint" and name == "glue.endpoint"):
                continue
            module = importlib.import_module(name)
            for key, value in sorted(vars(module).items()):
                is_own = getattr(value, "__module__", "") == name and not LEFT_OUT.search(f"{name}.{key}")
                if is_own and (key[0] != "_" or inspect.isfunction(value)):
                    yield f"{name}.{key}", value


def lines(room: str) -> Iterator[Line]:
    """The lines of a room."""
    for name, value in subjects(room):
        try:
            if inspect.isclass(value):
                if room != "endpoint" and not issubclass(value, BaseException):
                    yield of_class(name, value)
            elif inspect.isfunction(value) and not inspect.iscoroutinefunction(value):
                yield of_function(name, value)
        except UnknownError:
            continue


def answers(room: str) -> str:
    """The record of a room."""
    return "".join(f"{line}\n" for line in lines(room))


ANSWERS: dict[str, Callable[[], str]] = {f"answers-{room}": partial(answers, room) for room in ROOMS}

if __name__ == "__main__":
    for shown in lines(sys.argv[1]):
        if shown.name == sys.argv[2]:
            print(*shown.calls, shown, sep="\n")
