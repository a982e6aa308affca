"""Files with content that was sealed on the network."""

from __future__ import annotations

import contextlib
import os


def open_for_owner(path: str, flags: int) -> int:
    """Open a file that its owner alone may read, whatever its mode was before; the `opener` of the function `open`."""
    descriptor = os.open(path, flags, 0o600)
    with contextlib.suppress(PermissionError):  # it belongs to another user, or is a device
        os.fchmod(descriptor, 0o600)
    return descriptor
