"""UDP segmentation and coalescing (Linux): many equal-sized datagrams in one system call, out and in.

UDP_SEGMENT (Linux 4.18) takes up to 64 kB and cuts them into datagrams below the socket. UDP_GRO (Linux 5.0) returns
adjacent datagrams in one piece, with their size in a control message. See udp(7). Each option is tried on the socket
itself; without the option, each datagram costs a call.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections.abc import Callable

UDP_SEGMENT = 103  # include/uapi/linux/udp.h
UDP_GRO = 104
MAXIMUM_SEGMENTS = 64  # UDP_MAX_SEGMENTS; newer kernels take 128
CONTROL_SIZE = socket.CMSG_SPACE(4)  # room for the one control message, an int

# What a kernel says to UDP_SEGMENT where a device, or a setting of the socket, does not allow it.
SEGMENTATION_REFUSED = frozenset((errno.EIO, errno.EINVAL, errno.ENOPROTOOPT, errno.EOPNOTSUPP))

Control = tuple[tuple[int, int, bytes], ...]


def has_segmentation(sender: socket.socket) -> bool:
    """Whether the kernel knows UDP_SEGMENT."""
    return _understood(lambda: sender.getsockopt(socket.IPPROTO_UDP, UDP_SEGMENT))


def enable_coalescing(receiver: socket.socket) -> bool:
    """Switch UDP_GRO on; False where the kernel does not know it."""
    return _understood(lambda: receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1))


def segmentation_control(segment: int) -> Control:
    """The control message that makes one `sendmsg` leave as datagrams of `segment` bytes."""
    return ((socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("@H", segment)),)


def _understood(option: Callable[[], object]) -> bool:
    if sys.platform != "linux":  # elsewhere the numbers mean something else
        return False
    try:
        option()
    except OSError:
        return False
    return True
