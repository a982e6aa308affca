"""The verdict in words."""

from __future__ import annotations

from typing import Any

from spark.analyze.__main__ import summary
from spark.analyze.verdict import BAD, GOOD, NOTE, clock, duration, percent, verdict

SECOND = 10**9
TABLES = ("pairs", "streams", "repairs", "latencies", "silences", "endpoints", "clocks", "leaders", "files")


def result(**tables: list[dict[str, Any]]) -> dict[str, Any]:
    return {"trace": {"interval_ns": SECOND}, **{name: tables.get(name, []) for name in TABLES}}


def pair(sent: int, lost: int, interval: int) -> dict[str, Any]:
    counts = {"sent": sent, "arrived": sent - lost, "lost": lost, "duplicates": 0, "later_attempts": 0}
    return {"sender": "A", "receiver": "B", "interval": interval * SECOND, **counts}


def test_a_sound_network_is_called_so() -> None:
    assert verdict(result(pairs=[pair(1000, 0, 0)]))[0] == (GOOD, "Nothing of note was lost, and nobody was given up.")


def test_what_nobody_observed_is_not_called_whole() -> None:
    ((level, text),) = verdict(result(pairs=[pair(0, 0, 0)]))
    assert (level, text.split(",")[0]) == (GOOD, "Nothing betrays a loss")


def test_a_loss_is_told_with_its_time_and_its_repair() -> None:
    repairs = [{"sender": "A", "receiver": "B", "frames": 31, "unrepaired": 0, "missed": 0}]
    latencies = [{"measure": "repair", "sender": "A", "receiver": "B", "count": 100, "p99_ns": 41e6, "most_ns": 50e6}]
    pairs = [pair(500, 0, 36120), pair(400, 25, 36121), pair(100, 6, 36240), pair(0, 0, 36300)]
    (finding,) = verdict(result(pairs=pairs, repairs=repairs, latencies=latencies))
    assert finding.text == (
        "B lost 3.1 % of what A sent (31 of 1,000) between 10:02:01 and 10:04:01 UTC, all data repaired, p99 41 ms."
    )


def test_what_only_the_capture_missed_is_no_loss_of_the_network() -> None:
    streams = [{"sender": "A", "receiver": "B", "unseen": 20}, {"sender": "A", "receiver": "B", "unseen": 10}]
    (finding,) = verdict(result(pairs=[pair(1000, 30, 36000)], streams=streams))
    assert finding == (
        NOTE,
        "The capture at B missed at least 30 of the 1,000 datagrams from A: they were acknowledged, so the network did "
        "not lose them.",
    )
    (finding,) = verdict(result(pairs=[pair(1000, 60, 36000)], streams=streams))
    assert finding.level == NOTE  # 3 % of the network's own; 6 would be bad
    assert "lost 6 % of what A sent" in finding.text
    assert finding.text.endswith("; 30 or more of these only the capture missed, as they were acknowledged.")


def test_losses_are_put_down_to_the_link_that_they_share() -> None:
    names, lossy = ("A", "B", "C"), {("C", "A"), ("C", "B"), ("A", "C"), ("B", "C")}
    all_pairs = [(one, other) for one in names for other in names if one != other]
    pairs = [
        {**pair(1000, 30 if ends in lossy else 0, 36000), "sender": ends[0], "receiver": ends[1]} for ends in all_pairs
    ]
    repairs = [
        {"sender": "C", "receiver": "A", "frames": 10, "unrepaired": 0, "missed": 0, "mended": 30, "repaired": 10}
    ]
    (finding,) = verdict(result(pairs=pairs, repairs=repairs))
    assert finding == (
        NOTE,
        "Everything to and from C suffers, so it is the link of C: 3 % (120 of 4,000) between 10:00:00 and 10:00:01 "
        "UTC, all data repaired (75 % of 40 frames by parity, the rest by resends); the pairs without such a cause "
        "lost 0 %.",
    )


def test_a_percentile_is_told_only_of_enough_samples() -> None:
    def trips(count: int) -> str:
        row = {"measure": "round trip", "sender": "A", "receiver": "B", "count": count}
        row |= {"p50_ns": 1e6, "p99_ns": 2e6, "most_ns": 3 * 10**6}
        return verdict(result(pairs=[pair(1000, 0, 0)], latencies=[row]))[-1].text

    assert trips(100) == (
        "Half of the round trips from A to B took less than 1 ms, 99 % less than 2 ms: the slowest pair."
    )
    assert trips(99) == (
        "Half of the 99 round trips from A to B took less than 1 ms, the longest 3 ms: the slowest pair."
    )
    assert trips(1) == "Too few round trips from A to B for percentiles (1, the longest 3 ms): the slowest pair."


def test_the_longest_of_few_repairs_is_told_instead_of_a_percentile() -> None:
    repairs = [{"sender": "A", "receiver": "B", "frames": 1, "unrepaired": 0, "missed": 0}]
    latencies = [{"measure": "repair", "sender": "A", "receiver": "B", "count": 1, "p99_ns": 41e6, "most_ns": 41e6}]
    (finding,) = verdict(result(pairs=[pair(1000, 20, 0)], repairs=repairs, latencies=latencies))
    assert finding.text.endswith("all data repaired, the longest repair 41 ms (of 1).")


def test_a_damaged_file_is_told_before_what_it_made_unsure() -> None:
    sound = {"file": "a.pcap", "faults": 0, "fault": None, "fault_offset": None, "unread": None, "dropped": None}
    cut = {"file": "b.pcap", "faults": 1, "fault": "no such record", "fault_offset": 4096, "unread": 1200, "dropped": 7}
    twice = {**cut, "file": "c.pcap", "faults": 3, "dropped": None}
    again = {**twice, "file": "d.pcap", "faults": 2}
    later = {**cut, "fault": None, "dropped": 9}  # what a part says includes what was said before
    assert verdict(result(files=[sound, cut, twice, again, later])) == [
        (BAD, "b.pcap is damaged at byte 4,096: no such record; 1,200 bytes of it were not read."),
        (
            BAD,
            "c.pcap is damaged at byte 4,096, and in 2 places behind: no such record; 1,200 bytes of it were not read.",
        ),
        (
            BAD,
            "d.pcap is damaged at byte 4,096, and in 1 place behind: no such record; 1,200 bytes of it were not read.",
        ),
        (NOTE, "b.pcap lacks 9 frames: the system that captured them says it dropped them."),
    ]


def test_who_was_given_up_at_another_place_is_bad_and_ones_own_silence_is_not() -> None:
    silence = {"sender": "A", "incarnation": 1, "from_ns": 0, "to_ns": 7 * SECOND, "expired": True}
    endpoints = [{"endpoint": "A", "id": "a", "incarnation": 1, "home": "here"}]
    silences = [{**silence, "point": "here"}, {**silence, "point": "there"}]
    assert [finding.level for finding in verdict(result(silences=silences, endpoints=endpoints))] == [BAD]


def test_many_findings_of_a_kind_are_counted() -> None:
    endpoints = [{"endpoint": f"e{n // 2}", "id": f"{n}", "incarnation": n, "home": None} for n in range(20)]
    texts = [finding.text for finding in verdict(result(endpoints=endpoints))]
    assert texts[0] == "e0 was started 2 times."
    assert texts[5] == "… and 5 more like these."


def test_pairs_of_which_nothing_was_observed_are_no_rows_of_zeros() -> None:
    assert summary(result(pairs=[pair(0, 0, 36000)]))[-1].startswith("Give captures of several hosts")
    assert summary(result(pairs=[pair(0, 0, 36000), pair(100, 5, 36001)]))[-1].split()[:4] == ["A", "B", "100", "5"]


def test_numbers_are_told_with_the_digits_that_matter() -> None:
    assert [duration(value) for value in (12, 1234, 999_900, 41e6, 2.5e9)] == [
        "12 ns",
        "1.23 µs",
        "1 ms",
        "41 ms",
        "2.5 s",
    ]
    assert [percent(share) for share in (0.00123, 0.031, 0.5, 1.0)] == ["0.12 %", "3.1 %", "50 %", "100 %"]
    assert clock(0) == "00:00:00"
