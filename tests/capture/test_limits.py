"""Memory of readers of captures is bounded, on both sides of each limit; and copies of captures, opened."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from glue.capture import messages, opened, ordering
from glue.capture.messages import Messages, Published
from glue.capture.opened import Opener, opened_copies, opened_copy, segment_of
from glue.contract.sealed import HEAD
from glue.security import new_key
from glue.security.runs import PREFIX_SIZE
from glue.security.suites import SUITES

S = 10**9


def published(at: int, sequence: int, size: int = 1, topic: str = "t") -> Published:
    return Published(at, "a", 1, topic, sequence, bytes(size), False, None, False, None, True, 0)


def test_messages_wait_for_a_second_and_then_take_turns_in_order() -> None:
    assert ordering.WINDOW_NS == S
    came = [published(0, 2), published(1, 1), published(2, 7, topic="u"), published(S, 3), published(S + 2, 4)]
    taken: list[tuple[int, int]] = []

    def source() -> Iterator[Published]:
        for one in came:
            yield one
            taken.append((-1, one.time_ns))

    taken.extend((one.sequence, one.time_ns) for one in ordering.ordered(source()))
    assert taken == [
        (-1, 0), (-1, 1), (-1, 2), (1, 0), (-1, S), (2, 1), (7, 2), (-1, S + 2), (3, S), (4, S + 2),
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "early"), [(5, 0), (6, 1)])
def test_messages_that_are_too_large_to_wait_take_turns_early(
    size: int, early: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ordering.HELD_BYTES == 64 << 20
    monkeypatch.setattr(ordering, "HELD_BYTES", 10)
    left = 3

    def source() -> Iterator[Published]:
        nonlocal left
        for number in (1, 2):
            left -= 1
            yield published(number, number, size)

    found = [(one.sequence, left) for one in ordering.ordered(source())]
    assert [number for number, _ in found] == [1, 2]
    assert found[0][1] == 1
    alone = [*ordering.ordered(iter([published(1, 1, 11), published(2, 2, 11)]))]
    assert [one.sequence for one in alone] == [1, 2]  # nothing is left to wait behind
    waited = [*ordering.ordered(iter([published(1, 1, size), published(2, 2, size), published(3, 3, 1)]))]
    assert [one.sequence for one in waited] == [1, 2, 3]


def test_messages_wait_their_time_however_much_has_gone_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "HELD_BYTES", 10)
    before = [published(number * 2 * S, number + 1, 8) for number in range(5)]
    overtaken = [published(20 * S, 7, 4), published(20 * S + 1, 6, 4)]
    assert [one.sequence for one in ordering.ordered(iter([*before, *overtaken]))] == [1, 2, 3, 4, 5, 6, 7]


def test_names_of_endpoints_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "STREAMS", 2)
    reader = Messages(1, 1000)
    told = (
        ("x", b"{"), ("y", b"[]"), ("z", b'{"name": 7}'), ("a", b'{"name": "attic"}'), ("h", b'{"name": "hall"}'),
        ("k", b'{"name": "kitchen"}'), ("a", b'{"name": "other"}'),
    )  # fmt: skip
    for peer, body in told:
        run: Any = SimpleNamespace(header={"discovery": [1]}, peer=peer, bodies=[body])
        assert reader._carries_data(run) is False
    assert reader.names == {"a": "attic", "h": "hall"}


def test_holes_in_the_numbers_of_a_stream_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert messages.HOLES == 1024
    monkeypatch.setattr(messages, "HOLES", 3)
    reader = Messages(1, 1000)

    def new(sequence: int, count: int = 1) -> list[int]:
        run: Any = SimpleNamespace(peer="a", incarnation=1)
        group: Any = SimpleNamespace(topic="t", sequence=sequence, payloads=[b""] * count)
        return reader._new(run, group)

    assert [new(number) for number in (1, 3, 5)] == [[1], [3], [5]]
    assert new(2) == [2]
    assert [new(number) for number in (7, 9)] == [[7], [9]]
    assert new(4) == [], "the oldest hole counts as seen"
    assert new(6) == [6]
    assert new(8, 3) == [8, 10]
    assert reader.counters()["copies"] == 2


class Frames:
    """A capture of these frames."""

    def __init__(self, *frames: Any, fault: str | None = None) -> None:
        self._frames = frames
        self.position, self.size, self.fault = 30, 60, fault

    def __iter__(self) -> Any:
        return iter(self._frames)


def frame(data: bytes, at: int, link: int = 1) -> Any:
    return SimpleNamespace(data=data, time_ns=at, link=link, point="here")


class Opened:
    """Opens what begins with "s", and keeps what begins with "b" until the end."""

    def __init__(self, key: Any, link: int) -> None:
        self._kept: list[bytes] = []

    def open(self, data: bytes) -> list[bytes] | None:
        if data.startswith(b"b"):
            self._kept.append(data)
            return []
        return [b"open 1", b"open 2"] if data.startswith(b"s") else None

    def rest(self) -> list[bytes]:
        return self._kept


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    class Recording:
        def __init__(self, target: Any, point: str, link: int, is_secret: bool) -> None:
            found.append((str(target), point, link, is_secret))

        def write(self, *given: Any) -> None:
            found.append(given)

        def close(self) -> None:
            found.append("closed")

    monkeypatch.setattr(opened, "Recording", Recording)
    monkeypatch.setattr(opened, "FrameOpener", Opened)
    monkeypatch.setattr(opened, "is_sealed", lambda data, link: data == b"x sealed")
    return found


def test_a_copy_has_the_opened_frames_and_the_others_as_they_were(
    written: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = Frames(
        frame(b"plain", 1), frame(b"sealed", 2), frame(b"begun", 3), frame(b"x sealed", 4), frame(b"other", 5, 9),
        fault="cut",
    )  # fmt: skip
    monkeypatch.setattr(opened, "Capture", lambda source: frames)
    shares: list[float] = []
    key: Any = None
    assert opened_copy("in", "out", key, shares.append) == {
        "copied": 2, "opened": 2, "still sealed": 1, "left out: another link type": 1, "reading ended early: cut": 1,
    }  # fmt: skip
    assert written == [
        ("out", "here", 1, True), (1, b"plain", 5), (2, b"open 1", 6), (2, b"open 2", 6), (4, b"x sealed", 8),
        (4, b"begun", 5), "closed",
    ]  # fmt: skip
    assert shares == [0.5]
    monkeypatch.setattr(opened, "STEP", 2)
    opened_copy("in", "out", key, shares.append)
    assert shares == [0.5] * 4
    monkeypatch.setattr(opened, "Capture", lambda source: Frames())
    written.clear()
    assert opened_copy("in", "out", key) == {}
    assert written == []


def test_a_copy_that_does_not_fit_on_the_disk_is_closed(written: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glue.capture.opened.Recording.write", refuse)
    monkeypatch.setattr(opened, "Capture", lambda source: Frames(frame(b"plain", 1)))
    key: Any = None
    with pytest.raises(OSError, match="No space left"):
        opened_copy("in", "out", key)
    assert written == [("out", "here", 1, True), "closed"]


def test_all_files_of_a_folder_and_a_pattern_are_copied(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, folder = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    folder.mkdir()
    for name in ("b.pcap", "a.pcap", "empty"):
        (source / name).write_bytes(b"x")

    def copy(file: Any, target: Any, key: Any) -> None:
        if file.name != "empty":
            target.write_bytes(b"copy")

    monkeypatch.setattr(opened, "opened_copy", copy)
    key: Any = None
    made = opened_copies([source], folder, key)
    assert made == [str(folder / "0" / "a.pcap"), str(folder / "1" / "b.pcap"), str(source / "empty")]
    other = tmp_path / "other"
    other.mkdir()
    assert opened_copies([source / "?.pcap"], other, key) == [str(other / "0" / "a.pcap"), str(other / "1" / "b.pcap")]
    assert opened_copies([source / "empty"], source, key) == [str(source / "empty")]


def test_keys_of_lives_are_bounded_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (opened.CIPHERS, opened.BEGUN) == (4096, 64)
    made: list[Any] = []

    def cipher(*given: Any) -> Any:
        made.append(given)
        return len(made)

    monkeypatch.setattr(opened, "CIPHERS", 2)
    monkeypatch.setattr(opened, "cipher", cipher)
    key = new_key(lambda size: b"\x07" * size)
    opener = Opener(key)
    suite = next(iter(SUITES))

    def asked(life: int, epoch: int = key.newest.id) -> Any:
        prefix = bytes([suite, epoch, 0, 1]) + bytes([life]) * (PREFIX_SIZE - 4)
        return opener.cipher(prefix + bytes(60))

    assert [asked(life) for life in (1, 2, 1, 2)] == [1, 2, 1, 2]
    assert asked(1, key.newest.id ^ 1) is None
    assert [asked(life) for life in (3, 3, 1)] == [3, 3, 4]
    assert opener.cipher(b"{}") is None
    assert opener.open(b"{}") is None


def test_a_train_is_cut_where_the_next_number_stands() -> None:
    prefix = bytes(range(1, PREFIX_SIZE + 1))

    def sealed(number: int, size: int) -> bytes:
        head = prefix + number.to_bytes(HEAD.size - PREFIX_SIZE, "big")
        return head + bytes(size - len(head))

    one = sealed(5, 100)
    assert segment_of(one) == 100
    assert segment_of(one + sealed(6, 100) + sealed(7, 40)) == 100
    assert segment_of(one + sealed(7, 100)) == 200
    last = sealed((1 << 8 * (HEAD.size - PREFIX_SIZE)) - 1, 100)
    assert segment_of(last + sealed(0, 100)) == 100
