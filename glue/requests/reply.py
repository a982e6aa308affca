"""The reply of one responder: an answer or an error."""

from __future__ import annotations

import reprlib
from typing import Any

from glue.errors import GlueError


class Reply:
    """The answer of one responder, or the error in its place.

    `responder` is the name and `responder_id` the id of the responder's endpoint. `error` is None for an answer.
    """

    __slots__ = ("_payload", "error", "responder", "responder_id")

    def __init__(self, payload: Any, responder: str, responder_id: str, error: GlueError | None = None) -> None:
        self._payload = payload
        self.responder = responder
        self.responder_id = responder_id
        self.error = error

    @property
    def payload(self) -> Any:
        """The answer: bytes or a JSON value. Raises `error` if there is none."""
        if self.error is not None:
            raise self.error
        return self._payload

    def __repr__(self) -> str:
        shown = f"{self.error!r}" if self.error is not None else reprlib.repr(self._payload)
        return f"<Reply from {self.responder}: {shown}>"
