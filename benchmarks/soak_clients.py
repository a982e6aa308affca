"""Clients of the doors in the soak run: MQTT by paho, HTTP by the client of glue; see `benchmarks.soak`.

    python -m benchmarks.soak_clients DIRECTORY

The MQTT client publishes with QoS 1 and reads its own topic; a second one reads what the HTTP client publishes. At
SIGTERM it writes what it found, and ends.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from glue.gateway.http import Client
from glue.gateway.http.client import DoorError

PACE = 0.2
HTTP = "http://127.0.0.1:8080"


class Reader:
    """An MQTT client that reads one topic, and checks that numbers come in order and without a gap."""

    def __init__(self, topic: str, faults: list[str]) -> None:
        self.last = -1
        self._topic = topic
        self._faults = faults
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2, f"reader-{topic.replace('/', '-')}", protocol=mqtt.MQTTv5
        )
        self.client.on_connect = self._subscribe
        self.client.on_message = self._take

    def _subscribe(self, *_: Any) -> None:
        self.client.subscribe(self._topic, qos=1)

    def _take(self, client: Any, data: Any, message: Any) -> None:
        number = int(message.payload)
        if number != self.last + 1 and self.last >= 0 and len(self._faults) < 50:
            self._faults.append(f"{self._topic}: {number} after {self.last}")
        self.last = number


def connect(client: mqtt.Client) -> None:
    """Connect once the door listens."""
    while True:
        try:
            client.connect("127.0.0.1", 1883)
        except OSError:
            time.sleep(0.5)
        else:
            client.loop_start()
            return


def main() -> None:
    """Publish and read until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    faults: list[str] = []
    counts: Counter[str] = Counter()
    readers = {topic: Reader(topic, faults) for topic in ("mqtt/x", "http/x")}
    publisher = mqtt.Client(CallbackAPIVersion.VERSION2, "publisher", protocol=mqtt.MQTTv5)
    for client in (publisher, *(reader.client for reader in readers.values())):
        connect(client)
    door = Client(HTTP)
    number = posted = 0
    while not ended.wait(PACE):
        publisher.publish("mqtt/x", str(number), qos=1).wait_for_publish(30)
        number += 1
        try:
            door.publish("http/x", posted)
            posted += 1
        except (DoorError, OSError) as error:
            counts[f"http: {type(error).__name__}"] += 1
    time.sleep(2.0)
    for topic, published in (("mqtt/x", number), ("http/x", posted)):
        if readers[topic].last != published - 1:
            faults.append(f"{topic}: {published} published, the last that came is {readers[topic].last}")
    found = {"mqtt": number, "http": posted, **counts, "faults": faults}
    (Path(sys.argv[1]) / "report-clients").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
