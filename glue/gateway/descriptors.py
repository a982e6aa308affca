"""Open files of a process: each connection is one, and a door needs some itself.

Without a file left, a door could store nothing, load no module, and not look at its network. So it takes fewer
connections where the system allows fewer files.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

OTHER_FILES: Final = 128
"""Open files beside connections: some 20 of the log, the model and the endpoint, and what the program opens itself."""


def open_files() -> int:
    """Return how many files this process may have open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit for sockets
        return 1 << 30
    found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if found == resource.RLIM_INFINITY else found


def allow_files(connections: int) -> None:
    """Let this process open as many files as so many connections need, as far as the system allows."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        need = connections + OTHER_FILES
        most = need if hard == resource.RLIM_INFINITY else min(need, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def connections_of(files: int) -> int:
    """Return how many connections a process may have that may open so many files."""
    return max(8, files - OTHER_FILES)
