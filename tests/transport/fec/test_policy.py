"""FEC between transports: which losses it recovers, what it costs, and when it is off."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from glue.contract import Inbound, Outbound
from glue.transport.fec.encoder import blocks_of
from glue.transport.fec.policy import symbols_needed
from glue.transport.fec.state import LossMeter
from glue.transport.window import Window
from glue.transport.wire import KEY
from tests.transport.network import Wire

ACROSS = 0.05  # seconds one way


def quiet(receivers: int = 1, delay: float = ACROSS) -> Wire:
    """A sender that adds 25 % repair symbols, and receivers; their round trip is measured, and nothing was lost yet."""
    wire = Wire(1 + receivers, parity=0.25)
    wire.delay = delay
    for _ in range(10):
        wire.publish(0, list(range(1, 1 + receivers)), b"warm up")
        wire.run(0.5)
    wire.heard = {id: [] for id in wire.ids}
    wire.sent.clear()
    for transport in wire.transports.values():
        transport.statistics.clear()
    return wire


def bodies(count: int) -> list[bytes]:
    """Bodies of different lengths that tell their place."""
    return [b"%d" % number * (1 + number % 3) for number in range(count)]


def send(wire: Wire, count: int) -> None:
    """A message of so many frames to all others."""
    wire.send(wire.ids[0], Outbound(tuple(wire.ids[1:]), bodies(count), {"fragment": [0, 9, 99, 0]}))


def lose(wire: Wire, places: Collection[int], victim: int = 1, first: int = 10) -> None:
    """Lose these frames, in their first attempt, on the way to an endpoint."""
    others = wire.loses

    def is_lost(destination: str, entry: list[Any]) -> bool:
        is_first = entry[0] in ("data", "group") and entry[1] == 0
        mine = destination == wire.ids[victim] and is_first and entry[-1] - first in places
        return mine or others(destination, entry)

    wire.loses = is_lost


def count(wire: Wire, number: int, cause: str) -> int:
    return wire.transports[wire.ids[number]].statistics[cause]


def kinds(wire: Wire, kind: str) -> int:
    """How many frames of that kind the first endpoint sent."""
    frames = [item for source, _, item in wire.sent if source == wire.ids[0]]
    return sum(len(item.bodies) for item in frames if item.header[KEY][0] == kind)


@pytest.mark.parametrize("places", [[0], [19], [3, 7], [0, 1, 2, 3, 4], [5, 11, 17, 18, 19]])
def test_fec_recovers_lost_frames_without_a_resend(places: list[int]) -> None:
    wire = quiet()
    lose(wire, places)
    send(wire, 20)
    wire.run(1.5 * ACROSS)  # the way and a half: no answer could have come back
    assert [body for _, body in wire.heard[wire.ids[1]]] == bodies(20)
    wire.run(1)
    assert kinds(wire, "parity") == 5
    assert count(wire, 0, "frames resent") == 0
    assert (
        count(wire, 1, "frames recovered by FEC") == count(wire, 0, "frames lost and recovered by FEC") == len(places)
    )
    assert wire.backlog == 0


def test_decoded_frames_have_the_headers_they_were_sent_with() -> None:
    wire = quiet()
    lose(wire, [4])
    seen: dict[int, list[int]] = {}
    receive = wire.transports[wire.ids[1]].receive

    def spy(now: float, items: list[Any]) -> Any:
        up, down = receive(now, items)
        for run in up:
            if isinstance(run, Inbound):
                seen[run.header[KEY][-1]] = run.header["fragment"]
        return up, down

    wire.transports[wire.ids[1]].receive = spy  # type: ignore[method-assign]
    send(wire, 20)
    wire.run(1)
    assert seen[14] == [0, 9, 99, 4]


def test_only_frames_beyond_the_repair_symbols_are_resent_once() -> None:
    wire = quiet()
    lose(wire, range(3, 12))
    send(wire, 20)
    wire.run(5)
    assert [body for _, body in wire.heard[wire.ids[1]]] == bodies(20)
    assert count(wire, 0, "frames resent") == count(wire, 0, "frames lost") == 9
    assert count(wire, 1, "frames recovered by FEC") == 5  # as soon as the first four had come again
    assert count(wire, 0, "frames lost and recovered by FEC") == 0  # they were known to be lost
    assert wire.backlog == 0


def test_one_repair_symbol_serves_all_members_whatever_each_lost() -> None:
    wire = quiet(receivers=3, delay=0.02)
    for victim, places in ((1, [0, 8]), (2, [3, 4, 5]), (3, [19])):
        lose(wire, places, victim)
    send(wire, 20)
    wire.run(0.03)
    for receiver in (1, 2, 3):
        assert [body for _, body in wire.heard[wire.ids[receiver]]] == bodies(20)
    wire.run(1)
    assert count(wire, 0, "parity frames sent") == 5
    assert count(wire, 0, "frames resent") == 0


def test_a_lone_frame_is_covered_by_a_copy() -> None:
    wire = quiet()
    lose(wire, [0])
    send(wire, 1)
    wire.run(1.5 * ACROSS)
    assert [body for _, body in wire.heard[wire.ids[1]]] == bodies(1)
    assert kinds(wire, "parity") == 1
    wire.run(1)
    assert count(wire, 0, "frames resent") == count(wire, 0, "probes") == 0


def test_messages_close_together_share_a_block() -> None:
    wire = quiet()
    lose(wire, [1])
    for _ in range(4):
        send(wire, 1)
        wire.run(0.001)
    wire.run(1)
    assert kinds(wire, "parity") == 1
    assert count(wire, 1, "frames recovered by FEC") == 1


def test_a_late_frame_is_not_counted_as_lost() -> None:
    wire = quiet()
    receiver, late = wire.transports[wire.ids[1]], list[Inbound]()
    receive = receiver.receive

    def hold(now: float, items: list[Any]) -> Any:
        late.extend(item for item in items if item.header[KEY][0] == "data" and item.header[KEY][-1] == 15)
        return receive(now, [item for item in items if item not in late])

    receiver.receive = hold  # type: ignore[method-assign]
    send(wire, 20)
    wire.run(0.06)
    receiver.receive = receive  # type: ignore[method-assign]
    wire.tell(wire.ids[1], *late)
    wire.run(1)
    assert count(wire, 1, "frames recovered by FEC") == 1
    assert count(wire, 0, "frames lost and recovered by FEC") == 0
    assert [body for _, body in wire.heard[wire.ids[1]]] == bodies(20)


def test_frames_late_again_and_again_are_never_counted_as_lost_twice() -> None:
    lost = []

    class Counting(Window):
        def lost(self, count: int) -> None:
            lost.append(count)

    wire = Wire(2, parity=0.25, loss=0.05, jitter=0.03, window=Counting)
    wire.delay = ACROSS
    for _ in range(200):
        send(wire, 20)
        wire.run(0.2)
    outrun = count(wire, 1, "frames recovered by FEC") - count(wire, 0, "frames lost and recovered by FEC")
    assert outrun > 200
    assert 0.04 < sum(lost) / 4000 < 0.07


def test_a_stream_that_fills_the_window_gets_hardly_any_repair_symbols() -> None:
    wire = quiet()
    for _ in range(100):
        send(wire, 100)
    wire.run(60)
    assert len(wire.heard[wire.ids[1]]) == 10_000
    assert kinds(wire, "parity") <= 64


@pytest.mark.parametrize(("parity", "loss", "most"), [(None, 0.0, 0), (None, 0.001, 20), (0.0, 0.2, 0)])
def test_repair_symbols_follow_the_loss_and_stop_when_switched_off(
    parity: float | None, loss: float, most: int
) -> None:
    wire = Wire(2, parity=parity, loss=loss)
    wire.delay = ACROSS
    for _ in range(100):
        send(wire, 20)
        wire.run(0.2)
    assert kinds(wire, "parity") <= most


def test_fec_starts_and_ends_with_loss() -> None:
    wire = Wire(2)
    wire.delay = ACROSS
    for loss, least, most in ((0.0, 0, 0), (0.1, 500, 2000), (0.0, 0, 1000), (0.0, 0, 0)):
        wire.loss = loss
        for _ in range(200):
            send(wire, 20)
            wire.run(0.2)
        assert least <= kinds(wire, "parity") <= most
        wire.sent.clear()


def test_a_near_link_gets_no_repair_symbols_as_a_resend_is_as_fast() -> None:
    wire = Wire(2, loss=0.1)
    for _ in range(100):
        send(wire, 20)
        wire.run(0.2)
    assert kinds(wire, "parity") == 0


def test_there_are_as_few_repair_symbols_as_the_chance_of_a_resend_allows() -> None:
    assert [symbols_needed(52, loss, 0.01) for loss in (0.01, 0.05, 0.1, 0.2)] == [3, 7, 12, 23]
    assert symbols_needed(1, 0.05, 0.01) == symbols_needed(1, 0.3, 0.01) == 1  # never more than frames
    assert symbols_needed(64, 0.5, 0.01) == 0  # they would hardly ever suffice
    assert symbols_needed(52, 0.1, 0.001) > 12


def test_loss_is_measured_over_the_latest_frames() -> None:
    meter = LossMeter(50)
    meter.lost(5)
    assert meter.share(99, 0) == 0  # not yet known
    assert meter.share(100, 0) == pytest.approx(0.05)
    assert meter.share(100, 5) == pytest.approx(0.1)  # found by probing
    assert meter.share(2000, 5) == pytest.approx(0.005)
    meter.lost(100)
    assert meter.share(2500, 5) > 0.1


def test_a_report_of_more_decoded_frames_than_were_sent_is_refused() -> None:
    wire = quiet()
    sender = wire.ids[0]
    wire.tell(sender, Inbound(wire.ids[1], 1, None, {KEY: ["mended", 11, 0, 4096, 1, 10]}, [b"[]"]))
    assert count(wire, 0, "malformed entries") == 1
    assert count(wire, 0, "frames lost and recovered by FEC") == 0
    wire.tell(sender, Inbound(wire.ids[1], 1, None, {KEY: ["mended", 2, 0, 4096, 1, 10]}, [b"[]"]))
    assert count(wire, 0, "frames lost and recovered by FEC") == 2


def test_a_fresh_frame_behind_an_old_message_is_not_as_old_when_it_is_recovered() -> None:
    wire = quiet()
    send(wire, 600)  # it takes four windows, so its last frames wait for two round trips
    wire.run(0.19)
    lose(wire, [600])
    wire.publish(0, [1], b"fresh")
    wire.run(1.0)
    assert wire.heard[wire.ids[1]][-1][1] == b"fresh"
    assert count(wire, 1, "frames recovered by FEC") == 1
    *_, old, fresh = wire.ages[wire.ids[1]]
    assert fresh < 0.1 < old


@pytest.mark.parametrize(
    ("ages", "blocks"),
    [
        ([0.0] * 10, [(0, 4), (4, 8), (8, 10)]),
        ([5.0, 5.0, 0.0], [(0, 2), (2, 3)]),
        ([0.05, 0.03, 0.01], [(0, 3)]),
        ([4.0, 3.1, 2.9], [(0, 2), (2, 3)]),
        ([1.0], [(0, 1)]),
    ],
)
def test_a_block_has_frames_of_similar_age(ages: list[float], blocks: list[tuple[int, int]]) -> None:
    assert [*blocks_of(100.0, [100.0 - age for age in ages], 4)] == blocks
