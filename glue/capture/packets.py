"""Parsing of captured frames: the start of the UDP header, its payload, and the segment size of trains."""

from __future__ import annotations

from itertools import pairwise

LINKS = {1: (14, 12), 113: (16, 14), 276: (20, 0)}
"""Link types that have an EtherType (Ethernet; Linux "any"): bytes of the link header, and the offset of the EtherType.
"""
FAMILIES = (0, 108)
"""Loopback link types, with 4 bytes of address family. All unlisted link types are read as bare IP."""
VLAN = (0x8100, 0x88A8, 0x9100)
UDP = 17


def udp_at(frame: bytes, link: int) -> int | None:
    """Return the offset of the UDP header, or None: for other protocols, later IP fragments and truncated frames."""
    ip, type_at = LINKS.get(link, (4 if link in FAMILIES else 0, 0))
    if link in LINKS:
        while int.from_bytes(frame[type_at : type_at + 2], "big") in VLAN:
            type_at, ip = ip + 2, ip + 4
    if len(frame) < ip + 28:
        return None
    if frame[ip] >> 4 == 6:
        return ip + 40 if frame[ip + 6] == UDP and len(frame) >= ip + 48 else None
    if frame[ip] >> 4 != 4 or frame[ip + 9] != UDP or int.from_bytes(frame[ip + 6 : ip + 8], "big") & 0x1FFF:
        return None
    at = ip + (frame[ip] & 15) * 4
    return at if at + 8 <= len(frame) else None


def payload_of(frame: bytes, link: int) -> bytes | None:
    """Return the captured part of a UDP payload, or None if the frame is not UDP."""
    at = udp_at(frame, link)
    if at is None:
        return None
    length = int.from_bytes(frame[at + 4 : at + 6], "big")  # 0 where the hardware fills in the length
    return frame[at + 8 : at + length if length >= 8 else len(frame)]


def segment_of(train: bytes) -> int:
    """Return the size of the datagrams in a train, or the whole length for a single datagram.

    Each datagram repeats the beginning of the first header, up to the counter, at a regular distance. The counters of a
    train rise. A payload that quotes an earlier datagram has a lower counter, and is not taken for a second datagram.
    """
    beginning = b",".join(train[:96].split(b",", 4)[:4])
    segment = train.find(beginning, len(beginning)) if beginning.startswith(b'{"glue":') else -1
    while segment > 0:
        starts = range(0, len(train) - len(beginning), segment)
        if all(train.startswith(beginning, start) for start in starts):
            counters = [_integer(train[start + len(beginning) + 1 :][:32].partition(b"]")[0]) for start in starts]
            if all(before < after for before, after in pairwise(counters)):
                return segment
        segment = train.find(beginning, segment + 1)
    return len(train)


def _integer(text: bytes) -> int:
    """Parse a number that is padded with spaces; return -1 for any other text."""
    return int(text) if text.strip().isdigit() else -1
