"""Verdict of an analysis in sentences with numbers, the worst first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from spark.analyze.locate import BOTH, EVERYTHING, INCOMING, OUTGOING, Place, places

Row = dict[str, Any]
Result = dict[str, Any]

GOOD, NOTE, BAD = "good", "note", "bad"
NOTABLE_LOSS = 0.001  # share of what was sent; smaller losses appear in tables only
BAD_LOSS = 0.05
MOST_OF_A_KIND = 5  # most sentences of a kind

ENOUGH = {"p50": 10, "p90": 10, "p99": 100, "p999": 1000}
"""Least samples for each percentile. With fewer, less than one sample is expected beyond it, and a median is chance."""

Pair = tuple[str, str]


class Finding(NamedTuple):
    """One sentence of the verdict; `level` is `GOOD`, `NOTE` or `BAD`."""

    level: str
    text: str


def verdict(result: Result) -> list[Finding]:
    """Return the findings of an analysis, the worst first. The list is never empty."""
    kinds = (_files, _namesakes, _sealed, _sealed_gaps, _losses, _missed, _expiries, _restarts, _clocks, _models)
    found = [finding for kind in kinds for finding in _shortened(list(kind(result)))]
    if not any(finding.level != GOOD for finding in found):
        observed = any(row["sent"] for row in result["pairs"])
        lost = "Nothing of note was lost" if observed else "Nothing betrays a loss, which no single capture sees itself"
        found.insert(0, Finding(GOOD, f"{lost}, and nobody was given up."))
    found += _speed(result)
    return sorted(found, key=lambda finding: (BAD, NOTE, GOOD).index(finding.level))


def pair_totals(result: Result) -> dict[tuple[str, str], Counter[str]]:
    """Return the counts of `pairs` by sender and receiver over the whole trace."""
    totals: dict[tuple[str, str], Counter[str]] = {}
    for row in result["pairs"]:
        if row["receiver"] is not None:
            counter = totals.setdefault((row["sender"], row["receiver"]), Counter())
            counter.update({name: value for name, value in row.items() if name in COUNTED})
    return totals


def _shortened(findings: list[Finding]) -> list[Finding]:
    """Return the first findings of a kind, and a sentence about the rest."""
    rest = findings[MOST_OF_A_KIND:]
    if not rest:
        return findings
    return [*findings[:MOST_OF_A_KIND], Finding(rest[0].level, f"… and {len(rest)} more like these.")]


def _files(result: Result) -> Iterator[Finding]:
    """Yield findings about damaged captures and about frames that the capturing system dropped."""
    dropped: dict[str, int] = {}
    for row in result["files"]:
        dropped[row["file"]] = max(dropped.get(row["file"], 0), row["dropped"] or 0)
        if row["fault"] is not None:
            rest = "" if row["unread"] is None else f"; {row['unread']:,} bytes of it were not read"
            behind = row["faults"] - 1
            more = f", and in {behind:,} {'place' if behind == 1 else 'places'} behind" if behind > 0 else ""
            text = f"{row['file']} is damaged at byte {row['fault_offset']:,}{more}: {row['fault']}{rest}."
            yield Finding(BAD, text)
    for file, count in dropped.items():
        if count:
            yield Finding(NOTE, f"{file} lacks {count:,} frames: the system that captured them says it dropped them.")


def _namesakes(result: Result) -> Iterator[Finding]:
    """Yield findings about capture points that share a name."""
    for name, files in result["trace"].get("namesakes", {}).items():
        text = f"{len(files)} captures made at the same time name one place, {name}: "
        yield Finding(NOTE, text + f"each counts as a place of its own, named by its file: {', '.join(files)}.")


def _sealed(result: Result) -> Iterator[Finding]:
    """Yield what is known and unknown of datagrams that were not opened."""
    rows = result.get("sealed", [])
    if rows:
        count, lives = sum(row["datagrams"] for row in rows), len({row["life"] for row in rows})
        text = f"{count:,} captured datagrams of {lives:,} {'life' if lives == 1 else 'lives'} are sealed: "
        text += "without their key this tells addresses, sizes, times and numbers, but not who the endpoints are, nor "
        text += f"topics, resends, round trips or where a loss was; {result['trace']['sealed']}."
        yield Finding(NOTE, text)


def _sealed_gaps(result: Result) -> Iterator[Finding]:
    """Yield the multicasts that a capture point lacks by the numbers of sealed datagrams."""
    for row in sorted(result.get("sealed", []), key=lambda row: -int(row["missing"])):
        if row["kind"] == "multicast" and row["missing"]:
            seen = row["datagrams"] - row["doubled"]
            text = f"At {row['capture_point']} {row['missing']:,} of {row['missing'] + seen:,} sealed multicasts from "
            yield Finding(
                NOTE, f"{text}{row['sender']} are missing, by their numbers: the network lost them, or the capture."
            )


COUNTED = ("sent", "arrived", "lost", "duplicates", "later_attempts", "unobserved", "seen", "bytes")


def _losses(result: Result) -> Iterator[Finding]:
    """Yield the places of losses, and then the lossy pairs that no place explains."""
    losses = Losses(result)
    totals = losses.totals
    found = places({pair: (totals[pair]["sent"], losses.network(pair)) for pair in totals}, NOTABLE_LOSS)
    explained = frozenset[Pair]().union(*(place.pairs for place in found))
    for place in found:
        elsewhere = [pair for pair in totals if pair not in explained]
        more = f"; the pairs without such a cause lost {losses.share(elsewhere)}" if elsewhere else ""
        yield losses.finding(sorted(place.pairs), losses.told_of(place), more)
    rest = [pair for pair in totals if pair not in explained]
    lossy = [
        pair for pair in rest if totals[pair]["sent"] and losses.network(pair) >= NOTABLE_LOSS * totals[pair]["sent"]
    ]
    for pair in sorted(rest, key=lambda pair: -totals[pair]["lost"]):
        if pair in lossy:
            text = f"{pair[1]} lost {losses.share([pair])} of what {pair[0]} sent {losses.extent([pair])}"
            alone = not found and len(lossy) == 1 and len({name for one in totals for name in one}) > 2
            yield losses.finding([pair], text + (", and no other pair lost anything of note" if alone else ""))
        elif losses.unseen[pair]["unseen"]:
            text = f"The capture at {pair[1]} missed at least {losses.unseen[pair]['unseen']:,} of the "
            text += (
                f"{totals[pair]['sent']:,} datagrams from {pair[0]}: they were acknowledged, so the network did not "
            )
            yield Finding(NOTE, text + "lose them.")


class Losses:
    """Losses of a trace by pair, in words for one or several pairs."""

    def __init__(self, result: Result) -> None:
        self.totals = pair_totals(result)
        self.unseen = defaultdict(Counter[str], _sums(result["streams"], ("unseen",)))
        self._repairs = defaultdict(
            Counter[str], _sums(result["repairs"], ("unrepaired", "frames", "mended", "repaired"))
        )
        self._spans = _lossy_spans(result)
        self._times = {
            (row["sender"], row["receiver"]): row for row in result["latencies"] if row["measure"] == "repair"
        }

    def network(self, pair: Pair) -> int:
        """Return the datagrams that the network lost, without known losses of the capture."""
        return self.totals[pair]["lost"] - self.unseen[pair]["unseen"]

    def share(self, pairs: Sequence[Pair]) -> str:
        """Return the share of losses of these pairs, in per cent."""
        sent = sum(self.totals[pair]["sent"] for pair in pairs)
        return percent(sum(self.totals[pair]["lost"] for pair in pairs) / sent if sent else 0.0)

    def extent(self, pairs: Sequence[Pair]) -> str:
        """Return the number of losses of these pairs, and their time."""
        lost, sent = (sum(self.totals[pair][name] for pair in pairs) for name in ("lost", "sent"))
        spans = [self._spans[pair] for pair in pairs if pair in self._spans]
        begin, end = min(first for first, _ in spans), max(last for _, last in spans)
        return f"({lost:,} of {sent:,}) between {clock(begin)} and {clock(end)} UTC"

    def told_of(self, place: Place) -> str:
        """Return a sentence about a place and its losses."""
        pairs = sorted(place.pairs)
        lost = f"{self.share(pairs)} {self.extent(pairs)}"
        if place.kind == EVERYTHING:
            return f"Everybody loses of everybody, so it is the segment, or more than one link: {lost}"
        words = {
            BOTH: "Everything to and from {0} suffers, so it is the link of {0}",
            OUTGOING: "What {0} sends gets lost on the way to everybody, so it is the outgoing side of {0}",
            INCOMING: "{0} loses of what everybody sends, so it is the incoming side of {0}",
        }[place.kind]
        return f"{words.format(place.endpoint)}: {lost}"

    def finding(self, pairs: Sequence[Pair], text: str, more: str = "") -> Finding:
        """Return the finding that starts with `text`, tells how the losses of these pairs were repaired, and ends with
        `more`.
        """
        fixed = sum((self._repairs[pair] for pair in pairs), Counter[str]())
        if fixed["unrepaired"]:
            frames = "frame was" if fixed["unrepaired"] == 1 else "frames were"
            text += f"; {fixed['unrepaired']:,} {frames} not repaired within the trace"
        elif fixed["frames"] or fixed["mended"]:
            text += ", all data repaired"
        if fixed["mended"]:
            of = fixed["mended"] + fixed["repaired"]
            text += f" ({percent(fixed['mended'] / of)} of {of:,} frames by parity, the rest by resends)"
        times = [self._times[pair] for pair in pairs if pair in self._times]
        if times:
            worst = slowest(times)
            told = percentile(worst, "p99")
            text += (
                f", p99 {told}"
                if told
                else f", the longest repair {duration(worst['most_ns'])} (of {worst['count']:,})"
            )
        by_capture = sum(self.unseen[pair]["unseen"] for pair in pairs)
        if by_capture:
            text += f"; {by_capture:,} or more of these only the capture missed, as they were acknowledged"
        sent, lost = sum(self.totals[pair]["sent"] for pair in pairs), sum(self.network(pair) for pair in pairs)
        return Finding(BAD if lost >= BAD_LOSS * sent or fixed["unrepaired"] else NOTE, f"{text}{more}.")


def _missed(result: Result) -> Iterator[Finding]:
    """Yield losses on the way to a point from senders without a capture, found by the numbers of attempts."""
    for (sender, receiver), counter in _sums(result["repairs"], ("missed", "frames")).items():
        if counter["missed"]:
            text = f"At least {counter['missed']:,} of {sender}'s transmissions did not reach {receiver}: "
            yield Finding(NOTE, text + f"{counter['frames']:,} frames came with a resend's number.")


def _lossy_spans(result: Result) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the time from the first to the last interval with losses, by sender and receiver."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for row in result["pairs"]:
        if row["lost"]:
            pair, at = (row["sender"], row["receiver"]), row["interval"]
            first, last = spans.get(pair, (at, at))
            spans[pair] = min(first, at), max(last, at)
    return {pair: (first, last + int(result["trace"]["interval_ns"])) for pair, (first, last) in spans.items()}


def _sums(rows: Iterable[Row], names: tuple[str, ...]) -> dict[tuple[str, str], Counter[str]]:
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        sums.setdefault((row["sender"], row["receiver"]), Counter()).update({name: row.get(name, 0) for name in names})
    return sums


def _expiries(result: Result) -> Iterator[Finding]:
    homes = {(row["id"], row["incarnation"]): row["home"] for row in result["endpoints"]}
    names = {row["id"]: row["endpoint"] for row in result["endpoints"]}
    ids = {name: sender for sender, name in names.items()}
    for row in result["silences"]:
        life = ids.get(row["sender"], row["sender"]), row["incarnation"]
        if row["expired"] and homes.get(life) != row["point"]:
            silent = duration(row["to_ns"] - row["from_ns"])
            where = f"at {row['point']} nothing of it was heard for {silent} from {clock(row['from_ns'])} UTC on"
            yield Finding(BAD, f"{row['sender']} was given up although it lived: {where}.")


def _restarts(result: Result) -> Iterator[Finding]:
    lives = Counter(row["endpoint"] for row in result["endpoints"])
    for name, count in lives.items():
        if count > 1:
            yield Finding(NOTE, f"{name} was started {count} times.")


def _clocks(result: Result) -> Iterator[Finding]:
    for row in result["clocks"]:
        if row["bound"] is None:
            yield Finding(NOTE, f"A clock of {row['from']} or {row['to']} was set; delays between them are a guess.")


def _models(result: Result) -> Iterator[Finding]:
    """Yield the leaders of each model, and the time of a commit."""
    terms: dict[str, list[Row]] = {}
    for row in result["leaders"]:
        if row["leader"] is not None:
            terms.setdefault(row["model"], []).append(row)
    told = [row for row in result["latencies"] if row["measure"] == "commit"]
    # For each receiver the row with the most commits comes last and stays.
    commits = {row["receiver"]: row for row in sorted(told, key=lambda row: int(row["count"]))}
    for model, rows in terms.items():
        name, changes = f"model {model}", len({row["term"] for row in rows}) - 1
        text = f"The {name} was led by {rows[0]['leader']} throughout"
        if changes:
            vacant = max((row["vacant_ns"] for row in rows if row["vacant_ns"] is not None), default=0)
            text = f"The {name} changed its leader {changes} times" if changes > 1 else f"The {name} changed its leader"
            text += f", and was at most {duration(vacant)} without a leader"
        if name in commits:
            text += "; " + _quantiles(commits[name], "commits")
        yield Finding(NOTE if changes else GOOD, text + ".")


def _speed(result: Result) -> Iterator[Finding]:
    trips = [row for row in result["latencies"] if row["measure"] == "round trip"]
    if trips:
        worst = slowest(trips)
        text = _quantiles(worst, f"round trips from {worst['sender']} to {worst['receiver']}")
        yield Finding(GOOD, f"{text[0].upper()}{text[1:]}: the slowest pair.")


def slowest(rows: Sequence[Row]) -> Row:
    """Return the row of `latencies` with the longest p99 among rows with enough samples, else with the longest time."""
    sure = [row for row in rows if percentile(row, "p99")]
    return max(sure, key=lambda row: float(row["p99_ns"])) if sure else max(rows, key=lambda row: float(row["most_ns"]))


def percentile(row: Row, name: str) -> str | None:
    """Return a percentile of a row of `latencies` as text, None with too few samples."""
    return duration(row[f"{name}_ns"]) if row["count"] >= ENOUGH[name] else None


def _quantiles(row: Row, what: str) -> str:
    """Return a text about percentiles, or about the longest time if there are few samples."""
    p50, p99 = percentile(row, "p50"), percentile(row, "p99")
    if p50 and p99:
        return f"half of the {what} took less than {p50}, 99 % less than {p99}"
    if p50:
        return f"half of the {row['count']:,} {what} took less than {p50}, the longest {duration(row['most_ns'])}"
    return f"too few {what} for percentiles ({row['count']:,}, the longest {duration(row['most_ns'])})"


def percent(share: float) -> str:
    """Format a share in per cent."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


def duration(nanoseconds: float) -> str:
    """Format a duration with three digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(nanoseconds) >= 0.9995 * size:  # a value that rounds to 1,000 of the smaller unit is 1 of this unit
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def clock(time_ns: int) -> str:
    """Format a time of day (UTC), to the second."""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%H:%M:%S")
