"""Small parts of endpoints: messages, codecs, queues of publications, receipts, and when senders are stopped."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
from glue.codecs.registry import tag_of
from glue.contract import Accept, Addressed, CodedDelivery, Delivery, Missed, Options, Publication, Receipted
from glue.contract.metadata import Metadata
from glue.endpoint import coded, schemas
from glue.endpoint.coded import Decoder, metadata_of
from glue.endpoint.consumer_state import ConsumerState
from glue.endpoint.core import CHUNK, CHUNK_COUNT, STREAM_SHARE
from glue.endpoint.durability import Expectation
from glue.endpoint.message import JSON_COST, MESSAGE_COST, delivery_weight, messages, rest, weight
from glue.endpoint.publication_outbox import PublicationOutbox
from glue.endpoint.receipt import AwaitableReceipt, Receipt, WaitingReceipt
from glue.endpoint.schemas import Schemas
from glue.simulation import World
from glue.topics.wrapped import SHARED

# ---------------------------------------------------------------------------------------------------------- messages


def delivery(sequence: int, *payloads: Any, length: int | None = None, expires: float = 50.0) -> Delivery:
    return Delivery("t", [*payloads], "kind", "b", "id-b", 7, sequence, 5.0, True, ("token",), expires, length)


def test_a_message_tells_all_of_its_delivery() -> None:
    first, second = messages(delivery(5, b"x" * 100, [1, 2]))
    assert (first.topic, first.type, first.publisher, first.publisher_id) == ("t", "kind", "b", "id-b")
    assert (first.incarnation, first.published_at, first.retained, first.sequence) == (7, 5.0, True, 5)
    assert (second.sequence, second.payload, dict(second.properties)) == (6, [1, 2], {})
    assert [second.expired(now) for now in (49.9, 50.0, 50.1)] == [False, False, True]
    assert repr(first) == f"<Message t #5 from b: {b'x' * 80!r:.80}>"
    assert repr(second) == "<Message t #6 from b: [1, 2]>"


def test_a_message_tells_how_it_travelled() -> None:
    whole = delivery(5, "a", "b")
    (bare, _) = messages(whole)
    assert (bare.codec, bare.encoded, bare.redelivered) == (None, None, False)
    whole.metadata, whole.encoded = Metadata({"p": "q"}, None), [b"1", b"2"]
    found = [(one.codec, one.encoded, dict(one.properties)) for one in messages(whole)]
    assert found == [(None, b"1", {"p": "q"}), (None, b"2", {"p": "q"})]
    whole.metadata = Metadata(None, tag_of("msgpack"))
    assert [(one.codec, dict(one.properties)) for one in messages(whole)] == [("msgpack", {})] * 2
    for wrapped, is_again in ((f"{SHARED}g/1/1/t", True), (f"{SHARED}g/1/0/t", False), ("$glue/x/g/1/1/t", False)):
        whole.wrapped = wrapped
        assert [one.redelivered for one in messages(whole)] == [is_again] * 2


def test_the_rest_of_a_delivery_is_as_the_whole() -> None:
    whole = delivery(5, "a", "b", "c", length=9)
    whole.wrapped, whole.metadata, whole.encoded = "w", Metadata({"p": "q"}, None), [b"1", b"2", b"3"]
    part = rest(whole, 6)
    for name in ("topic", "type", "publisher", "publisher_id", "incarnation", "published_at", "retained", "tokens"):
        assert getattr(part, name) == getattr(whole, name)
    assert (part.sequence, part.payloads, part.encoded) == (6, ["b", "c"], [b"2", b"3"])
    assert (part.expires, part.length, part.wrapped, part.metadata) == (50.0, 9, "w", whole.metadata)
    bare = rest(delivery(5, "a"), 6)
    assert (bare.payloads, [hasattr(bare, name) for name in ("wrapped", "metadata", "encoded")]) == ([], [False] * 3)


def test_what_waits_is_estimated() -> None:
    assert (JSON_COST, MESSAGE_COST) == (512, 64)
    for one, each, whole in (
        (delivery(1, b"abc", b"de", length=9), 73, 146), (delivery(1, b"abc", b"de"), 67, 133),
        (delivery(1, [1], [2]), 512, 1024), (delivery(1), None, 0),
    ):  # fmt: skip
        assert delivery_weight(one) == whole
        if each is not None:
            assert weight(next(messages(one))) == each


# ------------------------------------------------------------------------------------------------------------ codecs


def test_properties_are_checked_and_what_glue_sets_is_left_out() -> None:
    assert metadata_of(None, 5) == Metadata(None, 5)
    found = metadata_of({"a": "b", "$delayed": "x"}, "codec")
    assert (dict(found.properties or {}), found.codec) == ({"a": "b"}, "codec")
    assert metadata_of({"$delayed": "x"}, None).properties is None
    with pytest.raises(glue.ConfigurationError, match=r"^properties=\{'a': 1\}: "):
        metadata_of({"a": 1}, None)  # type: ignore[dict-item]


class Codec:
    """A codec that encodes as the test says."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def encode(self, payload: Any) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def decode(self, data: bytes) -> Any:
        return orjson.loads(data)


def test_a_codec_gives_bytes_or_a_view_that_nobody_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def encoded(result: Any) -> Any:
        monkeypatch.setattr("glue.codecs.codec_for", lambda name: (Codec(result), 7))
        data, tag = coded.encode([1], "mine")
        assert tag == 7
        return data

    whole = b"abcdef"
    assert encoded(whole) is whole
    assert encoded(memoryview(whole)[1:3]).obj is whole
    for changing in (
        bytearray(whole),
        memoryview(bytearray(whole)),
        memoryview(whole)[::2],
        memoryview(whole).cast("H"),
    ):
        found = encoded(changing)
        assert found.__class__ is bytes
        assert found == bytes(changing)
    with pytest.raises(glue.PayloadError) as caught:
        encoded(KeyError("k"))
    assert str(caught.value) == "the codec 'mine' cannot encode a list: 'k'"
    with pytest.raises(glue.ConfigurationError, match="mine"):
        encoded(glue.ConfigurationError("mine"))
    with pytest.raises(glue.PayloadError, match="cannot encode a list"):
        encoded("no bytes")


def coded_delivery(*payloads: bytes, tag: Any = 7, length: int | None = None) -> CodedDelivery:
    found = CodedDelivery("t", [*payloads], "kind", "b", "id-b", 7, 5, 5.0, True, ("one", "two"), 50.0, length)
    found.metadata = Metadata({"p": "q"}, tag)
    return found


def test_what_cannot_be_decoded_is_a_gap_between_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.codecs.codec_of_tag", lambda tag: Codec(None))
    decoder, held = Decoder(statistics := Counter[str]()), list[Any]()
    source = coded_delivery(b"1", b"[2]", b"{", b"4", b"5")
    source.age, source.wrapped = 2.0, "w"
    first, gap, second = decoder.taken(source, held.append)
    assert isinstance(first, Delivery)
    assert isinstance(second, Delivery)
    assert (first.sequence, first.payloads, first.encoded) == (5, [1, [2]], [b"1", b"[2]"])
    assert (second.sequence, second.payloads, second.encoded) == (8, [4, 5], [b"4", b"5"])
    assert isinstance(gap, Missed)
    assert (gap.topic, gap.publisher, gap.publisher_id, gap.count, gap.tokens) == ("t", "b", "id-b", 1, ("one", "two"))
    for part in (first, second):
        assert (part.topic, part.type, part.publisher, part.incarnation, part.retained) == ("t", "kind", "b", 7, True)
        assert (part.expires, part.published_at, part.age, part.wrapped) == (50.0, 5.0, 2.0, "w")
        assert (part.length, part.metadata) == (2, source.metadata)  # 7 bytes for 5 messages
    assert held == [first, second]
    assert statistics == {
        "messages arrived": 8, f"messages missed: {gap.cause}": 2, f"messages dropped: {gap.cause}": 1,
    }  # fmt: skip
    (bare,) = decoder.opened(coded_delivery(b"1", length=9))
    assert isinstance(bare, Delivery)
    assert (bare.length, hasattr(bare, "age"), hasattr(bare, "wrapped")) == (9, False, False)


def test_an_unknown_codec_is_logged_once_and_not_for_ever(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    def unknown(tag: Any) -> Any:
        raise glue.ConfigurationError("no such codec") if tag == 0 else ImportError("broken")

    monkeypatch.setattr("glue.codecs.codec_of_tag", unknown)
    decoder = Decoder(statistics := Counter[str]())
    for tag in (0, 0, *range(1, 400)):
        (gap,) = decoder.opened(coded_delivery(b"1", b"2", tag=tag))
        assert isinstance(gap, Missed)
        assert (gap.count, statistics[f"messages dropped: {gap.cause}"]) == (2, statistics.total())
    assert statistics.total() == 2 * 401
    told = [record.getMessage() for record in caplog.records]
    assert told[:2] == [
        "messages on 't' from b are dropped: no such codec", "messages on 't' from b are dropped: ImportError: broken",
    ]  # fmt: skip
    assert (len(told), coded.TOLD) == (256, 256)


# ----------------------------------------------------------------------------------------------------- publications


def publication(topic: str = "t", *payloads: bytes, **fields: Any) -> Publication:
    given = [*(payloads or (b"abc",))]
    length = fields.get("length", len(given[0]))
    found = Publication(topic, given, 5.0, fields.get("json", False), length, fields.get("priority", 2))
    if "options" in fields:
        found.options = fields["options"]
    return found


def test_publications_that_are_alike_leave_as_one() -> None:
    outbox = PublicationOutbox()
    outbox.add(publication(), publication("t", b"def", b"ghi"))
    assert outbox.size == 3 * (3 + MESSAGE_COST)
    (one,) = outbox.take()
    assert isinstance(one, Publication)
    assert (one.payloads, one.length) == ([b"abc", b"def", b"ghi"], 3)
    assert (outbox.size, outbox.requests, outbox.take()) == (0, [], [])
    outbox.add(publication(), publication("t", b"defg"))
    (one,) = outbox.take()
    assert isinstance(one, Publication)
    assert (one.payloads, one.length) == ([b"abc", b"defg"], None)
    for other in (
        publication("u"), publication(json=True), publication(priority=1), publication(options=Options(retain=True)),
    ):  # fmt: skip
        outbox.add(publication(), other)
        assert len(outbox.take()) == 2
    outbox.add(publication(options=Options(retain=True)), publication(options=Options(retain=True)))
    assert len(outbox.take()) == 1
    outbox.add(publication())
    outbox.order("request")  # type: ignore[arg-type]
    outbox.add(publication())
    assert len(outbox.take()) == 3
    outbox.add(publication())
    assert len(outbox.take()) == 1


def test_a_stream_is_taken_in_pieces_that_grow() -> None:
    core = World().endpoint("a", queue_limit=8 << 20)._core
    assert core.chunk_count(1, []) == 2
    assert core.chunk_count(600, []) == CHUNK_COUNT
    assert core.chunk_count(100, [publication("t", bytes(CHUNK))]) == 99
    assert core.chunk_count(100, [publication("t", bytes(CHUNK // 2)), publication("t", bytes(CHUNK // 2))]) == 99
    assert core.chunk_count(1, [publication("t", bytes(8 << 20))]) == 1
    small = World().endpoint("a", queue_limit=400_000)._core
    assert small.chunk_count(100, [publication("t", bytes(400_000))]) == 100 // STREAM_SHARE - 1


def test_senders_are_stopped_while_too_much_waits_and_until_half_is_handled() -> None:
    core = World().endpoint("a", receive_limit=1000)._core
    core.outbox.take()
    one = delivery(1, bytes(500 - MESSAGE_COST), length=500 - MESSAGE_COST)
    core.hold(one)
    core.hold(one)
    assert (core.waiting, core.outbox.requests) == (1000, [])
    core.keep(one)
    (stop,) = core.outbox.take()
    assert isinstance(stop, Accept)
    assert (stop.accepting, core.statistics["senders stopped"]) == (False, 1)
    core.handled(one)
    assert core.outbox.requests == []
    core.handled(one)
    (go,) = core.outbox.take()
    assert isinstance(go, Accept)
    assert (go.accepting, core.statistics["senders released"], core.waiting) == (True, 1, 500)


def test_an_endpoint_is_overfed_by_its_own_messages_alone() -> None:
    endpoint = World().endpoint("a", receive_limit=1000)
    core: Any = endpoint._core
    foreign = delivery(1, bytes(1000), length=1000)
    own = Delivery("t", [b""], None, "a", endpoint.id, 7, 1, 0.0, False, ("one", "two"), length=500 - MESSAGE_COST)
    core.hold(foreign)
    core.hold(own)
    assert not core.overfed
    core.hold(own)
    assert core.overfed
    assert not core.handled(foreign)
    assert core.overfed
    assert not core.handled(own)
    assert core.handled(own)
    assert not core.overfed
    assert not core.handled(own)
    words = str(core.would_block(5))
    assert "5 " in words
    assert f"{core.waiting} to be handled here, with receive_limit=1000" in words


# ---------------------------------------------------------------------------------------------------------- receipts


def test_a_receipt_tells_what_became_of_its_message() -> None:
    receipt = Receipt()
    peers: Any = {"id-b": SimpleNamespace(name="b"), "id-c": SimpleNamespace(name="c")}
    receipt.note(Receipted(receipt, "id-b", ""), peers)
    assert (receipt.complete, bool(receipt), receipt.pending, receipt.messages) == (False, False, [], 1)
    receipt.note(Addressed(receipt, ["id-b", "id-c", "id-d"], 5), peers)
    assert receipt.pending == ["b", "c", "id-d"]
    receipt.note(Receipted(receipt, "id-c", ""), peers)
    receipt.note(Receipted(receipt, "id-c", "peer removed"), peers)
    receipt.note(Receipted(receipt, "id-x", ""), peers)
    assert (receipt.delivered, receipt.lost, receipt.complete, bool(receipt)) == (["c"], {}, False, False)
    receipt.note(Receipted(receipt, "id-b", ""), peers)
    assert repr(receipt) == "<Receipt delivered ['c', 'b'], pending ['id-d'], lost {}>"
    receipt.note(Receipted(receipt, "id-d", "expired"), peers)
    assert (receipt.lost, receipt.complete, bool(receipt)) == ({"id-d": "expired"}, True, False)
    assert (receipt.durable, receipt.failure) == ([], "")
    nobody = Receipt()
    nobody.note(Addressed(nobody, [], 5), peers)
    assert (nobody.complete, bool(nobody)) == (True, False)
    all_have_it = Receipt()
    all_have_it.note(Addressed(all_have_it, ["id-b"], 5), peers)
    all_have_it.note(Receipted(all_have_it, "id-b", ""), peers)
    assert all_have_it


def test_a_receipt_with_acks_tells_of_keepers() -> None:
    expectation = Expectation("t", 3, "disk", lambda: None)
    receipt = Receipt(expectation)
    assert (receipt.complete, bool(receipt), receipt.messages, receipt.durable) == (False, False, 3, [])
    expectation.needed, expectation.keepers = 1, {"id-b": "b"}
    assert (receipt.complete, bool(receipt), receipt.durable) == (True, True, ["b"])
    expectation.keepers, expectation.reason = {}, "full"
    assert (receipt.complete, bool(receipt), receipt.failure) == (True, False, "full")


def test_a_receipt_is_waited_for() -> None:
    asked: list[Any] = []
    peers: Any = {}

    def until(condition: Any, timeout: float | None) -> bool:
        asked.append((condition(), timeout))
        receipt.note(Receipted(receipt, "id-b", ""), peers)
        return bool(condition())

    receipt: Any = WaitingReceipt(until)
    receipt.note(Addressed(receipt, ["id-b"], 5), peers)
    assert receipt.wait(2.5) is True
    assert asked == [(False, 2.5)]
    expectation = Expectation("t", 1, "disk", lambda: None)
    waited: list[Any] = []
    there: Any = "event"

    def wait_for(event: Any, timeout: float | None) -> bool:
        waited.append((event, timeout))
        return False

    kept = WaitingReceipt(until, expectation, there, wait_for)
    assert kept.wait(1.5) is False
    expectation.reason = "full"
    assert kept.wait(1.5) is False
    assert waited == [("event", 1.5)]
    assert len(asked) == 1

    async def main() -> None:
        async def later(condition: Any, timeout: float | None) -> bool:
            return until(condition, timeout)

        nonlocal receipt
        for is_timed in (True, False):
            receipt = AwaitableReceipt(later)
            receipt.note(Addressed(receipt, ["id-b"], 5), peers)
            assert await (receipt.wait(2.5) if is_timed else receipt) is True

    asyncio.run(main())
    assert asked[1:] == [(False, 2.5), (False, None)]


# --------------------------------------------------------------------------------------------------- other small parts


def test_schemas_are_remembered_if_they_are_what_their_hash_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from glue import schema

    counted: Counter[str] = Counter()
    owner: Any = SimpleNamespace(
        settled=lambda outcome, count: counted.update({outcome: count}), handled=lambda delivery: counted.update(done=1)
    )
    types: Any = SimpleNamespace(directory=[])
    found = Schemas(types, owner, True)

    def give(hash: str, *payloads: Any) -> None:
        found._deliver(Delivery(f"$glue/schema/{hash}", [*payloads], None, "b", "id-b", 1, 1, 0.0, True, ()))

    one, two = {"type": "string"}, {"type": "integer"}
    hashes = [schema.hash_of(orjson.dumps(each, option=orjson.OPT_SORT_KEYS)) for each in (one, two)]
    assert schemas.DOCUMENTS == 4096
    monkeypatch.setattr(schemas, "DOCUMENTS", 1)
    give(hashes[1], b"bytes", one)
    give(hashes[0], one)
    give(hashes[1], two)
    assert [found.find(hash) for hash in hashes] == [orjson.dumps(one), None]
    assert counted == {"handled": 4, "done": 3}


def test_states_of_consumers_are_told_with_names_and_in_order() -> None:
    endpoint = World().endpoint("me")
    told = {
        "name": "c", "pattern": "t", "keeper": "idb", "lag": 5, "members": [f"{endpoint.id}-1", "idc-2"],
        "failures": 1, "still": 2.5, "stuck": True, "oldest": ["t/1", 9.0],
    }  # fmt: skip
    other = {**told, "name": "a", "oldest": None, "members": []}
    states = endpoint._states({"id-b": {"consumers": [told, other]}, "id-c": {}})
    assert [state.name for state in states] == ["a", "c"]
    assert states[0] == ConsumerState("a", "t", "idb", 5, (), 1, 2.5, True, "", 0.0)
    assert states[1] == ConsumerState("c", "t", "idb", 5, ("me", "idc"), 1, 2.5, True, "t/1", 9.0)
    wrong: list[Any] = [5, [5], [{}], [{**told, "members": [5]}], [{**told, "oldest": 5}], [{**told, "lag": "x"}]]
    nonsense = {str(number): {"consumers": one} for number, one in enumerate(wrong)}
    assert len(endpoint._states({**nonsense, "id-b": {"consumers": [told]}})) == 1
    assert endpoint._core.statistics["malformed messages from the home of a consumer"] == len(wrong)
