"""Requests: every limit of what travels and of what is remembered, at its value and one beyond, and every count."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest

from glue.contract import PeerInterest
from glue.contract.heads import MalformedError
from glue.errors import NoResponderError, RemoteError, RequestCycleError, RequestRefusedError, RequestTimeoutError
from glue.requests import Call, Directory, Memory
from glue.requests.memory import AT_WORK
from glue.requests.wire import (
    GONE,
    announcement,
    answer_of,
    decode_reply,
    decode_request,
    encode_reply,
    encode_requests,
    error_tail,
    extra_of,
    first_id,
    refusal_tail,
    reply_topic,
    tail_of,
)
from tests.requests.test_requester import Caller, error_of
from tests.support.bounds import Limit, check_limit


def request(**more: Any) -> Any:
    """A request with an option, so that its head is read as JSON."""
    return decode_request(orjson.dumps({"id": 1, "within": 1, "x": 0, **more}) + b"\nbody")


def plain(id: int, within: int) -> Any:
    """A request without options."""
    return decode_request(b'{"id":%d,"within":%d}\n' % (id, within))


def reply(**more: Any) -> Any:
    """A reply whose head is read as JSON."""
    return decode_reply(orjson.dumps({"id": 1, "x": 0, **more}) + b"\n")


def padded(size: int) -> Any:
    """A request with a JSON object of so many bytes."""
    return decode_request(b'{"id":1,"within":1,"x":"' + b"x" * (size - 26) + b'"}\n')


HOP = ["a", "b", "c"]
LIMITS: list[Limit] = [
    ("integer", lambda id: request(id=id), [0, 10**15 - 1], [-1, 10**15, True, 1.0, "1", None]),
    ("integer", lambda id: plain(id, 1), [0, 10**15 - 1], [10**15]),
    ("integer", lambda within: request(within=within), [1, 10**9 - 1], [-1, 10**9, 1.5, None]),
    ("integer", lambda within: plain(1, within), [1, 10**9 - 1], [10**9]),
    ("integer", lambda within: request(within=within), [1], [0]),
    ("path", lambda count: request(path=[HOP] * count), [0, 1, 32], [33]),
    ("path", lambda path: request(path=path), [[HOP], None, 0],
     [[["a", "b"]], [[*HOP, "d"]], [["a", "b", 3]], ["abc"], 1, {"a": 1}]),
    ("integer", lambda id: reply(id=id), [0, 10**15 - 1], [-1, 10**15, None]),
    ("text", lambda error: reply(error=error), ["", "E"], [None, 7]),
    ("text", lambda message: reply(message=message), ["", "E"], [None, 7]),
    ("text", lambda refused: reply(refused=refused), ["", "gone"], [None, 7]),
    ("no line feed", padded, [100, (64 << 10) - 1], [64 << 10]),
    ("not JSON", decode_request, [], [b"\n", b"{\n"]),
    ("no object", decode_reply, [], [b"[]\n"]),
    ("a JSON document", decode_request, [], [{"id": 1}, "x", None]),
    ("a JSON document", decode_reply, [], [{"id": 1}, "x", None]),
]  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS)
def test_what_keeps_the_limits_is_taken_and_what_is_beyond_is_malformed(limit: Limit) -> None:
    check_limit(limit, MalformedError)


def test_payloads_as_they_travel() -> None:
    extra = extra_of(True, [("a", "b", "c")])
    assert encode_requests(7, 2.0, b"", [tail_of(b"x", False), tail_of(b"{}", True)]) == [
        b'{"id":7,"within":2000}\nx', b'{"id":8,"within":2000,"json":1}\n{}',
    ]  # fmt: skip
    assert encode_requests(7, 2.0, extra, [tail_of(b"x", False)]) == [
        b'{"id":7,"within":2000,"retry":1,"path":[["a","b","c"]]}\nx'
    ]
    assert encode_requests(0, 0.0, b"", [b"}\n"]) == [b'{"id":0,"within":1}\n']
    assert encode_requests(0, 1e9, b"", [b"}\n"]) == [b'{"id":0,"within":999999999}\n']
    assert (extra_of(False, ()), extra_of(True, ())) == (b"", b',"retry":1')
    head, body = request(json=1, retry=1, within=1500, path=[HOP])
    assert (head.id, head.within, head.is_json, head.is_repeatable, head.path, body) == (
        1, 1.5, True, True, (("a", "b", "c"),), b"body",
    )  # fmt: skip
    head, _ = request(json=2, retry=2)
    assert (head.is_json, head.is_repeatable, head.path) == (False, False, ())
    head, body = decode_request(b'{"id":7,"within":2500,"json":1}\n{}')
    assert (head.id, head.within, head.is_json, head.is_repeatable, head.path, body) == (7, 2.5, True, False, (), b"{}")
    assert reply_topic("e", 3) == "$glue/reply/e/3"
    assert error_tail("E" * 201, "m" * 2001) == b',"error":"%b","message":"%b"}\n' % (b"E" * 200, b"m" * 2000)
    head, _ = reply(message="m" * 2001)
    assert len(head.message) == 2000
    assert refusal_tail("full") == b',"refused":"full"}\n'


@pytest.mark.parametrize(
    ("payload", "id", "answer"),
    [(b'{"id":7}\nx', 7, (b"x",)), (b'{"id":7}\n', 7, (b"",)), (b'{"id":7,"json":1}\n[1]', 7, ([1],)),
     (b'{"id":7,"json":1}\n[1', 7, None), (b'{"id":7,"json":2}\n1', 7, None), (b'{"id":8}\nx', 8, None),
     (b'{"id":7', -1, None), (b'{"id":07}\nx', -1, None), ("x", -1, None), (b'{"id":1000000000000000}\n', -1, None),
     (b'{"id":999999999999999}\n', 999_999_999_999_999, None)],
)  # fmt: skip
def test_answers_are_read_in_a_row(payload: Any, id: int, answer: Any) -> None:
    assert (first_id(payload), answer_of(payload, 7)) == (id, answer)


def test_a_responder_remembers_32768_requests_and_4096_of_a_caller() -> None:
    memory, statistics = Memory(Counter()), Counter[str]()
    memory._statistics = statistics
    for number in range(4096):
        assert memory.begin(0.0, ("a", 1, number), 5.0) is None
    assert memory.begin(0.0, ("a", 1, 4096), 5.0) == refusal_tail("full")
    assert memory.begin(0.0, ("a", 1, 4095), 5.0) == AT_WORK
    assert memory.begin(0.0, ("a", 2, 4096), 5.0) is None, "another life"
    assert statistics == {"requests refused: too many to remember": 1, "requests received again": 1}
    memory._tails.update(dict.fromkeys(range(32_768 - 4097 - 1)))  # type: ignore[arg-type]  # of others
    assert memory.begin(0.0, ("b", 1, 1), 5.0) is None
    assert memory.begin(0.0, ("b", 1, 2), 5.0) == refusal_tail("full")
    assert memory.begin(14.9, ("b", 1, 2), 50.0) == refusal_tail("full")
    assert memory.begin(15.0, ("b", 1, 2), 50.0) is None, "ten seconds after the others gave up"
    assert memory._by_caller == {("b", 1): 1}


def test_eight_megabytes_of_answers_are_remembered() -> None:
    statistics = Counter[str]()
    memory = Memory(statistics)
    half = bytes(4 << 20)
    for number, tail in enumerate((half, half, b"", b"x")):
        memory.begin(0.0, ("a", 1, number), 5.0)
        memory.answer(("a", 1, number), tail)
        assert statistics["replies forgotten"] == (tail == b"x")
    assert memory.begin(1.0, ("a", 1, 0), 5.0) == refusal_tail("forgotten")
    assert memory.begin(1.0, ("a", 1, 1), 5.0) == half
    memory.begin(15.0, ("a", 1, 9), 50.0)
    for number in (20, 21):
        memory.begin(15.0, ("a", 1, number), 50.0)
        memory.answer(("a", 1, number), half)
    assert statistics["replies forgotten"] == 1, "what is forgotten takes no room"


def test_a_peer_has_4096_patterns_and_all_have_32768() -> None:
    statistics = Counter[str]()
    directory = Directory(statistics)
    assert directory.change(PeerInterest("a", [announcement(str(number)) for number in range(4097)], []))
    assert statistics == {"responders refused: too many": 1}
    assert (directory.find("4095"), directory.find("4096")) == (("a",), ())
    assert not directory.change(PeerInterest("a", [announcement("7")], [])), "it is known"
    assert directory.change(PeerInterest("a", [announcement("x")], [announcement("7"), announcement("unknown")]))
    assert not directory.change(PeerInterest("a", ["y", "$glue/other/y"], ["x"])), "no responders"
    directory._count = 32_767
    assert directory.change(PeerInterest("b", [announcement("y")], []))
    assert not directory.change(PeerInterest("b", [announcement("z")], []))
    directory.forget("a")
    assert [directory.find(topic) for topic in "xyz"] == [(), ("b",), ()]
    assert directory._count == 32_768 - 4096
    assert [*directory.patterns()] == ["y"]


def test_1024_ended_requests_are_told_from_unknown_ones() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(count=1025)
    assert len(caller.requester) == 1025
    caller.requester.drop(call, NoResponderError("dropped"))
    caller.requester.drop(call, NoResponderError("dropped"))
    for id in (1, 2, 1025):
        caller.reply(1.0, "b", id)
    assert caller.statistics == {
        "requests sent": 1025, "requests unanswered": 1025, "replies to unknown requests": 1, "replies too late": 2,
    }  # fmt: skip
    assert caller.over == [call]
    assert {reply.responder for reply in call.replies if reply is not None} == {"name of b"}


@pytest.mark.parametrize(("began", "is_over"), [(20.0, False), (20.1, True)])
def test_what_nobody_reads_is_dropped_ten_seconds_after_its_end(began: float, is_over: bool) -> None:
    caller = Caller(b="t")
    call, _ = caller.call()  # until 10.0
    caller.call(began)
    assert call.is_over is is_over
    if is_over:
        assert str(error_of(call)) == "nobody waits for it"
        second, _ = caller.call(22.0)
        second.expires = 12.0
        caller.call(30.0)
        assert not second.is_over, "it is looked for every ten seconds"
        caller.call(30.1)
        assert second.is_over


def test_a_retried_call_is_repeated_after_a_second_and_then_twice_as_late_each_time() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(count=3, retry=True)
    times = []
    while call.due < call.expires:
        times.append(call.due)
        assert caller.requester.advance(call.due - 0.001, call) == []
        assert len(caller.requester.advance(call.due, call)) == 3
    assert times == [1.0, 3.0, 7.0]
    assert caller.statistics == {"requests sent": 3, "requests repeated": 9}
    other, _ = caller.call(7.0)
    assert other.due == 17.0, "without `retry` there is only the end"


def test_answers_are_counted_once_all_are_there() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(count=3)
    other, _ = caller.call()
    assert (call.first, other.first) == (1, 4)
    payloads = [encode_reply(id, tail_of(b"%d" % id, id != 2)) for id in (1, 2, 3, 4, 9)]
    assert caller.requester.take(1.0, "b", "B", payloads) == []
    assert [reply.payload for one in (call, other) for reply in one.replies if reply] == [1, b"2", 3, 4]
    assert {(reply.responder, reply.responder_id) for reply in call.replies if reply} == {("B", "b")}
    assert caller.statistics == {"requests sent": 4, "requests answered": 4, "replies to unknown requests": 1}
    assert caller.over == [call, other]
    assert caller.requester.responders("t") == ["b"]


@pytest.mark.parametrize(
    ("tail", "error", "text"),
    [(error_tail("ValueError", "no"), RemoteError, "ValueError"),
     (error_tail("RequestCycleError", "a cycle"), RequestCycleError, "a cycle"),
     (refusal_tail("forgotten"), RequestRefusedError,
      "B refused: it acted on this request before, and has forgotten the answer"),
     (refusal_tail("full"), RequestRefusedError, "B refused: it remembers too many requests that may be repeated"),
     (refusal_tail("new"), RequestRefusedError, "B refused: new"),
     (b',"json":1}\n{', RemoteError, "its answer is no JSON document, as it claims to be")],
)  # fmt: skip
def test_why_there_is_no_answer_is_said_in_words(tail: bytes, error: type[Exception], text: str) -> None:
    caller = Caller(b="t")
    call, _ = caller.call()
    caller.requester.take(1.0, "b", "B", [encode_reply(call.first, tail)])
    assert type(error_of(call)) is error
    assert text in str(error_of(call))
    (found,) = call.replies
    assert found is not None
    with pytest.raises(error):
        _ = found.payload
    assert caller.statistics["malformed replies"] == (tail[-1:] == b"{")
    assert caller.statistics["requests answered"] == 1


def test_a_timeout_names_who_did_not_answer() -> None:
    caller = Caller(b="t")
    call, _ = caller.call()
    caller.requester.advance(10.0, call)
    assert str(error_of(call)) == "'t': name of b did not answer in time; it may have acted"
    call, _ = caller.call(20.0, retry=True)
    caller.leave(21.0, "b")
    caller.requester.advance(30.0, call)
    assert isinstance(error_of(call), RequestTimeoutError)
    assert str(error_of(call)) == "'t': no responder was found in time; it may have acted"


def test_a_call_to_one_responder_asks_no_other() -> None:
    caller = Caller(b="t", c="t")
    call = Call("t", [tail_of(b"1", True)], (), 10.0, False, caller, "c")
    assert caller.requester.ask(0.0, call).topic == "$glue/request/c/t"
    assert caller.reply(1.0, "c", call.first, refusal_tail("gone")) == []
    assert str(error_of(call)) == "name of c answers this topic no more, and no other responder is known"


def test_a_path_of_32_kilobytes_is_the_longest() -> None:
    caller = Caller(b="t")
    overhead = len(extra_of(False, [("x", "X", "")]))
    caller.call(path=(("x", "X", "o" * ((32 << 10) - overhead)),))
    with pytest.raises(RequestCycleError, match="the patterns of 1 handlers that wait for each other are too long"):
        caller.call(path=(("x", "X", "o" * ((32 << 10) - overhead + 1)),))
    caller.call(path=(("x", "X", "other"),) * 31)
    with pytest.raises(RequestCycleError, match="32 handlers wait for each other"):
        caller.call(path=(("x", "X", "other"),) * 32)


def test_a_call_that_failed_is_no_burden_for_its_responder() -> None:
    caller = Caller(b="t", c="t")
    call, _ = caller.call(count=5)
    caller.requester.drop(call, NoResponderError("dropped"))
    assert [caller.call()[0].responder for _ in range(4)] == ["c", "b", "c", "b"]


def test_a_call_that_was_moved_is_no_burden_for_the_responder_that_refused_it() -> None:
    caller = Caller(b="t", c="t")
    call, _ = caller.call(count=5)
    assert call.responder == "b"
    for id in range(call.first, call.first + 5):
        caller.reply(0.0, "b", id, refusal_tail(GONE))
    assert call.responder == "c"
    for id in range(call.first, call.first + 5):
        caller.reply(0.0, "c", id)
    assert (call.is_over, [caller.call()[0].responder for _ in range(4)]) == (True, ["b", "c", "b", "c"])
