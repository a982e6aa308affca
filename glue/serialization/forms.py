"""Headers that need no second look: those that differ from one already checked in nothing but digits.

With each digit made a zero, the text of a header is its *form*. Two headers of one form have the same keys and lists,
the same strings but for the digits in them, and integers of the same number of digits in the same places. So of what a
checked header proves, only what depends on the digits themselves is left to be checked in the next of its form.
"""

from __future__ import annotations

from glue.contract import Header

_ZEROED = bytes.maketrans(b"123456789", b"000000000")
_LIMIT = 10**15  # integers of so few digits are exact in every JSON reader, whatever their digits are
_PLAIN = {int, str, type(None)}


def form_of(head: bytes) -> bytes:
    """The form of a header."""
    return head.translate(_ZEROED)


class Forms:
    """The forms of headers that were found to be well-formed; cleared when full."""

    __slots__ = ("_known",)
    LIMIT = 4096  # of some 300 bytes: 1.2 MB. A peer is heard in a dozen at a time, as its numbers grow

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def of(self, head: bytes) -> bytes | None:
        """The form of this header, always the same object, if it is known."""
        return self._known.get(form_of(head))

    def learn(self, head: bytes, header: Header, key: str) -> bytes | None:
        """The form of a header that is well-formed, from now on known; None for one that tells too little.

        That is one with signs or escapes, in which digits are not just digits, with lists within lists, or with longer
        integers; but the entry `key` may hold any.
        """
        if b"\\" in head or b"-" in head:
            return None
        for name, entry in header.items():
            for value in entry:
                if value.__class__ not in _PLAIN or (value.__class__ is int and name != key and value >= _LIMIT):
                    return None
        if len(self._known) >= self.LIMIT:
            self._known.clear()
        form = form_of(head)
        return self._known.setdefault(form, form)
