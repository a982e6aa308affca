"""Rights of clients: bearer tokens in a file, stored as hashes, each with the topics to publish and read.

The file has a JSON object a line: `{"name", "hash", "publish": [PATTERN], "subscribe": [PATTERN], "admin": false}`.
A token is 32 random bytes, so a plain SHA-256 of it cannot be guessed back. An entry without a hash is for the client
certificate of this name. What no entry allows is refused.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from glue.contract.matching import covers
from glue.errors import ConfigurationError
from glue.topics import check_pattern

TOKEN_PREFIX: Final = "glue_"
NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
MODEL: Final = "$model/"
"""A key of a model is treated as the topic `$model/MODEL/KEY`, so that patterns cover it, too."""

logger = logging.getLogger("glue.http")


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a client. One pattern here must cover a pattern of the client as a whole."""

    name: str = ""
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    admin: bool = False
    """Whether it may see and change the subscriptions of all clients, and the endpoints of the network."""

    def may_publish(self, topic: str) -> bool:
        """Whether the client may publish to a topic, or ask its responders."""
        return self.admin or any(covers(pattern, topic) for pattern in self.publish)

    def may_subscribe(self, pattern: str) -> bool:
        """Whether the client may read all topics of a pattern."""
        return self.admin or any(covers(own, pattern) for own in self.subscribe)

    def refused_by(self, action: str, pattern: str) -> str:
        """Return why the client may not "publish" or "subscribe", in words; asked after a refusal."""
        return f"no {action} pattern of {'its token' if self.name else 'clients without a token'} covers it"

    def __str__(self) -> str:
        return f"client {self.name!r}" if self.name else "a client without a token"


EVERYTHING: Final = Rights("", ("#",), ("#",), True)


def hashed(token: str) -> str:
    """Return a token as it is stored."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def add_token(
    path: Path, name: str, publish: Sequence[str], subscribe: Sequence[str], *,
    admin: bool = False, for_certificate: bool = False,
) -> str:  # fmt: skip
    """Add an entry to the file, or replace the one of this name; returns the token, which is nowhere else.

    Raises ConfigurationError for a wrong name, TopicError for a wrong pattern, OSError.
    """
    if not NAME.fullmatch(name):
        raise ConfigurationError(f"name {name!r:.80}: expected 1 to 64 letters, digits and the signs . _ - @")
    for pattern in (*publish, *subscribe):
        check_pattern(pattern)
    token = "" if for_certificate else TOKEN_PREFIX + secrets.token_urlsafe(32)
    entry = {
        "name": name, "hash": hashed(token) if token else "", "publish": list(publish), "subscribe": list(subscribe),
        "admin": admin,
    }  # fmt: skip
    _write(path, [*_others(path, name), entry])
    return token


def remove_token(path: Path, name: str) -> None:
    """Remove the entry of a name. Raises ConfigurationError if there is none, OSError."""
    others = _others(path, name)
    if not path.exists() or len(others) == len(read_entries(path)):
        raise ConfigurationError(f"{path}: no token {name!r}")
    _write(path, others)


def _others(path: Path, name: str) -> list[dict[str, Any]]:
    return [entry for entry in (read_entries(path) if path.exists() else []) if entry["name"] != name]


def _write(path: Path, entries: Sequence[dict[str, Any]]) -> None:
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    os.replace(new, path)


def read_entries(path: Path) -> list[dict[str, Any]]:
    """Read the file. Raises ConfigurationError, with the number of a line that is not understood."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}; `glue http token new` makes it") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = orjson.loads(line)
            rights_of(entry)
            if not isinstance(entry["hash"], str):
                raise TypeError("no hash")
            found.append(entry)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{path}, line {number}: {error}; `glue http token new` writes such lines"
            ) from None
    return found


def rights_of(entry: dict[str, Any]) -> Rights:
    """Return the rights of an entry. Raises ValueError, KeyError, TypeError."""
    patterns = []
    for name in ("publish", "subscribe"):
        if not isinstance(entry[name], list):
            raise TypeError(f"{name} is no list")
        for pattern in entry[name]:
            check_pattern(pattern)
        patterns.append(tuple(entry[name]))
    publish, subscribe = patterns
    return Rights(str(entry["name"]), publish, subscribe, bool(entry.get("admin", False)))


class Access:
    """Decides about requests by their token or certificate."""

    def __init__(
        self, path: Path | None = None, *, anonymous: Rights | None = None, local: Rights | None = None
    ) -> None:
        """`anonymous` is for clients without a token, `local` for those on this machine. Raises ConfigurationError."""
        self._path = path
        self._anonymous = anonymous
        self._local = local
        self._by_hash: dict[str, Rights] = {}
        self._by_name: dict[str, Rights] = {}
        self._stamp: object = None
        self.revision = 0
        """Counts how often the file was read."""
        if path is not None:
            self._read()

    def check(self) -> None:
        """Read the file again if it has changed; a wrong file is logged, and what was read before stays."""
        if self._path is None:
            return
        try:
            self._read()
        except ConfigurationError as error:
            logger.error("%s; what was read before stays valid", error)

    def _read(self) -> None:
        assert self._path is not None
        try:
            status = self._path.stat()
            stamp: object = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            stamp = "missing"
        if stamp == self._stamp:
            return
        self._stamp = stamp
        entries = read_entries(self._path)
        self._by_hash = {entry["hash"]: rights_of(entry) for entry in entries if entry["hash"]}
        self._by_name = {entry["name"]: rights_of(entry) for entry in entries if not entry["hash"]}
        self.revision += 1

    def rights(self, token: str | None, certificate: str = "", is_local: bool = False) -> Rights | None:
        """Return what a client may do; None if it has to bring a token that is known."""
        if token is not None:
            return self._by_hash.get(hashed(token))
        if certificate and (found := self._by_name.get(certificate)) is not None:
            return found
        if is_local and self._local is not None:
            return self._local
        return self._anonymous

    def describe(self) -> str:
        """Describe in a few words which clients are let in."""
        found = [] if self._path is None else [f"clients with a token of {self._path}"]
        if self._anonymous is not None:
            found.append("everybody")
        elif self._local is not None:
            found.append("clients of this machine (--anonymous or --tokens lets others in)")
        return "open to " + (" and ".join(found) or "nobody")
