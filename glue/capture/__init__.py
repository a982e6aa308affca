"""Capture: record glue's datagrams as pcapng, for Spark, Wireshark and scapy.

`tap` records what one endpoint sends and receives. `glue record` (`glue.cmd.record`) records what passes an interface.
`glue.capture.scapy_layer` teaches scapy to decode the datagrams.
"""

from glue.capture.pcapng import Recording
from glue.capture.tap import tap

__all__ = ["Recording", "tap"]
