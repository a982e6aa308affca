"""Who hears and answers may spin while it waits for more; who does but one of both never does."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable

import pytest

import glue
from glue.drivers import send_policy as pace
from glue.network import MulticastNetwork
from glue.network.fastpath import UnicastFastPath
from tests.support.lan import PATIENCE, Lan

ROUNDS = 200


@pytest.fixture
def spins(monkeypatch: pytest.MonkeyPatch) -> Callable[[glue.Endpoint], int]:
    """How many waits of an endpoint's leader were allowed to spin so far; in a session all are."""
    allowed: Counter[int] = Counter()
    wait, glance = MulticastNetwork.wait, UnicastFastPath.glance

    def waited(network: MulticastNetwork, timeout: float | None, patient: bool = False) -> None:
        if not patient:
            allowed[network.filenos()[0]] += 1
        wait(network, timeout, patient)

    def glanced(part: UnicastFastPath, until: float) -> bytes | None:
        allowed[part._fileno] += 1
        return glance(part, until)

    monkeypatch.setattr(MulticastNetwork, "wait", waited)
    monkeypatch.setattr(UnicastFastPath, "glance", glanced)
    monkeypatch.setattr(pace, "LATELY", 3600.0)  # whatever three endpoints in one process take
    return lambda endpoint: allowed[endpoint._driver._network.filenos()[0]]  # type: ignore[union-attr]


def test_only_who_hears_and_answers_is_in_an_exchange(lan: Lan, spins: Callable[[glue.Endpoint], int]) -> None:
    asker, answerer, hearer = lan.start("asker"), lan.start("answerer"), lan.start("hearer")
    done, heard = threading.Event(), threading.Semaphore(0)

    def ask(message: glue.Message) -> None:
        if message.payload < ROUNDS:
            asker.publish("question", message.payload + 1)
        else:
            done.set()

    answerer.subscribe("question", lambda message: answerer.publish("answer", message.payload))
    asker.subscribe("answer", ask)
    hearer.subscribe("news", lambda message: heard.release())
    for endpoint, topic in ((asker, "question"), (answerer, "answer"), (answerer, "news")):
        assert endpoint.wait_for_subscribers(topic, 1, PATIENCE)
    for endpoint in (asker, answerer, hearer):
        assert endpoint._driver is not None
        endpoint._driver._send_policy.arrived(-math.inf)  # no news of peers counts
    before = [spins(endpoint) for endpoint in (asker, answerer, hearer)]
    for number in range(ROUNDS):
        answerer.publish("news", number)
        assert heard.acquire(timeout=PATIENCE)
    assert [spins(endpoint) for endpoint in (asker, answerer, hearer)] == before
    asker.publish("question", 1)
    assert done.wait(PATIENCE)
    assert min(spins(endpoint) for endpoint in (asker, answerer)) > ROUNDS / 2
    assert spins(hearer) == before[2]
