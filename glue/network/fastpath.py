"""The network's part in a session (`glue.fastpath.session`): lone datagrams from and to peers, one at a time."""

from __future__ import annotations

from glue.contract import Address
from glue.network.receiver import Receiver
from glue.network.sender import Sender
from glue.network.waiter import Waiter


class UnicastFastPath:
    """`glue.fastpath.parts.NetworkPart` over one unicast socket, of `receiver` and `sender`.

    Only the thread that may wait calls `glance`, while another thread may be receiving.
    """

    __slots__ = ("_fileno", "_receiver", "_sender", "_waiter", "keep", "post", "take")

    def __init__(self, waiter: Waiter, fileno: int, receiver: Receiver, sender: Sender) -> None:
        """`fileno`: of the socket, as the waiter knows it."""
        self._waiter = waiter
        self._fileno = fileno
        self._receiver = receiver
        self._sender = sender
        self.keep, self.take, self.post = receiver.keep, receiver.take, sender.post

    @property
    def is_eager(self) -> bool:
        """Whether answers come so fast that spinning for them is worth a core."""
        return self._waiter.is_eager

    @property
    def source(self) -> Address:
        """Where the latest datagram of `glance` came from."""
        return self._receiver.source

    def glance(self, until: float) -> bytes | None:
        """Return a lone datagram that arrives before `until` (monotonic seconds), if nothing else needs attention.

        What else comes is kept, and received next.
        """
        if self._receiver.kept is not None or self._waiter.glance(until) != self._fileno:
            return None
        return self._receiver.glance()

    def expect_answer(self) -> None:
        """Let the next `wait` not take what came before for a stream, which is best received after a sleep."""
        self._receiver.reads = 0
        self._waiter.patience = 0.0

    def commit(self) -> None:
        """Count what was taken and posted."""
        self._receiver.commit()
        self._sender.commit()
