"""Grants: a receiver lets a sender seal blocks while they open; see `glue.security.granting`."""

from __future__ import annotations

from random import Random

from glue.contract import Train
from glue.endpoint.core import id_of
from glue.security import rotated
from glue.security.blocks import BLOCKS, MOST
from glue.security.fastpath import SealingFastPath
from glue.security.granting import PATIENCE, TRIAL, Grant, Granting
from glue.security.runs import OVERHEAD
from tests.security.pair import KEY, OTHER_KEY, Member, deliver
from tests.security.streams import COUNT, SIZE, Stream
from tests.security.test_identities import HALL, THIEF, layer, meet


def test_a_stranger_and_another_life_can_grant_nothing() -> None:
    stream = Stream()
    kitchen, hall = stream.kitchen, stream.hall
    stranger, attic = Member("stranger", key=OTHER_KEY), Member("attic")
    grants = [Grant(kitchen.layer.sealer.salt, 10**6), Grant(hall.layer.sealer.salt, 10**6)]
    for member, grant in ((stranger, grants[0]), (attic, grants[0]), (hall, grants[1])):
        body = grant.encode()
        sealed = bytes(member.layer.seal(body, len(body), kitchen.address))
        kitchen.receive([((), sealed)], hall.address)
    assert stream.sealed(stream.plain())[0] not in BLOCKS
    for body in (grants[0].encode()[:-1], grants[0].encode() + b"\0", b"\x03"):
        assert Grant.parse(body) is None


def test_after_a_rotation_blocks_begin_anew(stream: Stream) -> None:
    new = rotated(KEY, Random(5).randbytes)
    stream.hall.layer.set_key(new)
    stream.kitchen.layer.set_key(new)
    for _ in range(TRIAL):
        plain = stream.plain()
        assert stream.arrives(stream.sealed(plain)) == plain
    stream.block()


def test_another_life_at_the_same_address_gets_no_blocks(stream: Stream) -> None:
    again = Member("hall", seed=9)
    deliver(again, stream.kitchen, again.send(b"back"))
    assert stream.sealed(stream.plain())[0] not in BLOCKS


def test_grants_grow_while_blocks_open_and_become_rare_when_they_fail() -> None:
    granting = Granting()
    assert [granting.arrived(number, 1) for number in range(PATIENCE)].index(True) == PATIENCE - 1
    assert granting.opened(100, 1)
    assert not granting.opened(200, 1)
    granting.failed(0)
    assert not granting.opened(10**6, 1)
    assert sum(granting.arrived(number, 1) for number in range(8 * PATIENCE)) == 1


def test_a_sender_is_told_to_end_blocks_by_the_next_datagram_that_opens_and_not_before(stream: Stream) -> None:
    _, sealed = stream.block()
    for _ in range(100):
        up, down = stream.hall.layer.receive(0.0, [Train(stream.kitchen.address, sealed[:-1], SIZE + OVERHEAD)])
        assert not up
        assert not down
    assert stream.arrives(stream.sealed(stream.plain(1))) != b""
    assert stream.sealed(stream.plain())[0] not in BLOCKS
    told = 0
    for _ in range(100):  # who adds datagrams does not make an endpoint tell it again and again
        stream.hall.layer.receive(0.0, [Train(stream.kitchen.address, sealed[:-1], SIZE + OVERHEAD)])
        alone = stream.sealed(stream.plain(1))
        told += len(stream.hall.layer.receive(0.0, [Train(stream.kitchen.address, alone, SIZE + OVERHEAD)])[1])
    assert told <= 4


def test_a_member_with_an_identity_grants_no_blocks_for_another() -> None:
    hall, thief = layer("hall"), layer("thief")
    meet(hall, thief)
    body = Grant(hall.sealer.salt, 10**6).encode()
    grant = thief.send(0.0, [Train(HALL, body, len(body))])[0]
    other = ("10.0.0.9", 1)
    life = hall.lives.fresh[0]
    hall.receive(0.0, [Train(other, bytes(grant.data), grant.segment)])
    hall.sealer.meet(other, life)
    plain = (b'{"glue":[1,1,"%s",1,0]}\n' % id_of("hall").encode() + bytes(100)) * COUNT
    assert bytes(hall.send(0.0, [Train(other, plain, len(plain) // COUNT)])[0].data)[0] not in BLOCKS


def test_members_with_identities_seal_no_blocks_with_the_key_of_the_group() -> None:
    hall, thief = layer("hall"), layer("thief")
    meet(hall, thief)
    body = Grant(thief.sealer.salt, 10**6).encode()
    grant = hall.send(0.0, [Train(THIEF, body, len(body))])[0]
    thief.receive(0.0, [Train(HALL, bytes(grant.data), grant.segment)])
    plain = (b'{"glue":[1,1,"%s",1,0]}\n' % id_of("thief").encode() + bytes(100)) * COUNT
    train = Train(HALL, plain, len(plain) // COUNT)
    assert bytes(thief.send(0.0, [train])[0].data)[0] in BLOCKS
    thief.sealer.partners.clear()  # it has met too many
    sealed = thief.send(0.0, [train])[0]
    data = bytes(sealed.data)
    assert data[0] not in BLOCKS
    hall.receive(0.0, [Train(THIEF, data, sealed.segment)])
    assert hall.statistics["refused: not sealed for this endpoint alone"] == COUNT


def test_long_trains_count_as_many_system_calls() -> None:
    """A receiver that is busy reads a megabyte as one train."""
    granting = Granting()
    assert [granting.arrived(number, 16 * MOST) for number in range(2)] == [False, True]
    granting.failed(0)
    assert [granting.arrived(number, 64 * MOST) for number in range(4)] == [False, False, False, True]


def test_rare_failures_are_forgiven_when_as_many_blocks_opened_as_trains_were_waited_for() -> None:
    granting, at = Granting(), 0
    for _ in range(20):
        waited = 0
        while not granting.is_on:
            at, waited = at + COUNT, waited + 1
            granting.arrived(at, COUNT)
        assert waited <= 8 * PATIENCE
        for _ in range(8 * PATIENCE):
            at += COUNT
            granting.opened(at, COUNT)
        granting.failed(at)


def test_a_grant_from_before_a_rotation_does_not_count_after_it(stream: Stream) -> None:
    body = Grant(stream.kitchen.layer.sealer.salt, 10**6).encode()
    late = bytes(stream.hall.layer.send(0.0, [Train(stream.kitchen.address, body, len(body))])[0].data)
    new = rotated(KEY, Random(5).randbytes)
    stream.kitchen.layer.set_key(new)
    stream.kitchen.layer.sealer.use(new.newest)
    stream.kitchen.receive([((), late)], stream.hall.address)
    assert stream.sealed(stream.plain())[0] not in BLOCKS


def test_what_a_receiver_grants_leaves_with_the_next_that_it_sends() -> None:
    """On the fast path, a train is opened without a way to send something in return."""
    stream = Stream()
    kitchen, hall = stream.kitchen, stream.hall
    for number in range(PATIENCE):
        assert hall.layer.send(0.0, []) == [], number
        sealed = stream.sealed(stream.plain())
        assert hall.layer.open_train(0.0, Train(kitchen.address, sealed, SIZE + OVERHEAD)) is not None
    plain = Train(kitchen.address, stream.plain(1), SIZE)
    assert SealingFastPath(hall.layer).send_one(0.0, plain) is None, "it is left to the ordinary way"
    grant, other = hall.layer.send(0.0, [plain])
    assert grant.address == kitchen.address
    assert other.segment == SIZE + OVERHEAD
    assert len(hall.layer.send(0.0, [plain])) == 1, "once"
    assert SealingFastPath(hall.layer).send_one(0.0, plain) is not None
    kitchen.receive([((), bytes(grant.data))], hall.address)
    stream.block()


def test_a_train_is_sealed_once_however_often_it_is_read() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    (train,) = kitchen.layer.send(0.0, [Train(hall.address, bytes(3 * SIZE), SIZE)])
    first = bytes(train.data)
    assert bytes(train.data) == first == b"".join(train.chunks())
    assert kitchen.layer.statistics["datagrams sealed"] == 3
