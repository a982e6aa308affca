"""What the options of `publish` and `subscribe` may be."""

from __future__ import annotations

from typing import Literal

Priority = Literal["urgent", "high", "normal", "bulk"]
"""What goes first: a message of a lower priority never holds back one of a higher, on other topics."""

Reliability = Literal["reliable", "best-effort"]
"""Whether a message is resent until it is acknowledged."""

Policy = Literal["block", "drop_oldest", "drop_newest", "disconnect"]
"""What happens to messages when the reader of a subscription is slow."""
