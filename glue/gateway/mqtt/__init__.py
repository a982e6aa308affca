"""A door for MQTT clients (3.1, 3.1.1 and 5): they talk with each other and with the endpoints of the network.

`codes`, `properties`, `packets`, `decoder`, `runs` and `encoder` read and write packets. `session`, `subscriptions`,
`retained` and the parts of `broker` decide, without clock and socket. `door` and `websocket` are the sockets, and
`gateway` joins a broker with an endpoint.
"""

from glue.gateway.mqtt.access import Access, Identity, Refusal, Rule
from glue.gateway.mqtt.gateway import Gateway
from glue.gateway.mqtt.limits import Limits

__all__ = ["Access", "Gateway", "Identity", "Limits", "Refusal", "Rule"]
