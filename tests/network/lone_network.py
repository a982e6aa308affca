"""A network without sockets: all its parts note what they are asked for."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract.counters import Counters
from glue.network import MulticastNetwork, multicast, sockets
from glue.network.choice import Choice
from glue.network.group import parse_group
from glue.network.interfaces import Interface

UNICAST, MULTICAST, OTHER = 5, 6, 9  # file descriptors
CARD = Interface("eth0", 2, ("10.0.0.7", "10.0.0.8"), ("2001:db8::7",))
LOOPBACK = Interface("lo", 1, ("127.0.0.1",), ("::1",), loopback=True)


class LoneNetwork(MulticastNetwork):
    """A network on CARD, as chosen for it, whose parts note what they are asked for."""

    def __init__(self, **fields: Any) -> None:
        self.did: list[Any] = []
        self.is_changed = False
        self.statistics = Counters()
        self._group = parse_group(fields.pop("group", "239.192.137.1:37320"))
        self._automatic = False
        self._choice = Choice(fields.pop("chosen", CARD), "for a reason")
        self._receive_buffer, self._receive_buffer_granted, self._send_buffer_granted = 3000, 2000, 1000
        self._coalescing, self._port, self._mtu = True, 4321, 1500
        self._interface = self._joined = CARD
        self._unicast: Any = "unicast"
        self._multicast: Any = "multicast"
        self._unicast_fileno, self._multicast_fileno = UNICAST, MULTICAST
        self._drops, self._look_at, self._forget_refusals_at = [0, 0], 1000.0, 1000.0
        self._changes: Any = SimpleNamespace(take=lambda: self.is_changed)
        self._sender: Any = SimpleNamespace(
            destination=("239.192.137.1", 37320), is_broken=False, segmentation=False,
            forget_refusals=lambda: self.note("forget refusals"), send=lambda trains: self.note("send", trains),
        )  # fmt: skip
        self._loopback: Any = SimpleNamespace(set_addresses=lambda addresses: self.note("own", *addresses))
        self._unicast_receiver: Any = self.receiver("unicast")
        self._multicast_receiver: Any = self.receiver("multicast")
        self.ready: list[int] = []
        self._waiter: Any = SimpleNamespace(
            patience=7.0, fresh=False, woken=False, wait=self.waited, wake=lambda: self.note("wake")
        )
        self._sched_batch = True
        self._unicast_ready = self._multicast_ready = True
        self._fresh, self._waited_by = False, 0
        for name, value in fields.items():
            setattr(self, name, value)

    def note(self, *what: Any) -> Any:
        self.did.append(what[0] if len(what) == 1 else what)
        return None

    def done(self) -> list[Any]:
        found, self.did = self.did, []
        return found

    def received(self) -> list[Any]:
        """What is received now."""
        return [*self.receive()]

    def receiver(self, name: str) -> Any:
        """One socket's receiver, which has one train."""

        def receive(*asked: Any) -> tuple[Any, ...]:
            self.note(name, *asked)
            return (name,)

        return SimpleNamespace(kept=None, reads=0, coalesced=False, rested=False, streams=False, receive=receive)

    def waited(self, timeout: float | None, patient: bool) -> list[int]:
        self.note("wait", timeout, patient)
        return self.ready


class System:
    """What a network asks of the system."""

    def __init__(self, network: LoneNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
        self.network = network
        self.trouble: OSError | None = None
        self.drops: dict[str, int | None] = {}
        self.found: Interface | None = CARD
        self.best: Choice | Exception = Choice(CARD, "it is the best one")
        for name in ("join", "send_through", "leave"):
            monkeypatch.setattr(sockets, name, lambda *what, name=name: self._set(name, *what))
        monkeypatch.setattr(sockets, "kernel_drops", lambda opened: self.drops.get(opened))
        monkeypatch.setattr(multicast, "find_interface", lambda name, before: self._find(name))
        monkeypatch.setattr(multicast, "choose_interface", self._choose)

    def _set(self, what: str, opened: str, group: Any, interface: Interface) -> None:
        assert group is self.network._group
        self.network.note(what, opened, interface.name)
        if self.trouble is not None and what == "join":
            raise self.trouble

    def _find(self, name: str) -> Interface | None:
        self.network.note("find", name)
        return self.found

    def _choose(self, name: str | None, family: int) -> Choice:
        assert (name, family) == (None, socket.AF_INET)
        if isinstance(self.best, Exception):
            raise self.best
        return self.best
