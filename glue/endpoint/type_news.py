"""News of the types of other endpoints, and the mismatches that follow.

The directory of announced types is always kept, since an announcement may come before the program opens a typed topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from glue.contract import PeerInterest, PeerRemoved
from glue.contract.frozen import Frozen
from glue.endpoint.message import Message
from glue.schema import AnnouncedType, TypeDirectory


class Mismatch(Frozen):
    """A type of another endpoint does not fit that of a typed topic here."""

    topic: str
    """The topic of the message, or the pattern of the typed topic here."""
    peer: str
    """The name of the other endpoint."""
    peer_id: str
    """Its endpoint id."""
    here: str
    """The type here: name and hash of its schema, as in `Temperature#1a2b3c4d`."""
    there: str
    """The type there; empty if it is not known."""
    differences: Sequence[str]
    """What does not fit, in words."""
    message: Message | None = None
    """The message that could not be read, as it came; None if the types were compared before any message."""

    def __str__(self) -> str:
        there = f" and {self.there}" if self.there else ""
        return f"{self.topic}: {self.here} here{there} at {self.peer} do not fit: {'; '.join(self.differences)}"


Told = Callable[[str, AnnouncedType], None]


class TypeNews:
    """The types that peers announce; `tell` is called within a turn with each new one."""

    def __init__(self, statistics: Counter[str]) -> None:
        self.directory = TypeDirectory(statistics)
        self.tell: Told | None = None

    def note(self, event: PeerInterest | PeerRemoved) -> None:
        """Take news of a peer."""
        if isinstance(event, PeerRemoved):
            self.directory.forget(event.peer)
            return
        for told in self.directory.change(event):
            if self.tell is not None:
                self.tell(event.peer, told)
