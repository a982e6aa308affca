"""Fragmentation's entry in the header, key "fragment": the message and place of a fragment."""

from __future__ import annotations

from glue.contract.header import Field, HeaderEntry

KEY = "fragment"
MESSAGE_NUMBERS = 10**6
"""The count of message numbers, after which they start again: a million keeps the header short.

Half of the numbers are for best effort. To use these up while one message is under assembly takes 40 MB/s of messages
with two small frames.
"""

FRAGMENT = HeaderEntry(
    KEY,
    None,
    Field("message", most=MESSAGE_NUMBERS - 1),
    Field("size", most=65_535),
    Field("total", most=10**13 - 1),
    Field("index", most=10**9 - 1),
)
"""The fragmentation entry. Sizes are in bytes.

* `message`: the number of the fragmented message at this endpoint (even: reliable, odd: best effort).
* `size`: the size of all fragments but the last.
* `total`: the size of the whole message, up to 2**40 in the settings.
* `index`: the fragment's place, from 0.
"""
