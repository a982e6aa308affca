"""Timers of a broker: in order, one about each thing, and no more of them than things."""

from __future__ import annotations

from glue.gateway.mqtt.timers import KEPT, Timers


def test_what_is_due_is_done_in_its_order_and_once() -> None:
    timers, done = Timers(), list[str]()
    for when, name in ((3.0, "c"), (1.0, "a"), (2.0, "b"), (1.0, "after a")):
        timers.at(when, lambda now, name=name: done.append(name))  # type: ignore[misc]
    assert timers.deadline == 1.0
    timers.advance(2.5)
    assert done == ["a", "after a", "b"]
    assert timers.deadline == 3.0


def test_a_timer_replaces_the_one_about_the_same_and_can_be_called_off() -> None:
    timers, done = Timers(), list[str]()
    timers.at(1.0, lambda now: done.append("first"), "x")
    timers.at(2.0, lambda now: done.append("second"), "x")
    timers.at(1.5, lambda now: done.append("other"), "y")
    timers.call_off("y")
    timers.call_off("nothing")
    timers.advance(9.0)
    assert done == ["second"]
    timers.call_off("x")
    assert len(timers) == 0


def test_an_action_may_begin_the_next_one_about_the_same() -> None:
    timers, done = Timers(), list[float]()

    def again(now: float) -> None:
        done.append(now)
        timers.at(now + 1.0, again, "x")

    timers.at(1.0, again, "x")
    for now in (1.0, 2.0, 3.0):
        timers.advance(now)
    assert done == [1.0, 2.0, 3.0]
    timers.call_off("x")
    timers.advance(9.0)
    assert len(done) == 3


def test_what_an_action_begins_for_now_waits_for_the_next_turn_and_holds_up_nothing_else() -> None:
    timers, done = Timers(), list[str]()

    def again(now: float) -> None:
        done.append("again")
        timers.at(now - 1.0, again, "x")
        if done.count("again") == 3:
            timers.call_off("x")

    timers.at(1.0, again, "x")
    timers.at(2.0, lambda now: done.append("other"))
    timers.advance(5.0)
    assert (done, timers.deadline) == (["again", "other"], 4.0)
    timers.advance(6.0)
    assert (done[2:], timers.deadline, len(timers)) == (["again"], 5.0, 1)
    timers.advance(6.0)
    timers.advance(6.0)
    assert (done[3:], len(timers), timers._off) == (["again"], 0, 0)


def test_timers_that_were_called_off_do_not_pile_up() -> None:
    timers, done = Timers(), list[int]()
    for number in range(20 * KEPT):
        timers.at(1e6 + number, done.append, number % 10)  # type: ignore[arg-type]
    assert len(timers) <= KEPT + 11
    timers.advance(2e6)
    assert len(done) == 10
