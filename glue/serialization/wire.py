"""Serialization's entry in the header, key "glue": the sender of a datagram, and its number."""

from __future__ import annotations

from glue.contract.header import Field, HeaderEntry, Text

KEY = "glue"
VERSION = 1
ID_DIGITS = 16
MAX_NETWORK = 65_535
MAX_COUNTER = 10**14 - 1  # three years of a million datagrams a second

GLUE = HeaderEntry(
    KEY,
    None,
    Field("version", most=VERSION, default=VERSION),
    Field("network", most=MAX_NETWORK),
    Text("sender", ID_DIGITS),
    Field("incarnation"),
    Field("counter", most=MAX_COUNTER),
)
"""`counter` numbers every datagram of the sender's life, which `incarnation` tells from others of the same `sender`."""
