"""What comes for an endpoint itself: gaps in it disturb nobody, and what follows from it is published or taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
import glue.aio
from glue import schema
from glue.contract import Delivery, Missed, Publication, Subscribe, Unsubscribe
from glue.endpoint import requests as module
from glue.endpoint.consuming import Consuming
from glue.endpoint.delaying import DelayedReceiver
from glue.endpoint.homes import Asked
from glue.endpoint.keep_methods import Acknowledgements
from glue.endpoint.keeper import Keeper, Kept, retention_of
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.receiver_hosts import BeatToken
from glue.endpoint.receiver_partitions import WatchToken
from glue.endpoint.receiver_payloads import answer_of, body_of, copied, decoders
from glue.endpoint.receivers import Announcement
from glue.endpoint.recorder import Recorder
from glue.endpoint.recording import RecordMethods
from glue.endpoint.request import CURRENT, Request
from glue.endpoint.request_methods import Replies
from glue.endpoint.responder import KEPT
from glue.endpoint.schemas import Schemas
from glue.endpoint.typed import SchemaReceiver
from glue.endpoint.wills import Holding
from glue.schema import PUBLISH, SUBSCRIBE, AnnouncedType
from tests.endpoint.owners import Owner
from tests.receivers.desk import Desk

ANY: Any = SimpleNamespace()
TOKENS: dict[str, Callable[[Any], Any]] = {
    "replies": lambda owner: Replies(ANY, owner, print, True),
    "acknowledgements": lambda owner: Acknowledgements(ANY, owner, True),
    "schemas": lambda owner: Schemas(ANY, owner, True),
    "a schema": lambda owner: SchemaReceiver("hash", ANY),
    "asked of homes": lambda owner: Asked(list, owner, True),
    "asked of holders": lambda owner: DelayedReceiver(list, owner, True),
    "members": lambda owner: Consuming(ANY, owner, print, True),
    "kept": lambda owner: Kept(ANY, owner, True),
    "an announcement": lambda owner: Announcement(print),
    "wills": lambda owner: Holding(ANY, "id-b"),
    "receivers": lambda owner: Desk().runtime,
    "beats": lambda owner: BeatToken(ANY),
    "a watch": lambda owner: WatchToken(ANY),
}


@pytest.mark.parametrize("name", TOKENS)
def test_a_gap_in_what_comes_for_an_endpoint_itself_is_nothing_to_take(name: str) -> None:
    owner = Owner()
    token = TOKENS[name](owner)
    token._deliver(Missed("t", "b", "id-b", 3, "not sent", (token,)))
    assert owner.counted == {}


class Driver:
    """A driver that notes what it is asked."""

    closed = False
    replier = 0

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append(request)


def placed(kind: Any) -> Any:
    """An endpoint of this kind that has such a driver."""
    endpoint = kind("a")
    endpoint._driver, endpoint._owner = Driver(), OwnerFunctions(*[lambda *_: None] * 6)
    return endpoint


# --------------------------------------------------------------------------------------------------------- requests


def test_what_follows_from_a_reply_is_published() -> None:
    owner, ordered = Owner(), list[Any]()
    requests: Any = SimpleNamespace(take=lambda delivery: [f"again {number}" for number in delivery.payloads])
    for counts in (True, False):
        replies = Replies(requests, owner, ordered.append, counts)  # type: ignore[arg-type]
        replies._deliver(Delivery("t", [1, 2], None, "b", "id-b", 1, 1, 0.0, False, ()))
    assert ordered == ["again 1", "again 2"] * 2
    assert owner.counted == {"handled": 4, "done": 1}


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_a_closed_responder_refuses_for_a_while_and_the_oldest_of_65_no_more(kind: Any) -> None:
    async def main() -> None:
        endpoint = placed(kind)
        asked = endpoint._driver.asked
        made = [endpoint.respond(f"t/{number}", print) for number in range(KEPT + 2)]
        assert [type(one) for one in asked] == [Subscribe] * 2 * len(made)
        assert [one.token for one in asked[:2]] == [made[0], made[0].announcement]
        asked.clear()
        for responder in made[:KEPT]:
            responder.close()
            responder.close()
        assert [one.token for one in asked] == [one.announcement for one in made[:KEPT]]
        assert endpoint.responders("t/0") == []
        assert endpoint.responders(f"t/{KEPT}") == ["a"]
        asked.clear()
        made[KEPT].close()
        assert [type(one) for one in asked] == [Unsubscribe] * 2
        assert [one.token for one in asked] == [made[KEPT].announcement, made[0]]
        asked.clear()
        made[KEPT + 1].close()
        assert [one.token for one in asked] == [made[KEPT + 1].announcement, made[1]]
        assert KEPT == 64

    asyncio.run(main())


def request(answering: Any, expires: float = 0.0) -> Request:
    return Request("t", 1, "b", "id-b", 1, 5, expires, False, (), answering)


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_a_handler_whose_caller_waits_no_more_asks_nobody(kind: Any) -> None:
    endpoint = placed(kind)
    endpoint._core.requests.directory.add("b" * 16, "t")
    endpoint._core.requests.clock = lambda: 10.0
    for expires in (9.0, 10.0):
        token = CURRENT.set(request(ANY, expires))
        try:
            with pytest.raises(glue.RequestTimeoutError) as caught:
                endpoint.request_all("t", 1)
        finally:
            CURRENT.reset(token)
        assert str(caught.value) == "the caller of <Request t from b: 1>, for which this is asked, waits no more"


def test_an_answer_that_cannot_travel_may_be_followed_by_another_one() -> None:
    sent: list[Any] = []

    def answer(request: Request, value: Any) -> None:
        if value is None:
            raise glue.PayloadError("no")
        sent.append(value)

    asked = request(SimpleNamespace(answer=answer))
    with pytest.raises(glue.PayloadError):
        asked.reply(None)
    asked.reply(5)
    with pytest.raises(glue.RequestError, match="is answered already; a request has one answer"):
        asked.reply(6)
    assert sent == [5]


def test_topics_of_requests_are_remembered_unless_they_are_long_or_many(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = placed(glue.Endpoint)._core.requests
    monkeypatch.setattr(module, "KNOWN_TOPICS", 2)
    monkeypatch.setattr(module, "KNOWN_LENGTH", 3)
    for topic, known in (("a", {"a"}), ("long", {"a"}), ("abc", {"a", "abc"}), ("c", {"c"})):
        requests.note_checked(topic)
        assert requests.checked == known


# ------------------------------------------------------------------------------------------- keepers and recordings


def test_a_keeper_ends_with_its_block_and_stores_what_was_fetched() -> None:
    did: list[Any] = []
    keeping = SimpleNamespace(is_on_disk=False, log="log", failure="full", watchers=["first"])
    writer: Any = SimpleNamespace(keeping=keeping, store=lambda records: did.append(records))
    keeper: Any = Keeper("t/#", writer, ANY, ANY, retention_of("t/#", None, None, None), 2, None, did.append)
    keeper._store(["record"])
    keeper._watch("second")
    with keeper as same:
        assert (did, same) == ([["record"]], keeper)
    assert did[1:] == [keeper]
    assert (keeper.log, keeper.failure, keeping.watchers) == ("log", "full", ["first", "second"])
    assert (repr(keeper), keeper._interest) == ("<Keeper of 't/#' in memory>", "$glue/keeper/memory/2/t/#")


class Recording(RecordMethods[Any]):
    """The recordings of an endpoint, which may be closed."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.is_closed = False

    def _running(self) -> Any:
        if self.is_closed:
            raise glue.ClosedError("closed")
        return SimpleNamespace(order=self.asked.append)


def test_a_recording_ends_once_and_with_its_endpoint() -> None:
    endpoint, waits = Recording(), list[float]()
    thread: Any = SimpleNamespace(close=waits.append, failure="full", writer=SimpleNamespace(messages=5, bytes=7))
    parts: Any = [(f"recorded {number}", f"schemas {number}") for number in range(3)]
    made = [Recorder("t", "x.mcap", recorded, schemas, thread, endpoint) for recorded, schemas in parts]
    endpoint._recorders = (*made,)
    with made[0] as recorder:
        assert (recorder.messages, recorder.bytes, recorder.failure) == (5, 7, "full")
        assert endpoint.asked == []
    made[0].close()
    assert [one.token for one in endpoint.asked] == ["recorded 0", "schemas 0"]
    assert waits == [10.0, 10.0]
    endpoint.is_closed = True
    endpoint._end_keeping(0.0)
    assert (len(waits), endpoint._recorders, len(endpoint.asked)) == (4, (), 2)


def test_a_recorded_message_has_the_schema_that_its_publisher_announced() -> None:
    document: Any = {"title": "Good"}
    hash = schema.hash_of(orjson.dumps(document))
    told = [
        (peer, AnnouncedType(way, "Good", hash, pattern))
        for peer, way, pattern in (("id-c", PUBLISH, "t/+"), ("id-b", SUBSCRIBE, "t/+"), ("id-b", PUBLISH, "u"))
    ]
    found = Schemas(SimpleNamespace(directory=told), Owner(), True)  # type: ignore[arg-type]

    def schema_of(peer: str, topic: str) -> Any:
        return found.schema_of(SimpleNamespace(publisher_id=peer, topic=topic))  # type: ignore[arg-type]

    assert [schema_of("id-c", "t/1"), schema_of("id-b", "t/1")] == [None, None]  # its schema has not come
    found._deliver(Delivery(f"$glue/schema/{hash}", [document], None, "b", "id-b", 1, 1, 0.0, True, ()))
    assert schema_of("id-c", "t/1") == ("Good", orjson.dumps(document))
    assert schema_of("id-b", "u") == ("Good", orjson.dumps(document))
    assert [schema_of("id-b", "t/1"), schema_of("id-c", "u"), schema_of("id-d", "t/1")] == [None] * 3


# ---------------------------------------------------------------------------------------------- quality of service


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_a_topic_with_a_quality_of_service_takes_its_offer_back_at_the_end_of_its_block(kind: Any) -> None:
    endpoint = placed(kind)
    ended: list[str] = []

    def announce(pattern: str, publish_every: float) -> Any:
        ended.append(f"{pattern} {publish_every}")
        return SimpleNamespace(close=lambda: ended.append("promise"))

    endpoint.announce = announce
    endpoint._state_terms = lambda statement: ended.append(f"told {statement.way} {statement.pattern}")
    endpoint._withdraw_terms = lambda statement: ended.append(f"taken back {statement.pattern}")
    qos = glue.QoS(deadline=2.0, lifespan=1.5, priority="high", reliability="best-effort")
    with endpoint.topic("t", qos=qos) as topic:
        topic.announce()
        topic.announce()
        assert topic._offer.options == {"lifespan": 1.5, "priority": "high", "reliability": "best-effort"}
        assert ended == ["t 2.0", "told offer t"]
        offer = topic._offer
    topic.close()
    offer.close()
    assert ended[2:] == ["taken back t", "promise"]
    plain = endpoint.topic("u", qos=glue.QoS())
    plain.announce()
    assert plain._offer.options == {}
    plain.close()
    assert ended[4:] == ["told offer u", "taken back u"]


# ----------------------------------------------------------------------------------------------------------- payloads


@dataclass
class Good:
    number: int


class Half:
    """What looks like a type with a schema, and is none."""

    model_json_schema = None


def test_a_value_of_a_type_travels_to_a_receiver_unless_it_is_no_json() -> None:
    assert body_of(Good(5)) == (b'{"$Good":{"number":5}}', True)
    assert (copied(Good(5)), answer_of(Good(5))) == ({"$Good": {"number": 5}}, (b'{"number":5}', True))
    for call in (body_of, copied):
        with pytest.raises(glue.PayloadError, match=r"^type .*Half.*: expected a dataclass"):
            call(Half())
    array: Any = type("ndarray", (), {"__module__": "numpy"})
    for types, words in (
        ([array], "type 'ndarray': receivers take dataclasses and other types that are JSON"),
        ([Good, Good], "messages: two types have the name 'Good'"),
    ):
        with pytest.raises(glue.ConfigurationError) as caught:
            decoders(types)
        assert str(caught.value) == words
    assert decoders([Good])["$Good"]({"number": 7}) == Good(7)


def test_a_closed_endpoint_drops_what_others_would_be_told_of() -> None:
    endpoint = placed(glue.Endpoint)
    endpoint._driver.closed = True
    endpoint._publish_quietly([Publication("t", [b""], 0.0)])
    endpoint._order_quietly("wish")
    endpoint._acknowledge("done")
    assert endpoint._driver.asked == []
    endpoint._driver.closed = False
    endpoint._order_quietly("wish")
    endpoint._acknowledge("done")
    assert endpoint._driver.asked == ["wish", "done"]
