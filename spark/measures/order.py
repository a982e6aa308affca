"""Measures of the order and rhythm in which one sender's datagrams reached one receiver.

All take the datagrams that were sent to the receiver in the order in which they left (`departures`), and cost a few
NumPy operations. Reordering and jitter take first arrivals only: a duplicate that comes late is no reordering
(RFC 4737, section 3.3), and has no time of sending of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

JITTER_GAIN = 1 / 16  # RFC 3550, section 6.4.1
JITTER_MEMORY = 512  # differences that matter to it: an older one weighs (15/16)^512 = 4e-15


def departures(sent: Integers, is_known: Flags) -> Integers:
    """The places of datagrams that are sorted by the sender's counter, in the order in which they left.

    An answer that waits at its sender for an address (ARP) leaves behind others with larger counters, without any fault
    of the network. Where it is not known when a datagram left, it follows the one before it.
    """
    before = np.maximum.accumulate(np.where(is_known, np.arange(len(sent)), 0))
    return np.argsort(np.where(is_known, sent, 0)[before], kind="stable")


class LossPattern(NamedTuple):
    """Losses that come together; see `loss_pattern`."""

    periods: int
    longest: int
    least_distance: int | None


def loss_pattern(lost: Flags) -> LossPattern:
    """Loss periods and distances (RFC 3357, sections 4.1 and 4.2) of datagrams in the order they were sent.

    A period is a row of losses with nothing received between them, `longest` the datagrams in the longest one.
    `least_distance` is the fewest datagrams from one loss to the next, 1 within a period; None with fewer than two.
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
    """How many datagrams came later than one that was sent after them (RFC 4737, section 3.3).

    `sent` tells the order in which they left by ascending numbers, `arrived` when they came.

    `extent` is the largest number of arrivals since the first that overtook one (section 4.2.1), `late_ns` the
    longest time since then (section 4.3).
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
    """Variation of the time under way; `total` over `differences` is its mean. See `jitter`."""

    latest: float
    total: int
    differences: int


def jitter(sent: Integers, arrived: Integers) -> Jitter:
    """Interarrival jitter (RFC 3550, section 6.4.1), in nanoseconds.

    D is the difference of two datagrams' times under way, taken between neighbours in order of arrival; `latest` is
    the RFC's estimate after the last of them, J += (|D| - J) / 16 from J = 0, `total` the sum of all |D|. The
    clocks of sender and receiver may differ: their offset cancels out, their drift is some ns for neighbours.
    """
    order = np.argsort(arrived, kind="stable")
    differences = np.abs(np.diff(arrived[order] - sent[order]))
    recent = differences[-JITTER_MEMORY:]
    weights = JITTER_GAIN * (1 - JITTER_GAIN) ** np.arange(len(recent) - 1, -1, -1)
    return Jitter(float(recent @ weights), int(differences.sum()), len(differences))
