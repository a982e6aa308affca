"""Durable consumers of a threaded endpoint: what there are, and how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glue.drivers.leader import ThreadDriver
from glue.endpoint.consumer_methods import ANSWER_TIME, ConsumerMethods
from glue.errors import NoConsumerError

if TYPE_CHECKING:
    from datetime import datetime

    from glue.endpoint.consumer_state import ConsumerState


class SyncConsumers(ConsumerMethods):
    """The methods of `glue.Endpoint` for durable consumers."""

    def _running(self) -> ThreadDriver:
        raise NotImplementedError

    def _answers(self, head: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Return the keepers' answers; late keepers are left out."""
        driver = self._running()
        keepers = self._all_keepers()
        answers, ended = self._ask_keepers(keepers, head)
        try:
            driver.wait_until(lambda: len(answers) >= len(keepers), timeout)
        finally:
            ended()
        return answers

    def consumers(self, timeout: float = ANSWER_TIME) -> list[ConsumerState]:
        """The durable consumers at all keepers that answer in time, by name. Raises ClosedError."""
        return self._states(self._answers({"ask": "list"}, timeout))

    def move_consumer(self, name: str, pattern: str, to: str | datetime, *, timeout: float = ANSWER_TIME) -> None:
        """Have a consumer go on from "earliest", "latest", a time ago such as "-10m", or a datetime.

        What its members have now counts no more. Raises NoConsumerError if no keeper that answers in time has it,
        TopicError, ConfigurationError, ClosedError.
        """
        self._change(self._move(name, pattern, to), timeout)

    def forget_consumer(self, name: str, pattern: str, *, timeout: float = ANSWER_TIME) -> None:
        """Forget a consumer and its position. Raises what `move_consumer` raises."""
        self._change(self._move(name, pattern, None), timeout)

    def _change(self, head: dict[str, Any], timeout: float) -> None:
        answers = self._answers(head, timeout)
        if not any(answer.get("done") for answer in answers.values()):
            raise NoConsumerError(f"no keeper has a consumer {head['name']!r} of {head['pattern']!r}")

    def _tell_alert(self, alert: Any) -> None:
        """Call `on_consumer_alert`, from the thread that stores."""
        endpoint: Any = self
        if endpoint.on_consumer_alert is not None:
            try:
                endpoint.on_consumer_alert(alert)
            except Exception:  # the program's own affair
                endpoint._callback_failed(alert)
