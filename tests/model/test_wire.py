"""Messages of consensus as bytes: they come back as they were, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.model.consensus import Kind, LogEntry
from glue.model.consensus import messages as m
from glue.model.consensus.wire import MalformedMessageError, decode, encode
from tests.model.member import Member, configuration

VALUE = configuration().encode()
ENTRIES = (
    LogEntry(4, 2, Kind.NOTHING, b""),
    LogEntry(5, 2, Kind.COMMAND, b'{"a":1}\n\x00\xff'),
    LogEntry(6, 3, Kind.CONFIGURATION, VALUE),
)
G = ("1/plant/5d", "8c", 3)
S = ("1/plant", "8c")
MESSAGES = [
    m.RequestVote(*G, True, False, 7, 2),
    m.Vote(*G, False, True),
    m.Append(*G, 9, 3, 2, 3, ENTRIES),
    m.Append(*G, 9, 3, 2, 3, ()),
    m.Appended(*G, 9, False, 3, 2, 5),
    m.InstallSnapshot(*G, 9, 6, 3, VALUE, 100, 10, b"state"),
    m.SnapshotReceived(*G, 9, 6, 15),
    m.TimeoutNow(*G),
    m.Forward(*G, (1, 2, 3), (b"x", None, b"")),
    m.Forwarded(*G, (1, 3), (8, 9), False, ""),
    m.Offer(*S, 3),
    m.Welcome(*S, VALUE),
    m.Prepare(*S, (2, "a")),
    m.Promise(*S, (2, "a"), (0, ""), b""),
    m.Propose(*S, (2, "a"), VALUE),
    m.Accepted(*S, (2, "a")),
]


def name(message: m.Message) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_a_message_comes_back_as_it_was(message: m.Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_a_message_that_is_cut_short_or_too_long_is_none(message: m.Message) -> None:
    data = encode(message)
    for end in range(len(data)):
        with pytest.raises(MalformedMessageError):
            decode(data[:end])
    with pytest.raises(MalformedMessageError):
        decode(data + b"x")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n", b"[]\n", b"{}\n", b"null\n", b'["vote"]\n', b'["no such"]\n', b"[" * 100_000 + b"\n",
        b'["offer","s","l",-1]\n', b'["offer","s","l",1e3]\n', b'["offer","s","l",true]\n',
        b'["offer","s","l",9223372036854775807]\n', b'["welcome","s","l",2]\n{}', b'["offer",1,"l",1]\n',
        b'["append","g","l",1,1,1,1,1,[1,7,[1]]]\nx', b'["append","g","l",1,1,1,1,1,[2,0,[1]]]\nx',
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode(data)


@settings(max_examples=300)
@given(st.sampled_from(MESSAGES), st.data())
def test_whatever_is_decoded_can_be_taken(message: m.Message, data: st.DataObject) -> None:
    mutated = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode(bytes(mutated))
    except MalformedMessageError:
        return
    group = "1/plant/" if hasattr(decoded, "scope") else Member().replica._core.group
    if hasattr(decoded, "scope"):
        decoded.scope = group[:-1]
    else:
        decoded.group = group
    for member in (Member("a", [2, 2]), Member("a", [2, 2])):
        member.get(("b", decoded))
    leader = Member("a")
    leader.lead()
    leader.get(("b", decoded))
