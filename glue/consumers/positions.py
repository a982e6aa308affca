"""The journal of positions, a file beside the log of a keeper.

Each entry is a JSON object that changes the state of a reader:

    {"id": name, "state": {…}}                    the whole state, as in a snapshot; null: the reader is forgotten
    {"id": name, "next": n, "done": [[a, b], …]}  done below n, and from a to b - 1
    {"id": name, "reach": n}                      nothing from offset n on was given to a member

The file is a `glue.storage.journal.Journal`. After a damaged entry positions are older, and messages come again, but
none is left out.
"""

from __future__ import annotations

from typing import Any

import orjson

from glue.consumers.position import Position
from glue.errors import StorageError, StorageFullError
from glue.storage.directory import Directory
from glue.storage.journal import Journal

NAME = "consumers"
"""The file's name."""
WHAT, GROWTH = "the positions of consumers", 4


class Stored:
    """The state of one reader.

    * `position`: what it is done with.
    * `reach`: messages from this offset on were given to no one yet.
    * `about`: anything else that its owner wants to know, a JSON object.
    """

    __slots__ = ("about", "position", "reach")

    def __init__(self, position: Position, reach: int, about: dict[str, Any]) -> None:
        self.position = position
        self.reach = reach
        self.about = about

    @property
    def value(self) -> dict[str, Any]:
        """As a JSON value."""
        return {"position": self.position.encode(), "reach": self.reach, "about": self.about}


class Positions:
    """Positions of readers by name."""

    def __init__(self, directory: Directory, log_id: str) -> None:
        """`log_id`: positions in another log are void. A full disk is no error before `sync`. Raises StorageError."""
        self.stored: dict[str, Stored] = {}
        self._log_id = log_id
        self._is_wrong = False  # an entry cannot be understood
        self._journal = Journal(directory, NAME, self._snapshot, WHAT, GROWTH)
        self._load(self._journal.load())
        try:
            self._journal.replace()
        except StorageFullError:  # the old file holds the same state, until the first sync replaces it
            pass
        except OSError as error:
            raise StorageError(f"{WHAT} cannot be opened: {error}") from error

    @property
    def failure(self) -> str:
        """Why nothing is stored any more, "" if all is well."""
        return self._journal.failure

    @property
    def damaged(self) -> bool:
        """Whether entries at the end of the file were left out."""
        return self._is_wrong or self._journal.damaged

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
        self._journal.add(orjson.dumps(entry))

    @property
    def is_dirty(self) -> bool:
        """Whether anything is to be synced."""
        return self._journal.is_dirty

    def sync(self) -> None:
        """Make all changes durable. Raises StorageError; StorageFullError if another try may find room."""
        self._journal.sync()

    def _snapshot(self) -> list[bytes]:
        entries: list[Any] = [{"log": self._log_id}]
        entries += [{"id": id, "state": stored.value} for id, stored in self.stored.items()]
        return [orjson.dumps(entry) for entry in entries]

    # --------------------------------------------------------------------------------------------- loading

    def _load(self, payloads: list[bytes]) -> None:
        for number, payload in enumerate(payloads):
            try:
                entry = orjson.loads(payload)
                if number == 0 and entry.get("log") != self._log_id:
                    return
                if number:
                    self._take(entry)
            except (KeyError, ValueError, TypeError, AttributeError):
                self._is_wrong = True
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
