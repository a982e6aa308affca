"""The discovery layer: who is there, under which address, and what they want to hear."""

from glue.discovery.dns_sd import ServiceDiscovery
from glue.discovery.layer import Discovery
from glue.discovery.peers import PeerInfo
from glue.discovery.registry import Registry, ZeroconfRegistry

__all__ = ["Discovery", "PeerInfo", "Registry", "ServiceDiscovery", "ZeroconfRegistry"]
