"""The history of topics, which is served to late joiners, joined with what comes live.

State machines without a clock, a socket or a thread. `memory.py` is what a publisher remembers, `server.py` answers
requests for it, `reader.py` joins history and live messages for one subscription, and `wire.py` is the form of requests
and pages. They travel as messages on topics below `$glue/history`, each with one receiver, so by unicast.
"""

from typing import TYPE_CHECKING

from glue._lazy import lazy_imports

if TYPE_CHECKING:
    from glue.history.memory import Limits, PublishedMemory
    from glue.history.reader import Reader
    from glue.history.server import Server
else:
    __getattr__, __dir__ = lazy_imports(
        __name__,
        {
            "glue.history.memory": ("Limits", "PublishedMemory"),
            "glue.history.reader": ("Reader",),
            "glue.history.server": ("Server",),
        },
    )

__all__ = ["Limits", "PublishedMemory", "Reader", "Server"]
