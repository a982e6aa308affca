"""Delayed messages of an endpoint, and what it hands to the keepers of their topics."""

from __future__ import annotations

from collections import Counter
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.contract import Alarm, Options, Publication
from glue.contract.metadata import DELAYED
from glue.delayed.wire import Id, ask_topic, parse
from glue.endpoint import delays as module
from glue.endpoint.delays import Delayed, Delays, seconds_of
from glue.endpoint.message import MESSAGE_COST
from glue.topics.bundle import KEEP, LIVE

ME = "0123456789abcdef"


class Waiting:
    """The delayed messages of an endpoint "me" with its clock, its keepers and what it asks of the stack."""

    def __init__(self, **keepers: str) -> None:
        self.now = 100.0
        self.asked: list[Any] = []
        self.looks: list[Any] = []
        self.keepers = {name: topics.split() for name, topics in keepers.items()}
        self.statistics: Counter[str] = Counter()
        self.marks = (False, False)
        core: Any = SimpleNamespace(
            durability=SimpleNamespace(on_placed=[], holders=self.holders),
            outbox=SimpleNamespace(order=self.looks.append), statistics=self.statistics, guard=None,
            identity=SimpleNamespace(endpoint_id=ME, incarnation=7, name="me"),
            requests=SimpleNamespace(unix_time=lambda: 5000.0),
        )  # fmt: skip
        self.delays = Delays(self.asked.append, core)
        self.core = core

    def holders(self, topic: str) -> list[str]:
        return [name for name, topics in self.keepers.items() if topic in topics]

    def add(
        self, seconds: float = 5.0, topic: str = "t", payload: bytes = b"xyz", receipt: Any = None, **options: Any
    ) -> Delayed:
        publication = Publication(topic, [payload], 1000.0, False, len(payload), 2, Options(**options))
        return self.delays.add(publication, seconds, self.now, receipt)

    def told(self, found: Any = None) -> dict[str, list[Any]]:
        """What was told to keepers since the last look: puts as pairs of number and wait, and numbers of the others."""
        result: dict[str, list[Any]] = {}
        for one in self.asked if found is None else found:
            if isinstance(one, Publication) and one.topic.startswith(ask_topic("")):
                assert (one.published_at, one.json, one.length) == (5000.0, False, len(one.payloads[0]))
                told = parse(one.payloads[0])
                for kind, ids in told._asdict().items():
                    if ids:
                        name = f"{one.topic.removeprefix(ask_topic(''))} {kind}"
                        result.setdefault(name, []).extend(
                            (put.id.number, put.wait) if kind == "puts" else put.number for put in ids
                        )
        if found is None:
            self.asked.clear()
        return result

    def alarms(self) -> list[tuple[Any, float]]:
        return [(one.token, one.due) for one in self.asked if isinstance(one, Alarm)]


def test_a_message_waits_and_is_published_once() -> None:
    waiting = Waiting()
    delayed = waiting.add(5.0)
    assert waiting.alarms() == [(delayed, 105.0)]
    assert (delayed.topic, delayed.waiting, delayed.receipt) == ("t", True, None)
    assert repr(delayed) == "<Delayed 't' waiting>"
    (publication,) = delayed.rung(105.0)
    assert (publication.topic, publication.published_at, publication.payloads) == ("t", 1005.0, [b"xyz"])
    assert (delayed.waiting, delayed.rung(106.0), delayed.cancel()) == (False, (), False)
    assert waiting.told() == {}
    assert waiting.statistics == {}


def test_keepers_get_what_waits_and_are_told_what_became_of_it() -> None:
    waiting = Waiting(k="t u", j="t")
    one, two, other = waiting.add(5.0), waiting.add(2.0005), waiting.add(1.0, "v")
    assert waiting.told() == {"k puts": [(1, 5000), (2, 2001)], "j puts": [(1, 5000), (2, 2001)]}
    assert waiting.told(one.rung(105.0)) == {"j done": [1], "k done": [1]}
    assert two.cancel()
    assert waiting.alarms() == [(two, inf)]
    assert waiting.told() == {"j gone": [2], "k gone": [2]}
    assert waiting.told(other.rung(101.0)) == {}
    assert waiting.told(waiting.delays.rung(0.0)) == {"k done": [1], "k gone": [2], "j done": [1], "j gone": [2]}


def test_a_put_says_all_of_the_message() -> None:
    waiting = Waiting(k="t")
    waiting.now = 100.25
    waiting.add(5.0, retain=True, lifespan=1.5, reliable=False, ordered=False, type="kind")
    told = parse(next(one.payloads[0] for one in waiting.asked if isinstance(one, Publication)))
    (put,) = told.puts
    assert (put.id, put.name, put.wait, put.priority, put.reliable) == (Id(ME, 7, 1), "me", 5000, 2, False)
    group = put.group
    assert (group.topic, group.at, group.payloads, group.type, group.lifespan_ms) == (
        "t",
        1_005_000_000,
        [b"xyz"],
        "kind",
        1500,
    )
    assert (group.ordered, group.json) == (False, False)
    assert group.metadata is not None
    assert dict(group.metadata.properties or {}) == {DELAYED: f"{ME}/7/1"}
    assert group.retain == KEEP
    waiting.add()
    told = parse(waiting.asked[-1].payloads[0])
    assert (told.puts[0].reliable, told.puts[0].group.retain, told.puts[0].group.lifespan_ms) == (True, LIVE, None)


def test_a_keeper_that_comes_gets_what_waits_and_one_that_stays_does_not_get_it_again() -> None:
    waiting = Waiting(k="t")
    first = waiting.add(5.0)
    waiting.told()
    (placed,) = waiting.core.durability.on_placed
    placed(True)
    (look,) = waiting.looks
    assert (look.token, look.due) == (waiting.delays, 0.0)
    waiting.keepers["j"] = ["t"]
    assert waiting.told(waiting.delays.rung(101.5)) == {"j puts": [(1, 3500)]}
    assert waiting.told(waiting.delays.rung(101.5)) == {}
    del waiting.keepers["k"]
    assert waiting.told(waiting.delays.rung(102.0)) == {}
    waiting.keepers["k"] = ["t"]
    assert waiting.told(waiting.delays.rung(110.0)) == {"k puts": [(1, 0)]}
    del waiting.keepers["k"]
    waiting.delays.rung(111.0)
    assert first.cancel()
    assert waiting.told() == {"j gone": [1], "k gone": [1]}  # which has had it


def test_what_is_signed_or_private_or_has_no_room_stays_here() -> None:
    waiting = Waiting(k="t")
    waiting.core.guard = SimpleNamespace(rules=SimpleNamespace(marks_of=lambda topic: waiting.marks))
    waiting.add()
    assert waiting.told() == {"k puts": [(1, 5000)]}
    waiting.marks = (False, True)
    delayed = waiting.add()
    assert (waiting.told(), waiting.statistics) == ({}, {"delayed messages not handed to keepers": 1})
    assert waiting.told(waiting.delays.rung(101.0)) == {}
    assert waiting.statistics.total() == 1  # a message, not a look at it
    published, *others = delayed.rung(105.0)
    assert (published.payloads, waiting.told(others)) == ([b"xyz"], {})  # nobody had it, so nobody is told


def test_what_is_over_is_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.ENDED == 16_384
    monkeypatch.setattr(module, "ENDED", 2)
    waiting = Waiting(k="t")
    for _ in range(3):
        waiting.add().cancel()
    assert waiting.told(waiting.delays.rung(0.0)) == {"k gone": [2, 3]}


def test_so_many_messages_and_bytes_wait_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (module.DELAYED, module.DELAYED_SIZE, module.LONGEST) == (65_536, 64 << 20, 10**9)
    monkeypatch.setattr(module, "DELAYED", 2)
    monkeypatch.setattr(module, "DELAYED_SIZE", 2 * MESSAGE_COST + 10)
    waiting = Waiting()
    first = waiting.add(payload=b"x" * 4)
    with pytest.raises(glue.WouldBlockError) as caught:
        waiting.add(payload=b"x" * 7)
    size = MESSAGE_COST + 4
    limits = f"the limits are 2 messages and {2 * MESSAGE_COST + 10} bytes"
    assert str(caught.value) == f"1 delayed messages of {size} bytes wait; {limits}"
    waiting.add(payload=b"x" * 6).cancel()
    waiting.add(payload=b"x" * 5)
    first.rung(105.0)
    waiting.add(payload=b"")
    with pytest.raises(glue.WouldBlockError, match="2 delayed messages"):
        waiting.add(payload=b"")


def test_a_message_with_an_acknowledged_receipt_has_the_number_that_it_was_expected_with() -> None:
    waiting = Waiting(k="t")
    waiting.add(receipt=SimpleNamespace(expectation=SimpleNamespace(first=9)))
    waiting.add(receipt=SimpleNamespace(expectation=None))
    assert waiting.told() == {"k puts": [(9, 5000), (1, 5000)]}


@pytest.mark.parametrize(
    ("delay", "deliver_at", "seconds"),
    [
        (None, None, 0.0), (0, None, 0.0), (1.5, None, 1.5), (None, 1003, 3.0), (None, 999.0, 0.0), (10**9, None, 1e9),
        (None, 1e9 + 1000, 1e9),
    ],
)  # fmt: skip
def test_a_delay_or_a_time_is_so_many_seconds(delay: Any, deliver_at: Any, seconds: float) -> None:
    assert seconds_of(delay, deliver_at, 1000.0) == seconds


@pytest.mark.parametrize(
    ("delay", "deliver_at", "words"),
    [
        (1, 1, "delay and deliver_at: give only one of them"),
        (inf, None, "delay=inf: expected a number of seconds"),
        ("1", None, "delay='1': expected a number of seconds"),
        (None, True, "deliver_at=True: expected a number of seconds"),
        (-0.5, None, "-0.5 seconds of delay: expected 0 to 1000000000"),
        (10**9 + 1, None, "1000000001 seconds of delay: expected 0 to 1000000000"),
    ],
)
def test_another_delay_is_refused(delay: Any, deliver_at: Any, words: str) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        seconds_of(delay, deliver_at, 1000.0)
    assert str(caught.value) == words
