"""Plug-ins of the MQTT door: installed packages decide about clients and see their messages, without a change here.

A package names a class in its entry point group `glue.mqtt`. The class is made without arguments when the door starts,
and derives from `Plugin`; it overrides what it needs. Several plug-ins are asked in the order of their names.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import entry_points

from glue.errors import ConfigurationError
from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.codes import IMPLEMENTATION_ERROR
from glue.gateway.mqtt.identity import Identity, Refusal, Remote
from glue.gateway.mqtt.packets import Connect, Publish

GROUP = "glue.mqtt"

logger = logging.getLogger("glue.mqtt")


class Plugin:
    """The methods that a plug-in may override. None means: not decided here. No method may wait but `authenticate`."""

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """Return the client's identity or a refusal; called in a thread of its own, so it may take time."""
        return None

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool | None:
        """Whether a client may "read" a topic filter or "write" a topic; asked anew for messages that come together."""
        return None

    def on_publish(self, client_id: str, run: Publish) -> None:
        """See a client's messages of one topic, which differ in payload alone."""

    def on_session(self, client_id: str, event: str) -> None:
        """See that a session is "connected", "disconnected" or "ended"."""


class PluginAccess:
    """Asks plug-ins first, and then the access that the door would have without them."""

    def __init__(self, plugins: Sequence[Plugin], otherwise: Access) -> None:
        self._plugins = plugins
        self._otherwise = otherwise
        self._decided = ""  # the plug-in that has refused last, "" if it was the access

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """Never known at once: a plug-in may take time."""
        return None

    def check(self, connect: Connect, remote: Remote) -> Identity | Refusal:
        """The first answer of a plug-in, else the one of the door. A plug-in that fails refuses."""
        for plugin in self._plugins:
            try:
                answer = plugin.authenticate(connect, remote)
            except Exception:
                logger.exception("plug-in %s failed to authenticate a client", type(plugin).__name__)
                return Refusal(IMPLEMENTATION_ERROR, "a plug-in of the gateway failed")
            if answer is not None:
                return answer
        found = self._otherwise.authenticate(connect, remote)
        return self._otherwise.check(connect, remote) if found is None else found

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        """The first decision of a plug-in, else the one of the door. A plug-in that fails refuses."""
        self._decided = ""
        for plugin in self._plugins:
            try:
                decision = plugin.authorize(identity, client_id, action, name)
            except Exception:
                logger.exception("plug-in %s failed to authorize a client", type(plugin).__name__)
                self._decided = f"plug-in {type(plugin).__name__} failed"
                return False
            if decision is not None:
                self._decided = f"plug-in {type(plugin).__name__}"
                return decision
        return self._otherwise.authorize(identity, client_id, action, name)

    def refused_by(self, identity: Identity, client_id: str, action: str, name: str) -> str:
        """The plug-in, or the rule of the door."""
        return self._decided or self._otherwise.refused_by(identity, client_id, action, name)

    def narrows(self, identity: Identity, client_id: str, name: str) -> bool:
        """As the access of the door says."""
        return self._otherwise.narrows(identity, client_id, name)

    def changed(self) -> bool:
        """As the access of the door says."""
        return self._otherwise.changed()

    def knows(self, identity: Identity) -> bool:
        """As the access of the door says."""
        return self._otherwise.knows(identity)


def load_plugins() -> list[Plugin]:
    """Make all installed plug-ins. Raises ConfigurationError for one that cannot be made."""
    found = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            plugin = entry.load()()
        except Exception as error:
            raise ConfigurationError(f"plug-in {entry.name} ({entry.value}) cannot be loaded: {error}") from error
        if not isinstance(plugin, Plugin):
            raise ConfigurationError(f"plug-in {entry.name} ({entry.value}) is no glue.gateway.mqtt.Plugin")
        found.append(plugin)
    return found
