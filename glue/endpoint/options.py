"""Types of the options of `publish` and `subscribe`."""

from __future__ import annotations

from typing import Literal

Priority = Literal["urgent", "high", "normal", "bulk"]
"""The order of sending: no message holds back messages of a higher priority on other topics."""

Reliability = Literal["reliable", "best-effort"]
"""Whether a message is resent until it is acknowledged."""

Policy = Literal["block", "drop_oldest", "drop_newest", "disconnect"]
"""What happens to messages when the reader of a subscription is slow."""
