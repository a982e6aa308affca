"""A subscriber that is known by name gets its messages when it returns, also from a publisher that was restarted."""

from __future__ import annotations

import tempfile
import threading

import glue


def main() -> None:
    """Leave, miss orders of two lives of the shop, raise an alert, and return."""
    alerted = threading.Event()

    def alert(news: glue.ConsumerAlert) -> None:
        if not alerted.is_set():
            print("alert:", news.kind, news.name)
            alerted.set()

    with tempfile.TemporaryDirectory() as folder, glue.Endpoint("keeper", consumer_alert=2.0) as keeper:
        keeper.on_consumer_alert = alert
        keeper.keep("orders/#", data_dir=folder)

        def sell(*titles: str) -> None:
            """One life of the shop."""
            with glue.Endpoint("shop") as shop:
                shop.wait_for_keepers("orders/books", timeout=5)
                for title in titles:
                    shop.publish("orders/books", title, receipt=True, acks="disk").wait(5)

        with glue.Endpoint("billing") as billing:
            orders = billing.subscribe("orders/#", consumer="billing")
            sell("Emma")
            order = orders.get(timeout=5)
            print("billed:", order.payload)
            order.acknowledge()
            billing.flush(5)

        sell("Persuasion")
        sell("Sanditon")
        alerted.wait(10)

        with glue.Endpoint("billing") as billing:
            orders = billing.subscribe("orders/#", consumer="billing")
            for _ in range(2):
                order = orders.get(timeout=5)
                print("billed:", order.payload)
                order.acknowledge()
            billing.flush(5)


if __name__ == "__main__":
    main()
