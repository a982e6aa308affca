"""Messages between members of consumers and their homes: a JSON object, a line feed, and for shares a bundle.

A member asks keepers on `$glue/consumer/ask/KEEPER`:

* `where`: is it the home of this consumer? `join`: take a member in, and be the home if there is none.
* `here`: the member is alive, and has got the shares up to a number. `leave`: it ends.
* `done`: it is done with messages, `[share, first, last]` each, counted from 1; `failed`: its handler raised.
* `list`, `seek`, `forget`: what `glue consumers` asks. `known`: another keeper is the home.

A keeper tells on `$glue/consumer/tell/ENDPOINT/LIFE`:

* `where`: the home that it knows, if any. `joined`: the member is taken in. `here`: the home is alive.
* `fenced`: it is no member any more.
* `shares`: messages, as many groups of a bundle as there are shares. A share is
  `[number, again, publisher's id, name, life]`.
* `list`: the consumers at this home. `sought`: what became of `seek` or `forget`.

Each names the consumer by `name` and `pattern`. `epoch` grows whenever a home opens its log or a position is moved, and
what carries an older one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from glue.contract.heads import MalformedError, integer, rows, split
from glue.errors import TopicError
from glue.topics import check_pattern
from glue.topics.bundle import MalformedBundleError, MessageGroup, body_of, decode

PREFIX: Final = "$glue/consumer/"
NAME_LIMIT: Final = 200
"""Characters of a consumer's name."""
MEMBER_LIMIT: Final = 100
"""Characters of a member's id."""
ENTRIES: Final = 4096
"""Entries of a list in a message at most."""
HEAD_LIMIT: Final = 1 << 20
"""Bytes of the JSON object at most: ENTRIES shares with names of 200 bytes."""

Done = tuple[int, int, int]
"""A share, and the first and the last message of it."""


def ask_topic(keeper: str) -> str:
    """The topic of what a keeper is asked."""
    return f"{PREFIX}ask/{keeper}"


def tell_topic(endpoint_id: str, incarnation: int) -> str:
    """The topic of what keepers tell one life of an endpoint."""
    return f"{PREFIX}tell/{endpoint_id}/{incarnation}"


def check_name(name: object) -> bool:
    """Whether it can be the name of a consumer: 1 to 200 characters without / + # and NUL."""
    return isinstance(name, str) and 1 <= len(name) <= NAME_LIMIT and {"/", "+", "#", "\0"}.isdisjoint(name)


def key_of(name: str, pattern: str) -> str:
    """The text under which a consumer is stored; the same name with another pattern is another consumer."""
    return f"{name}/{pattern}"


def encode(head: dict[str, Any], groups: Sequence[MessageGroup] = ()) -> bytes:
    """A message as a payload."""
    body = body_of(groups) if groups else ()
    return b"".join([orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE), *body])


def parse(payload: Any) -> tuple[dict[str, Any], list[MessageGroup]]:
    """The head and the groups of a payload. Raises MalformedError."""
    head, rest = split(payload, HEAD_LIMIT)
    try:
        groups = decode(rest) if rest else []
    except MalformedBundleError:
        raise MalformedError("no bundle") from None
    return head, groups


def consumer_of(head: dict[str, Any]) -> tuple[str, str]:
    """The name and the pattern of a message. Raises MalformedError."""
    name, pattern = head.get("name"), head.get("pattern")
    if not check_name(name):
        raise MalformedError("name")
    try:
        check_pattern(pattern)  # type: ignore[arg-type]  # refuses what is not a string, too
    except TopicError:
        raise MalformedError("pattern") from None
    return str(name), str(pattern)


class Ask(NamedTuple):
    """What an endpoint asks the home of a consumer: `head` tells what; `now` is in monotonic seconds."""

    now: float
    unix_time: float
    peer: str
    life: int
    head: dict[str, Any]
    name: str
    pattern: str
    id: str
    """The text under which the consumer is stored."""

    @property
    def address(self) -> tuple[str, int]:
        """Where the answer goes: the endpoint and its life."""
        return self.peer, self.life


def member_of(head: dict[str, Any]) -> str:
    """The member's id. Raises MalformedError."""
    return text(head, "member", MEMBER_LIMIT)


def text(head: dict[str, Any], key: str, limit: int = 1000) -> str:
    """A text that is not empty. Raises MalformedError."""
    value = head.get(key)
    if not isinstance(value, str) or not 1 <= len(value) <= limit:
        raise MalformedError(key)
    return value


def done_entries(head: dict[str, Any], key: str) -> list[Done]:
    """Decode ranges of messages. Raises MalformedError."""
    found = []
    for one in rows(head.get(key, []), 3, ENTRIES):
        share, first, last = (integer(value, 1) for value in one)
        if first > last:
            raise MalformedError(key)
        found.append((share, first, last))
    return found
