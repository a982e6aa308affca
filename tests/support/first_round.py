"""The first round of discovery, during which messages wait, for endpoints in virtual time."""

from __future__ import annotations

from typing import Any

from glue.contract import Train


def met(endpoints: Any, now: float) -> float:
    """Let the first round pass between endpoints with `cores`, a `wire` and `turn`; returns the time after it."""
    for _ in range(60):
        now += 1e-3
        for index, core in enumerate(endpoints.cores):
            core.stack.commit()
            if core.deadline <= now:
                endpoints.turn(now, index)
        while endpoints.wire:
            to, source, data, segment = endpoints.wire.popleft()
            endpoints.cores[to].stack.commit()
            if endpoints.cores[to].deadline <= now:
                endpoints.turn(now, to)
            where = ("10.0.0.1", 1 + source)
            endpoints.turn(now, to, (Train(where, memoryview(data), segment),))
    return now
