"""Captures (pcap, pcapng) to rows of `frames`, as Arrow batches: NumPy alone, no JVM.

records, pcap, pcapng    where captured frames start in a block of a file
link                     link, VLAN, IP and UDP headers, trains of datagrams
header, templates        glue's headers: one by one, and thousands at once
bodies                   what stands in bodies
frames                   all of it, as Arrow batches
files, cuts, partitions  paths and files, and how one large file is read in parts
"""

from spark.read.files import CaptureError, captures
from spark.read.frames import Tally
from spark.read.partitions import PARTITION_BYTES, Partition, check, file_partitions, partitions

__all__ = [
    "PARTITION_BYTES",
    "CaptureError",
    "Partition",
    "Tally",
    "captures",
    "check",
    "file_partitions",
    "partitions",
]
