"""An endpoint that samples topics and notes publishers and subscribers, for the commands that watch the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import glue
from glue.cmd.losses import Losses
from glue.cmd.output import payload_fields, payload_text
from glue.codecs import codec_named, name_of_tag
from glue.discovery.inquiry import Inquiry
from glue.endpoint.inquiring import answered, begin
from glue.schema import PUBLISH, SUBSCRIBE
from glue.spying.bus import Bus, Sample, Topic
from glue.spying.roles import Announced, Roles
from glue.sync.sampling import sample
from glue.topics.samples import CODEC, SIZE

ROLES: Final = {PUBLISH: "publisher", SUBSCRIBE: "subscriber"}
"""Roles by the way in which types are announced."""
SAMPLES: Final = 4000
"""Samples a second that are taken of all publishers: they cost some 10 % of a core."""
FEWEST: Final = 50
"""Samples a second of one publisher at least, however many there are."""
ASKING: Final = 2.0
"""Seconds between two questions for losses."""


class Watch:
    """Samples topics and notes roles, peers and losses, in the threads of an endpoint; `lock` guards all of it."""

    def __init__(self, endpoint: glue.Endpoint, pattern: str, interval: float = 1.0) -> None:
        """Begin to watch; `interval` (seconds) is between two samples of a topic."""
        self.endpoint = endpoint
        self.pattern = pattern
        self.interval = interval
        self.lock = threading.Lock()
        self.bus, self.roles, self.losses = Bus(), Roles(), Losses()
        self._inquiry: Inquiry | None = None
        self._asked_at = 0.0
        self._count = 0
        self._samples: Any = None
        self._sample_again()
        endpoint.watch_presence("#", self._note)

    def look(self) -> None:
        """Bring types, losses and the number of samples that is asked for up to date.

        To be called about once a second.
        """
        self.note_types()
        self._ask_again()
        self._sample_again()

    def note_types(self) -> None:
        """Bring the announced types up to date."""
        name_of = self.endpoint._core.requests.name_of
        told = [
            Announced(one.pattern, ROLES[one.way], name_of(peer), one.label)
            for peer, one in [*self.endpoint._core.types.directory]
        ]
        with self.lock:
            self.roles.types(told)

    def _ask_again(self) -> None:
        """Take the losses that endpoints told, and ask again."""
        now = time.monotonic()
        if self._inquiry is not None and now - self._asked_at < ASKING:
            return
        if self._inquiry is not None:
            self.losses.take(answered(self._inquiry))
        self._inquiry, self._asked_at = begin(self.endpoint, ["activity"], ASKING / 2), now

    def _sample_again(self) -> None:
        """Ask each publisher for its part of the samples, if that has changed."""
        publishers = 1 << max(len(self.endpoint.peers) - 1, 0).bit_length()  # a power of two, so that it seldom changes
        count = max(round(SAMPLES * self.interval / publishers), round(FEWEST * self.interval), 1)
        if count != self._count:
            before, self._count = self._samples, count
            self._samples = sample(self.endpoint, self.pattern, self._take, self.interval, min(count, 10_000))
            if before is not None:
                before.close()

    # ------------------------------------------------------------------------------------- in other threads

    def _take(self, message: glue.Message) -> None:
        found = sample_of(message)
        with self.lock:
            self.bus.take(time.monotonic(), found)

    def _note(self, change: glue.Presence) -> None:
        with self.lock:
            if change.kind != "endpoint":
                self.roles.change(Announced(change.pattern, change.kind, change.name), change.present)
            elif not change.present:
                self.bus.forget(change.id)


def sample_of(message: glue.Message) -> Sample:
    """A sample as the table takes it."""
    payload, encoded, properties = message.payload, message.encoded or b"", message.properties
    codec = message.codec or ""
    size = len(encoded)
    if SIZE in properties:
        size = max(size, _number(properties[SIZE]))
        codec = name_of_tag(tag) if (tag := _number(properties.get(CODEC, ""))) else properties.get(CODEC, "")
    kind = message.type or codec or ("bytes" if isinstance(payload, bytes) else "json")
    return Sample(
        message.topic, payload, size, kind, message.publisher, message.publisher_id, message.incarnation,
        message.sequence, message.published_at, message.retained, codec if SIZE not in properties else "",
    )  # fmt: skip


def _number(text: str) -> int:
    """A number in a property of a peer, 0 if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else 0


def value_of(topic: Topic) -> Any:
    """The last value of a topic, decoded if its codec is there."""
    if not topic.codec:
        return topic.payload
    try:
        return codec_named(topic.codec).decode(topic.payload)
    except Exception:  # an unknown codec, a missing extra, or a payload that the codec refuses
        return topic.payload


def topic_fields(topic: Topic, watch: Watch, now: float) -> dict[str, Any]:
    """A topic for programs."""
    rate, roles = topic.rate_at(now), watch.roles
    publishers, subscribers = publishers_of(topic, roles), roles.names(topic.name, "subscriber")
    loss = watch.losses.worst(publishers, subscribers)
    return {
        "topic": topic.name,
        **payload_fields(topic.payload),
        "type": roles.type_of(topic.name) or topic.type,
        "size": topic.size,
        "rate": round(rate, 3),
        "bytes_rate": round(rate * topic.mean_size, 1),
        "messages": topic.count,
        "publishers": publishers,
        "subscribers": subscribers,
        "loss": None if loss is None else round(loss, 4),
        "retained": topic.retained,
        "published_at": topic.published_at,
    }


def publishers_of(topic: Topic, roles: Roles) -> list[str]:
    """Sorted names of the endpoints that publish, or announce that they do."""
    return sorted({*[source.name for source in topic.sources.values()], *roles.names(topic.name, "publisher")})


def shown_value(topic: Topic, length: int) -> str:
    """The last value of a topic in one line for people."""
    return payload_text(value_of(topic), length)


def some(names: Sequence[str], most: int = 2) -> str:
    """Some names, and how many more there are."""
    return ", ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")
