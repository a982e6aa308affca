"""Filter that selects glue's frames: UDP to the group's port, or a payload that begins like glue's datagrams, plain or
sealed.

Unicast goes to any free port, so the port alone does not suffice. The filter exists twice. One is a program for the
kernel (classic BPF, socket-filter(7)) and costs next to nothing. The other is plain Python, for systems without BPF.
"""

from __future__ import annotations

from glue.capture.packets import udp_at
from glue.contract.sealed import FORMATS

START = b'{"gl'
"""The first four bytes of every datagram that is not sealed. A sealed one has its first byte in FORMATS. BPF compares
at most four bytes at once.
"""

ETHERNET_HEADER = 14
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17
SNAPSHOT = 0xFFFF  # bytes to keep of a frame: more than any frame or train has

# BPF operations: load a byte, a half word or a word at a fixed place; load a half word or a word at x plus an offset;
# set x to the length of the IPv4 header; compare, test bits, return.
_BYTE, _HALF, _WORD, _BYTE_X, _HALF_X, _WORD_X, _HEADER = 0x30, 0x28, 0x20, 0x50, 0x48, 0x40, 0xB1
_EQUAL, _AT_LEAST, _MORE, _ANY_BIT, _RETURN = 0x15, 0x35, 0x25, 0x45, 0x06

Line = tuple[int, int, int, int]
"""A BPF instruction: the operation, the lines to skip if true and if false, and the operand."""


def assemble(port: int) -> list[Line]:
    """Return the BPF program for Ethernet frames. The program returns the bytes to keep of a frame, 0 for none."""
    ip = ETHERNET_HEADER
    start = int.from_bytes(START, "big")
    take, drop = 24, 25  # numbers of the last two lines
    first, last = FORMATS[0], FORMATS[-1]

    def when(line: int, operation: int, operand: int, true: int, false: int) -> Line:
        return operation, true - line - 1, false - line - 1, operand

    return [
        (_HALF, 0, 0, 12),
        when(1, _EQUAL, IPV6, 2, 11),
        (_BYTE, 0, 0, ip + 6),
        when(3, _EQUAL, UDP, 4, drop),
        (_HALF, 0, 0, ip + 40 + 2),
        when(5, _EQUAL, port, take, 6),
        (_WORD, 0, 0, ip + 40 + 8),
        when(7, _EQUAL, start, take, 8),
        (_BYTE, 0, 0, ip + 40 + 8),
        when(9, _AT_LEAST, first, 10, drop),
        when(10, _MORE, last, drop, take),
        when(11, _EQUAL, IPV4, 12, drop),
        (_BYTE, 0, 0, ip + 9),
        when(13, _EQUAL, UDP, 14, drop),
        (_HALF, 0, 0, ip + 6),
        when(15, _ANY_BIT, 0x1FFF, drop, 16),  # only the first IP fragment has ports
        (_HEADER, 0, 0, ip),
        (_HALF_X, 0, 0, ip + 2),
        when(18, _EQUAL, port, take, 19),
        (_WORD_X, 0, 0, ip + 8),
        when(20, _EQUAL, start, take, 21),
        (_BYTE_X, 0, 0, ip + 8),
        when(22, _AT_LEAST, first, 23, drop),
        when(23, _MORE, last, drop, take),
        (_RETURN, 0, 0, SNAPSHOT),
        (_RETURN, 0, 0, 0),
    ]


def passes(frame: bytes, link: int, port: int) -> bool:
    """Tell whether a frame is glue's, on any link type that `packets` knows. The Python twin of `assemble`."""
    udp = udp_at(frame, link)
    if udp is None:
        return False
    start = frame[udp + 8 : udp + 12]
    is_sealed = len(start) == len(START) and start[0] in FORMATS
    return int.from_bytes(frame[udp + 2 : udp + 4], "big") == port or start == START or is_sealed
