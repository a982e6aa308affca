"""The interface to a registry of endpoint addresses.

A registry supplies addresses only. The endpoints themselves find out which peers exist and are still alive.
"""

from __future__ import annotations

from typing import Protocol

from glue.contract import Address


class Registry(Protocol):
    """Announces this endpoint's address, and tells those of others."""

    def register(self) -> None:
        """Make this endpoint known and start to look for others; returns at once."""

    def poll(self) -> tuple[list[Address], list[Address]]:
        """Addresses found, and addresses lost, since the last call; never blocks."""

    def close(self) -> None:
        """Withdraw this endpoint and stop; may take a second. Harmless when repeated."""
