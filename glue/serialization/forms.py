"""Forms of headers: a header that differs only in digits from a checked header needs no full check.

The *form* of a header is its text with each digit replaced by a zero. Two headers of one form have the same keys, lists
and strings, except for digits in strings. Their integers have the same places and numbers of digits. Therefore the next
header of a known form is checked only for the values of its digits.
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
        """The form of this header, always the same object; None if unknown."""
        return self._known.get(form_of(head))

    def learn(self, head: bytes, header: Header, key: str) -> bytes | None:
        """Remember and return the form of a well-formed header; None for one that has to be checked whole each time.

        Not remembered are headers with signs or escapes, or with values other than short integers, strings and null.
        The entry `key` may hold long integers.
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
