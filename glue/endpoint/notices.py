"""Warnings to the operator about endpoints that this endpoint cannot talk to: each once, in plain words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from glue.contract import Address
from glue.contract.sealed import (
    ANOTHER_KEY,
    FORBIDDEN,
    NO_IDENTITY,
    OWN_END,
    OWN_REVOKED,
    PLAIN,
    RETIRED,
    SEALED,
    TWO_POLICIES,
)

WORDS: Final = {
    PLAIN: "an endpoint without a key, at {address}, uses network id {network}; this endpoint has a key, so neither "
    "hears the other. Give it the same key file (key=, GLUE_KEY or --key), or another network id",
    SEALED: "an endpoint with a key, at {address}, uses network id {network}; this endpoint has none, so neither hears "
    "the other. Give this one the same key file (key=, GLUE_KEY or --key), or another network id",
    ANOTHER_KEY: "an endpoint at {address} uses network id {network} with another key, so neither hears the other. "
    "Give both the same key file, or different network ids",
    RETIRED: "an endpoint at {address} seals with an epoch of the key that is over: it missed a rotation. "
    "Copy the present key file to it",
    NO_IDENTITY: "an endpoint at {address} has the key of network id {network}, but is refused: {detail}. "
    "Give it an identity that the authority has admitted (glue key identity, glue key admit)",
    OWN_END: "the certificate of this endpoint, {detail}, is over, so the others refuse it. Have the authority admit "
    "it again (glue key admit), and restart it",
    OWN_REVOKED: "the key of the group says that {detail}, this endpoint, is revoked, so the others refuse it. Have "
    "the authority admit an identity of another name (glue key identity, glue key admit)",
    FORBIDDEN: "refused by the rules: {detail}",
    TWO_POLICIES: "the authority has signed different rules as version {detail}; all endpoints use the same of them. "
    "Sign a newer version (glue key rules)",
}
"""The text for each cause."""

TOLD: Final = 64
"""Notices in the life of an endpoint at most: a forger of addresses cannot fill a log."""


class Notices:
    """Tells each cause once for each host, through `log`."""

    def __init__(self, network_id: int, log: Callable[[str], None]) -> None:
        self._network_id = network_id
        self._log = log
        self._told: set[tuple[str, str]] = set()

    def tell(self, cause: str, address: Address | None) -> None:
        """Tell of an endpoint at this address, if that is new."""
        told = cause, str(address[0]) if address else ""
        if told in self._told or len(self._told) >= TOLD:
            return
        self._told.add(told)
        where = f"{address[0]}:{address[1]}" if address else "an unknown address"
        cause, _, detail = cause.partition(": ")
        self._log(WORDS[cause].format(address=where, network=self._network_id, detail=detail))
