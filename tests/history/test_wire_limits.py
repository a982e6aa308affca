"""Requests for history and pages: every limit at its value and one beyond, and the payloads as they travel."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from glue.contract.heads import MalformedError
from glue.history.wire import Page, Request, decode_page, decode_request
from glue.topics.bundle import SEQUENCE_LIMIT, MessageGroup
from tests.support.bounds import Limit, check_limit

ID = "0123456789abcdef"
GREATEST = (1 << 53) - 1


def request(**more: Any) -> Request:
    """A scan of a topic with these members; those that are None are left out."""
    head = {"id": 1, "room": 9, "scan": "a", **more}
    return decode_request(orjson.dumps({key: value for key, value in head.items() if value is not None}) + b"\n")


def page(groups: tuple[MessageGroup, ...] = (), **more: Any) -> Page:
    """A page with these members of its head."""
    _, _, body = Page(1, 0, 0, False, groups).encode().partition(b"\n")
    return decode_page(orjson.dumps({"id": 1, "next": 0, "head": 0, **more}) + b"\n" + body)


def ranged(place: int, value: Any) -> Request:
    """A request for a range with another value at a place."""
    one: list[Any] = ["a", 1, SEQUENCE_LIMIT, 0, "", 0]
    one[place] = value
    return request(scan=None, ranges=[one])


def named(place: int, value: Any) -> Page:
    """A page with a message, and another value at a place of its publisher."""
    origin: list[Any] = [ID, "name", 7, 1]
    origin[place] = value
    return page((MessageGroup("a", 1, 0, [b"x"], 1),), origins=[origin])


def listed(place: int, value: Any) -> Page:
    """A page with a stream, and another value at a place of it."""
    head: list[Any] = ["a", 9, ID, 7, 1]
    head[place] = value
    return page(heads=[head])


def padded(size: int) -> Request:
    """A request with a JSON object of so many bytes."""
    return decode_request(b'{"id":1,"room":9,"scan":"a","x":"' + b"x" * (size - 35) + b'"}\n')


LIMITS: list[Limit] = [
    ("integer", lambda id: request(id=id), [0, GREATEST], [-1, GREATEST + 1, True, 1.0, "1", None]),
    ("integer", lambda room: request(room=room), [0, GREATEST], [-1, GREATEST + 1, None]),
    ("integer", lambda after: request(after=after), [0, GREATEST], [-1, 1.0]),
    ("integer", lambda until: request(until=until), [0, GREATEST], [-1, 1.0]),
    ("integer", lambda since: request(start=["since", since]), [-GREATEST, GREATEST], [-GREATEST - 1, 1.5, "1"]),
    ("start", lambda start: request(start=start), [["last", 1], ["from", 1], ["latest", 0]],
     [["late", 1], ["last"], ["last", 1, 1], [1, 1], "last", {}]),
    ("pattern", lambda pattern: request(scan=pattern), ["a/#", "+"], ["", "#/a", 7, None, []]),
    ("eras", lambda eras: request(eras=eras), [[0, 0], [GREATEST, 1]], [[1], [1, 2, 3], 1, {}, "12"]),
    ("integer", lambda eras: request(eras=eras), [[2, 1]], [[-1, 0], [0, -1], [0, 1.0]]),
    ("era", lambda era: request(era=era, eras=[2, 1]), [-1, 0, 2], [3]),
    ("era", lambda era: request(era=era), [-1], [0, 2]),
    ("integer", lambda era: request(era=era, eras=[2, 1]), [1], [-2, "1"]),
    ("era", lambda eras: request(scan=None, digest="a", eras=eras), [[2, 1]], [None]),
    ("ranges", lambda count: request(scan=None, ranges=[["a", 1, 1, 0, "", 0]] * count), [1, 256], [0, 257]),
    ("ranges", lambda ranges: request(scan=None, ranges=ranges), [[["a", 1, 1, 0, "", 0]]], [{}, "ranges", 7]),
    ("range", lambda width: request(scan=None, ranges=[["a", 1, 1, 0, "", 0, 0][:width]]), [6], [0, 5, 7]),
    ("topic", lambda topic: ranged(0, topic), ["a/b"], ["", "a/+", 7, None]),
    ("integer", lambda first: ranged(1, first), [1, SEQUENCE_LIMIT], [0, 1.0]),
    ("range", lambda last: ranged(2, last), [1, SEQUENCE_LIMIT], [SEQUENCE_LIMIT + 1]),
    ("integer", lambda newer: ranged(3, newer), [0, GREATEST], [-1, GREATEST + 1]),
    ("range", lambda origin: ranged(4, origin), ["", ID], [ID + "0", 7, None]),
    ("integer", lambda life: ranged(5, life), [0, GREATEST], [-1, GREATEST + 1, True]),
    ("no line feed", padded, [100, (512 << 10) - 1], [512 << 10]),
    ("no line feed", decode_request, [b'{"id":1,"room":1,"scan":"a"}\n'], [b"", b"{}"]),
    ("not JSON", decode_request, [], [b"\n", b"{\n", b"\n\n"]),
    ("no object", decode_request, [], [b"[]\n", b"7\n"]),
    ("a JSON document", decode_request, [], [{"id": 1}, "x\n", None]),
    ("integer", lambda next: page(next=next), [0, GREATEST], [-1, 1e3]),
    ("integer", lambda head: page(head=head), [0, GREATEST], [-1, None]),
    ("integer", lambda answered: page(answered=answered), [0, 256], [-1, None]),
    ("integer", lambda until: page(until=until), [0, GREATEST], [-1]),
    ("integer", lambda compared: page(compared=compared), [0, 9], [-1, True]),
    ("digests", lambda digests: page(digests=digests), [None, [ID, ID, ID]],
     [[ID, ID], [ID] * 4, [ID, ID, ID + "0"], [ID, ID, ID[1:]], [ID, ID, 7], ID, {}]),
    ("heads", lambda count: page(heads=[["a", 1, "", 0, 0]] * count), [0, 1024], [1025]),
    ("heads", lambda heads: page(heads=heads), [[]], [{}, "x", None]),
    ("head", lambda width: page(heads=[["a", 1, "", 0, 0, 0][:width]]), [5], [0, 4, 6]),
    ("topic", lambda topic: listed(0, topic), ["a"], ["a/#", 7]),
    ("integer", lambda last: listed(1, last), [1], [0, 1.0]),
    ("head", lambda last: listed(1, last), [SEQUENCE_LIMIT], [SEQUENCE_LIMIT + 1]),
    ("head", lambda origin: listed(2, origin), ["", ID], [ID[1:], ID + "0", 7, None]),
    ("integer", lambda life: listed(3, life), [0, GREATEST], [-1]),
    ("integer", lambda first: listed(4, first), [0, GREATEST], [-1]),
    ("origin", lambda id: named(0, id), [ID], ["", ID[1:], ID + "0", 7]),
    ("origin", lambda size: named(1, "n" * size), [0, 65_535], [65_536]),
    ("origin", lambda name: named(1, name), ["name"], [7, None]),
    ("integer", lambda life: named(2, life), [0, GREATEST], [-1]),
    ("integer", lambda count: named(3, count), [1], [0, -1, 1.0]),
    ("origins", lambda count: named(3, count), [1], [2]),
    ("origins", lambda count: page((MessageGroup("a", 1, 0, [b"x"], 1),) * count, origins=[[ID, "n", 1, 1]] * count),
     [1, 1024], [1025]),
    ("origins", lambda origins: page(origins=origins), [[]], [{}, "x", None]),
    ("origin", lambda width: page((MessageGroup("a", 1, 0, [b"x"], 1),), origins=[[ID, "n", 1, 1, 1][:width]]),
     [4], [0, 3, 5]),
    ("bundle", lambda body: decode_page(b'{"id":1,"next":0,"head":0}\n' + body), [b""], [b"x", b"{}"]),
]  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS)
def test_what_keeps_the_limits_is_taken_and_what_is_beyond_is_malformed(limit: Limit) -> None:
    check_limit(limit, MalformedError)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Request(1, "a"), b'{"id":1,"scan":"a","room":1048576}\n'),
        (Request(1, "a", ("since", 5), 7, 9, 3),
         b'{"id":1,"scan":"a","start":["since",5],"after":7,"until":9,"room":3}\n'),
        (Request(2, "a", heads=True, after=1), b'{"id":2,"heads":"a","after":1,"room":1048576}\n'),
        (Request(2, "a", heads=True, kept=True, eras=(3, 2), era=0),
         b'{"id":2,"heads":"a","eras":[3,2],"era":0,"room":1048576,"kept":1}\n'),
        (Request(3, "a", digest=True, kept=True, eras=(3, 2)),
         b'{"id":3,"digest":"a","eras":[3,2],"room":1048576,"kept":1}\n'),
        (Request(4, "a", ranges=[("a", 1, 2, 3, ID, 4)], room=5),
         b'{"id":4,"ranges":[["a",1,2,3,"0123456789abcdef",4]],"room":5}\n'),
    ],
)  # fmt: skip
def test_a_request_has_what_is_not_usual_and_is_read_as_it_was_written(made: Request, expected: bytes) -> None:
    assert made.encode() == expected
    assert decode_request(expected).encode() == expected


def test_what_a_request_leaves_out_is_as_usual() -> None:
    read = request()
    assert (read.start, read.after, read.until, read.era, read.eras) == (("earliest", 0), 0, 0, -1, None)
    assert (read.heads, read.digest, read.kept, read.ranges) == (False, False, False, ())
    assert request(kept=1).kept
    assert not request(kept=2).kept
    made = Request(1, "a")
    assert (made.era, made.eras, made.heads, made.kept, made.digest) == (-1, None, False, False, False)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Page(1, 2, 3, False), b'{"id":1,"next":2,"head":3}\n'),
        (Page(1, 2, 3, True, answered=4, until=5, compared=6),
         b'{"id":1,"next":2,"head":3,"known":1,"answered":4,"until":5,"compared":6}\n'),
        (Page(1, 2, 3, False, heads=[("a", 9, "", 0, 1)], digests=(ID, ID, ID[::-1])),
         b'{"id":1,"next":2,"head":3,"heads":[["a",9,"",0,1]],'
         b'"digests":["0123456789abcdef","0123456789abcdef","fedcba9876543210"]}\n'),
    ],
)  # fmt: skip
def test_a_page_has_what_is_not_usual_and_is_read_as_it_was_written(made: Page, expected: bytes) -> None:
    assert made.encode() == expected
    read = decode_page(expected)
    assert read.encode() == expected
    assert read.known is made.known
    assert (read.answered, read.until, read.compared) == (made.answered, made.until, made.compared)


def test_a_page_names_the_publishers_of_its_messages() -> None:
    groups = (
        MessageGroup("a", 1, 0, [b"x"], 1),
        MessageGroup("b", 1, 0, [b"y"], 1),
        MessageGroup("a", 2, 0, [b"z"], 1),
    )
    origins = [(ID, "one", 7, 2), (ID[::-1], "two", 8, 1)]
    read = decode_page(Page(1, 0, 0, False, groups, origins).encode())
    assert read.origins == origins
    assert [(group.topic, group.sequence, group.payloads) for group in read.groups] == [
        ("a", 1, [b"x"]), ("b", 1, [b"y"]), ("a", 2, [b"z"]),
    ]  # fmt: skip
