"""The fast path: short ways through layers, beside `glue.contract.Layer`; the ordinary way does not depend on them.

The fast path of a layer is in the layer's room, in `fastpath`. `glue.fastpath.stack` joins layers with their fast paths
and calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from glue.contract.items import Address

CONSUMED: Final = ()
"""Returned by `receive_one` for an item that ends in this layer."""


class FastPath(Protocol):
    """A short way through a layer for one item.

    Both methods return the one item that goes on. If a method returns None, it has done nothing, and `Layer.receive` or
    `Layer.send` is called instead. Both ways have the same results for this and all later items, though not always at
    the same moment. A caller may wait for the item. Therefore work that can wait is deferred until `Layer.commit`, and
    answers to the peer come with the next call of `Layer.receive`. Several items are acknowledged as several items.
    Items are true, as objects are by default.

    Bodies may be borrowed (`glue.contract.borrowed`): they stay in the receive buffer until the next item is received.
    A layer that keeps bodies longer copies them (`Inbound.to_owned`). `Layer.receive` never gets borrowed bodies.
    """

    def receive_one(self, now: float, item: Any) -> Any | None:
        """Return the item to pass up for `item` from below, before `Layer.deadline`; CONSUMED for none."""

    def send_one(self, now: float, item: Any) -> Any | None:
        """Return the item to pass down for `item`, a single item from above."""

    def session_part(self) -> Any | None:
        """The part of the layer in a session (`glue.fastpath.parts`); None if the layer takes no part."""


class Partner(Protocol):
    """A peer of a session (`glue.fastpath.session`), as discovery knows it."""

    id: str
    incarnation: int
    address: Address


def offered(part: Any, short: str, *ordinary: str) -> Callable[..., Any] | None:
    """Return a method of a layer or network, unless a subclass overrides one of the `ordinary` methods alone."""
    for kind in part.__class__.__mro__:
        if short in vars(kind):
            return getattr(part, short)  # type: ignore[no-any-return]
        if any(name in vars(kind) for name in ordinary):
            break
    return None
