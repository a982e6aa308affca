"""Methods of every kind of endpoint for its own wills."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from glue.contract import Delivery, Subscribe, Unsubscribe
from glue.endpoint.core import EndpointCore
from glue.endpoint.receivers import Announcement
from glue.endpoint.reserved import WILL_OF
from glue.errors import ConfigurationError, MessageTooLargeError
from glue.model import StackRequest

if TYPE_CHECKING:  # imported when used: most programs have no will
    from glue.endpoint.wills import Will


class LastWill:
    """A will of this endpoint, until it is withdrawn or replaced."""

    def __init__(self, owner: WillMethods, will: Will) -> None:
        """Use `Endpoint.will`."""
        self.topic = will.topic
        self._owner = owner
        self._will = will

    def withdraw(self) -> None:
        """Take the will back. A second call, or one for a replaced will, does nothing."""
        self._owner._withdraw(self._will)

    def __repr__(self) -> str:
        return f"<LastWill {self.topic!r}>"


class WillMethods:
    """The wills of an endpoint."""

    _core: EndpointCore
    _wills: dict[str, Will] | None = None  # by topic; set by the first will
    _will_numbers: count[int] | None = None
    _will_flag: Announcement | None = None  # while there is a will

    def _order_request(self, request: StackRequest) -> None:
        """Pass a request to the stack. Raises ClosedError."""
        raise NotImplementedError

    def _order_quietly(self, request: StackRequest) -> None:
        """Pass a request to the stack; a closed endpoint drops it."""
        raise NotImplementedError

    def _drop_delivery(self, delivery: Delivery) -> None:
        """Drop what a peer published where nothing is to be published."""
        raise NotImplementedError

    def will(self, topic: str, payload: Any, *, retain: bool = False, delay: float = 0.0) -> LastWill:
        """Have a message published when this endpoint is lost without a goodbye. A second will on a topic replaces it.

        topic, payload, retain: as for `publish`; the message comes in this endpoint's name.
        delay: seconds to wait after the loss; if the endpoint is back by then, nothing is published.

        The peers hold the will and publish it once. `close` says goodbye, so nothing is published then. Up to 64 wills
        and 1 MiB of payloads. Raises TopicError, PayloadError, MessageTooLargeError, ConfigurationError, ClosedError.
        """
        from glue.endpoint.wills import DELAY_LIMIT, WILLS, WILLS_SIZE, Will

        is_number = isinstance(delay, (int, float)) and not isinstance(delay, bool)
        if not is_number or not 0 <= delay <= DELAY_LIMIT:
            raise ConfigurationError(f"delay={delay!r}: expected 0 to {DELAY_LIMIT} seconds")
        message = self._core.publication(topic, payload, 0.0, retain=retain)
        wills = dict(self._wills or {})
        self._will_numbers = self._will_numbers or count(1)
        will = Will(next(self._will_numbers), topic, message.payloads[0], message.json, retain, delay)
        wills[topic] = will
        if len(wills) > WILLS:
            raise ConfigurationError(f"{len(wills)} wills: expected at most {WILLS}; withdraw some")
        size = sum(len(one.payload) for one in wills.values())
        if size > WILLS_SIZE:
            raise MessageTooLargeError(f"{size} bytes in all wills; the limit is {WILLS_SIZE}")
        self._order_request(self._will_message(wills))
        self._wills = wills
        if self._will_flag is None:
            self._will_flag = Announcement(self._drop_delivery)
            self._order_request(Subscribe(self._will_flag, WILL_OF + self._core.identity.endpoint_id))
        return LastWill(self, will)

    def _will_message(self, wills: dict[str, Will]) -> StackRequest:
        from glue.endpoint.wills import WILLS_OF, encode_wills, publication_of

        topic = WILLS_OF + self._core.identity.endpoint_id
        payload = encode_wills(list(wills.values())) if wills else b""
        return publication_of(topic, payload, self._core.requests.unix_time())

    def _withdraw(self, will: Will) -> None:
        """Take a will back."""
        wills = self._wills or {}
        if wills.get(will.topic) is will:
            self._wills = {topic: one for topic, one in wills.items() if one is not will}
            self._order_quietly(self._will_message(self._wills))
            if not self._wills and self._will_flag is not None:
                self._order_quietly(Unsubscribe(self._will_flag))
                self._will_flag = None
