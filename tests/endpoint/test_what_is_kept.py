"""What an endpoint remembers, keeps and leaves behind: what its driver is asked for that, and asked to take back."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

import orjson
import pytest

import glue
import glue.aio
from glue.consumers.wire import ask_topic as home_topic
from glue.consumers.wire import tell_topic
from glue.contract import Delivery, Publication, Record, Subscribe, Unsubscribe
from glue.delayed.wire import ask_topic as holder_topic
from glue.endpoint.keeper import retention_of
from glue.endpoint.owner import OwnerFunctions
from glue.history.names import OWN, ask_topic, page_topic
from glue.simulation.disk import SimulatedDisk
from glue.storage import Stream
from tests.endpoint.owners import Owner
from tests.endpoint.test_keeper_parts import Disk, delivery
from tests.support.calls import do


class Driver:
    """A driver that notes its orders."""

    def __init__(self) -> None:
        self.closed = False
        self.asked: list[Any] = []
        self.wakes = 0

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append(request)

    def wake(self) -> None:
        self.wakes += 1

    def told(self) -> list[str]:
        """What was asked since the last look, in words."""
        found, self.asked = self.asked, []
        return [words(one) for one in found]


def words(request: Any) -> str:
    if isinstance(request, Subscribe):
        return f"+ {' '.join(request.patterns)}"
    if isinstance(request, Publication):
        return f"publish {request.topic} {request.payloads}"
    if isinstance(request, Record):
        return f"record {' '.join(request.patterns)} {request.recorder is not None}"
    return f"- {type(request.token).__name__}" if isinstance(request, Unsubscribe) else repr(request)


class Writer:
    """What stores for a keeper, at once."""

    def __init__(self, keeping: Any) -> None:
        self.keeping = keeping
        self.did: list[Any] = []

    def call(self, function: Callable[[], object]) -> None:
        function()

    def submit(self, delivery: Delivery) -> None:
        self.did.append(delivery.topic)

    def store(self, records: Any) -> None:
        self.did.append(records)

    def close(self, timeout: float) -> None:
        self.did.append(timeout)


@pytest.fixture(params=[glue.Endpoint, glue.aio.Endpoint])
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = request.param("a")
    made._driver, made.counted = Driver(), Owner()
    handled, settled = made.counted.handled, made.counted.settled
    made._owner = OwnerFunctions(print, handled, settled, print, print, made.unsubscribe)
    made.opened = []

    def open_directory(data_dir: Any) -> Any:
        made.opened.append(data_dir)
        return SimulatedDisk(Random(1))

    monkeypatch.setattr(made, "_make_writer", Writer)
    monkeypatch.setattr(made, "_open_directory", open_directory)
    return made


# ------------------------------------------------------------------------------------------------------- remembering


def test_what_is_remembered_is_recorded_and_offered_until_it_is_forgotten(endpoint: Any) -> None:
    driver, core = endpoint._driver, endpoint._core
    endpoint.remember("t/+", last=2)
    asks = f"+ {ask_topic(endpoint.id)}"
    assert driver.told() == ["record t/+ True", asks, f"+ {OWN}t/+"]
    assert [*core.offers.interests[endpoint.id]] == [f"{OWN}t/+"]
    endpoint.remember("t/+", last=3)  # other limits
    assert driver.told() == []
    endpoint.remember("u")
    assert driver.told() == ["record u True", f"+ {OWN}u"]
    announcement = endpoint._served["u"]
    announcement._deliver(Delivery(OWN + "u", [1, 2], None, "b", "id-b", 1, 1, 0.0, False, ()))
    assert core.statistics["messages to history that are no requests"] == 2
    assert endpoint.counted.counted == {"unread": 2, **({"done": 1} if endpoint._COUNTS else {})}
    before = driver.wakes
    endpoint.forget("t/+")
    assert driver.told() == ["record t/+ False", "- Announcement"]
    assert [*core.offers.interests[endpoint.id]] == [f"{OWN}u"]
    assert driver.wakes > before
    for pattern, known in (("t/+", "u"), ("v", "u")):
        with pytest.raises(glue.ConfigurationError) as caught:
            endpoint.forget(pattern)
        assert str(caught.value) == f"{pattern!r} is not remembered; what is: {known}"
    endpoint.forget("u")
    with pytest.raises(glue.ConfigurationError, match=r"^'u' is not remembered; what is: nothing$"):
        endpoint.forget("u")
    for wrong in ("#/t", "$glue/t"):
        with pytest.raises(glue.TopicError):
            endpoint.remember(wrong)


def test_a_subscription_to_history_receives_pages_once_for_all(endpoint: Any) -> None:
    driver = endpoint._driver
    endpoint.remember("t")
    driver.told()
    pages = f"+ {page_topic(endpoint.id, endpoint.incarnation)}"
    endpoint.subscribe("t", start="earliest")
    assert driver.told() == [pages, "+ t"]
    endpoint.subscribe("t", last=1)
    assert driver.told() == ["+ t"]
    for options, named in (
        ({"policy": "drop_oldest"}, "'drop_oldest', limit=None"),
        ({"limit": 5}, "'block', limit=5"),
    ):
        with pytest.raises(glue.ConfigurationError) as caught:
            endpoint.subscribe("t", start="earliest", **options)
        assert str(caught.value) == f"policy={named}: with start or last nothing is dropped; leave them out"
    assert driver.told() == []


# ------------------------------------------------------------------------------------------------------------ keeping


def test_a_keeper_receives_then_tells_and_its_end_is_told_first(endpoint: Any) -> None:
    driver, core, id = endpoint._driver, endpoint._core, endpoint.id
    keeper = do(lambda: endpoint.keep("t/#", replicas=2))
    told = driver.told()
    assert told.index("+ t/#") < told.index("+ $glue/keeper/memory/2/t/#")
    pages, asks = page_topic(id, endpoint.incarnation), ask_topic(id)
    assert sorted(told) == sorted(
        [f"+ {holder_topic(id)}", "+ t/#", f"+ {asks}", "+ $glue/keeper/memory/2/t/#", f"+ {pages}"]
    )
    durability = core.durability
    assert (durability.keepers("t/1", "memory"), durability.keepers("t/1")) == ({id: 2}, {})
    assert endpoint._keepers == (keeper,)
    assert [*core.offers.interests[id]] == ["$glue/keeper/memory/2/t/#"]
    again = do(lambda: endpoint.keep("t/#", replicas=2, count=1))
    assert driver.told() == ["+ t/#", "+ $glue/keeper/memory/2/t/#"]
    assert keeper.log is again.log
    assert len(again._writer.keeping.retentions) == 2
    keeper.close()
    assert driver.told() == ["- Announcement", "- PlacedKept"]
    assert ([*core.offers.interests[id]], durability.keepers("t/1", "memory")) == (
        ["$glue/keeper/memory/2/t/#"],
        {id: 2},
    )
    assert [*core.history._healers[keeper.log][0].patterns] == ["t/#"]
    keeper.close()
    assert driver.told() == []
    again.close()
    assert [*core.history._healers[keeper.log][0].patterns] == []
    assert driver.told() == ["- Announcement", "- PlacedKept"]
    assert (durability.keepers("t/1", "memory"), core.offers.interests, endpoint._keepers) == ({}, {}, ())
    assert again._writer.keeping.retentions == []
    driver.closed = True
    assert len(durability.on_placed) == 1  # of delayed messages
    with pytest.raises(glue.ClosedError):
        do(lambda: endpoint.keep("t"))


def test_a_keeper_with_a_disk_is_a_home_of_consumers_and_tells_what_is_durable(endpoint: Any) -> None:
    driver, core, id = endpoint._driver, endpoint._core, endpoint.id
    keeper = do(lambda: endpoint.keep("t", data_dir="/one"))
    other = do(lambda: endpoint.keep("u/+", data_dir="/two", replicas=1))
    same = do(lambda: endpoint.keep("v", data_dir="/one/../one"))
    told = driver.told()
    assert (told.count(f"+ {home_topic(id)}"), told.count(f"+ {holder_topic(id)}")) == (1, 1)
    assert {"+ $glue/keeper/disk/0/t", "+ $glue/keeper/disk/1/u/+", "+ $glue/keeper/disk/0/v"} <= {*told}
    assert endpoint.opened == ["/one", "/two"]
    assert (same.log is keeper.log, other.log is keeper.log) == (True, False)
    home, away = keeper._writer.keeping, other._writer.keeping
    assert [home.consumers.covers(pattern) for pattern in ("t", "v", "u/1", "t/1")] == [True, True, False, False]
    assert [away.consumers.covers(pattern) for pattern in ("t", "u/1", "u/+")] == [False, True, True]
    assert home.watchers == [home.consumers, home.delayed]
    assert [home.delayed._is_mine(topic) for topic in ("t", "v", "u/1", "w")] == [True, True, False, False]
    assert [away.delayed._is_mine(topic) for topic in ("t", "u/1")] == [False, True]
    in_memory = do(lambda: endpoint.keep("t"))._writer.keeping
    assert (in_memory.consumers, in_memory.delayed._is_mine("t"), home.delayed._is_mine("t")) == (None, False, True)
    first = do(lambda: endpoint.keep("x"))._writer.keeping
    on_disk = do(lambda: endpoint.keep("x", data_dir="/two"))._writer.keeping
    assert [one.delayed._is_mine("x") for one in (first, on_disk, home)] == [False, True, False]
    wanted: list[Any] = []
    for keeping in (home, away):
        keeping.tell_all = lambda publisher, life, keeping=keeping: wanted.append((keeping, publisher, life))
    core.durability.want("b" * 16, 5)
    assert wanted == [(home, "b" * 16, 5), (away, "b" * 16, 5)]
    endpoint._end_keeping(2.5)
    assert [writer.did for writer in endpoint._writers.values()] == [[2.5]] * 3


def test_damaged_positions_of_consumers_are_counted(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for content, count in ((None, 0), (b"no entry at all, but some bytes of another file\n" * 9, 1)):
        disk = SimulatedDisk(Random(1))
        if content is not None:
            disk.create("consumers")
            disk.append("consumers", content)
        monkeypatch.setattr(endpoint, "_open_directory", lambda data_dir, disk=disk: disk)
        do(lambda place=f"/{count}": endpoint.keep("t", data_dir=place))  # type: ignore[misc]
        assert endpoint._core.statistics["damaged positions of consumers"] == count


def test_a_log_that_cannot_be_opened_closes_its_directory(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise glue.StorageError("broken")

        def close(self) -> None:
            closed.append("closed")

    monkeypatch.setattr(endpoint, "_open_directory", lambda data_dir: Broken())
    monkeypatch.setattr(endpoint._core, "at_rest", lambda directory: directory)
    with pytest.raises(glue.StorageError, match="broken"):
        do(lambda: endpoint.keep("t", data_dir="/one"))
    assert (closed, endpoint._keepers, endpoint._writers) == (["closed"], (), None)


def test_a_keeper_that_cannot_begin_closes_its_log_and_another_try_may_succeed(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Writer] = []

    def make_writer(keeping: Any) -> Writer:
        made.append(Writer(keeping))
        return made[-1]

    def fail(keeping: Any, log: Any) -> None:
        raise glue.StorageError("positions")

    monkeypatch.setattr(endpoint, "_make_writer", make_writer)
    with monkeypatch.context() as broken:
        broken.setattr(endpoint, "_add_home", fail)
        with pytest.raises(glue.StorageError, match="positions"):
            do(lambda: endpoint.keep("t", data_dir="/one"))
    assert ([one.did for one in made], endpoint._writers) == ([[1.0]], None)
    do(lambda: endpoint.keep("t", data_dir="/one"))
    assert len(endpoint._keepers) == 1


def test_acknowledgements_are_taken_counted_and_asked_for_once(endpoint: Any) -> None:
    driver, core = endpoint._driver, endpoint._core
    for number in (1, 2):
        endpoint._expect("t", number, "disk", print)
        assert driver.told() == [f"+ {core.durability.topic}"][: 2 - number]
    assert core.durability.wanted == {endpoint.id: endpoint.incarnation}
    took: list[Any] = []
    core.durability.take = lambda keeper, message: took.append((keeper, message))
    endpoint._acknowledgements._deliver(Delivery("x", [{"durable": []}, 5], None, "b", "id-b", 1, 1, 0.0, False, ()))
    assert took == [("id-b", {"durable": []}), ("id-b", 5)]
    assert endpoint.counted.counted == {"handled": 2, **({"done": 1} if endpoint._COUNTS else {})}
    assert Stream("o", 1, "t").topic == "t"


# ---------------------------------------------------------------------------------------------------------- consumers


def test_the_first_member_has_its_endpoint_hear_of_homes(endpoint: Any) -> None:
    driver = endpoint._driver
    tell = f"+ {tell_topic(endpoint.id, endpoint.incarnation)}"
    endpoint.subscribe("t", consumer="c")
    told = driver.told()
    assert tell in told
    endpoint.subscribe("t", consumer="d", start="latest")
    assert tell not in driver.told()
    assert [room.membership.name for room in endpoint._consuming._rooms] == ["c", "d"]
    for options, words_ in (
        ({"policy": "drop_oldest"}, "policy='drop_oldest'"), ({"limit": 5}, "limit=5"), ({"start": 7}, "start=7"),
    ):  # fmt: skip
        with pytest.raises(glue.ConfigurationError) as caught:
            endpoint.subscribe("t", consumer="e", **options)
        assert words_ in str(caught.value)
    driver.told()
    endpoint._end_consuming()
    assert endpoint._consuming._rooms == {}


# --------------------------------------------------------------------------------------------------------------- wills


def test_wills_are_told_as_one_retained_message_until_the_last_is_withdrawn(endpoint: Any) -> None:
    driver = endpoint._driver
    topic, flag = f"$glue/wills/{endpoint.id}", f"+ $glue/will-of/{endpoint.id}"

    def numbers() -> Any:
        message, *rest = driver.asked
        driver.asked = []
        assert (message.topic, message.options.retain) == (topic, True)
        wills = orjson.loads(message.payloads[0])["wills"] if message.payloads[0] else []
        return [one["number"] for one in wills], [words(one) for one in rest]

    first = endpoint.will("t", "gone", retain=True, delay=0.5)
    assert repr(first) == "<LastWill 't'>"
    (entry,) = orjson.loads(driver.asked[0].payloads[0])["wills"]
    assert entry == {"number": 1, "topic": "t", "payload": "ImdvbmUi", "json": 1, "retain": 1, "delay": 500}
    assert numbers() == ([1], [flag])
    second = endpoint.will("u", b"x")
    assert numbers() == ([1, 2], [])
    third = endpoint.will("t", 5)  # replaces the first
    assert numbers() == ([3, 2], [])
    first.withdraw()
    assert driver.asked == []
    second.withdraw()
    assert numbers() == ([3], [])
    third.withdraw()
    assert numbers() == ([], ["- Announcement"])
    third.withdraw()
    assert driver.asked == []
    endpoint.will("v", 1).withdraw()
    driver.told()
    endpoint.will("w", 1)
    assert numbers() == ([5], [flag])


@pytest.mark.parametrize("delay", [-0.001, 10**6 + 0.001, True, "1", None, float("nan")])
def test_another_delay_of_a_will_is_refused(endpoint: Any, delay: Any) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        endpoint.will("t", 1, delay=delay)
    assert str(caught.value) == f"delay={delay!r}: expected 0 to 1000000 seconds"
    endpoint.will("t", 1, delay=10**6)


def test_wills_have_a_limit_of_their_number_and_of_their_bytes(endpoint: Any) -> None:
    for number in range(64):
        endpoint.will(f"t/{number}", b"")
    with pytest.raises(glue.ConfigurationError, match=r"^65 wills: expected at most 64; withdraw some$"):
        endpoint.will("t/64", b"")
    endpoint.will("t/0", bytes(1 << 20))
    with pytest.raises(glue.MessageTooLargeError, match=r"^1048577 bytes in all wills; the limit is 1048576$"):
        endpoint.will("t/1", b"x")
    assert len(endpoint._wills) == 64


def test_what_grows_too_old_is_removed_also_while_nothing_comes() -> None:
    disk = Disk()
    disk.keeping.retentions = [retention_of("t", "1h", None, None)]
    disk.keeping.store(10.0, [delivery("t", 1, at=1e9)])
    disk.keeping._log.roll()  # type: ignore[union-attr]
    disk.keeping.store(11.0, [delivery("t", 2, at=1e9)])
    disk.keeping.sync(11.0)
    now = 70.0
    while disk.keeping.deadline < inf and now < 9999.0:
        now = disk.keeping.deadline
        disk.keeping.commit(now, 1e9 + now)
    assert disk.keeping.log.first == 1
    assert now == pytest.approx(3600.0, abs=60.0)
