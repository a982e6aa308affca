"""The check whether an endpoint has a key, and the name in the key, without importing the rest of security."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from glue.errors import ConfigurationError
from glue.settings import Settings
from glue.stack import Secrets

if TYPE_CHECKING:
    from glue.storage import Directory


def secrets_of(settings: Settings, entropy: Callable[[int], bytes] | None, started_at: float) -> Secrets | None:
    """Open what an endpoint seals with, if it has a key. Raises ConfigurationError and MissingExtraError."""
    if settings.storage_key is not None:  # checked now, though it is used only once something is stored
        from glue.endpoint.secrets import read_storage_key  # imported here: most programs use no key

        read_storage_key(settings.storage_key)
    if settings.key is None:
        if settings.policy is not None:
            raise ConfigurationError("policy without a key: name the key file, too (key=, GLUE_KEY or --key)")
        if settings.identity is not None:
            raise ConfigurationError("identity without a key: name the key file, too (key=, GLUE_KEY or --key)")
        return None
    from glue.endpoint.secrets import open_secrets  # imported here: most programs use no key

    secrets = open_secrets(settings.key, settings.identity, settings.policy, entropy, started_at)
    proved = proved_name(secrets)
    if proved is not None and settings.name not in (None, proved):
        raise ConfigurationError(f"name={settings.name!r}: the identity is that of {proved!r}; leave the name out")
    return secrets


def proved_name(secrets: Secrets | None) -> str | None:
    """Return the name that an endpoint's identity proves."""
    return None if secrets is None or secrets.identity is None else secrets.identity.name


def require(guard: Any, action: str, topics: Sequence[str]) -> None:
    """Raise ForbiddenError if the rules do not allow this endpoint an action on one of the topics or patterns.

    `guard` is that of the core; None without identities.
    """
    if guard is not None:
        for topic in topics:
            guard.require(action, topic)


def at_rest(settings: Settings, entropy: Callable[[int], bytes] | None, directory: Directory) -> Directory:
    """Return the directory, sealed if the endpoint has a key for what it stores.

    Raises ConfigurationError if what it holds does not fit. Closes the directory if it raises.
    """
    from glue.storage import SEALED  # imported here: most programs store nothing

    place = f"data_dir={str(getattr(directory, 'path', '')) or directory!r}"
    try:
        if settings.storage_key is not None:
            from glue.endpoint.secrets import sealed_at_rest  # imported here: most programs use no key

            return sealed_at_rest(directory, settings.storage_key, entropy, place)
        if directory.read(SEALED) is not None:
            raise ConfigurationError(
                f"{place} is sealed; name its key file by storage_key=, GLUE_STORAGE_KEY or --storage-key"
            )
    except BaseException:
        directory.close()
        raise
    return directory
