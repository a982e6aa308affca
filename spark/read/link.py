"""UDP datagrams of captured frames: removal of link layers, VLAN tags, and IPv4 and IPv6 headers.

All frames of a block take each step together, as arrays of positions. Frames without UDP are dropped on the way and
counted by cause. If the kernel segments or coalesces datagrams (UDP_SEGMENT, UDP_GRO), a capture on the host has a
whole train as one frame. Such a frame is cut into the datagrams on the wire, even a train of two short ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from spark.read.records import Booleans, Bytes, Integers, Records

ETHERNET, RAW = 1, 101
LINKS = {ETHERNET: (14, 12), 113: (16, 14), 276: (20, 0)}
"""Link types with an EtherType: bytes of the link header, and offset of the EtherType. 113, 276: Linux "any".
"""
FAMILIES = {0, 108}
"""Loopback link types, with 4 bytes of address family."""
BARE = {RAW, 12, 14, 228, 229}
"""Link types without a header before IP."""

IPV4, IPV6 = 0x0800, 0x86DD
TAGS = (0x8100, 0x88A8, 0x9100)
MOST_TAGS = 2
UDP = 17
FRAGMENT = 44
EXTENSIONS = (0, 43, 60)  # hop-by-hop, routing, destination options
MOST_EXTENSIONS = 4

BEGINNING = b'{"glue":['
"""First bytes of every datagram, as glue writes them. A UDP datagram with two of these may be a train."""


@dataclass
class Datagrams:
    """UDP datagrams in a buffer. Each column has one element for each datagram."""

    record: Integers
    """Index of the captured frame."""
    part: Integers
    """Position in the captured frame, for a train."""
    begin: Integers
    """Byte of the buffer where the payload starts."""
    size: Integers
    """Bytes of payload on the wire."""
    captured: Integers
    """Bytes of payload in the buffer."""
    network: Integers
    """Byte of the buffer where the IP header starts."""
    overhead: Integers
    """Bytes before the payload."""
    source_port: Integers
    destination_port: Integers
    version: Integers
    """IP version, 4 or 6."""

    def take(self, rows: Integers | Booleans) -> Datagrams:
        """Return the selected datagrams."""
        return Datagrams(*(column[rows] for column in vars(self).values()))


def short_at(buffer: Bytes, positions: Integers) -> Integers:
    """Return unsigned 16-bit integers in network order."""
    return (buffer[positions].astype(np.int64) << 8) | buffer[positions + 1]


def unwrap(records: Records, skipped: Counter[str]) -> Datagrams:
    """Return the UDP datagrams among captured frames, and count the other frames in `skipped`."""
    buffer = records.buffer
    header, kind = _link_headers(records, skipped)
    rows = np.flatnonzero((kind == IPV4) | (kind == IPV6))
    skipped["not IP"] += int(np.count_nonzero(kind == 0))
    network = records.begin[rows] + header[rows]
    end = records.begin[rows] + records.captured[rows]
    version = buffer[network].astype(np.int64) >> 4
    transport, stop, protocol, fragmented = _internet_headers(buffer, network, version)
    whole = (transport + 8 <= end) & ((version == 4) == (kind[rows] == IPV4)) & ((version == 4) | (version == 6))
    udp = protocol == UDP
    good = whole & udp & ~fragmented
    skipped["cut short"] += int(np.count_nonzero(~whole))
    skipped["not UDP"] += int(np.count_nonzero(whole & ~udp & ~fragmented))
    skipped["IP fragment"] += int(np.count_nonzero(whole & fragmented))
    rows, network, transport, stop, end, version = (
        column[good] for column in (rows, network, transport, stop, end, version)
    )
    length = short_at(buffer, transport + 4)
    begin = transport + 8
    # 0 for a jumbogram, or if the hardware fills in the length
    size = np.where(length >= 8, length, stop - transport) - 8
    return Datagrams(
        record=rows,
        part=np.zeros(len(rows), np.int64),
        begin=begin,
        size=size,
        captured=np.minimum(size, end - begin).clip(0),
        network=network,
        overhead=begin - records.begin[rows],
        source_port=short_at(buffer, transport),
        destination_port=short_at(buffer, transport + 2),
        version=version,
    )


def _link_headers(records: Records, skipped: Counter[str]) -> tuple[Integers, Integers]:
    """Return the bytes before the IP header, and the kind: IPV4, IPV6, 0 for neither, -1 if already counted."""
    buffer, begin = records.buffer, records.begin
    header, kind = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.int64)
    for link in np.unique(records.link).tolist():
        rows = np.flatnonzero(records.link == link)
        if link in LINKS:
            header[rows], type_at = LINKS[link]
            kind[rows] = short_at(buffer, begin[rows] + type_at)
            _skip_tags(buffer, begin, header, kind, rows)
        elif link in FAMILIES or link in BARE:
            header[rows] = 4 if link in FAMILIES else 0
            version = buffer[begin[rows] + header[rows]] >> 4
            kind[rows] = np.select([version == 4, version == 6], [IPV4, IPV6], 0)
        else:
            kind[rows] = -1
            skipped[f"link type {link}"] += len(rows)
    short = (kind >= 0) & (records.captured < header + 20)
    skipped["cut short"] += int(np.count_nonzero(short))
    kind[short] = -1
    kind[(kind != IPV4) & (kind != IPV6) & (kind != -1)] = 0
    return header, kind


def _skip_tags(buffer: Bytes, begin: Integers, header: Integers, kind: Integers, rows: Integers) -> None:
    """Skip VLAN tags."""
    for _ in range(MOST_TAGS):
        rows = rows[np.isin(kind[rows], TAGS)]
        if not rows.size:
            return
        kind[rows] = short_at(buffer, begin[rows] + header[rows] + 2)
        header[rows] += 4


def _internet_headers(
    buffer: Bytes, network: Integers, version: Integers
) -> tuple[Integers, Integers, Integers, Booleans]:
    """Return start and protocol of the header after IP, the end of the packet, and whether it is a fragment."""
    transport = network + (buffer[network].astype(np.int64) & 15) * 4
    stop = network + short_at(buffer, network + 2)
    protocol = buffer[network + 9].astype(np.int64)
    fragmented = short_at(buffer, network + 6) & 0x3FFF != 0
    rows = np.flatnonzero(version == 6)
    if rows.size:
        transport[rows] = network[rows] + 40
        stop[rows] = transport[rows] + short_at(buffer, network[rows] + 4)
        protocol[rows] = buffer[network[rows] + 6]
        for _ in range(MOST_EXTENSIONS):
            extended = rows[np.isin(protocol[rows], EXTENSIONS) & (transport[rows] + 8 < len(buffer))]
            protocol[extended] = buffer[transport[extended]]
            transport[extended] += (buffer[transport[extended] + 1].astype(np.int64) + 1) * 8
        fragmented[rows] = protocol[rows] == FRAGMENT
    return np.minimum(transport, len(buffer) - 8), stop, protocol, fragmented


# ------------------------------------------------------------------------------------------------- trains


def split_trains(buffer: Bytes, datagrams: Datagrams) -> Datagrams:
    """Cut trains into their datagrams. Other datagrams stay unchanged."""
    segments = np.maximum(1, datagrams.size)
    for row in np.flatnonzero(_beginnings(buffer, datagrams) > 1).tolist():
        begin, captured = int(datagrams.begin[row]), int(datagrams.captured[row])
        segments[row] = _segment(buffer[begin : begin + captured].tobytes()) or segments[row]
    return cut_trains(datagrams, segments)


def cut_trains(datagrams: Datagrams, segments: Integers) -> Datagrams:
    """Cut trains into datagrams. `segments`: the size of the datagrams of each train."""
    counts = np.maximum(1, -(-datagrams.size // segments))
    if (counts == 1).all():
        return datagrams
    source = np.repeat(np.arange(len(counts)), counts)
    part = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    cut = datagrams.take(source)
    start = part * segments[source]
    cut.part = cut.part + part
    cut.begin = cut.begin + np.minimum(start, cut.captured)  # uncaptured bytes are not in the buffer
    cut.size = np.minimum(segments[source], cut.size - start)
    cut.captured = (cut.captured - start).clip(0, cut.size)
    return cut


def _beginnings(buffer: Bytes, datagrams: Datagrams) -> Integers:
    """Return how often the first bytes of glue's datagrams occur in each datagram."""
    if not len(datagrams.begin):
        return np.zeros(0, np.int64)
    ends = datagrams.begin + datagrams.captured
    low, high = int(datagrams.begin.min()), max(0, int(ends.max()) - len(BEGINNING) + 1)
    found = np.flatnonzero(buffer[low:high] == BEGINNING[0]) + low
    for place in range(1, len(BEGINNING)):
        found = found[buffer[found + place] == BEGINNING[place]]
    counts: Integers = np.searchsorted(found, ends) - np.searchsorted(found, datagrams.begin)
    return counts


def _segment(train: bytes) -> int | None:
    """Return the size of a train's datagrams, None for a single datagram.

    Each datagram repeats the beginning of the first header, up to the counter, at a regular distance with a higher
    counter. A datagram within another one's payload was sent earlier and has a lower counter.
    """
    beginning = b",".join(train[:96].split(b",", 4)[:4])
    if not beginning.startswith(BEGINNING):
        return None
    segment = train.find(beginning, len(beginning))
    while segment > 0:
        if _ascend(train, beginning, segment):
            return segment
        segment = train.find(beginning, segment + 1)
    return None


def _ascend(train: bytes, beginning: bytes, segment: int) -> bool:
    """Return whether datagrams of one life follow at this distance with rising counters."""
    counter = -1
    for start in range(0, len(train), segment):
        if not train.startswith(beginning, start):
            return len(train) - start <= len(beginning)  # the capture ends here
        number, bracket, _ = train[start + len(beginning) + 1 : start + len(beginning) + 32].partition(b"]")
        if not bracket or not number.strip().isdigit():
            return not bracket and len(train) - start < len(beginning) + 32
        if int(number) <= counter:
            return False
        counter = int(number)
    return True
