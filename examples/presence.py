"""A boiler that promises a rate, and a panel that notices its silence. Run it in one terminal; both run in it."""

from __future__ import annotations

import threading

import glue

PERIOD = 0.2


def main() -> None:
    """Watch a publisher come, keep its promise for a while, fall silent and leave."""
    silent, gone = threading.Event(), threading.Event()

    def changed(change: glue.Presence) -> None:
        print("+" if change.present else "-", change.kind, change.name, change.pattern, change.reason)
        if not change.present and change.kind == "endpoint":
            gone.set()

    def deadline(silence: glue.Silence) -> None:
        print(f"{silence.publisher} is silent on {silence.topic}")
        silent.set()

    with glue.Endpoint("panel") as panel:
        panel.on_deadline = deadline
        panel.watch_presence("home/#", changed)
        panel.subscribe("home/boiler", deadline=PERIOD)
        with glue.Endpoint("boiler") as boiler:
            boiler.announce("home/boiler", publish_every=PERIOD)
            for step in range(3):
                boiler.publish("home/boiler", 60 + step)
            silent.wait(10)
        gone.wait(10)


if __name__ == "__main__":
    main()
