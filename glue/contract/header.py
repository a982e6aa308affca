"""Declarations of header entries, from which all code that reads or writes headers is derived.

A frame's header has one key for each layer. The list under the key is the *entry* of that layer. Each layer's `wire`
module declares its entries with `HeaderEntry` and `Field`. All else follows from the declaration: packing and checking,
the places of fields, the size of the largest header, the texts of the fast path, and the tables of other readers
(`glue.capture.entries`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

MAX_HEADER: Final = 192
"""Bytes of a header, newline included. Receivers read no further."""

INTEGER_LIMIT: Final = 1 << 53
"""Integers in a header are below this, so that every JSON reader keeps them exactly (RFC 8259, section 6)."""

NUMBER: Final = rb"(?:0|[1-9][0-9]{0,14})"
"""A regular expression of integers with at most 15 digits, which are below INTEGER_LIMIT."""

_ANY_TEXT = rb'"[^"\\]*"'


class Field:
    """An integer in an entry.

    `most` is the largest value that glue writes; readers take any value below INTEGER_LIMIT. `default` is the value of
    a writer that sets none; None is written as null. An `optional` field is left out if it is null and only the kind
    follows.
    """

    __slots__ = ("default", "is_optional", "most", "name")
    type = "integer"
    any: bytes = NUMBER  # a regular expression of its values

    def __init__(self, name: str, most: int = INTEGER_LIMIT - 1, default: Any = 0, optional: bool = False) -> None:
        self.name = name
        self.most = most
        self.default = default
        self.is_optional = optional

    @property
    def longest(self) -> int:
        """Bytes of the longest value that glue writes."""
        return max(len(str(self.most)), len(_json(self.default)))

    def check(self, value: str) -> str:
        """Return the Python expression that checks a value, given as a Python expression."""
        right = f"{value}.__class__ is int and 0 <= {value} < {INTEGER_LIMIT}"
        return f"({value} is None or {right})" if self.default is None else right


class Text(Field):
    """A string in an entry, of at most `most` characters, none of which needs an escape."""

    __slots__ = ()
    type = "text"
    any = _ANY_TEXT

    def __init__(self, name: str, most: int, default: Any = "", optional: bool = False) -> None:
        super().__init__(name, most, default, optional)

    @property
    def longest(self) -> int:
        """Bytes of the longest value that glue writes."""
        return self.most + len('""')

    def check(self, value: str) -> str:
        """Return the Python expression that checks a value, given as a Python expression."""
        right = f"{value}.__class__ is str"
        return f"({value} is None or {right})" if self.default is None else right


class HeaderEntry:
    """One kind of entry: the fields of a layer's list in a header.

    An entry may have a `kind`, named by the first field, or by the last field with `kind_last`. Within a run the last
    field counts up if it is an integer (see `glue.contract.Inbound`). The limit `longest` for the bytes of the whole
    list may be below the sum of its fields; the writer must keep it. No layer above adds an entry beside a `lone` one.
    """

    def __init__(
        self,
        layer: str,
        kind: str | None,
        *fields: Field,
        kind_last: bool = False,
        longest: int | None = None,
        lone: bool = False,
    ) -> None:
        self.layer = layer
        self.kind = kind
        self.kind_last = kind_last
        self.is_lone = lone
        named = () if kind is None else (Text("kind", len(kind), kind),)
        self.fields: tuple[Field, ...] = (*fields, *named) if kind_last else (*named, *fields)
        self.longest = self._sum() if longest is None else longest

    def _sum(self) -> int:
        return sum(field.longest for field in self.fields) + len(self.fields) - len(",") + len("[]")

    @property
    def size(self) -> int:
        """The most bytes of the entry in a header, with its key and the comma before it."""
        return len(f',"{self.layer}":') + self.longest

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields, in order."""
        return tuple(field.name for field in self.fields)

    def place(self, name: str) -> int:
        """Return the index of a field in the list."""
        return self.names.index(name)

    def getter(self, *names: str) -> Callable[[Sequence[Any]], Any]:
        """Return a function that takes these fields out of a list: a tuple, or for a single field its value."""
        return itemgetter(*map(self.place, names))

    @cached_property
    def fits(self) -> Callable[[Any], bool]:
        """A function that tells whether a value is a list of all of these fields. It is compiled, like `packer`."""
        checks = [field.check(f"entry[{place}]") for place, field in enumerate(self.fields)]
        is_list = f"entry.__class__ is list and len(entry) == {len(self.fields)}"
        made: Callable[[Any], bool] = eval(f"lambda entry: {' and '.join([is_list, *checks])}")
        return made

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values of a list by name. The list may lack optional fields."""
        names = self.names
        if self.kind_last:
            names = (*names[: len(values) - 1], names[-1])
        return dict(zip(names, values, strict=False))

    # ------------------------------------------------------------------------------------------- writing

    def pack(self, **values: Any) -> list[Any]:
        """Return the list with these values, and defaults for other fields."""
        assert values.keys() <= {*self.names}
        fields = self.fields[:-1] if self.kind_last else self.fields
        packed = [values.get(field.name, field.default) for field in fields]
        while packed and packed[-1] is None and fields[len(packed) - 1].is_optional:
            packed.pop()
        return [*packed, self.kind] if self.kind_last else packed

    def packer(self, *names: str) -> Callable[..., list[Any]]:
        """Return a function that makes the list from the values of these fields, in this order.

        The compiled list display takes a fifth of the time of `pack`; `collections.namedtuple` uses the same method.
        """
        values = [field.name if field.name in names else repr(field.default) for field in self.fields]
        made: Callable[..., list[Any]] = eval(f"lambda {', '.join(names)}: [{', '.join(values)}]")
        return made

    def template(self, **formats: bytes) -> bytes:
        """Return the entry's text in a header with these formats in place of fields, and defaults for others."""
        values = [formats.pop(field.name, _json(field.default)) for field in self.fields]
        assert not formats
        return b'"%b":[%b]' % (self.layer.encode(), b",".join(values))

    def pattern(self, **patterns: bytes) -> bytes:
        """Return a regular expression of the entry's text. Fields without a pattern here may hold any value."""
        values = [patterns.pop(field.name, field.any) for field in self.fields if field.name != "kind"]
        assert not patterns
        if self.kind is not None:
            values.insert(len(values) if self.kind_last else 0, _json(self.kind))
        return rb'"%b":\[%b\]' % (self.layer.encode(), b",".join(values))


def by_kind(*entries: HeaderEntry) -> dict[str, HeaderEntry]:
    """Return a layer's entries by kind."""
    return {entry.kind: entry for entry in entries if entry.kind is not None}


def largest_header(*layers: Iterable[HeaderEntry]) -> int:
    """Return the most bytes of a header, newline included, with one entry of each layer, bottom layer first."""
    most = 0
    for entries in reversed(layers):
        most = max([entry.size + (0 if entry.is_lone else most) for entry in entries])
    return most + len("}\n")


def _json(value: Any) -> bytes:
    """Encode a default as JSON."""
    if value is None:
        return b"null"
    return b'"%b"' % value.encode() if value.__class__ is str else b"%d" % value
