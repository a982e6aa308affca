"""A shop whose orders are on disk before it goes on: killed or not, the keeper has each acknowledged order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import glue


def main() -> None:
    """Publish orders, wait until they are on disk, and find them again after a restart of the keeper."""
    with tempfile.TemporaryDirectory() as folder, glue.Endpoint("shop") as shop:
        with glue.Endpoint("keeper") as keeper:
            keeper.keep("orders/#", data_dir=Path(folder, "log"), age="30d")
            shop.wait_for_keepers("orders/books", 1, timeout=5)
            receipt = shop.publish("orders/books", {"title": "Emma"}, receipt=True, acks="disk")
            print(receipt.wait(5), receipt.durable)
            acknowledged = 0
            for count in shop.publish_durable("orders/books", [{"title": "Persuasion"}, {"title": "Sanditon"}]):
                acknowledged = count
            print(acknowledged, "more orders are on disk")
        with glue.Endpoint("keeper") as keeper:
            log = keeper.keep("orders/#", data_dir=Path(folder, "log")).log
            found = log.read(lambda topic: topic.startswith("orders/"), offset=0)
            for _, record in found.records:
                for payload in record.payloads:
                    print(record.topic, payload.decode())


if __name__ == "__main__":
    main()
