"""Captured traffic through glue's own layers again, in virtual time (`python -m spark.replay`)."""

from spark.replay.engine import Captured, Replayed, replay
from spark.replay.trace import endpoints, inbound

__all__ = ["Captured", "Replayed", "endpoints", "inbound", "replay"]
