"""Layer network: datagrams in and out, interfaces and multicast groups; the only sockets in glue.

Endpoints use `MulticastNetwork`, or `LinkedNetwork` of `glue.network.linked` over several interfaces. `list_interfaces`
lists the interfaces, and `choose_interface` returns the choice.
"""

from glue.network.choice import Choice, choose_interface, obstacle
from glue.network.group import MulticastGroup, parse_group
from glue.network.interfaces import Interface, list_interfaces
from glue.network.multicast import MulticastNetwork

__all__ = [
    "Choice",
    "Interface",
    "MulticastGroup",
    "MulticastNetwork",
    "choose_interface",
    "list_interfaces",
    "obstacle",
    "parse_group",
]  # fmt: skip
