"""The calls of one endpoint in virtual time: replies, losses, retries, time, and what is not for it."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.contract import PeerInterest, PeerRemoved
from glue.errors import (
    GlueError,
    NoResponderError,
    RemoteError,
    RequestCycleError,
    RequestRefusedError,
    RequestTimeoutError,
    ResponderLostError,
)
from glue.requests import Call, Directory, Requester
from glue.requests.requester import LATE, REPEAT, SWEEP, Sending
from glue.requests.wire import (
    FORGOTTEN,
    FULL,
    GONE,
    PATH_LIMIT,
    Hop,
    announcement,
    decode_request,
    encode_reply,
    error_tail,
    refusal_tail,
    tail_of,
)


class Caller:
    """A requester that knows some responders; it records what is sent and which calls have ended."""

    def __init__(self, **patterns: str) -> None:
        self.statistics: Counter[str] = Counter()
        self.directory = Directory(self.statistics)
        self.requester = Requester(self.directory, lambda endpoint: f"name of {endpoint}", self.statistics)
        self.over: list[Call] = []
        for peer, pattern in patterns.items():
            self.appear(0.0, peer, pattern)

    def ended(self, call: Call) -> None:
        self.over.append(call)

    def appear(self, now: float, peer: str, pattern: str) -> list[Sending]:
        self.directory.change(PeerInterest(peer, [announcement(pattern)], []))
        return self.requester.appeared(now, peer)

    def leave(self, now: float, peer: str) -> list[Sending]:
        self.directory.forget(peer)
        return self.requester.lost(now, PeerRemoved(peer, 1, f"name of {peer}", "expired"))

    def call(
        self, now: float = 0.0, count: int = 1, retry: bool = False, path: tuple[Hop, ...] = (), topic: str = "t"
    ) -> tuple[Call, Sending]:
        call = Call(topic, [tail_of(b"%d" % number, True) for number in range(count)], path, now + 10.0, retry, self)
        return call, self.requester.ask(now, call, path)

    def reply(self, now: float, peer: str, id: int, tail: bytes = tail_of(b"7", True)) -> list[Sending]:
        return self.requester.take(now, peer, f"name of {peer}", [encode_reply(id, tail)])


def error_of(call: Call) -> GlueError | None:
    (reply,) = call.replies
    assert reply is not None
    return reply.error


def test_a_call_is_sent_to_its_responder_and_ends_with_its_reply() -> None:
    caller = Caller(b="t")
    call, sending = caller.call()
    assert sending.topic == "$glue/request/b/t"
    head, _ = decode_request(sending.payloads[0])
    assert (head.id, head.within) == (call.first, 10.0)
    assert caller.reply(1.0, "b", call.first) == []
    assert caller.over == [call]
    reply = call.replies[0]
    assert reply is not None
    assert (reply.payload, reply.responder, reply.responder_id) == (7, "name of b", "b")
    assert len(caller.requester) == 0


def test_a_call_of_several_requests_has_its_replies_in_their_order() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(count=3)
    for place in (2, 0, 1):
        assert not call.is_over
        caller.reply(1.0, "b", call.first + place, tail_of(b"%d" % place, True))
    assert [reply.payload for reply in call.replies if reply] == [0, 1, 2]


def test_a_topic_that_is_nearly_right_is_named() -> None:
    with pytest.raises(NoResponderError, match="did you mean 'light/kitchen/set'"):
        Caller(b="light/kitchen/set").call(topic="light/kichen/set")


def test_nobody_known_raises_at_once() -> None:
    caller = Caller(b="u")
    with pytest.raises(NoResponderError, match="known; see"):
        caller.call()
    assert len(caller.requester) == 0


@pytest.mark.parametrize(
    ("tail", "error"),
    [
        (error_tail("ValueError", "no"), RemoteError),
        (error_tail("RequestCycleError", "a → b"), RequestCycleError),
        (refusal_tail(FULL), RequestRefusedError),
        (refusal_tail(FORGOTTEN), RequestRefusedError),
        (refusal_tail("of another version"), RequestRefusedError),
        (tail_of(b"{", True), RemoteError),
    ],
)
def test_an_error_stands_in_the_place_of_the_answer(tail: bytes, error: type[GlueError]) -> None:
    caller = Caller(b="t")
    call, _ = caller.call()
    caller.reply(1.0, "b", call.first, tail)
    assert type(error_of(call)) is error


def test_replies_that_are_not_for_it_are_counted_and_dropped() -> None:
    caller = Caller(b="t", c="other")
    call, _ = caller.call()
    assert caller.requester.take(1.0, "b", "b", [b"", b"x", b"{}\n"]) == []
    caller.reply(1.0, "b", call.first + 1)
    caller.reply(1.0, "c", call.first)
    assert not call.is_over
    assert caller.statistics["malformed replies"] == 3
    assert caller.statistics["replies to unknown requests"] == 1
    assert caller.statistics["replies from peers that were not asked"] == 1
    caller.reply(1.0, "b", call.first)
    caller.reply(1.0, "b", call.first)
    assert caller.over == [call]
    assert caller.statistics["replies to unknown requests"] == 2


def test_after_the_deadline_the_call_fails_and_its_late_reply_is_counted() -> None:
    caller = Caller(b="t")
    call, _ = caller.call()
    assert caller.requester.advance(9.9, call) == []
    assert not call.is_over
    assert caller.requester.advance(10.0, call) == []
    assert isinstance(error_of(call), RequestTimeoutError)
    caller.reply(11.0, "b", call.first)
    assert caller.statistics["replies too late"] == 1
    assert caller.over == [call]


def test_ids_of_ended_calls_are_bounded() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(count=3 * LATE)
    caller.requester.drop(call, NoResponderError("dropped"))
    caller.reply(1.0, "b", call.first)
    caller.reply(1.0, "b", call.first + 3 * LATE - 1)
    assert caller.statistics["replies to unknown requests"] == 1
    assert caller.statistics["replies too late"] == 1


def test_a_call_nobody_reads_is_dropped_some_time_after_its_end() -> None:
    caller = Caller(b="t")
    call, _ = caller.call()
    caller.call(10.0 + 2 * SWEEP)
    assert call.is_over
    assert len(caller.requester) == 1


def test_the_loss_of_a_responder_is_told_at_once() -> None:
    caller = Caller(b="t", c="t")
    calls = [caller.call()[0] for _ in range(2)]
    assert caller.leave(1.0, "b") == []
    lost = [call for call in calls if call.is_over]
    assert [call.responder for call in lost] == ["b"]
    assert isinstance(error_of(lost[0]), ResponderLostError)


def test_a_retried_call_goes_to_another_responder_under_the_same_id() -> None:
    caller = Caller(b="t", c="t")
    call, first = caller.call(retry=True)
    (second,) = caller.leave(4.0, call.responder)
    assert {first.topic, second.topic} == {"$glue/request/b/t", "$glue/request/c/t"}
    head, _ = decode_request(second.payloads[0])
    assert (head.id, head.within, head.is_repeatable) == (call.first, 6.0, True)
    caller.reply(5.0, call.responder, call.first)
    assert error_of(call) is None


def test_a_retried_call_waits_for_a_responder_to_appear() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(retry=True)
    assert caller.leave(1.0, "b") == []
    assert not call.is_over
    assert caller.appear(2.0, "c", "other") == []
    (sending,) = caller.appear(3.0, "c", "t")
    assert sending.topic == "$glue/request/c/t"
    caller.reply(4.0, "c", call.first)
    assert error_of(call) is None


def test_a_call_that_waits_for_a_responder_ends_with_a_late_answer_of_the_former_one() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(retry=True)
    assert caller.leave(1.0, "b") == []
    assert caller.reply(1.1, "b", call.first) == []
    assert (caller.over, len(caller.requester._waiting)) == ([call], 0)
    assert caller.appear(2.0, "c", "t") == []


def test_a_retried_call_that_nobody_answers_ends_at_its_deadline() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(retry=True)
    caller.leave(1.0, "b")
    now = 1.0
    while not call.is_over:
        now = call.due
        assert caller.requester.advance(now, call) == []
    assert now == 10.0
    assert isinstance(error_of(call), RequestTimeoutError)
    assert len(caller.requester._waiting) == 0
    assert caller.appear(11.0, "c", "t") == []


def test_all_calls_that_wait_for_a_responder_are_sent_when_one_appears() -> None:
    caller = Caller(b="t")
    calls = [caller.call(retry=True)[0] for _ in range(3)]
    assert caller.leave(1.0, "b") == []
    asked = [decode_request(payload)[0].id for one in caller.appear(2.0, "c", "t") for payload in one.payloads]
    assert asked == [call.first for call in calls]
    caller.leave(3.0, "c")
    assert caller.requester._routes._under_way == {}, "a responder that is gone is no burden when it is back"


def test_a_responder_that_refused_is_asked_again_once_it_answers_the_topic_again() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(retry=True)
    caller.directory.forget("b")
    assert caller.reply(1.0, "b", call.first, refusal_tail(GONE)) == []
    (sending,) = caller.appear(2.0, "b", "t")
    assert sending.topic == "$glue/request/b/t"


def test_refusals_of_two_responders_are_not_added_up() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(count=2, retry=True)
    assert caller.reply(1.0, "b", call.first, refusal_tail(GONE)) == []
    caller.appear(1.5, "c", "t")
    assert len(caller.leave(2.0, "b")) == 2
    caller.appear(2.5, "d", "t")
    assert caller.reply(3.0, "c", call.first + 1, refusal_tail(GONE)) == [], "it is at work on the other request"
    assert len(caller.reply(3.0, "c", call.first, refusal_tail(GONE))) == 2


def test_a_retried_call_is_repeated_ever_more_rarely() -> None:
    caller = Caller(b="t")
    call, _ = caller.call(retry=True)
    times = []
    while call.due < call.expires:
        times.append(call.due)
        (sending,) = caller.requester.advance(call.due, call)
        assert decode_request(sending.payloads[0])[0].id == call.first
    assert times == [REPEAT, 3 * REPEAT, 7 * REPEAT]


def test_only_what_is_missing_is_repeated() -> None:
    caller = Caller(b="t", c="t")
    call, _ = caller.call(count=3, retry=True)
    caller.reply(0.5, call.responder, call.first + 1)
    sendings = caller.leave(1.0, call.responder)
    ids = [decode_request(payload)[0].id for sending in sendings for payload in sending.payloads]
    assert ids == [call.first, call.first + 2]


def test_a_responder_that_answers_no_more_has_done_nothing_so_another_is_asked() -> None:
    caller = Caller(b="t", c="t")
    call, _ = caller.call()
    (sending,) = caller.reply(1.0, call.responder, call.first, refusal_tail(GONE))
    assert sending.topic == f"$glue/request/{call.responder}/t"
    caller.reply(1.0, call.responder, call.first, refusal_tail(GONE))
    assert isinstance(error_of(call), NoResponderError)


def test_the_responder_with_the_fewest_requests_is_asked() -> None:
    caller = Caller(b="t", c="t", d="t")
    calls = [caller.call()[0] for _ in range(6)]
    assert Counter(call.responder for call in calls) == {"b": 2, "c": 2, "d": 2}
    for call in calls:
        if call.responder == "c":
            caller.reply(1.0, "c", call.first)
    assert [caller.call()[0].responder for _ in range(2)] == ["c", "c"]


def test_a_responder_that_waits_for_the_call_is_not_asked() -> None:
    caller = Caller(b="t", c="t")
    path = (("b", "B", "t"),)
    assert {caller.call(path=path)[0].responder for _ in range(3)} == {"c"}
    both = (*path, ("x", "X", "other"), ("c", "C", "+"))
    with pytest.raises(RequestCycleError, match=r"B 't' → X 'other' → C '\+' → B 't'"):
        caller.call(path=both)
    assert caller.call(path=(("b", "B", "other"),))[0].responder in "bc"


def test_too_long_a_path_is_a_cycle() -> None:
    caller = Caller(b="t")
    with pytest.raises(RequestCycleError):
        caller.call(path=(("x", "X", "other"),) * PATH_LIMIT)
    with pytest.raises(RequestCycleError, match="too long"):
        caller.call(path=(("x", "X", "o" * 40_000),))


def test_closing_ends_all_calls() -> None:
    caller = Caller(b="t")
    calls = [caller.call()[0], caller.call(retry=True)[0]]
    caller.leave(1.0, "b")
    caller.requester.drop_all(NoResponderError("closed"))
    assert all(call.is_over for call in calls)
    assert len(caller.requester) == 0
    assert len(caller.over) == 2
