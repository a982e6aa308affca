"""What is unusual in a header or a train is read as nothing, never as what stands beside it."""

from __future__ import annotations

from pathlib import Path

from tests.spark.captures import GOLDEN, frame, numbered, pcap
from tests.spark.rows import read_bytes

BARE = b'{"glue":[1,1,"e36759dea8a54260",7,1]}\n'
DATA = numbered(GOLDEN["data"], 5)


def test_a_datagram_without_a_layer_has_no_kind_beside_others_that_have(tmp_path: Path) -> None:
    rows, _ = read_bytes(tmp_path, pcap([frame(datagram) for datagram in (DATA, BARE, GOLDEN["parity"], BARE)]))
    assert [row["kind"] for row in rows] == ["data", None, "parity", None]


def train(*counters: int) -> bytes:
    return b"".join(numbered(DATA, counter).ljust(600, b".") for counter in counters)


def test_a_train_whose_capture_ends_within_a_counter_is_cut(tmp_path: Path) -> None:
    end = DATA.index(b",5]") + 1
    rows, _ = read_bytes(tmp_path, pcap([frame(train(5, 6)[: 600 + end])]))
    assert [row["counter"] for row in rows][:1] == [5]
    assert rows[0]["size"] == 600


def test_a_payload_that_begins_like_a_header_without_a_counter_is_no_datagram_of_a_train(tmp_path: Path) -> None:
    broken = train(5, 6).replace(b",6]", b",x]")
    rows, _ = read_bytes(tmp_path, pcap([frame(broken)]))
    assert [(row["counter"], row["size"]) for row in rows] == [(5, len(broken))]
