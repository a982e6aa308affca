"""Ask all peers of a threaded endpoint for sections of facts, as `glue doctor` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glue.endpoint.inquiring import Answered, answered, begin

if TYPE_CHECKING:
    from glue.sync.endpoint import Endpoint


def ask_all(endpoint: Endpoint, sections: Sequence[str], timeout: float = 1.0) -> list[Answered]:
    """Ask all peers for sections; return what they told, once all have or after `timeout` seconds.

    Endpoints with the setting `doctor=False`, or of an earlier version, are missing in the result. This endpoint itself
    is, too. Raises ClosedError, ValueError for the name of a section that is no word.
    """
    driver = endpoint._running()
    inquiry = begin(endpoint, sections, timeout)
    driver.wait_until(lambda: inquiry.is_over, timeout)
    return answered(inquiry)
