"""Minutes of one part of glue, whose inputs a seed draws: what it was given, and what it answered.

The first lines stand in the record as they were, and each hundred of the others is a hash. The whole is shown by
`python -m tests.recorded.minutes NAME`.
"""

from __future__ import annotations

import sys
from zlib import crc32

BEGIN, BLOCK = 30, 100


class Minutes:
    """Lines about one part."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, what: str, *answers: object) -> None:
        """Write down what was done, and what came of it."""
        self.lines.append(" ".join([what, *(f"{answer}" for answer in answers)]))

    def text(self) -> str:
        """Return the record."""
        rest = self.lines[BEGIN:]
        blocks = [rest[at : at + BLOCK] for at in range(0, len(rest), BLOCK)]
        hashes = [f"{len(block)} lines, {crc32(repr(block).encode()):08x}" for block in blocks]
        return "\n".join([line[:240] for line in self.lines[:BEGIN]] + hashes) + "\n"


if __name__ == "__main__":
    from tests.recorded.test_recorded import RUNS

    BEGIN = sys.maxsize
    import tests.recorded.minutes as shared

    shared.BEGIN = sys.maxsize
    print(RUNS[sys.argv[1]]())
