"""Where a stream goes on, as the text that a client says when it comes back."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from glue.contract.hashing import blake2s

LOGGED: Final = "log"
"""In place of a ring: the place of a message that was read from the log."""
FORM: Final = re.compile(r"(?a:([\w-]{1,64})\.(\d{1,18})(?:\.(\w{1,64})\.(\d{1,18})\.(\w{0,16})\.(\d{1,18}))?)")


class Token(NamedTuple):
    """A place in a ring, and what helps where that ring is gone: a place in a log, and the last message.

    * `ring`, `next`: the offset after the last message.
    * `log`, `place`: an offset at or below that of each message that the client has not got.
    * `stream`, `sequence`: which message the client has got last.
    """

    ring: str
    next: int
    log: str = ""
    place: int = 0
    stream: str = ""
    sequence: int = 0

    @property
    def text(self) -> str:
        """The text for the client."""
        log = f".{self.log}.{self.place}.{self.stream}.{self.sequence}" if self.log else ""
        return f"{self.ring}.{self.next}{log}"


def token_of(text: str) -> Token | None:
    """Return the token that a client says; None for anything else."""
    found = FORM.fullmatch(text)
    if found is None:
        return None
    ring, after, log, place, stream, sequence = found.groups()
    return Token(ring, int(after)) if log is None else Token(
        ring, int(after), log, int(place), stream, int(sequence)
    )  # fmt: skip


def stream_key(publisher: str, life: int, topic: str) -> str:
    """Return what tells the messages of a topic from one life of one publisher: 16 hexadecimal digits."""
    return blake2s(f"{publisher}/{life}/{topic}".encode(errors="surrogatepass"), digest_size=8).hexdigest()
