"""Durable consumers of an asyncio endpoint: what there are, and how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glue.aio.driver import LoopDriver
from glue.endpoint.consumer_methods import ANSWER_TIME, ConsumerMethods
from glue.errors import NoConsumerError

if TYPE_CHECKING:
    from datetime import datetime

    from glue.endpoint.consumer_state import ConsumerState


class AioConsumers(ConsumerMethods):
    """The methods of `glue.aio.Endpoint` for durable consumers."""

    def _running(self) -> LoopDriver:
        raise NotImplementedError

    async def _answers(self, head: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Return the keepers' answers; late keepers are left out."""
        driver = self._running()
        keepers = self._all_keepers()
        answers, ended = self._ask_keepers(keepers, head)
        try:
            await driver.wait_until(lambda: len(answers) >= len(keepers), timeout)
        finally:
            ended()
        return answers

    async def consumers(self, timeout: float = ANSWER_TIME) -> list[ConsumerState]:
        """The durable consumers at all keepers that answer in time, by name. Raises ClosedError."""
        return self._states(await self._answers({"ask": "list"}, timeout))

    async def move_consumer(self, name: str, pattern: str, to: str | datetime, *, timeout: float = ANSWER_TIME) -> None:
        """Have a consumer go on from "earliest", "latest", a time ago such as "-10m", or a datetime.

        What its members have now counts no more. Raises NoConsumerError if no keeper that answers in time has it,
        TopicError, ConfigurationError, ClosedError.
        """
        await self._change(self._move(name, pattern, to), timeout)

    async def forget_consumer(self, name: str, pattern: str, *, timeout: float = ANSWER_TIME) -> None:
        """Forget a consumer and its position. Raises what `move_consumer` raises."""
        await self._change(self._move(name, pattern, None), timeout)

    async def _change(self, head: dict[str, Any], timeout: float) -> None:
        answers = await self._answers(head, timeout)
        if not any(answer.get("done") for answer in answers.values()):
            raise NoConsumerError(f"no keeper has a consumer {head['name']!r} of {head['pattern']!r}")

    def _driver_or_none(self) -> LoopDriver | None:
        raise NotImplementedError

    def _tell_alert(self, alert: Any) -> None:
        """Have the loop call `on_consumer_alert`; called in the thread that stores."""
        endpoint: Any = self
        driver = self._driver_or_none()
        if driver is not None and endpoint.on_consumer_alert is not None:
            driver.call_threadsafe(lambda: endpoint._callbacks.run(endpoint.on_consumer_alert, alert))
