"""Measures of order and rhythm of the datagrams from one sender to one receiver.

All functions take the datagrams in the order in which they left (`departures`), and cost a few NumPy operations.
Reordering and jitter use first arrivals only. A late duplicate is no reordering (RFC 4737, section 3.3), and has no
sending time of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

JITTER_GAIN = 1 / 16  # RFC 3550, section 6.4.1
JITTER_MEMORY = 512  # differences used; an older difference weighs (15/16)^512 = 4e-15


def departures(sent: Integers, is_known: Flags) -> Integers:
    """Return the indexes of datagrams in order of departure. The input is sorted by the sender's counter.

    An answer that waits for an address (ARP) leaves after datagrams with larger counters, without a fault of the
    network. A datagram with unknown departure follows the datagram before it.
    """
    before = np.maximum.accumulate(np.where(is_known, np.arange(len(sent)), 0))
    return np.argsort(np.where(is_known, sent, 0)[before], kind="stable")


class LossPattern(NamedTuple):
    """Losses that come together; see `loss_pattern`."""

    periods: int
    longest: int
    least_distance: int | None


def loss_pattern(lost: Flags) -> LossPattern:
    """Compute loss periods and distances (RFC 3357, sections 4.1 and 4.2) of datagrams in order of departure.

    A period is a sequence of losses with nothing received between them. `longest` is the number of datagrams in the
    longest period. `least_distance` is the smallest distance from one loss to the next in datagrams, 1 within a period,
    None with fewer than two losses.
    """
    places = np.flatnonzero(lost)
    if not len(places):
        return LossPattern(0, 0, None)
    distances = np.diff(places)
    begins = np.flatnonzero(np.concatenate(([True], distances > 1)))
    lengths = np.diff(np.append(begins, len(places)))
    return LossPattern(len(begins), int(lengths.max()), int(distances.min()) if len(distances) else None)


class Reordering(NamedTuple):
    """Datagrams overtaken by later ones; see `reordering`."""

    reordered: int
    extent: int
    late_ns: int


def reordering(sent: Integers, arrived: Integers) -> Reordering:
    """Count the datagrams that arrived after a datagram sent later (RFC 4737, section 3.3).

    `sent` has ascending numbers in order of departure, and `arrived` has times in nanoseconds.

    `extent` is the largest number of arrivals since the first overtaking one (section 4.2.1). `late_ns` is the longest
    time since then (section 4.3).
    """
    order = np.argsort(arrived, kind="stable")
    sequence, times = sent[order], arrived[order]
    highest = np.maximum.accumulate(sequence)
    late = np.flatnonzero(sequence < highest)
    if not len(late):
        return Reordering(0, 0, 0)
    overtaker = np.searchsorted(highest, sequence[late], side="right")
    return Reordering(len(late), int((late - overtaker).max()), int((times[late] - times[overtaker]).max()))


class Jitter(NamedTuple):
    """Variation of the one-way delay; `total` / `differences` is its mean. See `jitter`."""

    latest: float
    total: int
    differences: int


def jitter(sent: Integers, arrived: Integers) -> Jitter:
    """Compute the interarrival jitter (RFC 3550, section 6.4.1), in nanoseconds.

    D is the difference between the one-way delays of neighbours in order of arrival. `latest` is the RFC's estimate
    after the last D, J += (|D| - J) / 16 from J = 0. `total` is the sum of all |D|. The offset of the clocks cancels
    out, and their drift is some ns between neighbours.
    """
    order = np.argsort(arrived, kind="stable")
    differences = np.abs(np.diff(arrived[order] - sent[order]))
    recent = differences[-JITTER_MEMORY:]
    weights = JITTER_GAIN * (1 - JITTER_GAIN) ** np.arange(len(recent) - 1, -1, -1)
    return Jitter(float(recent @ weights), int(differences.sum()), len(differences))
