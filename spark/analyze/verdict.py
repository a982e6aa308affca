"""What an analysis comes to, in sentences: the worst first, each with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

Row = dict[str, Any]
Result = dict[str, Any]

GOOD, NOTE, BAD = "good", "note", "bad"
NOTABLE_LOSS = 0.001  # of what was sent; less is told only in tables
BAD_LOSS = 0.05
MOST_OF_A_KIND = 5  # sentences


class Finding(NamedTuple):
    """One sentence of the verdict; `level` is `GOOD`, `NOTE` or `BAD`."""

    level: str
    text: str


def verdict(result: Result) -> list[Finding]:
    """The findings of an analysis, the worst first; never empty."""
    kinds = (_files, _namesakes, _losses, _missed, _expiries, _restarts, _clocks, _models)
    found = [finding for kind in kinds for finding in _shortened(list(kind(result)))]
    if not any(finding.level != GOOD for finding in found):
        observed = any(row["sent"] for row in result["pairs"])
        lost = "Nothing of note was lost" if observed else "Nothing betrays a loss, which no single capture sees itself"
        found.insert(0, Finding(GOOD, f"{lost}, and nobody was given up."))
    found += _speed(result)
    return sorted(found, key=lambda finding: (BAD, NOTE, GOOD).index(finding.level))


def pair_totals(result: Result) -> dict[tuple[str, str], Counter[str]]:
    """The counts of `pairs` by sender and receiver over all of the trace."""
    totals: dict[tuple[str, str], Counter[str]] = {}
    for row in result["pairs"]:
        if row["receiver"] is not None:
            counter = totals.setdefault((row["sender"], row["receiver"]), Counter())
            counter.update({name: value for name, value in row.items() if name in COUNTED})
    return totals


def _shortened(findings: list[Finding]) -> list[Finding]:
    """The first ones of a kind, and how many more there are."""
    rest = findings[MOST_OF_A_KIND:]
    if not rest:
        return findings
    return [*findings[:MOST_OF_A_KIND], Finding(rest[0].level, f"… and {len(rest)} more like these.")]


def _files(result: Result) -> Iterator[Finding]:
    """Captures that could not be read whole, or that say themselves that they are not."""
    dropped: dict[str, int] = {}
    for row in result["files"]:
        dropped[row["file"]] = max(dropped.get(row["file"], 0), row["dropped"] or 0)
        if row["fault"] is not None:
            rest = "" if row["unread"] is None else f"; {row['unread']:,} bytes of it were not read"
            more = f", and in {row['faults'] - 1:,} places behind" if row["faults"] > 1 else ""
            text = f"{row['file']} is damaged at byte {row['fault_offset']:,}{more}: {row['fault']}{rest}."
            yield Finding(BAD, text)
    for file, count in dropped.items():
        if count:
            yield Finding(NOTE, f"{file} lacks {count:,} frames: the system that captured them says it dropped them.")


def _namesakes(result: Result) -> Iterator[Finding]:
    """Capture points that bear one name."""
    for name, places in result["trace"].get("namesakes", {}).items():
        text = (
            f"{len(places)} captures made at the same time name one place, {name}: each counts as a place of its own, "
        )
        yield Finding(NOTE, text + f"named by its file: {', '.join(places)}.")


COUNTED = ("sent", "arrived", "lost", "duplicates", "later_attempts", "unobserved", "seen", "bytes")


def _losses(result: Result) -> Iterator[Finding]:
    repairs = _sums(result["repairs"], ("unrepaired", "frames"))
    times = {(row["sender"], row["receiver"]): row for row in result["latencies"] if row["measure"] == "repair"}
    unseen = _sums(result["streams"], ("unseen",))
    totals, spans = pair_totals(result), _lossy_spans(result)
    for (sender, receiver), counter in sorted(totals.items(), key=lambda item: -item[1]["lost"]):
        by_capture = unseen.get((sender, receiver), Counter())["unseen"]
        rate = _rate(counter)
        network_rate = (counter["lost"] - by_capture) / counter["sent"] if counter["sent"] else 0.0
        if network_rate < NOTABLE_LOSS:
            if by_capture:
                text = f"The capture at {receiver} missed at least {by_capture:,} of the {counter['sent']:,} datagrams "
                text += f"from {sender}: they were acknowledged, so the network did not lose them."
                yield Finding(NOTE, text)
            continue
        begin, end = spans[sender, receiver]
        text = f"{receiver} lost {percent(rate)} of what {sender} sent ({counter['lost']:,} of {counter['sent']:,}) "
        text += f"between {clock(begin)} and {clock(end)} UTC"
        fixed = repairs.get((sender, receiver), Counter())
        if fixed["unrepaired"]:
            text += f"; {fixed['unrepaired']:,} messages' frames were not repaired within the trace"
        elif fixed["frames"]:
            text += ", all data repaired"
        if (sender, receiver) in times:
            text += f", p99 {duration(times[sender, receiver]['p99_ns'])}"
        if by_capture:
            text += f"; {by_capture:,} or more of these only the capture missed, as they were acknowledged"
        yield Finding(BAD if network_rate >= BAD_LOSS or fixed["unrepaired"] else NOTE, text + ".")


def _missed(result: Result) -> Iterator[Finding]:
    """Losses on the way to a point whose senders nobody captured: what the numbers of attempts tell."""
    for (sender, receiver), counter in _sums(result["repairs"], ("missed", "frames")).items():
        if counter["missed"]:
            text = f"At least {counter['missed']:,} of {sender}'s transmissions did not reach {receiver}: "
            yield Finding(NOTE, text + f"{counter['frames']:,} frames came with a resend's number.")


def _rate(counter: Counter[str]) -> float:
    return counter["lost"] / counter["sent"] if counter["sent"] else 0.0


def _lossy_spans(result: Result) -> dict[tuple[str, str], tuple[int, int]]:
    """From the first to the last interval with losses, by sender and receiver."""
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
        sums.setdefault((row["sender"], row["receiver"]), Counter()).update({name: row[name] for name in names})
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
    """Who led each model, and how fast it committed."""
    terms: dict[str, list[Row]] = {}
    for row in result["leaders"]:
        if row["leader"] is not None:
            terms.setdefault(row["model"], []).append(row)
    told = [row for row in result["latencies"] if row["measure"] == "commit"]
    commits = {row["receiver"]: row for row in sorted(told, key=lambda row: int(row["count"]))}  # who committed most
    for model, rows in terms.items():
        name, changes = f"model {model}", len({row["term"] for row in rows}) - 1
        text = f"The {name} was led by {rows[0]['leader']} throughout"
        if changes:
            vacant = max((row["vacant_ns"] for row in rows if row["vacant_ns"] is not None), default=0)
            text = f"The {name} changed its leader {changes} times" if changes > 1 else f"The {name} changed its leader"
            text += f", and was at most {duration(vacant)} without a leader"
        if name in commits:
            text += f"; half of its commits took less than {duration(commits[name]['p50_ns'])}"
            text += f", 99 % less than {duration(commits[name]['p99_ns'])}"
        yield Finding(NOTE if changes else GOOD, text + ".")


def _speed(result: Result) -> Iterator[Finding]:
    trips = [row for row in result["latencies"] if row["measure"] == "round trip"]
    if trips:
        worst = max(trips, key=lambda row: row["p99_ns"])
        text = f"Half of the round trips from {worst['sender']} to {worst['receiver']} took less than "
        text += f"{duration(worst['p50_ns'])}, 99 % less than {duration(worst['p99_ns'])}: the slowest pair."
        yield Finding(GOOD, text)


def percent(share: float) -> str:
    """A share for humans."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


def duration(nanoseconds: float) -> str:
    """A duration for humans: three digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(nanoseconds) >= 0.9995 * size:  # what rounds to 1,000 of the smaller unit is 1 of this one
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def clock(time_ns: int) -> str:
    """A time of day (UTC), to the second."""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%H:%M:%S")
