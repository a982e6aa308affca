"""Digests by era: where eras begin, what a digest tells, and what is hashed again."""

from __future__ import annotations

from typing import Any

import pytest

from glue.contract.hashing import blake2s
from glue.history import eras
from glue.history.eras import EraSums, borders, era_of
from glue.storage import MemoryLog, Record
from glue.storage.log import every_topic

NOTHING = "0" * 16


def log_of(*records: tuple[str, int, float]) -> MemoryLog:
    """A log with records of a topic, a number and a time."""
    log = MemoryLog("0" * 16)
    log.append([Record("p" * 16, "p", 1, topic, number, [b"x"], at) for topic, number, at in records])
    return log


def sums(log: MemoryLog, hashes: eras.Hashes | None = None, limits: eras.Borders = (10_000_000, 5_000_000)) -> EraSums:
    """The sums of all streams."""
    found = EraSums(limits)
    for _ in found.add_all(
        log.streams(every_topic), lambda topic: topic != "unwanted", {} if hashes is None else hashes
    ):
        pass
    return found


def test_eras_are_of_the_last_minute_the_last_hour_and_before() -> None:
    assert borders(10_000.5) == (9_940_500_000, 6_400_500_000)
    assert borders(1000.0) == (940_000_000, 1)
    assert borders(0.0) == (1, 1)
    assert [era_of(at, (10_000_000, 5_000_000)) for at in (10.0, 9.999999, 5.0, 4.999999, 0.0)] == [0, 1, 1, 2, 2]


def test_a_digest_tells_of_the_streams_of_its_era_in_any_order() -> None:
    streams = [("a", 1, 10.0), ("b", 1, 10.0), ("c", 1, 7.0), ("d", 1, 1.0), ("unwanted", 1, 1.0)]
    hot, warm, cold = sums(log_of(*streams)).digests
    assert len({hot, warm, cold, NOTHING}) == 4
    assert {len(one) for one in (hot, warm, cold)} == {16}
    assert sums(log_of(*streams[::-1])).digests == (hot, warm, cold)
    assert sums(log_of(*streams)).looked == 5
    assert sums(log_of(*streams[:3])).digests == (hot, warm, NOTHING)
    assert sums(log_of(*streams[1:4])).digests != (hot, warm, cold)
    assert sums(log_of(*streams[:1])).digests[0] != sums(log_of(("a", 2, 10.0))).digests[0]


def test_only_streams_that_changed_are_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log, hashes, hashed = log_of(("a", 1, 10.0), ("b", 1, 10.0)), eras.Hashes(), list[str]()

    def noted(data: bytes, **more: Any) -> object:
        hashed.append(data.decode().rpartition("/")[2])
        return blake2s(data, **more)

    monkeypatch.setattr(eras, "blake2s", noted)
    before = sums(log, hashes).digests
    assert sums(log, hashes).digests == before
    assert hashed == ["a", "b"]
    for number in (2, 4, 3):
        log.append([Record("p" * 16, "p", 1, "b", number, [b"x"], 10.0)])
        after = sums(log, hashes).digests
        assert after != before
        assert after == sums(log).digests
        before = after
    assert hashed == ["a", "b", *["b", "a", "b"] * 3]
    assert KNOWN == eras.KNOWN
    hashes.update(dict.fromkeys(range(KNOWN - 2), (0, 0, 0, 0)))  # type: ignore[arg-type]  # other streams
    hashed.clear()
    sums(log, hashes)
    assert hashed == [], "so many are remembered"
    hashes[None] = 0, 0, 0, 0  # type: ignore[index]
    assert sums(log, hashes).digests == before
    assert hashed == ["a", "b"]
    assert len(hashes) == 2


KNOWN = 200_000


def test_streams_are_looked_at_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eras, "STREAMS", 2)
    log = log_of(*((str(number), 1, 10.0) for number in range(5)))
    found = EraSums((1, 1))
    looked = [found.looked for _ in found.add_all(log.streams(every_topic), lambda topic: True, {})]
    assert (looked, found.looked) == ([2, 4], 5)
