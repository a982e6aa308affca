"""Announcements of many interests, and a peer that learns them."""

from __future__ import annotations

from glue.discovery.follower import InterestFollower
from glue.discovery.interests import InterestLog
from glue.discovery.wire import Announcement, Operations

SIZE = 600


def many(count: int) -> list[str]:
    return [f"plant/{number % 17}/sensor/{number}/#" for number in range(count)]


def announced(log: InterestLog, size: int = SIZE) -> Announcement:
    announcement = Announcement.parse(Announcement.encode("owner", 1.0, log, size)[0])
    assert announcement is not None
    return announcement


def catch_up(log: InterestLog, follower: InterestFollower, frames: int = 16) -> int:
    """Let the follower ask until it has all; returns how often it had to."""
    asked = 0
    while follower.is_behind:
        asked += 1
        for body in Operations.encode(log, follower.want[1], SIZE, frames):
            assert len(body) <= SIZE
            operations = Operations.parse(body)
            assert operations is not None
            follower.received(operations)
    return asked
