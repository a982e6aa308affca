"""The discovery layer: the peers, their addresses and their interests."""

from glue.discovery.dns_sd import ServiceDiscovery
from glue.discovery.layer import Discovery
from glue.discovery.peers import PeerInfo
from glue.discovery.registry import Registry

__all__ = ["Discovery", "PeerInfo", "Registry", "ServiceDiscovery"]
