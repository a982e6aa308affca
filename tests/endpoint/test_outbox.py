"""What is published and not yet taken: also from the handler of a signal, wherever that interrupts."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from random import Random
from types import FrameType

import pytest

from glue.contract import Publication, Unsubscribe
from glue.endpoint.core import EndpointCore
from glue.endpoint.publication_outbox import PublicationOutbox
from glue.settings import Settings

STEPS = 20  # more than there are calls in what is interrupted


def publication(topic: str, number: int) -> Publication:
    return Publication(topic, [b"%d" % number], 0.0)


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """Ends a test that waits for a lock for ever."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("takes", [False, True])
@pytest.mark.parametrize("orders", [False, True])
@pytest.mark.parametrize("step", range(STEPS))
def test_a_signal_handler_may_publish_whatever_it_interrupts(step: int, orders: bool, takes: bool) -> None:
    outbox, taken, left = PublicationOutbox(), [], [step]
    interrupted = False

    def handler(frame: FrameType, event: str, argument: object) -> None:
        nonlocal interrupted
        left[0] -= event != "c_call"  # CPython looks for signals when a function begins, and after each call
        if left[0] < 0 and not interrupted:
            interrupted = True
            sys.setprofile(None)
            outbox.add(publication("theirs", 1))
            outbox.add(publication("mine", -1))
            if takes:
                taken.extend(outbox.take())

    outbox.add(publication("mine", 1))
    sys.setprofile(handler)
    if orders:
        outbox.order(Unsubscribe(None))
    else:
        outbox.add(publication("mine", 2))
    sys.setprofile(None)
    outbox.add(publication("mine", 3))
    outbox.add(publication("theirs", 2))
    taken += outbox.take()
    heard = {
        topic: [
            int(payload)
            for request in taken
            if isinstance(request, Publication) and request.topic == topic
            for payload in request.payloads
        ]
        for topic in ("mine", "theirs")
    }
    assert [number for number in heard["mine"] if number > 0] == ([1, 3] if orders else [1, 2, 3])
    assert heard["mine"].count(-1) == interrupted
    assert heard["theirs"] == [1, 2][not interrupted :]
    if orders:
        (order,) = [number for number, request in enumerate(taken) if isinstance(request, Unsubscribe)]
        behind = [request.payloads for request in taken[order:] if isinstance(request, Publication)]
        assert any(b"3" in payloads for payloads in behind)
    assert not outbox.requests
    assert outbox.size == 0


def test_a_stream_may_be_of_empty_payloads() -> None:
    core = EndpointCore(Settings(name="ann"), Random(0), 0.0, {})
    [publication] = core.publications("t", [b"", b""], 0.0)
    assert (publication.payloads, publication.length) == ([b"", b""], 0)
