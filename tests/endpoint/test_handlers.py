"""A handler that is called with payloads alone: of a bundle, one after the other, until it is closed, and no longer."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from glue.contract import Delivery
from glue.contract.pieces import Portions
from glue.endpoint.callbacks import Failures
from glue.endpoint.message import Gap, Message
from glue.endpoint.queues import Kept
from glue.sync.subscription import Subscription


class Owner:
    """An endpoint of which only the counting is needed."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def keep(self, delivery: Delivery) -> None:
        pass

    def handled(self, delivery: Delivery) -> None:
        pass

    def settled(self, outcome: str, count: int) -> None:
        self.outcomes[outcome] += count

    def failed(self) -> None:
        pass

    def tell_gap(self, gap: Gap) -> None:
        pass

    def unsubscribe(self, subscription: Subscription) -> None:
        pass


def subscription(owner: Owner, handler: Callable[[Any], Any]) -> Subscription:
    return Subscription("t", handler, owner, Kept(owner, lambda: 0.0), payload_only=True)


def delivery(payloads: Sequence[Any]) -> Delivery:
    return Delivery("t", payloads, None, "a", "0" * 16, 1, 1, 0.0, False, ())


def numbered(count: int) -> Portions:
    """Payloads that say how many are before them."""
    data = b"".join(b"%04d" % number for number in range(count))
    return Portions([data[:8], data[8:]], 4, count)


@pytest.mark.parametrize("last", [1, 5, 9, 10])
@pytest.mark.parametrize("fails", [False, True])
def test_a_handler_that_closes_its_subscription_is_not_called_again(last: int, fails: bool) -> None:
    owner, heard = Owner(), list[int]()

    def handler(payload: int) -> None:
        heard.append(payload)
        if payload == last:
            ended.close()
            if fails:
                raise SystemExit

    ended = subscription(owner, handler)
    for _ in range(2):
        ended._deliver(delivery(range(1, 11)))
    assert heard == [*range(1, last + 1)]
    assert owner.outcomes == {"handled": last, "unread": 20 - last}


def test_a_handler_that_fails_is_called_with_the_next() -> None:
    owner, heard = Owner(), list[int]()

    def handler(payload: int) -> None:
        heard.append(payload)
        if payload % 2:
            raise StopIteration

    subscription(owner, handler)._deliver(delivery(range(10)))
    assert heard == [*range(10)]
    assert owner.outcomes["handled"] == 10


def test_what_is_cut_as_it_is_handled_has_its_numbers_where_handlers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, heard, failed = Owner(), list[bytes](), list[int]()

    def handler(payload: bytes) -> None:
        heard.append(payload)
        if payload in (b"0002", b"0003", b"0009"):
            raise ValueError(payload)
        if payload == b"0017":
            ended.close()
            raise SystemExit

    monkeypatch.setattr(Failures, "note", lambda failures, message: failed.append(message.sequence))
    ended = subscription(owner, handler)
    ended._deliver(delivery(numbered(20)))
    assert heard == [*numbered(18)]
    assert owner.outcomes == {"handled": 18, "unread": 2}
    assert failed == [3, 4, 10, 18]


def test_what_is_cut_as_it_is_read_waits_like_any_other() -> None:
    owner = Owner()
    waiting = Subscription("t", None, owner, Kept(owner, lambda: 0.0))
    for _ in range(2):
        waiting._deliver(delivery(numbered(3)))
    found = [(message.sequence, message.payload) for message in (waiting.get(0) for _ in range(5))]
    assert found == [*enumerate(numbered(3), 1), *enumerate(numbered(2), 1)]
    waiting.close()
    assert (owner.outcomes["handled"], owner.outcomes["unread"]) == (5, 1)


def test_of_what_is_kept_of_messages_there_is_one_copy() -> None:
    owner, kept = Owner(), list[Message]()
    called = Subscription("t", kept.append, owner, Kept(owner, lambda: 0.0))
    waiting = Subscription("t", None, owner, Kept(owner, lambda: 0.0))
    shared = delivery(numbered(3))
    for one in (called, waiting):
        one._deliver(shared)
    kept += [waiting.get(0) for _ in range(3)]
    assert [message.payload for message in kept] == [*numbered(3)] * 2
    assert all(message.payload is shared.payloads[message.sequence - 1] for message in kept)


def test_a_second_close_ends_what_ctrl_c_in_the_first_left_going_on() -> None:
    owner, heard = Owner(), list[int]()

    def handler(payload: int) -> None:
        heard.append(payload)
        ended._closed = True  # as far as the first came
        ended.close()

    ended = subscription(owner, handler)
    ended._deliver(delivery(range(10)))
    assert heard == [0]


def test_a_handler_is_not_called_again_once_another_thread_has_closed() -> None:
    owner, heard = Owner(), list[int]()

    def handler(payload: int) -> None:
        heard.append(payload)
        closer = threading.Thread(target=ended.close)
        closer.start()
        closer.join()

    ended = subscription(owner, handler)
    ended._deliver(delivery(range(10)))
    assert heard == [0]
    assert owner.outcomes["unread"] == 9


@pytest.mark.parametrize("is_closed", [False, True])
def test_no_payload_is_kept_once_it_was_handled(is_closed: bool) -> None:
    class Value:
        pass

    def handler(payload: Value) -> None:
        if is_closed:
            ended.close()

    payloads = [Value(), Value()]
    alive = weakref.WeakSet(payloads)
    ended = subscription(Owner(), handler)
    ended._deliver(delivery(payloads))
    del payloads
    assert not alive
