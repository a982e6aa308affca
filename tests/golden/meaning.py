"""What datagrams mean, told by the layers that receive them: each field by its name, each message on its own.

The same is told by the decoder in another language (`tests/node/decode.mjs`), which shares nothing with this one.
"""

from __future__ import annotations

from typing import Any

import orjson

from glue.capture.entries import named
from glue.codecs import codec_of_tag, name_of_tag
from glue.contract import Inbound, Train
from glue.discovery.wire import GOODBYE, PATH, WANT
from glue.fragmentation import Fragmentation
from glue.receivers import wire as receivers
from glue.serialization import Serialization
from glue.topics.bundle import MessageGroup, decode
from glue.transport.fec.code import frame_of
from glue.transport.waking import decode_ends
from glue.transport.wire import decode_members, decode_ranges

WITHOUT_DOCUMENT = (WANT, GOODBYE, PATH)


def meaning(datagrams: dict[str, bytes]) -> list[dict[str, Any]]:
    """What these datagrams mean, by name in alphabetical order; a message is told with its last fragment."""
    reader = Serialization(endpoint_id="0" * 16, incarnation=1, network_id=1)
    fragmentation = Fragmentation()
    told = []
    for name, data in sorted(datagrams.items()):
        (frame,), _ = reader.receive(0.0, [Train(None, data, len(data))])
        entry: dict[str, Any] = {"name": name, **named(frame.header), "body": frame.bodies[0].hex()}
        entry |= content(frame, fragmentation)
        told.append(entry)
    return told


def content(frame: Inbound, fragmentation: Fragmentation) -> dict[str, Any]:
    """What the body holds."""
    (body,) = frame.bodies
    if "discovery" in frame.header:
        if frame.header["discovery"][-1] in WITHOUT_DOCUMENT:
            return {}
        head, has_part, part = body.partition(b"\n")  # only an answer to a question has one
        return {"document": orjson.loads(head)} | ({"part": part.decode()} if has_part else {})
    told = named(frame.header)["transport"]
    kind = told["kind"]
    if kind in ("skip", "wake"):
        return {}
    if kind == "waited":
        return {"ends": decode_ends(body)}
    if kind == "open":
        return {"members": decode_members(body)}
    if kind == "parity":  # of a single frame, which it is a copy of
        return {"copies": [{"header": header, "body": body.hex()} for header, body in filter(None, [frame_of(body)])]}
    if kind in ("ack", "mended"):
        return {"ranges": [list(pair) for pair in decode_ranges(body, told["next"]) or ()]}
    whole, _ = fragmentation.receive(0.0, [frame])
    bodies = [body for item in whole if isinstance(item, Inbound) for body in item.bodies]
    return {"messages": [message for body in bodies for group in decode(body) for message in messages(group)]}


def value(group: MessageGroup, payload: bytes) -> dict[str, Any]:
    """A payload, and what it means."""
    if group.topic.startswith(receivers.TOPIC):
        return of_receivers(*receivers.decode(payload))
    codec = group.metadata and group.metadata.codec
    if codec:
        found = codec_of_tag(codec).decode(payload)
        name = name_of_tag(codec)
        if name == "arrow":
            found = found.to_pydict()
        return {name: shown(found.tolist() if name == "numpy" else found)}
    return {"json": orjson.loads(payload)} if group.json else {"hex": payload.hex()}


def of_receivers(head: dict[str, Any], body: bytes) -> dict[str, Any]:
    """What a batch of messages to receivers means, or a report."""
    if "batch" not in head:
        report = receivers.decode_report(head, body)
        results = [
            {"batch": number, "seq": one.seq, "status": one.status, "payload": payload(one.body, one.is_json)}
            for number, one in report.results
        ]
        done = [[number] if seqs is None else [number, seqs] for number, seqs in report.done]
        return {"report": {"taken": report.taken, "moved": report.moved, "done": done, "results": results}}
    batch = receivers.decode_batch(head, body)
    told = []
    for index, (seq, id, found) in enumerate(zip(batch.seqs, batch.ids, batch.payloads, strict=True)):
        within, path = batch.asks.get(index, (0, ()))
        told.append({"seq": seq, "id": id, "within": within, "path": list(path)})
        told[-1]["payload"] = {"hex": found.hex()} if isinstance(found, bytes) else {"json": found}
    where = {"kind": batch.kind, "partition": batch.partition, "partitions": batch.partitions}
    return {"batch": {"number": batch.number, **where, "messages": told}}


def payload(body: bytes, is_json: bool) -> dict[str, Any]:
    """An answer of a receiver."""
    return {"json": orjson.loads(body)} if is_json else {"hex": body.hex()}


def shown(found: Any) -> Any:
    """A value with bytes as hex, since JSON has none."""
    if isinstance(found, dict):
        return {key: shown(one) for key, one in found.items()}
    if isinstance(found, list):
        return [shown(one) for one in found]
    return {"hex": found.hex()} if isinstance(found, bytes) else found


def messages(group: MessageGroup) -> list[dict[str, Any]]:
    return [
        {
            "topic": group.topic,
            "sequence": sequence,
            "at": group.at,
            "type": group.type,
            "retain": group.retain,
            "lifespan": group.lifespan_ms,
            "properties": dict(group.metadata.properties or {}) if group.metadata else {},
            "payload": value(group, payload),
        }
        for sequence, payload in enumerate(group.payloads, group.sequence)
    ]
