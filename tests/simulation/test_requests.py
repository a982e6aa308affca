"""Requests and replies in virtual time: a swarm of callers and responders with losses, crashes and restarts.

python -m tests.simulation.test_requests 0 10000    # hunt through these seeds
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from typing import Any

import pytest

import glue
from glue.requests import Reply
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.requests import SimulatedCall

SECOND = 1.0
TIMEOUT = 4 * SECOND
AGAIN = (glue.RequestTimeoutError, glue.ResponderLostError, glue.NoResponderError, glue.RequestRefusedError)


def asked(world: World, call: SimulatedCall) -> Any:
    """The answer of a call."""
    assert world.run_until(lambda: call.is_over, 30 * SECOND)
    return call.replies[0].payload


def pair(world: World) -> tuple[SimulatedEndpoint, SimulatedEndpoint]:
    """A caller, and a responder of "twice" that it knows."""
    a, b = world.endpoint("a"), world.endpoint("b")
    b.respond("twice", lambda request: request.payload * 2)
    assert world.run_until(lambda: a.responders("twice") == ["b"], SECOND)
    return a, b


def test_a_request_is_answered() -> None:
    world = World()
    a, _ = pair(world)
    assert asked(world, a.request("twice", 21)) == 42
    call = a.request_all("twice", 1)
    assert world.run_until(lambda: call.is_over, SECOND)
    assert [(reply.responder, reply.payload) for reply in call.replies] == [("b", 2)]


def test_nobody_known_raises_at_once() -> None:
    world = World()
    a, _ = pair(world)
    with pytest.raises(glue.NoResponderError):
        a.request("other", 1)


def test_a_crash_is_told_when_it_is_noticed_and_a_goodbye_at_once() -> None:
    world = World()
    a, b = pair(world)
    b.respond("never", lambda request: request.later())
    assert world.run_until(lambda: a.responders("never") == ["b"], SECOND)
    call = a.request("never", 1, timeout=60.0)
    world.run(0.1)
    b.close()
    assert world.run_until(lambda: call.is_over, SECOND)
    assert isinstance(call.replies[0].error, glue.ResponderLostError)
    b.restart()
    b.respond("never", lambda request: request.later())
    assert world.run_until(lambda: a.responders("never") == ["b"], SECOND)
    call = a.request("never", 1, timeout=60.0)
    world.run(0.1)
    b.crash()
    assert world.run_until(lambda: call.is_over, 30 * SECOND)
    assert isinstance(call.replies[0].error, glue.ResponderLostError)


def test_what_arrives_after_its_deadline_is_not_acted_on() -> None:
    world = World()
    a, b = pair(world)
    acted: list[Any] = []
    b.respond("act", lambda request: acted.append(request.payload))
    assert world.run_until(lambda: a.responders("act") == ["b"], SECOND)
    world.network.set_conditions(Conditions(loss=1.0))
    call = a.request("act", 1, timeout=0.3)
    assert world.run_until(lambda: call.is_over, SECOND)
    assert isinstance(call.replies[0].error, glue.RequestTimeoutError)
    world.network.set_conditions(Conditions())
    world.run(3 * SECOND)
    assert acted == []
    assert b.statistics["endpoint"]["requests expired"] == 1


class Swarm:
    """Callers ask responders while datagrams are lost and responders crash. What acted is recorded by life."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.chance = self.world.random("swarm of requests")
        self.acted: Counter[tuple[str, int, int]] = Counter()  # by responder, its life, and request
        self.calls: list[tuple[int, SimulatedCall]] = []
        self.replies: Counter[int] = Counter()
        self.lives: Counter[str] = Counter()
        self.callers = [self.world.endpoint(f"caller{number}") for number in range(2)]
        self.responders = [self.world.endpoint(f"responder{number}") for number in range(3)]
        self.numbers = 0
        for responder in self.responders:
            self.serve(responder)

    def serve(self, responder: SimulatedEndpoint) -> None:
        """Answer in a new life: at once, later, or with an error."""
        name = responder.name
        self.lives[name] += 1
        life = self.lives[name]

        def handler(request: glue.Request) -> Any:
            number = request.payload
            self.acted[name, life, number] += 1
            way = self.chance.random()
            if way < 0.2:
                raise ValueError(number)
            if way < 0.5:
                request.later()
                self.world.after(self.chance.uniform(0, 2.5), lambda: self.answer(request))
                return None
            return [number, name]

        responder.respond("work/+", handler)

    def answer(self, request: glue.Request) -> None:
        request.reply([request.payload, "later"])

    def ask(self) -> None:
        """Ask from one of the callers."""
        self.numbers += 1
        number = self.numbers

        def note(reply: Reply) -> None:
            self.replies[number] += 1
            if reply.error is None:
                assert reply.payload[0] == number
            elif isinstance(reply.error, glue.RemoteError):
                assert reply.error.reason == str(number)
            else:
                assert isinstance(reply.error, AGAIN), reply.error

        caller = self.chance.choice(self.callers)
        retry = self.chance.random() < 0.7
        try:
            call = caller.request(f"work/{number % 3}", number, TIMEOUT, retry=retry, then=note)
        except glue.NoResponderError:
            return
        self.calls.append((number, call))

    def disturb(self) -> None:
        """Make the network worse or better, or crash or close a responder for some time."""
        chance = self.chance
        if chance.random() < 0.5:
            self.world.network.set_conditions(
                Conditions(
                    loss=chance.choice((0.0, 0.1, 0.4, 0.9)),
                    duplicate=chance.choice((0.0, 0.1)),
                    delay=chance.choice((0.0005, 0.05)),
                    jitter=chance.choice((0.0, 0.02)),
                )
            )
            return
        responder = chance.choice(self.responders)
        if responder.is_running:
            chance.choice((responder.crash, lambda: responder.close(timeout=0.1)))()
        else:
            self.revive(responder)

    def revive(self, responder: SimulatedEndpoint) -> None:
        try:
            responder.restart()
        except glue.GlueError:  # it is still closing
            return
        self.serve(responder)

    def run(self) -> None:
        for _ in range(60):
            self.world.run(self.chance.uniform(0, 0.2))
            if self.chance.random() < 0.3:
                self.disturb()
            for _ in range(self.chance.randint(0, 3)):
                self.ask()
        self.world.network.set_conditions(Conditions())
        assert self.world.run_until(lambda: all(call.is_over for _, call in self.calls), TIMEOUT + SECOND)
        self.world.run(10 * SECOND)
        assert all(self.replies[number] == 1 for number, _ in self.calls)
        assert set(self.acted.values()) <= {1}, "a responder acted twice"
        assert all(not len(caller._core.requests._requester) for caller in self.callers)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_each_responder_acts_at_most_once_and_each_call_ends_once(first: int) -> None:
    answered = 0
    for seed in range(first, first + 50):
        swarm = Swarm(seed)
        try:
            swarm.run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        answered += sum(call.replies[0].error is None for _, call in swarm.calls)
    assert answered > 500


if __name__ == "__main__":
    logging.disable()  # of handlers that raise on purpose
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            Swarm(seed).run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
