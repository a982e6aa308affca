"""A boiler that remembers its readings, and a display that joins late. Both endpoints are in this process."""

from __future__ import annotations

import glue


def main() -> None:
    """Publish, join late in three ways, and go on live."""
    with glue.Endpoint("boiler") as boiler, glue.Endpoint("display") as display:
        boiler.remember("boiler/+/temperature", last=1000, age="1h")
        for celsius in range(60, 65):
            boiler.publish("boiler/1/temperature", celsius)
        boiler.flush()  # so the display really joins late, also on a busy machine

        everything = display.subscribe("boiler/#", start="earliest")
        last_two = display.subscribe("boiler/#", last=2)
        lately = display.subscribe("boiler/#", start="-10m")
        print("everything:", [next(everything).payload for _ in range(5)])
        print("the last two:", [next(last_two).payload for _ in range(2)])
        print("the last ten minutes:", [next(lately).payload for _ in range(5)])

        boiler.publish("boiler/1/temperature", 65)
        print("live:", next(everything).payload, next(last_two).payload, next(lately).payload)


if __name__ == "__main__":
    main()
