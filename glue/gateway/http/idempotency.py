"""Keys of requests that may come again: the second one gets the answer of the first, for a day, also after a restart.

Each answered key is a line in a file that is only appended to, and written anew when half of it is old. A request with
a key in use waits for the first answer. A client that goes does not end the work of its request: it may well ask
again, and must not publish twice. Between the moment that the log has a message and the moment that the line is
written, a crash lets the message be published twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any, Final

import orjson

from glue.gateway.http.problems import ProblemError

KEY_LIMIT: Final = 255
"""Characters of a key."""
OTHER: Final = "this Idempotency-Key was used for another request; use a new one"

Answer = tuple[int, dict[str, Any]]


class Idempotency:
    """Answers by key, bounded in number and age; the oldest go first."""

    def __init__(self, most: int, seconds: float, path: Path | None, unix_time: Callable[[], float]) -> None:
        """Read what is stored. Raises OSError."""
        self._most, self._seconds, self._path = most, seconds, path
        self._unix_time = unix_time
        self._known: OrderedDict[str, tuple[float, str, Answer]] = OrderedDict()
        self._at_work: dict[str, tuple[str, asyncio.Task[Answer]]] = {}
        self._lines = 0
        self._file: IO[bytes] | None = None
        if path is not None:
            self._load(path)
            self._rewrite()

    async def once(self, owner: str, key: str | None, body: bytes, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer stored for a key, or do the work of the request.

        Raises ProblemError for a key that another request has, and what the work raises, which is not remembered.
        """
        if key is None:
            return await work()
        if not 0 < len(key) <= KEY_LIMIT:
            raise ProblemError(400, f"Idempotency-Key: expected 1 to {KEY_LIMIT} characters")
        place = hashlib.sha256(f"{owner}\n{key}".encode(errors="surrogatepass")).hexdigest()[:32]
        print_ = hashlib.sha256(body).hexdigest()[:16]
        while (other := self._at_work.get(place)) is not None:
            if other[0] != print_:
                raise ProblemError(422, OTHER)
            await asyncio.wait([other[1]])  # if it failed, this one does the work
        self._forget_old()
        if (known := self._known.get(place)) is not None:
            if known[1] != print_:
                raise ProblemError(422, OTHER)
            return known[2]
        task = asyncio.create_task(self._work(place, print_, work), name="glue http request with a key")
        self._at_work[place] = print_, task
        return await asyncio.shield(task)

    async def _work(self, place: str, print_: str, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do the work of a request, and remember the answer."""
        try:
            answer = await work()
            self._remember(place, print_, answer)
            return answer
        finally:
            del self._at_work[place]

    def _remember(self, place: str, print_: str, answer: Answer) -> None:
        at = self._unix_time()
        self._known[place] = (at, print_, answer)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        if self._file is not None:
            self._file.write(orjson.dumps([place, at, print_, answer]) + b"\n")
            self._file.flush()
            self._lines += 1
            if self._lines > 2 * len(self._known) + 1000:
                self._rewrite()

    def _forget_old(self) -> None:
        oldest = self._unix_time() - self._seconds
        while self._known and next(iter(self._known.values()))[0] < oldest:
            self._known.popitem(last=False)

    def _load(self, path: Path) -> None:
        if not path.exists():
            return
        for line in path.read_bytes().splitlines():
            try:
                place, at, print_, (status, document) = orjson.loads(line)
                self._known[str(place)] = (float(at), str(print_), (int(status), dict(document)))
            except (ValueError, TypeError):
                continue  # the end of a line that a crash cut off
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        self._forget_old()

    def _rewrite(self) -> None:
        assert self._path is not None
        self._close_file()
        new = self._path.with_name(self._path.name + ".new")
        with new.open("wb") as file:
            for place, (at, print_, answer) in self._known.items():
                file.write(orjson.dumps([place, at, print_, answer]) + b"\n")
        new.replace(self._path)
        self._file = self._path.open("ab")
        self._lines = len(self._known)

    def close(self) -> None:
        """End what is at work, and close the file."""
        for _, task in self._at_work.values():
            task.cancel()
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
