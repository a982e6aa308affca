"""Identities: members are told apart, and what one sends to another is for that one alone."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

import glue
from glue.cmd import key as command
from glue.contract import Train
from glue.endpoint.secrets import read_key
from glue.security import AES_GCM, Key, MemberIdentity, Sealing, granted, new_key, rotated
from glue.security.signing import public_of, sign
from glue.simulation import World
from tests.support.lan import PATIENCE, Ear, Lan

RANDOM = Random(1)
AUTHORITY = RANDOM.randbytes(32)
KEY = new_key(RANDOM.randbytes, authority=public_of(AUTHORITY))
NOW = 1_700_000_000.0


def identity(name: str, authority: bytes = AUTHORITY, until: float | None = None) -> MemberIdentity:
    return MemberIdentity(name, Random(name).randbytes(32)).admitted(authority, until, [])


class Plant:
    """Endpoints with identities in virtual time; all that they hear is kept."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.heard: dict[str, list[object]] = {}

    def start(self, name: str, key: Key = KEY, who: MemberIdentity | None = None) -> glue.simulation.SimulatedEndpoint:
        endpoint = self.world.endpoint(name, key=key, identity=who or identity(name))
        self.heard[name] = []
        endpoint.subscribe("x/#", lambda message: self.heard[name].append((message.publisher, message.payload)))
        return endpoint


def test_members_with_identities_talk_by_unicast_and_by_multicast() -> None:
    plant = Plant()
    kitchen, hall, attic = (plant.start(name) for name in ("kitchen", "hall", "attic"))
    only = plant.world.endpoint("only", key=KEY, identity=identity("only"))
    alone: list[object] = []
    only.subscribe("y", lambda message: alone.append(message.payload))
    plant.world.run(2.0)
    kitchen.publish("x/1", "to both")
    hall.publish("y", b"to one" * 2000)
    plant.world.run(2.0)
    assert plant.heard["hall"] == plant.heard["attic"] == [("kitchen", "to both")]
    assert alone == [b"to one" * 2000]
    assert [peer.name for peer in attic.peers] == ["hall", "kitchen", "only"]
    for endpoint in (kitchen, hall, attic, only):
        refused = {cause: count for cause, count in endpoint.statistics["security"].items() if "refused" in cause}
        assert sum(refused.values()) <= 3, refused  # what came before the first hello


@pytest.mark.parametrize(
    ("who", "told"),
    [
        (identity("thief", authority=bytes(32)), "another authority"),
        (identity("late", until=NOW - 3600), "certificate of late is over"),
    ],
)
def test_an_endpoint_that_is_not_admitted_is_refused_by_name(
    who: MemberIdentity, told: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glue.endpoint.secrets._identity", lambda key, given: given)
    plant = Plant()
    hall = plant.start("hall")
    plant.start(who.name, who=who)
    plant.world.run(3.0)
    assert hall.peers == []
    assert told in caplog.text


def test_a_member_cannot_speak_under_another_name() -> None:
    hall, thief = layer("hall"), layer("thief")
    meet(hall, thief)
    id = glue.endpoint.core.id_of("kitchen").encode()
    forged = b'{"glue":[1,1,"%s",1,0]}\nforged' % id
    up, _ = hall.receive(0.0, [opened_for(thief, HALL, forged)])
    assert up == []
    assert hall.statistics["refused: not who it says"] == 1
    own = b'{"glue":[1,1,"%s",1,0]}\nown' % glue.endpoint.core.id_of("thief").encode()
    up, _ = hall.receive(0.0, [opened_for(thief, HALL, own)])
    assert [bytes(train.data) for train in up] == [own]


HALL, THIEF, KITCHEN = ("10.0.0.1", 1), ("10.0.0.2", 1), ("10.0.0.3", 1)
ADDRESSES = {"hall": HALL, "thief": THIEF, "kitchen": KITCHEN}


def layer(name: str) -> Sealing:
    return Sealing(
        key=KEY, network_id=1, suite=AES_GCM, entropy=Random(name).randbytes, tell=lambda cause, address: None,
        identity=identity(name), unix_time=lambda: NOW,
    )  # fmt: skip


def meet(one: Sealing, other: Sealing) -> None:
    names = {id(one): "hall", id(other): "thief"}
    beginning = b'{"glue":[1,1,"%s",1,0]}\n' % glue.endpoint.core.id_of("thief").encode()
    items = [opened_for(other, (), beginning)]
    sender, receiver = other, one
    while items:
        arrived = [Train(ADDRESSES[names[id(sender)]], train.data, train.segment) for train in items]
        _, items = receiver.receive(0.0, arrived)
        sender, receiver = receiver, sender
    assert one.lives.fresh
    assert other.lives.fresh


def opened_for(sender: Sealing, address: tuple[object, ...], datagram: bytes) -> Train:
    """A datagram as it arrives: sealed, with the sender's address."""
    sealed = bytes(sender.send(0.0, [Train(address, datagram, len(datagram))])[0].data)
    return Train(THIEF, sealed, len(sealed))


def test_a_member_reads_and_forges_no_unicast_of_others() -> None:
    hall, thief = layer("hall"), layer("thief")
    meet(hall, thief)
    own = b'{"glue":[1,1,"%s",1,0]}\n' % glue.endpoint.core.id_of("thief").encode()
    sealed = opened_for(thief, HALL, own)
    other = layer("kitchen")
    meet(other, layer("thief"))
    assert other.receive(0.0, [sealed])[0] == []
    group = bytes(thief.sealer.seal_for_group(own, len(own), HALL))  # as any member could make it
    up, _ = hall.receive(0.0, [Train(THIEF, group, len(group))])
    assert up == []
    assert hall.statistics["refused: not sealed for this endpoint alone"] == 1
    assert hall.receive(0.0, [sealed])[0] != []


def test_a_revoked_member_is_out_after_a_rotation_that_reaches_all_others() -> None:
    plant = Plant(4)
    kitchen, hall, thief = plant.start("kitchen"), plant.start("hall"), plant.start("thief")
    plant.world.run(2.0)
    new = granted(rotated(KEY, Random(9).randbytes, overlap=5), AUTHORITY, ["thief"])
    kitchen._core.security._new_key = lambda: new
    kitchen._core.security.look_at = 0.0
    plant.world.run(30.0)
    assert [peer.name for peer in kitchen.peers] == ["hall"]
    assert hall._core.security.key.newest == new.newest
    assert thief._core.security.key.newest == KEY.newest
    assert thief.peers == []


def test_a_revoked_member_that_gets_the_new_key_is_told_so_by_name_at_both_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plant = Plant(4)
    new = granted(rotated(KEY, Random(9).randbytes, overlap=5), AUTHORITY, ["thief"])
    hall, thief = plant.start("hall"), plant.start("thief")
    plant.world.run(2.0)
    for one in (hall, thief):  # the file is copied by hand
        one._core.security._new_key = lambda: new
        one._core.security.look_at = 0.0
    plant.world.run(10.0)
    assert hall.peers == []
    told = [record.getMessage() for record in caplog.records]
    assert any("is refused: thief is revoked" in line for line in told), "at the others"
    assert any("says that thief, this endpoint, is revoked" in line for line in told), "at the thief"


def test_an_endpoint_does_not_start_with_an_identity_that_its_key_revokes(tmp_path: Path) -> None:
    new = granted(rotated(KEY, Random(9).randbytes), AUTHORITY, ["thief"])
    identity = MemberIdentity("thief", bytes(32)).admitted(AUTHORITY, None, [])
    with pytest.raises(glue.ConfigurationError, match="thief is revoked by the key"):
        glue.Endpoint(key=new, identity=identity)


def test_an_epoch_that_the_authority_did_not_sign_is_not_taken() -> None:
    plant = Plant(5)
    kitchen, hall = plant.start("kitchen"), plant.start("hall")
    plant.world.run(2.0)
    kitchen._core.security._new_key = lambda: granted(rotated(KEY, Random(9).randbytes, overlap=5), bytes(32))
    kitchen._core.security.look_at = 0.0
    plant.world.run(3.0)
    assert hall._core.security.key.newest == KEY.newest


def test_ed25519_of_rfc_8032_section_7_1() -> None:
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert public_of(secret).hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert sign(secret, b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b"
    )


def test_the_commands_make_admit_and_rotate(
    lan: Lan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (
        ["new", "plant.key"],
        ["authority", "plant.authority", "--key", "plant.key"],
        *[["identity", name] for name in ("kitchen", "hall", "operator")],
    ):
        assert command.main(words) == 0
    with pytest.raises(glue.ConfigurationError, match="glue key identity"):
        glue.Endpoint(key="plant.key")
    with pytest.raises(glue.ConfigurationError, match="glue key admit"):
        glue.Endpoint(key="plant.key", identity="hall.identity")
    for name in ("kitchen", "hall", "operator"):
        words = ["admit", f"{name}.identity", "--authority", "plant.authority", "--publish", "#", "--subscribe", "#"]
        assert command.main(words) == 0
    with pytest.raises(glue.ConfigurationError, match="leave the name out"):
        glue.Endpoint("attic", key="plant.key", identity="hall.identity")
    os.system("cp plant.key other.key")
    kitchen = lan.start(key="plant.key", identity="kitchen.identity")
    hall = lan.start(key="other.key", identity="hall.identity")
    assert (kitchen.name, hall.name) == ("kitchen", "hall")
    ear = Ear()
    hall.subscribe("x", ear)
    assert kitchen.wait_for_subscribers("x", 1, timeout=PATIENCE)
    kitchen.publish("x", bytes(500_000))
    assert ear.wait()[0].payload == bytes(500_000)
    options = ["--interface", str(lan.settings["interface"]), "--network-id", str(lan.settings["network_id"])]
    options += ["--multicast-address", str(lan.settings["multicast_address"]), "--identity", "operator.identity"]
    os.system("cp plant.key mine.key")
    assert command.main(["rotate", "mine.key", "--authority", "plant.authority", *options]) == 0
    assert "2 of 2 members" in capsys.readouterr().out
    assert read_key("other.key").newest == read_key("mine.key").newest
