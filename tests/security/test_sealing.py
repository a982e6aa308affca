"""Sealed datagrams: what members hear of each other, and what others learn or can do."""

from __future__ import annotations

from random import Random

import pytest

from glue.contract import Train
from glue.contract.sealed import ANOTHER_KEY, PLAIN, RETIRED
from glue.security import AES_GCM, CHACHA, Suite, retire, rotated
from glue.security.runs import LAST, OVERHEAD
from tests.security.pair import KEY, OTHER_KEY, Member, acquainted, deliver, overhead

SECRET = b"the temperature is 21.5"


@pytest.mark.parametrize("suite", [AES_GCM, CHACHA])
def test_members_hear_each_other_and_nobody_else_reads_it(suite: Suite) -> None:
    kitchen, hall = Member("kitchen", suite=suite), Member("hall")
    sent = kitchen.send(SECRET)
    deliver(kitchen, hall, sent)
    assert hall.up == [SECRET]
    assert SECRET not in sent[0][1]
    assert b"glue" not in sent[0][1]
    assert sent[0][1][:1] != b"{"
    assert overhead(sent, SECRET) == OVERHEAD == 40
    deliver(hall, kitchen, hall.send(b"heard", to=kitchen))
    assert kitchen.up == [b"heard"]


def test_each_datagram_of_a_train_arrives_as_sent_by_the_long_and_the_short_way() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    payloads = [b"%04d" % number * 300 for number in range(150)]
    sent = kitchen.send(*payloads, to=hall)
    data = b"".join(datagram for _, datagram in sent)
    train = hall.layer.open_train(0.0, Train(kitchen.address, data, len(sent[0][1])))
    assert train is not None
    assert train.segment == len(sent[0][1]) - OVERHEAD
    assert bytes(train.data).count(b"glue") == 150
    deliver(kitchen, hall, kitchen.send(*payloads, to=hall))
    assert hall.up == payloads


def test_the_last_datagram_of_a_train_may_be_shorter() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    plain = b'{"glue":0}\n' + bytes(200)
    sealed = kitchen.layer.send(0.0, [Train(hall.address, plain * 3 + plain[:50], len(plain))])[0]
    opened = hall.layer.open_train(0.0, Train(kitchen.address, bytes(sealed.data), sealed.segment))
    assert opened is not None
    assert bytes(opened.data) == plain * 3 + plain[:50]
    assert opened.segment == len(plain)


def test_a_replay_of_this_minute_is_refused() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    sent = kitchen.send(b"open", to=hall)
    hall.receive(sent, kitchen.address)
    hall.receive(sent, kitchen.address)
    assert hall.layer.open_train(0.0, Train(kitchen.address, sent[0][1], len(sent[0][1]))) is None
    assert hall.up == [b"open"]
    assert hall.layer.statistics["refused: replayed"] == 1


def test_a_replay_of_a_former_life_passes_nothing_up_after_a_restart() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    kitchen.send(b"open", to=hall)
    recorded = list(kitchen.sent)
    restarted = Member("hall", seed=7)
    for now in range(20):
        for reply in restarted.receive(recorded, kitchen.address, float(now)):
            assert len(reply[1]) <= max(len(data) for _, data in recorded)
        recorded = recorded[1:] or list(kitchen.sent)
    assert restarted.up == []
    assert not restarted.layer.lives.fresh


def test_a_member_that_restarts_is_heard_again_within_a_round_trip() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    again = Member("kitchen", seed=5)
    deliver(again, hall, again.send(b"back"))
    assert hall.up == [b"back"]


def test_what_comes_before_the_first_accepted_is_refused() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    early = kitchen.send(b"early")
    acquainted(kitchen, hall)
    hall.receive(early, kitchen.address)
    assert hall.up == []


def test_datagrams_may_overtake_each_other() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    sent = kitchen.send(*[b"%02d" % number for number in range(50)], to=hall)
    Random(1).shuffle(sent)
    hall.receive(sent, kitchen.address)
    hall.receive(sent, kitchen.address)
    assert sorted(hall.up) == [b"%02d" % number for number in range(50)]


def test_no_single_bit_can_be_flipped_nor_any_length_cut() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    datagram = kitchen.send(b"open", to=hall)[0][1]
    wrong = [
        datagram[:place] + bytes([datagram[place] ^ 1 << bit]) + datagram[place + 1 :]
        for place in range(len(datagram))
        for bit in range(8)
    ]
    wrong += [datagram[:length] for length in range(len(datagram))] + [datagram + b"\0", datagram * 2, b""]
    known = len(list(hall.layer.lives))
    assert hall.receive([((), data) for data in wrong], kitchen.address) == []
    assert hall.up == []
    assert len(list(hall.layer.lives)) == known


def test_what_two_members_sent_cannot_be_spliced_or_reflected() -> None:
    kitchen, hall, attic = Member("kitchen"), Member("hall"), Member("attic")
    acquainted(kitchen, hall)
    acquainted(attic, hall)
    one, two = kitchen.send(b"one", to=hall)[0][1], attic.send(b"two", to=hall)[0][1]
    hall.receive([((), one[:24] + two[24:]), ((), two[:24] + one[24:]), ((), two[:20] + one[20:])], attic.address)
    assert hall.up == []
    kitchen.receive([((), one)], hall.address)
    assert kitchen.up == []
    assert kitchen.layer.statistics["own datagrams received"] == 1


def test_a_flood_of_bad_tags_takes_no_memory_and_gets_no_answer() -> None:
    hall, random = Member("hall"), Random(3)
    head = Member("kitchen").send(b"x")[0][1][:4]
    flood = [((), head + random.randbytes(100)) for _ in range(1000)]
    assert hall.receive(flood, ("10.9.9.9", 1)) == []
    assert list(hall.layer.lives) == []
    assert hall.layer.lives.openers == {}
    assert hall.layer.statistics["refused: bad tag"] == 1000


def test_plain_datagrams_and_other_keys_are_refused_and_told() -> None:
    hall, stranger = Member("hall"), Member("stranger", key=OTHER_KEY)
    hall.receive([((), b'{"glue":[1,1,"0123456789abcdef",1,0]}\n')], stranger.address)
    hall.receive(stranger.send(b"x"), stranger.address)
    hall.receive([((), b'{"glue":[1,2,"0123456789abcdef",1,0]}\n'), ((), b"junk")], stranger.address)
    assert hall.told == [PLAIN, ANOTHER_KEY]
    assert hall.layer.statistics["refused: plain"] == hall.layer.statistics["refused: another key"] == 1
    assert hall.up == []


def test_a_key_serves_several_networks_that_do_not_hear_each_other() -> None:
    hall, far = Member("hall"), Member("far", network_id=2)
    sent = far.send(b"x")
    hall.receive(sent, far.address)
    moved = sent[0][1][:2] + b"\0\1" + sent[0][1][4:]  # the network id is in the open
    hall.receive([((), moved)], far.address)
    assert hall.up == []
    assert hall.layer.statistics["refused: bad tag"] == 1


def test_both_epochs_are_heard_during_a_rotation_and_the_old_one_is_refused_afterwards() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    new = rotated(KEY, Random(5).randbytes)
    hall.layer.set_key(new)
    deliver(kitchen, hall, kitchen.send(b"old"))
    kitchen.layer.set_key(new)
    deliver(kitchen, hall, kitchen.send(b"new"))
    assert hall.up == [b"old", b"new"]
    late = Member("late")
    hall.layer.set_key(retire(new))
    hall.receive(late.send(b"x"), late.address)
    assert hall.told == [RETIRED]
    assert hall.layer.statistics["refused: epoch is over"] == 1


def test_when_its_numbers_end_a_life_goes_on_with_another_key() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    kitchen.layer.sealer.numbers = [LAST - 2, LAST - 2]
    acquainted(kitchen, hall)
    for number in range(10):
        deliver(kitchen, hall, kitchen.send(b"%d" % number), now=float(number))
    assert hall.up == [b"%d" % number for number in range(10)]
    assert kitchen.layer.statistics["lives begun: numbers used up"] >= 1
    assert len({data[:24] for _, data in kitchen.sent}) == len(kitchen.sent)


def test_a_cloned_machine_is_noticed_and_takes_another_key() -> None:
    kitchen, clone = Member("kitchen", seed=1), Member("kitchen", seed=1)
    assert kitchen.layer.sealer.salt == clone.layer.sealer.salt
    kitchen.send(b"1"), kitchen.send(b"2")
    clone.receive(kitchen.sent[1:], kitchen.address)
    assert clone.layer.statistics["lives begun: cloned"] == 1
    assert clone.layer.sealer.salt != kitchen.layer.sealer.salt


def test_what_a_member_sent_in_the_former_epoch_and_comes_back_after_a_rotation_is_its_own() -> None:
    kitchen = Member("kitchen")
    kitchen.send(b"1")
    salt = kitchen.layer.sealer.salt
    kitchen.layer.sealer.use(rotated(KEY, Random(5).randbytes).newest)
    kitchen.receive(kitchen.sent, kitchen.address)
    assert kitchen.layer.statistics["own datagrams received"] == 1
    assert kitchen.layer.statistics["lives begun: cloned"] == 0
    assert kitchen.layer.sealer.salt == salt


def test_after_a_fork_a_life_takes_another_key() -> None:
    kitchen = Member("kitchen")
    before = kitchen.layer.sealer.salt
    kitchen.layer.renew()
    assert kitchen.layer.sealer.salt != before


def test_a_forgotten_life_has_to_prove_itself_again() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    recorded = list(kitchen.sent)
    hall.layer.lives.forget(hall.layer.lives.fresh[0])
    hall.receive(recorded, kitchen.address)
    assert hall.up == []
