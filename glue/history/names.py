"""The interests of endpoints that serve history, and the topics of requests and pages."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "$glue/history"
OWN: Final = f"{PREFIX}/own/"
"""The interest of a publisher that serves what it published itself; a pattern follows."""
KEEPER: Final = "$glue/keeper/"
"""The interest of a keeper, which serves what others published; where it keeps, how many do, and a pattern follow."""


def ask_topic(server: str) -> str:
    """The topic of requests to one server."""
    return f"{PREFIX}/ask/{server}"


def page_topic(reader: str, incarnation: int) -> str:
    """The topic of pages for one life of a reader."""
    return f"{PREFIX}/page/{reader}/{incarnation}"
