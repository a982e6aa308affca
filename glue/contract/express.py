"""The express way: what a layer may offer, beside `glue.contract.Layer`, for what is not out of the ordinary.

And beside that, for lone messages that go back and forth, its method `rally`: see `glue.fastpath.parts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from glue.contract.items import Address

TAKEN: Final = ()
"""Returned by `lift` for an item that is done with: nothing goes on."""


class Express(Protocol):
    """A short way through a layer for one item, of which it need not be asked what is due.

    Somebody may wait for it, so nothing is done on this way that can wait: it is done when the layer is asked for its
    deadline, and what is to be said to those below comes with the next call of `receive`. Both methods return the one
    item that goes on; or None, and then nothing was done, and `receive` or `send` is called. What becomes of the item,
    and of all that follow, is the same either way, though not always at the same moment: what else is to be sent waits
    for its own deadline, and what comes as several items is acknowledged as such. Items are true, as objects are by
    default.

    Bodies may be lent (`glue.contract.borrowed.Lent`): they stand where they came in until the next item is lifted. Who
    keeps them longer makes them its own (`Inbound.own`); `receive` is given nothing that is lent.
    """

    def lift(self, now: float, item: Any) -> Any | None:
        """The item that goes up for this one from below, before `deadline`; TAKEN if none does."""

    def lower(self, now: float, item: Any) -> Any | None:
        """The item that goes down for this one from above, which is the only one."""


class Partner(Protocol):
    """A peer with whom lone messages go back and forth (`glue.fastpath.session`), as discovery knows it."""

    id: str
    incarnation: int
    address: Address


def offered(part: Any, short: str, *ordinary: str) -> Callable[..., Any] | None:
    """A method that a layer, or a network, offers; not one that it has from another whose `ordinary` ways it alters."""
    for kind in part.__class__.__mro__:
        if short in vars(kind):
            return getattr(part, short)  # type: ignore[no-any-return]
        if any(name in vars(kind) for name in ordinary):
            break
    return None
