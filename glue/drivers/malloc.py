"""Memory that a stream of large messages uses again and again, instead of asking the system for it each time."""

from __future__ import annotations

RECYCLED = 16 << 20  # bytes: larger blocks still come fresh from the system, and up to twice that is kept free


def keep_freed_memory() -> None:
    """Teach glibc's malloc, by one example, not to return the memory of each large message to the system.

    Freeing a block this large raises its mmap threshold to that size and its trim threshold to twice that
    (mallopt(3), "dynamic mmap threshold"). Otherwise each message of 64 kB and more pays for fresh pages: a
    fifth to a half of the throughput. The block itself is never touched, so it costs nothing;
    that of a bytearray would be, to be zeroed: 14 ms, and as much memory at the peak.
    """
    bytes(RECYCLED)
