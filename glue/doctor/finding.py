"""A finding: one sentence that says what is wrong, and one that says how to cure it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FAULT, WARNING, NOTE = "fault", "warning", "note"
LEVELS = FAULT, WARNING, NOTE
"""A fault keeps messages away; a warning may; a note only explains. A healthy network has notes at most."""


@dataclass(frozen=True)
class Finding:
    """A rule's finding."""

    rule: str
    level: str
    verdict: str
    cure: str
    details: dict[str, Any] = field(default_factory=dict)
