"""Captures of sealed traffic, opened with the key."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

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
from glue.settings import effective
from tests.security.pair import KEY, OTHER_KEY, Member
from tests.support.lan import PATIENCE, Ear, Lan


def test_a_recorded_endpoint_is_read_with_the_key_and_not_without(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, sealed, opened = tmp_path / "plant.key", tmp_path / "sealed.pcapng", tmp_path / "opened.pcapng"
    write_secret(key, new_key(os.urandom).to_text())
    kitchen = lan.start("kitchen", key=key, network=tap(sealed, "kitchen"))
    hall = lan.start("hall", key=key)
    ear = Ear()
    hall.subscribe("x", ear)
    assert kitchen.wait_for_subscribers("x", 1, timeout=PATIENCE)
    kitchen.publish("x", b"the temperature is 21.5")
    kitchen.publish("x", bytes(100_000))
    ear.wait(2)
    kitchen.close()
    assert b"temperature" not in sealed.read_bytes()
    assert command.main(["open", str(sealed), "--key", str(key), "--output", str(opened)]) == 0
    assert "frames opened" in capsys.readouterr().out
    assert opened.stat().st_mode & 0o777 == 0o600
    payloads = [payload_of(frame.data, frame.link) for frame in Capture(opened)]
    assert all(payload is not None and payload[:1] in (b"{", b"\x01") for payload in payloads)
    assert any(payload is not None and b"the temperature is 21.5" in payload for payload in payloads)
    frames = [frame.data for frame in Capture(opened)]
    [copy] = opened_copies([tmp_path / "sealed*"], tmp_path, read_key(key))
    assert [frame.data for frame in Capture(copy)] == frames
    assert Path(copy).name == "sealed.pcapng"
    written: list[bytes] = []
    link = next(iter(Capture(sealed))).link
    write = frames_opened(effective({"key": str(key)}), link)(lambda time, frame, size, *way: written.append(frame))
    for frame in Capture(sealed):
        write(frame.time_ns, frame.data, len(frame.data), 1)
    assert written == frames
    written.clear()
    operator, rotation = tmp_path / "operator.key", rotated(read_key(key), os.urandom)
    write_secret(operator, new_key(os.urandom).to_text())
    write = frames_opened(effective({"key": str(operator)}), link)(
        lambda time, frame, size, *way: written.append(frame)
    )
    write_secret(operator, rotation.to_text(), replaces=True)
    for frame in Capture(sealed):
        write(frame.time_ns, frame.data, len(frame.data), 1)
    assert written == frames  # the file changed meanwhile
    assert frames_opened(effective({}, {"GLUE_KEY": str(key)}), link)(write) is write
    with ExitStack() as stack:
        assert play_opened(stack, [str(sealed)], str(key)) != [str(sealed)]
    wrong = tmp_path / "wrong.key"
    write_secret(wrong, new_key(os.urandom).to_text())
    assert command.main(["open", str(sealed), "--key", str(wrong), "--output", str(opened)]) == 1
    assert f"{wrong} opens none of those that are sealed" in capsys.readouterr().out
    for options, told in ((["--key", str(wrong)], f"{wrong} does not open them"), ([], "name their key with --key")):
        settings = ["--interface", str(lan.settings["interface"]), "--network-id", str(lan.settings["network_id"])]
        assert play.main([str(sealed), *settings, *options, "--speed", "0"]) == 1
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
