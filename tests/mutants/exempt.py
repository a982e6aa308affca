"""Constants that are left alone: their exact value changes nothing that a test should notice, only what it costs.

Sizes of caches and buffers, how much is done at once, and how long something gathers or is looked for before the
ordinary way is taken. A limit that protects memory or a peer is not among them.
"""

from __future__ import annotations

EXEMPT: dict[str, tuple[str, ...]] = {
    "glue/aio/driver.py": ("GATHERED", "PATIENCE"),
    "glue/aio/receivers.py": ("GATHERED", "LOOK", "PASS", "WOULD_BLOCK"),
    "glue/capture/pcapng.py": ("BUFFER",),
    "glue/capture/sniffer.py": ("BUFFER",),
    "glue/capture/tap.py": ("HEADERS_KNOWN",),
    "glue/contract/train_buffer.py": ("BORROWED", "JOINED", "LAYOUTS", "STREAM"),
    "glue/drivers/asking.py": ("PATIENT", "REFRAINS"),
    "glue/drivers/leader.py": ("ALERT", "BRIEF", "BRIEFER", "MOST_SKIPPED", "QUIET", "SLEEP"),
    "glue/drivers/log_writer.py": ("BATCH",),
    "glue/drivers/network_seat.py": ("ASIDE", "LONGER", "LONGEST", "RELIEF"),
    "glue/drivers/send_policy.py": ("BUNDLE", "BUSY", "COALESCE", "LATELY"),
    "glue/drivers/turns.py": ("ATTENTIVE",),
    "glue/endpoint/consuming.py": ("PERIOD",),
    "glue/endpoint/core.py": ("CHUNK", "CHUNK_COUNT", "EARLY"),
    "glue/endpoint/deadlines.py": ("STEP",),
    "glue/endpoint/history.py": ("BURST", "PACE", "UNDER_WAY"),
    "glue/endpoint/receiver_kind.py": ("IDLE_LOOK", "TIMERS_LEAST"),
    "glue/endpoint/receiver_running.py": ("RUN",),
    "glue/endpoint/requests.py": ("KNOWN_LENGTH", "KNOWN_TOPICS"),
    "glue/endpoint/reserved.py": ("KNOWN_LENGTH", "KNOWN_TOPICS"),
    "glue/endpoint/secrets.py": ("TRIALS",),
    "glue/endpoint/shared.py": ("PERIOD",),
    "glue/fragmentation/assembly.py": ("FEW",),
    "glue/gateway/http/deliveries.py": ("FEW", "READ_AHEAD"),
    "glue/gateway/http/recent.py": ("RECORD_COST",),
    "glue/gateway/http/server.py": ("AT_ONCE", "BACKLOG"),
    "glue/gateway/http/sharing.py": ("TOGETHER", "TRY_INTERVAL"),
    "glue/gateway/http/sources.py": ("READ_SIZE", "TOGETHER"),
    "glue/gateway/http/tail.py": ("ENTRY_COST",),
    "glue/gateway/mqtt/connection.py": ("EMPTY", "FULL"),
    "glue/gateway/mqtt/runs.py": ("MANY",),
    "glue/network/addresses.py": ("ADDRESSES", "TIMEOUT", "TRIES"),
    "glue/network/receiver.py": ("LONGEST", "MOST_RESTS"),
    "glue/network/sender.py": ("REMEMBERED",),
    "glue/network/sockets.py": ("LARGEST_BUFFER", "SEND_BUFFER", "SMALLEST_BUFFER"),
    "glue/serialization/runs.py": ("FIRST_BLOCK", "PLACES"),
    "glue/sync/publishing.py": ("GATHER",),
    "glue/sync/receivers.py": ("ASKS", "LOOK", "REST", "RUNNING", "WOULD_BLOCK"),
    "glue/sync/requests.py": ("GATHER", "ROOM"),
    "glue/sync/responder.py": ("GATHER",),
    "glue/sync/sleeping.py": ("LOOK",),
    "glue/topics/index.py": ("CACHED_LENGTH", "CACHED_TOPICS"),
    "glue/topics/plain.py": ("CHUNK_SIZE",),
    "spark/read/records.py": ("PADDING",),
}
