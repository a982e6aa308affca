"""Captures of sealed traffic, opened with the key."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import glue
from glue.capture import tap
from glue.capture.opened import Opener, opened_copies, opened_copy
from glue.capture.packets import payload_of
from glue.capture.reading import Capture
from glue.cmd import key as command
from glue.cmd import network, play
from glue.cmd.played import opened as play_opened
from glue.cmd.record import frames_opened
from glue.endpoint.secrets import read_key, write_secret
from glue.security import new_key, rotated
from glue.settings import Settings, effective
from tests.security.pair import KEY, OTHER_KEY, Member
from tests.support.lan import PATIENCE, Ear, Lan


class Recorded(NamedTuple):
    """A capture of a sealed endpoint, its key file, and the settings of its network."""

    path: Path
    key: Path
    settings: dict[str, Any]

    @property
    def frames(self) -> list[bytes]:
        """The frames, opened."""
        [copy] = opened_copies(
            [self.path.parent / "sealed*"], Path(tempfile.mkdtemp(dir=self.path.parent)), read_key(self.key)
        )
        assert Path(copy).name == self.path.name
        return [frame.data for frame in Capture(copy)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """The capture of an endpoint that has published a short and a long message."""
    folder, lan = tmp_path_factory.mktemp("recorded"), Lan()
    found = Recorded(folder / "sealed.pcapng", folder / "plant.key", lan.settings)
    write_secret(found.key, new_key(os.urandom).to_text())
    kitchen = lan.start("kitchen", key=found.key, network=tap(found.path, "kitchen"))
    hall = lan.start("hall", key=found.key)
    ear = Ear()
    hall.subscribe("x", ear)
    assert kitchen.wait_for_subscribers("x", 1, timeout=PATIENCE)
    kitchen.publish("x", b"the temperature is 21.5")
    kitchen.publish("x", bytes(100_000))
    ear.wait(2)
    kitchen.close()
    yield found
    lan.close()


def test_a_recorded_endpoint_is_read_with_the_key_and_not_without(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened, wrong = tmp_path / "opened.pcapng", tmp_path / "wrong.key"
    assert b"temperature" not in recorded.path.read_bytes()
    assert command.main(["open", str(recorded.path), "--key", str(recorded.key), "--output", str(opened)]) == 0
    assert "frames opened" in capsys.readouterr().out
    assert opened.stat().st_mode & 0o777 == 0o600
    payloads = [payload_of(frame.data, frame.link) for frame in Capture(opened)]
    assert all(payload is not None and payload[:1] in (b"{", b"\x01") for payload in payloads)
    assert any(payload is not None and b"the temperature is 21.5" in payload for payload in payloads)
    assert [frame.data for frame in Capture(opened)] == recorded.frames
    write_secret(wrong, new_key(os.urandom).to_text())
    assert command.main(["open", str(recorded.path), "--key", str(wrong), "--output", str(opened)]) == 1
    assert f"{wrong} opens none of those that are sealed" in capsys.readouterr().out


def test_a_recorder_with_the_key_writes_opened_frames_also_after_a_rotation(recorded: Recorded, tmp_path: Path) -> None:
    def written(settings: Settings, before: Callable[[], object] = lambda: None) -> list[bytes]:
        found: list[bytes] = []
        write = frames_opened(settings, link)(lambda time, frame, size, *way: found.append(frame))
        before()
        for frame in Capture(recorded.path):
            write(frame.time_ns, frame.data, len(frame.data), 1)
        return found

    [link] = {frame.link for frame in Capture(recorded.path)}
    assert written(effective({"key": str(recorded.key)})) == recorded.frames
    operator, rotation = tmp_path / "operator.key", rotated(read_key(recorded.key), os.urandom)
    write_secret(operator, new_key(os.urandom).to_text())
    settings = effective({"key": str(operator)})
    assert written(settings, lambda: write_secret(operator, rotation.to_text(), replaces=True)) == recorded.frames

    def write(*frame: object) -> None:
        """Write nothing."""

    assert frames_opened(effective({}, {"GLUE_KEY": str(recorded.key)}), link)(write) is write


def test_a_sealed_recording_is_played_with_its_key_alone(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        assert play_opened(stack, [str(recorded.path)], str(recorded.key)) != [str(recorded.path)]
    wrong = tmp_path / "wrong.key"
    write_secret(wrong, new_key(os.urandom).to_text())
    for options, told in ((["--key", str(wrong)], f"{wrong} does not open them"), ([], "name their key with --key")):
        options += [f"--{name.replace('_', '-')}={recorded.settings[name]}" for name in ("interface", "network_id")]
        assert play.main([str(recorded.path), *options, "--speed", "0"]) == 1
        assert told in capsys.readouterr().out


def test_whole_trains_are_opened() -> None:
    kitchen = Member("kitchen")
    sent = [data for _, data in kitchen.send(*[b"%04d" % number * 100 for number in range(40)])]
    opened = Opener(KEY).open(b"".join(sent))
    assert opened is not None
    assert opened.count(b'{"glue"') == 40
    assert Opener(OTHER_KEY).open(sent[0]) is None
    assert Opener(KEY).open(b"{}\n") is None


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"junk")
    with pytest.raises(glue.ConfigurationError, match="neither pcap"):
        opened_copy(path, tmp_path / "y", KEY)


def test_bare_datagrams_are_sealed_and_opened_with_the_key_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, key in (("plant.key", KEY), ("other.key", OTHER_KEY)):
        write_secret(tmp_path / name, key.to_text())
    one, other, none = (
        network.Seal(effective(keywords))
        for keywords in ({"key": str(tmp_path / "plant.key")}, {"key": str(tmp_path / "other.key")}, {})
    )
    sealed = one.sealed(b"datagram 1")
    assert one.opened(sealed) == (b"datagram 1", "sealed: ")
    assert other.opened(sealed) == (sealed, f"sealed with another key, id {sealed[1]:02x}, network 1, number 0: ")
    assert none.opened(sealed) == (sealed, f"sealed with a key, id {sealed[1]:02x}, network 1, number 0: ")
    assert one.opened(b"datagram 1") == (b"datagram 1", "not sealed: ")
    assert none.opened(none.sealed(b"datagram 1")) == (b"datagram 1", "")
    assert network.main(["--identity", "kitchen.identity"]) == 2
    assert "--identity has no effect on bare datagrams" in capsys.readouterr().err
