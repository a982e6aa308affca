"""A few minutes in the life of a small LAN, in virtual time: the datagrams that the real layers send in them.

Nothing here depends on a clock, a socket or chance, so the same layers always send the same bytes. Datagrams are kept
small (`DATAGRAM`), so that a message of a few hundred bytes is fragmented and a dozen interests need a second frame.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple
from unittest import mock

import orjson

from glue.capture.entries import named
from glue.consumers.wire import ask_topic, encode, tell_topic
from glue.contract import (
    NORMAL,
    PLAIN,
    Acknowledge,
    Address,
    ExecuteWill,
    Leave,
    Metadata,
    Options,
    Publication,
    Request,
    Subscribe,
    Train,
    Unsubscribe,
)
from glue.endpoint.durability import acknowledgement_topic, keeper_interest
from glue.endpoint.qos import EVENT
from glue.endpoint.qos_terms import OFFER, Statement, terms_of
from glue.fastpath.stack import FastStack
from glue.receivers import Entry, partition_of
from glue.receivers.wire import ANSWER, Report, Result, at_topic, encode_batch, encode_report
from glue.schema import hash_of, type_interest
from glue.settings import Settings
from glue.stack import Identity
from glue.topics.bundle import MessageGroup
from glue.topics.shared.wire import interest_of, member_id, topic_of
from glue.topics.wrapped import limited, sampled
from glue.transport import slow_receivers
from tests.golden.payloads import ARROW, CODED, TEMPERATURE

DATAGRAM = 448  # bytes: 256 of body
DELAY = 0.0005  # seconds from sender to receiver
WALL_CLOCK = 1_700_000_000.0
NAMES = ("kitchen", "hall", "attic", "garden")


class Sent(NamedTuple):
    """One datagram on its way."""

    source: str
    data: bytes

    @property
    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = orjson.loads(self.data.partition(b"\n")[0])
        return header


Loss = Callable[[Sent], bool]


def endpoint_id(name: str) -> str:
    """As an endpoint derives it from its name."""
    return hashlib.blake2s(name.encode(), digest_size=8).hexdigest()


def stack(
    name: str, parity: float | None = None, sleep: float | None = None, interface: tuple[str, ...] | None = None
) -> FastStack:
    """The layers of the endpoint of this name, as they are after a start."""
    number = NAMES.index(name)
    identity = Identity(
        name=name,
        endpoint_id=endpoint_id(name),
        incarnation=int(WALL_CLOCK * 1000) << 10 | number,
        settings=Settings(name=name, parity=parity, sleep=sleep, interface=interface),
        random=Random(number),
    )
    layers = FastStack.build(identity, {})
    layers.fit(DATAGRAM)
    return layers


class Lan:
    """Endpoints and what is under way between them; everything sent is kept, in order."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.stacks: dict[str, FastStack] = {}
        self._flying: list[tuple[float, int, str, Train]] = []
        self._order = itertools.count()
        self._sent: list[Sent] = []

    def run(self, seconds: float, name: str, *requests: Request, lost: Loss | None = None) -> list[Sent]:
        """One endpoint is asked for something, or starts; then time passes. Returns what was sent by all."""
        self._sent = []
        self.stacks.setdefault(name, stack(name))
        self._turn(name, [], list(requests), lost)
        until = self.now + seconds
        while True:
            for each in self.stacks.values():
                each.commit()
            timers = {name: stack.deadline for name, stack in self.stacks.items()}
            at = min([*timers.values(), self._flying[0][0] if self._flying else math.inf])
            if at > until:
                break
            self.now = max(self.now, at)
            arrived: dict[str, list[Train]] = {}
            while self._flying and self._flying[0][0] <= self.now:
                _, _, destination, train = heapq.heappop(self._flying)
                arrived.setdefault(destination, []).append(train)
            for name, timer in timers.items():
                if timer <= self.now or name in arrived:
                    self._turn(name, arrived.get(name, []), [], lost)
        self.now = until
        return self._sent

    def _turn(self, name: str, trains: list[Train], requests: list[Request], lost: Loss | None) -> None:
        _, down = self.stacks[name].turn(self.now, trains, requests)
        for train in down:
            for data in datagrams(train):
                sent = Sent(name, data)
                self._sent.append(sent)
                if lost is None or not lost(sent):
                    self._carry(sent, train.address or None)

    def _carry(self, sent: Sent, destination: Address | None) -> None:
        for name in self.stacks:
            if name != sent.source and destination in (None, address(name)):
                train = Train(address(sent.source), sent.data, len(sent.data))
                heapq.heappush(self._flying, (self.now + DELAY, next(self._order), name, train))


def address(name: str) -> Address:
    return ("10.0.0.1", 1 + NAMES.index(name))


def datagrams(train: Train) -> Iterator[bytes]:
    data = bytes(train.data)
    return (data[at : at + train.segment] for at in range(0, len(data), train.segment))


def publication(
    topic: str, *payloads: bytes, json: bool = False, priority: int = NORMAL, **options: Any
) -> Publication:
    chosen = Options(**options) if options else PLAIN
    return Publication(topic, list(payloads), WALL_CLOCK, json, None, priority, chosen)


def of(sent: list[Sent], source: str, layer: str, kind: str) -> list[bytes]:
    """The datagrams from one source with an entry of that kind."""
    return [one.data for one in sent if one.source == source and kind in one.header.get(layer, ())]


def golden_datagrams() -> dict[str, bytes]:
    """What is kept as golden vectors, by name."""
    lan, golden = Lan(), {}
    lan.run(1, "kitchen")

    sent = lan.run(1, "hall", Subscribe(1, "home/+/temperature"), Subscribe(2, "home/+/lamp"))
    golden["announcement"] = of(sent, "hall", "discovery", "announce")[1]
    golden["answer"] = of(sent, "kitchen", "discovery", "answer")[0]

    sent = lan.run(0.2, "kitchen", publication("home/kitchen/temperature", b"\x00\x80\xfe\xff"))
    golden["data"] = of(sent, "kitchen", "transport", "data")[0]

    document = publication("home/kitchen/temperature", b'{"celsius":21.5}', json=True, type="reading", lifespan=60.0)
    sent = lan.run(0.2, "kitchen", document)
    golden["json"] = of(sent, "kitchen", "transport", "data")[0]

    golden |= fragments_and_their_acknowledgement(lan)

    several = publication("home/kitchen/temperature", b"21.5", b"21.6", b"21.7")
    sent = lan.run(1, "kitchen", several, publication("home/kitchen/lamp", b"on", b"", b"off"))
    golden["bundle"] = of(sent, "kitchen", "transport", "data")[0]

    sent = lan.run(1, "kitchen", publication("home/kitchen/lamp", b"on", retain=True))
    golden["retained"] = of(sent, "kitchen", "transport", "data")[0]

    golden |= a_conversation(lan)
    golden |= a_group_of_receivers(lan)
    golden |= more_interests_than_an_announcement_holds(lan)

    sent = lan.run(4.5, "kitchen", lost=lambda sent: sent.source == "garden")
    golden["probe"] = of(sent, "kitchen", "discovery", "probe")[0]
    golden["goodbye"] = of(lan.run(1, "hall", Leave()), "hall", "discovery", "goodbye")[0]
    golden |= parity_and_what_it_mended() | a_member_for_whom_too_much_is_kept() | what_messages_carry()
    return golden | what_travels_on_other_topics() | a_typed_topic()


def fragments_and_their_acknowledgement(lan: Lan) -> dict[str, bytes]:
    """A message in three fragments, of which the second is lost and sent again."""
    message = b"".join(b"%05d " % number for number in range(100))

    def is_lost(sent: Sent) -> bool:
        told = named(sent.header)
        return told.get("fragment", {}).get("index") == 1 and told["transport"]["attempt"] == 0

    sent = lan.run(1, "kitchen", publication("home/kitchen/temperature", message), lost=is_lost)
    first, second, third, again = of(sent, "kitchen", "transport", "data")
    return {
        "fragment-1": first,
        "fragment-2": second,
        "fragment-2-again": again,
        "fragment-3": third,
        "acknowledgement": of(sent, "hall", "transport", "ack")[0],
    }


def a_conversation(lan: Lan) -> dict[str, bytes]:
    """An answer that comes so soon that it carries the acknowledgement of the question."""
    lan.run(1, "kitchen", Subscribe(1, "home/hall/answer"))
    lan.run(0.001, "kitchen", publication("home/hall/lamp", b"on?"))
    sent = lan.run(1, "hall", publication("home/hall/answer", b"yes"))
    return {"data-with-acknowledgement": of(sent, "hall", "transport", "data")[0]}


def parity_and_what_it_mended() -> dict[str, bytes]:
    """Another LAN, where each lone frame is covered by a copy, and one frame is lost."""
    lan = Lan()
    lan.stacks["kitchen"] = stack("kitchen", parity=1.0)
    lan.run(1, "kitchen")
    lan.run(1, "hall", Subscribe(1, "home/+/temperature"))
    lan.run(1, "kitchen", publication("home/kitchen/temperature", b"21.5"))

    def is_lost(sent: Sent) -> bool:
        return b'["data",' in sent.data

    sent = lan.run(1, "kitchen", publication("home/kitchen/temperature", b"21.6"), lost=is_lost)
    return {
        "parity": of(sent, "kitchen", "transport", "parity")[0],
        "mended": of(sent, "hall", "transport", "mended")[0],
    }


def a_member_for_whom_too_much_is_kept() -> dict[str, bytes]:
    """Another LAN, where a member of a group is silent, and senders keep next to nothing for such members."""
    lan = Lan()
    lan.run(1, "kitchen")
    lan.run(1, "hall", Subscribe(1, "home/+/temperature"))
    lan.run(1, "attic", Subscribe(1, "home/+/temperature"))
    lan.run(1, "kitchen", publication("home/kitchen/temperature", b"21.5"))

    def is_lost(sent: Sent) -> bool:
        return sent.source == "attic"

    with mock.patch.object(slow_receivers, "KEPT", 100):
        for payload in (b"21.6", b"21.7", b"21.8", b"21.9"):
            lan.run(0.5, "kitchen", publication("home/kitchen/temperature", payload), lost=is_lost)
        sent = lan.run(1, "kitchen", publication("home/kitchen/temperature", b"22.0"))
    return {"skip": of(sent, "kitchen", "transport", "skip")[0]}


def what_messages_carry() -> dict[str, bytes]:
    """Another LAN, where messages have properties, and payloads in each codec; what these are is written down here."""
    lan, golden = Lan(), {}
    lan.run(1, "kitchen")
    lan.run(1, "hall", Subscribe(1, "home/#"))
    table = Metadata({"content-type": "text/csv", "größe": "klein"})
    sent = lan.run(1, "kitchen", publication("home/kitchen/table", b"a,b\n1,2\n", metadata=table))
    golden["properties"] = of(sent, "kitchen", "transport", "data")[0]
    for number, (name, payload) in enumerate(CODED.items(), 1):
        coded = publication("home/kitchen/state", payload, metadata=Metadata(None, number))
        golden[name] = of(lan.run(1, "kitchen", coded), "kitchen", "transport", "data")[0]
    lan.run(1, "attic")
    sent = lan.run(1, "attic", publication("home/attic/state", ARROW, metadata=Metadata(None, 4)))
    golden["arrow-1"], golden["arrow-2"] = of(sent, "attic", "transport", "data")
    return golden


def a_typed_topic() -> dict[str, bytes]:
    """Another LAN, where kitchen publishes values of a type, and hall asks for its schema."""
    lan, golden = Lan(), {}
    lan.run(1, "kitchen")
    lan.run(1, "hall", Subscribe(1, "home/#"))
    told = hash_of(TEMPERATURE)
    announced = Subscribe(1, type_interest("publish", "Temperature", told, "home/+/temperature"))
    kept = publication(f"$glue/schema/{told}", TEMPERATURE, json=True, retain=True)
    sent = lan.run(1, "kitchen", announced, kept)
    golden["typed"] = of(sent, "kitchen", "discovery", "announce")[0]
    sent = lan.run(1, "hall", Subscribe(2, f"$glue/schema/{told}"))
    golden["schema"] = of(sent, "kitchen", "transport", "data")[0]
    return golden


def what_travels_on_other_topics() -> dict[str, bytes]:
    """Another LAN, where hall asks for less and for a share, acknowledges that, and gets the will of a lost boiler."""
    lan, golden = Lan(), {}
    lan.run(1, "kitchen")
    lan.run(1, "hall", Subscribe(1, limited(100, "home/#")))
    golden["limited"] = of(lan.run(1, "kitchen", publication("home/a", b"1", b"2")), "kitchen", "transport", "data")[0]
    lan.run(1, "hall", Unsubscribe(1), Subscribe(1, sampled(1000, 50, "home/#")))
    golden["sample"] = of(lan.run(1, "kitchen", publication("home/a", b"3")), "kitchen", "transport", "best")[0]
    member = member_id(endpoint_id("hall"), int(WALL_CLOCK * 1000) << 10 | 1, 1)
    lan.run(1, "hall", Unsubscribe(1), Subscribe(2, interest_of("workers", member, "home/#")))
    golden["share"] = of(lan.run(1, "kitchen", publication("home/a", b"3")), "kitchen", "transport", "data")[0]
    done = Acknowledge(topic_of("workers", member, False, "home/a"), endpoint_id("kitchen"), 1, 1)
    golden["share-done"] = of(lan.run(1, "hall", done), "hall", "transport", "data")[0]
    lan.run(1, "hall", Unsubscribe(2), Subscribe(3, "home/#"))
    owner = "boiler 1", endpoint_id("boiler 1"), int(WALL_CLOCK * 1000) << 10
    will = ExecuteWill("home/boiler", b"offline", False, True, owner, 1, WALL_CLOCK)
    golden["will"] = of(lan.run(1, "kitchen", will), "kitchen", "transport", "data")[0]
    return golden | what_keepers_tell(lan)


def what_keepers_tell(lan: Lan) -> dict[str, bytes]:
    """The interests of a keeper and of a publisher with a quality of service; acknowledgements to hall."""
    golden = {}
    kept, offered = keeper_interest("home/#", 2, True), Statement(OFFER, terms_of(EVENT, 5.0), "home/+/event")
    sent = lan.run(1, "attic", Subscribe(1, kept), Subscribe(2, offered.interest))
    golden["keeper"] = next(data for data in of(sent, "attic", "discovery", "announce") if b"keeper" in data)
    topic = acknowledgement_topic(endpoint_id("hall"), int(WALL_CLOCK * 1000) << 10 | 1)
    lan.run(1, "hall", Unsubscribe(3), Subscribe(4, topic))
    for name, payload in (
        ("durable", b'{"durable":[["home/a",1,4],["home/b",1,2]]}'),
        ("durable-refused", b'{"refused":[["home/a",4,5]],"cause":"the disk is full"}'),
    ):
        told = publication(topic, payload, json=True)
        golden[name] = of(lan.run(1, "attic", told), "attic", "transport", "data")[0]
    return golden | what_consumers_say(lan)


def what_consumers_say(lan: Lan) -> dict[str, bytes]:
    """What hall, a member of a consumer, asks its home in the attic, and the messages that it is told."""
    hall, life = endpoint_id("hall"), int(WALL_CLOCK * 1000) << 10 | 1
    consumer = {"name": "billing", "pattern": "home/#", "member": f"{hall}-{life}-1"}
    lan.run(1, "attic", Subscribe(3, ask_topic(endpoint_id("attic"))))
    lan.run(1, "hall", Unsubscribe(4), Subscribe(5, tell_topic(hall, life)))
    golden = {}
    for name, head in (
        ("consumer-join", {"ask": "join", **consumer, "begin": 1, "start": ["earliest", 0], "ordered": 0}),
        ("consumer-done", {"ask": "done", **consumer, "epoch": 1, "shares": [[1, 1, 2]]}),
    ):
        asked = publication(ask_topic(endpoint_id("attic")), encode(head))
        golden[name] = of(lan.run(1, "hall", asked), "hall", "transport", "data")[0]
    shares = [[1, 0, endpoint_id("kitchen"), "kitchen", life]]
    group = MessageGroup("home/a", 7, int(WALL_CLOCK * 1e6), [b"on", b"off"], None)
    head = {"tell": "shares", **consumer, "epoch": 1, "shares": shares}
    told = publication(tell_topic(hall, life), encode(head, [group]))
    golden["consumer-shares"] = of(lan.run(1, "attic", told), "attic", "transport", "data")[0]
    return golden | what_receivers_are_told(lan)


def what_receivers_are_told(lan: Lan) -> dict[str, bytes]:
    """Two messages of hall to a lamp that the attic hosts, the second with an answer, and the attic's report."""
    host, caller = at_topic(endpoint_id("attic")), at_topic(endpoint_id("hall"))
    lan.run(1, "attic", Unsubscribe(3), Subscribe(6, host))
    lan.run(1, "hall", Unsubscribe(5), Subscribe(7, caller))
    partition = partition_of("a", 64)
    messages = [
        Entry(1, "a", b"\x01", False, 0.0, 0.0, (), None),
        Entry(2, "a", b'"get"', True, 0.0, 2.0, ("door/1",), None),
    ]
    sent = publication(host, encode_batch(1, ":lamp", partition, 64, messages))
    report = Report([1], [(2, endpoint_id("kitchen"))], [(1, [1])], [(1, Result(2, ANSWER, b"true", True))])
    told = publication(caller, encode_report(report))
    return {
        "receivers-batch": of(lan.run(1, "hall", sent), "hall", "transport", "data")[0],
        "receivers-report": of(lan.run(1, "attic", told), "attic", "transport", "data")[0],
    }


def a_group_of_receivers(lan: Lan) -> dict[str, bytes]:
    """A late joiner, and what goes to two receivers at once."""
    golden = {}
    sent = lan.run(1, "attic", Subscribe(1, "home/#"))
    golden["replay"] = of(sent, "kitchen", "transport", "data")[0]
    sent = lan.run(1, "kitchen", publication("home/kitchen/lamp", b"off"))
    golden["group-open"] = of(sent, "kitchen", "transport", "open")[0]
    golden["group-data"] = of(sent, "kitchen", "transport", "group")[0]
    sent = lan.run(1, "kitchen", publication("home/kitchen/temperature", b"21.8", reliable=False))
    golden["best-effort"] = of(sent, "kitchen", "transport", "best")[0]
    return golden


def more_interests_than_an_announcement_holds(lan: Lan) -> dict[str, bytes]:
    """The oldest interests of a newcomer are asked for."""
    patterns = [f"garden/bed-{number}/moisture" for number in range(8)]
    sent = lan.run(1, "garden", *[Subscribe(pattern, pattern) for pattern in patterns])
    return {
        "want": next(one.data for one in sent if one.source == "kitchen" and one.header["discovery"][2:4] == [0, 0]),
        "operations": of(sent, "garden", "discovery", "operations")[0],
    }
