"""Which path a peer's data takes: tables of what is heard and asked in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from glue.contract import Address
from glue.discovery.paths import HOLD, LAST_MISSES, PATIENCE, STALE, TIMEOUT, Path, Paths

ETH: Address = ("10.0.0.2%eth0", 1)
WLAN: Address = ("10.1.0.2%wlan0", 1)
START = 100.0


class Net:
    """The paths to one peer, and the network between: answers take a round trip, unless the path is dead."""

    def __init__(self, is_leading: bool = True) -> None:
        self.now = START
        self.paths = Paths(START, ETH, is_leading, START + 0.5)
        self.paths.add(START, WLAN, False)
        self.round_trips = {ETH: 0.001, WLAN: 0.003}
        self.dead: set[Address] = set()
        self.changes: list[tuple[float, Address]] = []
        self.questions: list[Address] = []
        self._answers: list[tuple[float, Address, int]] = []
        self._token = 0

    @property
    def current(self) -> Address:
        return self.paths.current.address

    def change(self, path: Path | None) -> None:
        if path is not None:
            self.paths.change(self.now, path)
            self.changes.append((self.now - START, path.address))

    def run(self, seconds: float, each: Callable[[], object] = lambda: None, step: float = 0.0005) -> None:
        """Let time pass; `each` is called in every step, before questions are asked and answered."""
        end = self.now + seconds
        while self.now < end:
            self.now += step
            each()
            for answer in [answer for answer in self._answers if answer[0] <= self.now]:
                self._answers.remove(answer)
                if answer[1] not in self.dead:
                    self.change(self.paths.answered(self.now, answer[1], answer[2]))
            if self.paths.due <= self.now:
                asked, better = self.paths.plan(self.now)
                for path in asked:
                    self._token += 1
                    path.ask(self.now, self._token)
                    self.questions.append(path.address)
                    if path.address not in self.dead:
                        self._answers.append((self.now + self.round_trips[path.address], path.address, self._token))
                self.change(better)

    def exchange(self) -> None:
        """Send data on the current path; it is acknowledged there."""
        self.paths.sent(self.now)
        if self.current not in self.dead:
            self.change(self.paths.heard(self.now, self.current))


def test_data_stays_where_it_is_while_both_paths_work() -> None:
    net = Net()
    net.run(20.0, net.exchange)
    assert net.changes == []
    assert len(net.questions) <= 2 * 21  # each path once a second, and nothing more


def test_a_silent_path_is_left_within_two_timeouts_for_one_that_answers() -> None:
    net = Net()
    net.run(5.0, net.exchange)
    net.dead = {ETH}
    net.run(1.0, net.exchange)
    ((at, address),) = net.changes
    assert address == WLAN
    assert at - 5.0 <= PATIENCE + TIMEOUT + net.round_trips[WLAN] + 0.002


def test_a_peer_that_is_silent_on_all_paths_keeps_its_path_and_is_asked_ever_less_often() -> None:
    net = Net()
    net.run(5.0, net.exchange)
    net.dead = {ETH, WLAN}
    before = len(net.questions)
    net.run(10.0, net.exchange)
    assert net.changes == []
    assert len(net.questions) - before < 50
    net.dead = set()
    net.run(3.0, net.exchange)
    assert net.current in (ETH, WLAN)
    assert len(net.changes) <= 1


def test_a_link_that_is_down_is_left_at_once_and_not_asked() -> None:
    net = Net()
    net.run(1.0)
    net.change(net.paths.set_down(net.now, "eth0", True))
    assert net.current == WLAN
    net.questions.clear()
    net.run(10.0, net.exchange)
    assert ETH not in net.questions
    net.change(net.paths.set_down(net.now, "wlan0", True))  # with no path left, it stays, and nothing is asked in vain
    net.questions.clear()
    net.run(1.0, net.exchange)
    assert net.questions == []


def test_a_path_that_carries_one_direction_only_is_left_although_it_is_heard() -> None:
    net = Net()
    net.run(5.0, net.exchange)

    def hear() -> None:
        net.paths.sent(net.now)
        net.change(net.paths.heard(net.now, ETH))  # the peer's own data still comes

    net.dead = {ETH}
    net.run(3.0, hear)
    assert net.changes[0][1] == WLAN


def test_a_much_better_path_is_taken_after_the_hold_and_only_by_the_leading_end() -> None:
    for is_leading in (True, False):
        net = Net(is_leading)
        net.round_trips = {ETH: 0.02, WLAN: 0.001}
        net.run(10.0, net.exchange)
        assert [address for _, address in net.changes] == ([WLAN] if is_leading else [])
        assert all(at >= HOLD for at, _ in net.changes)


def test_loss_counts_as_well_as_the_round_trip() -> None:
    net = Net()
    count = 0

    def lose() -> None:
        nonlocal count
        count += 1
        net.dead = {ETH} if count % 3 == 0 else set()  # a third of the answers
        net.exchange()

    net.run(60.0, lose)
    assert net.current == WLAN


def test_a_path_that_comes_and_goes_is_followed_ever_less_often() -> None:
    net = Net()
    net.round_trips = {ETH: 0.001, WLAN: 0.05}  # the better one is the bad one

    def flap() -> None:
        net.dead = {ETH} if int(net.now / 0.2) % 2 else set()
        net.exchange()

    net.run(60.0, flap)
    assert 1 <= len(net.changes) <= 12


@pytest.mark.parametrize("is_leading", [True, False])
def test_the_peer_says_which_path_it_uses_and_is_obeyed_by_who_does_not_lead(is_leading: bool) -> None:
    net = Net(is_leading)
    net.run(1.0, net.exchange)
    net.paths.heard(net.now, ETH)
    assert (net.paths.told(net.now, WLAN) is not None) is not is_leading
    assert net.paths.told(net.now + PATIENCE, WLAN) is not None  # its own path is silent: then anybody obeys
    assert net.paths.told(net.now, ("10.9.9.9%eth0", 1)) is None
    assert net.paths.told(net.now, ETH) is None


def test_answers_that_were_never_asked_for_or_are_forged_count_for_nothing() -> None:
    net = Net()
    net.run(1.0, net.exchange)
    path = net.paths.table[WLAN]
    before = path.smoothed, path.streak, path.loss
    for token in (0, 1, 12345):
        assert net.paths.answered(net.now, WLAN, token) is None
    assert (path.smoothed, path.streak, path.loss) == before
    assert net.paths.answered(net.now, ("10.9.9.9%eth0", 1), 7) is None


def test_a_path_that_was_silent_for_long_is_forgotten_but_never_the_current_one() -> None:
    net = Net()
    net.run(5.0, net.exchange)
    net.dead = {WLAN}
    net.run(STALE + LAST_MISSES * 4.0, net.exchange)
    assert net.paths.forget(net.now) == [WLAN]
    net.dead = {ETH}
    net.run(STALE + LAST_MISSES * 4.0)
    assert net.paths.forget(net.now) == []


def test_the_due_time_moves_on_with_each_plan() -> None:
    net = Net()
    net.paths.set_down(net.now, "eth0", True)
    net.paths.set_down(net.now, "wlan0", True)
    net.paths.sent(net.now)
    for _ in range(50):
        now = net.paths.due
        net.paths.plan(now)
        assert net.paths.due > now
