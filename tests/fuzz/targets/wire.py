"""What comes from the network, layer by layer."""

from __future__ import annotations

import contextlib

from glue.consumers import wire as consumers
from glue.consumers.voting import Ballot, voters_of
from glue.contract import Inbound, Train
from glue.contract.heads import MalformedError
from glue.delayed import wire as delayed
from glue.discovery import exam_wire
from glue.discovery import wire as discovery
from glue.endpoint.wills import decode_wills
from glue.fragmentation import Fragmentation
from glue.history import wire as history
from glue.receivers import wire as receivers
from glue.requests import wire as requests
from glue.schema.announced import type_of_interest
from glue.security.guard import asked_by
from glue.serialization import Serialization
from glue.stack import bundle_limit
from glue.topics.bundle import MalformedBundleError, decode, decoded
from glue.topics.samples import asked_of
from glue.topics.shared.wire import decode_done, parse_interest, parse_topic
from glue.topics.wills import parse_will
from glue.topics.wrapped import interval_of, unwrapped
from glue.transport import Transport
from glue.transport import wire as transport
from glue.transport.fec import code
from tests.fuzz import seeds
from tests.fuzz.registry import joined, split, target

PEER, INCARNATION, ADDRESS = "0123456789abcdef", 1, ("10.0.0.9", 7000)


def frames(parts: list[bytes], segment: int = 0) -> list[Inbound]:
    """The frames of datagrams that come from one address, each in a train of its own, or cut at `segment` bytes."""
    layer = Serialization(endpoint_id="0" * 16, incarnation=1, network_id=1)
    trains = [Train(ADDRESS, part, segment or len(part)) for part in parts if part]
    return layer.receive(0.0, trains)[0]


def conversations() -> list[bytes]:
    """Golden datagrams, alone and together."""
    found = seeds.datagrams()
    return [*(joined([data]) for data in found), *(joined(found[at : at + 8]) for at in range(0, len(found), 8))]


@target("serialization", conversations)
def serialization(data: bytes) -> None:
    """Datagrams one by one, and the same bytes as one train of equal datagrams."""
    parts = split(data)
    frames(parts)
    whole = b"".join(parts)
    frames([whole, whole], max(1, len(parts[0]) if parts else 1))


@target("transport", conversations)
def transports(data: bytes) -> None:
    """Frames at the transport layer, and what it does a second later."""
    layer = Transport(endpoint_id="0" * 16)
    layer.fit(1200)
    received = frames(split(data))
    now = 0.0
    for frame in received:
        layer.receive(now, [frame])
        now += 0.01
    for _ in range(5):
        layer.send(now, [])
        now += 0.3
        layer.receive(now, [])


@target("transport-bodies", lambda: [b"\1" + body for body in seeds.bodies("ack", "group-open", "mended")])
def transport_bodies(data: bytes) -> None:
    """Ranges and members in the bodies of acknowledgements."""
    transport.decode_ranges(data[1:], data[0] if data else 0)
    transport.decode_members(data)


@target("parity", lambda: [bytes((4, 3)) + body for body in seeds.bodies("parity")])
def parity(data: bytes) -> None:
    """Repair symbols, decoded into frames: the number of symbols, the missing ones as bits, and the symbols."""
    if len(data) < 3:
        return
    count, missing = 1 + data[0] % 16, data[1]
    size = max(1, (len(data) - 2) // count)
    symbols: list[bytes | None] = [data[2 + at * size :][:size] for at in range(count)]
    lost = [at for at in range(min(count, 8)) if missing >> at & 1]
    for at in lost:
        symbols[at] = None
    repair = {row: data[2 + row * size :][:size].ljust(size, b"\0") for row in range(len(lost))}
    code.frame_of(data[2:])
    if lost:
        for symbol in code.decode(symbols, repair):
            code.frame_of(symbol)


@target("fragmentation", conversations)
def fragmentation(data: bytes) -> None:
    """Frames that are put together to messages, and what is left of them when their time is over."""
    layer = Fragmentation(message_limit=bundle_limit(1 << 20))
    layer.fit(1200)
    for number, frame in enumerate(frames(split(data))):
        layer.receive(number * 0.01, [frame])
    layer.receive(1000.0, [])


@target("bundle", lambda: seeds.bodies(""), MalformedBundleError)
def bundle(data: bytes) -> None:
    """A bundle of messages, and their JSON payloads."""
    for group in decode(data):
        if group.json:
            decoded(group.payloads, group.sequence)


@target("discovery", lambda: seeds.bodies("announcement", "answer", "probe", "operations"))
def discoveries(data: bytes) -> None:
    """The bodies of discovery's frames."""
    discovery.Announcement.parse(data)
    discovery.Operations.parse(data)
    discovery.Introductions.parse(data, ADDRESS)
    discovery.Introductions.parse(data, ("fe80::1%eth0", 7000, 0, 2))


def examinations() -> list[bytes]:
    """The bodies of `examine` frames."""
    found = [exam_wire.Ask(1, ("report", "links")).body, exam_wire.Round(2, 10).body, exam_wire.Pong(2, 3).body]
    found += [part.body for part in exam_wire.parts_of(1, "report", b'{"a":1}' * 300, 500)]
    return [*found, exam_wire.Ping(2, 3, 10, exam_wire.MULTICAST).body(100)]


@target("examine", examinations)
def examine(data: bytes) -> None:
    """The bodies of `examine` frames."""
    exam_wire.parse(data)


VOTERS = ("99636814c1679116", "7493b42f8521fea4")
REQUESTS = b'{"id":1,"within":500,"json":1}\n{"a":1}', b'{"id":7,"error":"E","message":"m"}\n'
WILLS = b'{"wills":[{"number":1,"topic":"a","payload":"YQ==","json":0,"retain":1,"delay":5}]}'


@target("request", lambda: REQUESTS, MalformedError)
def request(data: bytes) -> None:
    """A request, a reply and their payloads."""
    for read in (requests.decode_request, requests.decode_reply):
        try:
            head, body = read(data)
            requests.decode_body(body, head.is_json)
        except MalformedError:
            pass
    requests.answer_of(data, requests.first_id(data))


@target("consumer", lambda: [*seeds.payloads("$glue/consumer")], MalformedError)
def consumer(data: bytes) -> None:
    """What members of consumers and their homes tell each other."""
    head, _ = consumers.parse(data)
    for read in (consumers.consumer_of, consumers.member_of):
        with contextlib.suppress(MalformedError):
            read(head)
    for key in ("done", "failed", "shares"):
        with contextlib.suppress(MalformedError):
            consumers.done_entries(head, key)


@target("delayed", lambda: [*seeds.payloads("$glue/delayed/")], MalformedError)
def delayed_messages(data: bytes) -> None:
    """What keepers are told of delayed messages."""
    told = delayed.parse(data)
    for put in told.puts:
        delayed.tagged(put.group.metadata, put.id)
        if delayed.id_of_tag(put.id.tag) != put.id:
            raise AssertionError(f"{put.id} is not read back")


@target("votes", lambda: [*seeds.payloads("$glue/consumer/ask")], MalformedError)
def votes(data: bytes) -> None:
    """How keepers elect the home of a consumer."""
    head, _ = consumers.parse(data)
    ballot = Ballot("0" * 16, voters_of({"voters": ["0" * 16, *VOTERS]}, "0" * 16), 0.0)
    ballot.stand(0.0)
    for time, voter in enumerate(VOTERS):
        for asked in ("stand", "vote", "copy", "copied"):
            ballot.take(float(time), voter, asked, head)
        ballot.stored()
        ballot.advance(float(time))


@target("receivers", lambda: [*seeds.payloads(receivers.TOPIC)], MalformedError)
def receiver(data: bytes) -> None:
    """Batches to receivers, and their reports."""
    head, body = receivers.decode(data)
    with contextlib.suppress(MalformedError):
        receivers.decode_batch(head, body)
    receivers.decode_report(head, body)


def pages() -> list[bytes]:
    """Requests for history, and pages."""
    digests = ("0" * 16, "1" * 16, "2" * 16)
    bundles = seeds.bodies("bundle", "data")
    return [
        history.Request(1, "a/#", ("last", 5), room=1000).encode(),
        history.Request(2, ranges=[("a", 1, 5, 0, "", 0)]).encode(),
        history.Request(3, "a/#", digest=True, eras=(1, 5), era=2).encode(),
        history.Page(1, 2, 3, True, heads=[("a", 5, "0" * 16, 1, 1)], digests=digests).encode(),
        *(history.Page(1, 2, 3, False).encode() + body for body in bundles),
    ]  # fmt: skip


@target("history", pages, MalformedError)
def histories(data: bytes) -> None:
    """Requests for history, and pages of it."""
    with contextlib.suppress(MalformedError):
        history.decode_request(data).encode()
    history.decode_page(data)


@target("shared", lambda: seeds.payloads("$glue/share"), ValueError)
def shared(data: bytes) -> None:
    """What a member of a group is done with."""
    decode_done(data)


@target("wills", lambda: [WILLS], ValueError, KeyError, TypeError, AttributeError)
def wills(data: bytes) -> None:
    """The wills of an endpoint, as those that keep them take them."""
    decode_wills(data)


NAMES = (
    b"$glue/typed/publish/Temperature/0123abcd/a/#", b"$glue/sample/500/100/a/#", b"$glue/limited/100/a/+",
    b"$glue/share/workers/0123456789abcdef-1-2/+/a/#", b"$glue/will/0123456789abcdef/1/2/a", b"$glue/model/m/1",
)  # fmt: skip


@target("interests", lambda: NAMES)
def interests(data: bytes) -> None:
    """Names of topics and interests that stand for something else."""
    name = data.decode(errors="surrogateescape")
    for read in (type_of_interest, asked_of, parse_topic, parse_will, asked_by, interval_of):
        read(name)
    parse_interest(PEER, name)
    if name:  # as in every bundle
        unwrapped(name)
