"""Requests for history and pages: what was written is read, and whatever else is refused."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from glue.contract.heads import MalformedError
from glue.history.wire import LAST, Page, Request, decode_page, decode_request
from glue.topics.bundle import MessageGroup

REQUESTS = [
    Request(1, "a/#"),
    Request(2, "a/+", (LAST, 3), 17, 20, 4096),
    Request(3, "a", after=5, heads=True),
    Request(4, ranges=[("a", 1, 9, 0, "", 0), ("b/c", 2, 2, 7, "0123456789abcdef", 3)]),
]
GROUPS = [MessageGroup("a/1", 3, 17, [b"x", b"yz"], None), MessageGroup("a/2", 1, 18, [b"{}"], 2, json=True)]
PAGES = [
    Page(1, 3, 9, True, GROUPS, until=9),
    Page(2, 3, 3, False, GROUPS, [("0123456789abcdef", "lamp", 7, 2)], answered=1),
    Page(3, 0, 0, True, heads=[("a", 9, "", 0, 0)]),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_read_as_it_was_written(request_: Request) -> None:
    read = decode_request(request_.encode())
    for name in Request.__slots__:
        before, after = getattr(request_, name), getattr(read, name)
        assert [*map(tuple, after)] == [*map(tuple, before)] if name == "ranges" else (after,) == (before,)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_read_as_it_was_written(page: Page) -> None:
    read = decode_page(page.encode())
    assert read.encode() == page.encode()
    assert [found.payloads for found in read.groups] == [group.payloads for group in page.groups]


@pytest.mark.parametrize(
    "payload",
    [
        {"id": 1},
        b"",
        b"{}",
        b"{}\n",
        b"[]\n",
        b'{"id":1}\n',
        b'{"id":1,"room":1,"scan":"a/#/b"}\n',
        b'{"id":1,"room":1,"scan":7}\n',
        b'{"id":-1,"room":1,"scan":"a"}\n',
        b'{"id":1,"room":1,"scan":"a","start":["soon",1]}\n',
        b'{"id":1,"room":1,"scan":"a","start":"earliest"}\n',
        b'{"id":1,"room":1,"scan":"a","start":[["earliest"],1]}\n',
        b'{"id":1,"room":1,"scan":"a","after":-1}\n',
        b'{"id":1,"room":1,"scan":"a","after":9007199254740992}\n',
        b'{"id":1,"room":1,"ranges":[]}\n',
        b'{"id":1,"room":1,"ranges":[["a",2,1,0,"",0]]}\n',
        b'{"id":1,"room":1,"ranges":[["a/+",1,1,0,"",0]]}\n',
        b'{"id":1,"room":1,"ranges":[["a",1,1,0,"",true]]}\n',
        b'{"id":1,"room":1,"ranges":[["a",1,1,0,0,0]]}\n',
        b'{"id":1,"room":1,"ranges":' + b'[["a",1,1,0,"",0]' + b',["a",1,1,0,"",0]' * 256 + b"]}\n",
    ],
)
def test_a_malformed_request_is_refused(payload: object) -> None:
    with pytest.raises(MalformedError):
        decode_request(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"{}\n",
        b'{"id":1,"next":0,"head":0}\nx',
        b'{"id":1,"next":0,"head":0,"heads":[["a",1]]}\n',
        b'{"id":1,"next":0,"head":0,"heads":[["a",0,"",0]]}\n',
        b'{"id":1,"next":0,"head":0,"heads":{}}\n',
        b'{"id":1,"next":0,"head":0,"origins":[["0123456789abcdef","x",1,1]]}\n',
        b'{"id":1,"next":0,"head":0,"origins":[["","x",1,0]]}\n',
        b'{"id":1,"next":1e3,"head":0}\n',
    ],
)
def test_a_malformed_page_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_page(payload)


def test_damaged_bytes_never_raise_anything_else() -> None:
    rng = Random(1)
    encoded = [*(request.encode() for request in REQUESTS), *(page.encode() for page in PAGES)]
    for _ in range(3000):
        original = rng.choice(encoded)
        damaged = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        for decode in (decode_request, decode_page):
            with suppress(MalformedError):
                decode(bytes(damaged[: rng.randint(0, len(damaged))]))
