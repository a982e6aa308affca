"""Percentiles of any amount of data: counts in buckets that grow by a fixed ratio.

The sketch is DDSketch (Masson, Rim, Lee: DDSketch, VLDB 2019): value v belongs to bucket ceil(log v / log GAMMA), so
every percentile is known to a relative ACCURACY, whatever the distribution. It was chosen over KLL and t-digest
because it is a plain table of counts: merging is adding, in any order and any number of parts, with one result to
the last digit. So a live job gives exactly what a batch gives, and the table is also the distribution to plot.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

ACCURACY = 0.005
"""Relative: a tenth of what anybody reads off a chart. 1 µs to 1,000 s are 2,073 buckets, of which few are used."""

GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
LOG_GAMMA = math.log(GAMMA)

Buckets = npt.NDArray[np.int64]


def bucket_of(values: npt.ArrayLike) -> Buckets:
    """The bucket of each value; all values below 1 (ns: clocks know no less) are in bucket 0."""
    return np.ceil(np.log(np.maximum(values, 1)) / LOG_GAMMA).astype(np.int64)


def value_of(bucket: int) -> float:
    """The value that stands for a bucket: within ACCURACY of every value in it."""
    return 2 * math.exp(LOG_GAMMA * bucket) / (GAMMA + 1)


def quantile(counts: dict[int, int], share: float) -> float | None:
    """The value below which `share` (0 to 1) of the counted values lie; None if there are none.

    `counts` is by bucket. The rank is that of RFC 2330, section 11.3, as the least value whose share of values at or
    below it reaches `share`.
    """
    total = sum(counts.values())
    wanted = max(1, math.ceil(share * total - 1e-9))
    for bucket in sorted(counts):
        wanted -= counts[bucket]
        if wanted <= 0:
            return value_of(bucket)
    return None
