"""The result of a command, which every replica computes alike."""

from __future__ import annotations

OK, REFUSED, EXPIRED = "ok", "refused", "expired"
"""Codes: committed with effect; committed without effect, as a condition failed; the session had ended before."""


class Result:
    """The result of one command.

    With code OK, `index` is the log index at which the command took effect: the revision of the changed keys, or the
    fencing token of a lock. For an opened session it is the session's number. With another `code`, `detail` tells why.
    """

    __slots__ = ("code", "detail", "index")

    def __init__(self, code: str, index: int, detail: str = "") -> None:
        self.code = code
        self.index = index
        self.detail = detail

    def as_list(self) -> list[str | int]:
        """Return the fields, for the wire and for snapshots."""
        return [self.code, self.index, self.detail]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.as_list() == other.as_list()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Result {self.code} at {self.index}{f': {self.detail}' if self.detail else ''}>"
