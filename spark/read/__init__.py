"""Reader of captures (pcap, pcapng) as rows of `frames`, in Arrow batches. The reader needs NumPy and no JVM.

records, pcap, pcapng    starts of captured frames in a block of a file
link                     link, VLAN, IP and UDP headers, trains of datagrams
header, templates        glue's headers: single headers, and thousands at once
bodies                   contents of bodies
frames                   all columns, as Arrow batches
sealed                   the open part of sealed datagrams, as Arrow batches
files, cuts, partitions  paths and files, and how parts of a large file are read
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
