"""Facts about a machine and its segment, for `glue.doctor` to judge: /proc, /sys, sockets, and endpoints."""

from glue.observing.observer import Observer

__all__ = ["Observer"]
