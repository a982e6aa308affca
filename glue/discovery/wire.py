"""Discovery's frames: their encoding, and the checks of received frames.

The header has the kind of the frame and the tokens that prove addresses. In its entry (`ENTRIES`) the kind stands
last, so that the list never ends in an integer and all frames of a run have the same header. The body has the sender's
identity and interests: a JSON object for all receivers, and therefore encoded once.

    kind         body               meaning
    announce     announcement       by multicast: the sender is present; new receivers answer
    call         announcement       by unicast: an announcement for a peer that multicast may not reach
    answer       announcement       the sender is present; no reply is expected
    probe        announcement       a silent peer, or a peer without proof of address, must answer
    want         (empty)            asks for interest operations from `version` of `epoch` on
    operations   interest log       a part of the operations
    introduce    addresses          the addresses of other endpoints
    examine      see `exam_wire`    a question of an operator's tool, an answer to it, or a ping
    goodbye      (empty)            the sender leaves
    path         (empty), `1`, `2`  a question on one path, or the answer to one

A probe has a further field before the kind: the id of the endpoint that must answer. In the same place,
announcements, calls and answers may have a digest of the sender's known peers. An answer just reports the digest. An
announcement with a digest asks receivers with another digest to answer again. A call with a digest asks for
introductions. Any frame but a goodbye may carry a want beside its own meaning; without a want, epoch and version are
null. `token` is a number that the sender chose for this receiver. `echo` is the last token from the receiver. A
missing token or echo is 0. An endpoint that returns a token receives at its source address. A path with a token asks to
return the token at once, to its source address. `1` says that the sender's data takes this path; `2` asks to return the
token to all known addresses of the sender, as proof that the address asked is the receiver's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from glue.contract import Address, Header, Outbound
from glue.contract.header import Field, HeaderEntry, Text
from glue.discovery.interests import MAX_PATTERN, InterestLog

KEY = "discovery"

ANNOUNCE = "announce"
CALL = "call"
ANSWER = "answer"
PROBE = "probe"
WANT = "want"
OPERATIONS = "operations"
INTRODUCE = "introduce"
EXAMINE = "examine"
GOODBYE = "goodbye"
PATH = "path"
PREFERRED, PROVE = b"1", b"2"  # bodies: the sender's data takes this path; return the token on all paths
KNOWING = ANNOUNCE, CALL, ANSWER  # what may have a digest

TOKEN_BITS = 31
MAX_INTEGER = 1 << 53  # the largest integer that every JSON reader keeps exactly
MAX_ID = 16  # hex digits

_COMMON = (
    Field("token", most=(1 << TOKEN_BITS) - 1),
    Field("echo", most=(1 << TOKEN_BITS) - 1),
    Field("epoch", default=None),
    Field("version", default=None),
)
_MORE: dict[str, list[Field]] = {
    PROBE: [Text("called", MAX_ID, None, optional=True)],
    **{kind: [Field("known", default=None, optional=True)] for kind in KNOWING},
}
KINDS = ANNOUNCE, CALL, ANSWER, PROBE, WANT, OPERATIONS, INTRODUCE, EXAMINE, GOODBYE, PATH
ENTRIES = {kind: HeaderEntry(KEY, kind, *_COMMON, *_MORE.get(kind, []), kind_last=True, lone=True) for kind in KINDS}

_LEAST = len(_COMMON) + 1  # fields of any entry
_common = ENTRIES[WANT].getter("token", "echo", "epoch", "version")
_CALLED, _KNOWN = ENTRIES[PROBE].place("called"), ENTRIES[ANNOUNCE].place("known")

MAX_NAME = 255  # bytes of UTF-8, as in the settings
_OPERATIONS_KEY = b',"operations":['
_OPERATIONS_ROOM = 96  # bytes of a frame beside its operations: keys, punctuation and 2 numbers of 16 digits are 80


class Envelope:
    """A frame's header. `want` is (epoch, version), `called` the id of the probed endpoint, `known` a digest of the
    sender's known peers; each may be None."""

    __slots__ = ("called", "echo", "kind", "known", "token", "want")

    def __init__(
        self,
        kind: str,
        token: int = 0,
        echo: int = 0,
        want: tuple[int, int] | None = None,
        called: str | None = None,
        known: int | None = None,
    ) -> None:
        self.kind = kind
        self.token = token
        self.echo = echo
        self.want = want
        self.called = called
        self.known = known

    def header(self) -> Header:
        """As a new header."""
        epoch, version = self.want or (None, None)
        fields = ("token", self.token), ("echo", self.echo), ("epoch", epoch), ("version", version)
        more = ("called", self.called), ("known", self.known)
        return {KEY: ENTRIES[self.kind].pack(**{name: value for name, value in (*fields, *more) if value is not None})}

    @classmethod
    def parse(cls, fields: Any) -> Envelope | None:
        """From a header's list; None if it is malformed. Fields that a later version adds may precede the kind."""
        if type(fields) is not list or len(fields) < _LEAST:
            return None
        token, echo, epoch, version = _common(fields)
        kind = fields[-1]
        called = fields[_CALLED] if kind == PROBE else None
        known = fields[_KNOWN] if kind in KNOWING and _is_count(fields[_KNOWN]) else None
        if type(kind) is not str or not (_is_count(token) and _is_count(echo)):
            return None
        if epoch is None and version is None:
            return cls(kind, token, echo, None, called, known)
        if _is_count(epoch) and _is_count(version):
            return cls(kind, token, echo, (epoch, version), called, known)
        return None


def frame(peers: tuple[str, ...], address: Address | None, envelope: Envelope, body: bytes = b"") -> Outbound:
    """One frame of discovery on its way down."""
    return Outbound(peers, [body], envelope.header(), reliable=False, address=address)


class Announcement:
    """An announcement: the sender's name and the newest `operations` of its interest log (see `interests`).

    `interval` is in seconds as announced, not yet clamped. `version` is the number of operations in `epoch` so far.
    The first `base` operations sum up the previous epoch at its version `previous`.

    A sender that is awake for moments only gives `rest`, the seconds that it may stay asleep, and `asleep`, how often
    it fell asleep or woke up so far: an odd number while it is asleep. Both are 0 for any other sender.
    """

    __slots__ = ("asleep", "base", "epoch", "interval", "name", "operations", "previous", "rest", "version")

    def __init__(
        self,
        name: str,
        interval: float,
        epoch: int,
        version: int,
        previous: int,
        base: int,
        operations: list[str],
        rest: int = 0,
        asleep: int = 0,
    ) -> None:
        self.name = name
        self.interval = interval
        self.epoch = epoch
        self.version = version
        self.previous = previous
        self.base = base
        self.operations = operations
        self.rest = rest
        self.asleep = asleep

    @staticmethod
    def encode(
        name: str, interval: float, log: InterestLog, size: int, rest: int = 0, asleep: int = 0
    ) -> tuple[bytes, int]:
        """A body with as many of the log's newest operations as fit in `size` bytes, and the version of their first."""
        start = {
            "name": name,
            "interval_ms": round(interval * 1000),
            "epoch": log.epoch,
            "version": log.version,
            "previous": log.previous,
            "base": log.base,
            **({"rest": rest, "asleep": asleep} if rest else {}),
        }
        head = orjson.dumps(start)[:-1]
        newest = log.newest(size - len(head) - len(_OPERATIONS_KEY) - len("]}"))
        return _with_operations(head, newest), log.version - len(newest)

    @classmethod
    def parse(cls, body: bytes) -> Announcement | None:
        """From a body; None if it is malformed. Unknown keys are ignored."""
        value = _object(body)
        if value is None:
            return None
        name, operations = value.get("name"), value.get("operations")
        numbers = [value.get(key) for key in ("interval_ms", "epoch", "version", "previous", "base")]
        numbers += [value.get(key, 0) for key in ("rest", "asleep")]
        if not (all(map(_is_count, numbers)) and _is_name(name) and _are_operations(operations)):
            return None
        interval_ms, epoch, version, previous, base, rest, asleep = numbers
        if base > version or len(operations) > version:
            return None
        return cls(name, interval_ms / 1000, epoch, version, previous, base, operations, rest, asleep)


class Operations:
    """A stretch of an interest log: `operations` of `epoch` from version `first` on, and whether more follow."""

    __slots__ = ("epoch", "first", "last", "operations")

    def __init__(self, epoch: int, first: int, last: bool, operations: list[str]) -> None:
        self.epoch = epoch
        self.first = first
        self.last = last
        self.operations = operations

    @staticmethod
    def encode(log: InterestLog, first: int, size: int, limit: int) -> list[bytes]:
        """At most `limit` bodies of at most `size` bytes: what the log holds from version `first` on."""
        return [
            _with_operations(orjson.dumps({"epoch": log.epoch, "first": first, "last": last})[:-1], operations)
            for first, operations, last in log.frames(first, size - _OPERATIONS_ROOM, limit)
        ]

    @classmethod
    def parse(cls, body: bytes) -> Operations | None:
        """From a body; None if it is malformed. Unknown keys are ignored."""
        value = _object(body)
        if value is None:
            return None
        epoch, first, last = value.get("epoch"), value.get("first"), value.get("last")
        operations = value.get("operations")
        if not (_is_count(epoch) and _is_count(first) and type(last) is bool and _are_operations(operations)):
            return None
        return cls(epoch, first, last, operations)


class Introductions:
    """Ids and addresses of endpoints that the receiver does not know yet."""

    @staticmethod
    def encode(peers: Iterable[tuple[str, Address]], size: int, limit: int) -> list[bytes]:
        """At most `limit` bodies of at most `size` bytes: as many of these as fit."""
        head, tail = b'{"peers":[', b"]}"
        bodies: list[bytes] = []
        entries: list[bytes] = []
        room = size - len(head) - len(tail)
        for id, address in peers:
            entry = orjson.dumps([id, address[0].partition("%")[0], address[1]])
            if len(entry) > room:
                bodies.append(head + b",".join(entries) + tail)
                if len(bodies) == limit:
                    return bodies
                entries, room = [], size - len(head) - len(tail)
            entries.append(entry)
            room -= len(entry) + 1
        if entries:
            bodies.append(head + b",".join(entries) + tail)
        return bodies

    @classmethod
    def parse(cls, body: bytes, introducer: Address) -> list[tuple[str, Address]] | None:
        """Ids and addresses, those that may be called from where the introducer is; None if it is malformed."""
        value = _object(body)
        peers = None if value is None else value.get("peers")
        if type(peers) is not list:
            return None
        parsed = []
        for entry in peers:
            if type(entry) is not list or len(entry) < 3 or type(entry[0]) is not str or len(entry[0]) > MAX_ID:
                return None
            address = _callable_address(entry[1], entry[2], introducer)
            if address is not None:
                parsed.append((entry[0], address))
        return parsed


def _callable_address(host: Any, port: Any, introducer: Address) -> Address | None:
    """As `socket` spells it; None for what is no address of one endpoint, or of another family or machine."""
    from ipaddress import ip_address  # imported here: only peers without multicast are introduced

    try:
        found, known = ip_address(host if type(host) is str else ""), ip_address(introducer[0].partition("%")[0])
    except ValueError:
        return None
    if type(port) is not int or not 0 < port <= 65535 or found.version != known.version or "%" in host:
        return None
    if found.is_multicast or found.is_unspecified or found.is_reserved or found.is_loopback != known.is_loopback:
        return None
    if len(introducer) == 2:
        return (host, port)
    return (host, port, 0, introducer[3] if found.is_link_local else 0)


def _with_operations(head: bytes, operations: Sequence[bytes]) -> bytes:
    return head + _OPERATIONS_KEY + b",".join(operations) + b"]}"


def _object(body: bytes) -> Any:
    """The JSON object that the body is, a dict; None if it is anything else."""
    try:
        value = orjson.loads(body)
    except ValueError:
        return None
    return value if type(value) is dict else None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_INTEGER


def _is_name(value: Any) -> bool:
    return type(value) is str and 0 < len(value.encode()) <= MAX_NAME


def _are_operations(value: Any) -> bool:
    return type(value) is list and all(
        type(operation) is str and 2 <= len(operation) <= MAX_PATTERN and operation[0] in "+-" for operation in value
    )
