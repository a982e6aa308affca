"""The journal of positions, a file beside the log of a keeper.

Each entry is a JSON object that changes the state of a reader:

    {"id": name, "state": {…}}                    the whole state, as in a snapshot; null: the reader is forgotten
    {"id": name, "next": n, "done": [[a, b], …]}  done below n, and from a to b - 1
    {"id": name, "reach": n}                      nothing from offset n on was given to a member

Entries wait until `sync` makes them durable. When the file has grown to several times the states, a snapshot
replaces it. An entry that a crash cut short is left out. So is everything after a damaged one: positions are older
then, and messages come again, but none is left out.
"""

from __future__ import annotations

from typing import Any

import orjson

from glue.consumers.position import Position
from glue.errors import CorruptStorageError, StorageError, StorageFullError
from glue.storage.directory import Directory
from glue.storage.framing import END, HEADER, scan
from glue.storage.framing import record as framed
from glue.storage.replacing import NO_ROOM, full, replace_file

NAME = "consumers"
"""The file's name."""
SLACK = 256 << 10
"""Bytes that the file may grow beyond four times its snapshot: some thousand commits."""


class Stored:
    """The state of one reader.

    * `position`: what it is done with.
    * `reach`: messages from this offset on were given to no one yet.
    * `about`: anything else that its owner wants to know, a JSON object.
    """

    __slots__ = ("about", "position", "reach")

    def __init__(self, position: Position, reach: int = 0, about: dict[str, Any] | None = None) -> None:
        self.position = position
        self.reach = reach
        self.about = about or {}

    @property
    def value(self) -> dict[str, Any]:
        """As a JSON value."""
        return {"position": self.position.encode(), "reach": self.reach, "about": self.about}


class Positions:
    """Positions of readers by name. `failure` tells why nothing is stored any more, "" if all is well."""

    def __init__(self, directory: Directory, log_id: str) -> None:
        """`log_id`: positions in another log are void. Raises StorageError."""
        self.failure = ""
        self.damaged = False
        self._directory = directory
        self._log_id = log_id
        self._waiting: list[bytes] = []
        self._size = self._snapshot_size = 0
        self._must_replace = True
        self.stored: dict[str, Stored] = {}
        try:
            data = directory.read(NAME)
            if data is not None:
                self._load(data)
            self._replace()
        except OSError as error:
            raise StorageError(f"the positions of consumers cannot be opened: {error}") from error

    # --------------------------------------------------------------------------------------------- changes

    def put(self, id: str, stored: Stored) -> None:
        """Set the whole state of a reader."""
        self.stored[id] = stored
        self._add({"id": id, "state": stored.value})

    def forget(self, id: str) -> None:
        """Forget a reader."""
        if self.stored.pop(id, None) is not None:
            self._add({"id": id, "state": None})

    def done(self, id: str, first: int, stop: int) -> int:
        """A reader is done with offsets; returns how many of them are new."""
        position = self.stored[id].position
        fresh = position.done(first, stop)
        if fresh:
            self._add({"id": id, "next": position.next, "done": [[first, stop]] if stop > position.next else []})
        return fresh

    def reach(self, id: str, offset: int) -> None:
        """Messages below this offset may be given away once this is synced."""
        self.stored[id].reach = offset
        self._add({"id": id, "reach": offset})

    def _add(self, entry: dict[str, Any]) -> None:
        self._waiting.append(framed(orjson.dumps(entry)))

    @property
    def is_dirty(self) -> bool:
        """Whether anything is to be synced."""
        return bool(self._waiting)

    def sync(self) -> None:
        """Make all changes durable. Raises StorageError; StorageFullError if another try may find room.

        After any other error nothing is stored any more, and no sync is tried again.
        """
        if self.failure:
            raise StorageError(self.failure)
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        try:
            if self._must_replace or self._size + len(data) > 4 * self._snapshot_size + SLACK:
                self._replace()
                return
            self._append(data)
            self._directory.sync(NAME)
        except StorageFullError:
            raise
        except OSError as error:
            self.failure = f"the positions of consumers cannot be stored: {error}"
            raise StorageError(self.failure) from error
        self._size += len(data)
        self._waiting.clear()

    def _append(self, data: bytes) -> None:
        """Append, all or nothing if the disk is full."""
        try:
            self._directory.append(NAME, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._directory.truncate(NAME, self._size)
            raise full(error, "this keeper") from error

    def _replace(self) -> None:
        entries: list[Any] = [{"log": self._log_id}]
        entries += [{"id": id, "state": stored.value} for id, stored in self.stored.items()]
        data = b"".join(framed(orjson.dumps(entry)) for entry in entries)
        replace_file(self._directory, NAME, data)
        self._size = self._snapshot_size = len(data)
        self._waiting.clear()
        self._must_replace = False

    # --------------------------------------------------------------------------------------------- loading

    def _load(self, data: bytes) -> None:
        for number, payload in enumerate(self._entries(data)):
            try:
                entry = orjson.loads(payload)
                if number == 0 and entry.get("log") != self._log_id:
                    return
                if number:
                    self._take(entry)
            except (KeyError, ValueError, TypeError, AttributeError):
                self.damaged = True
                return

    def _take(self, entry: dict[str, Any]) -> None:
        id = entry["id"]
        if "state" in entry:
            state = entry["state"]
            if state is None:
                self.stored.pop(id, None)
            else:
                self.stored[id] = Stored(Position.decode(state["position"]), int(state["reach"]), state["about"])
        elif "reach" in entry:
            self.stored[id].reach = int(entry["reach"])
        else:
            position = self.stored[id].position
            position.skip_to(int(entry["next"]))
            for first, stop in entry["done"]:
                position.done(first, stop)

    def _entries(self, data: bytes) -> list[bytes]:
        """The payloads of the file, up to what a crash cut short, or what is damaged."""
        try:
            return [bytes(payload) for payload in scan(data)[0]]
        except CorruptStorageError:
            self.damaged = True
        found, start = [], 0
        while start + HEADER.size <= len(data):
            end = start + HEADER.size + HEADER.unpack_from(data, start)[0] + len(END)
            try:
                payloads, _ = scan(data[start:end])
            except CorruptStorageError:
                break
            if not payloads:
                break
            found.append(bytes(payloads[0]))
            start = end
        return found
