"""Requirements on glue relative to other systems, and how well the referee's rows meet them.

A requirement is judged run by run. In one run the peers take turns on the same machine within minutes, so the ratio of
two figures of a run is more reliable than each figure. The median over the runs counts.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.results import Row, bytes_of, grouped, markdown, show, spread, values_of

GLUE = "glue"
RECEIVERS = 4  # receivers in the referee's fan-out

THROUGHPUT = {  # payload: must and goal for 1 → 1, must and goal for 1 → 4, as multiples of the best peer
    16: (2.5, 4.0, 2.0, 4.0),
    256: (1.8, 3.0, 2.0, 4.0),
    1024: (1.4, 2.0, 1.8, 3.0),
    8192: (0.6, 1.0, 1.0, 2.0),
    65536: (0.7, 1.0, 1.0, 1.5),
    1 << 20: (0.7, 1.0, 1.0, 1.5),
}
LATENCY_SIZES = (64, 1024)
LATENCY_RATIO = 1.0  # highest p50 as a multiple of the fastest peer's
TAIL = 3.0  # highest p99 as a multiple of glue's own p50
CPU_SIZE, CPU_LIMIT = 256, 0.8  # highest µs per message, at the publisher and at the subscriber
IDLE_CPU, IDLE_MEMORY = 0.3, 30.0  # highest % of a core and MB of an idle endpoint


class Verdict(NamedTuple):
    """One line of the table: a figure of glue, the figure to compare with, and the judgement.

    `values` has the ratio, or the figure, of each run. With `more_is_better` the median must reach `must`, else it must
    not exceed it.
    """

    what: str
    glue: str
    beside: str
    values: list[float]
    must: float
    goal: float
    more_is_better: bool

    @property
    def outcome(self) -> str:
        """Judgement of the median: "goal", "must" or "**short**"."""
        value = statistics.median(self.values)
        if self.more_is_better:
            return "goal" if value >= self.goal else "must" if value >= self.must else "**short**"
        return "goal" if value <= self.goal else "**short**"


def select(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(field) == value for field, value in wanted.items())]


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Return all verdicts for which rows exist."""
    found: list[Verdict | None] = []
    for size, (must, goal, fan_must, fan_goal) in THROUGHPUT.items():
        found.append(beside_best(rows, "throughput", size, "msgs_s", "1 → 1, messages/s", must, goal))
        found.append(beside_best(rows, "fanout", size, "msgs_s", "1 → 4, deliveries/s", fan_must, fan_goal))
    found.sort(key=lambda one: one is not None and "1 → 4" in one.what)
    for size in LATENCY_SIZES:
        found.append(beside_best(rows, "latency", size, "p50", "one way, p50 µs", LATENCY_RATIO, LATENCY_RATIO, min))
        found.append(tail(rows, size))
    for field, side in (("pub_cpu", "publisher"), ("sub_cpu", "subscriber")):
        mine = select(rows, peer=GLUE, metric="throughput", size=CPU_SIZE)
        found.append(limit(f"CPU µs a message, {side}, {bytes_of(CPU_SIZE)}", values_of(mine, field), CPU_LIMIT))
    idle = select(rows, peer=GLUE, metric="startup", kind="idle")
    found.append(limit("idle, % of a core", values_of(idle, "cpu_pct"), IDLE_CPU))
    found.append(limit("idle, memory MB", values_of(idle, "rss_MB"), IDLE_MEMORY))
    return [one for one in found if one is not None]


def beside_best(
    rows: Sequence[Row],
    metric: str,
    size: int,
    field: str,
    title: str,
    must: float,
    goal: float,
    best: Callable[[Sequence[float]], float] = max,
) -> Verdict | None:
    """Judge a figure of glue as a multiple of the best peer's figure in the same run. None without rows."""
    ratios: list[float] = []
    winners: Counter[str] = Counter()
    bests: list[float] = []
    for group in grouped(select(rows, metric=metric, size=size), ["run"]).values():
        mine = values_of(select(group, peer=GLUE), field)
        others = {row["peer"]: row[field] for row in group if not row["peer"].startswith(GLUE) and row.get(field)}
        if mine and others:
            figure = best(list(others.values()))
            winners[next(peer for peer, value in others.items() if value == figure)] += 1
            ratios.append(mine[0] / figure)
            bests.append(figure)
    if not ratios:
        return None
    own = show(statistics.median(values_of(select(rows, metric=metric, size=size, peer=GLUE), field)))
    beside = f"{winners.most_common(1)[0][0]} {show(statistics.median(bests))}"
    return Verdict(f"{title}, {bytes_of(size)}", own, beside, ratios, must, goal, best is max)


def tail(rows: Sequence[Row], size: int) -> Verdict | None:
    """Judge the ratio of p99 to p50 of the latency. None without rows."""
    mine = [row for row in select(rows, peer=GLUE, metric="latency", size=size) if row.get("p50")]
    if not mine:
        return None
    p50, p99 = (statistics.median(values_of(mine, field)) for field in ("p50", "p99"))
    ratios = [row["p99"] / row["p50"] for row in mine]
    what = f"one way, p99 µs beside its p50, {bytes_of(size)}"
    return Verdict(what, show(p99), f"p50 {show(p50)}", ratios, TAIL, TAIL, False)


def limit(what: str, values: list[float], most: float) -> Verdict | None:
    """Judge a figure by an upper limit. None without values."""
    return Verdict(what, show(statistics.median(values)), "", values, most, most, False) if values else None


def table(found: Sequence[Verdict]) -> str:
    """Return all verdicts as a Markdown table."""
    titles = ("what", "glue", "beside", "ratio, or figure", "must", "goal", "reached")
    lines = []
    for one in found:
        must, goal = (f"{'≥' if one.more_is_better else '≤'} {show(value)}" for value in (one.must, one.goal))
        lines.append([one.what, one.glue, one.beside, spread(one.values), must, goal, one.outcome])
    return markdown(titles, lines)
