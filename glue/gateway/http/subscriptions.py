"""Subscriptions as resources: what a client may say about one, and how it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from glue.errors import ConfigurationError
from glue.gateway.http.guard import check_url
from glue.gateway.http.limits import Limits
from glue.gateway.http.signing import key_of
from glue.topics import check_pattern

ACTIVE, PAUSED, GONE = "active", "paused", "gone"
"""States: deliver; wait, as a client said; wait, because the subscriber answered 410."""

FORMATS = ("raw", "carrier")
SECRETS = 2
"""Secrets of a subscription: the new one, and the old one until all receivers know the new one."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscriber of a pattern: the address to call with each message until it accepts."""

    id: str
    topic: str
    """A topic or a pattern."""
    url: str
    secrets: tuple[str, ...] = ()
    parallel: int = 1
    """Deliveries at a time; with more than one they may overtake each other."""
    timeout: float = 15.0
    """Seconds that an attempt may take."""
    give_up_after: float | None = None
    """Seconds after which a message becomes a dead letter; None: never."""
    format: str = "raw"
    """"raw": the payload with headers; "carrier": JSON as Carrier sends it."""
    owner: str = ""
    """The name of the token or certificate that made it."""
    state: str = ACTIVE
    created: float = 0.0
    """Unix seconds."""

    def shown(self) -> dict[str, Any]:
        """Return what clients see: all but the secrets."""
        found = asdict(self)
        found["secrets"] = len(self.secrets)
        return found

    def stored(self) -> dict[str, Any]:
        """Return what is stored."""
        return {**asdict(self), "secrets": list(self.secrets)}


def subscription_of(stored: Mapping[str, Any]) -> Subscription:
    """Return a subscription that was stored. Raises ConfigurationError."""
    names = {field.name for field in fields(Subscription)}
    known = {name: value for name, value in stored.items() if name in names}
    try:
        return Subscription(**{**known, "secrets": tuple(known.get("secrets", ()))})
    except TypeError as error:
        raise ConfigurationError(f"a stored subscription is malformed: {error}") from None


CHANGEABLE = ("url", "secret", "parallel", "timeout", "give_up_after", "state")


def changed(known: Subscription, wanted: Mapping[str, Any], limits: Limits) -> Subscription:
    """Return a subscription with the changes that a client wants. Raises ConfigurationError, TopicError.

    A new `secret` is used beside the one before; `"secret": null` drops the older one of two.
    """
    for name in wanted:
        if name not in (*CHANGEABLE, "topic", "format", "start"):
            raise ConfigurationError(f"{name!r:.80}: no such member; there are {', '.join(CHANGEABLE)}")
    values: dict[str, Any] = {}
    if "topic" in wanted:
        check_pattern(wanted["topic"])
        values["topic"] = wanted["topic"]
    if "url" in wanted:
        values["url"] = check_url(wanted["url"])
    if "secret" in wanted:
        values["secrets"] = _secrets(known.secrets, wanted["secret"])
    if "parallel" in wanted:
        values["parallel"] = _whole("parallel", wanted["parallel"], limits.parallel)
    if "timeout" in wanted:
        values["timeout"] = _seconds("timeout", wanted["timeout"], 60.0, 0.1)
    if "give_up_after" in wanted:
        given = wanted["give_up_after"]
        values["give_up_after"] = None if given is None else _seconds("give_up_after", given, 366 * 86_400.0)
    for name, allowed in (("state", (ACTIVE, PAUSED)), ("format", FORMATS)):
        if name in wanted:
            if wanted[name] not in allowed:
                raise ConfigurationError(f"{name}={wanted[name]!r:.80}: expected {' or '.join(allowed)}")
            values[name] = wanted[name]
    return replace(known, **values)


def _secrets(known: tuple[str, ...], secret: Any) -> tuple[str, ...]:
    if secret is None:
        return known[:1]
    if not isinstance(secret, str):
        raise ConfigurationError("secret: expected a string, or null to drop the older one of two")
    key_of(secret)
    return (secret, *(one for one in known if one != secret))[:SECRETS]


def _whole(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ConfigurationError(f"{name}={value!r:.80}: expected a whole number from 1 to {most}")
    return value


def _seconds(name: str, value: Any, most: float, least: float = 1e-6) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigurationError(f"{name}={value!r:.80}: expected seconds, at least {least:g} and at most {most:g}")
    return float(value)
