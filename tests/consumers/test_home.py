"""The home of consumers: what it tells, whom it believes, and what it counts."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from glue.consumers.home import RETRY, ConsumerAlert, Home
from glue.consumers.positions import Positions
from glue.consumers.wire import ask_topic, encode, parse, tell_topic
from glue.contract.matching import covers
from glue.simulation.disk import SimulatedDisk
from glue.storage import MemoryLog, Record

PEER = "a" * 16
MEMBER = f"{PEER}-1-1"


class Trial:
    """A home, and what it told."""

    def __init__(self) -> None:
        self.log = MemoryLog("log")
        self.disk = SimulatedDisk(Random(1))
        self.alerts: list[ConsumerAlert] = []
        self.now = 0.0
        self.open()

    def open(self) -> None:
        """Begin a life of the keeper."""
        self.statistics: Counter[str] = Counter()
        self.home = Home(
            "k" * 16, self.log, Positions(self.disk, "log"), self.statistics, lambda pattern: covers("a/#", pattern),
            lambda pattern: ["o" * 16], self.alerts.append,
        )  # fmt: skip

    def append(self, *payloads: bytes, topic: str = "a/b") -> None:
        """Store messages."""
        self.log.append([Record("p" * 16, "publisher", 1, topic, self.log.end + 1, [*payloads])])

    def ask(self, peer: str = PEER, life: int = 1, **head: Any) -> list[dict[str, Any]]:
        """Ask it something; returns what it tells."""
        full = {"name": "billing", "pattern": "a/#", **head}
        return self.heads(self.home.take(self.now, 1e9, peer, life, encode(full)))

    def heads(self, messages: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
        """What was told, without the messages of shares."""
        return [parse(payload)[0] for _, payload in messages]

    def join(self, peer: str = PEER, number: int = 1) -> list[dict[str, Any]]:
        """Take a member in."""
        member = f"{peer}-1-{number}"
        return self.ask(peer, ask="join", member=member, begin=1, start=["earliest", 0], ordered=0)


def begun_on_a_full_disk() -> tuple[Trial, list[dict[str, Any]]]:
    """A keeper with two messages, which begins again without room; and what it told since."""
    trial = Trial()
    trial.append(b"1", b"2")
    trial.join()
    trial.disk.is_full = True
    trial.open()
    return trial, [*trial.heads(trial.home.advance(trial.now)), *trial.join()]


def test_a_keeper_begins_on_a_full_disk_and_gives_messages_once_there_is_room() -> None:
    trial, told = begun_on_a_full_disk()
    assert "shares" not in [head.get("tell") for head in told], "the new epoch is not durable"
    assert {alert.kind for alert in trial.alerts} == {"storage"}
    trial.disk.is_full = False
    trial.now = RETRY
    (shares,) = trial.heads(trial.home.advance(trial.now))
    assert (shares["shares"][0][:2], shares["epoch"]) == ([1, 1], 2), "once more"
    trial.disk.crash()
    trial.open()
    (consumer,) = trial.home.consumers.values()
    assert consumer.stored.about["epoch"] == 3


def test_nothing_is_given_away_that_a_full_disk_did_not_store_whatever_is_asked_meanwhile() -> None:
    trial, _ = begun_on_a_full_disk()
    trial.now = RETRY / 2
    trial.ask(ask="known", name="other", created=5)
    for trial.now in (RETRY + 0.01, 2 * RETRY + 0.02):
        assert trial.heads(trial.home.advance(trial.now)) == []
    trial.disk.is_full = False
    (shares,) = trial.heads(trial.home.advance(3 * RETRY + 0.03))
    assert shares["epoch"] == 2
    trial.disk.crash()
    trial.open()
    assert [consumer.epoch for consumer in trial.home.consumers.values()] == [3]


def test_what_could_not_be_stored_in_time_goes_to_a_member_that_joins_anew() -> None:
    trial = Trial()
    trial.join()
    trial.append(b"1")
    trial.disk.is_full = True
    (told,) = trial.heads(trial.home.advance(trial.now))
    assert (told["tell"], told["member"]) == ("fenced", MEMBER)
    (state,) = trial.ask(ask="list", id=1)[0]["consumers"]
    assert state["members"] == []
    trial.disk.is_full = False
    trial.now = RETRY
    trial.home.advance(trial.now)
    *_, shares = trial.join(number=2)
    assert [share[0] for share in shares["shares"]] == [1]


def test_a_member_gets_shares_and_moves_the_position() -> None:
    trial = Trial()
    trial.append(b"1", b"2")
    joined, shares = trial.join()
    assert (joined["tell"], joined["epoch"], shares["shares"][0][:2]) == ("joined", 1, [1, 0])
    trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 1, 2]])
    (consumer,) = trial.home.consumers.values()
    assert consumer.position.next == 2
    assert not consumer.is_behind


@pytest.mark.parametrize(
    ("who", "epoch", "share"),
    [(("b" * 16, 1), 1, [1, 1, 1]), ((PEER, 2), 1, [1, 1, 1]), ((PEER, 1), 0, [1, 1, 1]), ((PEER, 1), 1, [2, 1, 1]),
     ((PEER, 1), 1, [1, 2, 2]), ((PEER, 1), 1, [1, 1, 3])],
)  # fmt: skip
def test_only_the_member_that_has_a_share_commits_it(who: tuple[str, int], epoch: int, share: list[int]) -> None:
    trial = Trial()
    trial.append(b"1", b"2")
    trial.join()
    trial.ask(*who, ask="done", member=MEMBER, epoch=epoch, shares=[share])
    (consumer,) = trial.home.consumers.values()
    assert consumer.position.next == 0
    assert sum(trial.statistics.values()) == 1


def test_a_silent_member_is_fenced_and_only_its_part_moves() -> None:
    trial = Trial()
    trial.join()
    other = "b" * 16
    trial.join(other)
    for number in range(8):
        trial.append(b"%d" % number)
        trial.home.advance(trial.now)
    (consumer,) = trial.home.consumers.values()
    had = {share.content.offset for share in consumer.members[f"{other}-1-1"].shares.values()}
    told: list[dict[str, Any]] = []
    while MEMBER in consumer.members:
        trial.now += 0.25
        trial.ask(other, ask="here", member=f"{other}-1-1", epoch=1, got=8)
        told += trial.heads(trial.home.advance(trial.now))
    assert trial.now <= 2.0
    assert [head["tell"] for head in told if head.get("member") == MEMBER] == ["fenced"]
    assert had <= {share.content.offset for share in consumer.members[f"{other}-1-1"].shares.values()}
    (fenced,) = trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 1, 1]])
    assert fenced["tell"] == "fenced"


def test_another_life_of_the_keeper_has_another_epoch_and_believes_no_earlier_member() -> None:
    trial = Trial()
    trial.append(b"1", b"2")
    trial.join()
    trial.open()
    (fenced,) = trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 1, 1]])
    assert fenced["tell"] == "fenced"
    joined, shares = trial.join()
    assert joined["epoch"] == 2
    assert shares["shares"][0][1] == 1, "they may have been handled before"


def test_a_consumer_that_does_not_move_raises_one_alert() -> None:
    trial = Trial()
    trial.append(b"1")
    trial.join()
    for _ in range(400):
        trial.now += 0.25
        trial.home.advance(trial.now)
    assert [(alert.kind, alert.name) for alert in trial.alerts] == [("stuck", "billing")]
    (state,) = trial.ask(ask="list", id=7)[0]["consumers"]
    assert state["stuck"]
    assert state["oldest"][0] == "a/b"
    assert state["lag"] == 1


def test_a_consumer_counts_as_stuck_from_its_first_waiting_message_on_and_not_for_its_idleness() -> None:
    trial = Trial()
    trial.append(b"1")
    trial.join()

    def wait(seconds: float) -> None:
        for _ in range(int(4 * seconds)):
            trial.now += 0.25
            trial.ask(ask="here", member=MEMBER, epoch=1, got=1)
            trial.home.advance(trial.now)

    trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 1, 1]])
    wait(500)
    trial.append(b"2", topic="a/c")
    wait(50)
    assert not trial.alerts, "it was idle, and has a minute for the message"
    wait(20)
    assert [alert.kind for alert in trial.alerts] == ["stuck"]


def test_the_limit_of_the_alert_is_a_setting() -> None:
    trial = Trial()
    trial.home.limit = 5.0
    trial.append(b"1")
    trial.join()
    for _ in range(24):
        trial.now += 0.25
        trial.home.advance(trial.now)
    assert [alert.detail for alert in trial.alerts] == ["nothing moved for 5 s; the oldest message is on a/b"]


def test_two_homes_that_meet_become_one() -> None:
    trial = Trial()
    trial.join()
    (fenced,) = trial.ask("z" * 16, ask="known", created=1)
    assert fenced["tell"] == "fenced"
    assert not trial.home.consumers
    assert [alert.kind for alert in trial.alerts] == ["conflict"]
    (where,) = trial.ask(ask="where")
    assert where["home"] == "z" * 16
    trial.open()
    (where,) = trial.ask(ask="where")
    assert where["home"] == "z" * 16


def test_moving_fences_the_members_and_forgetting_ends() -> None:
    trial = Trial()
    trial.append(b"1", b"2")
    trial.join()
    trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 1, 2]])
    fenced, sought = trial.ask(ask="seek", id=3, start=["earliest", 0])
    assert (fenced["tell"], sought["done"]) == ("fenced", True)
    joined, shares = trial.join(number=2)
    assert joined["epoch"] == 2
    assert shares["shares"][0][:2] == [1, 0]
    assert trial.ask(ask="forget", id=4)[-1]["done"]
    assert not trial.ask(ask="forget", id=5)[-1]["done"]
    trial.disk.crash()
    trial.open()
    assert not trial.home.consumers
    (where,) = trial.ask(ask="where")
    assert where["home"] == ""


def test_a_keeper_remembers_the_latest_home_elsewhere_over_a_crash() -> None:
    trial = Trial()
    for home in ("z" * 16, "y" * 16):
        trial.ask(home, ask="known", created=7)
        trial.disk.crash()
        trial.open()
        (where,) = trial.ask(ask="where")
        assert where["home"] == home
        assert not trial.home.consumers
    assert trial.join()[0]["home"] == "y" * 16
    trial.ask(ask="forget", id=1)
    trial.disk.crash()
    trial.open()
    assert trial.ask(ask="where")[0]["home"] == ""


def test_members_without_the_right_are_refused_and_counted_each() -> None:
    trial = Trial()
    trial.home.may_read = lambda peer, pattern: peer != PEER
    assert trial.join() == []
    assert trial.join() == []
    assert trial.statistics["members of consumers refused: no right"] == 2
    assert trial.join("b" * 16)[0]["tell"] == "joined"


def test_a_disk_that_fails_begins_no_consumer_and_raises_an_alert() -> None:
    trial = Trial()
    trial.append(b"1", b"2")
    trial.join()
    trial.disk.fails_to_sync = True
    trial.ask(ask="done", member=MEMBER, epoch=1, shares=[[1, 1, 2]])
    trial.now += 10.0
    trial.home.advance(trial.now)
    assert [alert.kind for alert in trial.alerts] == ["storage"]
    trial.disk.fails_to_sync = False
    trial.now += 10.0
    trial.home.advance(trial.now)
    (where,) = trial.ask(ask="where")
    assert where["covers"] == 0
    assert [head["tell"] for head in trial.join(number=2)] == ["where"], "nobody waits here for messages"


def test_what_retention_removed_is_passed_and_counted() -> None:
    trial = Trial()
    trial.join()
    trial.ask(ask="leave", member=MEMBER, epoch=1)
    trial.log._limit = 3
    for number in range(10):
        trial.append(b"%d" % number)
    _, shares = trial.join(number=2)
    assert len(shares["shares"]) == 3
    assert trial.statistics["offsets that retention removed before a consumer read them"] == 7


@pytest.mark.parametrize("pattern", ["b/#", "#", "+/c"])
def test_a_keeper_of_other_topics_is_no_home(pattern: str) -> None:
    trial = Trial()
    (where,) = trial.ask(ask="join", pattern=pattern, member=MEMBER, begin=1)
    assert (where["tell"], where["covers"], where["home"]) == ("where", 0, "")


MALFORMED = [
    b"", b"{}", b"[]\n", b"{\n", b'{"ask":"where"}\n', b'{"ask":"x","name":"n","pattern":"a/#"}\n',
    b'{"ask":"where","name":"a/b","pattern":"a/#"}\n', b'{"ask":"where","name":"n","pattern":"#/a"}\n',
    b'{"ask":"done","name":"n","pattern":"a/#","member":"other-1-1"}\n', b'{"ask":"list"}\n', 7,
    encode({"ask": "join", "name": "n", "pattern": "a/#", "member": MEMBER, "begin": 1, "start": ["from", 1]}),
]  # fmt: skip


@pytest.mark.parametrize("payload", MALFORMED)
def test_malformed_questions_are_counted(payload: object) -> None:
    trial = Trial()
    assert trial.home.take(0.0, 1e9, PEER, 1, payload) == []
    assert trial.statistics["malformed messages to the home of a consumer"] == 1


@pytest.mark.parametrize("seed", range(30))
def test_no_question_breaks_a_home(seed: int) -> None:
    luck = Random(seed)
    trial = Trial()
    trial.append(b"1", b"2")
    trial.join()
    values: list[Any] = [None, 0, -1, 1 << 62, "", "x", [], [[1, 1, 1]], [[1]], [["a", 1, 1]], {}, True, MEMBER]
    for _ in range(20):
        head = {key: luck.choice(values) for key in ("member", "epoch", "shares", "got", "id", "start", "created")}
        trial.ask(
            ask=luck.choice(["where", "join", "here", "done", "failed", "seek", "known", "list", "leave"]), **head
        )


def test_the_topics_name_one_receiver_each() -> None:
    assert ask_topic("k") == "$glue/consumer/ask/k"
    assert tell_topic("m", 3) == "$glue/consumer/tell/m/3"


@pytest.mark.parametrize("has_member", [True, False])
def test_what_is_done_elsewhere_is_passed_in_few_reads_and_short_turns(has_member: bool) -> None:
    trial = Trial()
    trial.join()
    for number in range(3000):
        trial.append(b"%0500d" % number)
    (consumer,) = trial.home.consumers.values()
    if not has_member:
        consumer.leave(MEMBER)
    consumer.left = lambda stream, start, stop: iter(())  # all of it
    reads, most, turns, good = 0, 0, 0, trial.log.read

    def read(*arguments: Any, **more: Any) -> Any:
        nonlocal reads
        reads += 1
        found = good(*arguments, **more)
        assert len(found.records) <= 600
        return found

    trial.log.read = read  # type: ignore[method-assign]
    while consumer.is_behind and turns < 20:
        assert not turns or trial.home.deadline <= trial.now
        trial.home.advance(trial.now)
        turns, most, reads = turns + 1, max(most, reads), 0
    assert not consumer.is_behind
    assert most <= 8
