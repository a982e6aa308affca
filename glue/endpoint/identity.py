"""The identity of one life of an endpoint."""

from __future__ import annotations

import socket
from collections.abc import Callable
from random import Random

from glue.contract.logs import lazy_logger
from glue.endpoint.notices import Notices
from glue.endpoint.sealing import proved_name, secrets_of
from glue.model.names import id_of
from glue.settings import Settings
from glue.stack import Identity

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
        tell=Notices(settings.network_id, logger.warning).tell,
    )
