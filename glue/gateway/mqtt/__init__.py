"""A door for MQTT clients (3.1, 3.1.1 and 5): they talk with each other and with the endpoints of the network.

`codes`, `properties`, `packets`, `decoder`, `runs` and `encoder` read and write packets. `session`, `subscriptions`,
`retained` and the parts of `broker` decide, without clock and socket. `door` and `websocket` are the sockets, and
`gateway` joins a broker with an endpoint.
"""

from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.files import FileAccess
from glue.gateway.mqtt.gateway import Gateway
from glue.gateway.mqtt.identity import Identity, Refusal, Remote, Rule
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.plugins import Plugin

__all__ = ["Access", "FileAccess", "Gateway", "Identity", "Limits", "Plugin", "Refusal", "Remote", "Rule"]
