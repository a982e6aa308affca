"""Turns of an endpoint without threads and a network: all their parts note what they are asked for."""

from __future__ import annotations

from collections import Counter, deque
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import glue
from glue.contract import Publication
from glue.drivers.turns import Turns
from glue.endpoint.admission import OPEN


class Lock:
    """The lock of a turn, which another thread may hold."""

    def __init__(self) -> None:
        self.is_elsewhere = False
        self.depth = 0

    def acquire(self, blocking: bool = True) -> bool:
        self.depth += not self.is_elsewhere
        return not self.is_elsewhere

    def release(self) -> None:
        if not self.depth:
            raise RuntimeError
        self.depth -= 1

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Lone(Turns):
    """Turns whose parts note what they are asked for."""

    def __init__(self, **fields: Any) -> None:
        self.did: list[Any] = []
        self._closed = False
        self.size, self.gathered = 0, list[Any]()
        outbox = SimpleNamespace(
            requests=[], add=self.gather, order=lambda request: self.note("order", request), size=0
        )
        self.events: list[Any] = []
        self._core: Any = SimpleNamespace(
            outbox=outbox, overfed=False, statistics=Counter(), deadline=107.0, is_counting=lambda: False,
            would_block=lambda backlog: glue.WouldBlockError(f"{backlog} bytes wait"),
            stack=SimpleNamespace(commit=lambda: self.note("commit"), backlog=5, session=SimpleNamespace()),
            send=lambda now, publications: self.note("send", now, *publications) or ["out"],
            turn=lambda now, trains: self.note("turn", now, *trains) or (self.events, ["out"]),
            handled=lambda delivery: delivery.sequence == 1, settings=SimpleNamespace(message_limit=10),
        )  # fmt: skip
        self._admission: Any = SimpleNamespace(limits=[100] * 6, closed_from=OPEN, update=lambda backlog: False)
        self._send_policy: Any = SimpleNamespace(
            is_due=lambda size, backlog: False, bundle=50, spoke=lambda now: self.note("spoke", now),
            sent=lambda: self.note("sent"), arrived=lambda now: self.note("arrived", now),
            answered=lambda now: self.note("answered", now),
        )  # fmt: skip
        self._network_seat: Any = SimpleNamespace(
            is_aside=False, is_relieved=False, call=lambda: self.note("call"), hurry=lambda: self.note("hurry"),
            relieve=lambda deadline, has_room, requests: self.note("relieve", deadline) or True,
        )  # fmt: skip
        self._network: Any = SimpleNamespace(
            wake=lambda: self.note("wake"), receive=lambda: ["in"], send=lambda out: self.note("leave", *out)
        )
        self._backpressure: Any = SimpleNamespace(
            turns=0, in_vain=True, is_awaited=False, admit=lambda: self.note("admit"), wait=self.wait_for_space,
            wait_for_turn=lambda lock: self.note("wait for turn") or True,
        )  # fmt: skip
        self._network_part: Any = None
        self._turn_lock: Any = Lock()
        self._is_in_turn = lambda: False
        self._uninterrupted: Any = nullcontext()
        self._committing: Any = nullcontext()
        self._leader: Any = None
        self._threads = set()
        self._events, self._waiters, self._news = deque(), deque(), "news"  # type: ignore[assignment]
        self._sleeps_until, self._woken, self._is_receiving = 0.0, False, False
        self._flushed_at, self._maintain_at, self._deadline, self._backlog = 0.0, 130.0, 107.0, 0
        self._is_known, self._is_uncommitted, self._received = True, False, 0
        self._asked_until, self.replier = 0.0, 0
        for name, value in fields.items():
            setattr(self, name, value)

    def note(self, *what: Any) -> Any:
        self.did.append(what[0] if len(what) == 1 else what)
        return None

    def gather(self, *publications: Publication) -> None:
        self.gathered += publications
        self._core.outbox.size += sum(len(one.payloads[0]) for one in publications)

    def wait_for_space(self, has_room: Any, wake: Any, backlog: Any) -> bool:
        self.note("wait", has_room(), backlog())
        return True

    def _step_down(self) -> None:
        self.note("step down")

    def done(self) -> list[Any]:
        found, self.did = self.did, []
        return found
