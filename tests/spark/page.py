"""A page of a report as lines of text, so that two of them can be compared by people."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from zlib import crc32

BLOCKS = {"h1", "h2", "h3", "p", "li", "tr", "section", "svg", "table", "thead", "tbody", "div"}
TITLES = 3  # of each chart, as an example of the words; a hash stands for the others


def digest(what: object) -> str:
    """Eight digits that change with what this is."""
    return f"{crc32(repr(what).encode()):08x}"


def tags(html: str) -> list[str]:
    """The body of a page: a line for each block of text and row of a table, three for a chart."""
    page = _Page()
    page.feed(html.partition("<body>")[2].partition("<script>")[0])
    page.close()
    return page.lines


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._parts: list[str] = []
        self._values: list[str] = []
        self._tag = ""
        self._chart: list[tuple[str, list[tuple[str, str | None]]]] | None = None
        self._labels: list[str] = []
        self._titles: list[str] = []

    def _end_of_line(self) -> None:
        text = " | ".join(self._parts)
        if text:
            self.lines.append(text)
        self._parts.clear()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        if tag == "svg":
            self._chart = []
        if self._chart is not None:
            self._chart.append((tag, attrs))
            return
        if tag in BLOCKS:
            self._end_of_line()
        known = dict(attrs)
        if known.get("class") in ("good", "bad", "note"):
            self._parts.append(str(known["class"]))
        if "data-value" in known:
            self._values.append(re.sub(r"\d+\.\d+(e-?\d+)?", lambda n: f"{float(n[0]):.4g}", str(known["data-value"])))

    def handle_data(self, data: str) -> None:
        text = data.strip()
        if text and self._chart is None:
            self._parts.append(text)
        elif text:
            (self._titles if self._tag == "title" else self._labels).append(text)

    def handle_endtag(self, tag: str) -> None:
        if tag == "svg" and self._chart is not None:
            shapes = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(t for t, _ in self._chart).items()))
            self.lines.append(f"chart: {', '.join(self._labels)}")
            self.lines.append(f"  titles: {'; '.join(self._titles[:TITLES])} [{digest(self._titles)}]")
            self.lines.append(f"  shapes: {shapes} [{digest(self._chart)}]")
            self._chart = None
            self._labels.clear()
            self._titles.clear()
        elif self._chart is None and tag in BLOCKS:
            self._end_of_line()
            if tag == "table" and self._values:
                self.lines.append(f"  values: {len(self._values)} [{digest(self._values)}]")
                self._values.clear()
