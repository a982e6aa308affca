"""Schemas of the tables that a capture becomes, with units. This is the only place that defines them.

A column is declared once, by its Spark type. Spark's schema, the schema of the readers' Arrow batches and the tables of
docs/traces.md follow from the declaration. Integers are signed, because Spark has no unsigned ones, and integers on the
wire are below 2^53. Times are nanoseconds since 1970 as `long`, because timestamps only have microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """A column: the name, the Spark type in SQL, and the meaning with units."""

    name: str
    type: str
    meaning: str


TOPIC_GROUP = (
    "struct<topic:string,sequence:bigint,count:bigint,bytes:bigint,at_us:bigint,type:string,json:boolean,"
    "retain:bigint,lifespan_ms:bigint>"
)

CONSENSUS = (
    "struct<model:string,group:string,kind:string,term:bigint,pre:boolean,previous_index:bigint,entries:bigint,"
    "commit_index:bigint>"
)

FRAMES = (
    # Place and time of the capture. (file, offset, part) identifies a row and sorts as the file does.
    Column("capture_point", "string", "where it was captured: the name given to the recorder, else the file's name"),
    Column("file", "string", "the file, as it was given or found"),
    Column("offset", "bigint", "bytes before the captured frame's record in the file (uncompressed)"),
    Column("part", "int", "place among the datagrams of one captured frame: above 0 only where the kernel joined them"),
    Column("time_ns", "bigint", "when it was captured: nanoseconds since 1970 by the capture point's clock"),
    Column("direction", "string", "'in' or 'out' as seen by the host or endpoint that captured it; null if not told"),
    # Addresses.
    Column("source", "string", "IP address of the sender"),
    Column("source_port", "int", "UDP port of the sender"),
    Column("destination", "string", "IP address it was sent to; null if not told, as for what a tap received"),
    Column("destination_port", "int", "UDP port it was sent to"),
    Column("multicast", "boolean", "whether the destination is a multicast group; null if not told"),
    # Sizes, in bytes.
    Column("size", "int", "bytes of the datagram: UDP payload, as on the wire"),
    Column("header_size", "int", "bytes of glue's header, the newline included"),
    Column("body_size", "int", "bytes after the header, as on the wire"),
    Column("overhead", "int", "bytes of link, IP and UDP headers before the datagram"),
    Column("truncated", "boolean", "whether the capture holds less than the whole datagram"),
    # `glue` of the header.
    Column("network", "int", "network id"),
    Column("sender", "string", "endpoint id of the sender: 16 hex digits"),
    Column("incarnation", "bigint", "life of the sender"),
    Column("counter", "bigint", "numbers all datagrams of this life, from 0; a gap is a loss"),
    # What it is.
    Column(
        "kind",
        "string",
        "transport: data, group, open, skip, ack, best, parity, mended; discovery: announce, answer, probe, want, "
        "operations, goodbye; as it stands in the header also if unknown; null without either entry",
    ),
    # `transport`.
    Column("channel", "bigint", "channel of data, group, open, skip and parity; the sender's, unique within its life"),
    Column(
        "sequence",
        "bigint",
        "place in the channel (data, group; parity: of the first frame covered; skip: that goes on after a gap), or "
        "among the best-effort frames (best)",
    ),
    Column("attempt", "bigint", "0 at first, counts resends (data, group)"),
    Column(
        "age_ms",
        "bigint",
        "milliseconds since the message was handed to the sender's transport (data, group, best, parity)",
    ),
    Column(
        "ack_channel",
        "bigint",
        "acknowledged channel, one of the endpoint it is sent to (ack, mended, or carried by data)",
    ),
    Column("ack_next", "bigint", "every frame of ack_channel below this has arrived"),
    Column("ack_held_us", "bigint", "microseconds since the newest acknowledged frame arrived; 99,999 for more"),
    Column("ack_window", "bigint", "frames beyond ack_next that the receiver takes"),
    Column("ack_ranges", "array<bigint>", "further arrivals: start, stop, start, stop, ... half-open, as sequences"),
    Column("members", "array<string>", "endpoint ids that a group is opened for (open)"),
    # `fragment`.
    Column("fragment_message", "bigint", "number of the message this is a part of; null for a whole message"),
    Column("fragment_size", "bigint", "bytes of each fragment but the last"),
    Column("fragment_total", "bigint", "bytes of the whole message"),
    Column("fragment_index", "bigint", "place in the message, from 0"),
    # `discovery`.
    Column("token", "bigint", "random number for the receiver, 0 for none"),
    Column("echo", "bigint", "the last token from the receiver, 0 for none"),
    Column("called", "string", "endpoint id that is to answer (probe)"),
    Column("name", "string", "announced name of the endpoint (announce, answer, probe)"),
    Column("interval_ms", "bigint", "announced interval, milliseconds; the lease is five of them"),
    Column("interest_epoch", "bigint", "epoch of the sender's interests (announce, answer, probe, operations)"),
    Column("interest_version", "bigint", "version of the sender's interests (announce, answer, probe)"),
    Column("operations", "array<string>", "operations on interests: +pattern, -pattern"),
    # The index of a bundle, in the frame where it is complete: a message in one frame, the first fragment, or a later
    # one.
    Column(
        "topics",
        f"array<{TOPIC_GROUP}>",
        "messages by topic: the first one's sequence, count, bytes of all payloads, publisher's clock "
        "(microseconds since 1970), type, json, retain (0: not), lifespan_ms (null: none)",
    ),
    Column(
        "consensus",
        f"array<{CONSENSUS}>",
        "what a model's leader appends and candidates ask: kind append or vote?; pre: whether a vote was only asked "
        "about (vote?); previous_index, entries, commit_index of an append; null without any",
    ),
)
"""`frames`: one row for each glue datagram at each capture point."""

DATAGRAM = Column("datagram", "binary", "the datagram itself, as far as captured; only read when asked for by name")

FILES = (
    Column("file", "string", "the file"),
    Column("start", "bigint", "byte of the file at which this partition starts"),
    Column("records", "bigint", "captured frames in it, of whatever program"),
    Column("datagrams", "bigint", "glue's datagrams in it: rows of frames"),
    Column("skipped", "map<string,bigint>", "captured frames that are not glue's, by cause"),
    Column("bytes", "bigint", "bytes read"),
    Column("unread", "bigint", "bytes of this part that could not be read; null without a fault, or if unknown"),
    Column("faults", "bigint", "places at which it could not be read on"),
    Column("fault", "string", "why not, at the first of them; null without one"),
    Column("fault_offset", "bigint", "byte of the file at which the first fault is"),
    Column("dropped", "bigint", "frames that the capturing system says it dropped; null if it does not say"),
    Column("first_ns", "bigint", "time of the earliest frame, nanoseconds since 1970"),
    Column("last_ns", "bigint", "time of the latest frame"),
)
"""`files`: what was read and the faults, one row for each partition of a file."""

_SHARED = {column.name: column for column in FRAMES}

SEALED = (
    *(
        _SHARED[name]
        for name in (
            "capture_point", "file", "offset", "part", "time_ns", "direction", "source", "source_port", "destination",
            "destination_port", "size", "network",
        )
    ),
    Column("epoch", "int", "id of the epoch of the key"),
    Column("life", "string", "random bytes of the sender's life (salt): 32 hex digits"),
    Column("kind", "string", "unicast or multicast, as its number says"),
    Column("number", "bigint", "numbers the datagrams of this kind and life, from 0, whatever their destination"),
)  # fmt: skip
"""`sealed`: one row for each sealed datagram at each capture point, with what is in the open and not authenticated."""

DATA_KINDS = ("data", "group")
"""Kinds that are acknowledged and resent."""

_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "array<bigint>": pa.list_(pa.int64()),
    "array<string>": pa.list_(pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
}


def ddl(columns: Iterable[Column]) -> str:
    """Return the columns as a schema in Spark's SQL."""
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def arrow_type(type: str) -> pa.DataType:
    """Return the Arrow type that Spark reads as this SQL type."""
    if type.startswith("array<struct<"):
        fields = (field.split(":") for field in type.removeprefix("array<struct<").removesuffix(">>").split(","))
        return pa.list_(pa.struct([pa.field(name, _ARROW[inner]) for name, inner in fields]))
    return _ARROW[type]


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the columns as an Arrow schema, all nullable."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


def frames_columns(names: Sequence[str] | None = None) -> tuple[Column, ...]:
    """Return the columns of `frames` with these names, in their order. None means all except the datagram itself.

    Raises ValueError for a name that is not in `frames`.
    """
    if names is None:
        return FRAMES
    known = {column.name: column for column in (*FRAMES, DATAGRAM)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"frames has no column {', '.join(unknown)}; it has {', '.join(known)}")
    return tuple(known[name] for name in names)
