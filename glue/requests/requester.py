"""The calls of one endpoint: the responders asked, the replies, and the end of calls to a lost responder.

A call is one or more requests to one responder. The call ends when each request has a reply, or an
error because the responder left or the time is over. A call with `retry` outlives its responder: it asks another
responder, or waits until a responder appears. It also repeats unanswered requests, because a connection may lose an
answer.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol

from glue.contract import PeerRemoved
from glue.contract.heads import MalformedError
from glue.errors import (
    GlueError,
    NoResponderError,
    RemoteError,
    RequestCycleError,
    RequestError,
    RequestRefusedError,
    RequestTimeoutError,
    ResponderLostError,
)
from glue.requests.directory import Directory, matches
from glue.requests.reply import Reply
from glue.requests.routes import Routes
from glue.requests.wire import (
    CYCLE,
    FORGOTTEN,
    FULL,
    GONE,
    HEAD_LIMIT,
    Hop,
    ReplyHead,
    answer_of,
    decode_body,
    decode_reply,
    encode_requests,
    extra_of,
    first_id,
    request_topic,
)

REPEAT = 1.0
"""Seconds until a call with `retry` is repeated; each further interval is twice as long. A repetition costs one
message: a responder that is still at work ignores it."""

LATE = 1024
"""Remembered ids of ended calls, which tell a late reply from a forged one."""

SWEEP = 10.0
"""Seconds between two searches for abandoned calls, and seconds from the end of such a call until it is dropped."""

PATH_BYTES = HEAD_LIMIT // 2
"""Bytes of a path at most."""

REASONS = {
    GONE: "it answers this topic no more",
    FORGOTTEN: "it acted on this request before, and has forgotten the answer",
    FULL: "it remembers too many requests that may be repeated",
}


class Waiter(Protocol):
    """The waiting side of a call."""

    def ended(self, call: Call) -> None:
        """Called once, when the call has ended: to be quick, and not to raise."""


class Sending:
    """Requests to be published now, on one topic."""

    __slots__ = ("payloads", "topic")

    def __init__(self, topic: str, payloads: list[bytes]) -> None:
        self.topic = topic
        self.payloads = payloads


class Call:
    """Requests to one responder, with ids that count up from `first`; `replies` has the order of the requests.

    The caller gives up at `expires` and asks again at `repeat_at` (monotonic seconds).
    """

    __slots__ = (
        "_interval", "asked", "but", "expires", "extra", "first", "gone", "is_tied", "missing", "repeat_at",
        "replies", "responder", "retry", "tails", "topic", "waiter",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        tails: Sequence[bytes],
        path: tuple[Hop, ...],
        expires: float,
        retry: bool,
        waiter: Waiter,
        responder: str = "",
    ) -> None:
        """`path`: the handlers that wait for this call, outermost first. `responder`: the id to ask; "": any."""
        self.topic = topic
        self.is_tied = bool(responder)
        self.tails = tails
        self.extra = extra_of(retry, path)
        self.expires = expires
        self.retry = retry
        self.waiter = waiter
        self.first = 0
        self.missing = len(tails)
        self.replies: list[Reply | None] = [None] * len(tails)
        self.responder = responder  # its id; "" while a retried call waits for one
        self.asked: tuple[str, ...] = ()  # each responder so far
        self.but = tuple(hop[0] for hop in path if matches(hop[2], topic))  # responders not to be asked
        self.gone: frozenset[int] = frozenset()  # ids of requests refused with GONE
        self.repeat_at, self._interval = inf, REPEAT

    @property
    def is_over(self) -> bool:
        """Whether each request has its reply."""
        return not self.missing

    @property
    def due(self) -> float:
        """When `Requester.advance` has something to do."""
        return min(self.expires, self.repeat_at)

    def ask(self, now: float) -> None:
        """Note that `responder` is asked now, and set the time of the next repetition."""
        if self.responder and self.responder not in self.asked:
            self.asked += (self.responder,)
        if self.retry:
            self.repeat_at = now + self._interval
            self._interval *= 2


class Requester:
    """The calls of one life of an endpoint. The owner must not run two methods at the same time."""

    def __init__(self, directory: Directory, name_of: Callable[[str], str], statistics: Counter[str]) -> None:
        """`name_of` gives the name of the endpoint with an id."""
        self._routes = Routes(directory)
        self._name_of = name_of
        self._statistics = statistics
        self._calls: dict[int, Call] = {}  # by the ids of unanswered requests
        self._waiting: dict[Call, None] = {}  # for a responder to appear
        self._late: OrderedDict[int, None] = OrderedDict()
        self._next = 1
        self._sweep_at = -inf

    def __len__(self) -> int:
        """Requests that have no reply yet."""
        return len(self._calls)

    # ----------------------------------------------------------------------------------------------- asking

    def ask(self, now: float, call: Call, path: tuple[Hop, ...] = ()) -> Sending:
        """Begin a call; returns what to publish. `path` is that of the call.

        Raises NoResponderError, and RequestCycleError if all responders wait for this call.
        """
        if len(call.extra) > PATH_BYTES:
            raise RequestCycleError(f"the patterns of {len(path)} handlers that wait for each other are too long")
        if not call.responder:
            call.responder = self._routes.choose(call.topic, path)
        return self._begin(now, call)

    def responders(self, topic: str, path: tuple[Hop, ...] = ()) -> list[str]:
        """Ids of all responders of a topic. Raises as `ask` does."""
        return self._routes.all(topic, path)

    def _begin(self, now: float, call: Call) -> Sending:
        if now >= self._sweep_at:
            self._sweep(now)
        count = len(call.tails)
        call.first, self._next = self._next, self._next + count
        self._calls.update(dict.fromkeys(range(call.first, self._next), call))
        self._statistics["requests sent"] += count
        self._routes.asked(call.responder, count)
        call.ask(now)
        topic = request_topic(call.responder, call.topic)
        return Sending(topic, encode_requests(call.first, call.expires - now, call.extra, call.tails))

    def _repeat(self, now: float, call: Call) -> list[Sending]:
        """Send the unanswered requests again, to the same responder or another one."""
        topic = request_topic(call.responder, call.topic)
        self._statistics["requests repeated"] += call.missing
        call.ask(now)
        sendings = []
        for place, reply in enumerate(call.replies):
            if reply is None:
                tail = call.tails[place : place + 1]
                payloads = encode_requests(call.first + place, call.expires - now, call.extra, tail)
                sendings.append(Sending(topic, payloads))
        return sendings

    # ---------------------------------------------------------------------------------------------- replies

    def take(self, now: float, peer: str, name: str, payloads: Sequence[bytes]) -> list[Sending]:
        """Take replies from a peer; count and drop payloads that reply to no request of this endpoint.

        Returns requests to publish: if a responder refuses because it answers no more, another responder is asked.
        """
        sendings: list[Sending] = []
        taken = self._take_row(peer, name, payloads)
        for payload in payloads[taken:] if taken else payloads:
            sendings += self._take(now, peer, name, payload)
        return sendings

    def _take_row(self, peer: str, name: str, payloads: Sequence[bytes]) -> int:
        """Take the leading payloads that answer one call in the order of the requests; return the number taken.

        A refusal, an error or any other payload ends the row.
        """
        id = first = first_id(payloads[0])
        call = self._calls.get(id)
        if call is None or call.gone or peer not in call.asked:
            return 0
        calls, replies, start = self._calls, call.replies, call.first
        for payload in payloads:
            answer = answer_of(payload, id)
            if answer is None or calls.get(id) is not call:
                break
            replies[id - start] = Reply(answer[0], name, peer)
            del calls[id]
            id += 1
        if id > first:
            self._answered(call, id - first)
        return id - first

    def _take(self, now: float, peer: str, name: str, payload: bytes) -> list[Sending]:
        try:
            head, body = decode_reply(payload)
        except MalformedError:
            self._statistics["malformed replies"] += 1
            return []
        call = self._calls.get(head.id)
        if call is None:
            self._statistics["replies too late" if head.id in self._late else "replies to unknown requests"] += 1
            return []
        if peer not in call.asked:
            self._statistics["replies from peers that were not asked"] += 1
            return []
        if head.refused != GONE:
            self._answer(call, head.id, self._reply(head, body, name, peer))
        elif peer == call.responder:
            call.gone |= {head.id}
        if call.missing and len(call.gone) == call.missing:
            call.but += (call.responder,)
            return self._ask_another(now, call, _nobody(name))
        return []

    def _reply(self, head: ReplyHead, body: bytes, name: str, peer: str) -> Reply:
        error: RequestError | None = None
        if head.error == CYCLE:
            error = RequestCycleError(head.message, name)
        elif head.error:
            error = RemoteError(name, head.error, head.message)
        elif head.refused:
            error = RequestRefusedError(f"{name} refused: {REASONS.get(head.refused, head.refused)}", name)
        if error is None:
            try:
                return Reply(decode_body(body, head.is_json), name, peer)
            except MalformedError:
                self._statistics["malformed replies"] += 1
                error = RemoteError(name, "MalformedError", "its answer is no JSON document, as it claims to be")
        return Reply(None, name, peer, error)

    def _answer(self, call: Call, id: int, reply: Reply) -> None:
        del self._calls[id]
        call.replies[id - call.first] = reply
        if call.gone:
            call.gone -= {id}
        self._answered(call, 1)

    def _answered(self, call: Call, count: int) -> None:
        call.missing -= count
        self._routes.answered(call.responder, count)
        if not call.missing:
            self._waiting.pop(call, None)  # a former responder answered after all
            self._statistics["requests answered"] += len(call.tails)
            call.waiter.ended(call)

    # ------------------------------------------------------------------------------------ losses and time

    def lost(self, now: float, news: PeerRemoved) -> list[Sending]:
        """A peer has left: end its calls, or ask another responder where they may be retried."""
        sendings: list[Sending] = []
        for call in dict.fromkeys(call for call in self._calls.values() if call.responder == news.peer):
            error: RequestError = ResponderLostError(
                f"{news.name} left ({news.reason}) before it answered; it may have acted; retry=True asks another one",
                news.name,
            )
            if call.retry:
                sendings += self._ask_another(now, call, error)
            else:
                self._fail(call, error)
        self._routes.forget(news.peer)
        return sendings

    def _ask_another(self, now: float, call: Call, error: RequestError) -> list[Sending]:
        """Move a call to another responder; if none is known it waits for one, or fails with this error."""
        self._routes.answered(call.responder, call.missing)
        call.gone = frozenset()
        call.responder = responder = "" if call.is_tied else self._routes.another(call.topic, call.but)
        if responder:
            self._waiting.pop(call, None)
            self._routes.asked(responder, call.missing)
            return self._repeat(now, call)
        if call.retry:
            self._waiting[call] = None
        else:
            self._fail(call, error)
        return []

    def appeared(self, now: float, peer: str) -> list[Sending]:
        """A peer answers new topics: ask it the waiting calls again."""
        sendings: list[Sending] = []
        for call in list(self._waiting):
            call.but = tuple(other for other in call.but if other != peer)
            sendings += self._ask_another(now, call, _nobody(self._name_of(peer)))
        return sendings

    def advance(self, now: float, call: Call) -> list[Sending]:
        """Do what is due for a call: give it up, or repeat it."""
        if call.is_over or now < call.due:
            return []
        if now < call.expires:
            if call.responder:
                return self._repeat(now, call)
            call.ask(now)
            return []
        name = self._name_of(call.responder) if call.responder else ""
        who = f"{name} did not answer" if name else "no responder was found"
        self._fail(call, RequestTimeoutError(f"{call.topic!r:.80}: {who} in time; it may have acted", name))
        return []

    def drop(self, call: Call, error: GlueError) -> None:
        """End a call that its caller no longer waits for."""
        if not call.is_over:
            self._fail(call, error)

    def _sweep(self, now: float) -> None:
        """End abandoned calls, which expired more than SWEEP ago, such as the call of an iterator never read."""
        self._sweep_at = now + SWEEP
        for call in dict.fromkeys(self._calls.values()):
            if call.expires + SWEEP < now:
                self._fail(call, RequestTimeoutError("nobody waits for it"))

    def drop_all(self, error: GlueError) -> None:
        """End all calls."""
        for call in dict.fromkeys(self._calls.values()):
            self._fail(call, error)

    def _fail(self, call: Call, error: GlueError) -> None:
        """End a call; its unanswered requests fail with this error."""
        name = self._name_of(call.responder) if call.responder else ""
        self._waiting.pop(call, None)
        self._routes.answered(call.responder, call.missing)
        self._statistics["requests unanswered"] += call.missing
        for place, reply in enumerate(call.replies):
            if reply is None:
                id = call.first + place
                del self._calls[id]
                self._late[id] = None
                call.replies[place] = Reply(None, name, call.responder, error)
        while len(self._late) > LATE:
            self._late.popitem(last=False)
        call.missing = 0
        call.waiter.ended(call)


def _nobody(name: str) -> RequestError:
    return NoResponderError(f"{name} answers this topic no more, and no other responder is known", name)
