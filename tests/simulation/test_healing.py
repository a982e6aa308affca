"""Keepers heal: what one of them misses, it fetches from another one, or from a publisher that remembers.

python -m tests.simulation.test_healing 0 1000      # hunt through these seeds
python -m tests.simulation.test_healing bugs 200    # tell how many seeds each planted bug takes
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest

from glue.history import eras, healing
from glue.history.healing import Healer
from glue.history.kept import KeptHistory
from glue.history.wire import Page, Request
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk
from tests.support.planting import command, seeds_to_find

Held = dict[tuple[str, int, str], list[tuple[int, int]]]
INTERVAL = 1.0


def held(keeper: SimulatedEndpoint) -> Held:
    """The numbers of messages that a keeper has."""
    return {(*stream,): [*state.durable] for stream, state in keeper._keepers[0].log.streams(lambda topic: True)}


def payloads(keeper: SimulatedEndpoint) -> set[tuple[str, int, bytes]]:
    """The messages that can be read at a keeper."""
    log = keeper._keepers[0].log
    found, offset = set(), 0
    while True:
        records, next = log.read(lambda topic: True, offset)
        found |= {
            (record.topic, record.sequence + place, payload)
            for _, record in records for place, payload in enumerate(record.payloads)
        }  # fmt: skip
        if next <= offset:
            return found
        offset = next


def split(world: World, sides: Iterable[Iterable[SimulatedEndpoint]]) -> None:
    world.network.partition(*[[endpoint.host for endpoint in side] for side in sides])


def fetched(*keepers: SimulatedEndpoint) -> int:
    return sum(keeper.statistics["endpoint"]["messages fetched by keepers"] for keeper in keepers)


@pytest.mark.parametrize("seconds", [2.0, 20.0])
def test_two_sides_of_a_split_have_all_within_two_intervals(seconds: float) -> None:
    world = World()
    here, there = [world.endpoint(f"publisher{side}") for side in range(2)]
    left, right = [world.endpoint(f"keeper{side}") for side in range(2)]
    for keeper in (left, right):
        keeper.keep("log/#")
    world.run(3.0)
    split(world, [[here, left], [there, right]])
    for number in range(200):
        for publisher in (here, there):
            publisher.publish(f"log/{publisher.name}/{number % 3}", {"number": number})
        world.run(seconds / 200)
    assert held(left) != held(right)
    world.network.heal()
    if seconds > 5:  # the lease: then they must find each other first
        assert world.run_until(lambda: len(left.peers) == 3 and len(right.peers) == 3, 10.0)
    world.run(2 * INTERVAL)
    assert held(left) == held(right)
    assert payloads(left) == payloads(right)
    assert len(payloads(left)) == 400


def test_keepers_that_have_the_same_exchange_digests_alone() -> None:
    world = World()
    publisher = world.endpoint("publisher")
    keepers = [world.endpoint(f"keeper{number}") for number in range(3)]
    for keeper in keepers:
        keeper.keep("log/#", count=5)
    world.run(3.0)
    for number in range(100):
        publisher.publish("log/a", number)
    world.run(5.0)
    before = [keeper.statistics["endpoint"]["pages of history"] for keeper in keepers]
    world.run(60.0)
    after = [keeper.statistics["endpoint"]["pages of history"] for keeper in keepers]
    assert 3 * 50 < sum(after) - sum(before) < 3 * 70  # each asks for one digest a second
    assert fetched(*keepers) == 0


def test_a_new_keeper_fetches_what_another_one_has_also_what_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    short_eras(monkeypatch)
    world = World()
    publisher, old = world.endpoint("publisher"), world.endpoint("old")
    old.keep("log/#", directory=SimulatedDisk(world.random("disk")))
    world.run(3.0)
    for topic in ("log/cold", "log/warm", "log/hot", "other"):
        publisher.publish(topic, b"x" * 100)
        world.run(3.0)
    publisher.crash()
    new = world.endpoint("new")
    new.keep("log/#", directory=SimulatedDisk(world.random("disk2")))
    world.run(10.0)
    assert held(new) == held(old)
    assert len(payloads(new)) == 3
    old.crash()
    world.run(10.0)
    late = world.endpoint("late").subscribe("log/#", start="earliest")
    world.run(2.0)
    assert {(message.topic, message.publisher) for message in late.received} == {
        (topic, "publisher") for topic in ("log/cold", "log/warm", "log/hot")
    }


def test_a_keeper_that_was_cut_off_fetches_from_a_publisher_that_remembers() -> None:
    world = World()
    publisher, keeper = world.endpoint("publisher"), world.endpoint("keeper")
    publisher.remember("log/#", last=50)
    keeper.keep("log/#")
    world.run(3.0)
    split(world, [[publisher], [keeper]])
    for number in range(60):
        publisher.publish("log/a", number)
        world.run(0.2)
    world.network.heal()
    world.run(10.0)
    assert [*held(keeper).values()] == [[(11, 61)]]


def test_a_damaged_record_is_fetched_again_from_another_keeper() -> None:
    world = World()
    publisher = world.endpoint("publisher")
    disks = [SimulatedDisk(world.random(f"disk {number}")) for number in range(2)]
    keepers = [world.endpoint(f"keeper{number}") for number in range(2)]
    for keeper, disk in zip(keepers, disks, strict=True):
        keeper.keep("log/#", directory=disk)
    world.run(3.0)
    for number in range(50):
        publisher.publish("log/a", b"%04d" % number + b"." * 100)
        world.run(0.02)
    world.run(1.0)
    keepers[0].crash()
    disks[0].flip(next(name for name in disks[0].names() if name.endswith(".log")), 8 * 1000)
    world.run(1.0)
    keepers[0].restart()
    keepers[0].keep("log/#", directory=disks[0])
    world.run(10.0)
    assert fetched(keepers[0]) > 0
    assert payloads(keepers[0]) == payloads(keepers[1])
    assert len(payloads(keepers[0])) == 50


def test_with_replicas_a_keeper_fetches_its_own_topics_alone() -> None:
    world = World()
    publisher = world.endpoint("publisher")
    keepers = [world.endpoint(f"keeper{number}") for number in range(4)]
    for keeper in keepers:
        keeper.keep("log/#", replicas=2)
    world.run(5.0)
    for number in range(40):
        publisher.publish(f"log/{number}", number)
    world.run(5.0)
    assert fetched(*keepers) == 0
    keepers[0].crash()
    world.run(20.0)
    topics = [topic for keeper in keepers[1:] for _, _, topic in held(keeper)]
    assert all(topics.count(f"log/{number}") >= 2 for number in range(40))


def short_eras(patch: pytest.MonkeyPatch) -> None:
    """Let messages be warm after a second, and cold after four."""
    patch.setattr(eras, "HOT", 1)
    patch.setattr(eras, "WARM", 4)


class Swarm:
    """One seed: publishers and keepers in splits of many kinds; when all is calm, all keepers have the same."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.chance = self.world.random("healing")
        self.publishers = [self.world.endpoint(f"publisher{number}") for number in range(2)]
        self.keepers = [self.world.endpoint(f"keeper{number}") for number in range(self.chance.randint(2, 4))]
        for keeper in self.keepers:
            keeper.keep("log/#")
        self.world.run(3.0)

    def publish(self) -> None:
        """Publish on some topic, often on one that was silent for long."""
        publisher = self.chance.choice(self.publishers)
        topic = f"log/{self.chance.randint(0, 5)}"
        for number in range(self.chance.choice((1, 3, 30))):
            publisher.publish(topic, number, reliability=self.chance.choice(("reliable", "best-effort")))

    def disturb(self) -> None:
        """Split the network, heal it, or lose messages."""
        what, everyone = self.chance.random(), [*self.publishers, *self.keepers]
        if what < 0.5:
            self.chance.shuffle(everyone)
            middle = self.chance.randint(1, len(everyone) - 1)
            split(self.world, [everyone[:middle], everyone[middle:]])
        elif what < 0.7:
            self.world.network.heal()
        else:
            self.world.network.set_conditions(Conditions(loss=self.chance.choice((0.0, 0.2))))

    def run(self) -> int:
        """Disturb, calm down, compare; returns how many messages were fetched."""
        for _ in range(12):
            self.publish()
            self.world.run(self.chance.choice((0.01, 0.5, 0.5, 3.0, 8.0)))
            if self.chance.random() < 0.5:
                self.disturb()
        self.world.network.set_conditions(Conditions())
        self.world.network.heal()
        count = len(self.publishers) + len(self.keepers) - 1
        assert self.world.run_until(lambda: all(len(keeper.peers) == count for keeper in self.keepers), 60.0)
        self.world.run(len(self.keepers) * 2 * INTERVAL)
        first = held(self.keepers[0])
        for keeper in self.keepers[1:]:
            assert held(keeper) == first, f"{keeper} has {held(keeper)}, another one {first}"
        for keeper in self.keepers:
            count = sum(stop - start for ranges in held(keeper).values() for start, stop in ranges)
            log: Any = keeper._keepers[0].log
            assert sum(len(record.payloads) for _, record in log._entries) == count, "a message is there twice, or not"
        return fetched(*self.keepers)


def hunt(first: int, last: int) -> int:
    """Run these seeds; returns how many messages were fetched."""
    total = 0
    with pytest.MonkeyPatch.context() as patch:
        short_eras(patch)
        for seed in range(first, last):
            try:
                total += Swarm(seed).run()
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise
    return total


def test_after_splits_all_keepers_have_the_same() -> None:
    assert hunt(0, 5) > 50


@pytest.mark.parametrize("seed", range(3))
def test_a_keeper_whose_lists_never_end_keeps_no_other_from_healing(seed: int) -> None:
    world = World(seed)
    publisher = world.endpoint("publisher")
    good, apart, endless = (world.endpoint(name) for name in ("good", "apart", "endless"))
    for keeper in (good, apart, endless):
        keeper.keep("log/#")

    def answer(now: float, request: Request, room: int, reader: str) -> Generator[None, None, Page]:
        yield
        digests = (f"{request.id:016x}",) * 3 if request.digest else None
        heads = [(f"log/x{request.after}", 1, "e" * 16, 1, 1)] if request.heads else []
        return Page(request.id, request.after + 1, 10**12, False, heads=heads, digests=digests)

    history: Any = endless._core.history
    history._server._from_logs = answer
    world.run(3.0)
    world.network.partition([apart.host])
    for number in range(20):
        publisher.publish("log/a", number)
    world.run(20.0)
    publisher.crash()
    world.network.heal()
    world.run(20.0)
    assert [[*state.durable] for _, state in apart._keepers[0].log.streams(lambda topic: True)] == [[(1, 21)]]


def test_nothing_is_fetched_twice_while_a_slow_disk_stores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "ROOM", 20_000)
    world = World()
    publisher, full, slow = (world.endpoint(name) for name in ("publisher", "full", "slow"))
    full.keep("log/#")
    world.run(3.0)
    for number in range(500):
        publisher.publish("log/a", f"{number:0200}")
    world.run(1.0)
    publisher.crash()
    slow.keep("log/#")
    history: Any = slow._core.history
    ((log, (healer, store)),) = history._healers.items()
    busy_until = world.time

    def later(records: Any) -> None:  # a page takes a second
        nonlocal busy_until
        busy_until = max(busy_until, world.time) + 1.0
        world.at(busy_until, lambda: store(records))

    history._healers[log] = healer, later
    world.run(15.0)
    assert [[*state.durable] for _, state in slow._keepers[0].log.streams(lambda topic: True)] == [[(1, 501)]]
    assert slow.statistics["endpoint"]["messages fetched by keepers"] == 500


Patch = pytest.MonkeyPatch


def digests_ignore_gaps(patch: Patch) -> None:
    """A digest tells only the last number of each stream."""
    patch.setattr(eras, "_hash", lambda stream, ranges, hashes: hash((stream, ranges[-1][1])))


def cold_streams_are_never_compared(patch: Patch) -> None:
    """What was silent for an hour is in no digest."""
    good = vars(eras.EraSums)["digests"].fget
    patch.setattr(eras.EraSums, "digests", property(lambda self: (*good(self)[:2], "0" * 16)))


def eras_are_of_the_own_clock(patch: Patch) -> None:
    """The keeper that is asked lists the streams of another era than the one that it is asked for."""
    good = KeptHistory.heads

    def wrong(self: Any, wanted: Any, start: Any, limits: Any = None, era: int = -1) -> Any:
        return good(self, wanted, start, limits, -1 if era < 0 else (era + 1) % 3)

    patch.setattr(KeptHistory, "heads", wrong)


def gaps_at_the_end_alone_are_asked_for(patch: Patch) -> None:
    """A keeper asks only for what follows the last message that it has."""

    def wrong(self: Any, stream: Any, first: int, last: int) -> Any:
        state = self._log.state(stream)
        first = first if state is None else state.held.stop
        return [(first, last + 1)] if first <= last else []

    patch.setattr(Healer, "_gaps", wrong)


def settled_too_early(patch: Patch) -> None:
    """A comparison counts as settled whatever the other side says later."""
    good = Healer._take_digests

    def wrong(self: Any, work: Any, page: Any) -> None:
        if (work.peer, work.pattern) in self._settled:
            work.theirs = page.digests
            return
        good(self, work, page)

    patch.setattr(Healer, "_take_digests", wrong)


def compared_once(patch: Patch) -> None:
    """Keepers compare only when they meet."""
    good = Healer._end

    def wrong(self: Any, now: float) -> None:
        good(self, now)
        for partner in self._partners.values():
            partner.check_at = float("inf") if partner.check_at > now + 0.3 else partner.check_at

    patch.setattr(Healer, "_end", wrong)


BUGS: list[Callable[[Patch], None]] = [
    digests_ignore_gaps,
    cold_streams_are_never_compared,
    eras_are_of_the_own_clock,
    gaps_at_the_end_alone_are_asked_for,
    settled_too_early,
    compared_once,
]


def run(seed: int) -> None:
    """Run one seed of the swarm."""
    Swarm(seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: Callable[[Patch], None]) -> None:
    assert seeds_to_find(run, range(100), short_eras, bug) is not None


if __name__ == "__main__":
    command(hunt, run, BUGS, short_eras)
