"""A plug-in for the MQTT door: clients may write below their own name alone, and sessions are printed.

An installed package offers it by an entry point, in its setup.cfg:

    [options.entry_points]
    glue.mqtt =
        own_names = mqtt_plugin:OwnNames
"""

from __future__ import annotations

from glue.gateway.mqtt import Identity, Plugin


class OwnNames(Plugin):
    """Allows a client to publish to `devices/<its client id>/…` alone; anybody may read everything."""

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool | None:
        """Decide about writing; leave reading to the rules of the door."""
        return name.startswith(f"devices/{client_id}/") if action == "write" else None

    def on_session(self, client_id: str, event: str) -> None:
        """Print what happens to a session."""
        print(client_id, event)


if __name__ == "__main__":
    plugin = OwnNames()
    plugin.on_session("lamp-1", "connected")
    print(plugin.authorize(Identity(), "lamp-1", "write", "devices/lamp-1/state"))
    print(plugin.authorize(Identity(), "lamp-1", "write", "devices/lamp-2/state"))
