"""Fragmentation's entry in the header, key "fragment": which part of which message a frame holds."""

from __future__ import annotations

from glue.contract.header import Field, HeaderEntry

KEY = "fragment"
MESSAGE_NUMBERS = 10**6
"""Numbers after which they start again; half of them are more than there can be messages of at least two frames while
one of best effort is under assembly (that would be 40 MB/s of the smallest), and they stay short in each header."""

FRAGMENT = HeaderEntry(
    KEY,
    None,
    Field("message", most=MESSAGE_NUMBERS - 1),
    Field("size", most=65_535),
    Field("total", most=10**13 - 1),
    Field("index", most=10**9 - 1),
)
"""`message` numbers the fragmented messages of this endpoint (even: reliable, odd: best effort), `size` is that of all
fragments but the last, `total` that of the whole message, up to 2**40 in the settings, and `index` the fragment's
place, from 0. All in bytes."""
