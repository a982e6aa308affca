"""The identity of one life of an endpoint."""

from __future__ import annotations

import socket
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from glue.contract.logs import lazy_logger
from glue.endpoint.sealing import proved_name, secrets_of
from glue.model.names import id_of
from glue.settings import Settings
from glue.stack import Identity

if TYPE_CHECKING:
    from glue.contract import Address
    from glue.endpoint.notices import Notices

logger = lazy_logger("glue")


def identity_of(
    settings: Settings, random: Random, started_at: float, entropy: Callable[[int], bytes] | None
) -> Identity:
    """Name, id, incarnation and secrets of a life that starts at this time of the wall clock (Unix seconds).

    `entropy` is what keys are drawn from; None: `os.urandom`.
    """
    secrets = secrets_of(settings, entropy, started_at)
    name = settings.name or proved_name(secrets) or f"{socket.gethostname()[:200]}-{random.getrandbits(32):08x}"
    return Identity(
        name=name,
        endpoint_id=id_of(name),
        incarnation=(int(started_at * 1000) & ((1 << 42) - 1)) << 10 | random.getrandbits(10),
        settings=settings,
        random=random,
        secrets=secrets,
        tell=_Warnings(settings.network_id).tell,
    )


class _Warnings:
    """`Notices` to the log, imported with the first: most networks have one key, or none."""

    def __init__(self, network_id: int) -> None:
        self._network_id = network_id
        self._notices: Notices | None = None

    def tell(self, cause: str, address: Address | None) -> None:
        """Tell of an endpoint at this address, if that is new."""
        if self._notices is None:
            from glue.endpoint.notices import Notices

            self._notices = Notices(self._network_id, logger.warning)
        self._notices.tell(cause, address)
