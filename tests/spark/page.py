"""A page of a report in lines, so that two of them can be compared."""

from __future__ import annotations


def tags(html: str) -> list[str]:
    """The body of a page, with a line for each tag."""
    body = html.partition("<body>")[2].partition("<script>")[0]
    return body.replace("<", "\n<").strip().splitlines()
