"""A door for HTTP clients: publish, read and stream topics, webhooks with retries, and a page.

`lanes`, `deliveries`, `signing`, `guard`, `subscriptions`, `recent` and `tail` decide, without clock and socket.
`server` and `sender` are the sockets, `delivering`, `journal` and `store` their disks and timers; `carrier`, `topics`,
`resources`, `models` and `overview` are the routes. `client` and `webhook` are for programs at the other end, and need
nothing but glue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glue._lazy import lazy_imports

if TYPE_CHECKING:
    from glue.gateway.http.client import Client
    from glue.gateway.http.gateway import Gateway
    from glue.gateway.http.limits import Limits
    from glue.gateway.http.tokens import Access, Rights
    from glue.gateway.http.webhook import Webhook

__all__ = ["Access", "Client", "Gateway", "Limits", "Rights", "Webhook"]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        "glue.gateway.http.client": ["Client"],
        "glue.gateway.http.gateway": ["Gateway"],
        "glue.gateway.http.limits": ["Limits"],
        "glue.gateway.http.tokens": ["Access", "Rights"],
        "glue.gateway.http.webhook": ["Webhook"],
    },
)
