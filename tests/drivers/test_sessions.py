"""Answers that follow each other at once pass in a session of the fast path; a program sees no difference."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest

import glue
from glue.contract import Train
from glue.drivers import leader as thread
from glue.drivers import send_policy as pace
from glue.errors import MessageTooLargeError
from glue.fastpath.session import FastSession
from glue.network import MulticastNetwork, waiter
from glue.network.fastpath import UnicastFastPath
from glue.network.waiter import Waiter
from tests.support.lan import PATIENCE, Lan

ROUNDS = 300
ENOUGH = 20  # of them in sessions: on a busy machine, where each is over as soon as its thread loses the core
LONG = 5 * PATIENCE  # seconds for a whole game, of which a fault costs 20 ms and a lost core as much

Handler = Callable[[Any], None]


class Game:
    """One endpoint asks, another answers, until so many answers have come."""

    def __init__(self, lan: Lan, **settings: Any) -> None:
        self.asker, self.answerer = lan.pair(**settings)
        self.heard: list[Any] = []
        self.done = threading.Event()
        self.asked = 0

    def play(self, rounds: int = ROUNDS, answer: Handler | None = None, make: Callable[[int], Any] = str) -> None:
        """Each answer is the question; `answer` answers in another way."""

        def ask(payload: Any) -> None:
            self.heard.append(payload)
            if len(self.heard) < rounds:
                self.asked += 1
                self.asker.publish("question", make(self.asked))
            else:
                self.done.set()

        self.asker.subscribe("answer", ask, payload_only=True)
        self.answerer.subscribe("question", answer or self.answer, payload_only=True)
        assert self.asker.wait_for_subscribers("question", 1, PATIENCE)
        assert self.answerer.wait_for_subscribers("answer", 1, PATIENCE)
        time.sleep(0.5)  # what they announce of that is repeated, and goes before data, for a while
        self.asker.publish("question", make(0))
        assert self.done.wait(LONG)

    def answer(self, payload: Any) -> None:
        self.answerer.publish("answer", payload)


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How many messages were received and sent in sessions; which go on whatever two endpoints in one process take."""
    counted: Counter[str] = Counter()
    receive, send = FastSession.receive, FastSession.send

    def received(session: FastSession, *args: Any) -> Any:
        delivery = receive(session, *args)
        counted["received"] += delivery is not None
        return delivery

    def sent(session: FastSession, *args: Any) -> Any:
        datagram = send(session, *args)
        counted["sent"] += datagram is not None
        return datagram

    monkeypatch.setattr(FastSession, "receive", received)
    monkeypatch.setattr(FastSession, "send", sent)
    monkeypatch.setattr(pace, "LATELY", 3600.0)
    monkeypatch.setattr(thread, "BRIEF", 0.05)
    monkeypatch.setattr(thread, "MOST_SKIPPED", 0)
    monkeypatch.setattr(waiter, "PREEMPTED", math.inf)
    monkeypatch.setattr(Waiter, "is_eager", property(lambda _: True))
    yield counted
    assert min(counted["received"], counted["sent"]) >= ENOUGH


def check_accounts(game: Game) -> None:
    """All is acknowledged, and counted the same at both ends."""
    assert game.asker.flush(PATIENCE)
    assert game.answerer.flush(PATIENCE)
    for publisher, hearer in ((game.asker, game.answerer), (game.answerer, game.asker)):
        sent, received = publisher.accounting, hearer.accounting
        assert sent.sending == 0
        assert sent.owed == sent.sent.total() == received.arrived
        assert publisher.statistics["topics"]["messages published"] == sent.owed
        assert hearer.statistics["topics"]["messages received"] == sent.owed


@pytest.mark.parametrize("make", [str, lambda number: b"%d" % number, lambda number: {"number": number}])
def test_answers_pass_in_a_session_and_are_all_accounted_for(
    lan: Lan, passed: Counter[str], make: Callable[[int], Any]
) -> None:
    game = Game(lan)
    game.play(make=make)
    assert game.heard == [make(number) for number in range(ROUNDS)]
    check_accounts(game)


def test_a_handler_may_fail_say_more_than_one_thing_ask_for_counters_and_say_what_is_large(
    lan: Lan, passed: Counter[str]
) -> None:
    game = Game(lan, message_limit=100_000)
    logs: list[str] = []
    errors: list[Exception] = []
    game.asker.subscribe("log", logs.append, payload_only=True)

    def answer(payload: str) -> None:
        number = int(payload)
        if number % 20 == 7:
            assert game.answerer.accounting.arrived == number + 1
            assert game.answerer.statistics["topics"]["messages received"] == number + 1
        if number % 20 == 9:
            try:
                game.answerer.publish("answer", bytes(100_001))
            except MessageTooLargeError as error:
                errors.append(error)
        game.answerer.publish("answer", payload if number % 20 != 3 else payload + "0" * 50_000)
        if number % 20 == 5:
            game.answerer.publish("log", payload)
            game.answerer.publish("log", payload + "!")
        if number % 20 == 1:
            raise RuntimeError(payload)

    game.play(answer=answer)
    assert [heard[:5] for heard in game.heard] == [
        str(number) if number % 20 != 3 else (str(number) + "00000")[:5] for number in range(ROUNDS)
    ]
    assert game.answerer.flush(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while len(logs) < ROUNDS // 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert logs == [f"{number}{end}" for number in range(5, ROUNDS, 20) for end in ("", "!")]
    assert len(errors) == ROUNDS // 20


def test_several_subscriptions_to_one_topic_hear_all_of_it(lan: Lan, passed: Counter[str]) -> None:
    game = Game(lan)
    others: list[str] = []
    game.answerer.subscribe("question", lambda message: others.append(message.payload))
    game.play(ROUNDS // 2)
    game.heard.clear()
    assert others[: ROUNDS // 2] == [str(number) for number in range(ROUNDS // 2)]
    passed["received"] += ROUNDS  # at most one of them receives in a session
    passed["sent"] += ROUNDS


def test_while_a_handler_takes_its_time_the_others_go_on(lan: Lan, passed: Counter[str]) -> None:
    game = Game(lan)
    beside = threading.Event()
    was_beside: list[bool] = []
    game.answerer.subscribe("beside", lambda message: beside.set())

    def answer(payload: str) -> None:
        if int(payload) == ROUNDS // 2:
            game.answerer.wait_for_subscribers("answer", 1, PATIENCE)
            threading.Thread(target=game.asker.publish, args=("beside", 1)).start()
            was_beside.append(beside.wait(PATIENCE))
        game.answer(payload)

    game.play(answer=answer)
    assert was_beside == [True]
    assert game.heard == [str(number) for number in range(ROUNDS)]
    check_accounts(game)


def test_other_threads_publish_ask_and_flush_at_the_same_time(lan: Lan, passed: Counter[str]) -> None:
    game = Game(lan)
    beside: list[int] = []
    game.asker.subscribe("beside", beside.append, payload_only=True)
    rounds, said = 5 * ROUNDS, 0

    def disturb() -> None:
        nonlocal said
        assert game.answerer.wait_for_subscribers("beside", 1, PATIENCE)
        while not game.done.is_set():
            game.answerer.publish("beside", said)
            said += 1
            game.answerer.statistics  # noqa: B018  # looks at the stack
            game.answerer.flush(0.001)
            undisturbed = len(game.heard) + 50
            while len(game.heard) < undisturbed and not game.done.is_set():
                time.sleep(0.001)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        game.play(rounds)
    finally:
        game.done.set()
        disturber.join()
    assert game.heard == [str(number) for number in range(rounds)]
    check_accounts(game)
    assert beside == list(range(said))


def test_a_fault_in_the_midst_of_a_session_ends_nothing(
    lan: Lan, passed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    game, receive, faults = Game(lan), FastSession.receive, 0

    def sometimes(session: FastSession, *args: Any) -> Any:
        nonlocal faults
        faults += 1
        if faults % 50 == 0:
            raise RuntimeError("a fault")
        return receive(session, *args)

    monkeypatch.setattr(FastSession, "receive", sometimes)
    game.play()
    assert game.heard == [str(number) for number in range(ROUNDS)]
    check_accounts(game)


def test_a_handler_may_end_its_endpoint(lan: Lan, passed: Counter[str]) -> None:
    game = Game(lan)
    ended = threading.Event()

    def answer(payload: str) -> None:
        game.answer(payload)
        if payload == str(ROUNDS - 1):
            game.answerer.close()
            ended.set()

    game.play(answer=answer)
    assert ended.wait(PATIENCE)
    assert game.heard == [str(number) for number in range(ROUNDS)]
    with pytest.raises(glue.ClosedError):
        game.answerer.publish("answer", "late")


def test_a_forked_child_says_nothing(lan: Lan, passed: Counter[str]) -> None:
    game = Game(lan)
    codes: list[int] = []

    def answer(payload: str) -> None:
        if int(payload) % 100 == 50:
            child = os.fork()
            if not child:
                try:
                    game.answer("from the child")
                except glue.ClosedError:
                    os._exit(7)
                os._exit(1)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        game.answer(payload)

    game.play(answer=answer)
    assert codes == [7] * (ROUNDS // 100)
    assert game.heard == [str(number) for number in range(ROUNDS)]


class Watching(MulticastNetwork):
    """One that looks at what leaves."""

    made: ClassVar[list[Watching]] = []

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.left = 0
        self.made.append(self)

    def send(self, trains: Sequence[Train]) -> None:
        self.left += len(trains)
        super().send(trains)


def test_nothing_passes_by_a_network_that_alters_one(lan: Lan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.endpoint.base.MulticastNetwork", Watching)
    monkeypatch.setattr(Watching, "made", [])
    Game(lan).play()
    assert [network.left >= ROUNDS for network in Watching.made] == [True, True]


def test_a_message_that_does_not_pass_is_received_in_the_ordinary_way(
    lan: Lan, passed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    game, glance = Game(lan), UnicastFastPath.glance
    looks = 0

    def blurred(network: UnicastFastPath, until: float) -> bytes | None:
        nonlocal looks
        looks += 1
        data = glance(network, until)
        return None if looks % 10 == 0 else data

    monkeypatch.setattr(UnicastFastPath, "glance", blurred)
    game.play()
    assert game.heard == [str(number) for number in range(ROUNDS)]
    check_accounts(game)
    received = game.asker.statistics
    assert received["network"]["datagrams received"] >= received["serialization"]["datagrams received"]
