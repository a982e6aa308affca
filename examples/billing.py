"""A billing service that goes on where it left off: after its end, elsewhere, and after a handler that failed."""

from __future__ import annotations

import tempfile
import threading

import glue


def main() -> None:
    """Handle orders, stop, and go on elsewhere."""
    with tempfile.TemporaryDirectory() as folder, glue.Endpoint("keeper") as keeper, glue.Endpoint("shop") as shop:
        keeper.keep("orders/#", data_dir=folder)
        shop.wait_for_keepers("orders/books", timeout=5)
        for title in ("Emma", "Persuasion", "Sanditon"):
            shop.publish("orders/books", title)

        with glue.Endpoint("billing-1") as one:
            orders = one.subscribe("orders/#", consumer="billing")
            for _ in range(2):
                order = orders.get(timeout=5)
                print("billing-1:", order.payload)
                order.acknowledge()

        handled = threading.Event()
        tries: list[object] = []

        def bill(order: glue.Message) -> None:
            tries.append(order.payload)
            if len(tries) == 1:
                order.refuse()  # as an exception does, which would be logged
                print("billing-2: the bank does not answer")
                return
            print("billing-2:", order.payload, "again" if order.redelivered else "")
            handled.set()

        with glue.Endpoint("billing-2") as two:
            two.subscribe("orders/#", bill, consumer="billing")
            handled.wait(5)
            two.flush(5)
        for consumer in shop.consumers():
            print(consumer.name, "is", consumer.lag, "behind")


if __name__ == "__main__":
    main()
