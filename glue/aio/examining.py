"""Ask all peers of an asyncio endpoint for sections of facts, as `glue doctor` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glue.endpoint.inquiring import Answered, answered, begin

if TYPE_CHECKING:
    from glue.aio.endpoint import Endpoint


async def ask_all(endpoint: Endpoint, sections: Sequence[str], timeout: float = 1.0) -> list[Answered]:
    """As `glue.sync.examining.ask_all`."""
    driver = endpoint._running()
    inquiry = begin(endpoint, sections, timeout)
    await driver.wait_until(lambda: inquiry.is_over, timeout)
    return answered(inquiry)
