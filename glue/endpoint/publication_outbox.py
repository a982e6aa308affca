"""The publications and requests that wait for the next turn of a stack."""

from __future__ import annotations

from threading import RLock

from glue.contract import Publication
from glue.endpoint.message import MESSAGE_COST
from glue.model import StackRequest


class PublicationOutbox:
    """Publications not yet taken by the stack. All methods may be called from any thread.

    A signal handler may call them too, even if the signal interrupted one of these methods.
    """

    __slots__ = ("_last", "_lock", "requests", "size")

    def __init__(self) -> None:
        self.renew_lock()
        self._last: Publication | None = None
        self.requests: list[StackRequest] = []
        self.size = 0

    def renew_lock(self) -> None:
        """Make the lock."""
        self._lock = RLock()

    def add(self, *publications: Publication) -> None:
        """Queue publications; merge each into its predecessor if only the payloads differ."""
        for publication in publications:
            weight = publication.size + MESSAGE_COST * len(publication.payloads)
            with self._lock:
                self.size += weight
                last = self._last
                if last is not None and _alike(last, publication) and last is self._last:  # not taken meanwhile
                    last.payloads += publication.payloads
                    if last.length != publication.length:
                        last.length = None
                else:
                    self._last = publication
                    self.requests.append(publication)

    def order(self, request: StackRequest) -> None:
        """Queue another request behind what was published so far."""
        with self._lock:
            self.requests.append(request)
            self._last = None

    def take(self) -> list[StackRequest]:
        """Everything queued so far."""
        with self._lock:
            requests, self.requests, self._last, self.size = self.requests, [], None, 0
        return requests


def _alike(one: Publication, other: Publication) -> bool:
    return (
        one.topic == other.topic
        and one.json == other.json
        and one.priority == other.priority
        and (one.options is other.options or one.options == other.options)
    )
