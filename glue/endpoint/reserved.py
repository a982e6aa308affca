"""Topics that a program may publish to: well-formed, and not used by glue itself."""

from __future__ import annotations

from glue.errors import TopicError
from glue.topics import check_topic

RESERVED = "$glue"  # first level of topics that layers use among themselves; no wildcard matches it
WILL_OF = f"{RESERVED}/will-of/"  # the interest of an endpoint with wills, before its id
KNOWN_TOPICS = 65_536  # topic names remembered as checked; cleared when full: 16 MB with
KNOWN_LENGTH = 256  # characters of a name that is remembered


def check_not_reserved(name: str) -> None:
    """Raise TopicError for a topic or pattern among those that glue itself uses."""
    if isinstance(name, str) and (name == RESERVED or name.startswith(f"{RESERVED}/")):
        raise TopicError(f"{name!r:.80}: topics under {RESERVED!r} are for glue itself; use another first level")


def check_name(topic: str, known: set[str]) -> None:
    """Raise TopicError unless a program may publish to a topic; remember it in `known` if it may."""
    check_topic(topic)
    check_not_reserved(topic)
    if len(topic) <= KNOWN_LENGTH:
        if len(known) >= KNOWN_TOPICS:
            known.clear()
        known.add(topic)
