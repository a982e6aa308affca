"""Captures: what glue's endpoints send, recorded as pcapng for Spark, Wireshark and scapy.

`tap` records what one endpoint sends and receives, `glue record` (`glue.cmd.record`) what passes an interface;
`glue.capture.scapy_layer` teaches scapy to decode it.
"""

from glue.capture.pcapng import Recording
from glue.capture.tap import tap

__all__ = ["Recording", "tap"]
