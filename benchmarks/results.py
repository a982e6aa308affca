"""Output of benchmarks: medians with their spread, Markdown tables, JSON, and the pages of the documentation.

A *row* is one measurement: a dictionary of keys (what was measured) and figures (the results). Rows with equal keys
from several runs form one line of a table: the median, with the lowest and highest in brackets. `--document` of a
script writes its tables into `docs/benchmarks.md` or a page of `docs/measurements`, between markers with the table's
name.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
MEASUREMENTS = ROOT / "docs" / "measurements"
IMAGES = ROOT / "docs" / "images"
IDLE = 85.0  # percent of all cores; above this the machine counts as idle
IDLE_SAMPLE = 0.3  # seconds of one measurement of idleness

Row = dict[str, Any]


class Column(NamedTuple):
    """A column of a table: it shows `field` of the rows, times `scale`."""

    title: str
    field: str
    scale: float = 1.0


def show(value: float) -> str:
    """Return a number with three significant digits: 1.23 M, 45.6 k, 1,234, 0.0123."""
    size = abs(value)
    if size >= 999_500:
        return f"{value / 1e6:.3g} M"
    if size >= 10_000:
        return f"{value / 1e3:.3g} k"
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"


def bytes_of(size: int) -> str:
    """Return a payload's size with its unit: 16 B, 64 kB, 1 MB (powers of two)."""
    for unit, name in ((1 << 20, "MB"), (1 << 10, "kB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def spread(values: Sequence[float]) -> str:
    """Return the median, and for several values also the lowest and the highest."""
    middle = show(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({show(min(values))} – {show(max(values))})"


def values_of(rows: Iterable[Row], field: str) -> list[float]:
    """Return the figures with this name. Rows without the figure are skipped."""
    return [row[field] for row in rows if row.get(field) is not None]


def grouped(rows: Iterable[Row], fields: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows that agree in these fields, in the order of their first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(field) for field in fields), []).append(row)
    return groups


def table(rows: Iterable[Row], keys: Sequence[Column], figures: Sequence[Column]) -> str:
    """Return a table with one line for each combination of keys, and failed rows (with `error`) below."""
    rows = list(rows)
    lines = []
    for key, group in grouped((row for row in rows if "error" not in row), [column.field for column in keys]).items():
        cells = [_key(column, value) for column, value in zip(keys, key, strict=True)]
        for column in figures:
            found = [value * column.scale for value in values_of(group, column.field)]
            cells.append(spread(found) if found else "–")
        lines.append(cells)
    made = markdown([column.title for column in (*keys, *figures)], lines)
    errors = [
        f"- failed: {', '.join(f'{name} {value}' for name, value in row.items())}" for row in rows if "error" in row
    ]
    return "\n".join([made, "", *errors]) if errors else made


def _key(column: Column, value: Any) -> str:
    if value is None:
        return "–"
    return bytes_of(value) if column.field == "size" else f"{value:,}" if isinstance(value, int) else str(value)


def markdown(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [titles, ["---"] * len(titles), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


# ------------------------------------------------------------------------------------ where and how it was measured


def wait_until_idle(timeout: float) -> float:
    """Wait until the machine is idle, at most `timeout` seconds. Return the idle share in percent."""
    until = time.monotonic() + timeout
    while True:
        idle = float(psutil.cpu_times_percent(IDLE_SAMPLE).idle)
        if idle >= IDLE or time.monotonic() >= until:
            return idle


def machine() -> str:
    """Describe this machine: cores, system and Python."""
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores ({platform.machine()}), {system}, {python}"


def command(module: str, arguments: Sequence[str]) -> str:
    """Return the command with its paths replaced by PATH, so that it can be repeated on other machines."""
    words = [re.sub(r"^(--[^=]+=)?.*/.*$", r"\1PATH", word) for word in arguments]
    return " ".join(["python", "-m", module, *words])


def provenance(module: str, arguments: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the footnote of a table: where, when and how the rows were measured."""
    runs = 1 + max((row.get("run", 0) for row in rows), default=0)
    parts = [f"`{command(module, arguments)}`", f"{machine()}", time.strftime("%Y-%m-%d")]
    if runs > 1:
        parts.append(f"median of {runs} runs (lowest – highest)")
    idle = values_of(rows, "idle_percent")
    if idle:
        parts.append(f"machine idle before the runs: {statistics.median(idle):.0f} % (at least {min(idle):.0f} %)")
    return "; ".join(parts) + "."


# -------------------------------------------------------------------------------------------------- where it goes to


def save(path: Path, arguments: Sequence[str], rows: Sequence[Row]) -> None:
    """Write the rows as JSON, with the machine and the arguments of the command."""
    path.write_text(json.dumps({"machine": machine(), "arguments": [*arguments], "rows": rows}, indent=1) + "\n")


def refresh(sections: Mapping[str, str], pages: Iterable[Path] | None = None) -> None:
    """Replace the text between the markers `<!-- begin NAME -->` and `<!-- end NAME -->` on these pages.

    Raises ValueError without changing a page if a marker is missing.
    """
    texts = {page: page.read_text() for page in pages or (PAGE, *sorted(MEASUREMENTS.glob("*.md")))}
    changed = set()
    for name, content in sections.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        page = next((page for page, text in texts.items() if begin in text), None)
        before, _, rest = texts[page].partition(begin) if page else ("", "", "")
        _, closed, after = rest.partition(end)
        if not (page and closed):
            raise ValueError(f"no page has markers for {name!r}: {begin.strip()} … {end}")
        texts[page] = f"{before}{begin}{content.strip()}\n{end}{after}"
        changed.add(page)
    for page in changed:
        page.write_text(texts[page])
