"""What becomes of the figures: medians with their spread, Markdown tables, JSON, and the page that shows them.

A *row* is one measurement: a dictionary of what was measured (keys) and what came out (figures). Rows of several
runs that agree in their keys are one line of a table: the median, and the lowest and highest in brackets. A script
that is given `--document` writes its tables into `docs/benchmarks.md` or a page of `docs/measurements`, between markers
that bear their names.
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
IDLE = 85.0  # percent of all cores from which on the machine is taken to be idle
IDLE_SAMPLE = 0.3  # seconds over which that is looked at

Row = dict[str, Any]


class Column(NamedTuple):
    """A column of a table: the field of the rows that it shows, times `scale`."""

    title: str
    field: str
    scale: float = 1.0


def show(value: float) -> str:
    """Three digits that matter: 1.23 M, 45.6 k, 1,234, 0.0123."""
    size = abs(value)
    if size >= 999_500:
        return f"{value / 1e6:.3g} M"
    if size >= 10_000:
        return f"{value / 1e3:.3g} k"
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"


def bytes_of(size: int) -> str:
    """A payload's size as people say it: 16 B, 64 kB, 1 MB (powers of two)."""
    for unit, name in ((1 << 20, "MB"), (1 << 10, "kB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def spread(values: Sequence[float]) -> str:
    """The median, and of several values the lowest and the highest."""
    middle = show(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({show(min(values))} – {show(max(values))})"


def values_of(rows: Iterable[Row], field: str) -> list[float]:
    """The figures of that name, of the rows that have one."""
    return [row[field] for row in rows if row.get(field) is not None]


def grouped(rows: Iterable[Row], fields: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that agree in these fields, in the order in which they first came."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(field) for field in fields), []).append(row)
    return groups


def table(rows: Iterable[Row], keys: Sequence[Column], figures: Sequence[Column]) -> str:
    """One line for each combination of keys, with the spread of each figure; below, what failed (`error` of a row)."""
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
    """A Markdown table."""
    rows = [titles, ["---"] * len(titles), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


# ------------------------------------------------------------------------------------ where and how it was measured


def wait_until_idle(timeout: float) -> float:
    """Wait until the machine is idle, `timeout` seconds at most; how idle it then is, in percent."""
    until = time.monotonic() + timeout
    while True:
        idle = float(psutil.cpu_times_percent(IDLE_SAMPLE).idle)
        if idle >= IDLE or time.monotonic() >= until:
            return idle


def machine() -> str:
    """What the figures hold for."""
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores ({platform.machine()}), {system}, {python}"


def command(module: str, arguments: Sequence[str]) -> str:
    """The command as it can be repeated elsewhere: paths, which differ from machine to machine, left open."""
    words = [re.sub(r"^(--[^=]+=)?.*/.*$", r"\1PATH", word) for word in arguments]
    return " ".join(["python", "-m", module, *words])


def provenance(module: str, arguments: Sequence[str], rows: Sequence[Row]) -> str:
    """Where, when and how the rows were measured, for under a table."""
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
    """Replace what stands between the markers `<!-- begin NAME -->` and `<!-- end NAME -->` of these pages.

    Raises ValueError, and changes nothing, if none of the pages has such markers.
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
