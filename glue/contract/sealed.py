"""The open part of a sealed datagram, as far as layers other than security need it.

A sealed datagram begins with a byte that no JSON text begins with. Endpoints without a key recognize it by this byte.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from glue.contract.items import Address

FORMATS: Final = range(0xE1, 0xED)
"""The first byte of a sealed datagram: the cipher, the kind of key, the place in a block. See docs/wire-format.md."""

HEAD: Final = Struct(">BBH16sI")
"""Format, key id, network id, the 16 random bytes (salt) of the sender's life, and the number of the datagram."""

PLAIN: Final = "plain"
SEALED: Final = "sealed"
ANOTHER_KEY: Final = "another key"
RETIRED: Final = "retired"
"""Why an endpoint cannot talk to another: this one has a key; or the other one; or both; or the other's is outdated."""

NO_IDENTITY: Final = "no identity"
"""The beginning of a cause: another endpoint has not proved who it is."""

FORBIDDEN: Final = "forbidden"
"""The beginning of a cause: the rules forbid what another endpoint wants."""

OWN_END: Final = "own end"
"""The beginning of a cause: the certificate of this endpoint is over."""

OWN_REVOKED: Final = "own name revoked"
"""The beginning of a cause: the key of the group says that this endpoint is no member any more."""

TWO_POLICIES: Final = "two policies"
"""The beginning of a cause: the authority has signed different rules under one version."""

Tell = Callable[[str, Address | None], None]
"""Takes one of these causes, and the address of the other endpoint."""


def sealed_network(data: bytes | memoryview) -> int | None:
    """Return the network id in the open part of a sealed datagram; None if the datagram is not sealed."""
    if len(data) < HEAD.size or data[0] not in FORMATS:
        return None
    network: int = HEAD.unpack_from(data)[2]
    return network
