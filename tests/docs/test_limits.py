"""docs/limits.md says what the code says: every value of a row, and a row for every bound and time of `glue/`.

A value of the page is a number with its unit, `2^53 − 1` or `1/3`; those of several constants stand in their order,
with `; ` between them, and those of one constant with ` / `. A number of the code that has no row stands in
`unlisted.py` or `tests/mutants/exempt.py`, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import fields
from fractions import Fraction
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.unlisted import UNLISTED
from tests.mutants.exempt import EXEMPT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "limits.md").read_text()
ROW = re.compile(r"^\| .+ \| (?P<values>.+) \| `(?P<path>[\w/]+\.py)` `(?P<names>.+)` \|$", re.MULTILINE)
COUNTED = re.compile(r"counted `([^`]+)`(?: or `([^`]+)`)?")
ASSIGNED = re.compile(
    r"^(?P<names>_?[A-Z][A-Z0-9_]*(?:, _?[A-Z][A-Z0-9_]*)*)(?:: [^=\n]+)? = "
    r"(?![{\[]|[bf][\"']|[A-Z][a-z]|re\.|struct\.|frozenset)(?P<value>\(\n(?:.+\n)+?\)|.+)",
    re.MULTILINE,
)
"""A constant that may be a number, or numbers: no set, no list, no object of a class."""

NUMBER = re.compile(
    r"(?P<number>[\d,.]+)(?:\^(?P<power>\d+)|/(?P<part>\d+))?(?P<less> − 1)?(?: (?P<unit>%|[a-zµA-Z]+))?"
)
DAY = 86_400
UNITS: dict[str | None, Fraction | int] = {
    None: 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "%": Fraction(1, 100),
    "s": 1, "ms": Fraction(1, 10**3), "µs": Fraction(1, 10**6), "ns": Fraction(1, 10**9),
    "min": 60, "h": 3600, "days": DAY, "years": Fraction(1461, 4) * DAY,
}  # fmt: skip
SUFFIXES = {"_MS": UNITS["ms"], "_US": UNITS["µs"], "_NS": UNITS["ns"]}
OTHER_UNITS = {
    "glue/delayed/wire.py WAIT_LIMIT": UNITS["ms"],
    "glue/endpoint/presence.py NEVER": UNITS["ms"],
    "glue/gateway/http/streaming.py RETRY": UNITS["ms"],
    "glue/history/server.py TOGETHER": UNITS["µs"],
    "glue/recording/writer.py LOOK_AGAIN": UNITS["ns"],
    "glue/requests/wire.py WITHIN_LIMIT": UNITS["ms"],
    "glue/topics/retained.py DRIFT": UNITS["µs"],
    "glue/topics/wrapped.py INTERVAL_LIMIT": UNITS["ms"],
}
"""Constants in other units than seconds and bytes whose names do not end with the unit."""


def told_by_the_page() -> dict[str, dict[str, str]]:
    """The values of the page by module and name, as they stand there."""
    told: dict[str, dict[str, str]] = defaultdict(dict)
    for row in ROW.finditer(PAGE):
        names, values = row["names"].split("`, `"), row["values"].split("; ")
        assert len(names) == len(values), f"{len(names)} names and {len(values)} values: {row[0]}"
        for name, value in zip(names, values, strict=True):
            assert name not in told[row["path"]], f"{row['path']} {name} has two rows in docs/limits.md"
            told[row["path"]][name] = value
    return told


TOLD = told_by_the_page()
FILES = [path for package in ("glue", "spark") for path in sorted((ROOT / package).rglob("*.py"))]
SOURCES = {str(path.relative_to(ROOT)): path.read_text() for path in FILES}
MODULES = [
    path for path, text in SOURCES.items() if path in TOLD or (path.startswith("glue/") and ASSIGNED.search(text))
]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers_of(path: str) -> dict[str, Any]:
    """The numbers, and tuples of numbers, that a module assigns; and those of classes that have rows.

    A module is imported only for what its text alone does not tell: all of them would take ten times as long.
    """
    numbers: dict[str, Any] = {}
    listed = {*TOLD.get(path, ()), *unlisted_of(path)}
    classes = {name.partition(".")[0] for name in listed if "." in name}
    module = imported(path) if classes else None
    for found in ASSIGNED.finditer(SOURCES[path]):
        names = found["names"].split(", ")
        try:
            value = eval(found["value"], {}, numbers)
            numbers |= zip(names, value, strict=True) if len(names) > 1 else {names[0]: value}
        except (NameError, SyntaxError) as error:
            may_be = path.startswith("glue/") and isinstance(error, NameError) and found["value"][0] != "("
            if may_be or not listed.isdisjoint(names):
                module = module or imported(path)
                numbers |= {name: getattr(module, name) for name in names}
    for name in classes:
        numbers |= {f"{name}.{field.name}": field.default for field in fields(getattr(module, name))}
    return {name: value for name, value in numbers.items() if all(map(is_number, parts(value))) and value != ()}


def unlisted_of(path: str) -> set[str]:
    return {*chain.from_iterable(of.get(path, ()) for of in UNLISTED.values())}


def parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def parsed(text: str) -> Fraction:
    """A value of the page in seconds, bytes or pieces."""
    found = NUMBER.fullmatch(text)
    assert found is not None, f"docs/limits.md: {text!r} is no number"
    assert found["unit"] in UNITS, f"docs/limits.md: {text!r} has another unit than {[*UNITS]}"
    number = Fraction(found["number"].replace(",", "")) ** int(found["power"] or 1) / int(found["part"] or 1)
    return (number - bool(found["less"])) * UNITS[found["unit"]]


def is_equal(path: str, name: str, text: str, value: Any) -> bool:
    """Whether a value of the page is the one of the code. Integers are compared exactly."""
    suffix = next((unit for end, unit in SUFFIXES.items() if name.endswith(end)), 1)
    unit = OTHER_UNITS.get(f"{path} {name}", suffix)
    told = [parsed(one) / unit for one in text.split(" / ")]
    return len(told) == len(parts(value)) and all(
        one == have if isinstance(have, int) else math.isclose(one, have, rel_tol=1e-12)
        for one, have in zip(told, parts(value), strict=True)
    )


def imported(path: str) -> ModuleType:
    try:
        return import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    except ImportError as error:
        pytest.skip(f"{path} needs what is not installed: {error}")


@pytest.mark.parametrize("path", MODULES)
def test_limits(path: str) -> None:
    told, numbers, unlisted = TOLD.get(path, {}), numbers_of(path), unlisted_of(path)
    left = numbers.keys() - told.keys() - {*EXEMPT.get(path, ())} - unlisted
    problems = [
        f"docs/limits.md says {text} for {name} of {path}; the code says {numbers.get(name, 'no number')}"
        for name, text in told.items()
        if name not in numbers or not is_equal(path, name, text, numbers[name])
    ]
    if "*" not in unlisted and path.startswith("glue/"):
        problems += [f"{path}: {name} = {numbers[name]} has no row in docs/limits.md" for name in sorted(left)]
    problems += [f"unlisted.py names {name} of {path}, no number" for name in unlisted - numbers.keys() - {"*"}]
    problems += [f"unlisted.py names {name} of {path}, which has a row" for name in unlisted & told.keys()]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def test_rows_are_about_modules_that_exist() -> None:
    assert TOLD.keys() <= {*MODULES}


def test_modules_without_rows_exist() -> None:
    assert {path for of in UNLISTED.values() for path in of} <= {*MODULES}


def test_counters_that_the_page_names_are_counted() -> None:
    code = "\n".join(SOURCES.values())
    named = {name for found in COUNTED.findall(PAGE) for name in found if name}
    assert len(named) > 30
    assert {name for name in named if not re.search(rf"[\"']{re.escape(name)}[\"']", code)} == set()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64 MiB", 64 << 20), ("1,024", 1024), ("0.25 s", Fraction(1, 4)), ("250 µs", Fraction(1, 4000)),
        ("2^53 − 1", 2**53 - 1), ("1/3", Fraction(1, 3)), ("5 %", Fraction(1, 20)), ("31 days", 31 * 86_400),
        ("10^9 s", 10**9), ("1.5 MiB", 3 << 19),
    ],
)  # fmt: skip
def test_a_value_of_the_page_is_read_with_its_unit(text: str, value: int | Fraction) -> None:
    assert parsed(text) == value


@pytest.mark.parametrize("text", ["65,537", "65,536 ms", "64 KiB / 64 KiB", "2^17", "2^16 − 1"])
def test_another_value_is_noticed(text: str) -> None:
    assert is_equal("glue/x.py", "A", "65,536", 1 << 16)
    assert not is_equal("glue/x.py", "A", text, 1 << 16)
