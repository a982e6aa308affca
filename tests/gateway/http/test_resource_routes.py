"""Subscriptions, Carrier's routes and the overview by HTTP: what clients see of them, and what is refused."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.errors import NoResponderError, TopicError
from glue.gateway.http import carrier, overview, resources
from glue.gateway.http.dead_letters import properties_of
from glue.gateway.http.lanes import Lane, Slot
from glue.gateway.http.limits import Limits
from glue.gateway.http.signing import Item
from glue.gateway.http.subscriptions import Subscription
from glue.gateway.http.tokens import EVERYTHING, Rights
from glue.storage import JSON, MemoryLog, Record
from tests.gateway.http.asked import called, door, request

URL = "http://10.0.0.1/hook"
MINE = Rights("kitchen", ("t/#",), ("t/#",))


class Delivering:
    """The deliveries of a door: notes what is asked of them."""

    def __init__(self) -> None:
        self.log = MemoryLog("log")
        recent = SimpleNamespace(durable=100, log=self.log, first=0, id="log")
        self.asked: list[Any] = []
        self.is_gone = False
        self.journal = SimpleNamespace(
            recent=recent, want=self._note("want"), keeps=lambda topic: topic == "known", patterns=["t"], data_dir=None
        )
        self.subscriptions: dict[str, Subscription] = {}
        self.forbidden, self.unkept = dict[str, str](), dict[str, str]()
        self.is_owner = lambda id: True
        self.machine = SimpleNamespace(lanes=dict[str, Lane](), statistics={"deliveries": 4})
        self.store = SimpleNamespace(topics={"known"}, create=self._note("create"))
        self.change, self.remove, self.replay = self._note("change"), self._note("remove"), self._note("replay")

    def _note(self, name: str) -> Any:
        async def note(*told: Any) -> bool:
            self.asked.append((name, *told))
            return not self.is_gone

        return note

    async def add(self, made: Subscription, begin: Any = None) -> None:
        self.asked.append(("add", made, begin))
        self.subscriptions[made.id] = made
        self.machine.lanes[made.id] = Lane(made, 100, 0.0)

    async def dead_from(self, id: str) -> int:
        self.asked.append(("dead from", id))
        return 2


def made_door(**more: Any) -> Any:
    return door(delivering=Delivering(), **more)


def known(made: Any, id: str = "s", owner: str = "kitchen", **more: Any) -> Lane:
    subscription = Subscription(id, "t/x", URL, ("whsec_x",), owner=owner, created=5.0, **more)
    made.delivering.subscriptions[id] = subscription
    lane = made.delivering.machine.lanes[id] = Lane(subscription, 93, 0.0)
    return lane


SHOWN = {
    "id": "s", "topic": "t/x", "url": URL, "secrets": 1, "parallel": 1, "timeout": 15.0, "give_up_after": None,
    "format": "raw", "owner": "kitchen", "state": "active", "created": 5.0,
}  # fmt: skip


def test_a_subscription_is_shown_with_how_its_deliveries_go() -> None:
    made = made_door()
    lane = known(made)
    state = {"failures": 0, "failing": False, "under_way": 0, "behind": 7}
    asked = request("id=s")
    assert called(resources.show, made, asked, MINE) == (200, {**SHOWN, **state})
    lane.is_idle, lane.failures, lane.alerted = True, 3, True
    expected = {**state, "failures": 3, "failing": True, "behind": 0}
    assert called(resources.show, made, asked, MINE) == (200, {**SHOWN, **expected})
    lane.slots[95] = Slot(95, Item(95, Record("a" * 16, "k", 1, "t/x", 1, [b"x"]), 0), 0.0)
    expected |= {"under_way": 1, "behind": 7}
    assert called(resources.show, made, asked, EVERYTHING) == (200, {**SHOWN, **expected})
    lane.position = 101
    assert called(resources.show, made, asked, MINE)[1]["behind"] == 0
    made.delivering.machine.lanes.clear()
    assert called(resources.show, made, asked, MINE) == (200, {**SHOWN, "delivered_by": "another door"})
    assert called(resources.replay, made, asked, MINE) == (
        409, "another door delivers to this subscription; ask that one",
    )  # fmt: skip
    made.delivering.forbidden["s"] = "by rule 3"
    made.delivering.is_owner = lambda id: False
    assert called(resources.show, made, asked, MINE)[1]["delivered_by"] == "another door"
    made.delivering.is_owner = lambda id: id == "s"
    assert called(resources.show, made, asked, MINE) == (200, {**SHOWN, "forbidden": "by rule 3"})
    assert called(resources.replay, made, asked, MINE) == (
        409, "nothing is delivered to this subscription: by rule 3",
    )  # fmt: skip
    assert called(resources.deliveries, made, asked, MINE) == (200, {"under_way": [], "last": []})
    assert called(resources.show, made, asked, Rights("hall", ("#",), ("#",))) == (404, "no subscription 's'")
    known(made, "other", "hall")
    rows = [called(resources.show_all, made, request(), rights)[1]["subscriptions"] for rights in (MINE, EVERYTHING)]
    assert [[one["id"] for one in found] for found in rows] == [["s"], ["s", "other"]]


def test_attempts_are_shown_with_the_time_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1_000.0)
    made = made_door()
    lane = known(made)
    for offset, due in ((95, 1_001.2468), (96, 990.0), (97, 1_009.0)):
        slot = lane.slots[offset] = Slot(offset, Item(offset, Record("a" * 16, "k", 1, "t/x", 1, [b"x"]), 0), 0.0)
        slot.due, slot.attempts, slot.reason = due, offset - 94, f"answer {offset}"
    lane.slots[97].is_flying = True
    lane.history.append({"offset": 90, "attempt": 2, "result": "500", "after": 7.0})

    def row(offset: int, seconds: float | None) -> dict[str, Any]:
        return {
            "offset": offset, "attempts": offset - 94, "is_under_way": seconds is None, "next_attempt_in": seconds,
            "reason": f"answer {offset}",
        }  # fmt: skip

    found = called(resources.deliveries, made, request("id=s"), MINE)[1]
    assert found == {
        "under_way": [row(95, 1.247), row(96, 0.0), row(97, None)],
        "last": [{"offset": 90, "attempt": 2, "result": "500"}],
    }
    lane.next_at = 1_001.0
    found = called(resources.deliveries, made, request("id=s"), MINE)[1]
    assert [one["next_attempt_in"] for one in found["under_way"]] == [1.247, 1.0, None]


@pytest.mark.parametrize(
    ("start", "begin"),
    [(None, None), ("latest", None), ("earliest", "earliest"), ("1700000000", 1.7e9), ("soon", 400), (5, 400)],
)
def test_a_subscription_begins_where_its_client_says_and_has_a_secret(start: Any, begin: Any) -> None:
    made = made_door()
    body = {"topic": "t/+", "url": URL, "parallel": 3, **({} if start is None else {"start": start})}
    before = time.time()
    status, found = called(resources.create, made, request(body=body), MINE)
    if begin == 400:
        assert (status, made.delivering.asked) == (400, [])
        return
    ((_, subscription, asked),) = made.delivering.asked
    assert (status, asked) == (201, begin)
    assert (subscription.owner, subscription.topic, subscription.parallel) == ("kitchen", "t/+", 3)
    assert before <= subscription.created <= time.time()
    assert (len(subscription.id), len(base64.b64decode(found["secret"].removeprefix("whsec_")))) == (16, 32)
    assert found["secret"] == subscription.secrets[0]
    assert (found["id"], found["behind"], found["secrets"]) == (subscription.id, 0, 1)


def test_a_subscription_keeps_its_secret_topic_and_owner() -> None:
    made = made_door()
    secret = "whsec_" + base64.b64encode(bytes(16)).decode()
    body = {"topic": "t/x", "url": URL, "secret": secret}
    assert called(resources.create, made, request(body=body), MINE)[1]["secret"] == secret
    assert called(resources.create, made, request(body={**body, "topic": "u"}), MINE)[0] == 403
    for name in ("topic", "url"):
        wrong = {key: value for key, value in body.items() if key != name}
        assert called(resources.create, made, request(body=wrong), MINE) == (400, f"'{name}' is missing")
        assert called(resources.create, made, request(body={**body, name: ""}), MINE) == (400, f"'{name}' is empty")
    known(made)
    made.delivering.asked.clear()
    for wrong in ({"topic": "u"}, {"format": "carrier"}):
        assert called(resources.change, made, request("id=s", wrong), MINE) == (
            409, "topic and format stay; make another subscription",
        )  # fmt: skip
    assert called(resources.change, made, request("id=s", {"state": "paused"}), MINE)[1]["state"] == "paused"
    made.delivering.is_gone = True
    told = called(resources.change, made, request("id=s", {"state": "paused"}), MINE)
    assert told == (404, "no subscription 's'"), "it was deleted meanwhile"
    (name, changed), _ = made.delivering.asked
    assert (name, changed.state, changed.secrets, changed.owner) == ("change", "paused", ("whsec_x",), "kitchen")
    assert called(resources.delete, made, request("id=s"), MINE) == (204, None)
    assert called(resources.replay, made, request("id=s"), MINE) == (202, {"replayed": True})
    assert made.delivering.asked[2:] == [("remove", "s"), ("replay", "s")]


def test_dead_letters_are_listed_from_where_the_last_replay_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_door()
    known(made)
    log = made.delivering.log
    for number in range(5):
        record = Record("a" * 16, "k", 1, "t/x", number + 1, [b"%d" % number], 1e9, 0, JSON * (number % 2))
        properties = properties_of(Item(0, record, 0), f"answer {number}")
        log.append([Record("b" * 16, "door", 1, "$dead/s", number + 1, [b"%d" % number], 2e9, properties=properties)])
    log.append([Record("b" * 16, "door", 1, "$dead/other", 1, [b"x"], 2e9)])
    log.append([Record("b" * 16, "door", 1, "$dead/s", 6, [b"5", b"6"], 2e9)])

    def ask(*query: tuple[str, str]) -> list[dict[str, Any]]:
        status, found = called(resources.dead_letters, made, request("id=s", query=query), MINE)
        assert status == 200
        letters: list[dict[str, Any]] = found["dead_letters"]
        return letters

    assert [(one["offset"], one["reason"]) for one in ask()] == [
        (2, "answer 2"), (3, "answer 3"), (4, "answer 4"), (6, ""), (7, ""),
    ]  # fmt: skip
    assert [one["offset"] for one in ask(("all", "1"))] == [0, 1, 2, 3, 4, 6, 7]
    assert ask()[1] == {
        "offset": 3, "topic": "t/x", "publisher": "k", "sequence": 4, "published_at": 1e9, "reason": "answer 3",
        "bytes": 1, "is_json": True,
    }  # fmt: skip
    monkeypatch.setattr(resources, "LETTERS", 2)
    assert [one["offset"] for one in ask(("all", "1"))] == [0, 1]


# ---------------------------------------------------------------------------------------------------------- Carrier


def test_carrier_s_routes_create_once_subscribe_once_and_publish_with_a_type() -> None:
    made = made_door(limits=Limits(subscriptions=2))
    asked = made.delivering.asked
    assert called(carrier.create, made, request(body={"topic": "known"})) == (200, {"topic": "known"})
    assert asked == []
    assert called(carrier.create, made, request(body={"topic": "t"})) == (200, {"topic": "t"})
    assert asked == [("want", "t"), ("create", "t")], "what cannot be kept must not be stored"
    made.delivering.store.topics.add("t")
    assert called(carrier.create, made, request(body={"topic": "third"})) == (409, "there are 2 topics already")
    assert called(carrier.create, made, request(body={"topic": "x"}), Rights("k"))[0] == 403
    assert called(carrier.create, made, request(body=b"{")) == (400, "the body is no JSON: " + (
        "unexpected end of data: line 1 column 2 (char 1)"
    ))  # fmt: skip
    assert called(carrier.create, made, request(body=[])) == (400, "the body is no JSON object")
    with pytest.raises(TopicError):
        called(carrier.create, made, request(body={"topic": "a/#"}))
    body = {"topic": "t", "addr": URL}
    asked.clear()
    status, found = called(carrier.subscribe, made, request(body=body), Rights("k", (), ("t",)))
    ((_, subscription, _),) = asked
    assert (status, found) == (200, {**body, "id": subscription.id})
    assert (subscription.format, subscription.owner, subscription.url) == ("carrier", "k", URL)
    assert len(subscription.id) == 16
    assert called(carrier.subscribe, made, request(body=body), Rights("k", (), ("t",))) == (200, found)
    assert len(asked) == 1
    other = called(carrier.subscribe, made, request(body=body), Rights("other", (), ("t",)))[1]
    assert other["id"] != found["id"]
    assert called(carrier.subscribe, made, request(body=body), Rights("k"))[0] == 403
    missing = (404, "no topic 'none'; create it first, by POST /create")
    assert called(carrier.subscribe, made, request(body={"topic": "none", "addr": URL})) == missing
    assert called(carrier.publish, made, request(body={"topic": "none"})) == missing


def test_carrier_s_messages_have_a_payload_in_base64() -> None:
    published: list[Any] = []

    async def publish(*told: Any) -> None:
        published.append(told)

    made = made_door(publish=publish)
    body = {"topic": "known", "payload": "/w==", "payloadType": "kind"}
    assert called(carrier.publish, made, request(body=body)) == (200, {"topic": "known"})
    assert called(carrier.publish, made, request(body={"topic": "known", "payload": ""})) == (200, {"topic": "known"})
    assert published == [("known", b"\xff", None, {"type": "kind"}), ("known", b"", None, {"type": None})]
    for wrong, words in (
        ({"payload": 5}, "'payload': expected a string, bytes in base64"), ({"payload": "Y"}, "'payload' is no base64"),
        ({"payloadType": 5}, "'payloadType' is no string"), ({"payload": "Y Q=="}, "'payload' is no base64"),
    ):  # fmt: skip
        assert called(carrier.publish, made, request(body={**body, **wrong})) == (400, words)
    assert called(carrier.publish, made, request(body=body), Rights("k", (), ("#",)))[0] == 403


# --------------------------------------------------------------------------------------------------------- overview


def test_health_is_that_of_the_log_and_of_the_endpoint() -> None:
    made = made_door(endpoint=SimpleNamespace(closed=False))
    made.delivering.log = made.delivering.journal.recent.log = SimpleNamespace(failure="")
    assert called(overview.health, made, request()) == (200, {"status": "ok"})
    made.endpoint.closed = True
    assert called(overview.health, made, request()) == (503, "the endpoint is closed")
    made.delivering.journal.recent.log.failure = "the disk is gone"
    assert called(overview.health, made, request()) == (503, "the disk is gone")


def test_the_status_tells_the_log_to_administrators_alone() -> None:
    feed = SimpleNamespace(_values={"a": b""}, statistics={"messages": 5})
    made = made_door(endpoint=SimpleNamespace(name="door", peers=[1, 2]), feed=feed)
    made.streams, made.delivering.subscriptions = 3, {"s": None}
    made.delivering.journal.recent.log = SimpleNamespace(failure="full")
    made.statistics["messages published"] = 6
    common = {
        "door": "door", "version": glue.__version__, "peers": 2, "streams": 3, "topics_seen": 1,
        "counters": {"messages published": 6, "deliveries": 4, "messages": 5},
    }  # fmt: skip
    mine = {"name": "kitchen", "publish": ["t/#"], "subscribe": ["t/#"], "admin": False}
    assert called(overview.status, made, request(), MINE) == (200, {**common, "rights": mine})
    found = called(overview.status, made, request())[1]
    assert (found["log"], found["subscriptions"], found["rights"]["admin"]) == (
        {"keeps": ["t"], "on_disk": False, "first": 0, "end": 100, "failure": "full"}, 1, True,
    )  # fmt: skip
    for handler in (overview.endpoints, overview.paths, overview.mqtt_clients, overview.metrics):
        assert called(handler, made, request(), MINE) == (
            403, "client 'kitchen' has no admin rights, which this needs (glue http token new --admin)",
        )  # fmt: skip


def test_clients_of_the_mqtt_doors_are_listed_with_their_door() -> None:
    asked: list[Any] = []
    replies = [("b", [{"client": "x"}, "odd"]), ("a", []), ("odd", {"client": "y"})]

    async def request_all(*told: Any) -> AsyncIterator[Any]:
        asked.append(told)
        for responder, payload in replies:
            yield SimpleNamespace(responder=responder, payload=payload)
        if not replies:
            raise NoResponderError("nobody")

    made = made_door(endpoint=SimpleNamespace(request_all=request_all))
    assert called(overview.mqtt_clients, made, request()) == (
        200, {"doors": ["a", "b"], "clients": [{"client": "x", "door": "b"}]},
    )  # fmt: skip
    replies.clear()
    assert called(overview.mqtt_clients, made, request()) == (200, {"doors": [], "clients": []})
    assert asked == [("$mqtt/doors", "clients", 2.0)] * 2


def test_paths_are_told_with_names_where_they_are_known() -> None:
    def path(sender: str, receiver: str, **more: Any) -> Any:
        given = {"loss": 0.25, "round_trip": 0.0012345, "unicast": True, **more}
        return SimpleNamespace(sender=sender, receiver=receiver, **given)

    async def get() -> Any:
        return [path("1", "2"), path("2", "9", round_trip=None, unicast=False)], {"2": "two"}

    peers = [SimpleNamespace(id="1", name="one"), SimpleNamespace(id="2", name="old")]
    made = made_door(endpoint=SimpleNamespace(peers=peers), paths=SimpleNamespace(get=get))
    assert called(overview.paths, made, request()) == (200, {
        "answered": ["2"],
        "paths": [
            {"sender": "one", "receiver": "two", "sender_id": "1", "receiver_id": "2", "loss": 0.25,
             "round_trip_ms": 1.234, "served_by": "unicast"},
            {"sender": "two", "receiver": "9", "sender_id": "2", "receiver_id": "9", "loss": 0.25,
             "round_trip_ms": None, "served_by": "multicast"},
        ],
    })  # fmt: skip


def test_endpoints_are_listed_with_the_way_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    way = SimpleNamespace(receiver="1", loss=None, round_trip=0.5, unicast=False)
    monkeypatch.setattr(overview, "own_paths", lambda endpoint: [way])
    peers = [
        SimpleNamespace(name="one", id="1", incarnation=3, address=("10.0.0.1", 5_000, 0, 0)),
        SimpleNamespace(name="two", id="2", incarnation=4, address=("10.0.0.2", 5_000)),
    ]
    made = made_door(endpoint=SimpleNamespace(name="door", id="0", incarnation=2, peers=peers))
    status, found = called(overview.endpoints, made, request())
    assert (status, json.dumps(found["door"])) == (200, '{"name": "door", "id": "0", "incarnation": 2}')
    assert found["endpoints"] == [
        {"name": "one", "id": "1", "incarnation": 3, "address": "10.0.0.1:5000", "loss": None, "round_trip_ms": 500.0,
         "served_by": "multicast"},
        {"name": "two", "id": "2", "incarnation": 4, "address": "10.0.0.2:5000"},
    ]  # fmt: skip
