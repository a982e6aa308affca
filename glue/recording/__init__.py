"""Recordings of topics in MCAP files, which Foxglove and the `mcap` command open.

Each topic is a channel, or several: messages with another publisher, type or other properties have a separate channel,
with these in its metadata. The package `mcap` (extra `glue-lan[mcap]`) does the format, and is imported at first use.
"""

from glue.recording.channels import RecordedMessage
from glue.recording.reader import McapReader
from glue.recording.writer import McapWriter

__all__ = ["McapReader", "McapWriter", "RecordedMessage"]
