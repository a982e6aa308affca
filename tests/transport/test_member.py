"""What a sender knows of one receiver."""

from __future__ import annotations

from glue.transport.member import Member
from glue.transport.window import Window


def test_only_frames_that_did_not_arrive_count_as_given_up() -> None:
    member = Member("a" * 16, Window(), invite=False)
    assert member.take(2, [(4, 6), (9, 10)]) == 5
    assert member.skip_to(8) == 4  # 2, 3, 6 and 7
    assert (member.next, member.skip) == (8, 8)
    assert member.skip_to(9) == 1
    assert member.next == 10
