"""What looks like a record, but was captured on another day, is no record to read on from."""

from __future__ import annotations

import numpy as np
import pytest

from spark.read.resync import NEAR, is_record_chain
from tests.spark.captures import GOLDEN, START_NS, frame, pcap

SECONDS = START_NS // 10**9


@pytest.mark.parametrize(
    ("seconds", "is_plausible"),
    [(None, True), (SECONDS, True), (SECONDS + NEAR, True), (SECONDS + NEAR + 1, False), (SECONDS - NEAR - 1, False)],
)
def test_records_of_another_day_are_no_chain(seconds: int | None, is_plausible: bool) -> None:
    data = pcap([frame(GOLDEN["data"])])
    buffer = np.frombuffer(data, np.uint8)
    assert is_record_chain(buffer, len(data), 24, "<", 10**9, seconds, True) is is_plausible
