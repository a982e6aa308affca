"""The rights of a client: by its token, its certificate or its address, and by the rules of the group.

A stream may stay open for days, so it asks again when tokens or rules have changed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from aiohttp import web

from glue.gateway.hosts import host_of, is_address, is_loopback
from glue.gateway.http.door import Door
from glue.gateway.http.group_rules import within_group
from glue.gateway.http.limits import MOUNTED
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.tokens import Rights


class Permit:
    """The rights of a client whose request stays open."""

    def __init__(self, door: Door, rights: Rights, request: web.Request, patterns: Sequence[str]) -> None:
        """`patterns` are what the client reads; it has been checked that it may."""
        self.rights = rights
        self._door = door
        self._request = request
        self._patterns = [*patterns]
        self._revision = door.rights_revision
        self._refusal = ""

    def add(self, pattern: str) -> None:
        """The client reads one more pattern."""
        self._patterns.append(pattern)

    def refusal(self) -> str:
        """Return why the client may read no longer; "" if it may. Cheap while tokens and rules stay as they are."""
        if self._refusal or self._revision == self._door.rights_revision:
            return self._refusal
        self._revision = self._door.rights_revision
        try:
            self.rights = rights_of(self._door, self._request)
        except ProblemError as error:
            self._refusal = error.detail
        else:
            lost = [pattern for pattern in self._patterns if not self.rights.may_subscribe(pattern)]
            if lost:
                rule = self.rights.refused_by("subscribe", lost[0])
                self._refusal = f"{self.rights} may no longer read {lost[0]!r:.200}: {rule}"
        if self._refusal:
            self._door.statistics["streams ended: the right to read was taken away"] += 1
            tell_refusal(self._door, self._request, self._refusal)
        return self._refusal


def rights_of(door: Door, request: web.Request) -> Rights:
    """Return the rights of a client. Raises ProblemError for a missing or wrong token."""
    token = None
    authorization = request.headers.get("authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _unauthorized("Authorization: expected Bearer and a token")
        token = token.strip()
    certificate = ""
    transport = request.transport
    if transport is not None and (found := transport.get_extra_info("peercert")):
        certificate = next((v for part in found.get("subject", ()) for k, v in part if k == "commonName"), "")
    is_local = is_loopback(request.remote or "") and _is_own_name(request.host) and MOUNTED not in request.headers
    rights = door.access.rights(token, certificate, is_local)
    if rights is None:
        door.statistics["requests refused: no token, or a wrong one"] += 1
        raise _unauthorized("this token is not known" if token else "a token is needed: Authorization: Bearer …")
    return within_group(rights, door.rules)


def tell_refusal(door: Door, request: web.Request, reason: str) -> None:
    """Log why a client was refused; see `Refusals`."""
    door.refusals.tell(time.monotonic(), f"{request.remote or 'local'}: {reason}")


def _is_own_name(host: str) -> bool:
    """Whether a Host header is not that of a page that was pointed here (DNS rebinding): an address, or localhost."""
    name = host_of(f"//{host}")
    return is_address(name) or is_loopback(name)


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(401, detail, {"www-authenticate": 'Bearer realm="glue"'})
