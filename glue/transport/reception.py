"""The receiving end of channels: hands frames up in order, recovers frames by FEC, and decides on acknowledgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from glue.contract import FrameGap, Inbound, Upward
from glue.transport.acknowledger import Acknowledger
from glue.transport.best_effort import BestEffort
from glue.transport.fec.decoder import Decoder, DecoderMemory
from glue.transport.incoming import BUDGET, GapBudget, IncomingChannel, IncomingPeer
from glue.transport.wire import BEST, DATA, OPEN, PARITY, SKIP, decode_members

INCOMING = 256  # channels remembered per peer: more than a peer has alive (64 groups, and a unicast one of each class)
FARTHEST = 1 << 32  # frames that a peer may give up at once: hours of the fastest stream

_ATTEMPT, _AGE, _CHANNEL, _SEQUENCE = map(DATA.place, ("attempt", "age_ms", "channel", "sequence"))  # as in a group
_ACK_CHANNEL, _ACK_NEXT, _ACK_HELD = map(DATA.place, ("ack_channel", "ack_next", "ack_held_us"))
_parity_channel, _opened = PARITY.getter("channel"), OPEN.getter("channel")
_skipped, _best_age = SKIP.getter("channel", "sequence"), BEST.getter("age_ms")

Handler = Callable[[float, Inbound, list[Any], IncomingPeer, list[Upward]], None]
"""Takes a run of frames and its entry, which is well-formed, from this source; what goes up is appended to the list."""


Carried = tuple[float, str, int, int, int]
"""An acknowledgement that came with data: when, from whom, of which channel, up to where, and held how long."""


class Reception:
    """The receiving ends of all channels, as far as they share anything; `handlers` by kind of frame."""

    __slots__ = (
        "_acknowledger", "_best_effort", "_budget", "_decoder_memory", "_id", "_statistics", "carried", "handlers",
    )  # fmt: skip

    def __init__(
        self, endpoint_id: str, statistics: Counter[str], acknowledger: Acknowledger, best_effort: BestEffort
    ) -> None:
        self.carried: list[Carried] = []  # not yet taken
        self.handlers: dict[str, Handler] = {
            "data": self._on_data,
            "group": self._on_group,
            "parity": self._on_parity,
            "open": self._on_open,
            "skip": self._on_skip,
            "best": self._on_best,
        }
        self._id = endpoint_id
        self._best_effort = best_effort
        self._statistics = statistics
        self._acknowledger = acknowledger
        self._budget = GapBudget()  # for frames behind gaps
        self._decoder_memory = DecoderMemory()  # for repair symbols, and frames that they may need

    # ------------------------------------------------------------------------------------- kinds of frames

    def _on_data(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        if entry[_ACK_CHANNEL]:
            self.carried.append((now, run.peer, entry[_ACK_CHANNEL], entry[_ACK_NEXT], entry[_ACK_HELD]))
        channel = entry[_CHANNEL]
        incoming = source.use(channel) or self._open(source, run.peer, channel)
        self._take(now, run, incoming, entry[_ATTEMPT], entry[_AGE], entry[_SEQUENCE], up)

    def _on_group(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        incoming = source.use(entry[_CHANNEL])
        if incoming is None:
            self._statistics["frames of groups not joined"] += len(run.bodies)
            return
        self._take(now, run, incoming, entry[_ATTEMPT], entry[_AGE], entry[_SEQUENCE], up)

    def _on_parity(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        incoming = source.use(_parity_channel(entry))
        if incoming is None:
            self._statistics["parity of channels not known"] += len(run.bodies)
            return
        if incoming.decoder is None:
            incoming.decoder = Decoder(self._decoder_memory, self._statistics)
        incoming.decoder.add(now, entry, run.bodies, incoming.promised, incoming.missing)
        self._decode(now, run, incoming, incoming.decoder, 0, up)

    def _on_open(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        for offset, body in enumerate(run.bodies):
            members = decode_members(body)
            if members is None:
                self._statistics["malformed entries"] += 1
            elif self._id in members:
                channel = _opened(entry) + offset
                incoming = source.use(channel) or self._open(source, run.peer, channel)
                incoming.members = len(members)
                self._acknowledger.now(incoming)

    def _on_skip(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        """Go on from a later frame: the sender gave up what is missing before it."""
        channel, sequence = _skipped(entry)
        incoming = source.use(channel)
        if incoming is None or sequence > incoming.next + FARTHEST:
            self._statistics["frames of groups not joined" if incoming is None else "malformed entries"] += 1
            return
        given_up, ready = incoming.skip(now, sequence)
        if given_up:
            self._statistics["frames given up by their sender"] += given_up
            up.append(FrameGap(incoming.peer, given_up, "given up"))
        up += ready
        self._statistics["frames received"] += sum(len(part.bodies) for part in ready)
        self._acknowledger.now(incoming)

    def _on_best(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        up += self._best_effort.take(run, _best_age(entry), source)

    # -------------------------------------------------------------------------------------------- channels

    def _open(self, source: IncomingPeer, peer: str, channel: int) -> IncomingChannel:
        """The receiving end of a channel that is new here."""
        if len(source.channels) >= INCOMING:
            self._forget_one(source)
        incoming = source.channels[channel] = IncomingChannel(peer, channel, self._budget)
        return incoming

    def _forget_one(self, source: IncomingPeer) -> None:
        """Forget the least recently used channel without a gap; if all have gaps, the least recently used of all.

        Frames behind a gap are acknowledged, and the sender may rely on them. Live channels are far fewer than
        `INCOMING`, and a live channel with a gap is used several times a second. Therefore, if all have gaps, the
        channel that is forgotten is dead.
        """
        channels = source.channels
        found = next((number for number, incoming in channels.items() if not incoming.ranges), next(iter(channels)))
        forgotten = channels.pop(found)
        if forgotten.ranges:
            self._statistics["frames forgotten with their channel"] += forgotten.ranges.size
        forgotten.drop()
        self._statistics["channels forgotten"] += 1

    # ---------------------------------------------------------------------------------------------- frames

    def _take(
        self,
        now: float,
        run: Inbound,
        incoming: IncomingChannel,
        attempt: int,
        age_ms: int,
        sequence: int,
        up: list[Upward],
    ) -> None:
        """Hand up what is in order, and settle when to acknowledge."""
        run.age = age_ms / 1000
        count = len(run.bodies)
        if incoming.advance(now, sequence, count):
            up.append(run)
            self._statistics["frames received"] += count
            self._acknowledger.taken(now, incoming, count, attempt > 0)
        elif self._budget.held > BUDGET and sequence != incoming.next:
            self._statistics["frames beyond the budget for gaps"] += count
            return
        else:
            self._take_apart(now, run, incoming, attempt, sequence, up)
        if incoming.decoder is not None:
            self._keep(now, run, incoming, incoming.decoder, sequence, attempt, up)

    def _take_apart(
        self, now: float, run: Inbound, incoming: IncomingChannel, attempt: int, sequence: int, up: list[Upward]
    ) -> None:
        """Take a run with duplicates, or with a gap in or before it: hand up all frames that are in order."""
        ready = incoming.take(now, run, sequence)
        for part in ready:
            up.append(part)
            self._statistics["frames received"] += len(part.bodies)
        if incoming.outcome:
            self._statistics[incoming.outcome] += 1
        at_once = attempt > 0 or not ready or incoming.outcome != "" or incoming.ranges.size > 0
        self._acknowledger.taken(now, incoming, len(run.bodies), at_once)

    def _keep(
        self,
        now: float,
        run: Inbound,
        incoming: IncomingChannel,
        decoder: Decoder,
        sequence: int,
        attempt: int,
        up: list[Upward],
    ) -> None:
        """Give frames to the FEC decoder: they may recover others, or show that a recovered frame was only late."""
        if incoming.outcome and not attempt:
            incoming.recovered -= decoder.came_late(sequence, len(run.bodies))
        decoder.keep(run, sequence)
        if decoder.waiting:
            self._decode(now, run, incoming, decoder, attempt, up)
        if decoder.unused:
            decoder.drop()
            incoming.decoder = None

    def _decode(
        self, now: float, run: Inbound, incoming: IncomingChannel, decoder: Decoder, attempt: int, up: list[Upward]
    ) -> None:
        """Take what FEC recovers, now that `run` has come; the sender knows what was lost if that is a resend."""
        for sequence, frame in decoder.decoded(now, incoming.channel, incoming.missing, run):
            incoming.recovered += not attempt
            self._statistics["frames recovered by FEC"] += 1
            self._take(now, frame, incoming, 1, int(frame.age * 1000), sequence, up)
            incoming.newest_decoded(now)
