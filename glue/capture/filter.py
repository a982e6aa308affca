"""Which frames are glue's: those to the group's port, and those whose payload starts as glue's datagrams do.

Unicast goes to any free port, so that ports alone do not tell. The filter exists twice: as a program for the kernel
(classic BPF, socket-filter(7)), which costs next to nothing, and in plain Python for systems without.
"""

from __future__ import annotations

from glue.capture.packets import udp_at

START = b'{"gl'
"""What every datagram starts with, as long as a comparison in BPF reaches."""

ETHERNET_HEADER = 14
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17
SNAPSHOT = 0xFFFF  # bytes that are captured: all of them, also of a train

# Operations: load a byte, a half word or a word, at a place or behind x; x from IPv4's header length; jumps; return.
_BYTE, _HALF, _WORD, _HALF_X, _WORD_X, _HEADER = 0x30, 0x28, 0x20, 0x48, 0x40, 0xB1
_EQUAL, _ANY_BIT, _RETURN = 0x15, 0x45, 0x06

Line = tuple[int, int, int, int]
"""An instruction: operation, lines to jump over if true and if false, operand."""


def assemble(port: int) -> list[Line]:
    """The program for Ethernet frames: how much of a frame to keep, 0 for none."""
    ip = ETHERNET_HEADER
    start = int.from_bytes(START, "big")
    take, drop = 18, 19  # lines

    def when(line: int, operation: int, operand: int, true: int, false: int) -> Line:
        return operation, true - line - 1, false - line - 1, operand

    return [
        (_HALF, 0, 0, 12),
        when(1, _EQUAL, IPV6, 2, 8),
        (_BYTE, 0, 0, ip + 6),
        when(3, _EQUAL, UDP, 4, drop),
        (_HALF, 0, 0, ip + 40 + 2),
        when(5, _EQUAL, port, take, 6),
        (_WORD, 0, 0, ip + 40 + 8),
        when(7, _EQUAL, start, take, drop),
        when(8, _EQUAL, IPV4, 9, drop),
        (_BYTE, 0, 0, ip + 9),
        when(10, _EQUAL, UDP, 11, drop),
        (_HALF, 0, 0, ip + 6),
        when(12, _ANY_BIT, 0x1FFF, drop, 13),  # a later fragment has no ports
        (_HEADER, 0, 0, ip),
        (_HALF_X, 0, 0, ip + 2),
        when(15, _EQUAL, port, take, 16),
        (_WORD_X, 0, 0, ip + 8),
        when(17, _EQUAL, start, take, drop),
        (_RETURN, 0, 0, SNAPSHOT),
        (_RETURN, 0, 0, 0),
    ]


def passes(frame: bytes, link: int, port: int) -> bool:
    """The same in Python, for any link that `packets` knows."""
    udp = udp_at(frame, link)
    if udp is None:
        return False
    return int.from_bytes(frame[udp + 2 : udp + 4], "big") == port or frame[udp + 8 : udp + 12] == START
