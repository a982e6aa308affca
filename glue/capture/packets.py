"""What stands before a datagram in a captured frame, and where trains of datagrams are to be cut."""

from __future__ import annotations

from itertools import pairwise

LINKS = {1: (14, 12), 113: (16, 14), 276: (20, 0)}
"""Link types with an Ethernet type (Ethernet; Linux "any"): bytes of their header, and where the type stands."""
FAMILIES = (0, 108)
"""Link types of loopback, with 4 bytes of address family; all others are taken for bare IP."""
VLAN = (0x8100, 0x88A8, 0x9100)
UDP = 17


def udp_at(frame: bytes, link: int) -> int | None:
    """Where the UDP header starts; None if there is none (other protocols, later IP fragments, frames cut short)."""
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
    """What a UDP datagram carries, as far as it was captured; None if the frame is no UDP."""
    at = udp_at(frame, link)
    if at is None:
        return None
    length = int.from_bytes(frame[at + 4 : at + 6], "big")  # 0 where the hardware was to fill it in
    return frame[at + 8 : at + length if length >= 8 else len(frame)]


def segment_of(train: bytes) -> int:
    """The size of the datagrams of a train: where the beginning of the first, up to the counter, comes back regularly.

    The whole length for a single datagram. Counters go up within a train, which tells it from a datagram whose payload
    holds another one, sent before.
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
    """A number padded with spaces; -1 if it is none."""
    return int(text) if text.strip().isdigit() else -1
