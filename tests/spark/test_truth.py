"""Every figure of an analysis beside what the simulator knows to be true."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from pyspark.sql import SparkSession

from spark.analyze.job import Analysis, analyze
from spark.convert import frames
from tests.spark.scenario import CLOCKS, END, MESSAGES, ROOMS, Scenario
from tests.spark.truth import Outcome

NS = 10**9
Row = dict[str, Any]


class Found(NamedTuple):
    """An analysis beside the truth; `tables` with endpoints and points by name."""

    truth: Scenario
    analysis: Analysis
    tables: dict[str, list[Row]]


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    truth = Scenario()
    directory = tmp_path_factory.mktemp("captures")
    truth.taps.write(directory)
    analysis = analyze(frames(spark, [str(directory)], None), interval=3600)
    names = {life.sender: life.name for life in analysis.lives}
    tables = {}
    for name, table in analysis.tables.items():
        tables[name] = table.toArrow().to_pylist()
        for row in tables[name]:
            for column in ("sender", "receiver", "newcomer"):
                value = row.get(column)
                row[column] = analysis.points[value] if isinstance(value, int) else names.get(value, value)
    yield Found(truth, analysis, tables)
    analysis.close()


def pairs(found: Found) -> Iterator[tuple[str, str, list[Outcome]]]:
    for source in CLOCKS:
        for receiver in CLOCKS:
            sent = found.truth.between(source, receiver)
            if sent:
                yield source, receiver, sent


def test_every_endpoint_is_found_at_home(found: Found) -> None:
    assert {life.name: life.home for life in found.analysis.lives} == {name: name for name in CLOCKS}


def test_loss_and_duplicates_are_exact_for_each_pair(found: Found) -> None:
    told = {(row["sender"], row["receiver"]): row for row in found.tables["pairs"] if row["receiver"]}
    names = ("sent", "arrived", "lost", "duplicates")
    truth = {}
    for source, receiver, sent in pairs(found):
        arrived = sum(bool(outcome.arrived_at) for outcome in sent)
        copies = sum(len(outcome.arrived_at) for outcome in sent)
        truth[source, receiver] = (len(sent), arrived, len(sent) - arrived, copies - arrived)
    assert {pair: tuple(row[name] for name in names) for pair, row in told.items()} == truth
    assert {row["sender"] for row in told.values() if row["unobserved"]} == {"a", "b", "c"}  # before d was there
    assert sum(lost for _, _, lost, _ in truth.values()) > 300


def test_loss_is_exact_for_each_stream(found: Found) -> None:
    truth: Counter[tuple[str, str, int, bool]] = Counter()
    for source, receiver, sent in pairs(found):
        for outcome in sent:
            kind, *entry = found.truth.entry(outcome)
            if kind in ("data", "group"):
                truth[source, receiver, entry[-2], bool(outcome.arrived_at)] += 1
    told: Counter[tuple[str, str, int, bool]] = Counter()
    for row in found.tables["streams"]:
        if row["kind"] == "data":
            told[row["sender"], row["receiver"], row["channel"], True] += row["arrived"]
            told[row["sender"], row["receiver"], row["channel"], False] += row["lost"]
    assert +told == truth


def test_the_pattern_of_losses_is_exact(found: Found) -> None:
    told = {(row["sender"], row["receiver"]): row for row in found.tables["rhythm"]}
    for source, receiver, sent in pairs(found):
        runs = "".join(".X"[not outcome.arrived_at] for outcome in sent).replace(".", " ").split()
        row = told[source, receiver]
        assert (row["loss_periods"], row["longest_loss"]) == (len(runs), max(map(len, runs), default=0))


def test_reordering_and_jitter_are_those_of_the_true_arrivals(found: Found) -> None:
    told = {(row["sender"], row["receiver"]): row for row in found.tables["rhythm"]}
    for source, receiver, sent in pairs(found):
        came = sorted(
            (outcome.arrived_at[0], number, outcome.sent_at)
            for number, outcome in enumerate(sent)
            if outcome.arrived_at
        )
        highest = itertools.accumulate((number for _, number, _ in came), max)
        late = sum(number < high for (_, number, _), high in zip(came, highest, strict=True))
        row = told[source, receiver]
        assert row["reordered"] == late
        under_way = np.array([arrived - left for arrived, _, left in came])
        assert row["jitter_total_ns"] / NS == pytest.approx(np.abs(np.diff(under_way)).sum(), rel=0.01, abs=2e-3)


def test_each_one_way_delay_is_within_the_stated_bound(found: Found) -> None:
    truth = {
        (source, found.truth.counter(outcome), receiver): outcome.arrived_at[0] - outcome.sent_at
        for source, receiver, sent in pairs(found)
        for outcome in sent
        if outcome.arrived_at
    }
    rows = [row for row in found.tables["deliveries"] if row["under_way_ns"] is not None]
    assert len(rows) == len(truth)
    for row in rows:
        error = row["under_way_ns"] - truth[row["sender"], row["counter"], row["receiver"]] * NS
        assert abs(error) <= row["bound_ns"]


def test_offset_and_drift_of_each_clock_are_within_their_bounds(found: Found) -> None:
    assert len(found.analysis.relations) == 6
    for (first, second), (relation,) in found.analysis.relations.items():
        one, other = (found.analysis.points[number] for number in (first, second))
        for time in (2.0, 12.0, END - 1):
            truth = found.truth.taps.stamp(other, time) - found.truth.taps.stamp(one, time)
            assert relation.bound is not None
            assert abs(relation.at(found.truth.taps.stamp(one, time)) - truth) <= relation.bound + 1
        drift = (1 + CLOCKS[other][1]) / (1 + CLOCKS[one][1]) - 1
        assert relation.drift_bound is not None
        assert abs(relation.drift - drift) <= relation.drift_bound
        assert relation.bound is not None
        assert relation.bound < 3e6  # the least round trips are 2 to 4 ms


def true_round_trips(found: Found, owner: str, acker: str) -> list[float]:
    """The way there of the newest acknowledged frame and the way back of the first acknowledgement of it."""
    there: dict[tuple[int, int], float] = {}
    again: dict[tuple[int, int], float] = {}
    for outcome in sorted(found.truth.between(owner, acker), key=lambda outcome: outcome.sent_at):
        kind, *entry = found.truth.entry(outcome)
        if kind in ("data", "group"):
            if entry[0]:
                again.setdefault((entry[-2], entry[-1]), outcome.sent_at)
            elif outcome.arrived_at:
                there[entry[-2], entry[-1]] = outcome.arrived_at[0] - outcome.sent_at
    answers: dict[tuple[int, int], tuple[float, float]] = {}
    for outcome in found.truth.between(acker, owner):
        kind, *entry = found.truth.entry(outcome)
        if kind == "mended":
            entry = entry[1:]  # for the rest an acknowledgement
        if kind in ("ack", "mended") and outcome.arrived_at and entry[0] < 99_999:
            ranges = [int(number) for number in outcome.data.partition(b"\n")[2].strip(b"[]").split(b",") if number]
            newest = entry[2], entry[3] + (ranges[-1] if ranges else 0) - 1
            answer = outcome.arrived_at[0], outcome.arrived_at[0] - outcome.sent_at
            answers[newest] = min(answers.get(newest, answer), answer)
    return [
        there[frame] + back
        for frame, (came, back) in answers.items()
        if frame in there and came <= again.get(frame, came)
    ]


@pytest.mark.parametrize("acker", ["b", "c"])
def test_round_trips_are_within_a_percent(found: Found, acker: str) -> None:
    (told,) = [
        row
        for row in found.tables["latencies"]
        if (row["measure"], row["sender"], row["receiver"]) == ("round trip", "a", acker)
    ]
    truth = np.sort(true_round_trips(found, "a", acker)) * NS
    assert told["count"] == len(truth) > 200
    assert told["negative"] == 0
    assert (told["least_ns"], told["most_ns"]) == pytest.approx((truth[0], truth[-1]), rel=0.01)
    for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
        assert told[name] == pytest.approx(truth[int(np.ceil(share * len(truth))) - 1], rel=0.01)


def test_resends_and_repair_times_are_those_that_happened(found: Found) -> None:
    sent: dict[tuple[str, str, int, int], list[Outcome]] = {}
    later: Counter[tuple[str, str]] = Counter()
    for outcome in sorted(found.truth.outcomes, key=lambda outcome: outcome.sent_at):
        kind, *entry = found.truth.entry(outcome)
        if kind in ("data", "group"):
            sent.setdefault((outcome.source, outcome.receiver, entry[-2], entry[-1]), []).append(outcome)
            later[outcome.source, outcome.receiver] += entry[0] > 0
    pairs = {(row["sender"], row["receiver"]): row["later_attempts"] for row in found.tables["pairs"]}
    assert {pair: pairs[pair] for pair in later} == later
    again = {frame: outcomes for frame, outcomes in sent.items() if len(outcomes) > 1}
    told: Counter[str] = Counter()
    for row in found.tables["repairs"]:
        told.update({name: row[name] or 0 for name in ("frames", "resends", "spare", "unrepaired")})
    arrivals = [sum(bool(outcome.arrived_at) for outcome in outcomes) for outcomes in again.values()]
    assert told == +Counter(
        frames=len(again),
        resends=sum(len(outcomes) - 1 for outcomes in again.values()),
        spare=sum(max(0, count - 1) for count in arrivals),
        unrepaired=arrivals.count(0),
    )
    took = [
        min(outcome.arrived_at[0] for outcome in outcomes if outcome.arrived_at) - outcomes[0].sent_at
        for outcomes in again.values()
        if any(outcome.arrived_at for outcome in outcomes) and not outcomes[0].arrived_at
    ]
    rows = [row for row in found.tables["latencies"] if row["measure"] == "repair"]
    assert sum(row["count"] for row in rows) == pytest.approx(len(took), abs=2)  # one may have overtaken a resend
    assert max(row["most_ns"] for row in rows) == pytest.approx(max(took) * NS, abs=3e6)


def test_what_parity_gave_back_is_what_never_arrived_and_was_not_missed(found: Found) -> None:
    arrived: dict[tuple[int, int], bool] = {}
    for outcome in found.truth.between("a", "b"):
        kind, *_, channel, place = found.truth.entry(outcome) if len(found.truth.entry(outcome)) == 8 else (None, 0, 0)
        if kind in ("data", "group"):
            arrived[channel, place] = arrived.get((channel, place), False) or bool(outcome.arrived_at)
    told = sum(row["mended"] for row in found.tables["repairs"] if (row["sender"], row["receiver"]) == ("a", "b"))
    assert told == list(arrived.values()).count(False) > 5


def test_messages_in_fragments_come_together_when_they_did(found: Found) -> None:
    rows = {(row["sender"], row["receiver"]): row for row in found.tables["reassemblies"]}
    firsts: dict[tuple[int, int], dict[int, float]] = {}
    needed: dict[tuple[int, int], int] = {}
    for outcome in found.truth.between("a", "b"):
        header = found.truth.headers[outcome.data]
        if "fragment" in header and outcome.arrived_at:
            _, size, total, index = header["fragment"]
            first = header["transport"][-2], header["transport"][-1] - index
            parts, needed[first] = firsts.setdefault(first, {}), -(-total // size)
            parts[index] = min(parts.get(index, outcome.arrived_at[0]), outcome.arrived_at[0])
    whole = [parts for first, parts in firsts.items() if len(parts) == needed[first]]  # others: completed by parity
    assert rows["a", "b"]["messages"] == len(firsts) > len(whole) == rows["a", "b"]["complete"]
    assert len(firsts) == MESSAGES // 5 + MESSAGES // 100
    took = max(max(parts.values()) - min(parts.values()) for parts in whole)
    (told,) = [row for row in found.tables["latencies"] if row["measure"] == "reassembly" and row["receiver"] == "b"]
    assert told["most_ns"] == pytest.approx(took * NS, rel=0.001)


def test_messages_and_bytes_of_each_topic_are_exact(found: Found) -> None:
    told = {row["topic"]: row for row in found.tables["topics"]}
    assert (told["t/x"]["messages"], told["t/x"]["bytes"]) == (MESSAGES, sum(len(str(n)) for n in range(MESSAGES)))
    assert sum(told[f"u/{number}"]["bytes"] for number in range(3)) == 9000 * MESSAGES // 5
    sizes = [sum(len(str(number)) for number in range(0, MESSAGES, 100))] * ROOMS  # behind an index of several frames
    assert [told[f"t/room-{room:02}/temperature"]["bytes"] for room in range(ROOMS)] == sizes
    assert {told[f"t/room-{room:02}/temperature"]["messages"] for room in range(ROOMS)} == {MESSAGES // 100}


def test_a_late_joiner_caught_up_when_the_last_retained_value_had_been_sent(found: Found) -> None:
    (row,) = found.tables["late_joiners"]
    assert (row["sender"], row["newcomer"], row["values"]) == ("a", "d", 3)
    appeared = min(outcome.arrived_at[0] for outcome in found.truth.between("d", "a") if outcome.arrived_at)
    told = max(
        outcome.sent_at
        for outcome in found.truth.between("a", "d")
        if b'"retain":2' in outcome.data and b'["data",' in outcome.data
    )
    assert row["caught_up_ns"] == pytest.approx((told - appeared) * NS, abs=1000)


def test_who_was_given_up_although_alive_is_told(found: Found) -> None:
    expired = {(row["point"], row["sender"]) for row in found.tables["silences"] if row["expired"]}
    assert expired == {("c", "a"), ("c", "b"), ("c", "d"), ("a", "c"), ("b", "c"), ("d", "c")}
    assert found.truth.removed["a expired"] == found.truth.removed["b expired"] == 1
