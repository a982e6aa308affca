"""The keywords of an endpoint, for editors and type checkers alone; at run time `glue.settings` checks them.

Nothing imports this module at run time: a `TypedDict` compiles each annotation, which takes 0.3 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from glue.settings import Discovery


class Keywords(TypedDict, total=False):
    """The keywords of an endpoint besides its name, for editors and type checkers: settings, and layers to replace."""

    interface: str | Sequence[str] | None
    network_id: int | None
    multicast_address: str | None
    listen_port: int | None
    announce_interval: float | None
    lease_intervals: float | None
    sleep: float | None
    message_limit: int | None
    queue_limit: int | None
    receive_limit: int | None
    receive_buffer: int | None
    offload: bool | None
    spin: float | None
    sched_batch: bool | None
    malloc_threshold: int | None
    parity: float | None
    discovery: Discovery | Callable[..., Any] | None
    key: Any
    identity: Any
    policy: Any
    storage_key: Any
    peers: str | Sequence[str] | None
    consumer_alert: float | None
    doctor: bool | None
    network: Callable[..., Any]
    serialization: Callable[..., Any]
    transport: Callable[..., Any]
    fragmentation: Callable[..., Any]
    topics: Callable[..., Any]
    model: Callable[..., Any]
