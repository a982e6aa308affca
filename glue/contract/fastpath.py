"""The fast path: what may stand beside a `glue.contract.Layer`; a reader of the ordinary way need not know it.

It stands in the layer's room, in `fastpath`. `glue.fastpath.stack` calls it and says which layer has which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from glue.contract.items import Address

CONSUMED: Final = ()
"""Returned by `receive_one` for an item that is done with: nothing goes on."""


class FastPath(Protocol):
    """A short way through a layer for one item.

    Both methods return the one item that goes on; or None, and then nothing was done, and `Layer.receive` or
    `Layer.send` is called. What becomes of the item, and of all that follow, is the same either way, though not always
    at the same moment. A caller may wait for the item, so all work that can wait is deferred until `Layer.commit`, and
    what is to be sent in return comes with the next call of `Layer.receive`. What comes as several items is
    acknowledged as such. Items are true, as objects are by default.

    Bodies may be borrowed (`glue.contract.borrowed`): they stand where they came in until the next item is received. A
    layer that keeps them longer copies them (`Inbound.own`); `Layer.receive` is given nothing that is borrowed.
    """

    def receive_one(self, now: float, item: Any) -> Any | None:
        """The item that goes up for this one from below, before `Layer.deadline`; CONSUMED if none does."""

    def send_one(self, now: float, item: Any) -> Any | None:
        """The item that goes down for this one from above, which is the only one."""

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
