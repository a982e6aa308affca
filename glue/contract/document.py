"""A payload that is a JSON document already."""

from __future__ import annotations


class Document(bytes):
    """An encoded JSON document, which is published as it is."""

    __slots__ = ()
