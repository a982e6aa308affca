"""The queue of a session, bounded by messages and bytes."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.session import Parcel, Session


@pytest.mark.parametrize(
    ("messages", "size", "taken"), [(100, 1000, 3), (2, 1000, 2), (100, 25, 2), (100, 9, 0), (0, 1000, 0)]
)
def test_what_finds_no_room_is_dropped_and_counted_the_newest_first(messages: int, size: int, taken: int) -> None:
    session = Session("client", messages, size)
    run = Publish("t", (b"a" * 10, b"b" * 10, b"c" * 10), 1)
    assert session.put(Parcel(run, 1)) == 3 - taken
    assert (session.dropped, session.queued, session.queued_bytes) == (3 - taken, taken, 10 * taken)
    assert [payload[:1] for parcel in session.queue for payload in parcel.run.payloads] == [b"a", b"b", b"c"][:taken]
