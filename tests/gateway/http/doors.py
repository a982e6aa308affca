"""Doors on the private network, on free ports of loopback."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from glue.gateway.http.gateway import Gateway

Doors = Callable[..., AbstractContextManager[Gateway]]
