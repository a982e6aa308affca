"""Errors as clients get them: problem details (RFC 9457) with a reason in words."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from glue.errors import (
    ClosedError,
    ForbiddenError,
    MinorityError,
    NoResponderError,
    RefusedError,
    RemoteError,
    RequestTimeoutError,
    UnknownOutcomeError,
    WouldBlockError,
)

CONTENT_TYPE: Final = "application/problem+json"

REFUSALS: Final = frozenset({401, 403, 413, 429, 503})
"""The status of answers that refuse what was asked: for want of a right, or of room. They are logged."""

STATUS_OF: Final = (
    (NoResponderError, 404),
    (RequestTimeoutError, 504),
    (RemoteError, 502),
    (MinorityError, 503),
    (UnknownOutcomeError, 504),
    (RefusedError, 409),
    (ForbiddenError, 403),
    (WouldBlockError, 503),
    (ClosedError, 503),
    (ValueError, 400),
    (TypeError, 400),
)
"""The status of an error of glue: the first class that fits. All others are 503, since the network or a disk failed."""


class ProblemError(Exception):
    """An error that the client is told; `detail` is one or two sentences for people."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        """`more` are further members of the answer, such as the position of a mistake."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or {}
        self.more = more

    def document(self) -> dict[str, Any]:
        """Return the members of the answer."""
        return {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": self.detail, **self.more}


def problem_of(error: Exception) -> ProblemError:
    """Return what a client is told of an error of glue."""
    for kind, status in STATUS_OF:
        if isinstance(error, kind):
            return ProblemError(status, str(error))
    return ProblemError(503, str(error))
