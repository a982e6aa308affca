"""The exam: peers ask each other for sections of facts, and send pings to measure the ways between them.

`glue doctor` and other tools of operators ask. A question goes to all by multicast, then by unicast to those that have
not answered. Each endpoint answers by unicast, with what the functions of its endpoint tell (`sections`). In a round,
each endpoint sends numbered pings to its peers, by multicast and by unicast, of two sizes. The receiver counts what
comes, so each direction is measured by itself.

Only peers are answered, at addresses that have credit, and a limited number of times a second. Without `is_open` the
exam answers nothing. Everything kept is bounded.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import orjson

from glue.contract import Inbound
from glue.discovery import exam_wire as wire
from glue.discovery.control import ControlSender
from glue.discovery.exam_round import Links, RoundSender
from glue.discovery.inquiry import Inquiry
from glue.discovery.membership import Membership
from glue.discovery.peers import KnownPeer
from glue.discovery.wire import EXAMINE, Envelope

INQUIRIES = 16  # questions of this endpoint at once; the oldest end early
WAITING = 64  # questions of others that wait for their answer
PROMPT = 8  # with more peers the answers are spread over
SPACING = 0.001  # so many seconds a peer: an answer of three datagrams takes some 0.3 ms at 100 Mb/s
PARTS_A_SECOND, PARTS_AT_ONCE = 64.0, 64.0  # datagrams of answers: 64 x 1,400 bytes are 90 kB a second
ROUND_SPACING = 0.5  # seconds from one round to the next

Sections = Callable[[str], Any]
"""Returns what JSON can hold: a section of this name; None for one that is not known."""


class Exam:
    """The exam at one endpoint. `ask` and `start_round` may be called from any thread; then a turn is due."""

    def __init__(self, members: Membership, sender: ControlSender, statistics: Counter[str], random: Random) -> None:
        self.sections: Sections | None = None
        self.is_open = True
        self.is_multicast = True
        self.size = 0  # of the largest body; 0 before the network is known
        self.orders: deque[Inquiry | wire.Round] = deque()
        self.links = Links()
        self._members = members
        self._sender = sender
        self._statistics = statistics
        self._random = random
        self._inquiries: dict[int, Inquiry] = {}
        self._waiting: list[tuple[float, str, wire.Ask]] = []
        self._round: RoundSender | None = None
        self._round_at, self._round_number = -math.inf, 0  # when the latest round began
        self._now = 0.0  # of the latest call, on the layer's clock
        self._allowed, self._allowed_at = PARTS_AT_ONCE, -math.inf
        self.due = math.inf  # on the layer's clock; `orders` are due at once

    # -------------------------------------------------------------------------------------- what is asked

    def ask(self, sections: Sequence[str], timeout: float) -> Inquiry:
        """Ask all peers for sections; the caller has a turn run, and reads the answers from the result."""
        inquiry = Inquiry(wire.Ask(self._number(), wire.names(sections)), timeout)
        self.orders.append(inquiry)
        return inquiry

    def start_round(self, pings: int) -> int:
        """Have all endpoints send so many pings to each of their peers; returns the number of the round."""
        order = wire.Round(self._number(), pings)
        self.orders.append(order)
        return order.number

    def _number(self) -> int:
        return self._random.randrange(1, wire.MOST_NUMBER)

    def is_due(self, now: float) -> bool:
        """Whether `advance` has something to do (monotonic seconds, on the layer's clock)."""
        return now >= self.due or bool(self.orders)

    def advance(self, now: float) -> None:
        """Send what is due."""
        self._now = now
        while self.orders:
            order = self.orders.popleft()
            if isinstance(order, Inquiry):
                while len(self._inquiries) >= INQUIRIES:
                    self._inquiries.pop(next(iter(self._inquiries))).end()
                self._inquiries[order.number] = order
                order.begin(now)
            else:
                for _ in range(2):  # any may be lost
                    self._to_all(now, order.body)
                self._begin_round(now, order)
        for inquiry in list(self._inquiries.values()):
            self._follow(now, inquiry)
        waiting, self._waiting = self._waiting, []
        for at, peer, ask in waiting:
            if now >= at:
                self._answer(now, peer, ask)
            else:
                self._waiting.append((at, peer, ask))
        if self._round is not None and now >= self._round.due:
            self._send_pings(now, self._round)
        self._set_due()

    def stop(self) -> None:
        """End all questions and rounds, because this endpoint leaves."""
        for inquiry in self._inquiries.values():
            inquiry.end()
        self._inquiries.clear()
        self._waiting.clear()
        self._round = None
        self.is_open = False
        self._set_due()

    def _set_due(self) -> None:
        waiting = min((at for at, _, _ in self._waiting), default=math.inf)
        asking = min((inquiry.due for inquiry in self._inquiries.values()), default=math.inf)
        self.due = min(waiting, asking, math.inf if self._round is None else self._round.due)

    def _to_all(self, now: float, body: bytes) -> None:
        """Send by multicast, and by unicast to the peers that multicast does not reach."""
        if self.is_multicast:
            self._sender.send_all(EXAMINE, body)
        for peer in list(self._members.remote.values()):
            self._sender.send(now, peer, EXAMINE, body)

    def _follow(self, now: float, inquiry: Inquiry) -> None:
        """Ask, ask again, or end."""
        table = self._members.table
        if now >= inquiry.ends_at or inquiry.is_answered(table):
            del self._inquiries[inquiry.number]
            inquiry.end()
        elif now >= inquiry.ask_at:
            if inquiry.tries == 0:
                self._to_all(now, inquiry.ask.body)
            else:
                for id in inquiry.missing(table):
                    self._sender.send(now, table[id], EXAMINE, inquiry.ask.body)
            inquiry.asked(now)
            if not table:
                self._follow(now, inquiry)  # no peer is there to answer

    # ------------------------------------------------------------------------------------ what comes in

    def receive(self, now: float, item: Inbound, envelope: Envelope, body: bytes) -> None:
        """Take one `examine` frame."""
        if (peer := self._members.known(now, item, envelope.echo)) is None:
            return
        content = wire.parse(body)
        if content is None:
            self._statistics["malformed body"] += 1
            return
        self._sender.receive(now, peer, item, envelope)
        if isinstance(content, wire.Part):
            self._take(peer, content)
        elif not self.is_open:
            self._statistics["exam refused"] += 1
        elif isinstance(content, wire.Ask):
            self._wait_to_answer(now, peer, content)
        elif isinstance(content, wire.Round):
            self._begin_round(now, content)
        elif isinstance(content, wire.Ping):
            self.links.receive(now, peer.id, content)
            if content.by == wire.UNICAST:
                self._sender.send(now, peer, EXAMINE, wire.Pong(content.number, content.place).body)
        elif not self.links.receive_pong(now, peer.id, content):
            self._statistics["answer to no question"] += 1
        self._set_due()

    def _take(self, peer: KnownPeer, part: wire.Part) -> None:
        inquiry = self._inquiries.get(part.number)
        if inquiry is None or part.section not in inquiry.ask.sections:
            self._statistics["answer to no question"] += 1
        elif not inquiry.take(peer.id, peer.name, part):
            self._statistics["malformed body"] += 1
        elif inquiry.is_answered(self._members.table):
            del self._inquiries[part.number]
            inquiry.end()

    # ------------------------------------------------------------------------------------------ answers

    def _wait_to_answer(self, now: float, peer: KnownPeer, ask: wire.Ask) -> None:
        """Answer at once, or with many peers after a random delay, because all of them answer."""
        if any(other == ask and id == peer.id for _, id, other in self._waiting):
            return
        if len(self._waiting) >= WAITING:
            self._statistics["reply withheld"] += 1
            return
        peers = len(self._members.table)
        delay = self._random.uniform(0, peers * SPACING) if peers > PROMPT else 0.0
        self._waiting.append((now + delay, peer.id, ask))

    def _answer(self, now: float, id: str, ask: wire.Ask) -> None:
        peer = self._peer(id)
        if peer is None or self.sections is None:
            return
        for section in ask.sections:
            try:
                document = orjson.dumps(self.sections(section), option=orjson.OPT_NON_STR_KEYS)
            except Exception:  # a function of ours failed, or told what JSON cannot hold: the endpoint must not end
                self._statistics["exam failed"] += 1
                continue
            parts = list(wire.parts_of(ask.number, section, document, self.size))
            if not parts:
                self._statistics["exam failed"] += 1
            elif self._is_allowed(now, len(parts)):
                for part in parts:
                    self._sender.send(now, peer, EXAMINE, part.body)
            else:
                self._statistics["reply withheld"] += 1

    def _is_allowed(self, now: float, parts: int) -> bool:
        """Whether so many datagrams may go now (a token bucket)."""
        if self._allowed_at > -math.inf:
            self._allowed = min(self._allowed + (now - self._allowed_at) * PARTS_A_SECOND, PARTS_AT_ONCE)
        self._allowed_at = now
        if self._allowed < parts:
            return False
        self._allowed -= parts
        return True

    # ------------------------------------------------------------------------------------------- rounds

    def _begin_round(self, now: float, order: wire.Round) -> None:
        if self._round_number == order.number:
            return
        if now < self._round_at + ROUND_SPACING:
            self._statistics["reply withheld"] += 1
            return
        self._round_at, self._round_number = now, order.number
        peers = list(self._members.table)
        self._random.shuffle(peers)
        self._round = RoundSender(now, order, peers)
        self._ask_proofs(now, self._round)

    def _ask_proofs(self, now: float, running: RoundSender) -> None:
        """Ask peers to return a token, as long as they have not: until then they have credit for few pings, or none.

        Each multicast ping of theirs gives credit for one more question, so that one that was lost, or had no credit,
        does not look like a blocked way.
        """
        for id in running.chosen:
            if (peer := self._peer(id)) is not None and not peer.is_verified:
                self._sender.ask_proof(now, peer)

    def _send_pings(self, now: float, running: RoundSender) -> None:
        self._ask_proofs(now, running)
        if not running.has_begun:
            running.peers = [id for id in running.chosen if (peer := self._peer(id)) is not None and peer.is_verified]
            self.links.begin(running.order, running.peers)
        place = running.next(now)
        number, pings = running.order.number, running.order.pings
        self.links.sent(now, place)
        if self.is_multicast:
            self._sender.send_all(EXAMINE, wire.Ping(number, place, pings, wire.MULTICAST).body(self.size))
        body = wire.Ping(number, place, pings, wire.UNICAST).body(self.size)
        for id in running.peers:
            if (peer := self._peer(id)) is not None:
                self._sender.send(now, peer, EXAMINE, body)
        if running.is_over:
            self._round = None

    def _peer(self, id: str) -> KnownPeer | None:
        return self._members.table.get(id)

    def describe_links(self) -> dict[str, Any]:
        """For a section: return what this endpoint knows of the ways from and to its peers, for a section."""
        now, peers = self._now, []
        for id, peer in self._members.table.items():
            age = now - peer.overheard
            facts = {
                "id": id,
                "name": peer.name,
                "address": list(peer.address[:2]),
                "silent": round(now - peer.received_at, 3),
                "announced": round(age, 3) if age < math.inf else None,
                "proven": peer.is_proven,
                "verified": peer.is_verified,
                "remote": id in self._members.remote,
            }
            peers.append(facts | self.links.of(id))
        return {"round": self.links.sent_number, "pings": self.links.pings, "sent": self.links.count, "peers": peers}
