"""How an endpoint runs its memberships of consumers, its homes and its sleep, without a network."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.aio.sleeping import AioSleeping
from glue.consumers.wire import encode
from glue.contract import Alarm, Awake, Delivery, Missed, Publication, Rung, Sleep
from glue.contract.metadata import Metadata
from glue.endpoint.consuming import PERIOD, Consuming
from glue.endpoint.delaying import DelayedReceiver
from glue.endpoint.homes import Asked
from glue.endpoint.recorder import messages_of
from glue.endpoint.sleep_methods import SleepMethods, Woke
from glue.recording.channels import RecordedMessage
from glue.sync.sleeping import SyncSleeping
from tests.endpoint.owners import Owner


def delivery(*payloads: Any, peer: str = "id-b") -> Delivery:
    return Delivery("t", [*payloads], None, "b", peer, 7, 5, 5.0, False, ())


# ---------------------------------------------------------------------------------------------------------- members


class Members:
    """The memberships of an endpoint "me", with its clock and what it asks of the stack."""

    def __init__(self, counts: bool = True) -> None:
        self.now = 10.0
        self.asked: list[Any] = []
        owner: Any = Owner()
        self.owner = owner
        self.statistics: Counter[str] = Counter()
        self.covering: list[str] = []
        core: Any = SimpleNamespace(
            identity=SimpleNamespace(endpoint_id="e" * 16, incarnation=7), statistics=self.statistics,
            requests=SimpleNamespace(clock=lambda: self.now, unix_time=lambda: 5000.0),
            durability=SimpleNamespace(covering=lambda pattern: self.covering), arrived=lambda count: None,
        )  # fmt: skip
        self.consuming = Consuming(core, owner, self.asked.append, counts)

    def join(self, name: str = "c") -> Any:
        return self.consuming.room(name, "t/+", ("earliest", 0), False, False)

    def told(self) -> tuple[list[float], list[str]]:
        """The alarms and the topics of publications since the last look."""
        found, self.asked[:] = [*self.asked], []
        for one in found:
            if isinstance(one, Publication):
                assert (one.published_at, one.json, one.length) == (5000.0, False, len(one.payloads[0]))
        alarms = [one.due for one in found if isinstance(one, Alarm)]
        return alarms, [one.topic for one in found if isinstance(one, Publication)]


def test_a_new_member_looks_for_its_home_at_once_and_again_when_it_is_due() -> None:
    members = Members()
    room = members.join()
    assert members.told() == ([10.0], [])
    members.covering = ["k" * 16, "j" * 16]
    found = members.consuming.rung(10.0)
    assert len(found) == 2
    (due,), _ = members.told()
    assert due == room.membership.deadline
    assert due > 10.0
    members.join("d")
    assert members.told() == ([10.0], [])
    members.consuming.rung(10.0)
    assert members.told()[0] == [min(room.membership.deadline, 10.0 + (due - 10.0))]


def test_acknowledgements_gather_for_a_moment_unless_a_share_is_over_or_failed() -> None:
    members = Members()
    room = members.join()
    flushed: list[str] = []
    room.membership = SimpleNamespace(
        finished=lambda member, number, place, is_done: flushed.append(f"{number}/{place}/{is_done}"),
        flush=lambda: [("ask", b"done")], is_over=lambda number: number == 9, leave=lambda: [("ask", b"leave")],
    )  # fmt: skip
    taken: Any = SimpleNamespace(member="m", number=1)
    members.told()
    for now, published in ((0.0, 1), (0.9 * PERIOD, 0), (PERIOD, 1), (1.5 * PERIOD, 0)):
        members.now = now
        members.consuming.finished(room, taken, 3, True)
        assert len(members.told()[1]) == published
    members.consuming.finished(room, taken, 4, False)
    assert len(members.told()[1]) == 1
    taken.number = 9
    members.consuming.finished(room, taken, 5, True)
    assert len(members.told()[1]) == 1
    assert flushed[-2:] == ["1/4/False", "9/5/True"]
    members.consuming.ended(room)
    members.consuming.ended(room)
    assert members.told()[1] == ["ask"]
    members.consuming.rung(20.0)
    assert members.told() == ([], [])


def test_all_memberships_end_with_the_endpoint() -> None:
    members = Members()
    left: list[int] = []

    def leave(number: int) -> list[Any]:
        left.append(number)
        return []

    for number in range(3):
        room = members.join(f"c{number}")
        room.membership = SimpleNamespace(leave=partial(leave, number))
    members.consuming.leave_all()
    members.consuming.leave_all()
    assert left == [0, 1, 2]


def test_what_homes_tell_is_counted_and_answers_go_to_who_asked() -> None:
    members = Members()
    answers: list[Any] = []
    number = members.consuming.ask(
        ["id-b", "j"], lambda keeper, number: (keeper, encode({"id": number})), lambda *told: answers.append(told)
    )
    assert members.told()[1] == ["id-b", "j"]
    members.consuming._deliver(delivery(b"nonsense", encode({"id": number, "done": 1}), b"[]\n"))
    assert answers == [("id-b", {"id": number, "done": 1})]
    assert members.statistics == {"malformed messages from the home of a consumer": 2}
    assert members.owner.counted == {"handled": 3, "done": 1}
    members.consuming._deliver(delivery(encode({"id": number, "done": 2}), peer="another"))
    members.consuming._deliver(delivery(encode({"id": [], "done": 2}), encode({"id": {}})))
    assert (len(answers), members.owner.counted["done"]) == (1, 3)
    assert members.statistics.total() == 5
    members.consuming.asked(number)
    members.consuming.asked(number)
    members.consuming._deliver(delivery(encode({"id": number, "done": 1})))
    assert len(answers) == 1
    members.consuming._deliver(Rung(members.consuming))
    assert members.owner.counted["done"] == 4
    other = Members(counts=False)
    other.consuming._deliver(delivery(b"nonsense"))
    assert other.owner.counted == {"handled": 1}


@pytest.mark.parametrize("counts", [False, True])
def test_what_is_told_of_consumers_and_delayed_messages_goes_to_the_threads_that_store(counts: bool) -> None:
    did: list[Any] = []

    def writer(name: str, has_parts: bool) -> Any:
        part = SimpleNamespace(
            take_all=lambda *told: did.append((name, *told)), placed=lambda: did.append((name, "placed"))
        )
        keeping = (
            SimpleNamespace(consumers=part, delayed=part)
            if has_parts
            else SimpleNamespace(consumers=None, delayed=None)
        )
        return SimpleNamespace(keeping=keeping, call=lambda function: function())

    writers = [writer("one", True), writer("none", False), writer("two", True)]
    owner: Any = Owner()
    asked = Asked(lambda: writers, owner, counts)
    asked._deliver(delivery(b"1", b"2"))
    assert did == [("one", "id-b", 7, [b"1", b"2"]), ("two", "id-b", 7, [b"1", b"2"])]
    did.clear()
    held = DelayedReceiver(lambda: writers, owner, counts)
    held._deliver(delivery(b"1"))
    held.placed(True)
    assert did == [("one", "id-b", [b"1"]), ("two", "id-b", [b"1"]), ("one", "placed"), ("two", "placed")]
    assert owner.counted == {"handled": 3, **({"done": 2} if counts else {})}
    for receiver in (asked, held):
        receiver._deliver(Missed("t", "b", "id-b", 1, "lost", ()))
    assert len(did) == 4


# ------------------------------------------------------------------------------------------------------------ sleep


class Sleeper:
    """What an endpoint that sleeps has, with a driver that notes what is asked."""

    def __init__(self, most: float | None = 60.0) -> None:
        self.settings: Any = SimpleNamespace(sleep=most)
        self.asked: list[Any] = []
        self.closed = False
        self.is_in_handler = False
        self.flushed: list[float] = []
        self._core: Any = SimpleNamespace(requests=SimpleNamespace(name_of=lambda peer: f"{peer}'s name"))

    def _running(self) -> Any:
        return self

    def is_handler(self) -> bool:
        return self.is_in_handler

    def order(self, request: Any, wait: bool = True) -> None:
        assert isinstance(request, Sleep)
        self.asked.append(request.cycle)
        if request.cycle % 2 == 0:
            self.wake(request.cycle)

    def wake(self, cycle: int) -> None:
        rise: Any = getattr(self, "_rise", None)
        assert rise(Awake(cycle - 2, 9, 9, 9, ())) is None  # news of an earlier cycle
        if not self.closed:
            rise(Awake(cycle, 3, 2, 1, ("z", "y")))


class SyncSleeper(Sleeper, SyncSleeping):
    def flush(self, timeout: float) -> bool:
        self.flushed.append(timeout)
        return True


class AioSleeper(Sleeper, AioSleeping):
    async def flush(self, timeout: float) -> bool:
        self.flushed.append(timeout)
        return True

    async def wait_until(self, condition: Any, timeout: float | None) -> bool:
        return bool(condition())


WOKE = Woke(3, 2, 1, ("y's name", "z's name"))


def test_an_endpoint_sleeps_wakes_up_and_tells_what_waited() -> None:
    one, rested = SyncSleeper(), list[Any]()
    assert one.sleep(5.0, rested.append) == WOKE
    assert one.sleep(None, rested.append) == WOKE
    assert (rested, one.asked, one.flushed) == ([5.0, 60.0], [1, 2, 3, 4], [1.0, 1.0])

    def fail(seconds: float) -> None:
        raise KeyError(seconds)

    with pytest.raises(KeyError):
        one.sleep(5.0, fail)
    assert one.asked[4:] == [5, 6]  # it is awake again
    one.is_in_handler = True
    with pytest.raises(glue.ConfigurationError, match="in a handler, which would wait for itself"):
        one.sleep(5.0)
    assert len(one.asked) == 6


def test_an_asyncio_endpoint_sleeps_likewise() -> None:
    async def main() -> None:
        one, rested = AioSleeper(), list[Any]()

        async def pause(seconds: float) -> None:
            rested.append(seconds)

        assert await one.sleep(5.0, pause) == WOKE
        assert (rested, one.asked, one.flushed) == ([5.0], [1, 2], [1.0])
        one.closed = True
        with pytest.raises(glue.ClosedError, match="the endpoint was closed while it woke up"):
            await one.sleep(5.0, pause)

    asyncio.run(main())


def test_a_second_call_of_sleep_is_refused_until_the_first_has_returned() -> None:
    async def main() -> None:
        one = AioSleeper()

        async def flush(timeout: float) -> bool:
            await asyncio.sleep(0)
            return True

        async def pause(seconds: float) -> None:
            await asyncio.sleep(0)

        one.flush = flush  # type: ignore[method-assign]
        first, second = await asyncio.gather(one.sleep(5.0, pause), one.sleep(5.0, pause), return_exceptions=True)
        assert (first, type(second), one.asked) == (WOKE, glue.ConfigurationError, [1, 2])
        assert await one.sleep(5.0, pause) == WOKE

    asyncio.run(main())
    one = SyncSleeper()

    def pause(seconds: float) -> None:
        with pytest.raises(glue.ConfigurationError, match="one"):
            one.sleep(5.0)

    one.sleep(5.0, pause)
    assert one.asked == [1, 2]


def test_an_endpoint_that_is_closed_while_it_wakes_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.sync.sleeping.LOOK", 0.001)
    one = SyncSleeper()
    one.closed = True
    with pytest.raises(glue.ClosedError, match="the endpoint was closed while it woke up"):
        one.sleep(5.0, lambda seconds: None)


@pytest.mark.parametrize("seconds", [-0.1, 60.1, True, "5", float("nan")])
def test_another_time_to_sleep_is_refused(seconds: Any) -> None:
    one: Any = SyncSleeper()
    with pytest.raises(glue.ConfigurationError) as caught:
        one.sleep(seconds, lambda seconds: None)
    assert str(caught.value) == f"seconds={seconds!r}: expected 0 to 60.0, as the setting `sleep` says"
    assert one._rest(60.0) == 60.0
    assert one._rest(0) == 0
    one._cycle = 1
    with pytest.raises(
        glue.ConfigurationError, match=r"the endpoint is asleep; one thread at a time may call sleep\(\)"
    ):
        one._rest(1.0)
    with pytest.raises(glue.ConfigurationError, match=r"sleep\(\) needs the setting `sleep`"):
        SyncSleeper(None).sleep(1.0)
    assert isinstance(one, SleepMethods)


# ------------------------------------------------------------------------------------------------------- recordings


def test_a_recorded_message_has_all_of_its_delivery() -> None:
    found = delivery({"a": 1}, b"raw")
    source: Any = (None, "kind", True, {"p": "q"}, "b", "id-b", 7)
    found.type, found.retained, found.metadata = "kind", True, Metadata({"p": "q"}, None)
    assert messages_of(77, found) == [
        RecordedMessage(77, 5_000_000_000, "t", 5, b'{"a":1}', True, *source),
        RecordedMessage(77, 5_000_000_000, "t", 6, b"raw", False, *source),
    ]
    found = delivery([1])
    found.metadata, found.encoded = Metadata(None, "packed"), [b"\x01"]
    assert messages_of(77, found) == [
        RecordedMessage(77, 5_000_000_000, "t", 5, b"\x01", False, "packed", None, False, {}, "b", "id-b", 7)
    ]
