"""What became of a command, in a form that every replica computes alike and that travels in a reply."""

from __future__ import annotations

OK, REFUSED, EXPIRED = "ok", "refused", "expired"
"""Committed with effect; committed without (its conditions did not hold); its session had ended before."""


class Result:
    """The result of one command: `code`, the log index at which it took effect, and what is to be said of it.

    `index` of an `ok` is the revision it gave to the keys it changed, of a lock its fencing token, of an opened
    session the session's number. `detail` says why it was refused.
    """

    __slots__ = ("code", "detail", "index")

    def __init__(self, code: str, index: int, detail: str = "") -> None:
        self.code = code
        self.index = index
        self.detail = detail

    def as_list(self) -> list[str | int]:
        """For the wire and for snapshots."""
        return [self.code, self.index, self.detail]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.as_list() == other.as_list()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Result {self.code} at {self.index}{f': {self.detail}' if self.detail else ''}>"
