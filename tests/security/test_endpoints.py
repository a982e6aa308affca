"""Whole endpoints with a key, on real sockets, and key files."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import sys
from pathlib import Path
from random import Random
from unittest import mock

import pytest

import glue
import glue.aio
from glue.cmd import key as command
from glue.contract.sealed import HEAD
from glue.endpoint.secrets import fastest_suite, read_key, write_secret
from glue.security import AES_GCM, SUITES, new_key
from glue.security.suites import cipher
from glue.simulation import World
from tests.support.lan import PATIENCE, Ear, Lan


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "plant.key"
    write_secret(path, new_key(os.urandom).to_text())
    return str(path)


def test_endpoints_with_one_key_share_topics_of_any_size(lan: Lan, key: str) -> None:
    kitchen, hall = lan.pair(key=key)
    ear = Ear()
    hall.subscribe("home/#", ear)
    assert kitchen.wait_for_subscribers("home/x", 1, timeout=PATIENCE)
    kitchen.publish("home/x", {"celsius": 21.5})
    kitchen.publish("home/x", bytes(3_000_000))
    kitchen.publish_many("home/x", [b"%d" % number for number in range(2000)])
    heard = [message.payload for message in ear.wait(2002)]
    assert heard[:2] == [{"celsius": 21.5}, bytes(3_000_000)]
    assert heard[2:] == [b"%d" % number for number in range(2000)]
    assert "AES-256-GCM" in kitchen.describe() or "ChaCha20" in kitchen.describe()
    assert read_key(key).newest.root.hex() not in kitchen.describe()


def test_lone_messages_go_to_and_fro_in_a_session(lan: Lan, key: str) -> None:
    kitchen, hall = lan.pair(key=key, spin=0.05)
    done = Ear()

    def answer(message: glue.Message) -> None:
        if message.payload < 3000:
            (hall if message.topic == "there" else kitchen).publish(
                "back" if message.topic == "there" else "there", message.payload + 1
            )
        else:
            done(message.payload)

    hall.subscribe("there", answer)
    kitchen.subscribe("back", answer)
    assert kitchen.wait_for_subscribers("there", 1, timeout=PATIENCE)
    assert hall.wait_for_subscribers("back", 1, timeout=PATIENCE)
    kitchen.publish("there", 0)
    assert done.wait() == [3000]


def test_plain_and_sealed_endpoints_tell_each_other_once(lan: Lan, key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "glue")
    sealed, plain = lan.start("sealed", key=key, announce_interval=0.05), lan.start("plain", announce_interval=0.05)
    found = Ear()
    other = lan.start("other", key=key)
    other.on_peer_added = found
    assert sealed._driver is not None
    sealed._driver.wait_until(lambda: sealed.statistics["security"]["refused: plain"] > 3, PATIENCE)
    assert plain._driver is not None
    plain._driver.wait_until(lambda: plain.statistics["serialization"]["sealed"] > 3, PATIENCE)
    assert plain.peers == []
    told = [record.getMessage() for record in caplog.records]
    assert sum("this endpoint has none" in text for text in told) == 1
    assert sum("an endpoint without a key" in text for text in told) == 2  # by each of two endpoints


def test_a_replayed_recording_changes_nothing(lan: Lan, key: str) -> None:
    group, port = str(lan.settings["multicast_address"]).split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as recorder:
        recorder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        recorder.bind((group, int(port)))
        membership = socket.inet_aton(group) + socket.inet_aton("127.0.0.1")
        recorder.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        recorder.settimeout(PATIENCE)
        former = lan.start("former", key=key)
        recorded = [recorder.recv(2000) for _ in range(2)]
        former.close(timeout=0)
        hall = lan.start("hall", key=key)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            attacker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for data in (*recorded, recorded[0][: HEAD.size] + bytes(100)):
                attacker.sendto(data, (group, int(port)))
        assert hall._driver is not None
        hall._driver.wait_until(lambda: hall.statistics["security"]["refused: replayed"] > 0, PATIENCE)
    assert hall.peers == []
    assert hall.statistics["security"]["hellos sent"] >= 1


def test_asyncio_endpoints_use_a_key_alike(lan: Lan, key: str) -> None:
    async def run() -> object:
        async with (
            glue.aio.Endpoint("a", **lan.settings, key=key) as one,
            glue.aio.Endpoint("b", **lan.settings, key=key) as two,
        ):
            subscription = two.subscribe("x")
            await one.wait_for_subscribers("x", 1, timeout=PATIENCE)
            await one.publish("x", "sealed")
            async for message in subscription:
                return message.payload
        return None

    assert asyncio.run(run()) == "sealed"


def test_simulated_endpoints_use_a_key_alike() -> None:
    world = World(seed=1)
    key = new_key(Random(1).randbytes)
    one, two = world.endpoint("one", key=key), world.endpoint("two", key=key)
    heard: list[glue.Message] = []
    two.subscribe("x", heard.append)
    world.run(1.0)
    one.publish("x", "sealed")
    world.run(1.0)
    assert [message.payload for message in heard] == ["sealed"]


def test_a_forked_child_has_another_life(lan: Lan, key: str) -> None:
    endpoint = lan.start("parent", key=key)
    before = endpoint._core.security.sealer.salt
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, endpoint._core.security.sealer.salt)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 16) != before
    assert endpoint._core.security.sealer.salt == before
    os.close(read)
    os.close(write)


# ------------------------------------------------------------------------------------------------ key files


def test_a_new_key_file_is_private_and_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plant.key"
    assert command.main(["new", str(path)]) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_text()
    assert command.main(["new", str(path)]) == 2
    assert path.read_text() == content
    assert command.main(["show", str(path)]) == 0
    shown = "".join(capsys.readouterr())
    assert "epoch 1" in shown
    assert read_key(path).newest.root.hex() not in shown


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (None, 0o600, "glue key new"),
        ("{}", 0o600, "no glue key"),
        ("junk", 0o600, "no glue key"),
        ('{"glue key":1,"epochs":[{"epoch":1,"root":"00"}]}', 0o600, "no glue key"),
        ('{"glue key":1,"epochs":[]}', 0o600, "no glue key"),
        ('{"glue key":9,"epochs":[]}', 0o600, "format 9"),
        ("right", 0o644, "chmod 600"),
        ("right", 0o660, "chmod 600"),
    ],
)
def test_a_wrong_key_file_is_refused_with_what_to_do(tmp_path: Path, content: str | None, mode: int, told: str) -> None:
    path = tmp_path / "plant.key"
    if content is not None:
        path.write_text(new_key(os.urandom).to_text() if content == "right" else content)
        path.chmod(mode)
    with pytest.raises(glue.ConfigurationError, match=told):
        glue.Endpoint("a", key=str(path))


def test_a_pipe_in_place_of_a_key_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plant.key", 0o600)
    with pytest.raises(glue.ConfigurationError, match="not a file"):
        glue.Endpoint("a", key=str(tmp_path / "plant.key"))


def test_a_key_is_a_path_and_nothing_else() -> None:
    for wrong in (b"secret", 5, True):
        with pytest.raises(glue.ConfigurationError, match="key"):
            glue.Endpoint("a", key=wrong)


def test_without_the_package_the_error_names_the_extra(key: str) -> None:
    with mock.patch.dict(sys.modules, {"cryptography.hazmat.primitives.ciphers.aead": None}):
        with pytest.raises(glue.MissingExtraError, match=r"glue-lan\[secure\]"):
            glue.Endpoint("a", key=key)
        glue.Endpoint("a")
        with pytest.raises(glue.MissingExtraError, match=r"glue-lan\[secure\]"):
            cipher(AES_GCM, bytes(32), b"", b"")


def test_the_cipher_is_measured() -> None:
    assert fastest_suite() in SUITES.values()
    assert AES_GCM in SUITES.values()
