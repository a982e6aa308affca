"""`glue record` without a network: what is opened, when it is flushed, and what is told at the end."""

from __future__ import annotations

import socket
from argparse import Namespace
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.capture import ring
from glue.cmd import common, record
from glue.errors import InterfaceError
from glue.network import sockets
from tests.cmd.prepared import Calls, Time, noting, people, programs


@pytest.mark.parametrize(
    ("engine", "is_available", "found"),
    [("auto", True, "ring"), ("auto", False, "scapy"), ("ring", True, "ring"), ("scapy", True, "scapy")],
)
def test_the_fastest_source_or_the_wanted_one_is_opened(
    monkeypatch: pytest.MonkeyPatch, engine: str, is_available: bool, found: str
) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(ring, "is_available", lambda interface: interface == "lan0" and is_available)
    monkeypatch.setattr(ring, "Ring", lambda *told, **more: opened.append(("ring", *told, more)))
    monkeypatch.setattr(record, "Sniffer", lambda *told, **more: opened.append(("scapy", *told, more)))
    given = Namespace(engine=engine, promiscuous=True)
    assert record.open_source(given, "lan0", 5_000)[1] == found
    assert opened == [(found, "lan0", 5_000, {"promiscuous": True})]


def test_a_ring_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "is_available", lambda interface: False)
    with pytest.raises(InterfaceError, match=r"there is no ring for lan0: .*use --engine scapy"):
        record.open_source(Namespace(engine="ring", promiscuous=False), "lan0", 5_000)


def test_frames_are_moved_until_the_end_and_flushed_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr(record, "time", time)
    flushed, told, asked = list[float](), list[Any](), list[Any]()
    recording: Any = SimpleNamespace(flush=lambda: flushed.append(time.now), frames=1_234, bytes=56_789)

    def read(timeout: float, write: Any) -> int:
        asked.append((timeout, write))
        time.now += 0.25
        return 1

    def check() -> None:
        if time.now >= 1_002.5:
            raise common.Ended

    monkeypatch.setattr(common, "check", check)
    source: Any = SimpleNamespace(read=read)
    with pytest.raises(common.Ended):
        record.record(source, recording, "write", SimpleNamespace(tell=noting(told)))  # type: ignore[arg-type]
    assert flushed == [1_001.0, 1_002.0]
    assert told == ["1,234 frames, 56,789 bytes"] * 2
    assert asked == [(common.NAP, "write")] * 10


def test_what_was_recorded_and_what_was_not_is_told() -> None:
    recording: Any = SimpleNamespace(frames=1_234, bytes=56_789, paths=[Path("a"), Path("b")])
    assert people(lambda output: record.report(output, recording, 5_678)) == (
        "1,234 frames, 56,789 bytes, 5,678 dropped: a b\n"
    )
    assert people(lambda output: record.report(output, recording, None)).endswith("bytes, drops unknown: a b\n")
    assert programs(lambda output: record.report(output, recording, 0)) == [
        {"event": "recorded", "frames": 1_234, "bytes": 56_789, "dropped": 0, "files": ["a", "b"]}
    ]


class Recording:
    """A file of datagrams."""

    made: list[Any]
    frames, bytes, paths = 3, 40, (Path("x"),)

    def __init__(self, *told: Any, **more: Any) -> None:
        self.made.append((*told, more))

    def write(self, *frame: Any) -> None:
        self.made.append(("write", *frame))

    def close(self, dropped: int | None) -> None:
        self.made.append(("close", dropped))


def test_a_recording_has_the_place_and_the_limits_of_its_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    joined: list[Any] = []
    made: list[Any] = []
    Recording.made = made
    source: Any = Calls(count_drops=7)
    source.link = 276
    interface = SimpleNamespace(name="lan0")
    monkeypatch.setattr(record, "choose", lambda settings: SimpleNamespace(interface=interface))
    monkeypatch.setattr(record, "open_source", lambda arguments, name, port: (source, f"{name} {port}"))
    monkeypatch.setattr(sockets, "join", lambda member, group, chosen: joined.append((group.port, chosen)))
    monkeypatch.setattr(record, "Recording", Recording)
    monkeypatch.setattr(record, "record", lambda source, recording, write, progress: write(1, b"ab", 2))
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    network = ["--multicast-address", "239.1.2.3:5001"]
    path = str(tmp_path / "new" / "trace.pcapng")
    assert record.main(["--output", path, *network]) == 0
    infinite = float("inf")
    limits = {"rotate_bytes": infinite, "rotate_seconds": infinite, "keep": None, "is_secret": False}
    assert made == [(path, "here-lan0", 276, limits), ("write", 1, b"ab", 2), ("close", 7)]
    assert joined == [(5_001, interface)]
    assert source.calls == [("count_drops",), ("close",)]
    assert (tmp_path / "new").is_dir()
    first, last = capsys.readouterr().out.splitlines()
    assert first == "recording 239.1.2.3:5001 on lan0 as here-lan0 by lan0 5001; Ctrl-C ends it"
    assert last == "3 frames, 40 bytes, 7 dropped: x"
    made.clear()
    words = ["--capture-point", "p", "--rotate-size", "1MB", "--rotate-time", "5", "--keep", "2"]
    assert record.main(["--output", path, *words, *network]) == 0
    assert made[0][1:] == (
        "p", 276, {"rotate_bytes": 1_000_000, "rotate_seconds": 5.0, "keep": 2, "is_secret": False},
    )  # fmt: skip

    def refuse(*_: Any) -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr(sockets, "join", refuse)
    assert record.main(["--output", path, *network]) == 2
    assert "cannot join 239.1.2.3:5001 on lan0: No such device" in capsys.readouterr().err


def test_the_group_is_a_member_s_until_the_end_and_a_wrong_key_leaves_the_file_that_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, members, numbers = tmp_path / "trace.pcapng", list[Any](), list[int]()
    source: Any = Calls(count_drops=0)
    source.link = 1
    monkeypatch.setattr(record, "choose", lambda settings: SimpleNamespace(interface=SimpleNamespace(name="lan0")))
    monkeypatch.setattr(record, "open_source", lambda *_: (source, "ring"))
    monkeypatch.setattr(sockets, "join", lambda member, *_: members.append(member))
    monkeypatch.setattr(record, "record", lambda *_: numbers.append(members[0].fileno()))
    assert record.main(["--output", str(path)]) == 0
    assert (numbers[0] >= 0, members[0].fileno()) == (True, -1), "a switch would stop to forward the group"
    before = path.read_bytes()
    (tmp_path / "wrong.key").write_text("no key")
    assert record.main(["--output", str(path), "--key", str(tmp_path / "wrong.key")]) == 2
    assert "wrong.key" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert source.calls[-1] == ("close",)


class Recorder:
    """A recording of topics."""

    messages, bytes = 1_234, 56_789

    def __init__(self, failure: str = "") -> None:
        self.failure, self.closed = failure, 0
        self.left_out = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("failure", ["", "the disk is full"])
def test_messages_are_recorded_until_the_end_or_until_the_disk_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: str
) -> None:
    recorder, waited, told = Recorder(), list[float](), list[str]()
    endpoint = Calls(record=recorder)

    @contextmanager
    def opened(arguments: Any, output: Any, quiet: bool) -> Any:
        assert quiet
        monkeypatch.setattr(output, "progress", lambda *what: nullcontext(SimpleNamespace(tell=told.append)))
        yield endpoint

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            if not failure:
                raise common.Ended
            recorder.failure, recorder.left_out = failure, 2

    monkeypatch.setattr(record, "open_endpoint", opened)
    monkeypatch.setattr(common, "pause", pause)
    assert record.main(["--output", "x.mcap", "--topics", "a/#"]) == (1 if failure else 0)
    assert endpoint.calls == [("record", "a/#", "x.mcap")]
    assert (waited, recorder.closed) == ([1.0, 1.0], 1)
    assert told == ["1,234 messages, 56,789 bytes"] * (2 if failure else 1)
    left_out = "; 2 messages are left out, of more topics than a file can have"
    more = f"{left_out}; it ended early: {failure}" if failure else ""
    assert capsys.readouterr().out.splitlines() == [
        "recording a/# in x.mcap; Ctrl-C ends it", f"1,234 messages, 56,789 bytes: x.mcap{more}",
    ]  # fmt: skip


def test_the_kind_of_a_recording_is_that_of_its_option_or_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record, "record_messages", lambda *_: 70)
    monkeypatch.setattr(record, "choose", lambda settings: (_ for _ in ()).throw(InterfaceError("datagrams")))
    for words, code in (
        (["--output", "x.mcap"], 70), (["--output", "x.mcap", "--format", "mcap"], 70),
        (["--output", "x", "--format", "mcap"], 70), (["--output", "x"], 2),
        (["--output", "x.mcap", "--format", "pcapng"], 2),
    ):  # fmt: skip
        assert record.main(words) == code, words
    monkeypatch.undo()
    for option in (["--capture-point", "p"], ["--rotate-size", "5"], ["--keep", "1"], ["--promiscuous"],
                   ["--engine", "scapy"], ["--rotate-time", "5"]):  # fmt: skip
        assert record.main(["--output", "x.mcap", *option]) == 2
        assert f"{option[0]} is for datagrams; recordings of messages" in capsys.readouterr().err


def test_sealed_frames_are_opened_with_the_newest_key_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr(record, "time", time)
    keys: list[Any] = [None, "newer", None, None]
    used: list[Any] = []

    class Opener:
        def __init__(self, key: Any, link: int) -> None:
            used.append((key, link))

        use = staticmethod(used.append)

        def open(self, frame: bytes) -> list[bytes] | None:
            return [frame + b"1", frame + b"22"] if frame.startswith(b"s") else None

    monkeypatch.setattr("glue.capture.opened.FrameOpener", Opener)
    monkeypatch.setattr("glue.endpoint.secrets.read_key", lambda path: f"key of {path}")
    monkeypatch.setattr("glue.endpoint.secrets.KeyFile", lambda path: SimpleNamespace(look=lambda: keys.pop(0)))
    settings: Any = SimpleNamespace(key="file", sources={"key": "keyword"})
    written: list[Any] = []

    def write(*frame: Any) -> None:
        written.append(frame)

    opening = record.frames_opened(settings, 276)(write)
    opening(1, b"sealed", 6, 4)
    opening(2, memoryview(b"plain"), 5, 3)
    opening(3, b"sealed", 99)
    assert used == [("key of file", 276)]
    time.now += 1.0
    opening(4, b"s", 1)
    assert used[1:] == ["newer"]
    assert written == [
        (1, b"sealed1", 7, 4), (1, b"sealed22", 8, 4), (2, b"plain", 5, 3), (3, b"sealed", 99), (4, b"s1", 2),
        (4, b"s22", 3),
    ]  # fmt: skip
    assert len(keys) == 2, "the file is looked at once a second"
    for sources in ({}, {"key": "environment"}):
        assert record.frames_opened(SimpleNamespace(key="file", sources=sources), 1)(write) is write  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [common.Ended(), InterfaceError("the interface is gone")])
def test_what_is_held_of_sealed_frames_is_written_at_the_end(
    end: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    opener: Any = Calls(open=[], rest=lambda: [b"block 1", b"block"])
    written: list[Any] = []
    file: Any = SimpleNamespace(look=lambda: None)
    write = record.Opening(file, opener, noting(written))
    ends: list[BaseException | None] = [None, end]

    def check() -> None:
        if (due := ends.pop(0)) is not None:
            raise due

    def read(timeout: float, write: record.Write) -> int:
        write(7, b"b1", 2, 4)
        write(8, b"b", 1, 4)
        return 2

    monkeypatch.setattr(common, "check", check)
    nothing: Any = SimpleNamespace()
    with pytest.raises(type(end)):
        record.record(Calls(read=read), nothing, write, nothing)
    assert written == [(8, b"block 1", 7), (8, b"block", 5)]
