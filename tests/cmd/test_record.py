"""`glue record`: what endpoints say on an interface ends up in a file, by every way of capturing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from glue.sync.endpoint import Endpoint
from tests.cmd.conftest import Start
from tests.spark.rows import read


def may_capture() -> bool:
    """Whether this process has CAP_NET_RAW."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return os.geteuid() == 0
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> 13 & 1)


@pytest.mark.skipif(
    not may_capture() and os.environ.get("CI") != "true", reason="capturing needs root (the capability CAP_NET_RAW)"
)
@pytest.mark.parametrize("engine", ["auto", "scapy"])
def test_a_recording_misses_nothing_and_ends_on_ctrl_c(
    engine: str, start: Start, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GLUE_INTERFACE", "GLUE_MULTICAST_ADDRESS", "GLUE_NETWORK_ID"):
        monkeypatch.setenv(name, environment[name])
    path = tmp_path / "captures" / "trace.pcapng"  # a folder that is not there yet
    recorder = start("record", "--output", str(path), "--engine", engine, "--capture-point", "here")
    recorder.expect("recording")
    with Endpoint("kitchen") as kitchen, Endpoint("hall") as hall:
        hall.subscribe("lamp", lambda message: None)
        assert kitchen.wait_for_subscribers("lamp", 1, timeout=20)
        for _ in range(20):
            kitchen.publish("lamp", b"x" * 5000)
        assert kitchen.flush(20)
        spoken = {(kitchen.id, kitchen.incarnation), (hall.id, hall.incarnation)}
    recorder.process.send_signal(signal.SIGINT)
    assert recorder.finish() == 0, recorder.errors()
    told = recorder.events[-1]
    rows, tally = read(path)
    assert (told["event"], told["dropped"], tally.dropped, tally.fault) == ("recorded", 0, 0, None)
    assert told["frames"] == tally.records
    for life in spoken:
        counters = [row["counter"] for row in rows if (row["sender"], row["incarnation"]) == life]
        assert sorted(counters) == list(range(len(counters)))
        assert len(counters) > 3
    assert {row["capture_point"] for row in rows} == {"here"}
