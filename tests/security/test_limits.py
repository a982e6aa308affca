"""The bounds of what an endpoint with a key remembers, grants and asks: each at its value, and one beyond."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from glue.contract import Train
from glue.endpoint.core import id_of
from glue.security import AES_GCM, greeter, new_key, rotated, sealer
from glue.security.blocks import LEAST, MOST
from glue.security.granting import ENDINGS, PATIENCE, SETBACK, SPAN, TRIAL, Grant, Granting
from glue.security.lives import HELD, LIFE_LIMIT, UNPROVEN_LIMIT, Life, Lives, is_pair
from glue.security.runs import LAST
from glue.security.suites import PAIR
from glue.security.window import WIDTH, ReplayWindow
from tests.security import test_lives
from tests.security.pair import HEADER, KEY, Member, acquainted, deliver
from tests.security.test_lives import passed


class Seen:
    """What a window is to be: a set of numbers."""

    def __init__(self) -> None:
        self.highest, self.first, self.seen = -1, -1, set[int]()

    def is_new(self, first: int, count: int) -> bool:
        numbers = range(first, first + count)
        if first > self.highest:
            return True
        if self.highest - first >= WIDTH or numbers[-1] > self.highest or first <= self.first:
            return False
        return self.seen.isdisjoint(numbers)

    def accept(self, first: int, count: int) -> None:
        if self.highest < 0:
            self.first = first + count - 1  # all below the first counts as seen, and so does it
        self.highest = max(self.highest, first + count - 1)
        self.seen.update(range(first, first + count))


def test_a_window_takes_no_more_memory_however_far_it_moves() -> None:
    window = ReplayWindow()
    for number in range(0, 4000 * 200, 4000):
        window.accept(number, 2)
    assert sys.getsizeof(window._seen) < 2 * WIDTH / 8
    assert not window.is_new(4000 * 199)
    assert window.is_new(4000 * 199 - 1)


@pytest.mark.parametrize("seed", range(3))
def test_a_window_knows_the_last_numbers_as_a_set_would(seed: int) -> None:
    random, window, naive = Random(seed), ReplayWindow(), Seen()
    at = 100
    for _ in range(1500):
        count = random.choice((1, 1, 2, 30, WIDTH - 1, WIDTH) if random.random() < 0.05 else (1, 1, 2, 9))
        first = at + random.choice((0, 0, 1, 2, 40, -1, -2, -9, -50, 1 - WIDTH, -WIDTH, -1 - WIDTH))
        if random.random() < 0.01:
            first = at + random.choice((WIDTH - 1, WIDTH, WIDTH + 1, 3 * WIDTH))
        if first < 0:
            continue
        assert window.is_new(first, count) == naive.is_new(first, count), (first, count, at)
        assert window.is_old(first) == (naive.highest - first >= WIDTH)
        if window.is_new(first, count):
            window.accept(first, count)
            naive.accept(first, count)
        assert window.highest == naive.highest
        at = max(window.highest, 0) + 1
    assert ReplayWindow(7).is_new(7) is ReplayWindow(7).is_new(6) is False
    assert ReplayWindow(7).is_new(8)


def granted() -> Granting:
    """Blocks are on: they are granted up to 32 + TRIAL."""
    granting = Granting()
    found = [granting.arrived(number, 1) for number in range(1, PATIENCE + 1)]
    assert found == [False] * (PATIENCE - 1) + [True]
    assert (granting.is_on, granting.until, granting.told()) == (True, PATIENCE + TRIAL, PATIENCE + TRIAL)
    return granting


def test_what_is_granted_is_a_trial_and_then_a_span_ahead() -> None:
    fresh = Granting()
    assert (fresh.until, fresh.told(), fresh.is_on, fresh.is_ending) == (0, 0, False, False)
    assert not fresh.opened(9, 1)
    granting = granted()
    until = granting.until
    assert not granting.arrived(until, 1)
    assert (granting.arrived(until + 1, 1), granting.until) == (True, until + 1 + TRIAL)
    until = granting.until
    assert (granting.opened(until - SPAN // 2, 1), granting.until) == (False, until)
    assert (granting.opened(until - SPAN // 2 + 1, 1), granting.until) == (True, until + SPAN // 2 + 1)
    assert granting.arrived(LAST - TRIAL, 1)
    assert not granting.arrived(LAST - TRIAL + 1 + TRIAL, 1)  # no number beyond the last is granted
    assert Grant.parse(Grant(b"s" * 16, 1 << 31).encode()) == Grant(b"s" * 16, LAST)


def waited(granting: Granting, of: int = 1) -> int:
    """How many trains arrive until blocks are granted."""
    for number in range(1, 1 << 22):
        if granting.arrived(10**6 + number, of):
            return number
    raise AssertionError


def test_each_failure_costs_more_patience_and_what_opens_wins_it_back() -> None:
    granting = granted()
    granting.failed(0)
    assert waited(granting) == PATIENCE * SETBACK
    for number in range(PATIENCE * SETBACK - 1):
        granting.opened(number, MOST)
    granting.failed(0)
    assert waited(granting) == PATIENCE * SETBACK**2  # one block too few had opened
    for number in range(PATIENCE * SETBACK**2):
        granting.opened(number, MOST)
    granting.failed(0)
    granting.failed(0)  # of the same train: blocks are off already
    assert waited(granting) == PATIENCE * SETBACK**2
    granting.failed(0)
    for _ in range(9):
        waited(granting, MOST << 12)
        granting.failed(0)
    assert waited(granting, MOST << 12) == (1 << 20) >> 12  # there is an end to it
    for number in range(100):
        granting.opened(number, 2 * MOST + 1)  # three calls' worth
    granting.failed(0)
    assert waited(granting, MOST << 12) == (1 << 20) >> 12


def test_the_end_of_blocks_is_told_some_times_and_only_while_it_may_be_unknown() -> None:
    granting = granted()
    granting.failed(granting.until)  # the sender knows that it may not
    assert not granting.is_ending
    granting = granted()
    told = list[tuple[int, bool]]()
    granting.failed(granting.until - 1)
    while granting.is_ending:
        told.append((granting.told(), bool(granting.is_ending)))
        granting.failed(0)
    assert told == [(0, False)] * ENDINGS == [(0, False)] * 4
    assert waited(granting) == PATIENCE * SETBACK
    assert not granting.is_ending
    assert granting.told() > 0


def known(lives: Lives, number: int, heard: float, is_fresh: bool, epoch: Any = KEY.newest) -> Life:
    """A life of this number that has sent a datagram."""
    opener = lives.candidate(bytes([AES_GCM.format, epoch.id]) + b"\0\1" + number.to_bytes(16, "big"), epoch)
    lives.learn(opener)
    opener.life.heard, opener.life.is_fresh = heard, is_fresh
    return opener.life


def test_too_many_lives_push_out_the_one_that_was_silent_for_longest() -> None:
    statistics = Counter[str]()
    lives = Lives(Random(1).randbytes, statistics)
    proved = [known(lives, number, 100.0 - number, True) for number in range(3)]
    unproved = [known(lives, number, 1000.0 - number, False) for number in range(10, 10 + UNPROVEN_LIMIT)]
    challenge = lives.challenge
    assert not statistics
    known(lives, 9, 2000.0, False)
    assert statistics == {"lives forgotten: too many": 1}
    assert lives.find(unproved[-1].salt) is None
    assert [*lives][:4] == [*proved, unproved[0]]
    assert len(lives.openers) == 3 + UNPROVEN_LIMIT
    assert lives.challenge == challenge  # it had returned none
    for life in lives:
        life.is_fresh = True
    for number in range(1000, 1000 + LIFE_LIMIT - len([*lives])):
        known(lives, number, 5000.0, True)
    assert statistics["lives forgotten: too many"] == 1
    assert len([*lives]) == len(lives.fresh) == LIFE_LIMIT
    known(lives, 8, 5000.0, False)
    assert statistics["lives forgotten: too many"] == 2
    assert lives.find(proved[-1].salt) is None
    assert lives.find(proved[0].salt) is proved[0]
    assert lives.challenge != challenge


@pytest.mark.parametrize(("last", "gone"), [("kitchen", "attic"), ("attic", "kitchen")])
def test_who_was_heard_last_stays_whether_it_has_just_come_or_goes_on(
    last: str, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glue.security.lives.LIFE_LIMIT", 2)
    hall, members = Member("hall"), {name: Member(name) for name in ("kitchen", "attic", "cellar")}
    deliver(members["kitchen"], hall, members["kitchen"].send(b"I"), now=1.0)
    if last == "attic":
        hall.receive(members["kitchen"].send(b"on"), members["kitchen"].address, 2.0)
    deliver(members["attic"], hall, members["attic"].send(b"I"), now=3.0)
    if last == "kitchen":
        hall.receive(members["kitchen"].send(b"on"), members["kitchen"].address, 4.0)
    deliver(members["cellar"], hall, members["cellar"].send(b"I"), now=5.0)
    assert sorted(hall.up) == [b"I", b"I", b"I", b"on"]
    known = [name for name, one in members.items() if hall.layer.lives.find(one.layer.sealer.salt) is not None]
    assert known == [name for name in members if name != gone]


def test_the_keys_of_an_epoch_that_is_over_and_of_pairs_are_forgotten_and_no_others() -> None:
    lives = Lives(Random(1).randbytes, Counter())
    other = rotated(KEY, Random(2).randbytes).newest
    one = known(lives, 1, 0.0, True)
    known(lives, 2, 0.0, True, other)
    pair = bytes([AES_GCM.format + PAIR, KEY.newest.id]) + b"\0\1" + one.salt
    lives.learn(lives.candidate_of_pair(pair, KEY.newest, b"secret", bytes(16)))
    one.secret = b"secret"
    lives.drop_epochs({other.id})
    assert [prefix[1] for prefix in lives.openers] == [KEY.newest.id] * 2
    assert [is_pair(prefix[0]) for prefix in lives.openers] == [False, True]
    lives.forget_pairs()
    assert [is_pair(prefix[0]) for prefix in lives.openers] == [False]
    assert [life.secret for life in lives] == [None, None]


def test_a_life_that_has_not_proved_itself_has_its_last_datagrams_held() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    sent = [one for number in range(HELD + 1) for one in kitchen.send(b"%d" % number)]
    hellos = [hall.receive([one], kitchen.address) for one in sent[:HELD]]
    assert hall.layer.statistics["refused: not known to be fresh"] == 0
    hall.receive(sent[HELD:], kitchen.address)
    assert hall.layer.statistics["refused: not known to be fresh"] == 1
    answers = kitchen.receive(hellos[0], hall.address)
    hall.receive(answers, kitchen.address)
    assert hall.up == [b"%d" % number for number in range(1, HELD + 1)]
    assert HELD == 8
    assert hall.layer.statistics["datagrams opened"] == HELD


def test_a_life_is_asked_at_most_every_four_seconds_in_the_end() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    asked = [now for now in range(2800) if hall.receive(kitchen.send(b"x"), kitchen.address, now * 0.005)]
    gaps = [later - earlier for earlier, later in pairwise(asked)]  # in steps of 0.005 s
    assert [round(gap / 2**number, 1) for number, gap in enumerate(gaps[2:8], 3)] == pytest.approx([1.0] * 6, abs=0.2)
    assert {*gaps[9:]} <= {800, 801}
    assert len(gaps) > 9


def test_members_make_room_for_others_only_once_they_are_gone_and_are_met_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(greeter, "MEMBERS", 2)
    monkeypatch.setattr(greeter, "FIRST_NUMBERS", 2)
    hall, *others = (test_lives.Member(name, number) for number, name in enumerate(("hall", "a", "b", "c", "d"), 1))
    wrapper = hall.layer.wrapper
    assert wrapper is not None
    ids = [id_of(one.name) for one in others]
    for other in others[:3]:
        assert passed(other, hall, b"hello", to_all=True) == [b"hello"]
    assert [*hall.layer.members] == ids[:3]
    gone = hall.layer.lives.find(others[1].layer.sealer.salt)
    assert gone is not None
    hall.layer.lives.forget(gone)
    for other, met in ((others[3], [0, 2, 3]), (others[1], [0, 2, 3, 1])):
        assert passed(other, hall, b"hello", to_all=True) == [b"hello"]
        assert [*hall.layer.members] == [ids[number] for number in met]
        assert [wrapper.first_number(id, 0) for id in ids] == [1 if number in met else None for number in range(4)]
        assert [peer for peer, _ in wrapper.lives(ids)] == [ids[number] for number in sorted(met)]


def test_addresses_of_partners_are_bounded_and_met_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer, "PARTNERS", 2)
    hall, *others = (test_lives.Member(name, number) for number, name in enumerate(("hall", "a", "b", "c"), 1))
    for number, other in enumerate(others):
        assert passed(other, hall, b"hello", to_all=True) == [b"hello"]
        assert [*hall.layer.sealer.partners] == [one.address for one in (others[:2] if number == 1 else [other])]
    assert passed(hall, others[0], b"on", to_all=True) == [b"on"]
    assert passed(others[0], hall, b"on") == [b"on"]
    assert [*hall.layer.sealer.partners] == [others[2].address, others[0].address]
    for number in range(3):
        hall.layer.sealer.grant(("10.0.0.1", number), 5 + number)
    assert hall.layer.sealer._granted == {("10.0.0.1", 2): 7}


def test_two_lives_of_one_identity_are_known_at_once_and_no_third() -> None:
    hall = test_lives.Member("hall", 1)
    lives = [test_lives.Member("kitchen", number) for number in (2, 3, 4)]
    wrapper = hall.layer.wrapper
    assert wrapper is not None
    salts = [one.layer.sealer.salt for one in lives]
    for number, life in enumerate(lives):
        assert passed(life, hall, b"I", to_all=True) == [b"I"]
        expected = salts[max(0, number - 1) : number + 1]
        assert [salt for _, salt in wrapper.lives([id_of("kitchen")])] == expected
        signature = life.layer.wrapper.sign(b"x") if life.layer.wrapper else b""
        assert wrapper.is_signed(id_of("kitchen"), signature, b"x")
        assert not wrapper.is_signed(id_of("kitchen"), signature, b"y")
    last, gone = hall.layer.lives.find(salts[2]), hall.layer.lives.find(salts[1])
    assert last is not None
    assert gone is not None
    hall.layer._greeter.forget(gone)
    assert [salt for _, salt in wrapper.lives([id_of("kitchen")])] == salts[2:]
    assert id_of("kitchen") in hall.layer.members
    assert [*hall.layer.sealer.partners.values()][-1] is last
    hall.layer._greeter.forget(last)
    assert id_of("kitchen") not in hall.layer.members
    assert last not in hall.layer.sealer.partners.values()


def test_trains_are_sealed_as_blocks_from_their_least_to_their_most_datagrams_and_below_what_is_granted() -> None:
    kitchen, hall = Member("kitchen"), Member("hall")
    acquainted(kitchen, hall)
    made = kitchen.layer.sealer
    for count, expected in ((LEAST - 1, 0), (LEAST, LEAST), (MOST, MOST), (MOST + 1, 0)):
        made.grant(hall.address, 10**6)
        before = made._statistics["datagrams sealed in blocks"]
        made.seal(bytes(100 * count), 100, hall.address)
        assert made._statistics["datagrams sealed in blocks"] - before == expected
    for left, expected in ((9, 0), (10, 10)):
        made.grant(hall.address, made.numbers[0] + left)
        before = made._statistics["datagrams sealed in blocks"]
        made.seal(bytes(1000), 100, hall.address)
        assert made._statistics["datagrams sealed in blocks"] - before == expected
    made.withdraw(hall.address)
    before = made._statistics["datagrams sealed in blocks"]
    made.seal(bytes(1000), 100, hall.address)
    assert made._statistics["datagrams sealed in blocks"] == before


def test_the_last_number_of_a_life_is_used_and_no_further_one() -> None:
    kitchen = Member("kitchen")
    salt, statistics = kitchen.layer.sealer.salt, kitchen.layer.statistics
    kitchen.layer.sealer.numbers = [LAST - 2, LAST - 1]
    kitchen.send(b"1", b"2", to=Member("hall"))
    kitchen.send(b"1")
    assert (kitchen.layer.sealer.salt, kitchen.layer.sealer.numbers) == (salt, [LAST, LAST])
    assert statistics["lives begun: numbers used up"] == 0
    kitchen.send(b"3")
    assert kitchen.layer.sealer.salt != salt
    assert (statistics["lives begun: numbers used up"], kitchen.layer.sealer.numbers) == (1, [0, 1])


def test_no_datagram_of_a_train_passes_that_begins_with_another_name_or_is_cut_before_it() -> None:
    hall, kitchen = test_lives.met()
    assert passed(kitchen, hall, b"hello") == [b"hello"]
    true = kitchen.beginning + bytes(20)
    other = HEADER % id_of("hall").encode() + bytes(20)
    for wrong in (true * 3 + b"{", true + other.ljust(len(true)) + true, true * 2 + true[: len(kitchen.beginning) - 9]):
        sealed = kitchen.layer.send(0.0, [Train(hall.address, wrong, len(true))])[0]
        assert hall.layer.open_train(0.0, Train(kitchen.address, bytes(sealed.data), sealed.segment)) is None
    sealed = kitchen.layer.send(0.0, [Train(hall.address, true * 3, len(true))])[0]
    opened = hall.layer.open_train(0.0, Train(kitchen.address, bytes(sealed.data), sealed.segment))
    assert opened is not None
    assert bytes(opened.data) == true * 3


def test_a_new_life_of_another_is_as_nothing_is_known_of_it() -> None:
    life = Life(bytes(16))
    assert (life.asked, life.newest, life.epoch_id, life.is_fresh, life.address) == (0, 0, -1, False, None)
    assert life.heard == life.ask_at == -float("inf")
    key = new_key(Random(3).randbytes)
    assert (key.newest.number, key.shares, key.overlap, key.rotated_at, key.retired) == (1, True, 60.0, 0.0, ())
