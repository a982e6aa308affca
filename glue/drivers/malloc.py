"""Memory that a stream of large messages uses again and again, instead of asking the system for it each time."""

from __future__ import annotations


def keep_freed_memory(threshold: int) -> None:
    """Teach glibc's malloc, by one example, to keep freed blocks of up to so many bytes; 0 leaves it as it is.

    Freeing a block this large raises its mmap threshold to that size and its trim threshold to twice that
    (mallopt(3), "dynamic mmap threshold"), for the whole process. Otherwise each message of 64 kB and more pays for
    fresh pages: a fifth to a half of the throughput. Larger blocks still come fresh from the system. The block itself
    is never touched, so it costs nothing; that of a bytearray would be, to be zeroed: 14 ms, and as much memory at the
    peak.
    """
    if threshold:
        bytes(threshold)
