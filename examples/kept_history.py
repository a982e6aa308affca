"""A keeper serves what a publisher published before it died. All endpoints are in this process."""

from __future__ import annotations

import tempfile

import glue


def main() -> None:
    """Publish, let the publisher end, and read what it published."""
    with (
        tempfile.TemporaryDirectory() as folder,
        glue.Endpoint("keeper") as keeper,
        glue.Endpoint("display") as display,
    ):
        keeper.keep("boiler/#", data_dir=folder, age="30d")
        with glue.Endpoint("boiler") as boiler:
            boiler.wait_for_keepers("boiler/1/temperature", timeout=5)
            receipts = [
                boiler.publish("boiler/1/temperature", celsius, receipt=True, acks="disk") for celsius in range(60, 65)
            ]
            print("on disk:", all(receipt.wait(5) for receipt in receipts))

        readings = display.subscribe("boiler/#", start="earliest")
        for _ in range(5):
            message = next(readings)
            print(message.publisher, message.topic, message.payload)


if __name__ == "__main__":
    main()
