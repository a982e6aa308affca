"""Which files `glue play` takes together, what it gets from them, and the tables of `glue top`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.cmd import common, played, top
from glue.cmd.played import Recordings, Trace, open_source
from glue.endpoint.activity import COUNTERS
from glue.endpoint.inquiring import Answered
from glue.errors import ConfigurationError, StorageError
from tests.cmd.prepared import Time, noting, people, programs
from tests.cmd.test_played import given


class Opened:
    """A file that is open."""

    start_ns = stop_ns = 0

    def __init__(self, path: str) -> None:
        self.path, self.is_closed = path, False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Two recordings, two captures, and a name of nothing."""
    monkeypatch.setattr(played, "is_mcap", lambda path: path.endswith(".mcap"))
    monkeypatch.setattr(played, "McapReader", Opened)
    monkeypatch.setattr(played, "Capture", Opened)
    names = {name: str(tmp_path / name) for name in ("a.mcap", "b.mcap", "a.pcap", "b.pcap", "none.pcap")}
    for name in [*names][:4]:
        Path(names[name]).touch()
    return names


def settings(**more: Any) -> Any:
    return SimpleNamespace(**{"key": None, "network_id": 7, "message_limit": 100, **more})


def test_files_of_one_kind_are_opened_and_closed_together(files: dict[str, str]) -> None:
    for names, kind in (
        (["a.mcap", "b.mcap"], Recordings), (["a.pcap", "b.pcap"], Trace), (["none.pcap"], Trace),
        (["a.pcap", "none.pcap"], Trace),
    ):  # fmt: skip
        stack = ExitStack()
        source: Any = open_source(stack, given(captures=[files[name] for name in names]), settings())
        assert isinstance(source, kind)
        opened: list[Any] = vars(source)["_readers" if names[0].endswith(".mcap") else "_captures"]
        assert [(one.path, one.is_closed) for one in opened] == [(files[name], False) for name in names]
        stack.close()
        assert [one.is_closed for one in opened] == [True] * len(names)
    with pytest.raises(ConfigurationError, match="cannot be played together"):
        open_source(ExitStack(), given(captures=[files["a.mcap"], files["a.pcap"]]), settings())


@pytest.mark.parametrize(("names", "kind"), [(["a.mcap", "b.mcap"], "McapReader"), (["a.pcap", "b.pcap"], "Capture")])
def test_files_before_one_that_is_refused_are_closed(
    names: list[str], kind: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Opened] = []

    def open_one(path: str) -> Opened:
        if opened:
            raise ConfigurationError(f"{path}: neither pcap nor pcapng")
        opened.append(Opened(path))
        return opened[0]

    monkeypatch.setattr(played, kind, open_one)
    with pytest.raises(ConfigurationError, match="neither"), ExitStack() as stack:
        open_source(stack, given(captures=[files[name] for name in names]), settings())
    assert [one.is_closed for one in opened] == [True]


def test_a_recording_that_cannot_be_read_is_named(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> bool:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(played, "is_mcap", fail)
    with pytest.raises(StorageError, match=rf"cannot read {files['a.mcap']}: Permission denied"):
        open_source(ExitStack(), given(captures=[files["a.mcap"]]), settings())


def test_sealed_captures_are_opened_with_the_key_in_copies(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("glue.endpoint.secrets.read_key", "key of {}".format)

    def copies(paths: list[str], folder: str, key: Any) -> list[str]:
        asked.append((paths, Path(folder).is_dir(), key, folder))
        return [f"{folder}/copy"]

    monkeypatch.setattr("glue.capture.opened.opened_copies", copies)
    with ExitStack() as stack:
        source: Any = open_source(stack, given(captures=[files["a.pcap"]]), settings(key="file"))
        ((paths, is_there, key, folder),) = asked
        assert (paths, is_there, key) == ([files["a.pcap"]], True, "key of file")
        assert [one.path for one in source._captures] == [f"{folder}/copy"]
    assert not Path(folder).exists()


def published(second: float, topic: str = "t", publisher: str = "k", metadata: Any = None) -> Any:
    return SimpleNamespace(
        time_ns=int(second * 1e9), topic=topic, publisher=publisher, payload=b"1", json=True, metadata=metadata,
        type="T", retain=True, lifespan=2.5, reliable=False,
    )  # fmt: skip


def test_a_trace_gives_what_its_options_select_with_all_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = SimpleNamespace(properties={"a": "b"}, codec=3)
    bare = SimpleNamespace(properties=None, codec=None)
    messages = [
        published(5), published(6.9), published(7, metadata=metadata), published(8, "u"), published(9, publisher="x"),
        published(10, metadata=bare),
    ]  # fmt: skip
    monkeypatch.setattr(played, "ordered", lambda found: iter(messages))
    trace = Trace([], given(seek=2.0, topics=["t"], publisher=["kitchen"]), 7, 100)
    trace.messages.names["k"] = "kitchen"
    first, second = trace
    assert first == (7 * 10**9, "t", b"1", True, 3, {"a": "b"}, "T", True, 2.5, False)
    assert (second.time_ns, second.codec, dict(second.properties)) == (10**10, None, {})
    assert trace.left_out == 4


def test_frames_are_merged_by_time_and_sealed_ones_of_the_network_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def frame(at: int, data: bytes | None, point: str = "p") -> Any:
        return SimpleNamespace(time_ns=at, data=data, point=point, link=1)

    captures: Any = [
        [frame(1, b"{1"), frame(5, None), frame(7, b"sealed 7")],
        [frame(2, b"{2"), frame(3, b"{3", "other"), frame(6, b"sealed 8"), frame(8, b"sealed 7", "other")],
    ]

    def reader(found: list[Any]) -> Any:
        def read(at: int, datagram: bytes) -> Iterator[Any]:
            found.append((at, datagram))
            return iter(())

        return read

    checks: list[int] = []
    monkeypatch.setattr(common, "check", lambda: checks.append(1))
    monkeypatch.setattr(played, "payload_of", lambda data, link: data)
    monkeypatch.setattr(played, "sealed_network", lambda datagram: int(datagram[-1:]))
    for point, read, sealed in ((None, [1, 2, 3], 2), ("p", [1, 2], 1)):
        trace = Trace(captures, given(capture_point=point), 7, 100)
        found: list[Any] = []
        monkeypatch.setattr(trace.messages, "read", reader(found))
        assert list(trace._published()) == []
        assert found == [(at, b"{%d" % at) for at in read]
        assert trace.sealed == sealed
    assert len(checks) == 14


# ------------------------------------------------------------------------------------------------------------- top


def told(name: str, **counters: int) -> Answered:
    return Answered(name, name[0], {"activity": dict.fromkeys(COUNTERS, 0) | counters})


def test_the_table_of_top_has_rates_sorted_by_what_is_sent() -> None:
    before = {"a": told("attic"), "k": told("kitchen", sent_bytes=1_000), "g": told("gone")}
    now = {
        "a": told("attic", received=60, received_bytes=7_000_000, lost=3, waiting=1_234), "n": told("new"),
        "k": told("kitchen", published=20, sent=40, sent_bytes=9_001_000, heard=10),
    }  # fmt: skip
    text = people(lambda output: top.show(output, before, now, 2.0))
    assert text.splitlines() == [
        "endpoint  published/s  sent/s   kB/s  heard/s  received/s  kB/s in  lost/s  waiting",
        "kitchen            10      20  4,500        5           0        0       0        0",
        "attic               0       0      0        0          30    3,500       2    1,234",
        "",
    ]
    events = programs(lambda output: top.show(output, before, now, 2.0))
    assert [(one["event"], one.get("id"), one.get("sent_bytes"), one.get("waiting")) for one in events[:2]] == [
        ("activity", "k", 4_500_000.0, 0), ("activity", "a", 0.0, 1_234),
    ]  # fmt: skip
    assert (events[1]["lost"], events[-1]) == (1.5, {"event": "summary", "endpoints": 2, "seconds": 2.0})
    nobody = people(lambda output: top.show(output, {}, now, 1.0), terminal=True)
    assert nobody == "\x1b[H\x1b[2Jno endpoint answers; those with doctor=False never do\n\n"


def test_top_looks_once_an_interval_and_ends_after_so_many_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked, shown = Time(), list[Any](), list[Any]()

    @contextmanager
    def opened(*_: Any, quiet: bool) -> Iterator[Any]:
        yield "endpoint"

    looks = iter("abcdef")
    monkeypatch.setattr(top, "time", clock)
    monkeypatch.setattr(common, "pause", clock.sleep)
    monkeypatch.setattr(top, "open_endpoint", opened)
    monkeypatch.setattr(top, "look", lambda endpoint: next(looks))
    monkeypatch.setattr(top, "show", lambda output, *told: shown.append(told))
    assert top.main(["--count", "2", "--interval", "2.5"]) == 0
    assert (shown, clock.naps) == ([("a", "b", 2.5), ("b", "c", 2.5)], [1.2, 2.5, 2.5])
    shown.clear()
    clock.naps.clear()
    assert top.main(["--count", "1", "--interval", "0.1"]) == 0
    assert clock.naps == [1.2, 1.0], "the least"
    monkeypatch.undo()
    monkeypatch.setattr(top, "ask_all", noting(asked, [told("kitchen")]))
    assert [*top.look("endpoint")] == ["k"]  # type: ignore[arg-type]
    assert asked == [{"timeout": 0.5}]
