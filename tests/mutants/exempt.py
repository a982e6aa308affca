"""Constants that are left alone: their exact value changes nothing that a test should notice, only what it costs.

Sizes of caches and buffers, and how much is done at once. A limit that protects memory or a peer is not among them.
"""

from __future__ import annotations

EXEMPT: dict[str, tuple[str, ...]] = {
    "glue/capture/pcapng.py": ("BUFFER",),
    "glue/capture/sniffer.py": ("BUFFER",),
    "glue/capture/tap.py": ("HEADERS_KNOWN",),
    "glue/endpoint/core.py": ("CHUNK",),
    "glue/endpoint/reserved.py": ("KNOWN_LENGTH", "KNOWN_TOPICS"),
    "glue/fragmentation/assembly.py": ("FEW",),
    "glue/contract/train_buffer.py": ("BORROWED", "JOINED", "LAYOUTS", "STREAM"),
    "glue/network/addresses.py": ("ADDRESSES", "TIMEOUT", "TRIES"),
    "glue/network/receiver.py": ("LONGEST", "MOST_RESTS"),
    "glue/network/sender.py": ("REMEMBERED",),
    "glue/network/sockets.py": ("LARGEST_BUFFER", "SEND_BUFFER", "SMALLEST_BUFFER"),
    "glue/serialization/runs.py": ("FIRST_BLOCK", "PLACES"),
    "glue/topics/plain.py": ("CHUNK_SIZE",),
    "glue/topics/index.py": ("CACHED_LENGTH", "CACHED_TOPICS"),
    "spark/read/records.py": ("PADDING",),
}
