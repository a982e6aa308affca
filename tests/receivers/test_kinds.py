"""A kind at its host, on a desk: addresses, timers, what is put away when, what fails, and ways around the outbox."""

from __future__ import annotations

import logging
from math import inf
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
from glue.contract import LARGE, NORMAL, Publication
from glue.endpoint import receiver_kind
from glue.endpoint.receiver_kind import Kind
from glue.model.questions import Unwatch
from glue.receivers.address import parse
from glue.receivers.context import Timer
from glue.receivers.wire import encode_batch
from tests.receivers.desk import HOST, Desk, Shelf


class Keeper:
    """A receiver that keeps what it gets, and fails on "fail"."""

    on_error = "drop"

    def __init__(self, got: list[Any]) -> None:
        self.got = got

    def receive(self, context: Any, message: Any) -> None:
        if message == "fail":
            raise KeyError(message)
        self.got.append(message)


class Place(Desk):
    """A desk with one kind, which serves its partitions."""

    def __init__(self, kind: str = ":sum", dead_letters: str | None = None, made: Any = Keeper) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.kind = Kind(
            self.runtime, kind, lambda: made(self.got), 2, "plant", self.shelf, 5.0, dead_letters, {}
        )  # fmt: skip
        self.runtime.add_kind(self.kind)
        self.answer(self.questions()[1], partitions=2)
        record = {"host": HOST, "life": 7, "epoch": 3}
        self.kind.note([(f"owner/{partition}", record) for partition in range(2)])
        self.run()
        self.asked.clear()

    def send(self, text: str, payload: Any) -> Any:
        self.runtime.send_text(text, payload)
        self.run()
        return self.kind.activations.get(text.partition("/")[2])


# -------------------------------------------------------------------------------------------------------- addresses


def test_a_receiver_talks_within_its_subnet(monkeypatch: pytest.MonkeyPatch) -> None:
    place, asked = Place("plant:sum"), list[Any]()
    place.ask = lambda *question: asked.append(question)  # type: ignore[method-assign]
    assert place.kind.check_send("other/x", [1]) == ("plant:other/x", [1])
    assert place.kind.check_send("b:other/x", 1) == ("b:other/x", 1)
    place.kind.request("other/x", 5, 2.0, ("a/b",))
    place.kind.request(":other/x", 5, 2.0, ())
    assert asked == [(parse("plant:other/x"), 5, 2.0, ("a/b",)), (parse(":other/x"), 5, 2.0, ())]
    assert Place().kind.check_send("other/x", 1) == ("other/x", 1)
    with pytest.raises(glue.PayloadError):
        place.kind.check_send("other/x", object())
    with pytest.raises(glue.ConfigurationError):
        place.kind.check_send("no address", 1)
    monkeypatch.setattr("glue.endpoint.receiver_runtime.WAITING", 0)
    with pytest.raises(glue.WouldBlockError):
        place.kind.check_send("other/x", 1)


def test_a_message_may_be_changed_after_it_was_sent() -> None:
    place, message = Place(), [1]
    for _ in range(3):  # by the outbox of its kind, then by a shorter way
        place.runtime.send_text("sum/x", message)
        message.append(2)
    place.runtime.send_text("sum/x", b"bytes")
    place.run()
    assert place.got == [[1], [1, 2], [1, 2, 2], b"bytes"]


class Text(str):
    """A text of a class of its own."""

    __slots__ = ()


def test_what_is_no_address_is_refused_and_a_text_is_one() -> None:
    place = Place()
    for wrong in (5, None, b"sum/x", "sum", "sum/", "/x", Text("sum")):
        with pytest.raises(glue.ConfigurationError, match=r"^address "):
            place.runtime.send_text(wrong, 1)  # type: ignore[arg-type]
    place.send("sum/x", 1)
    place.send(Text("sum/x"), 2)
    place.send("other/x", 3)
    assert (place.got, place.runtime.outbox.count) == ([1, 2], 1)


def test_what_waits_goes_the_long_way_once_a_receiver_is_put_away() -> None:
    place = Place()
    activation = place.send("sum/x", 1)
    assert activation.is_direct
    place.kind.stop(activation)
    place.runtime.send_text("sum/x", 2)  # while it is about to be put away
    place.run()
    assert place.got == [1, 2]


def test_a_publication_has_the_class_of_its_largest_message() -> None:
    place = Place()
    for sizes, length, priority in (([3], 3, NORMAL), ([3, 3], None, NORMAL), ([3, 40_000, 3], None, LARGE)):
        place.runtime._publish("t", [bytes(size) for size in sizes])
        (found,) = place.orders(Publication)
        assert (found.length, found.priority, found.published_at) == (length, priority, 1100.0)


# ----------------------------------------------------------------------------------------------------------- timers


def test_timers_ring_in_the_order_of_their_times_however_many_were_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    activation = place.send("sum/x", "first")
    monkeypatch.setattr(place.kind, "_timers_most", 7)
    seconds = (0.5, 5.0, 1.0, 5.5, 6.0, 1.5, 2.0)
    timers = [activation.add_timer(after, after, False) for after in seconds]
    timers[0].stop()
    activation.add_timer(2.5, 2.5, False)  # for which the others are looked through
    assert place.kind.due == 101.0
    timers[5].stop()
    timers[1].reset(4.0)
    place.got.clear()
    for seconds_later, rung in ((4, [1.0, 2.0, 2.5, 5.0]), (2, [5.5, 6.0])):
        for _ in range(seconds_later):
            place.tick(1.0)
        assert place.got == rung
        place.got.clear()
    assert place.kind.due == inf
    place.alarms()
    activation.add_timer(0.05, None, False)  # sooner than the next look at what is due
    assert place.alarms() == [0.05]


def test_only_a_durable_timer_of_a_partition_here_wakes_who_was_put_away(monkeypatch: pytest.MonkeyPatch) -> None:
    place, woken = Place(), list[str]()
    monkeypatch.setattr(place.kind, "wake", woken.append)
    for number, (partition, is_durable) in enumerate(((0, True), (0, False), (1, True))):
        away: Any = SimpleNamespace(id=f"id{number}", partition=partition, timer_changed=None)
        place.kind.arm(Timer(away, number, 101.0, "ring", is_durable))
    place.tick(0.9)
    assert woken == []
    del place.kind._ready[1]
    place.tick(0.1)
    assert (woken, place.kind.due) == (["id0"], inf)


# ------------------------------------------------------------------------------------------------- what is put away


def test_idle_receivers_are_looked_for_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    place, looks = Place(), list[float]()
    monkeypatch.setattr(place.kind, "_put_away", lambda now: looks.append(round(now - 100.0, 6)))
    for _ in range(22):
        place.tick(0.1)
    assert looks == [0.1, 1.1, 2.1]


def test_who_has_work_or_a_timer_that_would_be_lost_is_not_put_away() -> None:
    class Short(Keeper):
        idle = 2.0

    place = Place()
    ids = ("durable", "fleeting", "both", "plain", "busy", "waiting")
    of = {id: place.send(f"sum/{id}", 1) for id in ids}
    for id, kinds in (("durable", [True]), ("fleeting", [False]), ("both", [True, False])):
        for is_durable in kinds:
            of[id].add_timer(1000.0, None, is_durable)
    of["busy"].is_scheduled = True
    of["waiting"].mailbox = [1]
    stopped: list[str] = []
    place.kind.stop = lambda activation: stopped.append(activation.id)  # type: ignore[method-assign]
    place.kind._put_away(104.9)
    assert stopped == []
    place.kind._put_away(105.0)
    assert stopped == ["durable", "plain"]
    place = Place(made=Short)
    place.send("sum/x", 1)
    place.kind.stop = lambda activation: stopped.append(activation.id)  # type: ignore[method-assign]
    place.kind._put_away(101.9)
    assert len(stopped) == 2
    place.kind._put_away(102.0)
    assert stopped[2:] == ["x"]


def test_a_host_that_drains_puts_all_away() -> None:
    place = Place()
    for id in "xyz":
        place.send(f"sum/{id}", 1)
    place.kind.drain()
    place.run()
    assert place.kind.activations == {}


def test_a_kind_is_settled_once_it_serves_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    wanted = {0: HOST, 1: HOST}
    monkeypatch.setattr(place.kind.ownership, "wanted", wanted.__getitem__)
    settled = [place.kind.is_settled]  # what others have is not known
    place.kind.ownership.is_known = True
    settled.append(place.kind.is_settled)
    place.kind._draining.add(1)
    settled.append(place.kind.is_settled)
    wanted[1] = "another"
    settled.append(place.kind.is_settled)
    assert settled == [False, True, False, True]
    place.kind.refusal = glue.ConfigurationError("another number")
    with pytest.raises(glue.ConfigurationError, match="another number"):
        assert place.kind.is_settled


def test_a_host_hands_over_while_any_partition_is_wanted_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    wanted = {0: "", 1: "another"}
    monkeypatch.setattr(place.kind.ownership, "wanted", wanted.__getitem__)
    assert place.kind.is_handing_over
    wanted[1] = ""
    assert not place.kind.is_handing_over


# ---------------------------------------------------------------------------------------------------------- running


def test_while_a_partition_is_given_away_messages_of_this_program_wait_for_its_next_host() -> None:
    def stopped(place: Place, activation: Any) -> None:
        place.kind.stop(activation)

    def about_to_write(place: Place, activation: Any) -> None:
        activation.open_state().set("seen", 1)
        place.held = []
        place.kind.stop(activation)
        place.run()
        activation.is_stopping = False  # its last message is being written

    def put_away(place: Place, activation: Any) -> None:
        place.kind.stop(activation)
        place.run()

    for give_away in (stopped, about_to_write, put_away):
        place = Place()
        activation = place.send("sum/x", 1)
        place.kind._draining.add(activation.partition)
        give_away(place, activation)
        assert not activation.is_direct
        place.runtime.send_text("sum/x", 2)
        assert place.runtime.outbox.count == 1


def test_a_receiver_is_put_away_once_and_after_the_message_in_which_that_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Leaving(Keeper):
        def receive(self, context: Any, message: Any) -> None:
            super().receive(context, message)
            place.kind.stop(place.kind.activations["x"])

    place = Place()
    activation = place.send("sum/x", 1)
    place.kind.stop(activation)
    place.kind.stop(activation)
    assert len(place.soon_called) == 1
    monkeypatch.setattr("glue.endpoint.receiver_running.RUN", 1)
    place = Place(made=Leaving)
    place.send("sum/x", 1)
    assert (place.got, place.kind.activations) == ([1], {})


def test_messages_of_others_find_room_where_those_of_this_program_find_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.endpoint.receiver_running.MAILBOX", 1)
    place = Place()
    activation = place.send("sum/x", 0)
    entries: Any = [
        SimpleNamespace(seq=seq, id="x", body=b"%d" % seq, is_json=True, within=0.0, path=()) for seq in (1, 2, 3)
    ]
    place.deliver(encode_batch(1, ":sum", activation.partition, 2, entries))
    with pytest.raises(glue.WouldBlockError, match="1 messages wait at sum/x; send fewer at once"):
        place.runtime.send_text("sum/x", 4)
    place.run()
    assert place.got == [0, 1, 2, 3]


def test_what_waited_for_its_store_counts_as_slow_and_goes_on() -> None:
    class Changing(Keeper):
        def receive(self, context: Any, message: Any) -> None:
            super().receive(context, message)
            context.state["last"] = message

    place = Place(made=Changing)
    place.send("sum/x", 1)
    place.held = []
    for number in (2, 3):
        place.send("sum/x", number)
    assert place.got == [1, 2]
    place.time += 0.5
    place.held.pop()(None, None)
    place.run()
    assert place.got == [1, 2, 3]
    assert [(id, round(seconds, 6)) for id, seconds in place.kind.slowest_ones()] == [("x", 0.5)]
    assert place.shelf.documents == {"x": {"state": {"last": 3}}}


def test_a_receiver_that_could_not_begin_begins_anew_with_the_next_message(caplog: pytest.LogCaptureFixture) -> None:
    began: list[int] = []

    class Shy(Keeper):
        def activate(self, context: Any) -> None:
            began.append(len(began))
            if len(began) == 1:
                raise OSError("not yet")

    place = Place(made=Shy)
    place.send("sum/x", 1)
    place.send("sum/x", 2)
    place.send("sum/x", 3)
    assert (began, place.got, place.statistics["receivers failed"]) == ([0, 1], [2, 3], 1)
    assert [record.getMessage() for record in caplog.records] == ["sum/x: OSError('not yet')"]


# --------------------------------------------------------------------------------------------------------- failures


class Parking(Keeper):
    on_error = "park"


@pytest.mark.parametrize(("made", "dead_letters", "parked"), [
    (Parking, "dead", 1), (Parking, None, 0), (Keeper, "dead", 0),
])  # fmt: skip
def test_a_failed_message_is_counted_logged_and_parked_if_it_is_to_be(
    made: Any, dead_letters: str | None, parked: int, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(dead_letters=dead_letters, made=made)
    for _ in range(3):
        place.send("sum/x", "fail")
    place.send("sum/x", 1)
    assert (place.kind.failures, place.got, place.told.count("failed")) == (3, [1], 3)
    letters = [orjson.loads(one.payloads[0]) for one in place.orders(Publication) if one.topic == "dead"]
    assert letters == [
        {"receiver": "sum/x", "error": "KeyError", "message": "'fail'", "payload": "fail"}
    ] * (3 * parked)  # fmt: skip
    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in told] == ["sum/x failed on a message: KeyError('fail')"] * 3
    assert [record.exc_info is not None for record in told] == [True, False, False]  # one traceback is enough
    assert (place.kind.counters()["failed"], place.statistics["messages parked"]) == (3, 3 * parked)


def test_figures_are_told_in_milliseconds_with_three_digits() -> None:
    place = Place()
    place.kind._note_slow("x", 0.0123456)
    counters = place.kind.counters()
    assert (counters["slowest_ms"], counters["slowest"]) == (12.346, [["x", 12.346]])


def test_a_runtime_that_closes_ends_the_watch_of_each_kind_and_closes_its_store() -> None:
    place = Place()
    place.runtime.close()
    assert place.shelf.calls[-1] == ("close",)
    assert place.runtime.is_closed
    place = Place()
    place.kind.close()
    assert [type(one.question) for one in place.questions()] == [Unwatch]
    place.runtime.is_closed = True
    place.kind.close()
    assert place.questions() == []
    assert (receiver_kind.IDLE_LOOK, receiver_kind.TIMERS_LEAST) == (1.0, 1024)


def test_nothing_leaves_a_closed_runtime() -> None:
    place = Place()
    place.runtime.send(parse("other/x"), 1)
    place.runtime.is_closed = True
    place.soon_called.clear()
    place.runtime._flushing = False
    place.runtime._flush_soon()
    assert place.soon_called == []
