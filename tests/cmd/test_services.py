"""What commands share: interfaces, metrics, logs, the service manager; and `glue record`, `keep`, `simulate`."""

from __future__ import annotations

import json
import logging
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.cmd import (
    common,
    keep,
    logs,
    record,
    service,
    session,
    simulate,
)
from glue.cmd import main as glue_main
from glue.errors import ConfigurationError, InterfaceError
from glue.settings import effective
from glue.simulation.consensus import STORM, RunResult
from tests.cmd.prepared import Calls, Time, noting, people, programs

Capture = pytest.CaptureFixture[str]


def test_choosing_an_interface_for_a_command() -> None:
    several = effective({"interface": "a,b"})
    with pytest.raises(ConfigurationError, match="--interface a,b: this command takes one interface at a time"):
        session.choose(several)
    assert session.chosen(several) == ("a,b", "a and b, as asked for")
    name, reason = session.chosen(effective({"interface": "lo"}))
    assert (name, reason) == ("lo", "lo, as asked for")


def test_publishing_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(common, "pause", paused.append)
    answers = iter([glue.WouldBlockError(), glue.WouldBlockError(), None])

    def attempt(*given: Any, **options: Any) -> Any:
        if (answer := next(answers)) is not None:
            raise answer
        return given, options

    there: Any = SimpleNamespace(publish=attempt)
    assert session.publish(there, "t", 1, retain=True) == (("t", 1), {"block": False, "retain": True})
    assert paused == [0.001, 0.001]


def test_metrics_are_served_if_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(session, "MetricsServer", lambda tell, *place: noting(made, nullcontext())((tell(), *place)))
    monkeypatch.setattr(session, "exposition", lambda endpoint: f"of {endpoint}")
    monkeypatch.setattr(logs, "losses_logged", noting(made, nullcontext()))
    there: Any = "x"
    with session.watched(Namespace(metrics_port=None), there):
        pass
    assert len(made) == 1
    with session.watched(Namespace(metrics_port="127.0.0.1:77"), there):
        assert made[1] == ("of x", "127.0.0.1", 77)


def test_signals_make_logs_more_or_less_talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    before, handlers = root.level, root.handlers[:]
    try:
        root.handlers.clear()
        logs.begin("glue x", Namespace())
        assert root.level == logging.WARNING
        record = logging.LogRecord("glue", logging.INFO, "", 0, "it is %d", (7,), None)
        assert root.handlers[0].format(record) == "glue x: it is 7"
        seen = []
        for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGUSR1, *[signal.SIGUSR2] * 4):
            signal.raise_signal(number)
            seen.append(root.level)
        assert seen == [20, 10, 10, 20, 30, 40, 40]
        logs.end()
        assert signal.getsignal(signal.SIGUSR1) is signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
        logs.end()
    try:
        raise ValueError("bad")
    except ValueError:
        failed = logging.LogRecord("glue.x", logging.ERROR, "", 0, "it failed", (), sys.exc_info())
    failed.created, failed.fields = 1.23456, {"cause": "y"}
    line = json.loads(logs.JsonFormatter().format(failed))
    assert (line["time"], line["level"], line["logger"], line["cause"]) == (1.235, "error", "glue.x", "y")
    assert line["error"].endswith("ValueError: bad")


def test_losses_are_looked_for_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    assert logs.LOSS_INTERVAL == 10.0
    monkeypatch.setattr(logs, "LOSS_INTERVAL", 0.001)
    monkeypatch.setattr(logs.LossLog, "look", lambda log, statistics: looked.append(statistics))
    with logs.losses_logged(lambda: {"x": {"lost": 1}}):
        end = time.monotonic() + 20.0
        while not looked and time.monotonic() < end:
            time.sleep(0.001)
    count = len(looked)
    assert looked[0] == {"x": {"lost": 1}}
    time.sleep(0.005)
    assert len(looked) == count


def test_a_loss_is_logged_once_with_what_is_new_of_it(caplog: pytest.LogCaptureFixture) -> None:
    log = logs.LossLog()
    with caplog.at_level(logging.WARNING, "glue"):
        for count in (3, 5, 5, 6):
            log.look({"transport": {"frames lost": count, "frames sent": 10 * count}})
    assert [one.getMessage() for one in caplog.records] == [
        "transport: frames lost: 3 (3 in all)", "transport: frames lost: 2 (5 in all)",
        "transport: frames lost: 1 (6 in all)",
    ]  # fmt: skip


def test_a_service_manager_hears_by_a_path_or_an_abstract_name(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    channel = SimpleNamespace(sendto=lambda *given: told.append(given))
    monkeypatch.setattr("socket.socket", lambda *_: nullcontext(channel))
    for address in ("/run/x", "@a@b", "relative", ""):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        service.tell(service.READY)
    assert told == [(b"READY=1", "/run/x"), (b"READY=1", "\0a@b")]


def test_a_failed_run_is_repeated_by_the_conditions_of_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        simulate.options(["slow disk", "crash"], 3.5, forged=True) == " --without slow-disk,crash --storm 3.5 --forged"
    )
    assert simulate.options([], STORM, forged=False) == ""
    result = RunResult(5, "abc", 1, 2, {}, {}, "two leaders")
    assert simulate.fields(result) == {"seed": 5, "violation": "two leaders", "trace_hash": "abc"}
    asked: list[Any] = []
    monkeypatch.setattr(simulate, "shrunk", noting(asked, ((), 2.0)))
    given = simulate.parser().parse_args(["--forged"])
    lines = people(lambda output: simulate.tell_failure(given, result, output)).splitlines()
    again = "  python -m glue.cmd.simulate --layer model --first 5 --seeds 1"
    assert lines == [
        "seed 5: two leaders (trace abc)", f"{again} --forged --trace", f"{again} --storm 2 --forged --trace",
    ]  # fmt: skip
    assert asked == [(result, True)]


def test_the_help_groups_the_commands(capsys: Capture) -> None:
    assert glue_main.main(["-h"]) == glue_main.main(["help"]) == 0
    assert glue_main.HELP.splitlines()[4:9] == [
        "try it:", "  demo           four endpoints in four processes share a topic, shown live",
        "  topics         show the messages of a topic, and publish to it",
        "  endpoint       subscribe and publish from a shell", "",
    ]  # fmt: skip
    assert glue_main.main(["xyzzy"]) == 2
    assert capsys.readouterr().err.startswith("glue: no command 'xyzzy'; there are model, topics, ")


def recorded(**changed: Any) -> Any:
    return SimpleNamespace(**{"messages": 1234, "bytes": 5678, "left_out": 0, "failure": "", **changed})


def test_what_was_recorded_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    one: Any = SimpleNamespace(frames=1234, bytes=5678, paths=[Path("a"), Path("b")])
    assert people(lambda output: record.report(output, one, None)) == "1,234 frames, 5,678 bytes, drops unknown: a b\n"
    assert people(lambda output: record.report(output, one, 1000)) == "1,234 frames, 5,678 bytes, 1,000 dropped: a b\n"
    assert programs(lambda output: record.report(output, one, 0)) == [
        {"event": "recorded", "frames": 1234, "bytes": 5678, "dropped": 0, "files": ["a", "b"]}
    ]
    closed: list[int] = []
    failed = recorded(failure="no space", close=lambda: closed.append(1))
    there: Any = Calls(record=failed)
    monkeypatch.setattr(record, "open_endpoint", lambda *_, **options: nullcontext(there))
    monkeypatch.chdir(tmp_path)  # a line shows no more than the end of a long path
    file = "x.mcap"
    assert record.main(["--output", file, "--topics", "a/#"]) == 1
    assert there.calls == [("record", "a/#", file)]
    begun, ended = capsys.readouterr().out.splitlines()
    assert begun == f"recording a/# in {file}; Ctrl-C ends it"
    assert ended == f"1,234 messages, 5,678 bytes: {file}; it ended early: no space"
    assert closed == [1]


@pytest.mark.parametrize(("engine", "there", "used"), [
    ("auto", True, "ring"), ("auto", False, "scapy"), ("ring", True, "ring"), ("scapy", True, "scapy"),
    ("ring", False, ""),
])  # fmt: skip
def test_the_fastest_way_of_capturing_is_taken(
    engine: str, there: bool, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr("glue.capture.ring.is_available", lambda interface: there and interface == "eth0")
    monkeypatch.setattr("glue.capture.ring.Ring", lambda *given, promiscuous: made.append((*given, promiscuous)))
    monkeypatch.setattr(record, "Sniffer", lambda *given, promiscuous: made.append((*given, promiscuous)))
    given = Namespace(engine=engine, promiscuous=True)
    if not used:
        with pytest.raises(InterfaceError, match="there is no ring for eth0"):
            record.open_source(given, "eth0", 77)
    else:
        assert record.open_source(given, "eth0", 77)[1] == used
        assert made == [("eth0", 77, True)]


def test_frames_are_moved_until_the_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Time()
    monkeypatch.setattr(record, "time", clock)
    reads: list[Any] = []

    def read(timeout: float, write: Any) -> int:
        reads.append((timeout, write))
        clock.now += 0.5
        if len(reads) == 5:
            common._ending.asked = True
        return 1

    recording: Any = Calls()
    recording.frames, recording.bytes = 1000, 2000
    progress: Any = Calls()
    source: Any = SimpleNamespace(read=read)
    write: Any = "write"
    try:
        with pytest.raises(common.Ended):
            record.record(source, recording, write, progress)
    finally:
        common._ending.asked = False
    assert reads == [(0.2, "write")] * 5
    assert recording.calls == [("flush",)] * 2
    assert progress.calls == [("tell", "1,000 frames, 2,000 bytes")] * 2


def test_a_keeper_tells_what_it_keeps(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    log = SimpleNamespace(first=3, end=10, id="l", durable=5, failure="")
    keeper = SimpleNamespace(log=log, failure="")
    there: Any = Calls(keep=keeper)
    monkeypatch.setattr(keep, "open_endpoint", lambda *_: nullcontext(there))

    def pause(seconds: float) -> None:
        assert seconds == 1.0
        if log.durable > 6:
            raise common.Ended
        log.durable += 1

    monkeypatch.setattr(common, "pause", pause)
    words = ["a/#", "b", "--data-dir", "d", "--age", "1d", "--size", "1GB", "--count", "2", "--replicas", "3"]
    assert keep.main(words) == 0
    assert capsys.readouterr().out.splitlines() == [
        "keeping a/#, b in d; 7 messages so far", "messages on disk: 6", "messages on disk: 7",
    ]  # fmt: skip
    options = {"data_dir": "d", "age": "1d", "size": "1GB", "count": 2, "replicas": 3}
    assert there.calls == [("keep", "a/#", options), ("keep", "b", options)]
    log.failure = keeper.failure = "no space"
    assert keep.main(words) == 1
    assert capsys.readouterr().err == "no space\n"


def test_peers_that_are_there_before_the_start_is_told_come_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    class Endpoint:
        name, id, incarnation = "me", "m", 1
        on_peer_added: Any = None
        on_peer_removed: Any = None
        statistics: Any = None
        settings = effective({"interface": "lo"})

        def __init__(self, **settings: Any) -> None:
            assert settings == {"interface": "lo"}

        def __enter__(self) -> None:
            if self.on_peer_added is not None:
                self.on_peer_added(glue.Peer("early", "e", 1, ("10.0.0.1", 7)))

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("glue.Endpoint", Endpoint)
    monkeypatch.setattr(logs, "losses_logged", lambda statistics: nullcontext())
    arguments = common.common_parser("x", "X.").parse_args(["--interface", "lo"])

    def use(output: Any, quiet: bool = False) -> None:
        with session.open_endpoint(arguments, output, quiet) as endpoint:
            if endpoint.on_peer_removed is not None:
                endpoint.on_peer_removed(glue.Peer("late", "l", 1, ("10.0.0.2", 7), reason="goodbye"))

    lines = people(use).splitlines()
    assert lines[0] == "me on lo, as asked for; Ctrl-C ends"
    assert [line.split()[:2] for line in lines[1:]] == [["+", "early"], ["-", "late"]]
    assert people(lambda output: use(output, quiet=True)) == ""
    events = programs(lambda output: use(output, quiet=True))
    assert [(one["event"], one["endpoint"]) for one in events] == [
        ("started", "me"), ("peer_added", "me"), ("peer_removed", "me"),
    ]  # fmt: skip
    assert (events[0]["interface"], events[0]["id"], events[0]["network_id"]) == ("lo", "m", 1)


def test_a_peer_that_comes_just_as_the_start_was_told_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals: list[Callable[[], None]] = []

    class Gate:
        """A lock behind which a peer waits."""

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            if arrivals:
                arrivals.pop()()

    class Endpoint:
        name = "me"
        on_peer_added: Any

        def __init__(self, **settings: Any) -> None:
            pass

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    def start(output: Any, endpoint: Any) -> None:
        arrivals.append(lambda: endpoint.on_peer_added(glue.Peer("next", "n", 1, ("10.0.0.1", 7))))

    monkeypatch.setattr("glue.Endpoint", Endpoint)
    monkeypatch.setattr(session, "threading", SimpleNamespace(Lock=Gate))
    monkeypatch.setattr(session, "report_start", start)
    monkeypatch.setattr(session, "watched", lambda *_: nullcontext())

    def use(output: Any) -> None:
        with session.open_endpoint(common.common_parser("x", "X.").parse_args([]), output):
            pass

    assert people(use).split()[:2] == ["+", "next"]
