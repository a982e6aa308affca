"""The methods for durable consumers that every kind of endpoint has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from glue.contract import Subscribe
from glue.endpoint.core import EndpointCore, check_not_reserved
from glue.endpoint.owner import OwnerFunctions
from glue.errors import ConfigurationError
from glue.model import StackRequest
from glue.topics import check_pattern

if TYPE_CHECKING:  # imported when used: most programs have no consumer
    from datetime import datetime

    from glue.endpoint.consumer_room import ConsumerRoom
    from glue.endpoint.consumer_state import ConsumerState
    from glue.endpoint.consuming import Consuming
    from glue.endpoint.wanted import Wanted


ANSWER_TIME = 2.0
"""Seconds that keepers have to tell of their consumers."""


class ConsumerMethods:
    """Durable consumers of an endpoint."""

    _core: EndpointCore
    _owner: OwnerFunctions
    _COUNTS: bool
    _consuming: Consuming | None = None  # set by the first use

    def _order_request(self, request: StackRequest) -> None:
        """Pass a request to the stack. Raises ClosedError."""
        raise NotImplementedError

    def _order_quietly(self, request: StackRequest) -> None:
        """Pass a request to the stack; a closed endpoint drops it."""
        raise NotImplementedError

    def _open_consuming(self) -> Consuming:
        """Return the endpoint's memberships. Raises ClosedError."""
        if self._consuming is None:
            from glue.consumers.wire import tell_topic
            from glue.endpoint.consuming import Consuming

            identity = self._core.identity
            consuming = Consuming(self._core, self._owner, self._order_quietly, self._COUNTS)
            self._order_request(Subscribe(consuming, tell_topic(identity.endpoint_id, identity.incarnation)))
            self._consuming = consuming
        return self._consuming

    def _consumer_room(self, wanted: Wanted, policy: str, limit: int | None) -> ConsumerRoom:
        """Where the messages of a consumer wait. Raises ConfigurationError, ClosedError."""
        if policy != "block" or limit is not None:
            raise ConfigurationError(
                f"policy={policy!r}, limit={limit!r}: a consumer loses nothing; leave them out with consumer=…"
            )
        from glue.endpoint.history_options import start_of  # imported when used
        from glue.history.wire import FROM

        start = start_of("earliest" if wanted.start is None else wanted.start, None, self._core.requests.unix_time())
        if start[0] == FROM:
            raise ConfigurationError(f'start={wanted.start!r}: a consumer begins "earliest", "latest" or at a time')
        assert wanted.consumer is not None
        name, pattern = wanted.consumer, wanted.name
        return self._open_consuming().room(name, pattern, start, wanted.ordered, wanted.by_hand)

    def _end_consuming(self) -> None:
        """Leave all consumers, as the endpoint closes."""
        if self._consuming is not None:
            self._consuming.leave_all()

    # ---------------------------------------------------------------------------------------------- people

    def _ask_keepers(self, keepers: Sequence[str], head: dict[str, Any]) -> tuple[dict[str, Any], Callable[[], None]]:
        """Ask keepers something; returns where their answers appear, and what ends the waiting for them."""
        from glue.consumers.wire import ask_topic, encode

        consuming = self._open_consuming()
        answers: dict[str, Any] = {}
        number = consuming.ask(
            keepers, lambda keeper, number: (ask_topic(keeper), encode({**head, "id": number})), answers.__setitem__
        )
        return answers, lambda: consuming.asked(number)

    def _all_keepers(self) -> list[str]:
        return [*self._core.durability.disks.copy()]

    def _name_of(self, member: str) -> str:
        id = member.partition("-")[0]
        identity = self._core.identity
        return identity.name if id == identity.endpoint_id else self._core.requests.name_of(id)

    def _states(self, answers: dict[str, Any]) -> list[ConsumerState]:
        from glue.endpoint.consumer_state import ConsumerState

        found = []
        for head in answers.values():
            try:
                for one in head.get("consumers", []):
                    topic, published_at = one.get("oldest") or ("", 0.0)
                    found.append(ConsumerState(
                        str(one["name"]), str(one["pattern"]), self._name_of(one["keeper"]), int(one["lag"]),
                        tuple(self._name_of(member) for member in one["members"]), int(one["failures"]),
                        float(one["still"]), bool(one["stuck"]), str(topic), float(published_at),
                    ))  # fmt: skip
            except (KeyError, TypeError, ValueError, AttributeError):
                self._core.statistics["malformed messages from the home of a consumer"] += 1
        return sorted(found)

    def _move(self, name: str, pattern: str, to: str | datetime | None) -> dict[str, Any]:
        """The question that moves a consumer, or forgets it. Raises TopicError, ConfigurationError."""
        from glue.consumers.wire import check_name

        check_pattern(pattern)
        check_not_reserved(pattern)
        if not check_name(name):
            raise ConfigurationError(f"name={name!r:.80}: expected 1 to 200 characters without / + and #")
        if to is None:
            return {"ask": "forget", "name": name, "pattern": pattern}
        from glue.endpoint.history_options import start_of
        from glue.history.wire import FROM

        start = start_of(to, None, self._core.requests.unix_time(), "to")
        if start[0] == FROM:
            raise ConfigurationError(f'to={to!r}: a consumer goes on "earliest", "latest" or at a time')
        return {"ask": "seek", "name": name, "pattern": pattern, "start": start}
