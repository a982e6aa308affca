"""What a member of a consumer makes of what its home tells: messages for its reader, decoded, in their order."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from glue.consumers.membership import Taken
from glue.consumers.wire import encode
from glue.contract import Delivery
from glue.endpoint.coded import Decoder, metadata_of
from glue.endpoint.coded import encode as coded
from glue.endpoint.consuming import Consuming
from glue.topics.bundle import LIVE, MessageGroup
from tests.endpoint.owners import Owner


def group(*payloads: bytes, codec: str | None = None, json: bool = False) -> MessageGroup:
    metadata = None if codec is None else metadata_of(None, coded(0, codec)[1])
    return MessageGroup("t/1", 5, 2_000_000, [*payloads], None, "kind", json, LIVE, None, 0, True, metadata)


class Place:
    """The memberships of an endpoint, with members that take what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.now = 10.0
        self.asked: list[Any] = []
        self.arrived: list[int] = []
        owner: Any = Owner()
        self.owner = owner
        self.statistics: Counter[str] = Counter()
        core: Any = SimpleNamespace(
            identity=SimpleNamespace(endpoint_id="e" * 16, incarnation=7), statistics=self.statistics,
            requests=SimpleNamespace(clock=lambda: self.now, unix_time=lambda: 5000.0), arrived=self.arrived.append,
            durability=SimpleNamespace(covering=lambda pattern: []), decoder=Decoder(self.statistics),
        )  # fmt: skip
        self.consuming = Consuming(core, owner, self.asked.append, True)

    def join(self, name: str, pattern: str, taken: list[Any]) -> Any:
        room = self.consuming.room(name, pattern, ("earliest", 0), False, False)
        told: list[Any] = []

        def take(*what: Any) -> list[Any]:
            told.append(what)
            return taken

        self.monkeypatch.setattr(room.membership, "told", take)
        pokes: list[int] = []
        room.poke = lambda: pokes.append(1)
        return room, told, pokes

    def tell(self, name: str, pattern: str) -> None:
        head = {"name": name, "pattern": pattern, "tell": "shares"}
        self.consuming._deliver(Delivery("x", [encode(head)], None, "k", "id-k", 1, 1, 0.0, False, ()))


def share(what: MessageGroup, number: int = 1) -> Any:
    return Taken("m", number, False, what, "id-b", "b", 3)


def test_the_messages_of_a_share_come_to_the_member_of_that_consumer_and_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(monkeypatch)
    room, told, pokes = place.join("c", "t/+", [share(group(b"x", b"y")), share(group(b'"z"', json=True), 2)])
    others = [place.join(name, pattern, []) for name, pattern in (("d", "t/+"), ("c", "t/1"))]
    place.asked.clear()
    place.tell("c", "t/+")
    ((now, keeper, head, groups),) = told
    assert (now, keeper, head["tell"], groups) == (10.0, "id-k", "shares", [])
    assert (place.arrived, pokes, [one[1:] for one in others]) == ([2, 1], [1], [([], []), ([], [])])
    found = [room.take() for _ in range(3)]
    assert [(one.payload, one.sequence, one.topic, one.publisher) for one in found] == [
        (b"x", 5, "t/1", "b"), (b"y", 6, "t/1", "b"), ("z", 5, "t/1", "b"),
    ]  # fmt: skip
    assert {(one.publisher_id, one.delivery.incarnation, one.type, one.delivery.expires) for one in found} == {
        ("id-b", 3, "kind", float("inf")),
    }  # fmt: skip
    assert place.owner.counted == {"handled": 1 + 3, "done": 1}


def test_what_a_codec_decodes_comes_decoded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch)
    packed = [coded(value, "msgpack")[0] for value in ({"a": 1}, [2])]
    room, _, pokes = place.join("c", "t/+", [share(group(packed[0], b"\xc1", packed[1], codec="msgpack"))])
    place.tell("c", "t/+")
    assert (place.arrived, pokes) == ([3], [1])
    found = [room.take() for _ in range(2)]
    assert [(one.payload, one.sequence) for one in found] == [({"a": 1}, 5), ([2], 7)]
    assert sum(count for name, count in place.statistics.items() if name.startswith("messages dropped: ")) == 1


def test_after_news_the_next_look_is_when_the_first_member_wants_one(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch)
    rooms = [place.join(name, "t", [])[0] for name in "cd"]
    place.consuming.rung(10.0)
    for room, deadline in zip(rooms, (12.0, 11.0), strict=True):
        room.membership.deadline = deadline
    place.asked.clear()
    place.consuming._due = float("inf")
    place.tell("c", "t")
    assert [one.due for one in place.asked] == [11.0]
