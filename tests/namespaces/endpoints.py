"""Endpoints in network namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import glue
from tests.support.namespaces import Host


@contextmanager
def endpoint(
    host: Host, interface: str | Sequence[str] = "eth0", name: str | None = None, **settings: Any
) -> Iterator[glue.Endpoint]:
    """An endpoint on this host, by default named after it; its threads stay there."""
    with host.entered():
        made = glue.Endpoint(name or host.namespace, interface=interface, **settings).start()
    try:
        yield made
    finally:
        made.close(timeout=0)
