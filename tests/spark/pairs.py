"""Small traces, measured in two ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spark.measures.clocks import Hull, lower_hull

SECOND = 10**9


Clock = Callable[[np.ndarray], np.ndarray]


def two_ways(seed: int, clock: Clock, least: tuple[int, int]) -> tuple[Hull, Hull]:
    """A minute's raw delays, hull by hull: `clock(times)` is the second clock's offset, `least` the least ways (ns)."""
    rng = np.random.default_rng(seed)
    hulls = []
    for sign, way in zip((1, -1), least, strict=True):
        times = np.sort(rng.integers(0, 60 * SECOND, 3000)) + 1_700_000_000 * SECOND
        under_way = way + rng.exponential(300_000, 3000).astype(np.int64)
        delays = sign * clock(times).astype(np.int64) + under_way
        parts = [lower_hull(times[i : i + 300], delays[i : i + 300]) for i in range(0, 3000, 300)]
        hulls.append(Hull(np.concatenate([p.times for p in parts]), np.concatenate([p.delays for p in parts])))
    return hulls[0], hulls[1]
