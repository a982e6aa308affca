"""Memory that a stream of large messages uses again and again, instead of asking the system for it each time."""

from __future__ import annotations


def keep_freed_memory(threshold: int) -> None:
    """Make glibc's malloc keep freed blocks of up to `threshold` bytes, for the whole process; 0 changes nothing.

    Freeing a block raises the mmap threshold to the block's size and the trim threshold to twice the size
    (mallopt(3), "dynamic mmap threshold"). Otherwise each message of 64 kB and more pays for fresh pages: a fifth to
    a half of the throughput. Larger blocks still come fresh from the system. The block of a `bytes` object is never
    touched, so it costs nothing; a bytearray would be zeroed, in 14 ms and with as much memory at the peak.
    """
    if threshold:
        bytes(threshold)
