"""The transport layer: acknowledgement, resend, order, no duplicates, flow control; between endpoint ids."""

from glue.transport.layer import Transport
from glue.transport.window import Window

__all__ = ["Transport", "Window"]
