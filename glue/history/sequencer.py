"""Puts the messages of many streams in order for one reader: what comes next is ready, what is early is held."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from math import inf

from glue.contract import Delivery, Missed
from glue.history.source import FOUND_LATE, GONE, HELD, LATE, LEFT, REFUSED, SCAN, STREAMS, Source, weight
from glue.history.stream import Key, Stream, end_of, tail
from glue.history.table import Streams
from glue.history.wire import EARLIEST, FROM, LAST, LATEST, SINCE, Start
from glue.topics.copies import is_new, tag_of


class Sequencer:
    """The streams of one reader, what of them is ready to be read, and what is held."""

    def __init__(self, start: Start, limit: int, statistics: Counter[str], began: tuple[float, float]) -> None:
        """`limit` is how many bytes wait at most to be read; `began` is when, on the local clock and in Unix time."""
        self.start = start
        self._late, self._unix_time = began[0] + LATE, began[1]
        self.ready: deque[Delivery | Missed] = deque()
        self.waiting = 0  # bytes of what is ready, or was taken and is being read
        self.pushed = 0  # messages that were ever ready, or left out
        self.admits: Callable[[Delivery], bool] | None = None  # whether messages are not left out; None: all are wanted
        self._limit = limit
        self._statistics = statistics
        self._streams = Streams(STREAMS)
        self._has_forgotten = False  # whether a stream that is new here may have been read before
        self._silent: dict[str, Source] = {}  # sources of silent peers, which may come back
        self._lives: dict[str, int] = {}  # of publishers that ever offered their history
        self._held = 0  # bytes
        self._seen: OrderedDict[str, None] = OrderedDict()  # delayed messages, which may have been released twice

    def start_of(self, now: float) -> Start:
        """Where to begin with a peer that is met now: the messages "from now on" count from the reader's beginning."""
        is_late = self.start[0] == LATEST and now >= self._late
        return (SINCE, int(self._unix_time * 1e6)) if is_late else self.start

    def start_with(self, now: float, peer: str, life: int) -> Start:
        """Where to begin with a life that is met now: of one that began after this reader, all is wanted."""
        return (EARLIEST, 0) if self._lives.get(peer, life) != life else self.start_of(now)

    def begins_with(self, now: float, key: Key, source: Source | None) -> Start:
        """Where the history of a stream begins, whether its publisher has offered it or not."""
        return self.start_with(now, key[0], key[1]) if source is None else source.start

    def has_met_all(self) -> None:
        """Note that all peers present when the reader began are known: further ones are met late."""
        self._late = -inf

    def _open(self, key: Key, name: str, teller: str = "") -> Stream:
        """Begin to follow a stream; `teller` is a keeper that tells of it. It may find no room, and be forgotten."""
        stream = Stream(name, max(1, self.start[1]) if self.start[0] == FROM else 0)
        stream.teller, stream.is_unsure = teller, bool(teller)
        if (left := self._streams.add(key, stream)) is not None:
            cause = "dropped: only one keeper told of them" if left[1].is_unsure else "forgotten: too many"
            self._statistics[f"streams of history {cause}"] += 1
            self._has_forgotten |= not left[1].is_unsure
            self._held -= sum(weight(delivery) for delivery in left[1].held)
        return stream

    def _take(self, key: Key, stream: Stream, delivery: Delivery, is_narrow: bool) -> None:
        """Take messages of history: what is missing before them is gone, unless others may have it (`is_narrow`)."""
        if not stream.next and stream.held and stream.held[0].sequence < delivery.sequence:  # it came live before
            stream.next = stream.held[0].sequence
            self._drain(stream)
        fresh = tail(delivery, stream.next)
        if fresh is None:
            self._statistics["messages of history known"] += len(delivery.payloads)
            self._find_late(key, stream, delivery.sequence)
            return
        if stream.next and fresh.sequence > stream.next:
            if is_narrow:
                stream.want = max(stream.want, end_of(fresh))
                self._hold(stream, fresh)
                return
            self._miss(key, stream, fresh.sequence, GONE)
        stream.next = end_of(fresh)
        if stream.is_live:
            self._statistics["messages recovered from history"] += len(fresh.payloads)
        self._push(fresh)
        self._drain(stream)

    def _take_kept(self, key: Key, stream: Stream, delivery: Delivery) -> None:
        """Take messages of a keeper; at the beginning, hold them if other keepers may have earlier ones."""
        if stream.is_unsure:
            self._streams.confirm(key, stream, is_live=False)
        if delivery.published_at < stream.oldest and not stream.is_live:
            if delivery.sequence <= (stream.next or stream.first):
                stream.leave_out(end_of(delivery))
                self._drain(stream)
        elif not stream.next and delivery.sequence > stream.first:
            stream.want = max(stream.want, end_of(delivery))
            self._hold(stream, delivery)
        else:
            self._take(key, stream, delivery, True)

    def _first(self, stream: Stream, told: int, is_beginning: bool) -> int:
        """The number at which a stream begins of which a keeper told one; its list may be behind what came live."""
        if not stream.held:
            return max(1, told)
        live = stream.held[0].sequence
        if is_beginning and self.start[0] == LAST:
            told = max(told, live - self.start[1])
        return max(1, min(told, live))

    def _may_begin_earlier(self, stream: Stream, source: Source) -> bool:
        """Whether `start` wants what keepers may have before the first message that a publisher has of a stream."""
        kind, value = source.start
        if kind == SINCE:
            stream.oldest = value / 1e6
        return not stream.next and (kind in (EARLIEST, SINCE) or (kind == LAST and source.state == SCAN))

    def _hold_beginning(self, stream: Stream, delivery: Delivery, source: Source) -> bool:
        """Hold a publisher's first messages if keepers may have earlier ones; returns whether they are held."""
        if delivery.sequence <= 1 or not self._may_begin_earlier(stream, source):
            return False
        if source.start[0] == LAST:
            stream.first = max(1, end_of(delivery) - source.start[1])
        stream.want = max(stream.want, end_of(delivery))
        stream.is_kept = True
        self._hold(stream, delivery)
        return True

    def _follow(self, stream: Stream, delivery: Delivery) -> None:
        """Hand over live messages of a stream without known history, except messages that history gave before."""
        fresh = tail(delivery, stream.next)
        if fresh is None:
            self._statistics["messages of history known"] += len(delivery.payloads)
            return
        self._begin(stream, fresh)
        stream.next = stream.want = end_of(fresh)
        self._hand_over(fresh)

    def _begin(self, stream: Stream, delivery: Delivery) -> None:
        """Note where a stream begins that comes live, without known history."""
        if not stream.next and not self._has_forgotten:
            stream.began = delivery.sequence

    def _hand_over(self, delivery: Delivery) -> None:
        """Hand over messages that no history has; tell of them if there is no room."""
        if self._has_room():
            self._push(delivery)
        else:
            self._tell(delivery, len(delivery.payloads), REFUSED)

    def _may_follow(self, stream: Stream, delivery: Delivery) -> bool:
        """Whether earlier messages may come, live or from history, or history has to serve this one again.

        Best-effort messages overtake reliable ones.
        """
        return delivery.sequence > (stream.next or 1) or (not stream.next and not self._has_room())

    def _of(self, peer: str, life: int) -> list[tuple[Key, Stream]]:
        """The streams of one life of a publisher."""
        return [(key, stream) for key, stream in self._streams if key[0] == peer and key[1] == life]

    def _hold(self, stream: Stream, delivery: Delivery) -> None:
        """Hold what came too early. Without room, what is later gives way; history is asked for it again."""
        size, held = weight(delivery), stream.held
        while self._held + size > HELD and held and held[-1].sequence > delivery.sequence:
            later = held.pop()
            self._held -= weight(later)
            self._statistics["messages left to history"] += len(later.payloads)
        if self._held + size > HELD:
            self._statistics["messages left to history"] += len(delivery.payloads)
        elif stream.hold(delivery):
            self._held += size
        else:
            self._statistics["messages of history known"] += len(delivery.payloads)

    def _let_go(self, stream: Stream, before: float = inf) -> None:
        """Hand over what is held of the numbers before this one; what is missing among them does not come."""
        held = stream.held
        while held and held[0].sequence < before:
            delivery = held.pop(0)
            self._held -= weight(delivery)
            fresh = tail(delivery, stream.next)
            if fresh is not None:
                self._begin(stream, fresh)
                stream.next = end_of(fresh)
                self._push(fresh)

    def _drain(self, stream: Stream) -> None:
        """Hand over what is held and comes next."""
        while stream.held and stream.held[0].sequence <= (stream.next or stream.first):
            self._let_go(stream, stream.held[0].sequence + 1)

    def _has_room(self) -> bool:
        return self.waiting < self._limit

    def _push(self, delivery: Delivery) -> None:
        if (tag := tag_of(getattr(delivery, "metadata", None))) is not None and not is_new(self._seen, tag):
            self._statistics["copies of delayed messages dropped"] += len(delivery.payloads)
            return
        self.pushed += len(delivery.payloads)
        if self.admits is not None and not self.admits(delivery):
            return
        delivery.to_owned()
        self.waiting += weight(delivery)
        self.ready.append(delivery)

    def _miss(self, key: Key, stream: Stream, until: int, cause: str) -> None:
        """Tell that the messages up to before a number will not come."""
        count = until - stream.next
        self._statistics["messages of history gone"] += count
        self.ready.append(Missed(key[2], stream.name, key[0], count, cause, ()))

    def _find_late(self, key: Key, stream: Stream, first: int) -> None:
        """Tell of history that is there from this number on, before what was handed over first: it is too late."""
        if first < stream.began:
            count, stream.began = stream.began - first, first
            self._statistics["messages of history found too late"] += count
            self.ready.append(Missed(key[2], stream.name, key[0], count, FOUND_LATE, ()))

    def _tell(self, like: Delivery, count: int, cause: str) -> None:
        self.ready.append(Missed(like.topic, like.publisher, like.publisher_id, count, cause, ()))

    def read(self, size: int) -> bool:
        """The program is done with so many bytes; returns whether more may be asked for now."""
        was_full = self.waiting * 2 > self._limit
        self.waiting -= size
        return was_full and self.waiting * 2 <= self._limit

    def _abandon(self, key: Key, stream: Stream) -> None:
        """Hand over the held messages of a stream without a server of history, with the gaps in between."""
        if not stream.next and stream.held:
            stream.next = stream.held[0].sequence
        self._drain(stream)
        while (missing := stream.missing()) is not None:
            if stream.next:
                self._miss(key, stream, missing[1] + 1, LEFT)
            stream.next = missing[1] + 1
            self._drain(stream)
